//! Writes conversations as text.

mod anthropic;
mod chat;
mod lossless;

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use unisono_context::attachment::{Extent, Files};
use unisono_context::message::{NewMessage, Part};
use unisono_context::{Digest, Message, MessageId};
use unisono_session::State;
use unisono_session::state::MAIN;

use super::Format;
use unisono_api::harmless::for_json;

/// Why a conversation was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// There is no such branch.
    #[error("branch {name:?} does not exist{}", .help.as_ref().map(|h| format!("; {h}")).unwrap_or_default())]
    UnknownBranch {
        /// The requested name.
        name: String,
        /// The most similar name, or all names.
        help: Option<String>,
    },
    /// The format cannot be written.
    #[error("the format {0} is for imports only: export as unisono, openai, sharegpt or anthropic")]
    OnlyRead(Format),
    /// The session has no id yet.
    #[error("the session does not exist yet")]
    NoSession,
    /// A value cannot be serialised: a defect of this program.
    #[error("internal: {0}")]
    Json(#[from] serde_json::Error),
}

/// Writes a session or one branch of it as a whole: see [`Export`]. `files` has the contents of all
/// attachments.
///
/// # Errors
/// The branch or the session does not exist, or the format cannot be written.
pub fn write(
    state: &State,
    branch: Option<&str>,
    format: Format,
    files: &Files,
) -> Result<String, WriteError> {
    let mut export = Export::new(Arc::new(state.clone()), branch, format)?;
    let mut out = String::new();
    while let Some(part) = export.next_part(files) {
        out.push_str(&part?);
    }
    Ok(out)
}

/// A session or one branch of it that is written part by part, so that the contents of its attachments
/// are not in memory together. The unisono format contains all branches unless one is named. The others
/// contain one branch, by default `main`. The contents of attachments are written in all formats but
/// ShareGPT, which has none.
#[derive(Debug)]
pub struct Export {
    state: Arc<State>,
    format: Format,
    sections: std::vec::IntoIter<Section>,
}

/// A part that is not written yet.
#[derive(Debug)]
enum Section {
    /// Without attachments.
    Text(String),
    Message(MessageId),
    /// A message that waits for the end of a turn, and the message that it will follow.
    Waiting(Box<NewMessage>, MessageId),
}

impl Export {
    /// Begins to write.
    ///
    /// # Errors
    /// The branch or the session does not exist, or the format cannot be written.
    pub fn new(
        state: Arc<State>,
        branch: Option<&str>,
        format: Format,
    ) -> Result<Export, WriteError> {
        let head_of = |name: Option<&str>| head(&state, name.unwrap_or(MAIN));
        let sections = match (format, branch) {
            (Format::Unisono, None) => lossless::session(&state)?,
            (Format::Unisono, Some(name)) => lossless::branch(&state, name, head(&state, name)?)?,
            (Format::OpenAi, name) => chat::openai(&state, head_of(name)?)?,
            (Format::ShareGpt, name) => {
                vec![Section::Text(chat::sharegpt(&state, head_of(name)?)?)]
            }
            (Format::Anthropic, name) => anthropic::messages(&state, head_of(name)?)?,
            (format, _) => return Err(WriteError::OnlyRead(format)),
        };
        Ok(Export {
            state,
            format,
            sections: sections.into_iter(),
        })
    }

    /// The attachments whose contents the next part has.
    pub fn wanted(&self) -> BTreeSet<Digest> {
        let parts = match self.sections.as_slice().first() {
            Some(Section::Message(id)) => {
                let node = self.state.tree().get(*id);
                node.map(|node| &*node.message.parts)
            }
            Some(Section::Waiting(message, _)) => Some(&*message.parts),
            Some(Section::Text(_)) | None => None,
        };
        let contents = parts.into_iter().flatten().filter_map(Part::content);
        contents.map(|content| content.digest).collect()
    }

    /// Writes the next part, with the contents of its attachments that are in `files`. None: there is no
    /// further part.
    pub fn next_part(&mut self, files: &Files) -> Option<Result<String, WriteError>> {
        let section = self.sections.next()?;
        Some(self.written(section, files))
    }

    fn written(&self, section: Section, files: &Files) -> Result<String, WriteError> {
        let id = match section {
            Section::Text(text) => return Ok(text),
            Section::Waiting(message, parent) => {
                return lossless::waiting_message(&message, parent, files);
            }
            Section::Message(id) => id,
        };
        let Some(node) = self.state.tree().get(id) else {
            return Ok(String::new());
        };
        let message: &Message = &node.message;
        match self.format {
            Format::OpenAi => chat::lines(message, files),
            Format::Anthropic => anthropic::blocks(message, files),
            _ => lossless::message(&self.state, message, files),
        }
    }
}

fn head(state: &State, name: &str) -> Result<MessageId, WriteError> {
    let tree = state.tree();
    tree.head(name).ok_or_else(|| WriteError::UnknownBranch {
        name: name.to_owned(),
        help: unisono_config::diagnostic::suggestion(name, tree.branches().map(|(name, _)| name)),
    })
}

/// An attachment whose bytes are here.
struct Kept<'m> {
    filename: &'m str,
    mime: &'m str,
    /// Its content in base64.
    data: String,
    is_image: bool,
}

impl<'m> Kept<'m> {
    fn new(part: &'m Part, files: &Files) -> Option<Kept<'m>> {
        let (filename, mime, content) = part.file()?;
        Some(Kept {
            filename,
            mime,
            data: STANDARD.encode(files.get(&content.digest)?),
            is_image: matches!(content.extent, Extent::Pixels { .. }),
        })
    }
}

fn line(out: &mut String, value: &impl serde::Serialize) -> Result<(), WriteError> {
    out.push_str(&for_json(&serde_json::to_string(value)?));
    out.push('\n');
    Ok(())
}
