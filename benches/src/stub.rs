//! The provider as a process of its own, so that what it does is not counted as a client's.
#![allow(clippy::print_stdout, reason = "that is how the processes talk")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use unisono_fake_provider::{Act, Answer, FakeProvider, Keep, Pace, Script};

/// Set for a process that is to be the provider, to the milliseconds before its first event.
const ASKED: &str = "UNISONO_BENCH_STUB_MS";

/// What each agent is answered.
const ANSWER: &str = "Nothing speaks against it: the index is there, and the export was checked.";

/// A provider that is running. Ends when it is dropped, or when this process ends.
pub struct Stub {
    child: Child,
    url: String,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Stub {
    /// Starts this program once more, as the provider: its `main` calls [`serve_if_asked`].
    pub fn start(first: Duration) -> Stub {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .env(ASKED, first.as_millis().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again");
        let ask = child.stdin.take().expect("a pipe was asked for");
        let stdout = child.stdout.take().expect("a pipe was asked for");
        let mut stub = Stub {
            child,
            url: String::new(),
            ask,
            answers: BufReader::new(stdout),
        };
        stub.url = stub.line();
        stub
    }

    /// Its address without a path.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The requests it has received so far.
    pub fn requests(&mut self) -> usize {
        self.ask.write_all(b"requests\n").expect("it runs");
        self.line().parse().expect("it answers with a number")
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it runs");
        line.trim_end().to_owned()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Is the provider, if this process was started to be one, until its standard input ends.
/// Says whether it was. To be called before anything else.
pub fn serve_if_asked() -> bool {
    let Ok(first) = std::env::var(ASKED) else {
        return false;
    };
    let provider = provider(Keep::Nothing, first.parse().expect("a number"));
    println!("{}", provider.url());
    for _ in std::io::stdin().lines() {
        println!("{}", provider.request_count());
    }
    true
}

/// The provider in this process, on a thread of its own. `first`: milliseconds before the first
/// event of an answer.
pub fn provider(keep: Keep, first: u64) -> FakeProvider {
    let mut act = Act::answer(Answer::text(ANSWER).in_pieces_of(4));
    if first > 0 {
        act = act.pace(Pace {
            first: Duration::from_millis(first),
            tokens_per_second: 0,
        });
    }
    let builder = FakeProvider::builder().keep(keep);
    builder.script(Script::always(act)).start_on_thread()
}
