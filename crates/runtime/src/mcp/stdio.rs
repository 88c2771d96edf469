//! A server that is a program: each message is a line on its standard input or output.
//!
//! The program has its own process group, which is killed with the connection. A line that is too
//! long or not a valid message ends the connection at once, so that nobody waits for an answer that
//! cannot come. Other lines are ignored: some programs write their log there, also as JSON.
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
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdin;
use unisono_model::client::SurrogateJoiner;
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

/// The key that each message has.
const VERSION: &[u8] = b"\"jsonrpc\"";

/// The message in a line; none if nobody waits for it.
fn message(line: &[u8]) -> Result<Option<ServerJsonRpcMessage>, String> {
    // A server may cut a text in the middle of a character.
    let text = String::from_utf8_lossy(line);
    let text = SurrogateJoiner::default().join_halves(&text);
    match serde_json::from_str(&text) {
        Ok(message) => Ok(Some(message)),
        Err(error) if is_invalid_message(text.as_bytes()) => {
            let shown = preview(line);
            Err(format!(
                "sent a line that is not JSON-RPC ({error}): {shown}"
            ))
        }
        Err(_) => {
            if !line.is_empty() {
                tracing::debug!(line = %preview(line), "a tool server wrote no message");
            }
            Ok(None)
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

/// Whether a line that cannot be read was to be a message for which somebody may wait: neither a
/// notification of an unknown kind, nor an answer to a notification, which has the id null.
fn is_invalid_message(line: &[u8]) -> bool {
    match serde_json::from_slice::<Value>(line) {
        Ok(value) => {
            let has = |key: &str| value.get(key).is_some();
            let is_awaited = value.get("id").map_or(!has("method"), |id| !id.is_null());
            has("jsonrpc") && is_awaited
        }
        Err(_) => line.starts_with(b"{") && line.windows(VERSION.len()).any(|key| key == VERSION),
    }
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
    fn a_text_may_be_cut_in_the_middle_of_a_character() {
        for cut in [&b"\\ud83d"[..], b"\\ud83d.", b"\xf0\x9f"] {
            let [begin, end] = [
                &br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"cut "#[..],
                br#""}]}}"#,
            ];
            let read = message(&[begin, cut, end].concat());
            assert!(
                matches!(read, Ok(Some(JsonRpcMessage::Response(_)))),
                "{read:?}"
            );
        }
    }

    #[test]
    fn a_line_is_a_message_or_part_of_a_log_or_ends_the_connection() {
        for (line, expected) in rows! {
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Ok(true)),
            ("", Ok(false)),
            ("Server running on stdio", Ok(false)),
            (r#"{"level":30,"time":1,"msg":"listening"}"#, Ok(false)),
            (r#"{"level":20,"got":{"jsonrpc":"2.0","id":1,"method":"ping"}}"#, Ok(false)),
            ("{ port: 3000 }", Ok(false)),
            ("{", Ok(false)),
            (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, Ok(false)),
            (r#"{"jsonrpc":"2.0","id":1,"#, Err(())),
            (r#"{"jsonrpc":"2.0","id":1}"#, Err(())),
            (r#"{"jsonrpc":"1.0","id":1,"result":{}}"#, Err(())),
        } {
            let read = message(line.as_bytes()).map(|message| message.is_some());
            assert_eq!(read.map_err(drop), expected, "{line}");
        }
        let unknown = r#"{"jsonrpc":"2.0","method":"notifications/own"}"#;
        assert!(message(unknown.as_bytes()).is_ok());
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
