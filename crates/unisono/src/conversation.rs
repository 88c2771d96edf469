//! Conversations in files.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use unisono_interchange::transcript::{self, Options, Parsed, Stamps};
use unisono_runtime::clock;

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
pub fn read_conversation(path: &Path) -> Result<Parsed, ReadError> {
    let file = File::open(path).map_err(|error| ReadError::File(path.to_owned(), error))?;
    let options = Options {
        name: path.display().to_string(),
        ..Options::default()
    };
    let stamps = Stamps {
        ids: &mut clock::new_id,
        now: clock::now(),
    };
    transcript::read_from(&mut BufReader::new(file), &options, stamps).map_err(ReadError::Content)
}
