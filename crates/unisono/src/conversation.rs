//! Conversations in files and in memory.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use unisono_context::message::NewMessage;
use unisono_context::{MessageId, Role};
use unisono_interchange::transcript::{self, Options, Parsed, SOURCE_DIGEST, SOURCE_NAME, Stamps};
use unisono_runtime::clock;
use unisono_session::machine::Import;

/// Why a conversation was not read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be read.
    File(std::path::PathBuf, std::io::Error),
    /// It contains no conversation, or bad lines.
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

/// The names of all formats in which conversations are read.
pub fn format_names() -> impl Iterator<Item = &'static str> {
    let formats = transcript::Format::ALL.into_iter();
    formats.map(transcript::Format::name)
}

/// The names of the formats in which sessions are exported.
pub fn written_format_names() -> impl Iterator<Item = &'static str> {
    let formats = transcript::Format::WRITTEN.into_iter();
    formats.map(transcript::Format::name)
}

/// Reads a conversation from a file in any known format. It blocks.
///
/// # Errors
/// The file cannot be read, contains no conversation, or has bad lines.
pub fn read_conversation(path: &Path) -> Result<Parsed, ReadError> {
    let file = File::open(path).map_err(|error| ReadError::File(path.to_owned(), error))?;
    let options = Options {
        name: path.display().to_string(),
        ..Options::default()
    };
    let stamps = Stamps {
        ids: &mut clock::new_id,
        now: None,
    };
    transcript::read_from(&mut BufReader::new(file), &options, stamps).map_err(ReadError::Content)
}

/// Reads a conversation from memory, in any known format; `name` appears in errors.
///
/// # Errors
/// The bytes contain no conversation, or have bad lines.
pub fn parse_conversation(name: &str, bytes: &[u8]) -> Result<Parsed, ReadError> {
    let options = Options {
        name: name.to_owned(),
        ..Options::default()
    };
    let stamps = Stamps {
        ids: &mut clock::new_id,
        now: None,
    };
    transcript::read(bytes, &options, stamps).map_err(ReadError::Content)
}

/// Reads a conversation and labels it with the digest of its text and the name of its file.
///
/// # Errors
/// It cannot be read, is no conversation, or has bad lines.
pub fn read_labelled(
    input: impl Read,
    options: &Options,
    file: &str,
) -> Result<Parsed, transcript::Error> {
    let stamps = Stamps {
        ids: &mut clock::new_id,
        now: None,
    };
    let (mut parsed, digest) = transcript::read_digested(input, options, stamps)?;
    let labels = &mut parsed.import.labels;
    labels.insert(SOURCE_DIGEST.into(), digest.to_string().into());
    labels.insert(SOURCE_NAME.into(), file.into());
    Ok(parsed)
}

/// The picked items; all if `picks` is empty.
///
/// # Errors
/// A pick that matches no item.
pub fn picked<T>(
    mut items: Vec<T>,
    picks: &[String],
    matches: impl Fn(&T, &str) -> bool,
) -> Result<Vec<T>, &str> {
    let is_unknown = |wanted: &&String| !items.iter().any(|item| matches(item, wanted));
    if let Some(unknown) = picks.iter().find(is_unknown) {
        return Err(unknown.as_str());
    }
    items.retain(|item| picks.is_empty() || picks.iter().any(|wanted| matches(item, wanted)));
    Ok(items)
}

/// A conversation that the program builds itself, message by message. The time of a message is the
/// time of the call that appends it. An [`Import`] also has authors, times, tool calls and branches.
///
/// ```
/// # use unisono::Conversation;
/// let talk = Conversation::new("The move")
///     .user("The shop moves on Friday.")
///     .assistant("Noted: the move is on Friday.");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Conversation(Import);

impl Conversation {
    /// An empty conversation with that title.
    pub fn new(title: impl Into<Arc<str>>) -> Conversation {
        Conversation(Import {
            title: title.into(),
            ..Import::default()
        })
    }

    /// Sets the system text, which every agent gets.
    #[must_use]
    pub fn system(mut self, text: impl Into<Arc<str>>) -> Conversation {
        self.0.system = text.into();
        self
    }

    /// Appends a message of the user.
    #[must_use]
    pub fn user(self, text: impl Into<Arc<str>>) -> Conversation {
        self.message(Role::User, text)
    }

    /// Appends a message of the assistant.
    #[must_use]
    pub fn assistant(self, text: impl Into<Arc<str>>) -> Conversation {
        self.message(Role::Assistant, text)
    }

    fn message(mut self, role: Role, text: impl Into<Arc<str>>) -> Conversation {
        let parent = self.0.messages.last().map(|(_, message)| message.id);
        let id = MessageId::from_u128(clock::new_id());
        let message = NewMessage::text(id, role, text, clock::now());
        self.0.messages.push((parent, message));
        self
    }
}

impl From<Conversation> for Import {
    fn from(conversation: Conversation) -> Import {
        conversation.0
    }
}
