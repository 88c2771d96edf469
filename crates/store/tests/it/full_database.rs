//! A database that refuses writes for a while: its disk is full or fails, it only reads, or it lacks a
//! right, a table or a resource.

use std::time::{Duration, Instant};

use tokio_postgres::Client;
use unisono_store::postgres::{Options, Postgres};
use unisono_store::{Engine, Error, Health};
use unisono_test_postgres::Server;

use crate::members::{append, beat, close, cluster, two};
use crate::postgres::{client, role, sql, store};

const A: unisono_store::SessionId = unisono_store::SessionId::from_u128(0xA);

/// Has new events refused with a code of the server, and counts the attempts: a sequence keeps its
/// value when a statement fails.
async fn refuse(client: &Client, code: &str) {
    let statements = format!(
        "CREATE SEQUENCE IF NOT EXISTS attempts; \
         CREATE OR REPLACE FUNCTION refuse() RETURNS trigger AS $$ BEGIN \
         PERFORM nextval('attempts'); RAISE EXCEPTION 'no room' USING ERRCODE = '{code}'; \
         END $$ LANGUAGE plpgsql; \
         CREATE TRIGGER refuse BEFORE INSERT ON unisono_events EXECUTE FUNCTION refuse()"
    );
    client.batch_execute(&statements).await.unwrap();
}

async fn attempts(client: &Client) -> i64 {
    let asked = "SELECT last_value FROM attempts";
    client.query_one(asked, &[]).await.unwrap().get(0)
}

/// Waits until a condition holds.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let latest = Instant::now() + Duration::from_secs(60);
    while !is_so().await {
        assert!(Instant::now() < latest, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_only_read_are_not_used_again() {
    let owner = needs!(store("switched").await);
    let server = Server::shared().unwrap();
    let run = async |text: &str| sql(server, "switched", text).await;
    role(server, "switched", "IN ROLE unisono").await;
    let url = server.url("switched").replace("unisono@", "switched@");
    let options = Options::new(&url, None).unwrap();
    let engine = Postgres::open(options).await.unwrap();
    let mut last = 0;
    // The first refused write is a claim, then an append: they have connections of their own.
    for is_claim in [true, false] {
        let claim = engine.claim(A).await.unwrap();
        last = engine.append(append(claim.epoch, last)).await.unwrap();
        run("ALTER ROLE switched SET default_transaction_read_only = on").await;
        run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'switched'")
            .await;
        let refused = match is_claim {
            true => engine.claim(A).await.map(drop),
            false => engine.append(append(claim.epoch, last)).await.map(drop),
        };
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Unwritable { .. }), "{refused}");
        run("ALTER ROLE switched RESET default_transaction_read_only").await;
        until("it stays refused", async || engine.health() == Health::Ok).await;
        let claim = engine.claim(A).await.unwrap();
        last = engine.append(append(claim.epoch, last)).await.unwrap();
    }
    engine.close().await.unwrap();
    owner.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_writes_nothing_learns_that_the_database_is_full() {
    let [one, idle] = needs!(two("full_for_all").await);
    let client = client(Server::shared().unwrap(), "full_for_all").await;
    let claim = one.claim(A).await.unwrap();
    let last = one.append(append(claim.epoch, 0)).await.unwrap();
    // Twice: it looks again after the first time is over.
    for _ in 0..2 {
        refuse(&client, "53100").await;
        let refused = one.append(append(claim.epoch, last)).await.unwrap_err();
        assert!(matches!(refused, Error::DatabaseFull { .. }), "{refused}");
        until("the idle one does not learn it", async || {
            matches!(idle.health(), Health::DiskFull { .. })
        })
        .await;
        client
            .batch_execute("DROP TRIGGER refuse ON unisono_events")
            .await
            .unwrap();
        for engine in [&one, &idle] {
            until("it stays refused", async || engine.health() == Health::Ok).await;
        }
        // Each has told the other that its writes are accepted.
        for engine in [&one, &idle] {
            let before = cluster(engine).beats().borrow().count;
            beat(engine, |beat| beat.count >= before + 3).await;
        }
    }
    close([one, idle]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_refused_in_advance_until_the_database_takes_them_again() {
    let engine = needs!(store("refusing").await);
    let client = client(Server::shared().unwrap(), "refusing").await;
    let mut last = 0;
    for code in ["53100", "25006", "42501", "42P01", "53000", "58030"] {
        let is_right = |error: &Error| match code {
            "53100" => matches!(error, Error::DatabaseFull { .. }) && error.is_disk_full(),
            _ => matches!(error, Error::Unwritable { .. }),
        };
        let claim = engine.claim(A).await.unwrap();
        last = engine.append(append(claim.epoch, last)).await.unwrap();
        refuse(&client, code).await;
        let refused = engine.append(append(claim.epoch, last)).await.unwrap_err();
        assert!(is_right(&refused) && refused.is_transient(), "{refused}");
        // A claim would succeed, because it updates a row.
        let refused = engine.claim(A).await.unwrap_err();
        assert!(is_right(&refused), "{refused}");
        let health = engine.health();
        assert!(
            match code {
                "53100" => matches!(health, Health::DiskFull { .. }),
                _ => matches!(health, Health::ReadOnly { .. }),
            },
            "{health:?}"
        );
        let refused = engine.check_writes().await.unwrap_err();
        assert!(is_right(&refused), "{refused}");
        // It probes, and everything else is refused meanwhile.
        let before = attempts(&client).await;
        until("it does not probe", async || {
            assert!(engine.claim(A).await.is_err());
            attempts(&client).await >= before + 2
        })
        .await;
        assert_eq!(engine.read(A, 1, 9).await.unwrap().len() as u64, last);
        client
            .batch_execute("DROP TRIGGER refuse ON unisono_events")
            .await
            .unwrap();
        until("it stays refused", async || engine.health() == Health::Ok).await;
        engine.check_writes().await.unwrap();
    }
    let claim = engine.claim(A).await.unwrap();
    assert_eq!(engine.append(append(claim.epoch, last)).await.unwrap(), 7);
    let asked = "SELECT count(*) FROM unisono_events";
    let rows: i64 = client.query_one(asked, &[]).await.unwrap().get(0);
    assert_eq!(rows, 7, "nothing stays of a probe");
    engine.close().await.unwrap();
}
