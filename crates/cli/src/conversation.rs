//! Conversations in files: reading one, and recognising one that was imported before.

use std::io::Read;
use std::path::Path;

use unisono_context::Digest;
use unisono_daemon::transcript::{self, Format, Options, Parsed, Stamps};
use unisono_runtime::clock;
use unisono_session::machine::Import;

use crate::output::Out;
use crate::problem::{Problem, Result};

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

    /// The conversation, labelled, and how many bad lines or messages were left out; tells which,
    /// and what may not be meant.
    pub(crate) fn conversation(
        &self,
        format: Option<Format>,
        skip_bad: bool,
        out: &Out,
    ) -> Result<(Import, usize)> {
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
        let left_out = parsed.skipped.len();
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
