//! A server that is a program: a message is a line, to its standard input and from its output.
//!
//! The program has a process group of its own, which is ended with the connection. A line that
//! is too long or no message ends the connection at once, so that nobody waits for an answer
//! that cannot come; lines that do not begin like a message are a program's chatter.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use unisono_session::agent::Command;

use super::connection::Trouble;
use crate::process::{Group, Pipes};

/// The longest message that a server may send, in bytes.
const MESSAGE_MAX: usize = 8 * 1024 * 1024;
/// Room made for each read.
const READ: usize = 16 * 1024;
/// How much of the end of its standard error is kept.
const STDERR_TAIL: usize = 2 * 1024;
/// How long the end of a program that has closed its output is waited for.
const EXIT: Duration = Duration::from_millis(500);
/// How much of what is no message is shown.
const PREVIEW_CHARS: usize = 80;

/// A program that speaks the protocol.
pub(super) struct Program {
    stdin: Arc<tokio::sync::Mutex<ChildStdin>>,
    stdout: ChildStdout,
    group: Group,
    said: Arc<Mutex<Vec<u8>>>,
    trouble: Trouble,
    /// Read, and not yet given on.
    read: Vec<u8>,
    /// How much of it holds no end of a line.
    looked_at: usize,
}

impl Program {
    /// Starts it. What it says on standard error is kept for when it fails.
    ///
    /// # Errors
    /// Why it cannot be started.
    pub(super) fn start(command: &Command, trouble: Trouble) -> Result<Program, String> {
        let started = Group::start(command).map_err(|error| error.to_string());
        let (group, pipes) = started?;
        let Pipes {
            stdin,
            stdout,
            stderr,
        } = pipes;
        let said = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn(listen(stderr, said.clone()));
        Ok(Program {
            stdin: Arc::new(tokio::sync::Mutex::new(stdin)),
            stdout,
            group,
            said,
            trouble,
            read: Vec::new(),
            looked_at: 0,
        })
    }

    /// The next message of what was read; none where there is none in it.
    fn message(&mut self) -> Result<Option<ServerJsonRpcMessage>, String> {
        loop {
            let end = memchr(&self.read[self.looked_at..]);
            let Some(end) = end.map(|at| at + self.looked_at) else {
                self.looked_at = self.read.len();
                if self.read.len() > MESSAGE_MAX {
                    let limit = MESSAGE_MAX / (1024 * 1024);
                    return Err(format!("sent a message of more than {limit} MiB"));
                }
                return Ok(None);
            };
            let line: Vec<u8> = self.read.drain(..=end).collect();
            self.looked_at = 0;
            let line = line.trim_ascii();
            if !line.starts_with(b"{") {
                if !line.is_empty() {
                    tracing::debug!(line = %preview(line), "a tool server wrote no message");
                }
                continue;
            }
            match serde_json::from_slice(line) {
                Ok(message) => return Ok(Some(message)),
                Err(_) if is_notification(line) => {}
                Err(error) => {
                    let shown = preview(line);
                    return Err(format!("sent what is not JSON-RPC ({error}): {shown}"));
                }
            }
        }
    }

    /// Why there is no more to read.
    async fn ended(&mut self) -> String {
        let ended = match tokio::time::timeout(EXIT, self.group.wait()).await {
            Ok(Ok(status)) => format!("ended with {status}"),
            Ok(Err(error)) => format!("was lost: {error}"),
            Err(_) => "closed its standard output".to_owned(),
        };
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let tail = &said[said.len().saturating_sub(STDERR_TAIL)..];
        match String::from_utf8_lossy(tail).trim() {
            "" => ended,
            said => format!("{ended}; its standard error ends: {said}"),
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
            match self.message() {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(wrong) => {
                    self.trouble.tell(wrong);
                    return None;
                }
            }
            self.read.reserve(READ);
            match self.stdout.read_buf(&mut self.read).await {
                Ok(0) => {
                    let ended = self.ended().await;
                    self.trouble.tell(ended);
                    return None;
                }
                Ok(_) => {}
                Err(error) => {
                    self.trouble.tell(format!("cannot be read: {error}"));
                    return None;
                }
            }
        }
    }

    /// The group ends with its value.
    async fn close(&mut self) -> Result<(), io::Error> {
        Ok(())
    }
}

/// Something that nobody waits for, of a kind that is not known.
fn is_notification(line: &[u8]) -> bool {
    let value: Result<serde_json::Value, _> = serde_json::from_slice(line);
    value.is_ok_and(|value| value.get("method").is_some() && value.get("id").is_none())
}

async fn listen(mut stderr: ChildStderr, said: Arc<Mutex<Vec<u8>>>) {
    let mut read = Vec::with_capacity(READ);
    while stderr.read_buf(&mut read).await.is_ok_and(|n| n > 0) {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.append(&mut read);
        let old = said.len().saturating_sub(2 * STDERR_TAIL);
        said.drain(..old);
    }
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}

fn preview(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let shown: String = text.chars().take(PREVIEW_CHARS).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown}{more}")
}
