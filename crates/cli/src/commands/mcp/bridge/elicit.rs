//! Approval of tool calls by the user of the client (elicitation). This program asks the client,
//! because the daemon's server cannot send requests over HTTP.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::TryStreamExt as _;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use unisono_api::Code;
use unisono_api::approval::{Decide, Verdict};
use unisono_api::service::{Approvals as _, Turns as _};
use unisono_client::{Client, Error};
use unisono_server::mcp;

use super::exchanged;
use super::progress::Progress;
use crate::live::Watch;

/// Open questions to the client, by id; none after it disconnected.
#[derive(Debug)]
pub(super) struct Questions {
    open: Mutex<Option<HashMap<String, oneshot::Sender<Value>>>>,
    next: AtomicU64,
}

type Open<'q> = MutexGuard<'q, Option<HashMap<String, oneshot::Sender<Value>>>>;

impl Questions {
    pub(super) fn new() -> Questions {
        Questions {
            open: Mutex::new(Some(HashMap::new())),
            next: AtomicU64::new(1),
        }
    }

    fn open(&self) -> Open<'_> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn reply(&self, reply: Value) {
        let id = reply["id"].as_str().unwrap_or_default();
        let asked = self.open().as_mut().and_then(|open| open.remove(id));
        // The question may have been withdrawn.
        asked.map(|asked| asked.send(reply).ok());
    }

    /// Drops all questions after the client disconnected.
    pub(super) fn close(&self) {
        self.open().take();
    }
}

/// The turn of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) session: String,
    pub(super) turn: String,
}

/// The turn of a request, once it is known.
pub(super) type SharedPosition = Arc<Mutex<Option<Place>>>;

/// The turn of a request; none if it is unknown or does not exist.
pub(super) fn turn_of(begun: &SharedPosition) -> Option<Place> {
    let begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
    begun.clone()
}

/// A tool call that may wait for a person.
pub(super) struct Caller {
    pub(super) say: mpsc::Sender<Value>,
    pub(super) client: Arc<Client>,
    pub(super) revision: Option<Arc<str>>,
    pub(super) questions: Arc<Questions>,
    pub(super) begun: SharedPosition,
}

/// The call in an answer that requires approval.
#[derive(Debug, PartialEq, Eq)]
struct WaitingAnswer {
    place: Place,
    call: String,
    question: Value,
}

impl WaitingAnswer {
    fn from_answer(answer: &Value) -> Option<WaitingAnswer> {
        let content = answer.pointer("/result/structuredContent")?;
        let mut waiting = content["waiting"].as_array()?.iter();
        let held = waiting.find(|waiting| waiting["kind"] == "approval")?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (agent, tool) = (held["agent"].as_str()?, held["tool"].as_str()?);
        Some(WaitingAnswer {
            place: Place {
                session: text(&content["turn"]["session"])?,
                turn: text(&content["turn"]["turn"])?,
            },
            call: text(&held["call"])?,
            question: mcp::question(agent, tool, held["arguments"].as_str()?),
        })
    }

    /// The request that waits for the end of the turn and replaces the original one.
    fn wait(&self, made: &Value) -> Value {
        let mut wait = made.clone();
        let Place { session, turn } = &self.place;
        wait["params"]["name"] = "wait".into();
        wait["params"]["arguments"] = json!({"session": session, "turn": turn});
        wait
    }
}

enum Reply {
    Decided(Verdict),
    Nobody,
    /// The call does not wait any more.
    Settled,
}

impl Caller {
    /// The answer to a tool call, once no waiting call can be decided by the client's user.
    ///
    /// # Errors
    /// The daemon has stopped or refuses.
    pub(super) async fn complete_answer(&self, mut message: Value) -> Result<Option<Value>, Error> {
        let tool = message["params"]["name"].clone();
        let mut progress = Progress::from_request(&message);
        loop {
            let (say, revision) = (&self.say, self.revision.as_deref());
            let answer = exchanged(say, &self.client, &message, revision, &mut progress).await?;
            let Some(held) = answer.as_ref().and_then(WaitingAnswer::from_answer) else {
                // The client called this tool, not the one that waits.
                let called = tool.as_str().filter(|_| message["params"]["name"] != tool);
                return Ok(answer.map(|answer| match called {
                    Some(called) => mcp::in_form_of(called, answer),
                    None => answer,
                }));
            };
            *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(held.place.clone());
            let asking = self.ask_user(&held);
            match progress.notify_until(say, asking).await? {
                Reply::Decided(decision) => self.decide(&held, decision).await?,
                Reply::Settled => {}
                Reply::Nobody => return Ok(answer),
            }
            message = held.wait(&message);
        }
    }

    async fn decide(&self, held: &WaitingAnswer, decision: Verdict) -> Result<(), Error> {
        let decide = Decide {
            decision,
            text: None,
        };
        match self.client.decide(&held.call, &decide).await {
            // Another client decided first.
            Err(Error::Problem(problem))
                if matches!(problem.code, Code::Conflict | Code::NotFound) =>
            {
                Ok(())
            }
            decided => decided.map(|_| ()),
        }
    }

    /// Asks the client's user, as long as the call waits.
    async fn ask_user(&self, held: &WaitingAnswer) -> Result<Reply, Error> {
        let Some((mut question, reply)) = Question::new(self) else {
            return Ok(Reply::Nobody);
        };
        let asks = json!({
            "jsonrpc": "2.0", "id": question.id, "method": "elicitation/create",
            "params": held.question,
        });
        if self.say.send(asks).await.is_err() {
            return Ok(Reply::Nobody);
        }
        tokio::select! {
            reply = reply => {
                question.is_open = false;
                let decided = reply.ok().and_then(|reply| mcp::approves(&reply["result"]));
                Ok(match decided {
                    Some(true) => Reply::Decided(Verdict::Approve),
                    Some(false) => Reply::Decided(Verdict::Deny),
                    None => Reply::Nobody,
                })
            }
            settled = self.settled(held) => match settled {
                Ok(()) => Ok(Reply::Settled),
                Err(error @ Error::Unreachable { .. }) => Err(error),
                // Withdraws the question before the error.
                Err(_) => Ok(Reply::Nobody),
            },
        }
    }

    /// Waits until a call does not wait for a person any more.
    async fn settled(&self, held: &WaitingAnswer) -> Result<(), Error> {
        let Place { session, turn } = &held.place;
        let mut watch = Watch::new(session.clone(), turn.clone());
        let mut updates = self.client.follow(session, turn, None).await?;
        while let Some(update) = updates.try_next().await? {
            watch.apply(&update.event);
            if !watch.waiting.iter().any(|call| call.call == held.call) {
                break;
            }
        }
        Ok(())
    }
}

/// A question to the client. Its drop withdraws it.
struct Question<'c> {
    caller: &'c Caller,
    id: String,
    is_open: bool,
}

impl Question<'_> {
    /// Waits for the reply; none if the client disconnected.
    fn new(caller: &Caller) -> Option<(Question<'_>, oneshot::Receiver<Value>)> {
        let number = caller.questions.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("unisono-{number}");
        let (send, reply) = oneshot::channel();
        caller.questions.open().as_mut()?.insert(id.clone(), send);
        let question = Question {
            caller,
            id,
            is_open: true,
        };
        Some((question, reply))
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.caller.questions.open().as_mut() {
            open.remove(&self.id);
        }
        if self.is_open {
            let params = json!({"requestId": self.id, "reason": "the call is no longer waiting"});
            // A client that does not read misses the message.
            let _ = self.caller.say.try_send(json!({
                "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_the_first_call_that_can_be_approved_and_how_to_go_on() {
        let call = |id: &str, kind: &str| {
            json!({"call": id, "agent": "clerk", "tool": "send", "arguments": "{}",
                   "kind": kind})
        };
        let answer = |waiting: Value| {
            json!({"id": 7, "result": {"structuredContent": {
                "turn": {"session": "s", "turn": "t"}, "waiting": waiting}}})
        };
        assert_eq!(WaitingAnswer::from_answer(&answer(Value::Null)), None);
        assert_eq!(
            WaitingAnswer::from_answer(&answer(json!([call("a", "in_doubt")]))),
            None
        );
        let all = json!([
            call("a", "in_doubt"),
            call("b", "approval"),
            call("c", "approval")
        ]);
        let held = WaitingAnswer::from_answer(&answer(all)).unwrap();
        assert_eq!(held.call, "b");
        let asked = held.question["message"].as_str().unwrap();
        assert!(asked.contains("clerk wants to call send"), "{asked}");
        let made = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
            "name": "ask", "arguments": {"task": "x"}, "_meta": {"progressToken": 1}}});
        assert_eq!(
            held.wait(&made),
            json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
                "name": "wait", "arguments": {"session": "s", "turn": "t"},
                "_meta": {"progressToken": 1}}})
        );
    }
}
