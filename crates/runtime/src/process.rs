//! Runs a program and its descendants until the program ends.
//!
//! A program gets its own process group. Any end of the wait for it (an answer, too much output, a
//! timeout or a cancellation that drops the future) ends the group: `SIGTERM`, a short grace
//! period, `SIGKILL`. Processes that a program leaves behind when it exits are killed at once, and
//! cannot delay its answer by keeping the output open. Processes that leave the group are ended by
//! a [`reaper`], if there is one.

mod inherited;
pub(crate) mod lines;
pub mod reaper;
mod search;

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::runtime::Handle;
use tokio::time::timeout;
use unisono_session::agent::Command;

/// The time for a program to stop after `SIGTERM`.
const GRACE: Duration = Duration::from_millis(500);
/// The time for a reaper after that.
const REAPED: Duration = Duration::from_secs(1);
/// The time to wait for output after the program's exit, if a process that left its group keeps it
/// open. The program's own output is complete by then.
const DRAIN: Duration = Duration::from_secs(1);
/// The number of bytes at the end of standard error that are kept.
const STDERR_TAIL: usize = 4 * 1024;
/// The buffer size of each read.
const READ: usize = 16 * 1024;

#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) command: &'a Command,
    /// Its input, written one piece after the other.
    pub(crate) input: [Bytes; 2],
    /// The maximum size of its standard output, in bytes.
    pub(crate) max_output: usize,
}

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct ProcessOutput {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    /// The end of its standard error, trimmed.
    pub(crate) stderr: String,
}

/// The reason why a program did not run to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// It could not be started.
    #[error(
        "could not start `{program}`{}: {source}{}",
        describe_directory(.cwd.as_deref()),
        remedy(.cwd.as_deref(), .source)
    )]
    Spawn {
        program: Arc<str>,
        /// Its working directory.
        cwd: Option<Arc<str>>,
        source: io::Error,
    },
    /// It was killed for too much output.
    #[error(
        "`{program}` wrote more than {limit} bytes to its standard output and was killed: \
          make its answer shorter"
    )]
    Flooded { program: Arc<str>, limit: usize },
    /// A system error during the communication with it.
    #[error("the connection to `{program}` failed: {source}")]
    Lost {
        program: Arc<str>,
        source: io::Error,
    },
}

/// The working directory for an error text, with a note if it does not exist.
fn describe_directory(cwd: Option<&str>) -> String {
    match cwd {
        None => String::new(),
        Some(cwd) if std::path::Path::new(cwd).is_dir() => format!(" in `{cwd}`"),
        Some(cwd) => format!(" in `{cwd}`, which is not a directory"),
    }
}

/// What to do about a program that cannot be started, for an error text.
fn remedy(cwd: Option<&str>, error: &io::Error) -> &'static str {
    let has_directory = cwd.is_none_or(|cwd| std::path::Path::new(cwd).is_dir());
    match error.kind() {
        io::ErrorKind::NotFound if has_directory => {
            ": install it, or write its path into `command`"
        }
        io::ErrorKind::PermissionDenied => ": make it executable with `chmod +x`",
        _ => "",
    }
}

/// Starts a program, writes its input, and waits for its end. Dropping the future kills the program
/// and its descendants.
///
/// # Errors
/// It cannot be started, writes too much, or a system call fails.
pub(crate) async fn run(job: Job<'_>) -> Result<ProcessOutput, Error> {
    let program = &job.command.program;
    let lost = |source| Error::Lost {
        program: program.clone(),
        source,
    };
    let (mut group, pipes) = Group::start(job.command)?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let status = {
        let streams = async {
            tokio::try_join!(
                async { feed(pipes.stdin, job.input).await.map_err(lost) },
                async { read(pipes.stdout, &mut stdout, program, job.max_output).await },
                async { keep_tail(pipes.stderr, &mut stderr).await.map_err(lost) },
            )
        };
        tokio::pin!(streams);
        let (status, open) = tokio::select! {
            closed = &mut streams => {
                closed?;
                (group.wait().await, false)
            }
            status = group.wait() => (status, true),
        };
        group.kill();
        if open && let Ok(closed) = timeout(DRAIN, streams).await {
            closed?;
        }
        status.map_err(lost)?
    };
    let tail = &stderr[stderr.len().saturating_sub(STDERR_TAIL)..];
    Ok(ProcessOutput {
        status,
        stdout,
        stderr: String::from_utf8_lossy(tail).trim().to_owned(),
    })
}

/// Writes the input and closes it. A program may answer without reading all of it.
async fn feed(mut stdin: ChildStdin, input: [Bytes; 2]) -> io::Result<()> {
    for chunk in &input {
        match stdin.write_all(chunk).await {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            result => result?,
        }
    }
    Ok(())
}

async fn read(
    mut from: ChildStdout,
    into: &mut Vec<u8>,
    program: &Arc<str>,
    limit: usize,
) -> Result<(), Error> {
    loop {
        into.reserve(READ);
        let read = from.read_buf(into).await;
        let read = read.map_err(|source| Error::Lost {
            program: program.clone(),
            source,
        })?;
        if into.len() > limit {
            return Err(Error::Flooded {
                program: program.clone(),
                limit,
            });
        }
        if read == 0 {
            return Ok(());
        }
    }
}

async fn keep_tail(mut from: ChildStderr, tail: &mut Vec<u8>) -> io::Result<()> {
    loop {
        tail.reserve(STDERR_TAIL);
        if from.read_buf(tail).await? == 0 {
            return Ok(());
        }
        if tail.len() > 4 * STDERR_TAIL {
            tail.drain(..tail.len() - STDERR_TAIL);
        }
    }
}

/// The parent's ends of a program's pipes.
pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

/// A program and its process group. Killed when dropped.
pub(crate) struct Group(Option<Members>);

impl Group {
    /// Starts a program. It inherits the variables in [`inherited`] and those that its command
    /// passes on.
    pub(crate) fn start(command: &Command) -> Result<(Group, Pipes), Error> {
        let failed = |source| Error::Spawn {
            program: command.program.clone(),
            cwd: command.cwd.clone(),
            source,
        };
        let reaped = reaper::is_available();
        let mut starting = if reaped {
            // The reaper could report this only in its own words.
            search::check(command).map_err(failed)?;
            let mut starting = tokio::process::Command::new(reaper::EXECUTABLE);
            starting.arg0("unisono");
            starting.arg(reaper::ARGUMENT).args(reaper::arguments());
            starting.arg(&*command.program);
            starting
        } else {
            tokio::process::Command::new(&*command.program)
        };
        starting
            .env_clear()
            .envs(inherited::inherit(std::env::vars_os(), &command.env_pass))
            .args(command.args.iter().map(|arg| &**arg))
            .envs(command.env.iter().map(|(name, value)| (&**name, &**value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(!reaped);
        if let Some(cwd) = &command.cwd {
            starting.current_dir(&**cwd);
        }
        let mut child = starting.spawn().map_err(failed)?;
        let id = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(id), (Some(stdin), Some(stdout), Some(stderr))) = (id, pipes) else {
            return Err(failed(io::Error::other("it has no process id or no pipes")));
        };
        let pipes = Pipes {
            stdin,
            stdout,
            stderr,
        };
        let members = Members { child, id, reaped };
        Ok((Group(Some(members)), pipes))
    }

    /// Waits for the program itself.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match &mut self.0 {
            Some(members) => members.child.wait().await,
            None => Err(io::Error::other("it has already been killed")),
        }
    }

    /// Ends the program and its descendants; returns after they have ended.
    pub(crate) async fn end(mut self) {
        if let Some(members) = self.0.take() {
            members.stop();
            members.end().await;
        }
    }

    /// Kills the remaining processes of the group at once.
    fn kill(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(members) = self.0.take() else { return };
        members.stop();
        // Without a runtime the members are dropped here, which kills them.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(members.end());
        }
    }
}

/// The processes of a group. Killed when dropped.
struct Members {
    /// The program, or its reaper.
    child: Child,
    id: Pid,
    reaped: bool,
}

impl Members {
    /// Asks them to stop. A reaper gives them the grace period, and kills the rest.
    fn stop(&self) {
        // After it was awaited, its process id may belong to another process.
        if self.reaped && self.child.id().is_none() {
            return;
        }
        // The only possible failure is that no process is left, which is the goal.
        let _ = match self.reaped {
            true => kill_process(self.id, reaper::STOP),
            false => kill_process_group(self.id, Signal::TERM),
        };
    }

    fn kill(&self) {
        let _ = kill_process_group(self.id, Signal::KILL);
    }

    /// Waits for the program to stop by itself, for a short time.
    async fn end(mut self) {
        let patience = if self.reaped { GRACE + REAPED } else { GRACE };
        if timeout(patience, self.child.wait()).await.is_err() {
            self.kill();
        }
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        match self.reaped {
            // It has ended, and all others before it.
            true if self.child.id().is_none() => {}
            // It continues after nobody waits for it any more.
            true => self.stop(),
            false => self.kill(),
        }
    }
}

#[cfg(test)]
mod tests;
