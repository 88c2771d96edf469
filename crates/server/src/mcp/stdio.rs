//! The transport on standard input and output. A line that is not a message is answered with an
//! error, as by the bridge to a daemon.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, Stdout};
use tokio::sync::{Mutex, mpsc};

/// A line of a client, or the error code of JSON-RPC and the reason why it is not a text.
pub type Line = Result<String, (i64, String)>;

/// The error code of a text that is not JSON.
const UNREADABLE: i64 = -32_700;
/// The error code of JSON that is not a message.
const INVALID_REQUEST: i64 = -32_600;

type Message = RxJsonRpcMessage<RoleServer>;
type Writing = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// A client that reads standard output.
pub(super) struct Stdio {
    lines: mpsc::Receiver<Line>,
    output: Arc<Mutex<Stdout>>,
    /// The error that is being written; a call of `receive` may be cancelled meanwhile.
    refusing: Option<Writing>,
}

impl Stdio {
    /// The client that sent these lines.
    pub(super) fn new(lines: mpsc::Receiver<Line>) -> Stdio {
        Stdio {
            lines,
            output: Arc::new(Mutex::new(tokio::io::stdout())),
            refusing: None,
        }
    }
}

impl Transport<RoleServer> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let output = self.output.clone();
        async move { write(output, serde_json::to_vec(&item)?).await }
    }

    async fn receive(&mut self) -> Option<Message> {
        loop {
            if let Some(writing) = &mut self.refusing {
                let written = writing.as_mut().await;
                self.refusing = None;
                written.ok()?;
            }
            let read = match self.lines.recv().await? {
                Ok(line) => message(&line),
                Err((code, reason)) => Err(refusal(&Value::Null, code, &reason)),
            };
            match read {
                Ok(Some(message)) => return Some(message),
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
    let line = line.trim_start_matches('\u{feff}').trim();
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
        for line in [ping.to_owned(), format!("\u{feff}{ping}\r")] {
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
}
