//! A server that is a program: each message is a line on its standard input or output.
//!
//! The program has its own process group, which is killed with the connection. A line that is too
//! long or not a valid message ends the connection at once, so that nobody waits for an answer that
//! cannot come; lines that do not begin like a message are ignored.
//!
//! A program may begin to read long after its start. By then the client may have sent two openings:
//! the question for the revisions, and the handshake of the previous revision. The answer to the
//! question then comes too late and is ignored.

use std::io;
use std::sync::Arc;

use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdin;
use unisono_session::agent::Command;

use super::connection::ConnectionError;
use crate::process::lines::{Lines, preview};

/// A program that speaks the protocol.
pub(super) struct Program {
    stdin: Arc<tokio::sync::Mutex<ChildStdin>>,
    lines: Lines,
    trouble: ConnectionError,
    discovery: Discovery,
}

/// The questions for the revisions of a server.
#[derive(Debug, Default)]
struct Discovery {
    questions: Vec<RequestId>,
    /// Whether the handshake of the previous revision was sent instead.
    is_given_up: bool,
}

impl Discovery {
    fn note(&mut self, sent: &ClientJsonRpcMessage) {
        let JsonRpcMessage::Request(sent) = sent else {
            return;
        };
        match &sent.request {
            ClientRequest::DiscoverRequest(_) => self.questions.push(sent.id.clone()),
            ClientRequest::InitializeRequest(_) => self.is_given_up = true,
            _ => {}
        }
    }

    /// Whether a message answers a question for whose answer nobody waits any more.
    fn is_late_answer(&self, message: &ServerJsonRpcMessage) -> bool {
        let answered = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        // Some servers return a number as a text.
        let answered = answered.map(ToString::to_string);
        let mut questions = self.questions.iter();
        self.is_given_up && questions.any(|question| Some(question.to_string()) == answered)
    }
}

impl Program {
    /// Starts the program. The end of its standard error is kept for error texts.
    ///
    /// # Errors
    /// The reason why it cannot be started.
    pub(super) fn start(command: &Command, trouble: ConnectionError) -> Result<Program, String> {
        let (lines, stdin) = Lines::start(command).map_err(|error| error.to_string())?;
        Ok(Program {
            stdin: Arc::new(tokio::sync::Mutex::new(stdin)),
            lines,
            trouble,
            discovery: Discovery::default(),
        })
    }
}

/// The message in a line; none if nobody waits for it.
fn message(line: &[u8]) -> Result<Option<ServerJsonRpcMessage>, String> {
    if !line.starts_with(b"{") {
        if !line.is_empty() {
            tracing::debug!(line = %preview(line), "a tool server wrote no message");
        }
        return Ok(None);
    }
    match serde_json::from_slice(line) {
        Ok(message) => Ok(Some(message)),
        Err(_) if is_notification(line) => Ok(None),
        Err(error) => {
            let shown = preview(line);
            Err(format!(
                "sent a line that is not JSON-RPC ({error}): {shown}"
            ))
        }
    }
}

impl Transport<RoleClient> for Program {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        self.discovery.note(&item);
        let stdin = self.stdin.clone();
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut stdin = stdin.lock().await;
            stdin.write_all(&line).await?;
            stdin.flush().await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let read = self.lines.next().await;
            let read = read.map_err(|silent| silent.to_string());
            match read.and_then(|line| message(&line)) {
                Ok(Some(message)) if self.discovery.is_late_answer(&message) => {
                    tracing::debug!("a tool server answered the question for its revisions late");
                }
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(wrong) => {
                    self.trouble.set(wrong);
                    return None;
                }
            }
        }
    }

    /// The process group is killed when the value is dropped.
    async fn close(&mut self) -> Result<(), io::Error> {
        Ok(())
    }
}

/// A notification of an unknown kind.
fn is_notification(line: &[u8]) -> bool {
    let value: Result<serde_json::Value, _> = serde_json::from_slice(line);
    value.is_ok_and(|value| value.get("method").is_some() && value.get("id").is_none())
}

#[cfg(test)]
mod tests {
    use rmcp::ClientHandler as _;
    use rmcp::model::{DiscoverRequest, DiscoverRequestParams, InitializeRequest};

    use super::super::connection::ClientIdentity;
    use super::*;

    fn answer(id: &str) -> [ServerJsonRpcMessage; 2] {
        let error = r#""error":{"code":-32601,"message":"no such method"}"#;
        [r#""result":{}"#, error].map(|content| {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},{content}}}"#);
            message(line.as_bytes()).unwrap().unwrap()
        })
    }

    #[test]
    fn a_late_answer_to_the_question_for_the_revisions_is_ignored_after_the_handshake() {
        let question = || {
            let question = DiscoverRequest::new(DiscoverRequestParams {});
            ClientRequest::DiscoverRequest(question)
        };
        let handshake = InitializeRequest::new(ClientIdentity.get_info());
        let handshake = ClientRequest::InitializeRequest(handshake);
        let sent = |request, id| JsonRpcMessage::request(request, RequestId::Number(id));
        let mut discovery = Discovery::default();
        let late = |discovery: &Discovery, id: &str| {
            answer(id).map(|answer| discovery.is_late_answer(&answer))
        };
        discovery.note(&sent(question(), 0));
        discovery.note(&sent(question(), 1));
        assert_eq!(late(&discovery, "1"), [false; 2], "it is awaited");
        discovery.note(&sent(handshake, 2));
        for (id, expected) in [("0", true), ("1", true), ("\"1\"", true), ("2", false)] {
            assert_eq!(late(&discovery, id), [expected; 2], "{id}");
        }
        let unnamed = r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"not JSON"}}"#;
        let unnamed = message(unnamed.as_bytes()).unwrap().unwrap();
        assert!(!discovery.is_late_answer(&unnamed));
    }
}
