//! Turns as the tasks of other programs: each task has one id, a repeated message begins it once,
//! and the tasks of all sessions are listed by their last change.

mod list;

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use unisono_api::turn::Turn;
use unisono_context::digest::Hasher;
use unisono_context::{Digest, SessionId, TurnId};
use unisono_runtime::Handle;
use unisono_session::event::Outcome;
use unisono_session::machine::Import;

use crate::Local;
use crate::error::Error;
use crate::first_messages::{RANDOM_BITS, now_ms, time_bits};
use crate::labels::A2A_CHANNEL;

use list::Folds;
pub use list::{Place, Task, TaskPart, TaskQuery};

/// Version and variant of ids that begin with their time.
const TIMED: u128 = (7 << 76) | (2 << 62);

/// The error codes of turns and runs that were refused: the model declined, or a hook denied the task.
const REFUSALS: [&str; 2] = ["refused", "hook_denied"];

/// A task is a turn. Its id also names the session, so that it is found without a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
}

/// The text is not the id of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the task id is not valid: it has the form SESSION.TURN")]
pub struct NoTaskId;

impl Display for TaskId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.session, self.turn)
    }
}

impl FromStr for TaskId {
    type Err = NoTaskId;

    fn from_str(text: &str) -> Result<TaskId, NoTaskId> {
        let (session, turn) = text.split_once('.').ok_or(NoTaskId)?;
        Ok(TaskId {
            session: session.parse().map_err(|_| NoTaskId)?,
            turn: turn.parse().map_err(|_| NoTaskId)?,
        })
    }
}

/// The status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It waits for an earlier turn of its branch.
    Queued,
    /// It is in progress.
    Working,
    /// Calls of tools wait for a person.
    Waiting,
    /// It has an answer.
    Answered,
    /// It failed.
    Failed,
    /// The agent declined it, or a hook denied it.
    Refused,
    /// It was cancelled.
    Cancelled,
}

impl Status {
    /// The status of a turn. `is_waiting`: a call of it, or of the turn before a queued one, waits for
    /// a person.
    pub fn of_turn(turn: &Turn, is_waiting: bool) -> Status {
        match turn.state.as_str() {
            "queued" | "preparing" | "working" if is_waiting => Status::Waiting,
            "queued" => Status::Queued,
            "preparing" | "working" => Status::Working,
            "cancelled" => Status::Cancelled,
            "failed" => Status::failed(is_refused(turn)),
            _ => Status::Answered,
        }
    }

    /// The status of an ended turn. `is_declined`: its lead declined the task.
    fn ended(outcome: &Outcome, is_declined: bool) -> Status {
        match outcome {
            Outcome::Failed { code, .. } => Status::failed(is_declined || is_refusal(code)),
            Outcome::Cancelled => Status::Cancelled,
            _ => Status::Answered,
        }
    }

    const fn failed(is_refused: bool) -> Status {
        match is_refused {
            true => Status::Refused,
            false => Status::Failed,
        }
    }

    /// Whether nothing changes any more.
    pub const fn is_ended(self) -> bool {
        !matches!(self, Status::Queued | Status::Working | Status::Waiting)
    }
}

/// Whether a failed turn was refused. The error of its lead says that a model declined.
fn is_refused(turn: &Turn) -> bool {
    let lead = turn.runs.iter().find(|run| run.role == "lead");
    let lead = lead.and_then(|lead| lead.error.as_ref());
    let mut errors = turn.error.iter().chain(lead);
    errors.any(|error| is_refusal(&error.code))
}

fn is_refusal(code: &str) -> bool {
    REFUSALS.contains(&code)
}

/// The state of tasks in memory.
#[derive(Debug, Default)]
pub struct Tasks {
    folds: Folds,
}

impl Tasks {
    /// The session that a message begins, and whether it was created now. A repeated message begins
    /// the same session for a day: the end of the session's id follows from the message.
    ///
    /// # Errors
    /// The store fails.
    pub async fn session(
        &self,
        local: &Local,
        message: Digest,
        title: &str,
    ) -> Result<(Handle, bool), Error> {
        let first_messages = &local.shared.first_messages;
        let _one = first_messages.begin().await;
        let end = end(local, message);
        let known = first_messages.session(&local.whole_journal(), end).await?;
        if let Some(known) = known
            && local.journal().exists(known).await?
        {
            return Ok((local.open(known).await?, false));
        }
        let new = SessionId::from_u128(time_bits(now_ms()) | TIMED | end);
        // Another program may have got the same request.
        let session = match local.cluster() {
            Some(cluster) => {
                let first = cluster.begun(end, Some(new.into())).await?;
                first.map_or(new, Into::into)
            }
            None => new,
        };
        if session != new && local.journal().exists(session).await? {
            first_messages.note(session);
            return Ok((local.open(session).await?, false));
        }
        let import = Import {
            session: Some(session),
            title: title.into(),
            labels: [(A2A_CHANNEL.0.into(), A2A_CHANNEL.1.into())].into(),
            ..Import::default()
        };
        let session = local.import(import).await?;
        first_messages.note(session.id());
        Ok((session, true))
    }

    /// The session that a message has begun at any program on the store; none if no other program
    /// uses the store, or no session is found.
    ///
    /// # Errors
    /// The store fails.
    pub async fn session_of_message(
        local: &Local,
        message: Digest,
    ) -> Result<Option<SessionId>, Error> {
        match local.cluster() {
            Some(cluster) => Ok(cluster
                .begun(end(local, message), None)
                .await?
                .map(Into::into)),
            None => Ok(None),
        }
    }

    /// A page of the tasks, most recently changed first, and their total number.
    ///
    /// # Errors
    /// `not_found`: the session; otherwise the store fails.
    pub async fn list(&self, local: &Local, query: &TaskQuery) -> Result<TaskPart, Error> {
        self.folds.list(local, query).await
    }
}

/// The part of a session's id that follows from the message that begins it, and from the owner of the
/// session: two people may send the same message, and one person may send it with several tokens.
fn end(local: &Local, message: Digest) -> u128 {
    let message = match local.caller().owner() {
        Some(owner) => Hasher::new("unisono/owned-message", 1)
            .bytes(message.to_string().as_bytes())
            .bytes(owner.as_bytes())
            .finish(),
        None => message,
    };
    let mut end = 0_u128;
    for byte in message.to_string().bytes().take(32) {
        end = (end << 4) | u128::from(char::from(byte).to_digit(16).unwrap_or_default());
    }
    end & RANDOM_BITS
}

#[cfg(test)]
mod tests;
