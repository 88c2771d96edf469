//! A place of its own for each test, and the program in it. Every wait is bounded.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use unisono::local::open_store;
use unisono_context::SessionId;
use unisono_fake_provider::{FakeProvider, Recorded};
use unisono_session::Event;

/// Nothing here takes nearly as long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/orders-migration.jsonl");
    path.canonicalize().unwrap().display().to_string()
}

/// A short conversation.
const TALK: &str =
    r#"[{"role":"user","content":"We ship on Friday."},{"role":"assistant","content":"Noted."}]"#;

/// Settings under which tiers have little room.
pub(crate) const TIERED: &str = r#"
[models]
default = "extractive"
[compaction]
preset = "tiered"
trigger_tokens = 3_000
topic_ends_over = 0.0
summarisers = ["extractive"]
"#;

/// The key of the provider in [`faked`].
pub(crate) const KEY: &str = "sk-test-4c1f9a77e2d04b61";

/// Settings whose provider of that kind is a fake one; others of that provider may follow.
fn faked(kind: &str, provider: &FakeProvider) -> String {
    let base = provider.url();
    let version = if kind.starts_with("openai") {
        "/v1"
    } else {
        ""
    };
    format!("[providers.{kind}]\nbase_url = \"{base}{version}\"\napi_key_env = \"TEST_KEY\"\n")
}

pub(crate) fn openai(provider: &FakeProvider) -> String {
    faked("openai", provider)
}

pub(crate) fn words(command: &str) -> Vec<&str> {
    command.split(' ').collect()
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    awaited(|| is_so().then_some(()).ok_or(what));
}

/// Looks until a look finds something. The error of the last look says what there was instead.
#[track_caller]
pub(crate) fn awaited<T, E: std::fmt::Display>(mut look: impl FnMut() -> Result<T, E>) -> T {
    let latest = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(Instant::now() < latest, "{seen}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn is_of(agent: &str, request: &Recorded) -> bool {
    let text = String::from_utf8_lossy(&request.body);
    text.contains(&format!("You are the agent \\\"{agent}\\\""))
}

pub(crate) fn asks_for_a_summary(request: &Recorded) -> bool {
    request.json().to_string().contains("<conversation>")
}

/// A home, a project and a store that nobody else uses.
pub(crate) struct Place {
    root: TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("config")).unwrap();
        fs::write(root.path().join("config/unisono.toml"), "").unwrap();
        Place { root }
    }

    /// With these settings of the project.
    pub(crate) fn with_config(text: &str) -> Place {
        let place = Place::new();
        place.set_config(text);
        place
    }

    /// With the settings of [`faked`], and these after them.
    pub(crate) fn with_provider(kind: &str, provider: &FakeProvider, more: &str) -> Place {
        Place::with_config(&(faked(kind, provider) + more))
    }

    pub(crate) fn with_openai(provider: &FakeProvider, more: &str) -> Place {
        Place::with_provider("openai", provider, more)
    }

    /// [`Place::with_provider`], with the key in a file, so that no command needs it.
    pub(crate) fn with_key_file(kind: &str, provider: &FakeProvider, more: &str) -> Place {
        let more = format!("api_key_file = \"key\"\n{more}");
        let place = Place::with_provider(kind, provider, &more);
        place.write("key", KEY);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn config(&self) -> String {
        fs::read_to_string(self.path("config/unisono.toml")).unwrap()
    }

    pub(crate) fn set_config(&self, text: impl AsRef<[u8]>) {
        self.write("config/unisono.toml", text);
    }

    /// Writes this text as the catalogue of models, and names its file in the settings of the project.
    pub(crate) fn set_catalogue(&self, models: &str) {
        self.write("config/models.toml", models);
        let named = "[models]\ncatalogue = \"config/models.toml\"\n";
        self.set_config(self.config().replacen("[models]\n", named, 1));
    }

    /// Has a short conversation in `talk.json`.
    pub(crate) fn talk(&self) {
        self.write("talk.json", TALK);
    }

    /// A process that holds the store: a run whose agent waits until it is told to end.
    pub(crate) fn held(&self) -> Going {
        let started = self.fifo("started");
        let script = format!("echo $$ > '{}'; sleep 600", started.display());
        self.set_config(format!(
            "[agents.waits]\ndescription = \"Test\"\nkind = \"command\"\ncommand = \"sh\"\n\
                 args = [\"-c\", {script:?}]\n"
        ));
        let run = self.command(&["run", &example(), "--agents", "waits"]);
        let going = Going::start(run);
        heard(&started);
        going
    }

    /// A named pipe: whoever opens it waits for the other side.
    pub(crate) fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        path
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_unisono")), args)
    }

    /// The same with the key of the fake provider.
    pub(crate) fn keyed_command(&self, args: &[&str]) -> Command {
        let mut command = self.command(args);
        command.env("TEST_KEY", KEY);
        command
    }

    /// Another program at this place.
    pub(crate) fn command_of(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        let ours = |name: &str| {
            let name = name.to_ascii_uppercase();
            name.starts_with("UNISONO") || name.ends_with("_API_KEY") || name.ends_with("_PROXY")
        };
        let variables = std::env::vars().filter(|(name, _)| ours(name));
        variables.for_each(|(name, _)| {
            command.env_remove(name);
        });
        command
            .args(args)
            .current_dir(self.root.path())
            .env("HOME", self.root.path())
            .env("XDG_CONFIG_HOME", self.path("settings"))
            .env("XDG_DATA_HOME", self.path("data"))
            .env_remove("NO_COLOR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Calls the program and waits for its end.
    pub(crate) fn call(&self, args: &[&str]) -> Done {
        finish(self.command(args).spawn().unwrap(), args)
    }

    /// The same with the key of the fake provider.
    pub(crate) fn keyed(&self, args: &[&str]) -> Done {
        finish(self.keyed_command(args).spawn().unwrap(), args)
    }

    /// Calls it with a text on standard input.
    pub(crate) fn call_with(&self, input: &str, args: &[&str]) -> Done {
        self.write("input", input);
        let input = fs::File::open(self.path("input")).unwrap();
        finish(self.command(args).stdin(input).spawn().unwrap(), args)
    }

    /// The JSON a call prints; it must end well.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let args = [args, &["--json"]].concat();
        self.call(&args).expect(0).json()
    }

    /// The same for a call with the key that asks for JSON itself.
    #[track_caller]
    pub(crate) fn keyed_json(&self, args: &[&str]) -> Value {
        self.keyed(args).expect(0).json()
    }

    /// What a call prints; it must end well.
    #[track_caller]
    pub(crate) fn stdout(&self, args: &[&str]) -> String {
        self.call(args).expect(0).stdout
    }

    /// A call that ends well; its messages must say all of that.
    #[track_caller]
    pub(crate) fn says(&self, args: &[&str], words: &[&str]) -> Done {
        self.call(args).expect(0).says(words)
    }

    /// A call that fails; its messages must say all of that.
    #[track_caller]
    pub(crate) fn fails(&self, args: &[&str], words: &[&str]) -> Done {
        self.call(args).expect(1).says(words)
    }

    /// A call that is refused as it was written; its messages must say all of that.
    #[track_caller]
    pub(crate) fn refuses(&self, args: &[&str], words: &[&str]) -> Done {
        self.call(args).expect(2).says(words)
    }

    /// All events of a session, read from the store as the program left it.
    pub(crate) fn events(&self, session: &str) -> Vec<Event> {
        let id: SessionId = session.parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let journal = open_store(&self.path("data/unisono"))
                .await
                .unwrap()
                .journal;
            let events = journal.read(id, 1, 100_000).await.unwrap();
            journal.close().await.unwrap();
            events.into_iter().map(|(_, event)| event).collect()
        })
    }
}

/// A text that is to have some others in it, or none of some.
pub(crate) trait HasAll {
    fn has_all(&self, parts: &[&str]);
    fn has_none(&self, parts: &[&str]);
}

impl HasAll for str {
    #[track_caller]
    fn has_all(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.contains(part), "{part:?} is missing: {self}");
        }
    }

    #[track_caller]
    fn has_none(&self, parts: &[&str]) {
        for part in parts {
            assert!(!self.contains(part), "{part:?} is there: {self}");
        }
    }
}

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    /// It must have ended with that code.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Done {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Its messages must say all of that.
    #[track_caller]
    pub(crate) fn says(self, words: &[&str]) -> Done {
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is missing: {self:#?}");
        }
        for never in ["panicked at", "RUST_BACKTRACE", "Some(", "Err("] {
            assert!(
                !self.stderr.contains(never),
                "{never:?} is shown: {self:#?}"
            );
        }
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// Waits for the end of a child; one that takes too long is ended.
pub(crate) fn finish(mut child: Child, what: &[&str]) -> Done {
    let stdout = read_all(child.stdout.take().unwrap());
    let stderr = read_all(child.stderr.take().unwrap());
    let status = wait(&mut child).unwrap_or_else(|| panic!("{what:?} did not end in time"));
    let text = |from: Receiver<Vec<u8>>| {
        String::from_utf8_lossy(&from.recv_timeout(PATIENCE).unwrap()).into_owned()
    };
    Done {
        code: status.code(),
        stdout: text(stdout),
        stderr: text(stderr),
    }
}

fn read_all(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).ok();
        send.send(bytes).ok();
    });
    receive
}

/// Waits for the end of a child; none if it took too long and was ended.
pub(crate) fn wait(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if Instant::now() > deadline {
            child.kill().ok();
            child.wait().ok();
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// A call that goes on.
pub(crate) struct Going {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Going {
    pub(crate) fn start(mut command: Command) -> Going {
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Going {
            child,
            lines,
            said: Vec::new(),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until a line of its messages says all of that.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, words: &[&str]) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if words.iter().all(|word| line.contains(word)) {
                        return line;
                    }
                }
                Err(_) => panic!("{words:?} was not said: {:#?}", self.said),
            }
        }
    }

    /// SIGKILL; it is gone when this returns.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        assert_eq!(self.child.wait().unwrap().code(), None);
    }

    /// Ends it with that signal, as a person or the system does.
    pub(crate) fn signal(&self, signal: &str) {
        send_signal(signal, &self.id().to_string());
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Done {
        let stdout = read_all(self.child.stdout.take().unwrap());
        let status =
            wait(&mut self.child).unwrap_or_else(|| panic!("it did not end: {:#?}", self.said));
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.said.push(line);
        }
        let stdout = String::from_utf8(stdout.recv_timeout(PATIENCE).unwrap()).unwrap();
        Done {
            code: status.code(),
            stdout,
            stderr: self.said.join("\n"),
        }
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub(crate) fn send_signal(signal: &str, id: &str) {
    let Output { status, stderr, .. } = Command::new("kill")
        .args([format!("-{signal}").as_str(), id])
        .output()
        .unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
}

/// Kills a process that may have ended already: programs of a killed daemon end by themselves.
pub(crate) fn kill_if_alive(id: &str) {
    let Output { status, stderr, .. } = Command::new("kill").args(["-KILL", id]).output().unwrap();
    let said = String::from_utf8_lossy(&stderr);
    assert!(
        status.success() || said.contains("No such process"),
        "{said}"
    );
}

/// The first line somebody writes into a fifo.
#[track_caller]
pub(crate) fn heard(fifo: &Path) -> String {
    let (send, receive) = mpsc::channel();
    let path = fifo.to_owned();
    thread::spawn(move || send.send(fs::read_to_string(path).unwrap_or_default()));
    let text = receive
        .recv_timeout(PATIENCE)
        .expect("nobody wrote into the fifo");
    text.trim().to_owned()
}

/// Writes a line into a fifo once somebody reads it.
#[track_caller]
pub(crate) fn tell(fifo: &Path, line: &str) {
    let (send, receive) = mpsc::channel();
    let (path, line) = (fifo.to_owned(), format!("{line}\n"));
    thread::spawn(move || send.send(fs::write(path, line).is_ok()));
    assert!(
        receive
            .recv_timeout(PATIENCE)
            .expect("nobody read the fifo")
    );
}

/// Whether a process runs; one that has ended and was not waited for does not.
pub(crate) fn is_alive(process: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(process).join("stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}
