//! A bridge of the Model Context Protocol between standard input and output and a daemon that has the
//! store open.

mod elicit;
mod progress;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{self, Instant};
use unisono_acp::{LONGEST_MESSAGE, Lines};
use unisono_api::service::Turns as _;
use unisono_client::{Client, Error};
use unisono_server::mcp;

use elicit::{Caller, Questions, SharedPosition, turn_of};
use progress::Progress;

use crate::live::Interrupts;
use crate::output::Out;
use crate::problem::{Problem, Result};

/// The key of the revision in messages of the current revision.
const REVISION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";
/// Maximum number of queued messages to the client.
const QUEUE: usize = 64;
/// The error code of an unreadable message.
const UNREADABLE: i64 = -32_700;
/// The error code of a failed request.
const FAILED: i64 = -32_603;
/// The error of a request that has no answer when the program ends.
const TOO_LATE: &str = "the input has ended, and no answer came within `server.drain_seconds`";

/// Forwards messages until the input ends, the program is stopped, or the daemon stops. After the end
/// of the input, open requests have the time `drain` for their answers.
pub(super) async fn run(
    out: &Out,
    client: Client,
    interrupts: &mut Interrupts,
    drain: Duration,
) -> Result<()> {
    let (say, mut said) = mpsc::channel(QUEUE);
    let mut lines = Lines::new(tokio::io::stdin(), LONGEST_MESSAGE);
    let mut bridge = Bridge {
        client: Arc::new(client),
        say,
        asked: JoinSet::new(),
        open: HashMap::new(),
        revision: None,
        can_ask: false,
        questions: Arc::new(Questions::new()),
    };
    let mut reading = true;
    let late = time::sleep(drain);
    tokio::pin!(late);
    while reading || !bridge.asked.is_empty() {
        tokio::select! {
            biased;
            _ = interrupts.next() => return Ok(()),
            Some(message) = said.recv() => out.json(&message),
            Some(done) = bridge.asked.join_next(), if !bridge.asked.is_empty() => task_result(done)?,
            () = late.as_mut(), if !reading => break,
            line = lines.next(), if reading => match line {
                Ok(Some(Ok(line))) => bridge.take(&line).await?,
                Ok(Some(Err(bad))) => {
                    bridge.refuse(bad.code(), &bad.to_string()).await?;
                }
                Ok(None) | Err(_) => {
                    reading = false;
                    late.as_mut().reset(Instant::now() + drain);
                    bridge.questions.close();
                }
            },
        }
    }
    while let Ok(message) = said.try_recv() {
        out.json(&message);
    }
    for error in bridge.unanswered() {
        out.json(&error);
    }
    Ok(())
}

/// Ends the program after the daemon has stopped.
fn task_result(done: Result<Result<(), Error>, tokio::task::JoinError>) -> Result<()> {
    match done {
        Ok(Err(error)) => Err(error.into()),
        Ok(Ok(())) => Ok(()),
        Err(error) if error.is_cancelled() => Ok(()),
        Err(error) => Err(Problem::failed(error)),
    }
}

/// The client of this program, and its requests.
struct Bridge {
    client: Arc<Client>,
    /// The messages to the client of this program.
    say: mpsc::Sender<Value>,
    asked: JoinSet<Result<(), Error>>,
    open: HashMap<String, OpenRequest>,
    revision: Option<Arc<str>>,
    /// Whether the client can ask a person.
    can_ask: bool,
    questions: Arc<Questions>,
}

struct OpenRequest {
    request: AbortHandle,
    /// The turn that a cancelled request cancels: a turn that the request began and that waits for a
    /// person. Before that the daemon cancels the turn itself.
    begun: Option<SharedPosition>,
}

impl Bridge {
    /// Answers a message whose id is unknown.
    async fn refuse(&self, code: i64, reason: &str) -> Result<()> {
        let refusal = refused(&Value::Null, code, reason);
        self.say.send(refusal).await.map_err(Problem::failed)
    }

    async fn take(&mut self, line: &str) -> Result<()> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let message: Value = match serde_json::from_str(line) {
            Ok(message) => message,
            Err(error) => return self.refuse(UNREADABLE, &error.to_string()).await,
        };
        let revision = self.revision.clone();
        match message["method"].as_str() {
            Some("initialize") => {
                let able = &message["params"]["capabilities"]["elicitation"];
                self.can_ask = mcp::can_elicit(able);
                let answer = passed(&self.say, &self.client, &message, None).await?;
                self.revision = answer.and_then(|answer| {
                    let revision = answer.pointer("/result/protocolVersion")?.as_str()?;
                    Some(Arc::from(revision))
                });
            }
            Some("notifications/cancelled") => {
                let id = message["params"]["requestId"].to_string();
                if let Some(asked) = self.open.remove(&id) {
                    asked.request.abort();
                    self.cancel(asked.begun.as_ref());
                }
            }
            None if message.get("result").or(message.get("error")).is_some() => {
                self.questions.reply(message);
            }
            _ if message.get("id").is_none() => {
                passed(&self.say, &self.client, &message, revision.as_deref()).await?;
            }
            _ => self.ask(message),
        }
        Ok(())
    }

    /// Forwards a request concurrently with others.
    fn ask(&mut self, message: Value) {
        let id = message["id"].to_string();
        self.open.retain(|_, asked| !asked.request.is_finished());
        // In the current revision an answer carries the questions, so it is forwarded unchanged.
        let asks = self.can_ask
            && message["method"] == "tools/call"
            && message.pointer(REVISION).is_none();
        let begun = SharedPosition::default();
        let begins = asks && message["params"]["name"] != "wait";
        let caller = Caller {
            say: self.say.clone(),
            client: self.client.clone(),
            revision: self.revision.clone(),
            questions: self.questions.clone(),
            begun: begun.clone(),
        };
        let request = self.asked.spawn(async move {
            if asks {
                let answer = caller.complete_answer(message.clone()).await;
                return send_answer(&caller.say, &message, answer).await.map(|_| ());
            }
            let (say, client) = (&caller.say, &caller.client);
            let revision = caller.revision.as_deref();
            passed(say, client, &message, revision).await.map(|_| ())
        });
        let begun = begins.then_some(begun);
        self.open.insert(id, OpenRequest { request, begun });
    }

    /// The errors of the requests that have no answer.
    fn unanswered(&self) -> impl Iterator<Item = Value> {
        let open = self.open.iter();
        let open = open.filter(|(_, asked)| !asked.request.is_finished());
        // The keys are JSON.
        let ids = open.filter_map(|(id, _)| serde_json::from_str::<Value>(id).ok());
        ids.map(|id| refused(&id, FAILED, TOO_LATE))
    }

    /// Cancels the turn of a cancelled request.
    fn cancel(&mut self, begun: Option<&SharedPosition>) {
        let Some(place) = begun.and_then(turn_of) else {
            return;
        };
        let client = self.client.clone();
        self.asked.spawn(async move {
            match client.cancel_turn(&place.session, &place.turn).await {
                Err(error @ Error::Unreachable { .. }) => Err(error),
                // The turn may have ended meanwhile.
                _ => Ok(()),
            }
        });
    }
}

/// Forwards a message and sends the responses to the client; returns the answer.
async fn passed(
    say: &mpsc::Sender<Value>,
    client: &Client,
    message: &Value,
    revision: Option<&str>,
) -> Result<Option<Value>, Error> {
    let mut progress = Progress::from_request(message);
    let answer = exchanged(say, client, message, revision, &mut progress).await;
    send_answer(say, message, answer).await
}

/// Forwards a message, sends the notifications before the answer to the client, and returns the
/// answer.
async fn exchanged(
    say: &mpsc::Sender<Value>,
    client: &Client,
    message: &Value,
    revision: Option<&str>,
    progress: &mut Progress,
) -> Result<Option<Value>, Error> {
    let mut messages = client.mcp(message, revision).await?;
    let mut answer = None;
    while let Some(text) = messages.next().await? {
        // A stream begins with an empty event.
        match serde_json::from_str::<Value>(&text) {
            Ok(mut said) if said.get("method").is_some() => {
                progress.renumber(&mut said);
                // The printer ends with the program.
                let _ = say.send(said).await;
            }
            Ok(said) => answer = Some(said),
            Err(_) => {}
        }
    }
    Ok(answer)
}

/// Sends the answer to a message to the client. A refusal is an answer; an error means that the
/// daemon has stopped.
async fn send_answer(
    say: &mpsc::Sender<Value>,
    message: &Value,
    answer: Result<Option<Value>, Error>,
) -> Result<Option<Value>, Error> {
    match answer {
        Ok(answer) => {
            if let Some(answer) = &answer {
                let _ = say.send(answer.clone()).await;
            }
            Ok(answer)
        }
        Err(error) => {
            if let Some(id) = message.get("id") {
                let _ = say.send(refused(id, FAILED, &error.to_string())).await;
            }
            match error {
                Error::Unreachable { .. } => Err(error),
                _ => Ok(None),
            }
        }
    }
}

fn refused(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}
