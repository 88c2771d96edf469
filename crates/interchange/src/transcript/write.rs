//! Writes conversations as text.

mod anthropic;
mod chat;
mod lossless;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use unisono_context::MessageId;
use unisono_context::attachment::{Extent, Files};
use unisono_context::message::Part;
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

/// Writes a session or one branch of it. The unisono format contains all branches unless one is
/// named. The others contain one branch, by default `main`. The contents of attachments in `files` are
/// written in all formats but ShareGPT, which has none.
///
/// # Errors
/// The branch or the session does not exist, or the format cannot be written.
pub fn write(
    state: &State,
    branch: Option<&str>,
    format: Format,
    files: &Files,
) -> Result<String, WriteError> {
    match (format, branch) {
        (Format::Unisono, None) => lossless::session(state, files),
        (Format::Unisono, Some(name)) => lossless::branch(state, name, head(state, name)?, files),
        (Format::OpenAi, name) => chat::openai(state, head(state, name.unwrap_or(MAIN))?, files),
        (Format::ShareGpt, name) => chat::sharegpt(state, head(state, name.unwrap_or(MAIN))?),
        (Format::Anthropic, name) => {
            anthropic::messages(state, head(state, name.unwrap_or(MAIN))?, files)
        }
        (format, _) => Err(WriteError::OnlyRead(format)),
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
