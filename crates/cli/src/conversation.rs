//! Conversations in files: reading one, and recognising one that was imported before.

use std::io::Read;
use std::path::Path;

use unisono_context::Digest;
use unisono_daemon::transcript::{self, Format, Options, Parsed, Stamps};
use unisono_runtime::clock;
use unisono_session::machine::Import;

use crate::output::Out;
use crate::problem::{Exit, Problem, Result};
use crate::show;

pub(crate) use unisono_daemon::transcript::SOURCE_DIGEST as DIGEST;
use unisono_daemon::transcript::SOURCE_NAME as NAME;

/// Why a conversation was not read.
#[derive(Debug)]
pub enum ReadError {
    /// The file cannot be read.
    File(std::path::PathBuf, std::io::Error),
    /// It holds no conversation, or bad lines.
    Content(transcript::Error),
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReadError::File(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            ReadError::Content(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {}

/// Reads a conversation in any known format.
///
/// # Errors
/// The file cannot be read, or holds no conversation, or has bad lines.
pub fn read_conversation(path: &Path) -> std::result::Result<Parsed, ReadError> {
    let bytes = std::fs::read(path).map_err(|error| ReadError::File(path.to_owned(), error))?;
    let options = Options {
        name: path.display().to_string(),
        ..Options::default()
    };
    parse(&bytes, &options).map_err(ReadError::Content)
}

fn parse(bytes: &[u8], options: &Options) -> std::result::Result<Parsed, transcript::Error> {
    let stamps = Stamps {
        ids: &mut clock::new_id,
        now: clock::now(),
    };
    transcript::read(bytes, options, stamps)
}

/// What was left out of a conversation because it is bad.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeftOut {
    /// Messages, and lines that are none.
    pub(crate) messages: usize,
    /// Parts of messages that were taken without them.
    pub(crate) parts: usize,
}

impl LeftOut {
    /// Says how much it is, where it is something.
    pub(crate) fn say(self, out: &Out) {
        let many = |count: usize, what| (count > 0).then(|| show::many(count as u64, what));
        let messages = many(self.messages, "bad message");
        let parts = many(self.parts, "bad part").map(|parts| format!("{parts} of others"));
        let what: Vec<String> = messages.into_iter().chain(parts).collect();
        if !what.is_empty() {
            let what = what.join(" and ");
            out.say(format_args!("left out   {what}: not part of the session"));
        }
    }

    /// Ends so that a script notices, where something was left out.
    pub(crate) fn ending(self) -> Result<()> {
        match self.messages + self.parts {
            0 => Ok(()),
            _ => Err(Problem::silent(Exit::SomeFailed)),
        }
    }
}

/// A file's bytes, and what it is called.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Reads a conversation's file, or standard input where it is `-`.
pub(crate) fn open(file: &str) -> Result<Source> {
    open_as(file, "a conversation's file")
}

/// Reads a file that is to be of that kind, or standard input where it is `-`.
pub(crate) fn open_as(file: &str, kind: &str) -> Result<Source> {
    let (name, read) = if file == "-" {
        let mut bytes = Vec::new();
        let read = std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map(|_| bytes);
        ("standard input".to_owned(), read)
    } else {
        (file.to_owned(), std::fs::read(file))
    };
    match read {
        Ok(bytes) => Ok(Source { name, bytes }),
        Err(error) => {
            let what = match error.kind() {
                std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
                std::io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
                _ => error.to_string(),
            };
            let problem = Problem::usage(format!("cannot read {name}: {what}"));
            Err(problem.hint(format!("name {kind}, or `-` for standard input")))
        }
    }
}

impl Source {
    /// What a session made of it is labelled with.
    pub(crate) fn digest(&self) -> String {
        Digest::of_bytes(&self.bytes).to_string()
    }

    /// The last part of its name.
    pub(crate) fn file_name(&self) -> String {
        let file = Path::new(&self.name).file_name();
        file.map_or_else(|| self.name.clone(), |name| name.to_string_lossy().into())
    }

    /// The conversation, labelled, and what was left out of it; tells what that is, and what may
    /// not be meant.
    pub(crate) fn conversation(
        &self,
        format: Option<Format>,
        skip_bad: bool,
        out: &Out,
    ) -> Result<(Import, LeftOut)> {
        let options = Options {
            name: self.name.clone(),
            format,
            skip_bad,
        };
        let parsed = parse(&self.bytes, &options).map_err(refused)?;
        for warning in &parsed.warnings {
            out.warn(format_args!("{}:{warning}", self.name));
        }
        for skipped in &parsed.skipped {
            out.warn(format_args!("{}:{skipped}; it was left out", self.name));
        }
        let left_out = LeftOut {
            messages: parsed.skipped.len() - parsed.skipped_parts,
            parts: parsed.skipped_parts,
        };
        left_out.say(out);
        let mut import = parsed.import;
        import.labels.insert(DIGEST.into(), self.digest().into());
        import.labels.insert(NAME.into(), self.file_name().into());
        Ok((import, left_out))
    }
}

fn refused(error: transcript::Error) -> Problem {
    let text = error.to_string();
    match error {
        transcript::Error::Bad { .. } => match text.rsplit_once('\n') {
            Some((lines, what)) => Problem::failed(format!("bad lines\n{lines}")).hint(what),
            None => Problem::failed(text),
        },
        _ => match text.split_once("; ") {
            Some((what, hint)) => Problem::failed(what).hint(hint),
            None => Problem::failed(text),
        },
    }
}
