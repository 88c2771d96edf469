//! Checks whether a server can hold the store.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::{Client, Row, SimpleQueryMessage, SimpleQueryRow};
use uuid::Uuid;

use super::error_kind::{ErrorKind, KEEP_STATEMENTS, LOSES_STATEMENTS, failed, lost_statement};
use crate::error::{Error, Result};

/// The oldest supported version, as in `server_version_num`.
const EARLIEST: i32 = 140_000;

/// Why a replica is not used.
pub(super) const IS_REPLICA: &str =
    "it is a replica that only reads; give the address of the primary";

/// What to do where a pooler does not pass the search path of the address on.
pub(super) const PATH_OF_ROLE: &str = "\
in place of `options` in `store.url`, set the search path of the role (`ALTER ROLE … SET search_path = NAME`), \
or connect to the server itself";

/// Number of times that a pooler is asked to lose a prepared statement. Other clients can take the
/// connections that it would have used.
const ROUNDS: u32 = 3;

/// A pooler without a free connection of the server does not answer: nothing is learnt from it.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);

/// A statement, and its result. Another program's statement has another one.
const KEPT: &str = "SELECT 'kept'::text";
const KEPT_RESULT: &str = "kept";

/// The names that `tokio_postgres` gives prepared statements, as a regular expression.
const OWN_NAMES: &str = "^s[0-9]+$";

/// Whether a server can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Primary,
    /// Only reads, until it is promoted.
    Replica,
}

#[derive(Clone, Copy, Debug)]
struct Server {
    version: i32,
    has_fsync: bool,
    commits_synchronously: bool,
    is_replica: bool,
    /// Whether its database can hold any text.
    has_unicode: bool,
}

impl Server {
    fn from_row(row: &SimpleQueryRow) -> Server {
        let is = |column: usize| row.get(column) == Some("t");
        let version = row.get(0).and_then(|version| version.parse::<i32>().ok());
        Server {
            version: version.unwrap_or_default(),
            has_fsync: is(1),
            commits_synchronously: is(2),
            is_replica: is(3),
            has_unicode: is(4),
        }
    }
}

/// Refuses a server that could lose acknowledged writes, or a database that cannot hold all texts; says
/// whether it can be written. Refuses another search path than the `wanted` one, too: the tables would be
/// in another schema.
pub(super) async fn server(client: &Client, wanted: Option<&str>) -> Result<Role> {
    let asked = "SELECT current_setting('server_version_num')::integer, \
                 current_setting('fsync') <> 'off', \
                 current_setting('synchronous_commit') <> 'off', pg_is_in_recovery(), \
                 current_setting('server_encoding') IN ('UTF8', 'SQL_ASCII'), \
                 current_setting('search_path')";
    // A simple query prepares no statement, which a pooler could lose.
    let answer = client.simple_query(asked).await;
    let answer = answer.map_err(failed("ask the server what it is"))?;
    let row = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let Some(row) = row else {
        let reason = "it does not say what it is".to_owned();
        return Err(Error::Unreachable { reason });
    };
    let server = Server::from_row(row);
    let path = row.get(5).unwrap_or_default();
    if !server.commits_synchronously {
        tracing::warn!(
            "the database has `synchronous_commit = off`: a crash of its machine can lose what was \
             acknowledged"
        );
    }
    let other_path = || wanted.and_then(|wanted| other_path(wanted, path));
    match refusal(server).or_else(other_path) {
        Some(reason) => Err(Error::Database { reason }),
        None if server.is_replica => Ok(Role::Replica),
        None => Ok(Role::Primary),
    }
}

/// Refuses a pooler that pools transactions and does not keep prepared statements. `other` is a second
/// connection. If the pooler gives both the same connection of the server, that has the statements of both.
/// Otherwise, while a transaction of `other` holds the connection that `client` used last, the pooler gives
/// `client` another one, which does not have its statement.
pub(super) async fn statements(client: &Client, other: &Client) -> Result<()> {
    let Ok(asked) = timeout(ANSWERED_WITHIN, are_kept(client, other)).await else {
        return Ok(());
    };
    let reason = match asked {
        Ok(true) => return Ok(()),
        Ok(false) => format!("{LOSES_STATEMENTS}: {KEEP_STATEMENTS}"),
        Err(error) if ErrorKind::from(&error) == ErrorKind::LostStatement => lost_statement(&error),
        Err(error) => return Err(failed("ask whether statements are kept")(error)),
    };
    Err(Error::Database { reason })
}

/// Whether two clients have statements of their own, and each execution of one has its result.
async fn are_kept(client: &Client, other: &Client) -> Result<bool, tokio_postgres::Error> {
    if are_mixed(client, other).await? {
        return Ok(false);
    }
    let mut are_kept = true;
    for _ in 0..ROUNDS {
        let statement = client.prepare(KEPT).await?;
        // Without a second client, a pooler that takes turns gives another connection here.
        let alone = client.query(&statement, &[]).await?;
        other.batch_execute("BEGIN; SELECT 1").await?;
        let beside = client.query(&statement, &[]).await;
        other.batch_execute("COMMIT").await?;
        are_kept &= is_own(&alone) && is_own(&beside?);
    }
    Ok(are_kept)
}

/// Whether one connection of the server has prepared statements of both clients, under the names that
/// this program gave them. A pooler that keeps statements gives them other names.
async fn are_mixed(client: &Client, other: &Client) -> Result<bool, tokio_postgres::Error> {
    let id = Uuid::now_v7();
    let text = format!("SELECT '{id}'::text");
    let _statements = (client.prepare(&text).await?, other.prepare(&text).await?);
    let find = format!(
        "SELECT name FROM pg_prepared_statements \
         WHERE strpos(statement, '{id}') > 0 AND name ~ '{OWN_NAMES}'"
    );
    // A simple query prepares no statement.
    let found = other.simple_query(&find).await?;
    let is_row = |message: &&SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(_));
    Ok(found.iter().filter(is_row).count() > 1)
}

/// Whether this is the result of the statement, not that of another program's statement of its name.
fn is_own(rows: &[Row]) -> bool {
    let result = rows.first().map(|row| row.try_get::<_, &str>(0));
    matches!(result, Some(Ok(KEPT_RESULT)))
}

fn refusal(server: Server) -> Option<String> {
    if server.version < EARLIEST {
        let version = server.version / 10_000;
        return Some(format!(
            "it is PostgreSQL {version}; version 14 or later is needed"
        ));
    }
    if !server.has_fsync {
        let reason = "it has `fsync = off`, so a crash loses what was acknowledged; switch it on";
        return Some(reason.to_owned());
    }
    if !server.has_unicode {
        let reason = "its encoding cannot hold all texts; make a database with \
                      `ENCODING 'UTF8' TEMPLATE template0`";
        return Some(reason.to_owned());
    }
    None
}

fn other_path(wanted: &str, path: &str) -> Option<String> {
    let is_other = path.replace(' ', "") != wanted;
    is_other.then(|| {
        format!(
            "its search path is `{path}` and not `{wanted}`, because a pooler in front of it drops it; \
             {PATH_OF_ROLE}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_path_is_that_of_the_address() {
        assert_eq!(other_path("talks", "talks"), None);
        assert_eq!(other_path("a,b", "a, b"), None);
        let other = other_path("talks", "\"$user\", public").unwrap();
        assert!(other.contains("`\"$user\", public`") && other.contains("ALTER ROLE"));
    }

    #[test]
    fn a_server_that_loses_writes_or_texts_is_refused() {
        let good = Server {
            version: 150_003,
            has_fsync: true,
            commits_synchronously: false,
            is_replica: false,
            has_unicode: true,
        };
        let rows = [
            (good, None),
            (
                Server {
                    version: 130_010,
                    ..good
                },
                Some("PostgreSQL 13"),
            ),
            (
                Server {
                    has_fsync: false,
                    ..good
                },
                Some("fsync = off"),
            ),
            (
                Server {
                    has_unicode: false,
                    ..good
                },
                Some("ENCODING 'UTF8'"),
            ),
            (
                Server {
                    is_replica: true,
                    ..good
                },
                None,
            ),
        ];
        for (server, reason) in rows {
            let refused = refusal(server);
            match reason {
                None => assert_eq!(refused, None),
                Some(reason) => assert!(refused.unwrap().contains(reason)),
            }
        }
    }
}
