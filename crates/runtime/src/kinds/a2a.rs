//! An agent of another program, called with the Agent2Agent protocol (1.0).
//!
//! ```text
//! card ─► send ─► follow ─► answer
//!          │        └ cancelled: so is the remote task
//!          └ journaled before it is sent, and with the task that came of it
//! ```
//!
//! A later attempt or process follows the journaled task and sends nothing again. If it is unknown
//! whether a message arrived, the agent's contract decides: `idempotent` sends it again under the
//! same id, `at_most_once` fails.

mod card;
mod journaled;
mod outcome;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use a2a::{SendMessageResponse, StreamResponse, Task as RemoteTask, error_code};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use unisono_model::client::{HttpEndpoint, SurrogateJoiner};
use unisono_model::language::Class;
use unisono_model::provider::{Address, Settings};
use unisono_session::agent::A2a;
use unisono_session::run::{RunCause, is_blank};
use unisono_session::tool::Contract;

use super::command::MAX_OUTPUT_BYTES;
use super::http;
use crate::a2a_files::to_standard_base64;
use crate::agent::{Agent, Answer, Ctx, Failure, Task, request};
use crate::failure;
use card::Peer;
pub(crate) use journaled::is_message_begun;
use journaled::{Begun, MessageState, SendResult, Sending};
use outcome::Outcome;

const VERSION: [(&str, &str); 2] = [
    ("A2A-Version", a2a::VERSION),
    ("Content-Type", "application/json"),
];
/// The maximum size of a card, in bytes.
const CARD_BYTES: usize = 1024 * 1024;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The time without an event after which the task is polled instead of the stream.
const STREAM_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The first and the longest pause between two polls.
const POLL_PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Why a message that may have arrived is not sent again.
const DOUBT: &str = "nobody knows whether the remote agent was given the task before the program \
                     ended or the connection broke; it is not given it twice, because its contract \
                     is `at_most_once`. Set `contract = \"idempotent\"` if it knows messages by their \
                     ids";

/// Carries out definitions of kind `a2a`.
#[derive(Clone, Debug)]
pub(crate) struct A2aAgent {
    remote: A2a,
}

impl A2aAgent {
    pub(crate) fn new(remote: A2a) -> A2aAgent {
        A2aAgent { remote }
    }
}

impl Agent for A2aAgent {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Answer, Failure> {
        ctx.check_prefix()?;
        let peer = self.peer(&ctx).await?;
        // An agent that answers with a message alone does its whole work before it answers. The
        // attempt's own limit ends the wait.
        let limit = Duration::from_millis(ctx.definition().timeout_ms) + http::GRACE;
        let post = |first_byte| self.post(&ctx, &peer.url, MAX_OUTPUT_BYTES, first_byte);
        let (send, post) = (post(limit)?, post(REQUEST_TIMEOUT)?);
        let remote = Arc::new(Remote {
            send,
            post,
            peer,
            ctx,
        });
        let number = journaled::number(&remote.ctx.assignment().steps);
        let begun = remote.send_or_resume(number, self.remote.contract).await?;
        match begun {
            SendResult::Message(text) if is_blank(&text) => {
                let reason = "the remote agent answered with a message without a text";
                let blank = Failure::new(RunCause::BadOutput, reason);
                Err(remote.give_up(number, blank).await)
            }
            SendResult::Message(text) => Ok(Answer::text(text)),
            SendResult::Task(id) => remote.follow(number, id).await,
        }
    }
}

impl A2aAgent {
    /// Reads the card and returns the endpoint of the agent.
    async fn peer(&self, ctx: &Ctx) -> Result<Peer, Failure> {
        let at = card::address(&self.remote.url);
        let post = self.post(ctx, &at, CARD_BYTES, REQUEST_TIMEOUT)?;
        let card = post
            .fetch()
            .await
            .map_err(|failed| broken_connection(&at, &failed))?;
        let pinned = self.remote.card_digest.as_deref();
        let peer = card::read(&card, &self.remote.url, pinned);
        let peer = peer.map_err(|(cause, why)| Failure::new(cause, format!("{at}: {why}")))?;
        ctx.progress(format!("asking {} (card {})", peer.name, peer.digest));
        Ok(peer)
    }

    fn post(
        &self,
        ctx: &Ctx,
        url: &str,
        most: usize,
        first_byte: Duration,
    ) -> Result<HttpEndpoint, Failure> {
        let wrong = |reason: String| Failure::new(RunCause::BadInput, reason);
        let address = Address::endpoint(url).map_err(|error| wrong(error.to_string()))?;
        let mut settings = Settings::for_endpoint(ctx.definition().id.as_str(), address);
        let look = |name: &str| std::env::var(name).ok();
        let (headers, secrets) = http::headers(&self.remote.headers, look)?;
        settings.headers = headers;
        settings.timeouts.first_byte = first_byte;
        settings.timeouts.idle = STREAM_IDLE_TIMEOUT;
        settings.caps.response = most;
        settings.caps.stream.line = most;
        settings.caps.stream.event = most;
        HttpEndpoint::new(settings, &secrets).map_err(|error| wrong(error.to_string()))
    }
}

/// A remote agent, and the run that calls it.
struct Remote {
    send: HttpEndpoint,
    /// For all other requests.
    post: HttpEndpoint,
    peer: Peer,
    ctx: Ctx,
}

#[derive(Debug, Deserialize)]
struct RpcError {
    code: i64,
    message: String,
}

#[derive(Debug, Deserialize)]
struct Response {
    result: Option<Value>,
    error: Option<RpcError>,
}

/// The reason why a call has no result.
enum CallError {
    Refused(RpcError),
    /// The server refused the request, so the remote agent did not get it.
    NotTaken(Failure),
    /// It is unknown whether it arrived.
    Broken(Failure),
}

impl Remote {
    /// The result of the current message: the journaled one, or that of sending it now.
    async fn send_or_resume(&self, number: u32, contract: Contract) -> Result<SendResult, Failure> {
        let steps = &self.ctx.assignment().steps;
        let sending = MessageState::read(steps, number);
        if let Some(begun) = sending.begun {
            self.check_address(&begun)?;
            return Ok(begun.result);
        }
        if sending.is_sent && contract == Contract::AtMostOnce {
            return Err(Failure::new(RunCause::BadInput, DOUBT));
        }
        let id = format!("{}-{number}", http::key(self.ctx.assignment()));
        let name = journaled::sending_step(number);
        let sending = Sending::ByCard {
            id,
            card: self.peer.digest.to_string(),
            url: self.peer.url.clone(),
        };
        let sending: Sending = self.ctx.step(&name, async { Ok(sending) }).await?;
        let params = json!({"message": self.message(sending.id()),
            "configuration": {"returnImmediately": true, "acceptedOutputModes": self.peer.output}});
        let sent = match self.call_at(&self.send, "SendMessage", params).await {
            Ok(sent) => sent,
            Err(CallError::Refused(error)) => {
                let reason = format!("the remote agent refuses the task: {}", error.message);
                let cause = RunCause::Rejected;
                return Err(self.give_up(number, Failure::new(cause, reason)).await);
            }
            Err(CallError::NotTaken(failed)) => return Err(self.give_up(number, failed).await),
            Err(CallError::Broken(failed)) => return Err(after_sending(failed, contract)),
        };
        let result = match sent {
            SendMessageResponse::Task(task) => SendResult::Task(task.id),
            SendMessageResponse::Message(message) => {
                SendResult::Message(outcome::text_of(&message.parts))
            }
        };
        let begun = Begun {
            result,
            url: Some(self.peer.url.clone()),
        };
        let name = journaled::result_step(number);
        Ok(self.ctx.step(&name, async { Ok(begun) }).await?.result)
    }

    /// Refuses to follow a task at another address than the one that began it.
    fn check_address(&self, begun: &Begun) -> Result<(), Failure> {
        let (Some(url), SendResult::Task(task)) = (&begun.url, &begun.result) else {
            return Ok(());
        };
        let (now, card) = (&self.peer.url, self.peer.digest);
        if url == now {
            return Ok(());
        }
        let reason = format!(
            "task {task} was begun at {url}, and the agent's card now sends requests to {now}: the \
             task is not followed there. If that is right, set `card_digest = \"{card}\"` and give \
             the task again"
        );
        Err(Failure::new(RunCause::BadInput, reason))
    }

    /// The task with the agent's context as a message.
    fn message(&self, id: &str) -> Value {
        let assignment = self.ctx.assignment();
        let document = request::document(assignment, self.ctx.prefix()).concat();
        let task = json!({"text": &*assignment.task});
        let context = match (
            self.peer.takes_data,
            serde_json::from_slice::<Value>(&document),
        ) {
            (true, Ok(document)) => json!({"data": document, "mediaType": "application/json"}),
            _ => json!({"text": String::from_utf8_lossy(&document)}),
        };
        json!({"messageId": id, "role": "ROLE_USER", "parts": [task, context]})
    }

    async fn follow(self: &Arc<Remote>, number: u32, id: String) -> Result<Answer, Failure> {
        let mut watch = CancelGuard::new(self, &id);
        let mut wait = POLL_PAUSES.0;
        let mut was_settled = false;
        loop {
            match self.task_outcome(&id).await {
                Ok(Outcome::Answered { text, partial }) => {
                    watch.is_over = true;
                    return Ok(Answer {
                        partial: partial.map(Into::into),
                        ..Answer::text(text)
                    });
                }
                Ok(Outcome::Ended(ended)) => {
                    watch.is_over = true;
                    return Err(self.give_up(number, ended).await);
                }
                Ok(Outcome::Asks(question)) => {
                    watch.is_over = true;
                    self.cancel(&id).await;
                    let reason = format!(
                        "the remote agent asks a question that cannot be answered here: {question}"
                    );
                    let asks = Failure::new(RunCause::Rejected, reason);
                    return Err(self.give_up(number, asks).await);
                }
                Ok(Outcome::Working) => {}
                Err(failed) if failed.cause == RunCause::Unavailable => {
                    self.ctx
                        .progress(format!("asked again soon: {}", failed.reason));
                }
                Err(failed) => return Err(failed),
            }
            // The outcome of a settled task is read at once, but only once: a server may report
            // another state than its stream.
            let is_settled = self.peer.is_streaming && self.listen(&id).await;
            if is_settled && !std::mem::replace(&mut was_settled, true) {
                continue;
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(POLL_PAUSES.1);
        }
    }

    /// The current state of the task.
    async fn task_outcome(&self, id: &str) -> Result<Outcome, Failure> {
        match self.call::<RemoteTask>("GetTask", json!({"id": id})).await {
            Ok(task) => Ok(outcome::read(&task)),
            Err(CallError::Refused(error)) => {
                let gone = error.code == i64::from(error_code::TASK_NOT_FOUND);
                let reason = format!(
                    "the remote agent does not report task {id}: {}",
                    error.message
                );
                let failure = Failure::new(RunCause::Rejected, reason);
                match gone {
                    true => Ok(Outcome::Ended(failure)),
                    false => Err(failure),
                }
            }
            Err(CallError::NotTaken(failed) | CallError::Broken(failed)) => Err(failed),
        }
    }

    /// Reports the progress of the remote task while its stream lasts; returns whether the task has
    /// ended or waits for input.
    async fn listen(&self, id: &str) -> bool {
        let body = self.rpc("SubscribeToTask", json!({"id": id}));
        let (mut settled, mut bytes) = (false, 0_usize);
        let streamed = self.post.stream(&VERSION, body, |data| {
            let response: Option<Response> = serde_json::from_str(data).ok();
            let update = response.and_then(|response| response.result);
            let Some(Ok(update)) = update.map(read_object::<StreamResponse>) else {
                return ControlFlow::Break(());
            };
            settled = match &update {
                StreamResponse::Task(task) => outcome::is_settled(&task.status.state),
                StreamResponse::StatusUpdate(update) => {
                    let said = update.status.message.as_ref();
                    if let Some(said) = said.map(|said| outcome::text_of(&said.parts)) {
                        self.ctx.progress(said);
                    }
                    outcome::is_settled(&update.status.state)
                }
                StreamResponse::ArtifactUpdate(update) => {
                    bytes += outcome::text_of(&update.artifact.parts).len();
                    self.ctx
                        .progress(format!("answering, {} KB so far", bytes.div_ceil(1_000)));
                    false
                }
                StreamResponse::Message(_) => true,
            };
            match settled {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        if let Err(error) = streamed.await {
            tracing::debug!(error = error.reason, "a remote task is not streamed");
            return false;
        }
        settled
    }

    /// Cancels the remote task, if it can be cancelled.
    async fn cancel(&self, id: &str) {
        if let Err(CallError::NotTaken(failed) | CallError::Broken(failed)) =
            self.call::<Value>("CancelTask", json!({"id": id})).await
        {
            tracing::warn!(task = id, error = %failed.reason, "a remote task is not cancelled");
        }
    }

    /// Journals that the message has no result: another attempt sends a new message.
    async fn give_up(&self, number: u32, failure: Failure) -> Failure {
        let name = journaled::over_step(number);
        let reason = failure.reason.to_string();
        match self.ctx.step(&name, async { Ok(reason) }).await {
            Ok(_) => failure,
            Err(unwritten) => unwritten,
        }
    }

    /// A JSON-RPC request, to the tenant of the card.
    fn rpc(&self, method: &str, mut params: Value) -> Vec<u8> {
        if let Some(tenant) = &self.peer.tenant {
            params["tenant"] = tenant.as_str().into();
        }
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        request.to_string().into_bytes()
    }

    async fn call<T: DeserializeOwned>(&self, method: &str, params: Value) -> Result<T, CallError> {
        self.call_at(&self.post, method, params).await
    }

    async fn call_at<T: DeserializeOwned>(
        &self,
        endpoint: &HttpEndpoint,
        method: &str,
        params: Value,
    ) -> Result<T, CallError> {
        let answered = endpoint.call(&VERSION, self.rpc(method, params)).await;
        let url = &self.peer.url;
        let answered = answered.map_err(|failed| {
            let failure = broken_connection(url, &failed);
            let is_over_limit = matches!(
                failed.class,
                Class::RateLimited { .. } | Class::Overflow { .. }
            );
            match is_over_limit || failure.cause == RunCause::Rejected {
                true => CallError::NotTaken(failure),
                false => CallError::Broken(failure),
            }
        })?;
        let garbled = |error: serde_json::Error| {
            let reason = format!("{url} answered {method} with an invalid response: {error}");
            CallError::Broken(Failure::new(RunCause::BadOutput, reason))
        };
        // A server may cut a text in the middle of a character.
        let answered = String::from_utf8_lossy(&answered);
        let answered = SurrogateJoiner::default().join_halves(&answered);
        let response: Response = serde_json::from_str(&answered).map_err(garbled)?;
        if let Some(error) = response.error {
            return Err(CallError::Refused(error));
        }
        read_object(response.result.unwrap_or_default()).map_err(garbled)
    }
}

/// An object of the protocol; its files may be in either alphabet of base64. A task need not have a
/// context, but its type does.
fn read_object<T: DeserializeOwned>(mut object: Value) -> serde_json::Result<T> {
    to_standard_base64(&mut object);
    let task = match object.get("task").is_some() {
        true => object.get_mut("task"),
        false => Some(&mut object),
    };
    if let Some(Value::Object(task)) = task
        && task.contains_key("status")
    {
        task.entry("contextId").or_insert_with(|| "".into());
    }
    serde_json::from_value(object)
}

fn broken_connection(url: &str, failed: &unisono_model::dialect::Failure) -> Failure {
    let cause = match failed.class {
        Class::BadRequest | Class::Unauthorised => RunCause::Rejected,
        class => failure::cause_of_class(class),
    };
    Failure {
        wait_ms: failed.class.retry_after_ms(),
        ..Failure::new(cause, format!("{url}: {}", failed.reason))
    }
}

/// The failure of a message that was sent and has no result. Another attempt follows only if the
/// message may be sent again and had no complete response.
fn after_sending(failed: Failure, contract: Contract) -> Failure {
    let reason = &failed.reason;
    let reason = match (failed.cause, contract) {
        (RunCause::BadOutput, _) => {
            format!("{reason}; the remote agent was given the task, and is not given it again")
        }
        (_, Contract::AtMostOnce) => format!("{reason}; {DOUBT}"),
        _ => return failed,
    };
    Failure::new(RunCause::BadInput, reason)
}

/// A remote task that is followed. If the run is cancelled or gives up, the task is cancelled. If
/// the program ends, the next process follows it again.
struct CancelGuard {
    remote: Arc<Remote>,
    id: String,
    is_over: bool,
}

impl CancelGuard {
    fn new(remote: &Arc<Remote>, id: &str) -> CancelGuard {
        CancelGuard {
            remote: remote.clone(),
            id: id.to_owned(),
            is_over: false,
        }
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        let ctx = &self.remote.ctx;
        let is_last = ctx.attempt() > ctx.definition().retries;
        if self.is_over || !(ctx.cancelled().is_cancelled() || is_last) {
            return;
        }
        let (remote, id) = (self.remote.clone(), std::mem::take(&mut self.id));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if remote.ctx.has_session().await {
                    remote.cancel(&id).await;
                }
            });
        }
    }
}

#[cfg(test)]
mod tests;
