//! A server that is a program: each message is a line on its standard input or output.
//!
//! The program has its own process group, which is killed with the connection. A line that is too
//! long or not a valid message ends the connection at once, so that nobody waits for an answer that
//! cannot come; lines that do not begin like a message are ignored.

use std::io;
use std::sync::Arc;

use rmcp::model::ServerJsonRpcMessage;
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
