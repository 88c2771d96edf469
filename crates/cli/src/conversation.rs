//! Reads conversations from files, and recognises conversations that were imported before.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Cursor, Read, Seek, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use unisono::Service;
use unisono::conversation::read_labelled;
use unisono::spool::{Spool, SpooledData};
use unisono_api::Code;
use unisono_api::session::{Content, ImportFile, SessionListItem, SessionQuery};
use unisono_context::SessionId;
use unisono_interchange::transcript::{self, Conversation, Format, Options, SOURCE_DIGEST};
use unisono_session::machine::Import;

use crate::output::Out;
use crate::problem::{Exit, Problem, Result};
use crate::show;

/// The parts of a conversation that were skipped because they are invalid or unsupported.
#[derive(Clone, Debug, Default)]
pub(crate) struct SkippedParts {
    /// Whole conversations of a file of several.
    pub(crate) conversations: usize,
    /// Skipped messages, and lines that are not messages.
    pub(crate) messages: usize,
    /// Skipped parts of imported messages.
    pub(crate) parts: usize,
    /// The kinds of data that cannot be imported, with their numbers.
    pub(crate) behind: BTreeMap<String, u64>,
}

impl SkippedParts {
    /// Reports their number, unless it is 0.
    pub(crate) fn report(&self, name: &str, out: &Out) {
        for (what, count) in &self.behind {
            let many = show::many(*count, what);
            out.warn(format_args!("{name}: left behind: {many}"));
        }
        let many = |count: usize, what| (count > 0).then(|| show::many(count as u64, what));
        let messages = many(self.messages, "bad message");
        let parts = many(self.parts, "bad part").map(|parts| format!("{parts} of others"));
        let what: Vec<String> = messages.into_iter().chain(parts).collect();
        if !what.is_empty() {
            let what = what.join(" and ");
            out.message(format_args!("left out   {what}: not imported"));
        }
        if let Some(what) = many(self.conversations, "conversation") {
            out.message(format_args!("left out   {what}: not imported"));
        }
    }

    pub(crate) fn add(&mut self, other: &SkippedParts) {
        self.conversations += other.conversations;
        self.messages += other.messages;
        self.parts += other.parts;
        for (what, count) in &other.behind {
            *self.behind.entry(what.clone()).or_default() += count;
        }
    }

    /// Exits with a code of its own if anything was skipped.
    pub(crate) fn ending(&self) -> Result<()> {
        match self.conversations + self.messages + self.parts {
            0 => Ok(()),
            _ => Err(Problem::silent(Exit::SomeFailed)),
        }
    }
}

/// A file and its display name.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) held: SpooledData,
    /// Its position, if the file has several.
    begins: Option<(u32, u32)>,
}

/// Opens the file of a conversation, or standard input for `-`. A large input that can be read only
/// once is stored in the store's directory.
fn open(file: &str, store: &Path) -> Result<Source> {
    let name = file_title(file);
    let held = match file {
        "-" => spooled(std::io::stdin().lock(), store),
        path => File::open(path).and_then(|file| {
            let kind = file.metadata()?.file_type();
            match kind.is_file() {
                true => SpooledData::file(file),
                false => spooled(file, store),
            }
        }),
    };
    match held {
        Ok(held) => Ok(Source {
            name,
            held,
            begins: None,
        }),
        Err(error) => Err(unreadable(&name, "a conversation's file", &error)),
    }
}

/// Opens the days of one channel in Slack's export, several files or the directory that has them, as
/// one conversation; any other file as [`open`] does, and of the directory of an export its
/// conversations.
pub(crate) fn open_all(files: &[String], store: &Path) -> Result<Source> {
    let (name, days) = match files {
        [file] if Path::new(file).is_file() && is_day(Path::new(file)) && users(file).is_some() => {
            (file.as_str(), vec![PathBuf::from(file)])
        }
        [file] if !Path::new(file).is_dir() => return open(file, store),
        [directory] => match export_parts(Path::new(directory)) {
            parts if !parts.is_empty() => return open_parts(directory, &parts, store),
            _ => (directory.as_str(), days(Path::new(directory))?),
        },
        files => {
            let parent = Path::new(&files[0]).parent().and_then(Path::to_str);
            let name = parent.filter(|parent| !parent.is_empty());
            let paths = files.iter().map(PathBuf::from).collect();
            (name.unwrap_or(&files[0]), paths)
        }
    };
    let users = days.first().and_then(users).into_iter();
    let read = |path: PathBuf| {
        let name = path.display().to_string();
        let bytes = bytes_of(&name, "a conversation's file")?;
        Ok((name, bytes))
    };
    let files: Result<Vec<(String, Vec<u8>)>> = users.chain(days.clone()).map(read).collect();
    let joined = transcript::join_channel(&files?);
    let joined = joined.map_err(|error| {
        let hint = "several files are the days of one Slack channel: import others one by one";
        refused(error).hint(hint)
    })?;
    Ok(Source {
        name: name.trim_end_matches('/').to_owned(),
        held: SpooledData::Memory(Cursor::new(joined.into())),
        begins: None,
    })
}

/// The files with the conversations of an export: `conversations.json`, or `conversations-000.json`
/// and so on.
fn export_parts(directory: &Path) -> Vec<PathBuf> {
    let whole = directory.join("conversations.json");
    if whole.is_file() {
        return vec![whole];
    }
    let Ok(files) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let paths = files.filter_map(|file| Some(file.ok()?.path()));
    let mut parts: Vec<PathBuf> = paths.filter(|path| is_part(path)).collect();
    parts.sort();
    parts
}

/// The number of group chats in the directory of ChatGPT's export, or beside its file. They are in a
/// file of their own, which is not read.
pub(crate) fn group_chats(files: &[String]) -> u64 {
    let [only] = files else {
        return 0;
    };
    let path = Path::new(only);
    let is_export = path.ends_with("conversations.json") || is_part(path);
    let directory = match path.parent() {
        Some(parent) if is_export => parent,
        _ => path,
    };
    let json = std::fs::read(directory.join("group_chats.json"));
    json.map_or(0, |json| transcript::group_chats(&json))
}

/// Whether a file is named like a part of an export: `conversations-000.json`.
fn is_part(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| {
        let rest = name.strip_prefix("conversations-")?;
        rest.strip_suffix(".json")
    });
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Opens the parts of an export's list of conversations as one list.
fn open_parts(name: &str, parts: &[PathBuf], store: &Path) -> Result<Source> {
    if let [only] = parts {
        return open(&only.to_string_lossy(), store);
    }
    let mut spool = Spool::new(Some(store));
    let failed = |error: std::io::Error| unreadable(name, "a conversation's file", &error);
    let mut separator: &[u8] = b"[";
    for part in parts {
        let path = part.display().to_string();
        let bytes = bytes_of(&path, "a conversation's file")?;
        let Some(elements) = elements(&bytes) else {
            let problem = Problem::failed(format!("{path} is not a list of conversations"));
            let problem = problem.code(Code::Refused);
            return Err(problem.hint("get the export again: the file may be cut off"));
        };
        if !elements.is_empty() {
            spool.write_all(separator).map_err(failed)?;
            spool.write_all(elements).map_err(failed)?;
            separator = b",\n";
        }
    }
    let end: &[u8] = if separator == b"[" { b"[]" } else { b"]" };
    spool.write_all(end).map_err(failed)?;
    Ok(Source {
        name: name.trim_end_matches('/').to_owned(),
        held: spool.finish().map_err(failed)?,
        begins: None,
    })
}

/// The text between the brackets of a list.
fn elements(list: &[u8]) -> Option<&[u8]> {
    let text = list.strip_prefix(b"\xef\xbb\xbf").unwrap_or(list);
    let inner = text.trim_ascii().strip_prefix(b"[")?.strip_suffix(b"]")?;
    Some(inner.trim_ascii())
}

/// The file with the names of users beside a file of Slack's export, or above it.
fn users(day: impl AsRef<Path>) -> Option<PathBuf> {
    let directory = day.as_ref().parent()?;
    let places = [
        directory.join("users.json"),
        directory.join("../users.json"),
    ];
    places.into_iter().find(|users| users.is_file())
}

/// Whether a file is named like a day: `2024-05-07.json`.
fn is_day(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let day = name
        .and_then(|name| name.strip_suffix(".json"))
        .unwrap_or_default();
    day.len() == 10
        && day
            .bytes()
            .all(|byte| byte == b'-' || byte.is_ascii_digit())
}

fn days(directory: &Path) -> Result<Vec<PathBuf>> {
    let name = directory.display().to_string();
    let listed = std::fs::read_dir(directory).and_then(|files| {
        let paths = files.map(|file| Ok(file?.path()));
        paths.collect::<std::io::Result<Vec<PathBuf>>>()
    });
    let mut paths = listed.map_err(|error| unreadable(&name, "a directory", &error))?;
    paths.retain(|path| is_day(path));
    paths.sort();
    match paths.is_empty() {
        false => Ok(paths),
        true => {
            let problem = format!("{name} has no days of a channel, such as 2024-05-07.json");
            let hint = "name the directory of one channel of Slack's export, or a file";
            Err(Problem::usage(problem).hint(hint))
        }
    }
}

/// Reads a file of this kind, or standard input for `-`.
pub(crate) fn bytes_of(file: &str, kind: &str) -> Result<Vec<u8>> {
    let read = if file == "-" {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut bytes);
        read.map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    read.map_err(|error| unreadable(&file_title(file), kind, &error))
}

fn file_title(file: &str) -> String {
    match file {
        "-" => "standard input".to_owned(),
        file => file.to_owned(),
    }
}

fn spooled(mut input: impl Read, store: &Path) -> std::io::Result<SpooledData> {
    let mut spool = Spool::new(Some(store));
    std::io::copy(&mut input, &mut spool)?;
    spool.finish()
}

fn unreadable(name: &str, kind: &str, error: &std::io::Error) -> Problem {
    let what = match error.kind() {
        std::io::ErrorKind::NotFound => "the file does not exist".to_owned(),
        std::io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        _ => error.to_string(),
    };
    let problem = Problem::usage(format!("cannot read {name}: {what}"));
    problem.hint(format!("name {kind}, or `-` for standard input"))
}

/// A conversation of a file, with the options of its import.
#[derive(Debug)]
pub(crate) struct FileImport<'t> {
    pub(crate) import: Import,
    pub(crate) source: Source,
    pub(crate) format: Option<&'t str>,
    pub(crate) skip_bad: bool,
    /// Whether it gets a new session id although the file contains one.
    pub(crate) copy: bool,
}

impl FileImport<'_> {
    /// The file, read from its start.
    pub(crate) fn file(self) -> Result<ImportFile> {
        self.source.file(self.format, self.skip_bad, self.copy)
    }
}

/// The newest session that was made of the same text.
pub(crate) async fn imported_before(
    service: &dyn Service,
    import: &Import,
) -> Result<Option<SessionListItem>> {
    match import.labels.get(SOURCE_DIGEST) {
        Some(digest) => session_of_digest(service, digest).await,
        None => Ok(None),
    }
}

/// The newest session that was made of the text with this digest.
pub(crate) async fn session_of_digest(
    service: &dyn Service,
    digest: &str,
) -> Result<Option<SessionListItem>> {
    let mut query = SessionQuery {
        label: Some(format!("{SOURCE_DIGEST}={digest}")),
        limit: NonZeroUsize::new(1),
        ..SessionQuery::default()
    };
    loop {
        let mut page = service.sessions(&query).await?;
        if !page.items.is_empty() || page.next.is_none() {
            return Ok(page.items.pop());
        }
        query.cursor = page.next;
    }
}

pub(crate) async fn exists(service: &dyn Service, id: SessionId) -> Result<bool> {
    match service.session(&id.to_string()).await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Code::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Source {
    pub(crate) fn begins_with(&mut self, begin: &[u8]) -> Result<bool> {
        let mut first = Vec::with_capacity(begin.len());
        let limit = begin.len() as u64;
        let read = (&mut self.held).take(limit).read_to_end(&mut first);
        let read = read.and_then(|_| self.held.rewind());
        read.map_err(|error| unreadable(&self.name, "a conversation's file", &error))?;
        Ok(first == begin)
    }

    /// The last part of its name.
    pub(crate) fn file_name(&self) -> String {
        let file = Path::new(&self.name).file_name();
        file.map_or_else(|| self.name.clone(), |name| name.to_string_lossy().into())
    }

    /// The conversations of a file with several; none for any other file.
    pub(crate) fn conversations(
        &mut self,
        format: Option<Format>,
        skip_bad: bool,
    ) -> Result<Vec<Conversation>> {
        let options = self.options(format, skip_bad);
        let found = transcript::list(&mut self.held, &options).map_err(refused)?;
        let rewound = self.held.rewind();
        rewound.map_err(|error| unreadable(&self.name, "a conversation's file", &error))?;
        Ok(found)
    }

    pub(crate) fn part(&mut self, of: &Conversation) -> Result<Source> {
        let text = of.text(&mut self.held);
        let text = text.map_err(|error| unreadable(&self.name, "a conversation's file", &error))?;
        Ok(Source {
            name: self.name.clone(),
            held: SpooledData::Memory(Cursor::new(text.into())),
            begins: Some(of.place),
        })
    }

    /// The file for an import, read from its start.
    pub(crate) fn file(
        mut self,
        format: Option<&str>,
        skip_bad: bool,
        copy: bool,
    ) -> Result<ImportFile> {
        let rewound = self.held.rewind();
        rewound.map_err(|error| Problem::failed(format!("cannot read the file again: {error}")))?;
        Ok(ImportFile {
            name: self.file_name(),
            format: format.map(str::to_owned),
            pick: None,
            skip_bad,
            copy,
            bounded: false,
            content: match self.held {
                SpooledData::Memory(memory) => Content::Bytes(memory.into_inner()),
                SpooledData::File(file) => Content::File(file),
            },
        })
    }

    fn options(&self, format: Option<Format>, skip_bad: bool) -> Options {
        Options {
            name: self.name.clone(),
            format,
            skip_bad,
            most: None,
            begins: self.begins,
        }
    }

    /// The labelled conversation and its skipped parts. Reports them, and possible
    /// misinterpretations.
    pub(crate) fn conversation(
        &mut self,
        format: Option<Format>,
        skip_bad: bool,
        out: &Out,
    ) -> Result<(Import, SkippedParts)> {
        let (import, skipped) = self.read(format, skip_bad, out)?;
        skipped.report(&self.name, out);
        Ok((import, skipped))
    }

    /// As [`conversation`](Self::conversation), without the skipped parts.
    pub(crate) fn read(
        &mut self,
        format: Option<Format>,
        skip_bad: bool,
        out: &Out,
    ) -> Result<(Import, SkippedParts)> {
        let options = self.options(format, skip_bad);
        let file = self.file_name();
        let read = read_labelled(&mut self.held, &options, &file);
        let parsed = read.map_err(refused)?;
        for warning in &parsed.warnings {
            out.warn(format_args!("{}:{warning}", self.name));
        }
        for skipped in &parsed.skipped {
            out.warn(format_args!("{}:{skipped}; it was left out", self.name));
        }
        let skipped = SkippedParts {
            conversations: 0,
            messages: parsed.skipped.len() - parsed.skipped_parts,
            parts: parsed.skipped_parts,
            behind: parsed.dropped_content,
        };
        Ok((parsed.import, skipped))
    }
}

fn refused(error: transcript::Error) -> Problem {
    unread(error).code(Code::Refused)
}

fn unread(error: transcript::Error) -> Problem {
    let text = error.to_string();
    match error {
        transcript::Error::Several { .. } => Problem::usage(text).hint(
            "list them with `unisono import --list`, then import one with --pick or all with --all",
        ),
        transcript::Error::Bad { .. } => match text.rsplit_once('\n') {
            Some((lines, what)) => {
                let problem = Problem::failed(format!("bad lines\n{lines}"));
                problem.hint(format!(
                    "{what}; correct the lines, or skip them with --skip-bad"
                ))
            }
            None => Problem::failed(text),
        },
        _ => match text.split_once("; ") {
            Some((what, hint)) => Problem::failed(what).hint(hint),
            None => Problem::failed(text),
        },
    }
}
