//! A role that does not own the tables.

use tokio_postgres::NoTls;
use unisono_store::postgres::{Options, Postgres};
use unisono_store::{Engine, Error};
use unisono_test_postgres::Server;

use crate::postgres::{role, sql, store};

#[tokio::test(flavor = "multi_thread")]
async fn a_vacuum_that_the_database_would_skip_is_refused() {
    let owner = needs!(store("owned_tables").await);
    let server = Server::shared().unwrap();
    owner.vacuum(None).await.unwrap();
    role(server, "writer", "").await;
    sql(
        server,
        "owned_tables",
        "GRANT USAGE ON SCHEMA owned_tables TO writer; \
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
    sql(server, "owned_tables", "REVOKE unisono FROM writer").await;
    writer.close().await.unwrap();
    owner.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_lacks_a_right_on_a_table_is_refused_at_the_start() {
    let owner = needs!(store("partly_granted").await);
    owner.close().await.unwrap();
    let server = Server::shared().unwrap();
    role(server, "partly", "").await;
    sql(
        server,
        "partly_granted",
        "GRANT USAGE ON SCHEMA partly_granted TO partly; \
         GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA partly_granted TO partly; \
         REVOKE UPDATE ON unisono_sessions FROM partly",
    )
    .await;
    let url = server.url("partly_granted");
    let options = Options::new(&url.replace("unisono@", "partly@"), None).unwrap();
    let refused = Postgres::open(options.clone()).await.unwrap_err();
    assert!(matches!(refused, Error::Database { .. }), "{refused}");
    let text = refused.to_string();
    for part in [
        "role partly",
        "UPDATE on unisono_sessions",
        "DELETE on unisono_events",
        "grant",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        !text.contains("unisono_schema"),
        "only its version is read: {text}"
    );
    let granted = "GRANT UPDATE, DELETE ON ALL TABLES IN SCHEMA partly_granted TO partly";
    sql(server, "partly_granted", granted).await;
    let partly = Postgres::open(options).await.unwrap();
    partly.close().await.unwrap();
}
