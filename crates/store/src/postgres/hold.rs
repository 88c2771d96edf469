//! One program at a time: a lock in the database that lasts as long as a connection.
//!
//! The lock keeps a second program from starting. What is written is kept apart by epochs, also where
//! the lock was lost with its connection and another program began.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;

use super::Options;
use super::link::{self, Away};
use super::trouble::failed;
use crate::error::{Error, Result};

/// How often it is looked whether the connection stands.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A program that ended still has its connection for a moment.
const LEAVES_WITHIN: Duration = Duration::from_secs(2);
const TRY_EVERY: Duration = Duration::from_millis(25);

/// The first half of the lock's key; the second is the table that is locked.
const KEY: i32 = 0x756e_6973;

/// Holds the database until it is dropped.
#[derive(Debug)]
pub(super) struct Hold(JoinHandle<()>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Takes the database; or says who has it.
pub(super) async fn take(options: &Options, away: &Away) -> Result<Hold> {
    let client = link::connect(options).await?;
    let until = Instant::now() + LEAVES_WITHIN;
    while !lock(&client).await? {
        if Instant::now() >= until {
            return Err(held(&client).await);
        }
        sleep(TRY_EVERY).await;
    }
    let kept = keep(client, options.clone(), away.clone());
    Ok(Hold(tokio::spawn(kept)))
}

async fn lock(client: &Client) -> Result<bool> {
    let asked = "SELECT pg_try_advisory_lock($1, 'unisono_sessions'::regclass::oid::integer)";
    let row = client.query_one(asked, &[&KEY]).await;
    Ok(row.map_err(failed("take the database"))?.get(0))
}

/// Takes it again whenever its connection broke, and says whether the database is away: also where
/// nobody asks anything.
async fn keep(mut client: Client, options: Options, away: Away) {
    loop {
        while !client.is_closed() {
            sleep(LOOK_EVERY).await;
        }
        client = loop {
            let new = match link::connect(&options).await {
                Ok(new) => new,
                Err(error) => {
                    away.set(Some(match error {
                        Error::Unreachable { reason } => reason,
                        error => error.to_string(),
                    }));
                    sleep(LOOK_EVERY).await;
                    continue;
                }
            };
            away.set(None);
            match lock(&new).await {
                Ok(true) => break new,
                Ok(false) => tracing::error!(
                    "another program took the database while this one had no connection to it"
                ),
                Err(error) => tracing::warn!(%error, "the database cannot be taken again"),
            }
            sleep(LOOK_EVERY).await;
        };
    }
}

async fn held(client: &Client) -> Error {
    let who = "SELECT activity.application_name, host(activity.client_addr) \
               FROM pg_locks JOIN pg_stat_activity AS activity ON activity.pid = pg_locks.pid \
               WHERE pg_locks.locktype = 'advisory' AND pg_locks.granted \
               AND pg_locks.classid::integer = $1 \
               AND pg_locks.objid::integer = 'unisono_sessions'::regclass::oid::integer";
    let row = client.query_opt(who, &[&KEY]).await.ok().flatten();
    let who = row.map(|row| {
        let (name, address): (Option<String>, Option<String>) = (row.get(0), row.get(1));
        let address = address.map(|address| format!(", from {address}"));
        format!(
            "{}{}",
            name.unwrap_or_default(),
            address.unwrap_or_default()
        )
    });
    let who = who.unwrap_or_else(|| "another program".to_owned());
    Error::Database {
        reason: format!(
            "it is used by {who}: one program at a time uses it; ask that one over HTTP, or stop it"
        ),
    }
}
