//! Which connections the reads of a PostgreSQL store use, and what stays of a read without an answer.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use unisono_store::postgres::{Options, Postgres};
use unisono_store::{Engine, SessionId};
use unisono_test_postgres::Server;

use crate::members::append;
use crate::postgres::{client, role, store};

const A: SessionId = SessionId::from_u128(0xA);
/// The reads that share a connection.
const SHARED: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn reads_share_a_connection_and_many_do_not_hold_up_another() {
    let owner = needs!(store("reads").await);
    let server = Server::shared().unwrap();
    role(server, "reading", "IN ROLE unisono").await;
    let url = server.url("reads").replace("unisono@", "reading@");
    let engine = Postgres::open(Options::new(&url, None).unwrap());
    let engine = engine.await.unwrap();
    let claim = engine.claim(A).await.unwrap();
    engine.append(append(claim.epoch, 0)).await.unwrap();
    for _ in 0..9 {
        assert_eq!(engine.read(A, 1, 9).await.unwrap().len(), 1);
    }
    let mut client = client(server, "reads").await;
    // One that appends, one that claims, and one that reads; those of the opening end.
    let used = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'reading'";
    let latest = Instant::now() + Duration::from_secs(30);
    while client.query_one(used, &[]).await.unwrap().get::<_, i64>(0) != 3 {
        assert!(Instant::now() < latest, "reads use several connections");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let held = client.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE unisono_events")
        .await
        .unwrap();
    let mut reads: Vec<_> = (0..SHARED).map(|_| engine.read(A, 1, 9)).collect();
    for read in &mut reads {
        let is_ready = poll_fn(|context| Poll::Ready(read.as_mut().poll(context).is_ready()));
        assert!(!is_ready.await, "nothing holds it up");
    }
    let known = engine.session(A).await.unwrap();
    assert_eq!(known.map(|known| known.last_seq), Some(1));
    held.commit().await.unwrap();
    for read in reads {
        assert_eq!(read.await.unwrap().len(), 1);
    }
    engine.close().await.unwrap();
    owner.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_is_given_up_does_not_wait_at_the_server_any_longer() {
    let made = needs!(store("given_up").await);
    made.close().await.unwrap();
    let server = Server::shared().unwrap();
    let url = server.url("given_up") + "&application_name=given_up";
    let options = Options::new(&url, None).unwrap();
    let engine = Postgres::open(options.patience(Duration::from_secs(1)));
    let engine = engine.await.unwrap();
    let watching = client(server, "given_up").await;
    let mut holding = client(server, "given_up").await;
    let held = holding.transaction().await.unwrap();
    let lock = "LOCK TABLE unisono_sessions IN ACCESS EXCLUSIVE MODE";
    held.batch_execute(lock).await.unwrap();
    for _ in 0..3 {
        assert!(engine.session(A).await.is_err());
    }
    let waiting = "SELECT count(*) FROM pg_stat_activity \
                   WHERE application_name = 'given_up' AND wait_event_type = 'Lock'";
    let latest = Instant::now() + Duration::from_secs(30);
    while watching
        .query_one(waiting, &[])
        .await
        .unwrap()
        .get::<_, i64>(0)
        != 0
    {
        assert!(Instant::now() < latest, "each read stays at the server");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    held.commit().await.unwrap();
    assert_eq!(engine.session(A).await.unwrap(), None);
    engine.close().await.unwrap();
}
