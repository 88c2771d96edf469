//! What a turn takes through each door, against `/v1`; a thousand tasks of A2A at once; the start of
//! `unisono acp`.
#![allow(
    clippy::unwrap_used,
    reason = "a measurement ends where it cannot go on"
)]

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mimalloc::MiMalloc;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use unisono::Local;
use unisono_benches::bare::local;
use unisono_benches::memory::{reset_highest, resident};
use unisono_benches::{Samples, Table, bytes, time};
use unisono_runtime::{Agent, Answer, Ctx, Extensions, Failure, Task};
use unisono_server::http::Server;

/// What the program allocates with.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The variable that names the program; by default the one of the release profile.
const PROGRAM: &str = "UNISONO";
/// Turns through each door, and turns of one session before the next one.
const ROUNDS: usize = 400;
const PER_SESSION: usize = 20;
/// How much slower than `/v1` a door may be, in the middle and at most.
const ADDED: Duration = Duration::from_millis(2);
const ADDED_AT_MOST: Duration = Duration::from_millis(10);
/// Starts of the program, and how long each may take.
const STARTS: usize = 30;
const START: Duration = Duration::from_millis(150);
/// Open tasks, and what each may hold.
const TASKS: usize = 1_000;
const PER_TASK: f64 = 256.0 * 1_024.0;
const TASK: &str = "Does anything speak against it?";
/// The agent that answers at once.
const OFFLINE: &str =
    "[agents.offline]\ndescription = \"answers at once\"\nmodel = \"extractive\"\ntools = []\n";

/// Answers once it is let.
#[derive(Clone)]
struct Held(Arc<Semaphore>);

impl Agent for Held {
    async fn run(&self, _: Task, _: Ctx) -> Result<Answer, Failure> {
        // It is not closed.
        drop(self.0.acquire().await);
        Ok(Answer::text("nothing speaks against it"))
    }
}

/// A daemon that listens, in this process.
struct Served {
    address: SocketAddr,
    token: String,
    client: Client,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<Option<Arc<str>>>,
}

impl Served {
    async fn start(dir: &Path, extensions: Extensions, lead: &str) -> Served {
        let at = |name: &str| dir.join(name).display().to_string();
        let local = Local::builder()
            .directory(dir)
            .extensions(extensions)
            .set("store.path", at("store"))
            .set("server.token_file", at("token"))
            .set("server.bind", "127.0.0.1:0")
            .set("server.connections", "4096")
            .set("server.requests", "2048")
            .set("server.streams", "2048")
            .set("server.requests_per_second", "0")
            .set("turn.lead", lead)
            .set("turn.agents", "")
            .set("compaction.preset", "off");
        let server = Server::bind(local.start().await.unwrap()).await.unwrap();
        let address = server.address();
        let token = std::fs::read_to_string(dir.join("token")).unwrap();
        let (stop, stopped) = oneshot::channel();
        let stopping = async {
            stopped.await.ok();
        };
        Served {
            address,
            token: token.trim().to_owned(),
            client: local_client(),
            stop,
            served: tokio::spawn(server.run(stopping)),
        }
    }

    /// The text of an answer, read to its end.
    async fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> String {
        let url = format!("http://{}{path}", self.address);
        let mut request = self.client.post(url).bearer_auth(&self.token);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.header("content-type", "application/json");
        let reply = request.body(body.to_string()).send().await.unwrap();
        let (status, text) = (reply.status(), reply.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status}: {text}");
        text
    }

    async fn json(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Value {
        serde_json::from_str(&self.post(path, headers, body).await).unwrap()
    }

    async fn session(&self) -> String {
        let made = self.json("/v1/sessions", &[], &json!({})).await;
        made["session"].as_str().unwrap().to_owned()
    }

    async fn a2a(&self, method: &str, params: &Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let reply = self.json("/a2a", &[("a2a-version", "1.0")], &body).await;
        assert!(reply.get("error").is_none(), "{reply}");
        reply["result"].clone()
    }

    async fn stop(self) {
        self.stop.send(()).ok();
        assert_eq!(self.served.await.unwrap(), None);
    }
}

fn local_client() -> Client {
    local().build().unwrap()
}

/// A way to give a task.
#[derive(Clone, Copy, PartialEq)]
enum Door {
    V1,
    A2a,
    A2aHttp,
    Mcp,
    OpenAi,
    Chat,
    Acp,
}

const DOORS: [(Door, &str); 7] = [
    (Door::V1, "`/v1`"),
    (Door::A2a, "A2A, JSON-RPC"),
    (Door::A2aHttp, "A2A, HTTP with JSON"),
    (Door::Mcp, "MCP, streamable HTTP"),
    (Door::OpenAi, "OpenAI, chat completions"),
    (Door::Chat, "AI SDK, UI message stream"),
    (Door::Acp, "ACP, standard input and output"),
];

/// One turn through a door, from the request to the end of the answer.
async fn turn(door: Door, served: &Served, session: &str, editor: &mut Editor, n: usize) {
    match door {
        Door::V1 => {
            let path = format!("/v1/sessions/{session}/turns");
            let turn = served.json(&path, &[], &json!({"task": TASK})).await;
            assert_eq!(turn["state"], "answered", "{turn}");
        }
        Door::A2a => {
            let params = message(session, n);
            let task = served.a2a("SendMessage", &params).await;
            assert_eq!(task["task"]["status"]["state"], "TASK_STATE_COMPLETED");
        }
        Door::A2aHttp => {
            let headers = [("a2a-version", "1.0")];
            let params = message(session, n);
            let task = served.json("/a2a/message:send", &headers, &params).await;
            assert_eq!(task["task"]["status"]["state"], "TASK_STATE_COMPLETED");
        }
        Door::Mcp => {
            let arguments = json!({"task": TASK, "session": session});
            let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {}});
            let params = json!({"name": "ask", "arguments": arguments, "_meta": meta});
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
            let headers = [
                ("accept", "application/json, text/event-stream"),
                ("mcp-protocol-version", "2026-07-28"),
                ("mcp-method", "tools/call"),
                ("mcp-name", "ask"),
            ];
            let reply = served.post("/mcp", &headers, &body).await;
            assert!(reply.contains("answered"), "{reply}");
        }
        Door::OpenAi => {
            let body = json!({"model": "team", "messages": [{"role": "user", "content": TASK}]});
            let headers = [("x-unisono-session", session)];
            let reply = served
                .json("/openai/v1/chat/completions", &headers, &body)
                .await;
            assert_eq!(reply["choices"][0]["finish_reason"], "stop", "{reply}");
        }
        Door::Chat => {
            let part = json!({"type": "text", "text": TASK});
            let message = json!({"id": format!("c{n}"), "role": "user", "parts": [part]});
            let body = json!({"id": session, "messages": [message]});
            let path = format!("/v1/sessions/{session}/chat");
            let reply = served.post(&path, &[], &body).await;
            assert!(reply.contains("[DONE]"), "{reply}");
        }
        Door::Acp => editor.prompt(session),
    }
}

/// The parameters of a message of A2A to a session.
fn message(session: &str, n: usize) -> Value {
    json!({"message": {"messageId": format!("m{n}"), "contextId": session,
        "role": "ROLE_USER", "parts": [{"text": TASK}]}})
}

/// An editor that has started the program.
struct Editor {
    program: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    asked: u64,
}

impl Editor {
    fn start(dir: &Path) -> Editor {
        let release = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/unisono");
        let program = std::env::var_os(PROGRAM).map_or(release, PathBuf::from);
        let mut command = Command::new(program);
        command.arg("acp").current_dir(dir).env("HOME", dir);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = command.spawn().unwrap();
        let output = BufReader::new(program.stdout.take().unwrap()).lines();
        let mut editor = Editor {
            input: program.stdin.take(),
            program,
            output,
            asked: 0,
        };
        editor.ask(
            "initialize",
            &json!({"protocolVersion": 1, "clientCapabilities": {}}),
        );
        editor
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.input.as_mut().unwrap(), "{request}").unwrap();
        loop {
            let message: Value =
                serde_json::from_str(&self.output.next().unwrap().unwrap()).unwrap();
            if message["id"] == id {
                assert!(message.get("error").is_none(), "{message}");
                return message["result"].clone();
            }
        }
    }

    fn session(&mut self, dir: &Path) -> String {
        let made = self.ask("session/new", &json!({"cwd": dir, "mcpServers": []}));
        made["sessionId"].as_str().unwrap().to_owned()
    }

    fn prompt(&mut self, session: &str) {
        let prompt = json!([{"type": "text", "text": TASK}]);
        let done = self.ask(
            "session/prompt",
            &json!({"sessionId": session, "prompt": prompt}),
        );
        assert_eq!(done["stopReason"], "end_turn");
    }

    fn leave(mut self) {
        drop(self.input.take());
        assert!(self.program.wait().unwrap().success());
    }
}

/// Settings of a directory whose lead is the offline model.
fn place(root: &Path, name: &str) -> PathBuf {
    let dir = root.join(name);
    std::fs::create_dir_all(dir.join("config")).unwrap();
    let settings = format!(
        "[store]\npath = {:?}\n[turn]\nlead = \"offline\"\nagents = []\n[compaction]\npreset = \"off\"\n{OFFLINE}",
        dir.join("store")
    );
    std::fs::write(dir.join("config/unisono.toml"), settings).unwrap();
    dir
}

/// Settings of a directory that a daemon of this process serves.
fn agent(dir: &Path, settings: &str) {
    std::fs::create_dir_all(dir.join("config")).unwrap();
    std::fs::write(dir.join("config/unisono.toml"), settings).unwrap();
}

#[tokio::main]
async fn main() {
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let table = Table::new(
        "doors",
        &format!(
            "{ROUNDS} turns through each door, one after the other, the doors in turns; \
             {PER_SESSION} turns of a session. The agent has the offline model; a turn is on disk when it \
             is told. The daemon and its client are one process; `unisono acp` is another one, on a \
             store of its own."
        ),
    );
    latency(&table, root.path()).await;
    starts(&table, root.path());
    tasks(&table, root.path()).await;
}

async fn latency(table: &Table, root: &Path) {
    let dir = root.join("daemon");
    agent(&dir, OFFLINE);
    let served = Served::start(&dir, Extensions::default(), "offline").await;
    let beside = place(root, "editor");
    let mut editor = Editor::start(&beside);
    let mut samples = DOORS.map(|_| Samples::default());
    let mut sessions = vec![String::new(); DOORS.len()];
    // The first session is not counted.
    for n in 0..ROUNDS + PER_SESSION {
        if n % PER_SESSION == 0 {
            for (at, (door, _)) in DOORS.iter().enumerate() {
                sessions[at] = match door {
                    Door::Acp => editor.session(&beside),
                    _ => served.session().await,
                };
            }
        }
        for offset in 0..DOORS.len() {
            let at = (n + offset) % DOORS.len();
            let begun = Instant::now();
            turn(DOORS[at].0, &served, &sessions[at], &mut editor, n).await;
            if n >= PER_SESSION {
                samples[at].push(begun.elapsed());
            }
        }
    }
    let (p50, p99) = (samples[0].median(), samples[0].at(0.99));
    for ((_, name), samples) in DOORS.iter().zip(&samples) {
        let (middle, most) = (samples.median(), samples.at(0.99));
        let shown = format!("p50 {}, p99 {}", time(middle), time(most));
        match *name == DOORS[0].1 {
            true => table.note(name, &shown, None),
            false => {
                let met = middle <= p50 + ADDED && most <= p99 + ADDED_AT_MOST;
                let target = format!("p50 + {}, p99 + {}", time(ADDED), time(ADDED_AT_MOST));
                table.row(
                    name,
                    &target,
                    &shown,
                    Some(samples.ratio(&samples_of(&[p50]))),
                    met,
                );
            }
        }
    }
    editor.leave();
    served.stop().await;
}

fn samples_of(all: &[Duration]) -> Samples {
    let mut samples = Samples::default();
    all.iter().for_each(|one| samples.push(*one));
    samples
}

fn starts(table: &Table, root: &Path) {
    let dir = place(root, "starts");
    Editor::start(&dir).leave();
    let mut samples = Samples::default();
    for _ in 0..STARTS {
        let begun = Instant::now();
        let editor = Editor::start(&dir);
        samples.push(begun.elapsed());
        editor.leave();
    }
    let middle = samples.median();
    table.row(
        "`unisono acp`, from its start to the answer to `initialize`",
        &format!("≤ {}", time(START)),
        &format!("p50 {}, p99 {}", time(middle), time(samples.at(0.99))),
        None,
        middle <= START,
    );
}

async fn tasks(table: &Table, root: &Path) {
    let dir = root.join("tasks");
    agent(
        &dir,
        &format!(
            "[agents.held]\ndescription = \"waits\"\nkind = \"held\"\nmodel = \"extractive\"\nmax_concurrent = {TASKS}\n"
        ),
    );
    let door = Arc::new(Semaphore::new(0));
    let extensions = Extensions::default().agent("held", Held(door.clone()));
    let served = Arc::new(Served::start(&dir, extensions, "held").await);
    // Not counted: the first task loads what all need.
    begin(&served, 0).await;
    let before = reset_highest();
    let begun = Instant::now();
    let mut sending = JoinSet::new();
    for n in 1..=TASKS {
        let served = served.clone();
        sending.spawn(async move { begin(&served, n).await });
    }
    let ids = sending.join_all().await;
    let (held, accepted) = (resident().0 - before, begun.elapsed());
    door.add_permits(TASKS + 1);
    for id in &ids {
        loop {
            let task = served.a2a("GetTask", &json!({"id": id})).await;
            match task["status"]["state"].as_str() {
                Some("TASK_STATE_COMPLETED") => break,
                Some("TASK_STATE_WORKING" | "TASK_STATE_SUBMITTED") => {}
                other => assert_eq!(other, None, "{task}"),
            }
        }
    }
    let (most, done) = (resident().1 - before, begun.elapsed());
    let per_task = most / TASKS as f64;
    table.note(
        &format!("{TASKS} A2A tasks, one per session: all accepted"),
        &time(accepted),
        None,
    );
    table.note("the same: all answered", &time(done), None);
    table.note("resident while all are open", &bytes(held), None);
    table.row(
        "resident at most, per task",
        &format!("≤ {}", bytes(PER_TASK)),
        &bytes(per_task),
        None,
        per_task <= PER_TASK,
    );
    let served = Arc::into_inner(served).unwrap();
    served.stop().await;
}

/// Begins a task and returns its id.
async fn begin(served: &Served, n: usize) -> String {
    let message = json!({"messageId": format!("t{n}"), "role": "ROLE_USER",
        "parts": [{"text": TASK}]});
    let how = json!({"returnImmediately": true});
    let params = json!({"message": message, "configuration": how});
    let task = served.a2a("SendMessage", &params).await;
    task["task"]["id"].as_str().unwrap().to_owned()
}
