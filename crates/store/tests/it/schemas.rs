//! Where the tables are, and how they are changed beside other programs.

use std::time::Duration;

use unisono_store::postgres::{Options, Postgres};
use unisono_store::{Engine, Error, Health, SessionId};
use unisono_test_postgres::Server;

use crate::members::{LATE, append, member};
use crate::postgres::{client, sql, store};

const A: SessionId = SessionId::from_u128(0xA);
/// Turns tables of the newest version into tables of an earlier one.
const EARLIER: &str = "ALTER TABLE unisono_members DROP COLUMN refused; \
                       UPDATE unisono_schema SET version = 5";

/// A schema with tables of an earlier version and a session with an event; none where PostgreSQL is not
/// installed.
async fn earlier(schema: &str) -> Option<&'static Server> {
    let made = store(schema).await?;
    let claim = made.claim(A).await.unwrap();
    made.append(append(claim.epoch, 0)).await.unwrap();
    made.close().await.unwrap();
    let server = Server::shared()?;
    sql(server, schema, EARLIER).await;
    Some(server)
}

async fn opened(url: &str) -> Result<Postgres, Error> {
    Postgres::open(Options::new(url, None).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_behind_an_empty_schema_are_changed_where_they_are() {
    let server = needs!(earlier("second_schema").await);
    sql(server, "public", "CREATE SCHEMA first_schema").await;
    let both = server.url("first_schema,second_schema");
    let engine = opened(&both).await.unwrap();
    assert_eq!(engine.read(A, 1, 9).await.unwrap().len(), 1);
    engine.close().await.unwrap();
    let engine = opened(&server.url("second_schema")).await.unwrap();
    assert_eq!(engine.read(A, 1, 9).await.unwrap().len(), 1);
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_is_not_there_is_said() {
    let engine = needs!(store("schema_there").await);
    engine.close().await.unwrap();
    let url = Server::shared().unwrap().url("schema_not_there");
    let refused = opened(&url).await.unwrap_err();
    assert!(matches!(refused, Error::Database { .. }), "{refused}");
    assert!(refused.to_string().contains("`search_path`"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_tables_that_the_database_cancels_can_be_tried_again() {
    let server = needs!(earlier("locked_schema").await);
    let url = server.url("locked_schema");
    let mut client = client(server, "locked_schema").await;
    let held = client.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE unisono_members IN ACCESS SHARE MODE")
        .await
        .unwrap();
    let impatient = format!("{url}%20-clock_timeout%3D100ms");
    // Without a limit of the operator the wait is bounded, too: all programs would wait behind it.
    for url in [&impatient, &url] {
        let opening = tokio::time::timeout(Duration::from_secs(30), opened(url));
        let cancelled = opening.await.unwrap().unwrap_err();
        assert!(
            matches!(cancelled, Error::Unreachable { .. }) && cancelled.is_transient(),
            "{cancelled}"
        );
        let text = cancelled.to_string();
        assert!(text.contains("such as that of a backup"), "{text}");
    }
    held.commit().await.unwrap();
    let engine = opened(&url).await.unwrap();
    assert_eq!(engine.read(A, 1, 9).await.unwrap().len(), 1);
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_statements_for_clients_change_tables_of_an_earlier_version_and_none_of_a_later_one() {
    let server = needs!(earlier("changed_by_hand").await);
    let client = client(server, "changed_by_hand").await;
    client.batch_execute(Postgres::schema()).await.unwrap();
    let columns = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'unisono_members'::regclass \
                   AND attname = 'refused' AND NOT attisdropped";
    let count: i64 = client.query_one(columns, &[]).await.unwrap().get(0);
    assert_eq!(count, 1);
    let later = "ALTER TABLE unisono_members DROP COLUMN refused; \
                 UPDATE unisono_schema SET version = 99";
    client.batch_execute(later).await.unwrap();
    let refused = client.batch_execute(Postgres::schema()).await.unwrap_err();
    let text = refused.as_db_error().unwrap().message();
    assert!(
        text.contains("version 99") && text.contains("newer version"),
        "{text}"
    );
    client.batch_execute("ROLLBACK").await.unwrap();
    let count: i64 = client.query_one(columns, &[]).await.unwrap().get(0);
    assert_eq!(count, 0, "nothing is changed");
    let version = "SELECT version FROM unisono_schema";
    let version: i32 = client.query_one(version, &[]).await.unwrap().get(0);
    assert_eq!(version, 99);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_whose_tables_are_gone_is_not_healthy_until_they_are_back() {
    let made = needs!(store("tables_gone").await);
    made.close().await.unwrap();
    let server = Server::shared().unwrap();
    let engine = member("tables_gone", LATE).await;
    assert_eq!(engine.health(), Health::Ok);
    let until = async |is_so: fn(&Health) -> bool| {
        for _ in 0..300 {
            if is_so(&engine.health()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{:?}", engine.health());
    };
    let gone = "ALTER TABLE unisono_members RENAME TO members_of_before";
    sql(server, "tables_gone", gone).await;
    until(|health| {
        matches!(health, Health::Unreachable { reason } if reason.contains("does not exist"))
    })
    .await;
    let back = "ALTER TABLE members_of_before RENAME TO unisono_members";
    sql(server, "tables_gone", back).await;
    until(|health| *health == Health::Ok).await;
    engine.close().await.unwrap();
}
