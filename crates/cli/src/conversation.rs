//! Reads conversations from files, and recognises conversations that were imported before.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use unisono::Service;
use unisono::spool::{Spool, SpooledData};
use unisono_api::Code;
use unisono_api::session::{Content, ImportFile, SessionListItem, SessionQuery};
use unisono_context::{Digest, SessionId};
use unisono_interchange::transcript::{self, Conversation, Format, Options, Parsed, Stamps};
use unisono_runtime::clock;
use unisono_session::machine::Import;

use crate::output::Out;
use crate::problem::{Exit, Problem, Result};
use crate::show;

pub(crate) use unisono_interchange::transcript::SOURCE_DIGEST as DIGEST;
use unisono_interchange::transcript::SOURCE_NAME as NAME;

fn parse(
    input: impl Read,
    options: &Options,
) -> std::result::Result<(Parsed, Digest), transcript::Error> {
    let stamps = Stamps {
        ids: &mut clock::new_id,
        now: None,
    };
    transcript::read_digested(input, options, stamps)
}

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
            out.message(format_args!("left out   {what}: unreadable"));
        }
    }

    /// Adds the skipped parts of another conversation.
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
    digest: String,
    /// Its position, if the file has several.
    begins: Option<(u32, u32)>,
}

/// Opens the file of a conversation, or standard input for `-`. A large input that can be read only
/// once is stored in the store's directory.
pub(crate) fn open(file: &str, store: &Path) -> Result<Source> {
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
            digest: String::new(),
            begins: None,
        }),
        Err(error) => Err(unreadable(&name, "a conversation's file", &error)),
    }
}

/// Opens the days of one channel in Slack's export, several files or the directory that has them, as
/// one conversation; any other file as [`open`] does, and of the directory of an export its
/// `conversations.json`.
pub(crate) fn open_all(files: &[String], store: &Path) -> Result<Source> {
    let (name, days) = match files {
        [file] if Path::new(file).is_file() && is_day(Path::new(file)) && users(file).is_some() => {
            (file.as_str(), vec![PathBuf::from(file)])
        }
        [file] if !Path::new(file).is_dir() => return open(file, store),
        [directory] => match Path::new(directory).join("conversations.json") {
            export if export.is_file() => return open(&export.to_string_lossy(), store),
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
    let joined = transcript::join_channel(&files?).map_err(refused)?;
    Ok(Source {
        name: name.trim_end_matches('/').to_owned(),
        held: SpooledData::Memory(Cursor::new(joined.into())),
        digest: String::new(),
        begins: None,
    })
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

/// The files of days in a directory.
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
        let name = self.source.file_name();
        let mut held = self.source.held;
        let rewound = held.rewind();
        rewound.map_err(|error| Problem::failed(format!("cannot read the file again: {error}")))?;
        Ok(ImportFile {
            name,
            format: self.format.map(str::to_owned),
            pick: None,
            skip_bad: self.skip_bad,
            copy: self.copy,
            bounded: false,
            content: match held {
                SpooledData::Memory(memory) => Content::Bytes(memory.into_inner()),
                SpooledData::File(file) => Content::File(file),
            },
        })
    }
}

/// The newest session with that label.
pub(crate) async fn labelled(
    service: &dyn Service,
    label: &str,
    value: &str,
) -> Result<Option<SessionListItem>> {
    let mut query = SessionQuery {
        label: Some(format!("{label}={value}")),
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

/// Whether a session with this id exists.
pub(crate) async fn exists(service: &dyn Service, id: SessionId) -> Result<bool> {
    match service.session(&id.to_string()).await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Code::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Source {
    /// The label of a session that was created from this file; known once the conversation was
    /// read.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Whether it begins so.
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

    /// One of its conversations.
    pub(crate) fn part(&mut self, of: &Conversation) -> Result<Source> {
        let text = of.text(&mut self.held);
        let text = text.map_err(|error| unreadable(&self.name, "a conversation's file", &error))?;
        Ok(Source {
            name: self.name.clone(),
            held: SpooledData::Memory(Cursor::new(text.into())),
            digest: String::new(),
            begins: Some(of.place),
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
        let (parsed, digest) = parse(&mut self.held, &options).map_err(refused)?;
        self.digest = digest.to_string();
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
        let mut import = parsed.import;
        import
            .labels
            .insert(DIGEST.into(), self.digest.as_str().into());
        import.labels.insert(NAME.into(), self.file_name().into());
        Ok((import, skipped))
    }
}

fn refused(error: transcript::Error) -> Problem {
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
