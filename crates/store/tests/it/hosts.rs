//! Addresses that name several hosts.

use std::net::TcpListener;
use std::time::Duration;

use unisono_store::postgres::{Options, Postgres};
use unisono_store::{Engine, SessionId};
use unisono_test_postgres::Server;

use crate::members::append;
use crate::postgres::store;

const A: SessionId = SessionId::from_u128(0xA);

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_accepts_connections_and_hangs_leaves_time_for_the_next_one() {
    let made = needs!(store("next_host").await);
    made.close().await.unwrap();
    // The system accepts its connections, and nobody answers.
    let hangs = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = hangs.local_addr().unwrap();
    let url = Server::shared().unwrap().url("next_host");
    let url = url.replace('@', &format!("@{place},"));
    let options = Options::new(&url, None).unwrap();
    let options = options.patience(Duration::from_secs(4));
    let engine = Postgres::open(options).await.unwrap();
    let claim = engine.claim(A).await.unwrap();
    assert_eq!(engine.append(append(claim.epoch, 0)).await.unwrap(), 1);
    engine.close().await.unwrap();
}
