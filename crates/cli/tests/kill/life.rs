//! One life of the process: started with the place where it is to die, and watched until it ends.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::scene::Scene;
use crate::support::PATIENCE;

/// Where a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// Nowhere: it ends by itself.
    None,
    /// At a commit of the journal: just before it is synced, or just after, before anybody is told.
    Commit { number: u64, synced: bool },
    /// Before a write to the journal's file.
    Write { number: u64 },
    /// So long after there were so many more of something.
    Moment { of: Of, more: usize, wait: Duration },
}

/// What is counted outside of the process that is to die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// What the provider was asked.
    Requests,
    /// What the server of tools was asked.
    Calls,
    /// Calls that a person is about to answer.
    Decisions,
}

impl Death {
    pub(crate) fn tell(self, command: &mut Command) {
        let (call, number, after) = match self {
            Death::Commit { number, synced } => ("sync", number, synced),
            Death::Write { number } => ("write", number, false),
            Death::None | Death::Moment { .. } => return,
        };
        command
            .env("LD_PRELOAD", library())
            .env("KILL_FILE", "/db")
            .env("KILL_CALL", call)
            .env("KILL_AT", number.to_string());
        if after {
            command.env("KILL_AFTER", "1");
        }
    }
}

/// The compiled `kill.c`; built once per run.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let name = format!("kill-{}.so", std::process::id());
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kill/kill.c");
        let mut cc = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        cc.args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"]);
        let status = cc.arg(&library).arg(source).arg("-ldl").status();
        let built = status.is_ok_and(|status| status.success());
        assert!(built, "the harness needs a C compiler as `cc`");
        library
    })
}

/// Kills a process at its moment, if that is where it is to die. Ends with it.
pub(crate) fn watch<T>(scene: &Scene, death: Death, pid: u32, work: impl FnOnce() -> T) -> T {
    let Death::Moment { of, more, wait } = death else {
        return work();
    };
    let wanted = scene.count(of) + more;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while scene.count(of) < wanted {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                thread::sleep(Duration::from_micros(200));
            }
            thread::sleep(wait);
            if !over.load(Ordering::SeqCst) {
                let pid = pid.to_string();
                // It may have ended by itself.
                let _ = Command::new("kill").args(["-KILL", &pid]).status();
            }
        });
        let result = work();
        over.store(true, Ordering::SeqCst);
        result
    })
}

/// Waits for its end, and kills it where it is to stop. Whether it ended well; a death is none.
pub(crate) fn wait(child: &mut Child, stops: impl Fn() -> bool) -> Result<bool, String> {
    let deadline = Instant::now() + PATIENCE;
    let mut stopped = false;
    loop {
        if !stopped && stops() {
            stopped = child.kill().is_ok();
        }
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return match status.code() {
                Some(0) => Ok(true),
                Some(code) => Err(format!("it ended with {code}")),
                None => Ok(false),
            };
        }
        if Instant::now() > deadline {
            // It is ours, and not reaped yet.
            let _ = child.kill();
            let _ = child.wait();
            return Err("it does not end".to_owned());
        }
        thread::sleep(Duration::from_millis(2));
    }
}
