//! Writes conversations as text.

mod anthropic;
mod chat;
mod lossless;

use unisono_context::MessageId;
use unisono_context::attachment::Files;
use unisono_session::State;
use unisono_session::state::MAIN;

use super::Format;
use unisono_api::harmless::for_json;

/// Why a conversation was not written.
#[derive(Debug, thiserror::Error)]
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
/// named, and the contents of attachments in `files`. The others contain one branch, by default
/// `main`.
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
        (Format::OpenAi, name) => chat::openai(state, head(state, name.unwrap_or(MAIN))?),
        (Format::ShareGpt, name) => chat::sharegpt(state, head(state, name.unwrap_or(MAIN))?),
        (Format::Anthropic, name) => anthropic::messages(state, head(state, name.unwrap_or(MAIN))?),
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

/// Writes one object and a line break.
fn line(out: &mut String, value: &impl serde::Serialize) -> Result<(), WriteError> {
    out.push_str(&for_json(&serde_json::to_string(value)?));
    out.push('\n');
    Ok(())
}
