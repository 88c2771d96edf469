//! The end of a try: the answer of an agent, or the reason why there is none.

use unisono_session::run::RunCause;

use super::journaled::AgentAnswer;
use super::peer::Peer;
use super::protocol::{Message, PROMPT, PromptResult};
use super::turn::Turn;
use crate::agent::{Answer, Failure};

/// A try without an answer.
pub(super) struct FailedTry {
    pub(super) failure: Failure,
    /// Whether the agent did nothing, so that it may get the task again.
    pub(super) is_over: bool,
}

impl From<Failure> for FailedTry {
    fn from(failure: Failure) -> FailedTry {
        FailedTry {
            failure,
            is_over: false,
        }
    }
}

/// The answer in the response to a prompt.
///
/// # Errors
/// The agent refused, was cancelled, or broke off.
pub(super) fn prompt_result(
    peer: &Peer,
    turn: &Turn,
    response: Message,
) -> Result<AgentAnswer, FailedTry> {
    let ended = |failure| FailedTry {
        failure,
        is_over: !turn.has_acted(),
    };
    if let Some(error) = response.error {
        return Err(ended(peer.refusal(PROMPT, &error)));
    }
    let PromptResult { stop_reason } = peer.read(PROMPT, response.result)?;
    let unanswered = turn.rejected().filter(|_| !turn.has_answer());
    let partial = match &*stop_reason {
        "end_turn" => {
            unanswered.map(|call| format!("the agent ended without permission for {call}"))
        }
        "max_tokens" => Some("the agent reached its limit of tokens".to_owned()),
        "max_turn_requests" => Some("the agent reached its limit of model calls".to_owned()),
        "refusal" => {
            let failure = peer.failure(RunCause::Refused, "refuses to go on");
            return Err(ended(failure));
        }
        "cancelled" => {
            let what = match turn.rejected() {
                Some(call) => format!("ended the task, because it got no permission for {call}"),
                None => "cancelled the task by itself".to_owned(),
            };
            return Err(ended(peer.failure(RunCause::Rejected, &what)));
        }
        other => {
            let what = format!("ended its turn with an unknown stop reason: {other}");
            return Err(peer.failure(RunCause::BadOutput, &what).into());
        }
    };
    Ok(AgentAnswer {
        text: turn.answer().to_owned(),
        partial,
        rejected: turn.rejected().map(str::to_owned),
    })
}

/// The answer of a run, with notes on kept worktrees.
///
/// # Errors
/// The agent gave no text, and no worktree is kept.
pub(super) fn answer(answered: AgentAnswer, kept: &[String]) -> Result<Answer, Failure> {
    let mut parts = vec![answered.text.trim().to_owned()];
    parts.extend(kept.iter().cloned());
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() {
        let reason = match answered.rejected {
            Some(call) => {
                format!("the agent ended its turn without a text, and got no permission for {call}")
            }
            None => "the agent ended its turn without a text".to_owned(),
        };
        return Err(Failure::new(RunCause::BadOutput, reason));
    }
    Ok(Answer {
        partial: answered.partial.map(Into::into),
        ..Answer::text(parts.join("\n\n"))
    })
}
