//! Durable appends of 64 sessions to PostgreSQL: the engine, a client for each session that inserts
//! one row a transaction, and the engine on sled, in turns. The database is on the same cores.
#![allow(
    clippy::unwrap_used,
    reason = "a measurement ends where it cannot go on"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};
use unisono_benches::{Samples, Table, time};
use unisono_store::postgres::{Options, Postgres};
use unisono_store::{Append, Disk, Engine, SessionId};
use unisono_test_postgres::Server;

const WRITERS: u128 = 64;
const EVENT_BYTES: usize = 1_024;
/// How long each side works before it is the next one's turn.
const SLICE: Duration = Duration::from_secs(1);
const SLICES: usize = 6;

/// Appends one event and returns when it is on disk.
trait Writer: Send + 'static {
    fn append(&mut self) -> impl Future<Output = ()> + Send;
}

/// One session of an engine.
struct Session {
    engine: Arc<dyn Engine>,
    id: SessionId,
    epoch: u64,
    last: u64,
}

impl Writer for Session {
    async fn append(&mut self) {
        let append = Append {
            session: self.id,
            epoch: self.epoch,
            expected_seq: self.last,
            payloads: vec![vec![self.last as u8; EVENT_BYTES]],
        };
        self.last = self.engine.append(append).await.unwrap();
    }
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

/// What a side did in its slices.
#[derive(Default)]
struct Side {
    appends: usize,
    took: Duration,
    each: Samples,
}

impl Side {
    fn rate(&self) -> f64 {
        self.appends as f64 / self.took.as_secs_f64()
    }
}

async fn slice<W: Writer>(writers: Vec<W>, side: &mut Side) -> Vec<W> {
    let start = Instant::now();
    let working = writers.into_iter().map(|mut writer| {
        tokio::spawn(async move {
            let mut took = Vec::new();
            while start.elapsed() < SLICE {
                let begun = Instant::now();
                writer.append().await;
                took.push(begun.elapsed());
            }
            (writer, took)
        })
    });
    let working: Vec<_> = working.collect();
    let mut writers = Vec::new();
    for worker in working {
        let (writer, took) = worker.await.unwrap();
        side.appends += took.len();
        side.each.extend(took);
        writers.push(writer);
    }
    side.took += start.elapsed();
    writers
}

async fn sessions(engine: Arc<dyn Engine>) -> Vec<Session> {
    let mut sessions = Vec::new();
    for n in 1..=WRITERS {
        let id = SessionId::from_u128(n);
        let claim = engine.claim(id).await.unwrap();
        sessions.push(Session {
            engine: engine.clone(),
            id,
            epoch: claim.epoch,
            last: claim.last_seq,
        });
    }
    sessions
}

async fn connect(server: &Server) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url("public"), NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}

async fn rows(server: &Server) -> Vec<Row> {
    let table = "CREATE TABLE plain (session bigint, seq bigint, payload bytea, PRIMARY KEY (session, seq))";
    connect(server).await.batch_execute(table).await.unwrap();
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

fn main() {
    let server = Server::start(&["max_connections=120", "shared_buffers=128MB"]).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(measure(&server));
}

async fn measure(server: &Server) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = Disk::open(dir.path().join("store")).unwrap().disk;
    let engine = Postgres::open(Options::new(&server.url("public"), None).unwrap());
    let engine: Arc<dyn Engine> = Arc::new(engine.await.unwrap());
    let (mut ours, mut sled) = (sessions(engine).await, sessions(Arc::new(disk)).await);
    let mut plain = rows(server).await;
    let [mut by_ours, mut by_plain, mut by_sled] = [(); 3].map(|()| Side::default());
    for _ in 0..SLICES {
        ours = slice(ours, &mut by_ours).await;
        plain = slice(plain, &mut by_plain).await;
        sled = slice(sled, &mut by_sled).await;
    }
    let table = Table::new(
        "postgres",
        &format!(
            "{WRITERS} sessions append 1 KiB each, one after the other, and wait until it is on disk: \
             {SLICES} slices of {}, in turns. PostgreSQL is on the same cores and the same disk.",
            time(SLICE)
        ),
    );
    let told = |side: &Side| {
        let (middle, late) = (side.each.median(), side.each.at(0.99));
        format!(
            "{:.0} a second, p50 {}, p99 {}",
            side.rate(),
            time(middle),
            time(late)
        )
    };
    let ratio = by_ours.rate() / by_plain.rate();
    table.row(
        "one row a transaction, a connection each",
        "",
        &told(&by_plain),
        None,
        true,
    );
    table.row(
        "the engine",
        "≥ 3 × of these",
        &told(&by_ours),
        Some(ratio),
        ratio >= 3.0,
    );
    let ratio = by_ours.rate() / by_sled.rate();
    table.row(
        "of the engine on sled",
        "≥ 0.35 ×",
        &told(&by_sled),
        Some(ratio),
        ratio >= 0.35,
    );
}
