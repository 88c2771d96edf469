//! A connection that is re-established when it breaks.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_postgres::config::SslMode;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::check::{self, Role};
use super::error_kind::{DetailedError, ErrorKind, failed, lost_statement, refused};
use super::{Options, cancel, hosts, tls};
use crate::error::{Error, Result};

/// The pauses between attempts to connect; each is twice the one before it.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A failed attempt to connect counts for this long although other connections work: what needs that
/// connection fails.
const FAILED_FOR: Duration = Duration::from_secs(5);

/// How long a lost statement counts as an outage: a new connection works until it loses one, too.
const LOST_FOR: Duration = Duration::from_secs(60);

/// The reason why the database is unavailable, as long as it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Outage(Arc<RwLock<Unavailable>>);

#[derive(Debug, Default)]
struct Unavailable {
    /// When an attempt to connect last failed, and why.
    failed: Option<(Instant, String)>,
    /// When a prepared statement was last lost, and how.
    lost: Option<(Instant, String)>,
}

impl Outage {
    pub(super) fn reason(&self) -> Option<String> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let lost = known.lost.as_ref();
        let lost = lost.filter(|(at, _)| at.elapsed() < LOST_FOR);
        let last = known.failed.as_ref().or(lost);
        last.map(|(_, reason)| reason.clone())
    }

    pub(super) fn set(&self, reason: Option<String>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.failed = reason.map(|reason| (Instant::now(), reason));
    }

    /// Records that a statement was answered: the database is there, even if it took no further connection
    /// some time ago.
    fn answered(&self, now: Instant) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let failed = known.failed.as_ref();
        let is_over = failed.is_some_and(|(at, _)| now.duration_since(*at) >= FAILED_FOR);
        drop(known);
        if is_over {
            self.set(None);
        }
    }

    /// Records that a prepared statement was lost.
    fn lost(&self, reason: String) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.lost = Some((Instant::now(), reason));
    }
}

/// The settings of each connection.
///
/// New tables have no statistics; rows must be found by their keys nevertheless, one after the other: in this
/// order statements lock them. By default the server reads a small table as a whole, in any order, and keeps
/// this plan while the table grows. `enable_seqscan = off` makes a scan of a whole table look so expensive that
/// the server would compile the statement first, which takes a hundred times as long as reading the few rows.
/// Each statement is planned once: by default the server plans one with short arrays at each execution,
/// because it expects long ones. LZ4 compresses large events several times as fast as the server's default; a
/// server may be built without it. Under the stricter isolation that a role or a database may have, statements
/// that wait for the same row would fail.
const SETTINGS: &str = "\
SET enable_seqscan = off; SET enable_bitmapscan = off; SET random_page_cost = 1; SET jit = off;
SET plan_cache_mode = force_generic_plan;
SET default_transaction_isolation = 'read committed';
SELECT set_config(name, 'lz4', false) FROM pg_settings
WHERE name = 'default_toast_compression' AND 'lz4' = ANY(enumvals)";

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
    reading: AtomicUsize,
}

/// One of the reads of a connection that have no answer yet.
struct Reading<'l>(&'l AtomicUsize);

impl<'l> Reading<'l> {
    fn begin(reading: &'l AtomicUsize) -> Reading<'l> {
        reading.fetch_add(1, Ordering::Relaxed);
        Reading(reading)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Link {
    pub(super) fn new(options: Options, away: Outage) -> Link {
        Link {
            options,
            away,
            session: Mutex::new(None),
            reading: AtomicUsize::new(0),
        }
    }

    /// Number of reads that wait for an answer.
    pub(super) fn reading(&self) -> usize {
        self.reading.load(Ordering::Relaxed)
    }

    /// Returns the connected session, or connects until `until`.
    pub(super) async fn session(&self, until: Instant) -> Result<Arc<Session>> {
        let why = |seen: Option<String>| {
            let known = seen.or_else(|| self.away.reason());
            known.unwrap_or_else(|| "it does not answer".to_owned())
        };
        let Ok(mut held) = timeout_at(until, self.session.lock()).await else {
            let reason = why(None);
            return Err(Error::Unreachable { reason });
        };
        if let Some(known) = held.as_ref().filter(|known| !known.client.is_closed()) {
            return Ok(known.clone());
        }
        let (mut pause, mut seen) = (FIRST_PAUSE, None);
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
                Ok(Err(Error::Unreachable { reason })) => {
                    seen = Some(reason.clone());
                    self.away.set(Some(reason));
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => {
                    // A server that hangs accepts the connection, and nothing else shows it.
                    let reason = why(seen);
                    self.away.set(Some(reason.clone()));
                    return Err(Error::Unreachable { reason });
                }
            }
            if Instant::now() + pause >= until {
                let reason = why(seen);
                return Err(Error::Unreachable { reason });
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Runs a query, again on a new connection if the first one broke meanwhile: a repetition changes
    /// nothing more.
    pub(super) async fn read(
        &self,
        text: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        let _reading = Reading::begin(&self.reading);
        let until = Instant::now() + self.options.patience;
        loop {
            let session = self.session(until).await?;
            match self.ask(&session, until, text, parameters).await {
                Err(Error::Unreachable { .. }) if Instant::now() < until => {}
                result => return result,
            }
        }
    }

    /// Runs a statement once: a repetition would change more. If its answer is lost, it fails, and may
    /// have been carried out.
    pub(super) async fn change(
        &self,
        text: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        let until = Instant::now() + self.options.patience;
        let session = self.session(until).await?;
        self.ask(&session, until, text, parameters).await
    }

    async fn ask(
        &self,
        session: &Arc<Session>,
        until: Instant,
        text: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        match timeout_at(until, session.query(text, parameters)).await {
            Ok(Ok(rows)) => {
                self.away.answered(Instant::now());
                Ok(rows)
            }
            Ok(Err(error)) if ErrorKind::from(&error) == ErrorKind::Refused => {
                Err(self.refused(session, refused("read", &error)).await)
            }
            Ok(Err(error)) => {
                self.failed(session, &error).await;
                Err(failed("read")(error))
            }
            Err(_) => {
                self.abandon(session).await;
                Err(hangs())
            }
        }
    }

    /// Takes note of a permanent error. A session that only reads is discarded: the server may accept
    /// the writes of new ones.
    pub(super) async fn refused(&self, session: &Arc<Session>, refused: Error) -> Error {
        if matches!(refused, Error::Unwritable { .. }) {
            self.broke(session).await;
        }
        refused
    }

    /// Discards a session after an error that a new connection may not have. Where the server undid a
    /// statement, or a pooler loses statements, the caller does not try again at once.
    pub(super) async fn failed(&self, session: &Arc<Session>, error: &tokio_postgres::Error) {
        let kind = ErrorKind::from(error);
        if kind != ErrorKind::Again {
            self.broke(session).await;
        }
        if kind == ErrorKind::LostStatement {
            self.away.lost(lost_statement(error));
        }
        if matches!(kind, ErrorKind::Again | ErrorKind::LostStatement) {
            sleep(FIRST_PAUSE).await;
        }
    }

    /// Discards a session whose statement has no answer, and has the server end the statement.
    pub(super) async fn abandon(&self, session: &Arc<Session>) {
        self.broke(session).await;
        cancel::cancel(&session.client, &self.options);
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

    pub(super) async fn close(&self) {
        *self.session.lock().await = None;
    }
}

/// Opens a new connection to a server that the store can use.
///
/// # Errors
/// `Unreachable` for every failure. The store has used the server before, so a refusal may be temporary, as
/// during a failover, a restore or a change of the password. A replica may become the primary.
pub(super) async fn connect(options: &Options) -> Result<Client> {
    let reason = match opened(options).await {
        Ok((client, Role::Primary)) => return Ok(client),
        Ok((_, Role::Replica)) => check::IS_REPLICA.to_owned(),
        Err(Error::Database { reason } | Error::Unreachable { reason }) => reason,
        Err(error) => error.to_string(),
    };
    Err(Error::Unreachable { reason })
}

/// Opens the first connection of a program.
///
/// # Errors
/// `Unreachable` for a failure that may be temporary; any other error is permanent, such as a replica: the
/// address is probably wrong.
pub(super) async fn connect_first(options: &Options) -> Result<Client> {
    let (client, role) = opened(options).await?;
    let reason = check::IS_REPLICA.to_owned();
    match role {
        Role::Primary => Ok(client),
        Role::Replica => Err(Error::Database { reason }),
    }
}

/// A server that accepts connections and hangs counts as unreachable.
async fn opened(options: &Options) -> Result<(Client, Role)> {
    let opened = timeout(options.patience, logged_in(options)).await;
    opened.unwrap_or_else(|_| Err(hangs()))
}

fn hangs() -> Error {
    Error::Unreachable {
        reason: "it does not answer".to_owned(),
    }
}

async fn logged_in(options: &Options) -> Result<(Client, Role)> {
    let client = connected_to_a_host(options).await?;
    let role = check::server(&client, options.search_path()).await?;
    let prepared = client.batch_execute(SETTINGS);
    prepared.await.map_err(failed("prepare a connection"))?;
    Ok((client, role))
}

/// Connects to the first host that lets this program in, or the first address of its name. One that accepts
/// connections and hangs leaves an equal share of the time to each of the later ones.
async fn connected_to_a_host(options: &Options) -> Result<Client> {
    let (config, password_hint) = options.login()?;
    let until = Instant::now() + options.patience;
    let mut hosts = VecDeque::from(hosts::each_host(&config));
    loop {
        let shares = u32::try_from(hosts.len()).unwrap_or(u32::MAX).max(1);
        let now = Instant::now();
        let end = now + until.saturating_duration_since(now) / shares;
        let host = hosts.pop_front().unwrap_or_else(|| config.clone());
        let addresses = timeout_at(end, hosts::each_address(&host)).await;
        let addresses = addresses.unwrap_or_default();
        if addresses.len() > 1 {
            // Each of them is tried as a host.
            let addresses = addresses.into_iter().rev();
            addresses.for_each(|address| hosts.push_front(address));
            continue;
        }
        let connected = timeout_at(end, connected_to(&host, options, &password_hint));
        match connected.await.unwrap_or_else(|_| Err(hangs())) {
            Err(error) if hosts.is_empty() => return Err(error),
            Err(error) => tracing::debug!(%error, "the next host of the database is tried"),
            Ok(client) => return Ok(client),
        }
    }
}

async fn connected_to(config: &Config, options: &Options, password_hint: &str) -> Result<Client> {
    let connected = match config.get_ssl_mode() {
        SslMode::Disable => config.connect(NoTls).await.map(|(client, connection)| {
            drive(connection);
            client
        }),
        _ => {
            let tls = MakeRustlsConnect::new(tls::config(options.is_verified)?);
            config.connect(tls).await.map(|(client, connection)| {
                drive(connection);
                client
            })
        }
    };
    let user = config.get_user().unwrap_or_default();
    connected.map_err(|error| not_connected(&error, user, password_hint))
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

/// The client's errors that are permanent. It has no public type of them.
const PERMANENT: [&str; 2] = ["authentication error", "invalid configuration"];

/// A refusal by the server is permanent, and so are a failed TLS handshake and a missing password. A
/// server that starts, stops or has no free connection is temporarily unavailable.
fn not_connected(error: &tokio_postgres::Error, user: &str, password_hint: &str) -> Error {
    let reason = DetailedError(error).to_string();
    if reason.ends_with("password missing") {
        return Error::Database {
            reason: format!(
                "it wants a password, and none is set{password_hint}: set `store.password_file`, \
                 `PGPASSWORD`, or a line in the file `PGPASSFILE`"
            ),
        };
    }
    let text = error.to_string();
    if text.contains("TLS") {
        return Error::Database {
            reason: not_encrypted(&reason),
        };
    }
    if reason.starts_with("unsupported startup parameter") {
        return Error::Database {
            reason: format!(
                "a pooler in front of it refused the login of user `{user}`: {reason}; {}",
                check::PATH_OF_ROLE
            ),
        };
    }
    let is_permanent = PERMANENT.iter().any(|part| text.contains(part));
    match is_permanent || ErrorKind::from(error) == ErrorKind::Refused {
        true => Error::Database {
            reason: format!("it refused the login of user `{user}`: {reason}"),
        },
        false => Error::Unreachable { reason },
    }
}

/// Why there is no encrypted connection, and what to do.
fn not_encrypted(reason: &str) -> String {
    let authorities = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    if let Some(file) = authorities.filter(|file| reason.contains("certificate") && !file.exists())
    {
        let file = file.display();
        return format!(
            "there is no encrypted connection to it: {reason}; the file {file}, which the variable \
             SSL_CERT_FILE names, is not there"
        );
    }
    let advice = if reason.contains("certificate") {
        "; name the host in `store.url` as its certificate does, and the certificate's authority in the \
         variable SSL_CERT_FILE if this machine does not know it"
    } else if reason.contains("does not support TLS") {
        "; set `ssl = on` at the server, or sslmode=disable in `store.url` on a network that you trust"
    } else {
        ""
    };
    format!("there is no encrypted connection to it: {reason}{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_is_tried_in_vain_is_an_outage_while_others_work() {
        let away = Outage::default();
        away.set(Some("no room".to_owned()));
        let now = Instant::now();
        away.answered(now);
        assert_eq!(away.reason().as_deref(), Some("no room"));
        away.answered(now + FAILED_FOR);
        assert_eq!(away.reason(), None);
        away.set(Some("no room".to_owned()));
        // Any new connection shows that there is room.
        away.set(None);
        assert_eq!(away.reason(), None);
    }
}
