//! The tables, and how they are created and migrated.
//!
//! A session is one narrow row that is updated in place: an append changes no indexed column, so
//! PostgreSQL can update the row within its page. Events are only inserted. The database's
//! clock gives all times.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::error_kind::{DetailedError, failed};
use crate::error::{Error, Result};

/// The version of the tables below.
const VERSION: i32 = 6;

/// The advisory lock held while the tables are checked and created, so that one program does so at
/// a time.
const LOCK: i64 = 0x0075_6e69_736f_6e6f;

/// Whether the tables exist. `to_regclass` would not see tables that another program created while
/// this one waited for the lock.
const EXISTS: &str = "\
SELECT EXISTS (
    SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
    WHERE pg_class.relname = 'unisono_schema' AND pg_namespace.nspname = current_schema()
)";

/// Uses the schema of the existing tables for the rest of a transaction. It need not be the first one of
/// the search path: new tables in that one would hide them.
const STAY: &str = "\
SELECT set_config('search_path', quote_ident(nspname), true)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
WHERE pg_class.oid = to_regclass('unisono_schema')";

/// Ends the wait of a transaction for another one that holds a table, such as a backup: meanwhile all programs
/// that use the table would wait for this transaction. A limit that the operator has set stays.
const WAIT_BRIEFLY: &str = "\
SELECT set_config('lock_timeout', '2s', true) WHERE current_setting('lock_timeout') = '0'";

/// The statements that create the tables, or migrate those of an earlier version.
macro_rules! ddl {
    () => {
        "\
CREATE TABLE IF NOT EXISTS unisono_schema (version integer PRIMARY KEY);
CREATE TABLE IF NOT EXISTS unisono_sessions (
    session uuid PRIMARY KEY,
    epoch bigint NOT NULL,
    last_seq bigint NOT NULL,
    payload_bytes bigint NOT NULL,
    deleted boolean NOT NULL,
    created_unix_ms bigint NOT NULL,
    updated_unix_ms bigint NOT NULL
) WITH (fillfactor = 50);
ALTER TABLE unisono_sessions ADD COLUMN IF NOT EXISTS owner uuid;
CREATE INDEX IF NOT EXISTS unisono_sessions_owner ON unisono_sessions (owner)
    WHERE owner IS NOT NULL;
CREATE INDEX IF NOT EXISTS unisono_sessions_created ON unisono_sessions (created_unix_ms)
    WHERE NOT deleted;
CREATE TABLE IF NOT EXISTS unisono_events (
    session uuid NOT NULL,
    seq bigint NOT NULL,
    checksum bigint NOT NULL,
    payload bytea NOT NULL,
    PRIMARY KEY (session, seq)
);
CREATE TABLE IF NOT EXISTS unisono_checkpoints (
    session uuid PRIMARY KEY,
    seq bigint NOT NULL,
    checksum bigint NOT NULL,
    state bytea NOT NULL
);
CREATE TABLE IF NOT EXISTS unisono_members (
    member uuid PRIMARY KEY,
    instance uuid NOT NULL,
    name text NOT NULL,
    version text NOT NULL,
    address text,
    token bytea,
    agents bytea,
    draining boolean NOT NULL,
    joined_unix_ms bigint NOT NULL,
    beat_unix_ms bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS unisono_documents (
    name text PRIMARY KEY,
    text text NOT NULL,
    version bigint NOT NULL
);
ALTER TABLE unisono_members ADD COLUMN IF NOT EXISTS short boolean NOT NULL DEFAULT false;
ALTER TABLE unisono_members ADD COLUMN IF NOT EXISTS spending boolean NOT NULL DEFAULT false;
ALTER TABLE unisono_members ADD COLUMN IF NOT EXISTS short_unix_ms bigint;
ALTER TABLE unisono_members ADD COLUMN IF NOT EXISTS refused boolean NOT NULL DEFAULT false;
CREATE TABLE IF NOT EXISTS unisono_holds (
    provider text NOT NULL,
    model text NOT NULL,
    member uuid NOT NULL,
    until_unix_ms bigint NOT NULL,
    PRIMARY KEY (provider, model)
);
CREATE TABLE IF NOT EXISTS unisono_callbacks (
    session uuid NOT NULL,
    name text NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (session, name)
);
CREATE TABLE IF NOT EXISTS unisono_begun (
    cause uuid PRIMARY KEY,
    session uuid NOT NULL,
    unix_ms bigint NOT NULL
);
DELETE FROM unisono_schema;
INSERT INTO unisono_schema (version) VALUES (6);
"
    };
}

const DDL: &str = ddl!();

/// The same for clients that run statements: all of them or none, one program at a time, and none on tables
/// of a later version.
pub(super) const SCRIPT: &str = concat!(
    "\
BEGIN;
DO $$ BEGIN
    PERFORM pg_advisory_xact_lock(33053971462450799);
    CREATE TABLE IF NOT EXISTS unisono_schema (version integer PRIMARY KEY);
    IF (SELECT max(version) FROM unisono_schema) > 6 THEN
        RAISE EXCEPTION 'the tables of unisono have version %, these statements make version 6: nothing was \
touched; use those of the newer version', (SELECT max(version) FROM unisono_schema);
    END IF;
END $$;
",
    ddl!(),
    "COMMIT;\n"
);

pub(super) const TABLES: [&str; 9] = [
    "unisono_sessions",
    "unisono_events",
    "unisono_checkpoints",
    "unisono_members",
    "unisono_documents",
    "unisono_holds",
    "unisono_callbacks",
    "unisono_begun",
    "unisono_schema",
];

/// The role, and the tables of $1 that it may not vacuum: the database would skip them with a warning.
const NOT_TO_VACUUM: &str = "\
SELECT current_user::text, coalesce(array_agg(relname::text ORDER BY relname)
    FILTER (WHERE NOT (
        pg_has_role(relowner, 'USAGE')
        OR pg_has_role((SELECT datdba FROM pg_database WHERE datname = current_database()), 'USAGE')
        OR CASE WHEN current_setting('server_version_num')::integer >= 170000
            THEN has_table_privilege(oid, 'MAINTAIN') ELSE false END
    )), '{}')
FROM pg_class WHERE oid = ANY(SELECT to_regclass(name)::oid FROM unnest($1::text[]) AS name)";

/// Fails if the role may not vacuum all tables.
pub(super) async fn check_vacuum(client: &Client) -> Result<()> {
    let tables = TABLES.as_slice();
    let row = client.query_one(NOT_TO_VACUUM, &[&tables]).await;
    let row = row.map_err(failed("look at the owners of its tables"))?;
    let (role, missing): (String, Vec<String>) = (row.get(0), row.get(1));
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Database {
        reason: format!(
            "the role {role} may not vacuum {}: it owns neither these tables nor the database; leave it \
             to the database's autovacuum, or make the role their owner (PostgreSQL 17: GRANT MAINTAIN)",
            missing.join(", ")
        ),
    })
}

const ALL: &[&str] = &["SELECT", "INSERT", "UPDATE", "DELETE"];

/// The rights that the statements of this program need on each table.
const RIGHTS: &[(&str, &[&str])] = &[
    ("unisono_sessions", &["SELECT", "INSERT", "UPDATE"]),
    ("unisono_events", &["SELECT", "INSERT", "DELETE"]),
    ("unisono_checkpoints", ALL),
    ("unisono_members", ALL),
    ("unisono_documents", &["SELECT", "INSERT", "UPDATE"]),
    ("unisono_holds", ALL),
    ("unisono_callbacks", ALL),
    ("unisono_begun", ALL),
    ("unisono_schema", &["SELECT"]),
];

/// The role, and those of the rights $2 on the tables $1 that it lacks.
const LACKING: &str = "\
SELECT current_user::text, coalesce(array_agg(privilege || ' on ' || name ORDER BY n)
    FILTER (WHERE NOT has_table_privilege(to_regclass(name)::oid, privilege)), '{}')
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS needed (name, privilege, n)";

/// Fails if the role lacks a right that a later statement needs.
pub(super) async fn check_rights(client: &Client) -> Result<()> {
    let needed = RIGHTS
        .iter()
        .flat_map(|(table, rights)| rights.iter().map(move |right| (*table, *right)));
    let (tables, rights): (Vec<&str>, Vec<&str>) = needed.unzip();
    let row = client.query_one(LACKING, &[&tables, &rights]).await;
    let row = row.map_err(failed("look at the rights on its tables"))?;
    let (role, lacking): (String, Vec<String>) = (row.get(0), row.get(1));
    if lacking.is_empty() {
        return Ok(());
    }
    Err(Error::Database {
        reason: format!(
            "the role {role} lacks {}: let the owner of the tables grant it SELECT, INSERT, UPDATE and \
             DELETE on them",
            lacking.join(", ")
        ),
    })
}

/// Creates the tables if they do not exist; migrates those of an earlier version.
pub(super) async fn prepare(client: &mut Client) -> Result<()> {
    if is_known(version(client).await?)? {
        return Ok(());
    }
    let transaction = client.transaction().await.map_err(failed("begin"))?;
    let lock = transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]);
    lock.await.map_err(failed("take the lock of the tables"))?;
    let stay = transaction.execute(STAY, &[]);
    stay.await.map_err(failed("look for the tables"))?;
    let row = transaction.query_one(EXISTS, &[]).await;
    let exists: bool = row.map_err(failed("look for the tables"))?.get(0);
    if exists {
        // Another program may have created or migrated them meanwhile.
        let newest = "SELECT max(version) FROM unisono_schema";
        let row = transaction.query_one(newest, &[]).await;
        let found = row
            .map_err(failed("read the version of its tables"))?
            .get(0);
        if is_known(found)? {
            return Ok(());
        }
    }
    // Another program that makes the tables is waited for as long as it takes.
    let limited = transaction.execute(WAIT_BRIEFLY, &[]);
    limited.await.map_err(failed("make its tables"))?;
    if let Err(error) = transaction.batch_execute(DDL).await {
        return Err(not_made(error));
    }
    let made = transaction.commit().await;
    made.map_err(failed("make the tables"))?;
    tracing::info!("the tables of the store are made");
    Ok(())
}

/// Whether tables of that version can be used as they are; those of an earlier version need a
/// migration.
fn is_known(version: Option<i32>) -> Result<bool> {
    match version {
        None => Ok(false),
        Some(found) if found <= VERSION => Ok(found == VERSION),
        Some(found) => Err(Error::Database {
            reason: format!(
                "its tables have version {found}, this program knows {VERSION}: nothing was \
                 touched; use the newer version of unisono"
            ),
        }),
    }
}

/// The version of the existing tables.
async fn version(client: &Client) -> Result<Option<i32>> {
    let row = client
        .query_opt("SELECT max(version) FROM unisono_schema", &[])
        .await;
    match row {
        Ok(row) => Ok(row.and_then(|row| row.get(0))),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(None),
        Err(error) => Err(failed("read the version of its tables")(error)),
    }
}

fn not_made(error: tokio_postgres::Error) -> Error {
    let code = error.code().cloned();
    let reason = DetailedError(&error).to_string();
    if code == Some(SqlState::LOCK_NOT_AVAILABLE) {
        let reason = format!(
            "its tables have to be changed, and another transaction holds them, such as that of a backup: {reason}"
        );
        return Error::Unreachable { reason };
    }
    let reason = if code == Some(SqlState::INSUFFICIENT_PRIVILEGE) {
        format!(
            "its tables are not there or of an earlier version, and this role may not change that \
             ({reason}): let a role that may run what `unisono store schema` prints, and grant this \
             one SELECT, INSERT, UPDATE and DELETE on them"
        )
    } else if code == Some(SqlState::INVALID_SCHEMA_NAME) {
        format!(
            "there is no schema for its tables ({reason}): make the one that `search_path` names and let \
             this role use it, or name another one with `?options=-csearch_path=NAME` in `store.url`"
        )
    } else {
        return failed("make its tables")(error);
    };
    Error::Database { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statements_for_clients_name_the_lock_and_the_version_of_this_program() {
        let parts = [
            format!("pg_advisory_xact_lock({LOCK})"),
            format!("> {VERSION} THEN"),
            format!("make version {VERSION}:"),
            format!("INSERT INTO unisono_schema (version) VALUES ({VERSION});"),
        ];
        for part in parts {
            assert!(SCRIPT.contains(&part), "{part}");
        }
    }
}
