//! A daemon with many open turns is killed: how fast the others dispatch every run again.
//!
//! The daemons are this program once more, each a process with the library and the server of the program, and
//! agents that never answer: what they begin is counted, and nothing outside is asked.
#![allow(clippy::print_stdout, reason = "that is how the processes talk")]

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use unisono::Local;
use unisono_benches::daemon::TOKEN;
use unisono_benches::{Conversation, Table, team, time};
use unisono_context::SessionId;
use unisono_context::policy::{Policy, Preset};
use unisono_runtime::{Agent, Answer, Ctx, Failure, Task};
use unisono_server::http::Server;

use crate::database::Database;

/// Set for a process that is to be a daemon: the database, its directory, how many turns it begins.
const ASKED: &str = "UNISONO_BENCH_DAEMON";
const SEPARATOR: char = '|';
const DELEGATES: usize = 16;
const MESSAGES: u32 = 40;
/// Sessions that begin their turns at a time.
const AT_A_TIME: usize = 16;
const TAKEOVER_AFTER: Duration = Duration::from_secs(5);
const TARGET: Duration = Duration::from_secs(5);
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// Never answers.
#[derive(Clone, Default)]
struct Begun(Arc<AtomicUsize>);

impl Agent for Begun {
    async fn run(&self, _: Task, _: Ctx) -> Result<Answer, Failure> {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }
}

/// Is a daemon, if this process was started to be one. Says whether it was.
pub(crate) fn serve_if_asked() -> bool {
    let Ok(asked) = std::env::var(ASKED) else {
        return false;
    };
    let parts: Vec<&str> = asked.split(SEPARATOR).collect();
    let [url, directory, turns] = parts[..] else {
        panic!("{asked}")
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(serve(url, Path::new(directory), turns.parse().unwrap()));
    true
}

async fn serve(url: &str, directory: &Path, turns: usize) {
    let at = |name: &str| directory.join(name).display().to_string();
    let token = directory.join("token");
    std::fs::write(&token, TOKEN).unwrap();
    std::fs::set_permissions(token, Permissions::from_mode(0o600)).unwrap();
    let begun = Begun::default();
    let takeover_after = format!("{}ms", TAKEOVER_AFTER.as_millis());
    let local = Local::builder()
        .directory(directory)
        .agent("begun", begun.clone())
        .set("store.path", at("store"))
        .set("store.url", url)
        .set("cluster.takeover_after", takeover_after)
        .set("server.token_file", at("token"))
        .set("server.bind", "127.0.0.1:0")
        .set("runtime.queue_per_agent", "1000000");
    let local = local.start().await.unwrap();
    let next = AtomicUsize::new(0);
    let begin = async || {
        loop {
            let n = next.fetch_add(1, Ordering::SeqCst);
            if n >= turns {
                return;
            }
            let conversation = Conversation::new(0, MESSAGES);
            let import = conversation.import(SessionId::from_u128(1 + n as u128));
            let handle = local.import(import).await.unwrap();
            let team = team::team_of(DELEGATES, team::unanswered);
            let turn = team::turn(
                "main",
                team,
                team::question(),
                Policy::from_preset(Preset::Off),
            );
            handle.accept(turn).await.unwrap();
        }
    };
    let beginning: Vec<_> = (0..AT_A_TIME).map(|_| begin()).collect();
    futures_util::future::join_all(beginning).await;
    let server = Server::bind(local).await.unwrap();
    let serving = tokio::spawn(server.run(std::future::pending()));
    println!("ready");
    let asked = tokio::task::spawn_blocking(move || {
        for _ in std::io::stdin().lines() {
            println!("{}", begun.0.load(Ordering::SeqCst));
        }
    });
    asked.await.unwrap();
    serving.abort();
}

/// Such a process. Ends when it is dropped.
struct Daemon {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
    _directory: tempfile::TempDir,
}

impl Daemon {
    fn start(url: &str, turns: usize) -> Daemon {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place = directory.path().display();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(ASKED, format!("{url}{SEPARATOR}{place}{SEPARATOR}{turns}"))
            .env("HOME", directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut daemon = Daemon {
            ask: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
            _directory: directory,
        };
        assert_eq!(daemon.line(), "ready");
        daemon
    }

    /// The runs that it has dispatched.
    fn runs(&mut self) -> usize {
        self.ask.write_all(b"runs\n").unwrap();
        self.line().parse().unwrap()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until these daemons have dispatched so many runs.
async fn dispatched(daemons: &mut [Daemon], wanted: usize) {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        let runs: usize = daemons.iter_mut().map(Daemon::runs).sum();
        if runs >= wanted {
            return;
        }
        assert!(tokio::time::Instant::now() < until, "{runs} of {wanted}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) async fn measure(table: &Table, database: &Database) {
    // A smaller number shows that it works; only the whole one is a figure.
    let asked = std::env::var("UNISONO_BENCH_TURNS");
    let turns = asked.map_or(1_000, |turns| turns.parse().unwrap());
    let url = database.schema("takeover").await;
    // They are there before the sessions: a daemon that starts also indexes those of the others.
    let mut living = [Daemon::start(&url, 0), Daemon::start(&url, 0)];
    let mut killed = [Daemon::start(&url, turns)];
    dispatched(&mut killed, turns * DELEGATES).await;
    let pids = living.each_ref().map(|daemon| daemon.child.id());
    drop(killed);
    let before = database.spent(&pids).await;
    let last = database
        .number("SELECT min(beat_unix_ms) FROM takeover.unisono_members")
        .await;
    dispatched(&mut living, turns * DELEGATES).await;
    let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let ended = last + TAKEOVER_AFTER.as_millis() as i64;
    let took = database.number(now).await - ended;
    let took = Duration::from_millis(u64::try_from(took).unwrap_or_default());
    let spent = database.spent(&pids).await.since(&before);
    let each: Vec<String> = living
        .iter_mut()
        .map(|one| one.runs().to_string())
        .collect();
    table.row(
        &format!(
            "takeover after SIGKILL: {turns} open turns of {DELEGATES} runs, from the end of the lease to \
             the last dispatch"
        ),
        "≤ 5 s",
        &format!(
            "{}, by two daemons ({} runs); {:.1} statements a session, {} of the daemons' processors, {} \
             of the database's",
            time(took),
            each.join(" and "),
            spent.statements as f64 / turns as f64,
            time(spent.daemons),
            time(spent.database)
        ),
        None,
        took <= TARGET,
    );
}
