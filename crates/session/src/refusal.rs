//! The reasons why a session refuses an input.

use std::sync::Arc;

use unisono_context::checkpoint::RevertError;
use unisono_context::message::Role;
use unisono_context::{CallId, MessageId, RunId, TurnId, tree};

use crate::fold;
use crate::input::MAX_BRANCH;
use crate::state::RESERVED_LABELS;

/// The reason why an input was refused. Nothing was changed, except by [`Refusal::Fold`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The session exists and differs from the result of this import.
    #[error("the session already exists")]
    AlreadyCreated,
    /// The session does not exist.
    #[error("the session does not exist")]
    NotCreated,
    /// An import without a session id.
    #[error("the import names no session id")]
    NoSessionId,
    /// A label with a reserved name.
    #[error(
        "the label {0:?} is reserved: only the program sets names that begin with \
         \"{RESERVED_LABELS}\"; use another name, or omit it"
    )]
    ReservedLabel(Arc<str>),
    /// A label without a name.
    #[error("a label has no name: give it one, or omit it")]
    UnnamedLabel,
    /// The text is not a valid branch name.
    #[error(
        "{0:?} is not a valid branch name: use 1 to {MAX_BRANCH} characters without line ends and \
         control characters, and not only blanks"
    )]
    BranchName(Arc<str>),
    /// A message or branch does not fit the tree.
    #[error(transparent)]
    Tree(#[from] tree::Error),
    /// The branch does not exist.
    #[error("branch {0:?} does not exist")]
    UnknownBranch(Arc<str>),
    /// A turn is open on the branch.
    #[error("branch {0:?} is busy: a turn works on it")]
    BranchBusy(Arc<str>),
    /// Messages to append after the newest message of a branch no longer follow it.
    #[error("branch {0:?} has changed: read it again and repeat the request")]
    BranchMoved(Arc<str>),
    /// The message belongs to another branch.
    #[error("message {message} is not on branch {branch:?}")]
    NotOnBranch {
        /// The message.
        message: MessageId,
        /// The branch.
        branch: Arc<str>,
    },
    /// The checkpoint is not active on the branch.
    #[error(transparent)]
    NotActive(#[from] RevertError),
    /// There is no topic to end.
    #[error(
        "branch {branch:?} has no topic to seal: {}",
        match messages {
            0 => "its last topic is sealed, and no message followed",
            _ => "the current topic has one message, and a topic needs at least two",
        }
    )]
    NothingToSeal {
        /// The branch.
        branch: Arc<str>,
        /// Messages of the current topic.
        messages: u32,
    },
    /// The task is empty.
    #[error("the task is empty")]
    EmptyTask,
    /// The text that replaces a summary is empty.
    #[error("the summary is empty")]
    EmptySummary,
    /// The key was used with another request.
    #[error("the key {0:?} was already used for another request: use a new key")]
    KeyReused(Arc<str>),
    /// The message is empty.
    #[error("the message is empty: add text, an attachment, tool calls or tool results")]
    EmptyMessage,
    /// A role that does not match the parts of the message.
    #[error(
        "a message of role {role} cannot have such a part: user messages have text and attachments, \
         assistant messages text, attachments and tool calls, tool messages results, system \
         messages text"
    )]
    WrongParts {
        /// The role.
        role: Role,
    },
    /// The input of a turn is not a message of a user.
    #[error(
        "message {0} is not an input: it must be a user message with text and attachments only, or \
         tool results"
    )]
    NotAnInput(MessageId),
    /// A tool result answers no call.
    #[error(
        "no call {call_id:?} waits for a result at the end of branch {branch:?}: give each result of \
         the newest message's calls once"
    )]
    NotCalled {
        /// The id of the call.
        call_id: Arc<str>,
        /// The branch.
        branch: Arc<str>,
    },
    /// The turn is not open.
    #[error("turn {0} is not open")]
    UnknownTurn(TurnId),
    /// The run is not open.
    #[error("run {0} is not open")]
    UnknownRun(RunId),
    /// No call with this id waits for a person.
    #[error("no call {0} waits for a decision")]
    UnknownCall(CallId),
    /// The call was already decided.
    #[error("call {0} has already been decided")]
    AlreadyDecided(CallId),
    /// The decision does not fit the status of the call.
    #[error(
        "call {call} cannot be {decision}: {}",
        if *in_doubt {
            "it is in doubt; decide whether it was done, failed, or must be repeated"
        } else {
            "it waits for approval or denial"
        }
    )]
    WrongDecision {
        /// The call.
        call: CallId,
        /// The name of the decision.
        decision: &'static str,
        /// Whether the call is in doubt, so that it cannot be approved.
        in_doubt: bool,
    },
    /// An event that was just decided does not fold: a defect of this program. The machine must not
    /// be used any more; recover it from its journal.
    #[error("internal: a decided event does not fold: {0}")]
    Fold(#[from] fold::Error),
}
