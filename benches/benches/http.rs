//! The daemon over HTTP: reads on many sessions, turns, idle listeners, the page, memory at rest.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement ends where it cannot go on"
)]

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use mimalloc::MiMalloc;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;
use unisono::Local;
use unisono_benches::bare::local;
use unisono_benches::daemon::{listen, wait_for_event};
use unisono_benches::memory::resident;
use unisono_benches::{Conversation, Samples, Table, bytes, team, time};
use unisono_context::{Encoding, SessionId};
use unisono_model::Tokenizer;
use unisono_server::http::Server;

#[path = "http/silent.rs"]
mod silent;

/// What the program allocates with.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Sessions that are there to be read.
const SESSIONS: u128 = 1_000;
/// Messages of about 200 tokens in each.
const MESSAGES: u32 = 20;
/// Clients at the same time, a connection each.
const CLIENTS: usize = 64;
/// How long each of reading and asking is measured, after a fifth of it that is not counted.
const SLICE: Duration = Duration::from_secs(5);
/// Listeners to one session.
const LISTENERS: usize = 1_000;
/// Events whose way to all of them is measured.
const EVENTS: usize = 20;
/// The variable that names the directory of which a process is asked what it holds at rest.
const ASKED: &str = "UNISONO_BENCH_AT_REST";

/// The sessions.
fn ids() -> impl Iterator<Item = SessionId> {
    (1..=SESSIONS).map(SessionId::from_u128)
}

async fn daemon(dir: &Path) -> Local {
    let at = |name: &str| dir.join(name).display().to_string();
    let local = Local::builder()
        .directory(dir)
        .extensions(team::extensions())
        .set("store.path", at("store"))
        .set("server.token_file", at("token"))
        .set("server.bind", "127.0.0.1:0")
        .set("server.connections", "4096")
        .set("server.streams", "2048")
        .set("server.requests_per_second", "0")
        .set("turn.lead", "instant")
        .set("turn.agents", "")
        .set("compaction.preset", "off");
    local.start().await.unwrap()
}

/// Makes the sessions.
async fn fill(dir: &Path) {
    let config = "[agents.instant]\ndescription = \"answers at once\"\nkind = \"prompt\"\n\
                  model = \"extractive\"\n";
    std::fs::create_dir_all(dir.join("config")).unwrap();
    std::fs::write(dir.join("config/unisono.toml"), config).unwrap();
    let local = daemon(dir).await;
    let conversation = Conversation::new(0, MESSAGES);
    for id in ids() {
        local.import(conversation.import(id)).await.unwrap();
    }
    local.shutdown().await;
}

/// Loads the tokenizer as the daemon does, by counting.
fn count() {
    let text = unisono_benches::conversation::text(1, 2_000);
    let tokenizer = Tokenizer::load(Encoding::O200kBase).unwrap();
    assert!(tokenizer.count(&text).tokens.0 > 0);
}

/// What a daemon holds that only serves that directory, in bytes: in a process of its own.
fn at_rest(dir: &Path) -> f64 {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).env(ASKED, dir).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).trim().parse();
    assert!(said.is_ok(), "{}", String::from_utf8_lossy(&output.stderr));
    said.unwrap()
}

/// The same, in that process.
async fn rest(dir: &Path) {
    count();
    let served = Served::start(dir).await;
    served.get(&client(), "/healthz").await;
    println!("{}", resident().0);
    served.stop().await;
}

/// A daemon that listens, in this process.
struct Served {
    address: SocketAddr,
    token: String,
    sessions: Vec<String>,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<Option<Arc<str>>>,
}

impl Served {
    async fn start(dir: &Path) -> Served {
        let local = daemon(dir).await;
        let server = Server::bind(local).await.unwrap();
        let address = server.address();
        let token = std::fs::read_to_string(dir.join("token")).unwrap();
        let (stop, stopped) = oneshot::channel();
        let stopping = async {
            stopped.await.ok();
        };
        Served {
            address,
            token: token.trim().to_owned(),
            sessions: ids().map(|id| id.to_string()).collect(),
            stop,
            served: tokio::spawn(server.run(stopping)),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn get(&self, client: &Client, path: &str) -> usize {
        self.text(client, path).await.len()
    }

    async fn text(&self, client: &Client, path: &str) -> String {
        let reply = client.get(self.url(path)).bearer_auth(&self.token).send();
        let reply = reply.await.unwrap();
        assert_eq!(reply.status(), StatusCode::OK, "{path}");
        reply.text().await.unwrap()
    }

    /// The bytes that a browser gets, which accepts compressed files.
    async fn transferred(&self, client: &Client, path: &str) -> usize {
        let get = client.get(self.url(path)).bearer_auth(&self.token);
        let reply = get.header("accept-encoding", "gzip").send().await.unwrap();
        reply.bytes().await.unwrap().len()
    }

    async fn post(&self, client: &Client, path: &str, body: &Value) -> Value {
        let reply = client.post(self.url(path)).bearer_auth(&self.token);
        let reply = reply
            .header("content-type", "application/json")
            .body(body.to_string());
        let reply = reply.send().await.unwrap();
        assert!(reply.status().is_success(), "{path}: {}", reply.status());
        serde_json::from_slice(&reply.bytes().await.unwrap()).unwrap()
    }

    async fn stop(self) {
        self.stop.send(()).ok();
        assert_eq!(self.served.await.unwrap(), None);
    }
}

/// One connection that is kept.
fn client() -> Client {
    local().pool_max_idle_per_host(1).build().unwrap()
}

/// When pieces of work begin.
#[derive(Clone, Copy)]
enum Pace {
    /// Each client's as soon as its last one has ended.
    AtOnce,
    /// So many a second of all clients, whether others have ended or not: each is measured from
    /// when it was due.
    Due(f64),
}

impl Pace {
    /// When the `n`th piece of a client begins, and waits for that.
    async fn begin(self, first: Instant, which: usize, n: usize) -> Instant {
        match self {
            Pace::AtOnce => Instant::now(),
            Pace::Due(each) => {
                let due = first + Duration::from_secs_f64((n * CLIENTS + which) as f64 / each);
                tokio::time::sleep_until(due).await;
                due
            }
        }
    }
}

/// All clients work for the slice; how long each piece of work took, by the kind it says it was.
async fn slice<W>(
    served: &Arc<Served>,
    pace: Pace,
    work: impl Fn(Arc<Served>, Client, usize, usize) -> W + Copy + Send + Sync + 'static,
) -> Vec<Samples>
where
    W: Future<Output = usize> + Send,
{
    let first = Instant::now();
    let begin = first + SLICE / 5;
    let mut working = JoinSet::new();
    for which in 0..CLIENTS {
        let served = served.clone();
        working.spawn(async move {
            let (client, mut samples) = (client(), Vec::new());
            for n in 0.. {
                let start = pace.begin(first, which, n).await;
                if start >= begin + SLICE {
                    break;
                }
                let kind = work(served.clone(), client.clone(), which, n).await;
                if start >= begin {
                    samples.push((kind, start.elapsed()));
                }
            }
            samples
        });
    }
    let mut kinds = Vec::new();
    for (kind, took) in working.join_all().await.into_iter().flatten() {
        kinds.resize_with(kinds.len().max(kind + 1), Samples::default);
        kinds[kind].push(took);
    }
    kinds
}

/// What is read, in turns.
const READS: [&str; 5] = [
    "/v1/sessions?limit=20",
    "/v1/sessions/{session}",
    "/v1/sessions/{session}/messages?limit=20",
    "/v1/sessions/{session}/checkpoints",
    "/v1/agents",
];

async fn read(served: Arc<Served>, client: Client, which: usize, n: usize) -> usize {
    let session = &served.sessions[(which * 131 + n * 17) % served.sessions.len()];
    let kind = n % READS.len();
    let path = READS[kind].replace("{session}", session);
    served.get(&client, &path).await;
    kind
}

async fn ask(served: Arc<Served>, client: Client, which: usize, _: usize) -> usize {
    let path = format!("/v1/sessions/{}/turns", served.sessions[which]);
    let task = json!({"task": "Does anything speak against it?", "agents": []});
    let turn = served.post(&client, &path, &task).await;
    assert_eq!(turn["state"], "answered", "{turn}");
    0
}

/// A listener: its connection, after the head of the reply.
async fn listener(served: &Served, session: &str) -> TcpStream {
    listen(&served.address.to_string(), &served.token, session).await
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match std::env::var_os(ASKED) {
        Some(dir) => runtime.block_on(rest(Path::new(&dir))),
        None => runtime.block_on(measure()),
    }
}

async fn measure() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let table = Table::new(
        "http",
        &format!(
            "The daemon and its clients in one process on this machine: {SESSIONS} sessions of {MESSAGES} \
             messages of 200 tokens, {CLIENTS} connections, {} each. Turns have one agent that answers at \
             once, and are on disk when they are told.",
            time(SLICE)
        ),
    );
    count();
    fill(dir.path()).await;
    let held = at_rest(dir.path());
    let most = 120.0 * 1_048_576.0;
    table.row(
        "resident at rest, tokenizer loaded, 1,000 sessions stored",
        "≤ 120 MiB",
        &bytes(held),
        None,
        held <= most,
    );
    let served = Arc::new(Served::start(dir.path()).await);
    page(&table, &served).await;

    let reads = slice(&served, Pace::AtOnce, read).await;
    rate(&table, "reads", &reads, 5_000.0);
    let reads = slice(&served, Pace::Due(5_000.0), read).await;
    late(
        &table,
        "5,000 reads a second",
        &reads,
        Duration::from_millis(10),
    );
    for (what, samples) in READS.iter().zip(&reads) {
        let what = format!("of which GET {what}");
        table.note(&what, &percentiles(samples), None);
    }
    let turns = slice(&served, Pace::AtOnce, ask).await;
    rate(&table, "turns", &turns, 500.0);
    let turns = slice(&served, Pace::Due(500.0), ask).await;
    late(
        &table,
        "500 turns a second",
        &turns,
        Duration::from_millis(100),
    );
    silent::measure(&table, &served).await;
    listeners(&table, &served).await;
    Arc::into_inner(served).unwrap().stop().await;
}

/// How many a second when every client asks again at once.
fn rate(table: &Table, what: &str, kinds: &[Samples], least: f64) {
    let samples = &Samples::together(kinds);
    let each = samples.len() as f64 / SLICE.as_secs_f64();
    let result = format!("{each:.0} a second, {}", percentiles(samples));
    table.row(
        &format!("{what}, as many as there can be"),
        &format!("≥ {least:.0} a second"),
        &result,
        None,
        each >= least,
    );
}

/// How late the answers are at a rate.
fn late(table: &Table, what: &str, kinds: &[Samples], most: Duration) {
    let samples = &Samples::together(kinds);
    table.row(
        &format!("{what}, p99"),
        &format!("≤ {}", time(most)),
        &percentiles(samples),
        None,
        samples.at(0.99) <= most,
    );
}

fn percentiles(samples: &Samples) -> String {
    format!(
        "p50 {}, p99 {}",
        time(samples.median()),
        time(samples.at(0.99))
    )
}

/// The first look at the page by a daemon that showed it to nobody yet.
async fn page(table: &Table, served: &Served) {
    let client = client();
    let start = Instant::now();
    let page = served.text(&client, "/").await;
    let took = start.elapsed();
    let linked = page.split('"').filter(|path| path.starts_with("/static/"));
    let mut assets: Vec<String> = linked.map(str::to_owned).collect();
    let (mut size, mut loaded) = (served.transferred(&client, "/").await, 0);
    while let Some(asset) = assets.get(loaded).cloned() {
        let text = served.text(&client, &asset).await;
        size += served.transferred(&client, &asset).await;
        loaded += 1;
        // Scripts import each other by relative paths.
        let folder = asset.rfind('/').map_or("", |at| &asset[..=at]);
        for rest in text.split("from \"./").skip(1) {
            let imported = format!("{folder}{}", rest.split('"').next().unwrap());
            if !assets.contains(&imported) {
                assets.push(imported);
            }
        }
    }
    let most = Duration::from_millis(100);
    table.row(
        "first page, cold",
        "≤ 100 ms",
        &time(took),
        None,
        took <= most,
    );
    let met = size <= 100 * 1_024;
    table.row(
        "first page, all it loads",
        "≤ 100 KiB",
        &bytes(size as f64),
        None,
        met,
    );
    let start = Instant::now();
    let path = format!("/sessions/{}", served.sessions[0]);
    let size = served.get(&client, &path).await;
    let result = format!("{}, {}", time(start.elapsed()), bytes(size as f64));
    table.note("first page of a session", &result, None);
}

/// Idle listeners, then events that each of them hears.
async fn listeners(table: &Table, served: &Served) {
    let session = &served.sessions[SESSIONS as usize - 1];
    let client = client();
    // What the session itself takes is there before.
    served
        .get(&client, &format!("/v1/sessions/{session}"))
        .await;
    let (before, _) = resident();
    let mut streams = Vec::with_capacity(LISTENERS);
    for _ in 0..LISTENERS {
        streams.push(listener(served, session).await);
    }
    let (after, _) = resident();
    let each = (after - before).max(0.0) / LISTENERS as f64;
    let met = each <= 30.0 * 1_024.0;
    table.row(
        "an idle listener, its client included",
        "≤ 30 KiB",
        &bytes(each),
        None,
        met,
    );

    let mut samples = Samples::default();
    for n in 0..EVENTS {
        let mut hearing = JoinSet::new();
        for mut stream in streams.drain(..) {
            hearing.spawn(async move {
                let mut buffer = Vec::new();
                wait_for_event(&mut stream, b"event: branch_set", &mut buffer).await;
                (stream, Instant::now())
            });
        }
        let branch = json!({"name": format!("b{n}"), "at": "#1"});
        let path = format!("/v1/sessions/{session}/branches");
        served.post(&client, &path, &branch).await;
        // From when it is on disk and told to who asked for it.
        let reply = Instant::now();
        let mut last = reply;
        for (stream, at) in hearing.join_all().await {
            last = last.max(at);
            streams.push(stream);
        }
        samples.push(last.duration_since(reply));
    }
    let (middle, late) = (samples.median(), samples.at(0.95));
    let result = format!("p50 {}, p95 {}", time(middle), time(late));
    let met = late <= Duration::from_millis(50);
    table.row(
        "one event to 1,000 listeners",
        "≤ 50 ms",
        &result,
        None,
        met,
    );
}
