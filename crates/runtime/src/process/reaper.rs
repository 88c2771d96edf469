//! Has nothing outlive a program that it started, whatever session, group or environment that has
//! given itself.
//!
//! On Linux a process can have those of its descendants handed to it whose own parent has gone
//! (`PR_SET_CHILD_SUBREAPER`). A program is started by such a process, a reaper: this executable,
//! called again. When the program ends, a stop is asked for, or whoever started it is gone (killed,
//! too), the reaper ends all descendants and then itself, as the program ended.
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
/// This executable, also where its file was replaced since it was started.
pub(super) const EXECUTABLE: &str = "/proc/self/exe";
/// Has a reaper end all and itself.
pub(super) const STOP: Signal = Signal::USR1;
/// So often is it seen whether whoever started it is there.
const LOOK_FOR_PARENT: Duration = Duration::from_millis(500);
/// What a reaper ends with that could not start its program.
const NOT_STARTED: u8 = 126;
/// Added to the number of a signal that ended the program and cannot end the reaper.
const SIGNALLED: i32 = 128;

/// Signals that end a process which does not expect them, as shells send them to a whole group.
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

/// Has programs started with this soft limit of open files, whatever that of this process is: many
/// programs are slow with a high one, or use `select`, which cannot.
pub fn set_open_files(limit: u64) {
    OPEN_FILES.store(limit, Ordering::Relaxed);
}

/// What a reaper is told before its program: whose child it is, and the limit of open files.
pub(super) fn arguments() -> [String; 2] {
    let files = OPEN_FILES.load(Ordering::Relaxed);
    [std::process::id().to_string(), files.to_string()]
}

/// Lowers the soft limit of open files of this process, for the programs it starts.
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

/// To be called first in `main`: where this process was started as a reaper it works as one and
/// returns the exit code; from any other the programs it starts get reapers.
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
            // Nobody is left to be told where this fails.
            let _ = writeln!(io::stderr(), "could not start `{program}`: {error}");
            ExitCode::from(NOT_STARTED)
        }
    })
}

/// Whether programs that this process starts get reapers.
pub(super) fn is_available() -> bool {
    AVAILABLE.load(Ordering::Relaxed)
}

/// Starts the program and waits for its end, for a stop, or for the end of the parent; then nobody of its family is left.
/// None: it was stopped.
fn reap(
    parent: i32,
    program: &OsString,
    arguments: impl Iterator<Item = OsString>,
) -> io::Result<Option<WaitStatus>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // Before the program is there: no signal is missed.
        let mut stop = signal(SignalKind::user_defined1())?;
        let mut ended = signal(SignalKind::child())?;
        // A program may signal its whole group (`kill 0`), which this process is in: it stays.
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

/// Waits until the process that wants the program's answer has ended, however that came: then nobody
/// asks this one to stop. A signal at a parent's death is none of its end: it comes with the end of
/// the thread that started this process.
async fn orphaned(parent: i32) {
    let mut looks = interval(LOOK_FOR_PARENT);
    while getppid().is_some_and(|now| now.as_raw_nonzero().get() == parent) {
        looks.tick().await;
    }
}

/// What became of those that ended.
enum ReapResult {
    /// The program itself has ended like that.
    ProgramEnded(WaitStatus),
    /// Others, and some are left.
    OthersEnded,
    /// Nobody is left.
    NoneLeft,
}

/// Asks all to end, and ends those that have not after a while.
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

/// Takes note of all that have ended, up to the program itself.
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

/// Ends all descendants at once. Those whose parent goes come to this process, so that in the end
/// it has waited for each of them.
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
        // The only failure is that it has gone meanwhile.
        let _ = kill_process(pid, signal);
    }
}

/// All processes below this one that are no zombies.
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

/// Holds none of the program's pipes open: whoever is at their other ends is to see it close them.
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

/// Ends this process as the program ended.
fn end_as(status: Option<WaitStatus>) -> ExitCode {
    let Some(status) = status else {
        return ExitCode::FAILURE;
    };
    if let Some(code) = status.exit_status() {
        return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX));
    }
    let number = status.terminating_signal().unwrap_or_default();
    if let Some(signal) = Signal::from_named_raw(number) {
        // Whose memory is worth a file has left it.
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
