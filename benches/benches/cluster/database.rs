//! The database, and what is spent on it.

use std::fs;
use std::time::Duration;

use tokio_postgres::{Client, NoTls};
use unisono_test_postgres::Server;

/// Ticks of processor time a second, as Linux counts them for every program.
const TICKS: u64 = 100;

/// A server, and a connection that asks what it did.
pub(crate) struct Database {
    server: Server,
    client: Client,
    /// The server's first process.
    postmaster: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) statements: u64,
    /// Processor time of the daemons.
    pub(crate) daemons: Duration,
    pub(crate) database: Duration,
}

impl Spent {
    pub(crate) fn since(&self, before: &Spent) -> Spent {
        Spent {
            statements: self.statements - before.statements,
            daemons: self.daemons.saturating_sub(before.daemons),
            database: self.database.saturating_sub(before.database),
        }
    }

    pub(crate) fn add(&mut self, more: &Spent) {
        self.statements += more.statements;
        self.daemons += more.daemons;
        self.database += more.database;
    }
}

impl Database {
    pub(crate) async fn start() -> Database {
        let start = || {
            Server::start(&[
                "max_connections=200",
                "shared_buffers=128MB",
                "shared_preload_libraries=pg_stat_statements",
            ])
        };
        let server = tokio::task::spawn_blocking(start).await.unwrap().unwrap();
        let (client, connection) = tokio_postgres::connect(&server.url("public"), NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        client
            .batch_execute("CREATE EXTENSION pg_stat_statements")
            .await
            .unwrap();
        let row = client.query_one("SELECT pg_backend_pid()", &[]).await;
        let own: i32 = row.unwrap().get(0);
        Database {
            postmaster: stat(own as u32).unwrap().0,
            server,
            client,
        }
    }

    /// A new schema; its address.
    pub(crate) async fn schema(&self, name: &str) -> String {
        let make = format!("CREATE SCHEMA {name}");
        self.client.batch_execute(&make).await.unwrap();
        self.server.url(name)
    }

    /// A number that the database knows.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        self.client.query_one(query, &[]).await.unwrap().get(0)
    }

    /// What was spent so far by the database, and by these processes.
    pub(crate) async fn spent(&self, daemons: &[u32]) -> Spent {
        let calls = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements \
                     WHERE query NOT LIKE '%pg_stat_statements%'";
        let statements = self.number(calls).await as u64;
        let all = fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // A process that has ended is counted by the one that it began from.
        let children =
            pids.filter_map(|pid: u32| stat(pid).filter(|stat| stat.0 == self.postmaster));
        let own = stat(self.postmaster).map_or(0, |stat| stat.1 + stat.2);
        let database = own + children.map(|stat| stat.1).sum::<u64>();
        let daemons = daemons.iter().filter_map(|pid| stat(*pid));
        let daemons = daemons.map(|stat| stat.1).sum::<u64>();
        Spent {
            statements,
            daemons: Duration::from_millis(daemons * 1_000 / TICKS),
            database: Duration::from_millis(database * 1_000 / TICKS),
        }
    }
}

/// Of a process: its parent, the ticks that it used, and those of its children that have ended.
fn stat(pid: u32) -> Option<(u32, u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let parent = u32::try_from(number(1)?).ok()?;
    Some((parent, number(11)? + number(12)?, number(13)? + number(14)?))
}
