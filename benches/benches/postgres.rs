//! Durable appends of 64 sessions to PostgreSQL: the engine, `pgbench` and a client for each session that
//! insert one row a transaction, and the engine on sled, in turns; and rounds of agents on both engines: the
//! parts `appends` and `rounds`. The database is on the same cores.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a measurement ends where it cannot go on"
)]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};
use unisono_benches::appending::{EVENT_BYTES, Session, Side, Writer};
use unisono_benches::parts::is_asked;
use unisono_benches::remote;
use unisono_benches::stub::{self, Stub};
use unisono_benches::{Conversation, Samples, Table, time};
use unisono_runtime::Runtime;
use unisono_store::postgres::{Options, Postgres};
use unisono_store::{Disk, Engine};
use unisono_test_postgres::Server;

const WRITERS: u128 = 64;
/// How long each side works before it is the next one's turn.
const SLICE: Duration = Duration::from_secs(1);
const SLICES: usize = 6;
/// Agents of a round, and the messages of its context: about 80k tokens.
const AGENTS: usize = 16;
const MESSAGES: u32 = 400;
/// Rounds that are not counted, and those that are.
const WARM_UP: usize = 3;
const ROUNDS: usize = 30;

/// A transaction of `pgbench`: a row as the engine's.
const TRANSACTION: &str = "\
\\set seq :seq + 1
INSERT INTO rows VALUES (lpad(:client_id::text, 32, '0')::uuid, :seq, 0, :payload);
";

/// Transactions of each client of `pgbench` in a slice: about a second of work.
const TRANSACTIONS: &str = "250";

/// Lets `pgbench` insert rows for a slice; the answer is how many a second, without the time to connect.
fn pgbench(server: &Server, script: &Path, slice: usize) -> f64 {
    let payload = format!("payload=\\x{}", "61".repeat(EVENT_BYTES));
    let mut command = Command::new(server.client_program("pgbench"));
    command.args(["-n", "-M", "prepared", "-c", &WRITERS.to_string()]);
    command.args(["-j", "2", "-t", TRANSACTIONS]);
    command.args(["-D", &format!("seq={slice}000000"), "-D", &payload]);
    let done = command.arg("-f").arg(script).arg(server.url("public"));
    let done = done.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let rate = said.lines().find_map(|line| line.strip_prefix("tps = "));
    let rate = rate.and_then(|rest| rest.split(' ').next()?.parse().ok());
    rate.unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&done.stderr)))
}

/// One connection that inserts a row at a time.
struct Row {
    client: Client,
    insert: Statement,
    session: i64,
    last: i64,
}

impl Writer for Row {
    async fn append(&mut self) {
        self.last += 1;
        let payload = vec![self.last as u8; EVENT_BYTES];
        let row: [&(dyn ToSql + Sync); 3] = [&self.session, &self.last, &payload];
        let inserted = self.client.execute(&self.insert, &row);
        inserted.await.unwrap();
    }
}

async fn connect(server: &Server) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url("public"), NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}

async fn rows(server: &Server) -> Vec<Row> {
    let tables = "\
CREATE TABLE plain (session bigint, seq bigint, payload bytea, PRIMARY KEY (session, seq));
CREATE TABLE rows (session uuid, seq bigint, checksum bigint, payload bytea, PRIMARY KEY (session, seq));";
    connect(server).await.batch_execute(tables).await.unwrap();
    let mut rows = Vec::new();
    for session in 1..=WRITERS as i64 {
        let client = connect(server).await;
        let insert = client
            .prepare("INSERT INTO plain VALUES ($1, $2, $3)")
            .await
            .unwrap();
        rows.push(Row {
            client,
            insert,
            session,
            last: 0,
        });
    }
    rows
}

/// Rounds of a lead and its delegates on one engine.
struct Rounds {
    session: remote::Session,
    times: Samples,
    _runtime: Runtime,
}

impl Rounds {
    async fn new(engine: Arc<dyn Engine>, stub: &Stub) -> Rounds {
        let runtime = remote::runtime(engine, stub.url()).await;
        let conversation = Conversation::new(0, MESSAGES);
        Rounds {
            session: remote::Session::create(&runtime, 1, &conversation).await,
            times: Samples::default(),
            _runtime: runtime,
        }
    }

    async fn round(&mut self, number: usize) {
        let branch = format!("branch-{number}");
        self.session.fork(&branch).await;
        let took = self.session.answer(&branch, remote::team(AGENTS)).await;
        if number >= WARM_UP {
            self.times.push(took);
        }
    }
}

fn main() {
    if stub::serve_if_asked() {
        return;
    }
    let server = Server::start(&["max_connections=200", "shared_buffers=128MB"]).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(measure(&server));
}

async fn measure(server: &Server) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let table = Table::new(
        "postgres",
        &format!(
            "{WRITERS} sessions append 1 KiB each, one after the other, and wait until it is on disk: \
             {SLICES} slices of {}, in turns. PostgreSQL is on the same cores and the same disk.",
            time(SLICE)
        ),
    );
    if is_asked("appends") {
        appends(&table, server, dir.path()).await;
    }
    if is_asked("rounds") {
        rounds(&table, server, dir.path()).await;
    }
}

/// Appends by the engine, by `pgbench`, by clients that insert a row each, and on sled, in turns.
async fn appends(table: &Table, server: &Server, dir: &Path) {
    let disk = Disk::open(dir.join("store")).unwrap().disk;
    let disk: Arc<dyn Engine> = Arc::new(disk);
    let engine = Postgres::open(Options::new(&server.url("public"), None).unwrap());
    let engine: Arc<dyn Engine> = Arc::new(engine.await.unwrap());
    let mut ours = Session::claim(&engine, WRITERS).await;
    let mut sled = Session::claim(&disk, WRITERS).await;
    let mut plain = rows(server).await;
    let script = dir.join("rows.sql");
    std::fs::write(&script, TRANSACTION).unwrap();
    let [mut by_ours, mut by_plain, mut by_sled] = [(); 3].map(|()| Side::default());
    let mut by_pgbench = 0.0;
    for slice in 1..=SLICES {
        ours = by_ours.work(SLICE, ours).await;
        by_pgbench += pgbench(server, &script, slice) / SLICES as f64;
        plain = by_plain.work(SLICE, plain).await;
        sled = by_sled.work(SLICE, sled).await;
    }
    let pgbench = "pgbench, one row a transaction, a connection each";
    table.note(pgbench, &format!("{by_pgbench:.0}/s"), None);
    let ratio = by_ours.rate() / by_pgbench;
    table.row(
        "the engine",
        "≥ 3 × of these",
        &by_ours.shown(),
        Some(ratio),
        ratio >= 3.0,
    );
    let ratio = by_ours.rate() / by_plain.rate();
    table.note(
        "of a client that sends such rows without text",
        &by_plain.shown(),
        Some(ratio),
    );
    let ratio = by_ours.rate() / by_sled.rate();
    table.row(
        "of the engine on sled",
        "≥ 0.35 ×",
        &by_sled.shown(),
        Some(ratio),
        ratio >= 0.35,
    );
}

/// Rounds on sled and on PostgreSQL, in turns.
async fn rounds(table: &Table, server: &Server, dir: &Path) {
    let schema = connect(server).await;
    schema.batch_execute("CREATE SCHEMA rounds").await.unwrap();
    let stub = Stub::start(Duration::ZERO);
    let disk = Disk::open(dir.join("rounds")).unwrap().disk;
    let mut sled = Rounds::new(Arc::new(disk), &stub).await;
    let engine = Postgres::open(Options::new(&server.url("rounds"), None).unwrap());
    let mut ours = Rounds::new(Arc::new(engine.await.unwrap()), &stub).await;
    for number in 0..WARM_UP + ROUNDS {
        sled.round(number).await;
        ours.round(number).await;
    }
    let what = format!("a round of {AGENTS} agents on 80k tokens, median of {ROUNDS}");
    let by_sled = time(sled.times.median());
    table.note(&format!("{what}: on sled"), &by_sled, None);
    let ratio = ours.times.ratio(&sled.times);
    table.row(
        &what,
        "≤ 1.5 × sled's",
        &time(ours.times.median()),
        Some(ratio),
        ratio <= 1.5,
    );
}
