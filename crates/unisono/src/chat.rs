//! A session as the chat of a page: where its next message continues, and the effect of a person's
//! replies to waiting calls.

use std::collections::BTreeMap;

use unisono_api::Code;
use unisono_api::approval::{Decide, Verdict};
use unisono_api::service::Approvals as _;
use unisono_context::message::{Message, Part, Role};
use unisono_context::{AgentId, MessageId, TurnId};
use unisono_runtime::Handle;
use unisono_session::State;
use unisono_session::run::calls::CallStatus;
use unisono_session::state::MAIN;

use crate::approvals::waiting_in;
use crate::error::Error;
use crate::local::Local;

/// The text for the model about a call in doubt that a person does not want repeated.
const NOT_REPEATED: &str = "the outcome of this call is unknown after a crash; a person did not \
                            want it repeated";

/// Maximum number of tries of one task.
const TRIES: usize = 10_000;

/// The position at which a message continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Continuation {
    /// This turn already has the message.
    Turn(TurnId),
    /// At the end of this branch.
    Branch(String),
    /// After this message, which is not the last one of any branch.
    Message(MessageId),
    /// At the end of the branch of the turn, which has no answer: it is open, failed, or was cancelled.
    Unanswered,
}

/// A person's reply to a waiting call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallAnswer {
    /// The call's id.
    pub call: String,
    /// Whether it may be made.
    pub is_approved: bool,
    /// Why not.
    pub reason: Option<String>,
    /// Whether the person was told that it may have been made: a crash left its outcome unknown.
    pub is_in_doubt: bool,
}

impl CallAnswer {
    /// A reply to the waiting call with that id.
    pub fn new(call: String, is_approved: bool, reason: Option<String>) -> CallAnswer {
        CallAnswer {
            call,
            is_approved,
            reason,
            is_in_doubt: false,
        }
    }

    /// The same reply, by a person who was told whether the call's outcome is unknown.
    #[must_use]
    pub fn in_doubt(self, is_in_doubt: bool) -> CallAnswer {
        CallAnswer {
            is_in_doubt,
            ..self
        }
    }
}

/// The position of a message that follows the answer of a turn. `key` is the key of the message's
/// turn.
///
/// # Errors
/// `conflict`: the turn is unknown.
pub async fn continuation(
    session: &Handle,
    before: TurnId,
    key: String,
) -> Result<Continuation, Error> {
    let look = move |state: &State| {
        if let Some((_, turn)) = state.turn_by_key(&key) {
            return Some(Continuation::Turn(turn));
        }
        let answer = match state.ended_turn(before) {
            Some(ended) => ended.answer,
            None => state.turn(before).map(|_| None)?,
        };
        let Some(answer) = answer else {
            return Some(Continuation::Unanswered);
        };
        let ending = state.tree().branches().filter(|(_, head)| *head == answer);
        let names = ending.map(|(name, _)| name);
        Some(match names.max_by_key(|name| *name == MAIN) {
            Some(name) => Continuation::Branch(name.to_owned()),
            None => Continuation::Message(answer),
        })
    };
    session.inspect(look).await?.ok_or_else(|| {
        let detail = format!(
            "messages: the answer before the last message is turn {before}, which is not known"
        );
        Error::new(Code::Conflict, detail)
    })
}

/// The author of a task that is worked on again: of the message with the same text after the answer of a
/// turn. None if no branch has such a message, nobody is named, or the caller may not name that author:
/// the task is then the caller's own.
///
/// # Errors
/// The session is gone.
pub async fn author_after(
    local: &Local,
    session: &Handle,
    before: TurnId,
    text: String,
) -> Result<Option<AgentId>, Error> {
    let look = move |state: &State| {
        let answer = state.ended_turn(before)?.answer?;
        let tree = state.tree();
        let next = tree.get(answer)?.ordinal().next();
        let heads = tree.branches().map(|(_, head)| head);
        let after = heads.filter_map(|head| tree.node_at(head, next));
        let mut same = after.filter(|node| {
            let message = &node.message;
            let is_after = message.parent == Some(answer) && message.role == Role::User;
            is_after && joined_text(message).trim() == text.trim()
        });
        same.find_map(|node| node.message.author.clone())
    };
    let author = session.inspect(look).await?;
    Ok(author.filter(|author| local.author_for(Some(author)).is_ok()))
}

/// The texts of a message, without its files.
fn joined_text(message: &Message) -> String {
    let texts = message.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(&**text),
        _ => None,
    });
    texts.collect::<Vec<&str>>().join("\n\n")
}

/// The number of ended turns under the first of these keys: how often a task without an id of its own
/// was worked on.
///
/// # Errors
/// The session is gone.
pub async fn ended_tries(
    session: &Handle,
    key: impl Fn(usize) -> String + Clone + Send + 'static,
) -> Result<usize, Error> {
    let look = move |state: &State| {
        let is_ended = |number: &usize| {
            let turn = state.turn_by_key(&key(*number));
            turn.is_some_and(|(_, turn)| state.ended_turn(turn).is_some())
        };
        (0..TRIES).take_while(is_ended).count()
    };
    Ok(session.inspect(look).await?)
}

impl Local {
    /// Decides waiting calls of a turn, or of the turn that it waits for. Other calls, already decided
    /// or of another turn, do not change. Neither does a call about which the person was told something
    /// else: an approval does not repeat a call whose outcome has become unknown.
    ///
    /// # Errors
    /// The session is gone, or its store accepts no writes.
    pub async fn answer_calls(
        &self,
        session: &Handle,
        turn: TurnId,
        answers: &[CallAnswer],
    ) -> Result<(), Error> {
        let look = move |state: &State| -> BTreeMap<String, bool> {
            let waiting = waiting_in(state, turn).into_iter();
            let calls =
                waiting.map(|one| (one.id.to_string(), one.call.status == CallStatus::InDoubt));
            calls.collect()
        };
        let waiting = session.inspect(look).await?;
        for answer in answers {
            if waiting.get(&answer.call) != Some(&answer.is_in_doubt) {
                continue;
            }
            match self.decide(&answer.call, &decision(answer)).await {
                // Another client has decided it before.
                Err(error) if error.code() == Code::Conflict => {}
                decided => drop(decided?),
            }
        }
        Ok(())
    }
}

/// The decision of a reply: a call in doubt is repeated or not, any other call is made or denied.
fn decision(answer: &CallAnswer) -> Decide {
    let (decision, text) = match (answer.is_approved, answer.is_in_doubt) {
        (true, false) => (Verdict::Approve, None),
        (true, true) => (Verdict::Repeat, None),
        (false, false) => (Verdict::Deny, answer.reason.clone()),
        (false, true) => {
            let reason = answer.reason.as_deref().map(|reason| format!(": {reason}"));
            let text = format!("{NOT_REPEATED}{}", reason.unwrap_or_default());
            (Verdict::Failed, Some(text))
        }
    };
    Decide { decision, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_a_call_in_doubt_repeats_or_leaves_it() {
        let rows = [
            (true, false, Verdict::Approve, None),
            (true, true, Verdict::Repeat, None),
            (false, false, Verdict::Deny, Some("too dear")),
            (false, true, Verdict::Failed, Some("repeated: too dear")),
        ];
        for (is_approved, is_in_doubt, verdict, text) in rows {
            let answer = CallAnswer {
                call: "c".into(),
                is_approved,
                reason: Some("too dear".into()),
                is_in_doubt,
            };
            let decided = decision(&answer);
            assert_eq!(decided.decision, verdict);
            match text {
                None => assert_eq!(decided.text, None),
                Some(end) => assert!(decided.text.unwrap().ends_with(end)),
            }
        }
    }
}
