//! The transport on standard input and output. A line that is not a message is answered with an
//! error, and requests have some time for their answers after the end of the input, as with the bridge
//! to a daemon.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientNotification, ErrorData, JsonRpcError, JsonRpcMessage, RequestId, ServerNotification,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, Stdout};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::time::{Instant, timeout_at};

/// A line of a client, or the error code of JSON-RPC and the reason why it is not a text.
pub type Line = Result<String, (i64, String)>;

/// The error code of a text that is not JSON.
const UNREADABLE: i64 = -32_700;
/// The error code of JSON that is not a message.
const INVALID_REQUEST: i64 = -32_600;

type Message = RxJsonRpcMessage<RoleServer>;
type Sent = TxJsonRpcMessage<RoleServer>;
type Writing = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// A client that reads standard output.
pub(super) struct Stdio {
    lines: mpsc::Receiver<Line>,
    output: Arc<Mutex<Stdout>>,
    /// The error that is being written; a call of `receive` may be cancelled meanwhile.
    refusing: Option<Writing>,
    unanswered: Unanswered,
    /// The time for answers after the end of the input.
    drain: Duration,
    /// The end of that time; none before the end of the input.
    until: Option<Instant>,
}

impl Stdio {
    /// The client that sent these lines. After the last one, its requests have the time `drain` for
    /// their answers.
    pub(super) fn new(lines: mpsc::Receiver<Line>, drain: Duration) -> Stdio {
        Stdio {
            lines,
            output: Arc::new(Mutex::new(tokio::io::stdout())),
            refusing: None,
            unanswered: Unanswered::default(),
            drain,
            until: None,
        }
    }
}

/// The requests without an answer.
#[derive(Debug, Default)]
struct Requests {
    /// Those of the client.
    of_client: HashSet<RequestId>,
    /// Questions to the client's user.
    questions: HashSet<RequestId>,
}

#[derive(Clone, Debug, Default)]
struct Unanswered(Arc<watch::Sender<Requests>>);

impl Unanswered {
    fn note_received(&self, message: &Message) {
        self.0.send_modify(|open| match message {
            JsonRpcMessage::Request(request) => {
                open.of_client.insert(request.id.clone());
            }
            JsonRpcMessage::Response(reply) => {
                open.questions.remove(&reply.id);
            }
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    open.questions.remove(id);
                }
            }
            JsonRpcMessage::Notification(told) => {
                // A cancelled request has no answer.
                if let ClientNotification::CancelledNotification(cancelled) = &told.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    open.of_client.remove(id);
                }
            }
        });
    }

    fn note_sending(&self, message: &Sent) {
        self.0.send_modify(|open| match message {
            JsonRpcMessage::Request(question) => {
                open.questions.insert(question.id.clone());
            }
            JsonRpcMessage::Notification(told) => {
                if let ServerNotification::CancelledNotification(withdrawn) = &told.notification
                    && let Some(id) = &withdrawn.params.request_id
                {
                    open.questions.remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        });
    }

    fn note_sent(&self, message: &Sent) {
        let answered = match message {
            JsonRpcMessage::Response(answer) => Some(&answer.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(id) = answered {
            self.0.send_modify(|open| {
                open.of_client.remove(id);
            });
        }
    }

    /// After the end of the input: waits until each request has its answer, at most until that time,
    /// and returns nothing. Before that, a question gets an error: nobody answers it any more.
    async fn after_input(&self, until: Instant) -> Option<Message> {
        let mut open = self.0.subscribe();
        let is_due = |open: &Requests| open.of_client.is_empty() || !open.questions.is_empty();
        let question = {
            let due = timeout_at(until, open.wait_for(is_due)).await;
            let due = due.ok()?.ok()?;
            due.questions.iter().next()?.clone()
        };
        self.0.send_modify(|open| {
            open.questions.remove(&question);
        });
        let error = ErrorData::internal_error("the input has ended", None);
        Some(JsonRpcMessage::Error(JsonRpcError::new(
            Some(question),
            error,
        )))
    }
}

impl Transport<RoleServer> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let (output, unanswered) = (self.output.clone(), self.unanswered.clone());
        unanswered.note_sending(&item);
        async move {
            let written = write(output, serde_json::to_vec(&item)?).await;
            unanswered.note_sent(&item);
            written
        }
    }

    async fn receive(&mut self) -> Option<Message> {
        loop {
            if let Some(writing) = &mut self.refusing {
                let written = writing.as_mut().await;
                self.refusing = None;
                written.ok()?;
            }
            let Some(line) = self.lines.recv().await else {
                let drain = self.drain;
                let until = self.until.get_or_insert_with(|| Instant::now() + drain);
                return self.unanswered.after_input(*until).await;
            };
            let read = match line {
                Ok(line) => message(&line),
                Err((code, reason)) => Err(refusal(&Value::Null, code, &reason)),
            };
            match read {
                Ok(Some(message)) => {
                    self.unanswered.note_received(&message);
                    return Some(message);
                }
                Ok(None) => {}
                Err(refusal) => {
                    let line = refusal.to_string().into_bytes();
                    self.refusing = Some(Box::pin(write(self.output.clone(), line)));
                }
            }
        }
    }

    /// Each message is flushed when it is sent.
    async fn close(&mut self) -> Result<(), io::Error> {
        Ok(())
    }
}

async fn write(output: Arc<Mutex<Stdout>>, mut line: Vec<u8>) -> io::Result<()> {
    line.push(b'\n');
    let mut output = output.lock().await;
    output.write_all(&line).await?;
    output.flush().await
}

/// The message in a line; none in an empty line, or if it is a notification of an unknown kind.
///
/// # Errors
/// The answer to a line that is not a message.
fn message(line: &str) -> Result<Option<Message>, Value> {
    let line = line.trim();
    if line.is_empty() {
        return Ok(None);
    }
    let error = match serde_json::from_str::<Message>(line) {
        Ok(message) => return Ok(Some(message)),
        Err(error) => error,
    };
    match serde_json::from_str::<Value>(line) {
        Ok(value) if value.get("method").is_some() && value.get("id").is_none() => Ok(None),
        Ok(value) => {
            let id = value
                .get("id")
                .filter(|id| id.is_number() || id.is_string());
            let id = id.unwrap_or(&Value::Null);
            Err(refusal(id, INVALID_REQUEST, &error.to_string()))
        }
        Err(error) => Err(refusal(&Value::Null, UNREADABLE, &error.to_string())),
    }
}

/// The answer to a message that is refused.
fn refusal(id: &Value, code: i64, reason: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": reason}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_message_or_nothing_or_is_refused() {
        let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}";
        for line in [ping.to_owned(), format!("{ping}\r")] {
            assert!(message(&line).unwrap().is_some(), "{line}");
        }
        for line in ["", " \r", "{\"method\":\"$/progress\"}"] {
            assert!(message(line).unwrap().is_none(), "{line}");
        }
        let rows = [
            ("{bad", Value::Null, UNREADABLE),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,", Value::Null, UNREADABLE),
            ("[]", Value::Null, INVALID_REQUEST),
            ("{\"id\":1,\"method\":\"ping\"}", json!(1), INVALID_REQUEST),
        ];
        for (line, id, code) in rows {
            let refused = message(line).unwrap_err();
            assert_eq!(refused["error"]["code"], code, "{line}");
            assert_eq!(refused["id"], id, "{line}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_end_of_the_input_requests_have_time_for_their_answers() {
        let open = Unanswered::default();
        let received = |text: &str| open.note_received(&message(text).unwrap().unwrap());
        let sent = |text: &str| -> Sent { serde_json::from_str(text).unwrap() };
        // The question that ends, if any, and the seconds until then.
        let ended = async || {
            let began = Instant::now();
            let message = open.after_input(began + Duration::from_secs(20)).await;
            let question = message.map(|message| match message {
                JsonRpcMessage::Error(error) => error.id,
                other => panic!("{other:?}"),
            });
            (question.flatten(), began.elapsed().as_secs())
        };
        assert_eq!(ended().await, (None, 0));
        received(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        received(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
        let cancelled = r#""method":"notifications/cancelled","params":{"requestId":2}"#;
        received(&format!(r#"{{"jsonrpc":"2.0",{cancelled}}}"#));
        assert_eq!(ended().await, (None, 20));
        open.note_sending(&sent(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#));
        assert_eq!(ended().await, (Some(RequestId::Number(7)), 0));
        let answering = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            open.note_sent(&sent(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
        };
        let (after, ()) = tokio::join!(ended(), answering);
        assert_eq!(after, (None, 3));
    }
}
