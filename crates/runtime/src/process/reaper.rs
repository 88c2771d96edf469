//! Kills all descendants of a program, even those in another session, process group or environment.
//!
//! On Linux a process can adopt its orphaned descendants (`PR_SET_CHILD_SUBREAPER`). Programs are
//! started by such a process, a reaper: this executable, called again. When the program ends, a
//! stop is requested, or the parent has ended (even by a kill), the reaper kills all descendants
//! and then ends itself in the same way as the program.
//!
//! ```text
//! daemon ─ start ─► reaper ─ start ─► program ─► …
//!    └── SIGUSR1 ──►   └── SIGTERM, a grace, SIGKILL ──► all descendants
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getpid, getppid, getrlimit,
    kill_process, set_child_subreaper, setrlimit, wait,
};
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::time::{Instant, interval, timeout_at};

use super::GRACE;

/// The first argument of a reaper.
pub(super) const ARGUMENT: &str = "__reap";
/// This executable, even if its file was replaced since its start.
pub(super) const EXECUTABLE: &str = "/proc/self/exe";
/// Asks a reaper to end its descendants and itself.
pub(super) const STOP: Signal = Signal::USR1;
/// The interval of checks whether the parent is alive.
const LOOK_FOR_PARENT: Duration = Duration::from_millis(500);
/// The exit code of a reaper that could not start its program.
const NOT_STARTED: u8 = 126;
/// Added to the number of a signal that ended the program and cannot end the reaper.
const SIGNALLED: i32 = 128;

/// Signals that end a process without a handler, as shells send them to a whole group.
const GROUP_SIGNALS: [SignalKind; 4] = [
    SignalKind::terminate(),
    SignalKind::interrupt(),
    SignalKind::hangup(),
    SignalKind::quit(),
];

/// Whether this executable can be called as a reaper.
static AVAILABLE: AtomicBool = AtomicBool::new(false);

/// The soft limit of open files for programs; 0: that of this process.
static OPEN_FILES: AtomicU64 = AtomicU64::new(0);

/// Sets the soft limit of open files for started programs, whatever the limit of this process: many
/// programs are slow with a high limit, or use `select`, which does not support one.
pub fn set_open_files(limit: u64) {
    OPEN_FILES.store(limit, Ordering::Relaxed);
}

/// The arguments of a reaper before its program: its parent, and the limit of open files.
pub(super) fn arguments() -> [String; 2] {
    let files = OPEN_FILES.load(Ordering::Relaxed);
    [std::process::id().to_string(), files.to_string()]
}

/// Lowers the soft limit of open files of this process, for the programs that it starts.
fn lower_open_files(limit: u64) {
    let now = getrlimit(Resource::Nofile);
    if limit > 0 && now.current.is_none_or(|current| current > limit) {
        let lowered = Rlimit {
            current: Some(limit),
            maximum: now.maximum,
        };
        // A program with a high limit is better than none.
        let _ = setrlimit(Resource::Nofile, lowered);
    }
}

/// Call this first in `main`: a process that was started as a reaper works as one and returns its
/// exit code; in any other process, started programs get reapers.
pub fn main() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != ARGUMENT) {
        AVAILABLE.store(Path::new(EXECUTABLE).exists(), Ordering::Relaxed);
        return None;
    }
    let mut number = || {
        let number = arguments.next().unwrap_or_default();
        number.to_string_lossy().parse::<u64>().unwrap_or_default()
    };
    let (parent, files) = (number(), number());
    let parent = i32::try_from(parent).unwrap_or_default();
    lower_open_files(files);
    let program = arguments.next().unwrap_or_default();
    Some(match reap(parent, &program, arguments) {
        Ok(status) => end_as(status),
        Err(error) => {
            let program = Path::new(&program).display();
            // Nobody is left to receive the error.
            let _ = writeln!(io::stderr(), "could not start `{program}`: {error}");
            ExitCode::from(NOT_STARTED)
        }
    })
}

/// Whether programs that this process starts get reapers.
pub(super) fn is_available() -> bool {
    AVAILABLE.load(Ordering::Relaxed)
}

/// Starts the program and waits for its end, for a stop, or for the end of the parent; then kills
/// all its descendants. None: it was stopped.
fn reap(
    parent: i32,
    program: &OsString,
    arguments: impl Iterator<Item = OsString>,
) -> io::Result<Option<WaitStatus>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // Before the program is started, so that no signal is missed.
        let mut stop = signal(SignalKind::user_defined1())?;
        let mut ended = signal(SignalKind::child())?;
        // A program may signal its whole group (`kill 0`), which contains this process: it
        // continues.
        let _not_for_it = GROUP_SIGNALS.map(signal);
        let orphaned = orphaned(parent);
        tokio::pin!(orphaned);
        set_child_subreaper(Some(getpid()))?;
        let child = std::process::Command::new(program)
            .args(arguments)
            .spawn()?;
        let child = child.id();
        close_pipes();
        loop {
            if let ReapResult::ProgramEnded(status) = reap_ended(child)? {
                end_all();
                return Ok(Some(status));
            }
            tokio::select! {
                _ = stop.recv() => break,
                () = &mut orphaned => break,
                _ = ended.recv() => {}
            }
        }
        Ok(stopped(child, &mut ended).await)
    })
}

/// Waits until the parent has ended in any way: then nobody asks this process to stop. A
/// parent-death signal is not reliable: it arrives at the end of the thread that started this
/// process.
async fn orphaned(parent: i32) {
    let mut looks = interval(LOOK_FOR_PARENT);
    while getppid().is_some_and(|now| now.as_raw_nonzero().get() == parent) {
        looks.tick().await;
    }
}

enum ReapResult {
    /// The program itself has ended with this status.
    ProgramEnded(WaitStatus),
    /// Others have ended, and some are left.
    OthersEnded,
    /// Nobody is left.
    NoneLeft,
}

/// Asks all to end, and kills the remaining ones after the grace period.
async fn stopped(child: u32, ended: &mut Signals) -> Option<WaitStatus> {
    let until = Instant::now() + GRACE;
    let mut status = None;
    signal_all(Signal::TERM);
    loop {
        match reap_ended(child) {
            Ok(ReapResult::ProgramEnded(found)) => status = Some(found),
            Ok(ReapResult::OthersEnded) => {
                if timeout_at(until, ended.recv()).await.is_err() {
                    end_all();
                    return status;
                }
            }
            Ok(ReapResult::NoneLeft) | Err(_) => return status,
        }
    }
}

/// Reaps ended processes, up to the program itself.
fn reap_ended(child: u32) -> io::Result<ReapResult> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status)))
                if i64::from(pid.as_raw_nonzero().get()) == i64::from(child) =>
            {
                return Ok(ReapResult::ProgramEnded(status));
            }
            Ok(Some(_)) => {}
            Ok(None) => return Ok(ReapResult::OthersEnded),
            Err(Errno::CHILD) => return Ok(ReapResult::NoneLeft),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills all descendants at once. Orphans are adopted by this process, so that in the end it has
/// waited for each of them.
fn end_all() {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => {
                signal_all(Signal::KILL);
                // One has ended, or will.
                let _ = wait(WaitOptions::empty());
            }
            Err(_) => return,
        }
    }
}

fn signal_all(signal: Signal) {
    for pid in descendants() {
        // The only possible failure is that it has ended meanwhile.
        let _ = kill_process(pid, signal);
    }
}

/// All descendants of this process that are not zombies.
fn descendants() -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let Some(pid) = pid
            && let Ok(stat) = std::fs::read_to_string(entry.path().join("stat"))
            && let Some(parent) = parent(&stat)
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![getpid().as_raw_nonzero().get()];
    while let Some(pid) = open.pop() {
        for child in children.remove(&pid).into_iter().flatten() {
            found.extend(Pid::from_raw(child));
            open.push(child);
        }
    }
    found
}

/// The parent of a process, by its line in `/proc`: `12 (a name) S 7 …`; none for a zombie.
fn parent(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    (state != "Z").then(|| fields.next()?.parse().ok())?
}

/// Closes the program's pipes in this process, so that their other ends see the program close them.
fn close_pipes() {
    let Ok(nothing) = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
    else {
        return;
    };
    // A pipe that stays open is closed at the end.
    let _ = rustix::stdio::dup2_stdin(&nothing);
    let _ = rustix::stdio::dup2_stdout(&nothing);
    let _ = rustix::stdio::dup2_stderr(&nothing);
}

/// Ends this process in the same way as the program.
fn end_as(status: Option<WaitStatus>) -> ExitCode {
    let Some(status) = status else {
        return ExitCode::FAILURE;
    };
    if let Some(code) = status.exit_status() {
        return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX));
    }
    let number = status.terminating_signal().unwrap_or_default();
    if let Some(signal) = Signal::from_named_raw(number) {
        // The program has already left its core file.
        let none = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        let _ = setrlimit(Resource::Core, none);
        let _ = kill_process(getpid(), signal);
    }
    ExitCode::from(u8::try_from(SIGNALLED + number).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::parent;

    #[test]
    fn a_process_name_may_contain_any_character() {
        for (stat, expected) in [
            ("12 (sh) S 7 12 12 0", Some(7)),
            ("12 (a) Z 1 (b)) R 9 12", Some(9)),
            ("12 (gone) Z 7 12", None),
            ("12 (x) S", None),
            ("", None),
        ] {
            assert_eq!(parent(stat), expected, "{stat}");
        }
    }
}
