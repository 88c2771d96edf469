//! Checks whether a server can hold the store.

use tokio_postgres::Client;

use super::failed;
use crate::error::{Error, Result};

/// The oldest supported version, as in `server_version_num`.
const EARLIEST: i32 = 140_000;

/// The settings of a server.
#[derive(Clone, Copy, Debug)]
struct Server {
    version: i32,
    has_fsync: bool,
    commits_synchronously: bool,
    is_replica: bool,
}

/// Refuses a server that could lose acknowledged writes, or that cannot be written.
pub(super) async fn server(client: &Client) -> Result<()> {
    let asked = "SELECT current_setting('server_version_num')::integer, \
                 current_setting('fsync') <> 'off', \
                 current_setting('synchronous_commit') <> 'off', pg_is_in_recovery()";
    let row = client.query_one(asked, &[]).await;
    let row = row.map_err(failed("ask the server what it is"))?;
    let server = Server {
        version: row.get(0),
        has_fsync: row.get(1),
        commits_synchronously: row.get(2),
        is_replica: row.get(3),
    };
    if !server.commits_synchronously {
        tracing::warn!(
            "the database has `synchronous_commit = off`: a crash of its machine can lose what was \
             acknowledged"
        );
    }
    refusal(server).map_or(Ok(()), |reason| Err(Error::Database { reason }))
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
    if server.is_replica {
        let reason = "it is a replica that only reads; give the address of the primary";
        return Some(reason.to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_loses_or_only_reads_is_refused() {
        let good = Server {
            version: 150_003,
            has_fsync: true,
            commits_synchronously: false,
            is_replica: false,
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
                    is_replica: true,
                    ..good
                },
                Some("primary"),
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
