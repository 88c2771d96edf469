//! A role that does not own the tables.

use tokio_postgres::NoTls;
use unisono_store::postgres::{Options, Postgres};
use unisono_store::{Engine, Error};
use unisono_test_postgres::Server;

use crate::postgres::{sql, store};

#[tokio::test(flavor = "multi_thread")]
async fn a_vacuum_that_the_database_would_skip_is_refused() {
    let Some(owner) = store("owned_tables").await else {
        return;
    };
    let server = Server::shared().unwrap();
    owner.vacuum(None).await.unwrap();
    sql(
        server,
        "owned_tables",
        "CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA owned_tables TO writer; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA owned_tables TO writer",
    )
    .await;
    let url = server.url("owned_tables");
    let url = url.replace("unisono@", "writer@");
    let writer = Postgres::open(Options::new(&url, None).unwrap())
        .await
        .unwrap();
    let refused = writer.vacuum(None).await.unwrap_err();
    assert!(matches!(refused, Error::Database { .. }), "{refused}");
    let text = refused.to_string();
    for part in ["role writer", "unisono_events", "unisono_begun", "own"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A member of the owner's role may.
    sql(server, "owned_tables", "GRANT unisono TO writer").await;
    writer.vacuum(None).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let asked = "SELECT count(*) FROM pg_class WHERE relname LIKE 'unisono\\_%' AND relkind = 'r' \
                 AND relnamespace = 'owned_tables'::regnamespace";
    let tables: i64 = client.query_one(asked, &[]).await.unwrap().get(0);
    assert_eq!(tables, 9, "all tables are vacuumed");
    writer.close().await.unwrap();
    owner.close().await.unwrap();
}
