//! Conversations in files and in memory.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use unisono_context::message::NewMessage;
use unisono_context::{MessageId, Role};
use unisono_interchange::transcript::{self, Options, Parsed, Stamps};
use unisono_runtime::clock;
use unisono_session::machine::Import;

/// Why a conversation was not read.
#[derive(Debug)]
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

/// Reads a conversation in any known format.
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

/// A conversation that the program builds itself, message by message.
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
