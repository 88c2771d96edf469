//! A conversation in a file, on its way to whoever makes a session of it; and what became of it.

use std::io::Seek;

use unisono::spool::Spooled;
use unisono_client::Content;
use unisono_context::SessionId;
use unisono_session::State;
use unisono_session::machine::Import;

use crate::conversation::Source;
use crate::problem::{Problem, Result};

/// A conversation in a file, and how it is taken.
#[derive(Debug)]
pub(crate) struct Taken<'t> {
    pub(crate) import: Import,
    pub(crate) source: Source,
    pub(crate) format: Option<&'t str>,
    pub(crate) skip_bad: bool,
    /// Whether it becomes another session where it says which one it is.
    pub(crate) copy: bool,
}

/// What became of a conversation.
#[derive(Debug)]
pub(crate) struct Imported {
    pub(crate) session: SessionId,
    pub(crate) title: String,
    pub(crate) messages: u64,
    pub(crate) branches: Vec<String>,
}

impl Imported {
    pub(crate) fn of(session: SessionId, state: &State) -> Imported {
        let branches = state.tree().branches();
        Imported {
            session,
            title: state.title().to_owned(),
            messages: state.tree().len() as u64,
            branches: branches.map(|(name, _)| name.to_owned()).collect(),
        }
    }
}

/// A file as it is sent.
pub(super) fn content(mut held: Spooled) -> Result<Content> {
    let rewound = held.rewind();
    rewound.map_err(|error| Problem::failed(format!("cannot read the file again: {error}")))?;
    Ok(match held {
        Spooled::Memory(memory) => Content::Bytes(memory.into_inner()),
        Spooled::File(file) => Content::File(file),
    })
}
