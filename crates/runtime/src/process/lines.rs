//! A program that communicates in lines, on its standard input and output.
//!
//! It has its own process group, which is killed when the value is dropped. A line is bounded; the
//! end of its standard error is kept for error texts.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use unisono_session::agent::Command;

use super::{Error, Group, Pipes};

/// The maximum length of a line, in bytes.
const LINE_MAX: usize = 8 * 1024 * 1024;
/// The buffer size of each read.
const READ: usize = 16 * 1024;
/// The number of bytes at the end of standard error that are kept.
const STDERR_TAIL: usize = 2 * 1024;
/// The time to wait for the end of a program that has closed its output.
const EXIT: Duration = Duration::from_millis(500);
/// The number of characters of a line that are shown.
const PREVIEW_CHARS: usize = 80;
/// The byte order mark of UTF-8, with which some programs begin their output.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// The reason why there is no further line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoLine {
    /// The line is too long.
    #[error("sent a message of more than {} MiB", LINE_MAX / (1024 * 1024))]
    Long,
    /// The program has ended, or closed its output; with a description.
    #[error("{0}")]
    Ended(String),
    /// A system error.
    #[error("cannot be read: {0}")]
    Lost(io::Error),
}

/// A program that writes lines.
pub(crate) struct Lines {
    stdout: ChildStdout,
    group: Group,
    stderr: Arc<Mutex<Vec<u8>>>,
    /// The task that reads standard error.
    stderr_reader: JoinHandle<()>,
    /// Read, and not yet returned.
    read: Vec<u8>,
    /// The number of bytes of it that contain no line end.
    searched: usize,
}

impl Lines {
    pub(crate) fn start(command: &Command) -> Result<(Lines, ChildStdin), Error> {
        let (group, pipes) = Group::start(command)?;
        let Pipes {
            stdin,
            stdout,
            stderr,
        } = pipes;
        let collected = Arc::new(Mutex::new(Vec::new()));
        let stderr_reader = tokio::spawn(read_stderr(stderr, collected.clone()));
        let lines = Lines {
            stdout,
            group,
            stderr: collected,
            stderr_reader,
            read: Vec::new(),
            searched: 0,
        };
        Ok((lines, stdin))
    }

    /// The next line, trimmed and without a byte order mark. Dropping the future loses nothing.
    ///
    /// # Errors
    /// There is no further line.
    pub(crate) async fn next(&mut self) -> Result<Vec<u8>, NoLine> {
        loop {
            let mut unseen = self.read[self.searched..].iter();
            if let Some(at) = unseen.position(|byte| *byte == b'\n') {
                let end = at + self.searched;
                let line: Vec<u8> = self.read.drain(..=end).collect();
                self.searched = 0;
                let line = line.trim_ascii();
                return Ok(line.strip_prefix(MARK).unwrap_or(line).to_vec());
            }
            self.searched = self.read.len();
            if self.read.len() > LINE_MAX {
                return Err(NoLine::Long);
            }
            self.read.reserve(READ);
            match self.stdout.read_buf(&mut self.read).await {
                Ok(0) => return Err(NoLine::Ended(self.ended().await)),
                Ok(_) => {}
                Err(error) => return Err(NoLine::Lost(error)),
            }
        }
    }

    /// A description of its end, with the end of its standard error.
    async fn ended(&mut self) -> String {
        let ended = match timeout(EXIT, self.group.wait()).await {
            Ok(Ok(status)) => format!("ended with {status}"),
            Ok(Err(error)) => format!("was lost: {error}"),
            Err(_) => "closed its standard output".to_owned(),
        };
        // Its last output may not be read yet.
        if !self.stderr_reader.is_finished() {
            let _ = timeout(EXIT, &mut self.stderr_reader).await;
        }
        let tail = self.stderr_tail();
        match &*tail {
            "" => ended,
            tail => format!("{ended}; its standard error ends: {tail}"),
        }
    }

    /// The end of its standard error.
    pub(crate) fn stderr_tail(&self) -> String {
        let stderr = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let tail = &stderr[stderr.len().saturating_sub(STDERR_TAIL)..];
        String::from_utf8_lossy(tail).trim().to_owned()
    }

    /// Ends the program and its descendants; returns after they have ended.
    pub(crate) async fn end(self) {
        self.group.end().await;
    }
}

async fn read_stderr(mut stderr: ChildStderr, collected: Arc<Mutex<Vec<u8>>>) {
    let mut read = Vec::with_capacity(READ);
    while stderr.read_buf(&mut read).await.is_ok_and(|n| n > 0) {
        let mut collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
        collected.append(&mut read);
        let old = collected.len().saturating_sub(2 * STDERR_TAIL);
        collected.drain(..old);
    }
}

/// The beginning of a line, for display.
pub(crate) fn preview(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let shown: String = text.chars().take(PREVIEW_CHARS).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown}{more}")
}
