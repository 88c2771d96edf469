//! The PostgreSQL engine: sessions and events as rows.
//!
//! The epoch in a session's row is the fence. An append is one statement, which updates the rows of
//! its sessions if epoch and last event are as the writer expects, and inserts the events of the
//! updated ones; appends of several sessions are combined. An append is acknowledged after the
//! commit. If the answer is lost, the content of the database decides: nothing is written twice,
//! and nothing that was written is reported as refused. If the database is unavailable, operations
//! wait for it, for a limited time.

/// Writes methods that box the future of another method:
/// `boxed! { claim(session: SessionId) -> Claim = claimed; }` inside the `impl`.
macro_rules! boxed {
    ($($method:ident($($argument:ident: $type:ty),*) -> $answer:ty = $inner:ident;)+) => {
        $(fn $method(&self, $($argument: $type),*) -> $crate::engine::EngineFuture<'_, $answer> {
            Box::pin(self.$inner($($argument),*))
        })+
    };
}

mod batch;
mod cancel;
mod check;
mod error_kind;
mod hosts;
mod link;
mod members;
mod options;
mod password;
mod read;
mod recent;
mod remove;
mod schema;
mod tls;
mod write_gate;
mod writer;

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::admit;
use crate::disk::Lock;
use crate::engine::Cluster;
use crate::engine::is_of_a_session;
use crate::engine::{
    Append, Checkpoint, Claim, Deletion, Engine, EngineFuture, Event, Health, SessionId,
    SessionInfo, SessionsFuture, Space, Vacuumed,
};
use crate::error::{Error, Result};
use crate::private;
use batch::checksum;
use error_kind::{ErrorKind, failed, refused};
use link::{Link, Outage};
use members::Membership;
use read::info;
use recent::RecentEvents;
use write_gate::WriteGate;
use writer::{Job, Writer, Written};

pub use options::{Options, place};

/// Number of connections for reading.
const READERS: usize = 3;
/// Number of reads that share a connection before the next one is used. A process of the server, with
/// caches of its own, serves each connection: reads on few of them take less time.
const SHARED_READS: usize = 4;

/// Number of attempts to claim a session whose owner releases it meanwhile, or whose lease this
/// program let expire.
const CLAIMED_AT_MOST: usize = 3;

const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Claims a session that has no owner, is owned by this member, or by a member that is gone, unless
/// the session waits ($4) for a suitable member. A program that is not a member claims any session. The row of
/// the owner is locked: a claim waits for a beat that has begun, and a beat for a claim that has begun. Without
/// `OFFSET 0` the server would lock the row only if the owner is seen to be alive.
const CLAIM: &str = "\
INSERT INTO unisono_sessions AS known
    (session, epoch, last_seq, payload_bytes, deleted, created_unix_ms, updated_unix_ms, owner)
SELECT $1, 1, 0, 0, false, now.ms, now.ms, $2
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms) AS now
WHERE $2::uuid IS NULL
    OR EXISTS (SELECT FROM unisono_members WHERE member = $2 AND beat_unix_ms > now.ms - $3)
ON CONFLICT (session) DO UPDATE SET epoch = known.epoch + 1, deleted = false,
    created_unix_ms =
        CASE WHEN known.deleted THEN excluded.created_unix_ms ELSE known.created_unix_ms END,
    updated_unix_ms =
        CASE WHEN known.deleted THEN excluded.updated_unix_ms ELSE known.updated_unix_ms END,
    owner = excluded.owner
WHERE known.deleted OR known.owner IS NULL OR excluded.owner IS NULL
    OR known.owner = excluded.owner
    OR known.owner <> $4 AND NOT EXISTS (
        SELECT FROM (SELECT beat_unix_ms FROM unisono_members
                     WHERE member = known.owner OFFSET 0 FOR SHARE) AS other
        WHERE other.beat_unix_ms > excluded.updated_unix_ms - $5)
RETURNING epoch, last_seq";

const STANDING: &str = "\
SELECT CASE WHEN deleted THEN 0 ELSE epoch END, last_seq FROM unisono_sessions WHERE session = $1";

const PUT_CHECKPOINT: &str = "\
WITH held AS (
    SELECT session FROM unisono_sessions
    WHERE session = $1 AND epoch = $2 AND NOT deleted AND last_seq >= $3 FOR SHARE
)
INSERT INTO unisono_checkpoints (session, seq, checksum, state)
SELECT session, $3, $4, $5 FROM held
ON CONFLICT (session) DO UPDATE
SET seq = excluded.seq, checksum = excluded.checksum, state = excluded.state
RETURNING seq";

/// A store in a PostgreSQL database.
pub struct Postgres {
    options: Options,
    away: Outage,
    gate: Arc<WriteGate>,
    /// Appends to sessions.
    writer: Writer,
    /// Appends to journals of the store's own. Several programs append to some of them: one that waits for
    /// the lock of another program delays no session.
    own_writer: Writer,
    readers: Vec<Link>,
    /// The connection for claims, checkpoints and deletions.
    changes: Link,
    recent: Arc<RecentEvents>,
    is_closed: AtomicBool,
    directory: Mutex<Option<Lock>>,
    /// This program's membership, if other programs may use the database at the same time.
    membership: Option<Arc<Membership>>,
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Postgres {
    /// Connects, and creates the tables if they do not exist.
    ///
    /// # Errors
    /// `Held` if another program has the directory open. `Unreachable` if the database does not
    /// answer. `Database` if another program uses the database, or the database refuses the login,
    /// is too old, could lose acknowledged writes, is read-only, or has tables that cannot be used; or if a
    /// pooler in front of it loses prepared statements.
    pub fn open(options: Options) -> Pin<Box<dyn Future<Output = Result<Postgres>> + Send>> {
        // Boxed: callers' crates do not compile it again.
        Box::pin(async move {
            let directory = options.directory.as_deref().map(take).transpose()?;
            let mut client = link::connect_first(&options).await?;
            // A pool of one session does not answer to a second client.
            if let Ok(Ok(other)) = timeout(options.patience, link::connect(&options)).await {
                check::statements(&client, &other).await?;
            }
            schema::prepare(&mut client).await?;
            schema::check_rights(&client).await?;
            drop(client);
            let away = Outage::default();
            let link = || Link::new(options.clone(), away.clone());
            let (gate, recent) = (WriteGate::new(options.clone()), Arc::default());
            let membership = match options.takeover_after {
                Some(after) => {
                    let name = options.config.get_application_name().unwrap_or("unisono");
                    let place = options.directory.as_deref();
                    let shared = (gate.clone(), Arc::clone(&recent));
                    Some(Membership::join(link(), shared, place, after, name).await?)
                }
                None => None,
            };
            Ok(Postgres {
                writer: Writer::start(link(), gate.clone()),
                own_writer: Writer::start(link(), gate.clone()),
                readers: (0..READERS).map(|_| link()).collect(),
                changes: link(),
                recent,
                is_closed: AtomicBool::new(false),
                directory: Mutex::new(directory),
                membership,
                options,
                away,
                gate,
            })
        })
    }

    /// The SQL statements that create the tables, or migrate those of an earlier version, to be run by a
    /// role that may do so. On tables of a later version they fail, and nothing is changed.
    #[must_use]
    pub const fn schema() -> &'static str {
        schema::SCRIPT
    }

    fn check_open(&self) -> Result<()> {
        match self.is_closed.load(Ordering::Acquire) {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    /// The error for a missing answer: the last error of the database, or `why` if there was none.
    fn unreachable(&self, why: &str) -> Error {
        Error::Unreachable {
            reason: self.away.reason().unwrap_or_else(|| why.to_owned()),
        }
    }

    /// The first connection that has room for another read, or one with few of them: a read waits for
    /// the earlier ones of its connection.
    fn reader(&self) -> Result<&Link> {
        self.check_open()?;
        let readers = self.readers.iter();
        let next = readers.min_by_key(|link| link.reading() / SHARED_READS);
        next.ok_or(Error::Closed)
    }

    async fn claimed(&self, session: SessionId) -> Result<Claim> {
        self.check_open()?;
        self.gate.check()?;
        let claim = self.claimed_by_member(session).await;
        self.gate.record(&claim, 0);
        claim
    }

    async fn claimed_by_member(&self, session: SessionId) -> Result<Claim> {
        let Some(membership) = self
            .membership
            .as_ref()
            .filter(|_| is_of_a_session(session))
        else {
            let claim = self.claim_for(session, None, (0, 0)).await?;
            return claim.ok_or_else(|| self.unreachable("it does not answer"));
        };
        for _ in 0..CLAIMED_AT_MOST {
            // This program may have been drained since the attempt before.
            let draining = Error::Draining { session };
            let Some(member) = membership.claimant(session) else {
                return Err(draining);
            };
            let leases = (membership.lease_ms(), membership.lease_of_others_ms());
            let claim = self.claim_for(session, Some(member), leases);
            if let Some(claim) = claim.await? {
                let is_kept = membership.claimed(session, member);
                return is_kept.then_some(claim).ok_or(draining);
            }
            if let Some(refused) = membership.refused(session).await? {
                return Err(refused);
            }
        }
        Err(self.unreachable("this program's own beats do not come through"))
    }

    /// Claims a session for a member; `None` if another member owns it. The leases are the member's own
    /// and that of the others.
    async fn claim_for(
        &self,
        session: SessionId,
        member: Option<Uuid>,
        (lease_ms, others_ms): (i64, i64),
    ) -> Result<Option<Claim>> {
        // If the answer to a claim is lost, the session is claimed again, which ends the earlier
        // claim.
        let until = Instant::now() + self.options.patience;
        loop {
            let held = self.changes.session(until).await?;
            let parameters: [&(dyn ToSql + Sync); 5] =
                [&session.0, &member, &lease_ms, &members::NOBODY, &others_ms];
            let claimed = held.query(CLAIM, &parameters);
            let Ok(claimed) = timeout_at(until, claimed).await else {
                self.changes.abandon(&held).await;
                return Err(self.unreachable("it does not answer"));
            };
            match claimed {
                Ok(rows) => {
                    // Before it counts as an own one: what is known is of an earlier claim.
                    self.recent.forget(session);
                    return Ok(rows.first().map(|row| Claim {
                        epoch: unsigned(row, 0),
                        last_seq: unsigned(row, 1),
                    }));
                }
                Err(error) => {
                    const CLAIMS: &str = "claim a session";
                    if ErrorKind::from(&error) == ErrorKind::Refused {
                        let refused = refused(CLAIMS, &error);
                        return Err(self.changes.refused(&held, refused).await);
                    }
                    if Instant::now() >= until {
                        return Err(failed(CLAIMS)(error));
                    }
                    self.changes.failed(&held, &error).await;
                }
            }
        }
    }

    async fn appended(&self, append: Append) -> Result<u64> {
        admit::check_append(&append)?;
        self.check_open()?;
        self.gate.check()?;
        let (session, epoch, before) = (append.session, append.epoch, append.expected_seq);
        let jobs = match is_of_a_session(session) {
            true => {
                self.recent.begin(session, epoch, before);
                self.writer.queue()?
            }
            false => self.own_writer.queue()?,
        };
        let (job, answer) = Job::new(append, self.options.patience);
        let sent = timeout(self.options.patience, jobs.send(job)).await;
        let full = |_| self.unreachable("as many writes wait as may");
        sent.map_err(full)?.map_err(|_| Error::Closed)?;
        match answer.await.map_err(|_| Error::Closed)? {
            Ok(Written { last, payloads }) => {
                self.recent.add(session, epoch, before, payloads);
                Ok(last)
            }
            Err(error) => {
                self.recent.forget(session);
                if let (Error::Fenced { .. }, Some(membership)) = (&error, &self.membership) {
                    membership.was_fenced(session);
                }
                Err(error)
            }
        }
    }

    async fn put_state(
        &self,
        session: SessionId,
        epoch: u64,
        checkpoint: Checkpoint,
    ) -> Result<()> {
        admit::check_checkpoint(&checkpoint)?;
        self.check_open()?;
        self.gate.check()?;
        let sum = checksum(session, checkpoint.seq, &checkpoint.state);
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let (claimed, seq) = (number(epoch), number(checkpoint.seq));
        let state = checkpoint.state;
        let parameters: [&(dyn ToSql + Sync); 5] = [&session.0, &claimed, &seq, &sum, &state];
        let written = self.changes.read(PUT_CHECKPOINT, &parameters).await;
        self.gate.record(&written, state.len());
        if !written?.is_empty() {
            return Ok(());
        }
        let standing = self.changes.read(STANDING, &[&session.0]).await?;
        let (current, last_seq) = standing
            .first()
            .map_or((0, 0), |row| (unsigned(row, 0), unsigned(row, 1)));
        Err(if current == epoch && epoch != 0 {
            Error::CheckpointAhead {
                session,
                seq: checkpoint.seq,
                last_seq,
            }
        } else {
            Error::Fenced {
                session,
                epoch,
                current,
            }
        })
    }

    async fn vacuumed(&self) -> Result<Vacuumed> {
        let before = self.measured().await?;
        let client = link::connect(&self.options).await?;
        schema::check_vacuum(&client).await?;
        for table in schema::TABLES {
            let vacuum = client
                .batch_execute(&format!("VACUUM (ANALYZE) {table}"))
                .await;
            vacuum.map_err(failed("vacuum its tables"))?;
        }
        let after = self.measured().await?;
        Ok(Vacuumed {
            before_bytes: before.disk_bytes,
            after_bytes: after.disk_bytes,
            ..Vacuumed::default()
        })
    }

    async fn closed(&self) -> Result<()> {
        self.check_open()?;
        self.is_closed.store(true, Ordering::Release);
        for writer in [&self.writer, &self.own_writer] {
            writer.close().await;
        }
        self.gate.close();
        for link in self.readers.iter().chain([&self.changes]) {
            link.close().await;
        }
        if let Some(membership) = &self.membership {
            membership.leave().await;
        }
        *self.directory.lock().await = None;
        Ok(())
    }
}

/// Makes a directory that only its owner can access, and locks it.
fn take(directory: &Path) -> Result<Lock> {
    let made = private::create_dir_all(directory);
    made.map_err(|source| Error::Io {
        doing: "make the directory",
        path: directory.to_owned(),
        source,
    })?;
    Lock::take(directory)
}

/// Reads a number from a row; none of them is negative.
fn unsigned(row: &Row, column: usize) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or_default()
}

impl Engine for Postgres {
    boxed! {
        claim(session: SessionId) -> Claim = claimed;
        append(append: Append) -> u64 = appended;
        read(session: SessionId, from: u64, limit: usize) -> Vec<Event> = events;
        first_events(sessions: Vec<SessionId>) -> Vec<Option<Event>> = firsts;
        last_events(sessions: Vec<SessionInfo>) -> Vec<Option<Event>> = lasts;
        put_checkpoint(session: SessionId, epoch: u64, checkpoint: Checkpoint) -> () = put_state;
        latest_checkpoint(session: SessionId) -> Option<Checkpoint> = checkpoint;
        session(session: SessionId) -> Option<SessionInfo> = known;
        existing(sessions: Vec<SessionId>) -> Vec<SessionInfo> = known_of;
        delete_session(deletion: Deletion) -> bool = deleted;
        space() -> Space = measured;
        close() -> () = closed;
    }

    fn sessions(&self, after: Option<SessionId>, limit: usize) -> SessionsFuture<'_> {
        Box::pin(self.page(read::SESSIONS, after, limit))
    }

    fn newest_sessions(&self, before: Option<SessionId>, limit: usize) -> SessionsFuture<'_> {
        Box::pin(self.page(read::NEWEST_SESSIONS, before, limit))
    }

    fn vacuum(&self, _: Option<u64>) -> EngineFuture<'_, Vacuumed> {
        Box::pin(self.vacuumed())
    }

    fn check_vacuum(&self) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            let client = link::connect(&self.options).await?;
            schema::check_vacuum(&client).await
        })
    }

    fn cluster(&self) -> Option<&dyn Cluster> {
        self.membership.as_deref().map(|all| all as &dyn Cluster)
    }

    fn health(&self) -> Health {
        // Its tables may be gone, or its role may have lost its rights.
        let refused = || self.membership.as_ref()?.refusal();
        match self.away.reason().or_else(refused) {
            Some(reason) => Health::Unreachable { reason },
            None => self.gate.health().unwrap_or(Health::Ok),
        }
    }

    fn check_writes(&self) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            self.check_open()?;
            let probed = self.gate.probe().await;
            self.gate.record(&probed, 0);
            probed
        })
    }
}
