//! A connection that is re-established when it breaks.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::config::SslMode;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error_kind::{DetailedError, ErrorKind, failed, refused};
use super::{Options, check, tls};
use crate::error::{Error, Result};

/// The pauses between attempts to connect; each is twice the one before it.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The reason why the database is unavailable, as long as it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Outage(Arc<RwLock<Option<String>>>);

impl Outage {
    pub(super) fn reason(&self) -> Option<String> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn set(&self, reason: Option<String>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = reason;
    }
}

/// One connection, and the statements prepared on it.
pub(super) struct Session {
    pub(super) client: Client,
    statements: Mutex<HashMap<&'static str, Statement>>,
}

impl Session {
    /// Returns the prepared statement of a text; prepares it on first use.
    pub(super) async fn statement(
        &self,
        text: &'static str,
    ) -> Result<Statement, tokio_postgres::Error> {
        if let Some(known) = self.statements.lock().await.get(text) {
            return Ok(known.clone());
        }
        let statement = self.client.prepare(text).await?;
        let mut statements = self.statements.lock().await;
        Ok(statements.entry(text).or_insert(statement).clone())
    }

    pub(super) async fn query(
        &self,
        text: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.statement(text).await?;
        self.client.query(&statement, parameters).await
    }
}

/// A connection that is opened when it is first needed, and reopened when it broke.
pub(super) struct Link {
    options: Options,
    away: Outage,
    session: Mutex<Option<Arc<Session>>>,
}

impl Link {
    pub(super) fn new(options: Options, away: Outage) -> Link {
        Link {
            options,
            away,
            session: Mutex::new(None),
        }
    }

    /// Returns the connected session, or connects until `until`.
    pub(super) async fn session(&self, until: Instant) -> Result<Arc<Session>> {
        let unreachable = || Error::Unreachable {
            reason: self
                .away
                .reason()
                .unwrap_or_else(|| "it does not answer".to_owned()),
        };
        let Ok(mut held) = timeout_at(until, self.session.lock()).await else {
            return Err(unreachable());
        };
        if let Some(known) = held.as_ref().filter(|known| !known.client.is_closed()) {
            return Ok(known.clone());
        }
        let mut pause = FIRST_PAUSE;
        loop {
            let connected = timeout_at(until, connect(&self.options)).await;
            match connected {
                Ok(Ok(client)) => {
                    self.away.set(None);
                    let session = Session {
                        client,
                        statements: Mutex::default(),
                    };
                    return Ok(held.insert(Arc::new(session)).clone());
                }
                Ok(Err(Error::Unreachable { reason })) => self.away.set(Some(reason)),
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(unreachable()),
            }
            if Instant::now() + pause >= until {
                return Err(unreachable());
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Runs a query, again on a new connection if the first one broke meanwhile, because a query
    /// changes nothing.
    pub(super) async fn read(
        &self,
        text: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        let until = Instant::now() + self.options.patience;
        loop {
            let session = self.session(until).await?;
            let reason = match timeout_at(until, session.query(text, parameters)).await {
                Ok(Ok(rows)) => return Ok(rows),
                Ok(Err(error)) if ErrorKind::from(&error) == ErrorKind::Refused => {
                    return Err(self.refused(&session, "read", &error).await);
                }
                Ok(Err(error)) => DetailedError(&error).to_string(),
                Err(_) => "it does not answer".to_owned(),
            };
            self.broke(&session).await;
            if Instant::now() >= until {
                return Err(Error::Unreachable { reason });
            }
        }
    }

    /// Converts an error that is permanent. A session that only reads is discarded: the server may
    /// accept the writes of new ones.
    pub(super) async fn refused(
        &self,
        session: &Arc<Session>,
        doing: &'static str,
        error: &tokio_postgres::Error,
    ) -> Error {
        let refused = refused(doing, error);
        if matches!(refused, Error::Unwritable { .. }) {
            self.broke(session).await;
        }
        refused
    }

    /// Discards a session whose connection broke.
    pub(super) async fn broke(&self, session: &Arc<Session>) {
        let mut held = self.session.lock().await;
        if held
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, session))
        {
            *held = None;
        }
    }

    /// Closes the connection.
    pub(super) async fn close(&self) {
        *self.session.lock().await = None;
    }
}

/// Opens a new connection to a server that the store can use.
///
/// # Errors
/// `Unreachable` for a failure that may be temporary; any other error is permanent.
pub(super) async fn connect(options: &Options) -> Result<Client> {
    let connected = match options.config.get_ssl_mode() {
        SslMode::Disable => options
            .config
            .connect(NoTls)
            .await
            .map(|(client, connection)| {
                drive(connection);
                client
            }),
        _ => {
            let tls = MakeRustlsConnect::new(tls::config(options.is_verified)?);
            options
                .config
                .connect(tls)
                .await
                .map(|(client, connection)| {
                    drive(connection);
                    client
                })
        }
    };
    let client = connected.map_err(|error| not_connected(&error))?;
    check::server(&client).await?;
    // New tables have no statistics; rows must be found by their keys nevertheless. The setting makes
    // a scan of a whole table look so expensive that the server would compile the statement first,
    // which takes a hundred times as long as reading the few rows. Each statement is planned once: by
    // default the server plans one with short arrays at each execution, because it expects long ones.
    let prepared = client.batch_execute(
        "SET enable_seqscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan",
    );
    prepared.await.map_err(failed("prepare a connection"))?;
    Ok(client)
}

/// Runs the connection of a client until the client is dropped.
fn drive<C>(connection: C)
where
    C: Future<Output = Result<(), tokio_postgres::Error>> + Send + 'static,
{
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::warn!(error = %DetailedError(&error), "a connection to the database ended");
        }
    });
}

/// A refusal by the server is permanent, and so is a failed TLS handshake. A server that starts,
/// stops or has no free connection is temporarily unavailable.
fn not_connected(error: &tokio_postgres::Error) -> Error {
    let reason = DetailedError(error).to_string();
    let is_refused = ErrorKind::from(error) == ErrorKind::Refused;
    match is_refused || error.to_string().contains("TLS") {
        true => Error::Database {
            reason: format!("it lets nobody in: {reason}"),
        },
        false => Error::Unreachable { reason },
    }
}
