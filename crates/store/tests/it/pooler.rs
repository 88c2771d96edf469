//! A pooler in front of the database.

use std::sync::Arc;

use unisono_store::postgres::{Options, Postgres};
use unisono_store::{Engine, Error, Health, SessionId};
use unisono_test_postgres::{Pooler, Server};

use crate::members::append;
use crate::postgres::{SHORT_PATIENCE, own_server, sql, store};

const A: SessionId = SessionId::from_u128(0xA);

/// A server, and a pooler of this mode in front of it.
async fn pooled(settings: &'static [&'static str]) -> Option<(Arc<Server>, Pooler)> {
    let server = own_server(&[]).await?;
    let behind = server.clone();
    let pooler = tokio::task::spawn_blocking(move || Pooler::start(&behind, settings));
    Some((server, pooler.await.unwrap()?))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_of_transactions_that_loses_statements_is_refused_at_the_start() {
    let modes: [&'static [&'static str]; 3] = [
        &["pool_mode = transaction"],
        &["pool_mode = transaction", "server_round_robin = 1"],
        // All clients have the same connection of the server.
        &["pool_mode = transaction", "default_pool_size = 1"],
    ];
    for settings in modes {
        let (_server, pooler) = needs!(pooled(settings).await);
        // Each start, not by chance.
        for _ in 0..5 {
            let options = Options::new(&pooler.url(), None).unwrap();
            let refused = Postgres::open(options).await.unwrap_err();
            assert!(matches!(refused, Error::Database { .. }), "{refused}");
            let text = refused.to_string();
            for part in [
                "prepared statements",
                "pool_mode = session",
                "connect to the server",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_of_sessions_is_used() {
    let (_server, pooler) = needs!(pooled(&["pool_mode = session"]).await);
    let options = Options::new(&pooler.url(), None).unwrap();
    let engine = Postgres::open(options).await.unwrap();
    let claim = engine.claim(A).await.unwrap();
    assert_eq!(engine.append(append(claim.epoch, 0)).await.unwrap(), 1);
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_does_not_pass_the_search_path_on_is_refused() {
    let modes: [&'static [&'static str]; 2] = [
        &["pool_mode = session"],
        &["pool_mode = session", "ignore_startup_parameters = options"],
    ];
    for settings in modes {
        let (server, pooler) = needs!(pooled(settings).await);
        let url = format!("{}&options=-csearch_path%3Dtalks", pooler.url());
        let refused = Postgres::open(Options::new(&url, None).unwrap()).await;
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Database { .. }), "{refused}");
        let text = refused.to_string();
        assert!(
            text.contains("ALTER ROLE … SET search_path") && text.contains("options"),
            "{text}"
        );
        let tables = "SELECT count(*) FROM pg_class WHERE relname = 'unisono_schema'";
        let tables = tokio::task::spawn_blocking(move || server.ask(tables));
        assert_eq!(tables.await.unwrap(), "0", "none is in another schema");
    }
}

/// Has each statement that inserts events fail as one that a pooler has lost.
const LOSE: &str = "\
CREATE FUNCTION lose() RETURNS trigger AS $$ BEGIN
    RAISE EXCEPTION 'prepared statement \"s26\" does not exist' USING ERRCODE = '26000';
END $$ LANGUAGE plpgsql;
CREATE TRIGGER lose BEFORE INSERT ON unisono_events EXECUTE FUNCTION lose()";

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_is_lost_later_is_sent_again_and_said() {
    let made = needs!(store("lost_statements").await);
    made.close().await.unwrap();
    let server = Server::shared().unwrap();
    let options = Options::new(&server.url("lost_statements"), None).unwrap();
    let patient = options.patience(SHORT_PATIENCE);
    let engine = Postgres::open(patient).await.unwrap();
    let claim = engine.claim(A).await.unwrap();
    assert_eq!(engine.append(append(claim.epoch, 0)).await.unwrap(), 1);
    sql(server, "lost_statements", LOSE).await;
    let lost = engine.append(append(claim.epoch, 1)).await.unwrap_err();
    assert!(
        matches!(lost, Error::Unreachable { .. }) && lost.is_transient(),
        "{lost}"
    );
    assert!(lost.to_string().contains("pool_mode = session"), "{lost}");
    let health = engine.health();
    assert!(
        matches!(&health, Health::Unreachable { reason } if reason.contains("prepared")),
        "{health:?}"
    );
    sql(
        server,
        "lost_statements",
        "DROP TRIGGER lose ON unisono_events",
    )
    .await;
    assert_eq!(engine.append(append(claim.epoch, 1)).await.unwrap(), 2);
    engine.close().await.unwrap();
}
