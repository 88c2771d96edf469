//! A program that is spoken with in lines, to its standard input and from its standard output.
//!
//! It has a process group of its own, which ends with its value. A line is bounded; what it writes
//! to standard error is kept for when it fails.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use unisono_session::agent::Command;

use super::{Error, Group, Pipes};

/// The longest line that a program may write, in bytes.
const LINE_MAX: usize = 8 * 1024 * 1024;
/// Room made for each read.
const READ: usize = 16 * 1024;
/// How much of the end of its standard error is kept.
const STDERR_TAIL: usize = 2 * 1024;
/// How long the end of a program that has closed its output is waited for.
const EXIT: Duration = Duration::from_millis(500);
/// How much of a line is shown.
const PREVIEW_CHARS: usize = 80;

/// Why there is no next line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoLine {
    /// It is too long.
    #[error("sent a message of more than {} MiB", LINE_MAX / (1024 * 1024))]
    Long,
    /// The program has ended, or closed its output; how.
    #[error("{0}")]
    Ended(String),
    /// The system would not let it be read.
    #[error("cannot be read: {0}")]
    Lost(io::Error),
}

/// A program that writes lines.
pub(crate) struct Lines {
    stdout: ChildStdout,
    group: Group,
    stderr: Arc<Mutex<Vec<u8>>>,
    /// What keeps that.
    stderr_reader: JoinHandle<()>,
    /// Read, and not yet given on.
    read: Vec<u8>,
    /// How much of it holds no end of a line.
    searched: usize,
}

impl Lines {
    /// Starts it.
    ///
    /// # Errors
    /// It cannot be started.
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

    /// The next line, without what surrounds it. Nothing is lost where the future is dropped.
    ///
    /// # Errors
    /// There is none.
    pub(crate) async fn next(&mut self) -> Result<Vec<u8>, NoLine> {
        loop {
            let mut unseen = self.read[self.searched..].iter();
            if let Some(at) = unseen.position(|byte| *byte == b'\n') {
                let end = at + self.searched;
                let line: Vec<u8> = self.read.drain(..=end).collect();
                self.searched = 0;
                return Ok(line.trim_ascii().to_vec());
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

    /// How it ended, with the end of its standard error.
    async fn ended(&mut self) -> String {
        let ended = match timeout(EXIT, self.group.wait()).await {
            Ok(Ok(status)) => format!("ended with {status}"),
            Ok(Err(error)) => format!("was lost: {error}"),
            Err(_) => "closed its standard output".to_owned(),
        };
        // What it wrote last may not be read yet.
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

    /// Ends the program and all it started; returns once they are gone.
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

/// The start of a line, to be shown.
pub(crate) fn preview(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let shown: String = text.chars().take(PREVIEW_CHARS).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown}{more}")
}
