//! Reads events, checkpoints and sessions.

use std::collections::HashMap;

use tokio_postgres::Row;
use uuid::Uuid;

use super::batch::checksum;
use super::{Postgres, unsigned};
use crate::engine::{
    Checkpoint, Cluster as _, Event, MAX_PAYLOAD_BYTES, SessionId, SessionInfo, Space,
};
use crate::error::{Error, Fault, Record, Result};

const READ: &str = "\
SELECT seq, checksum, payload FROM (
    SELECT seq, checksum, payload, sum(octet_length(payload)) OVER (ORDER BY seq) AS total
    FROM unisono_events WHERE session = $1 AND seq >= $2 ORDER BY seq LIMIT $3
) AS event WHERE total <= $4";

const FIRST_EVENTS: &str = "\
SELECT session, checksum, payload FROM unisono_events WHERE session = ANY($1) AND seq = 1";

const LAST_EVENTS: &str = "\
SELECT event.session, event.seq, event.checksum, event.payload
FROM unnest($1::uuid[], $2::bigint[]) AS wanted (session, seq)
JOIN unisono_events AS event ON event.session = wanted.session AND event.seq = wanted.seq";

const CHECKPOINT: &str = "\
SELECT seq, checksum, state FROM unisono_checkpoints WHERE session = $1";

const SESSION: &str = "\
SELECT session, last_seq, epoch, payload_bytes, created_unix_ms, updated_unix_ms
FROM unisono_sessions WHERE session = $1 AND NOT deleted";

const EXISTING: &str = "\
SELECT session, last_seq, epoch, payload_bytes, created_unix_ms, updated_unix_ms
FROM unisono_sessions WHERE session = ANY($1) AND NOT deleted";

/// The comparison with a bound that is never null makes the server start at it in the index.
pub(super) const SESSIONS: &str = "\
SELECT session, last_seq, epoch, payload_bytes, created_unix_ms, updated_unix_ms
FROM unisono_sessions
WHERE NOT deleted AND session IS DISTINCT FROM $1
    AND session >= coalesce($1, '00000000-0000-0000-0000-000000000000'::uuid)
ORDER BY session LIMIT $2";

pub(super) const NEWEST_SESSIONS: &str = "\
SELECT session, last_seq, epoch, payload_bytes, created_unix_ms, updated_unix_ms
FROM unisono_sessions
WHERE NOT deleted AND session IS DISTINCT FROM $1
    AND session <= coalesce($1, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
ORDER BY session DESC LIMIT $2";

const SPACE: &str = "\
SELECT (pg_total_relation_size('unisono_sessions') + pg_total_relation_size('unisono_events')
        + pg_total_relation_size('unisono_checkpoints'))::bigint,
    (SELECT coalesce(sum(payload_bytes), 0)::bigint FROM unisono_sessions WHERE NOT deleted)";

impl Postgres {
    pub(super) async fn events(
        &self,
        session: SessionId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Event>> {
        if let Some(events) = self.recent_events(session, from, limit) {
            return Ok(events);
        }
        let reader = self.reader()?;
        let (Ok(from), limit) = (i64::try_from(from.max(1)), i64::try_from(limit)) else {
            return Ok(Vec::new());
        };
        let (limit, most) = (limit.unwrap_or(i64::MAX), MAX_PAYLOAD_BYTES as i64);
        let rows = reader
            .read(READ, &[&session.0, &from, &limit, &most])
            .await?;
        let mut events = Vec::with_capacity(rows.len());
        for (seq, row) in (from as u64..).zip(rows) {
            let found = unsigned(&row, 0);
            let record = Record::Event { session, seq };
            if found != seq {
                return Err(Error::unreadable(record, Fault::Missing));
            }
            let payload = whole(record, session, seq, row.get(1), row.get(2))?;
            events.push(Event { seq, payload });
        }
        Ok(events)
    }

    /// The events, if all of them are among the newest ones of a session that this program owns.
    fn recent_events(&self, session: SessionId, from: u64, limit: usize) -> Option<Vec<Event>> {
        self.check_open().ok()?;
        let members = self.membership.as_ref();
        let is_own = members.is_none_or(|all| all.is_own(session) && all.holds_lease());
        match is_own {
            true => self.recent.read(session, from, limit),
            false => None,
        }
    }

    pub(super) async fn firsts(&self, sessions: Vec<SessionId>) -> Result<Vec<Option<Event>>> {
        let ids: Vec<Uuid> = sessions.iter().map(|session| session.0).collect();
        let rows = self.reader()?.read(FIRST_EVENTS, &[&ids]).await?;
        let mut firsts = HashMap::with_capacity(rows.len());
        for row in rows {
            let session = SessionId(row.get(0));
            let record = Record::Event { session, seq: 1 };
            let payload = whole(record, session, 1, row.get(1), row.get(2))?;
            firsts.insert(session, Event { seq: 1, payload });
        }
        Ok(sessions
            .iter()
            .map(|session| firsts.get(session).cloned())
            .collect())
    }

    pub(super) async fn lasts(&self, sessions: Vec<SessionInfo>) -> Result<Vec<Option<Event>>> {
        let ids: Vec<Uuid> = sessions.iter().map(|info| info.session.0).collect();
        let seqs = sessions.iter().map(|info| info.last_seq as i64);
        let seqs: Vec<i64> = seqs.collect();
        let rows = self.reader()?.read(LAST_EVENTS, &[&ids, &seqs]).await?;
        let mut lasts = HashMap::with_capacity(rows.len());
        for row in rows {
            let (session, seq) = (SessionId(row.get(0)), unsigned(&row, 1));
            let record = Record::Event { session, seq };
            let payload = whole(record, session, seq, row.get(2), row.get(3))?;
            lasts.insert(session, Event { seq, payload });
        }
        Ok(sessions
            .iter()
            .map(|info| lasts.remove(&info.session))
            .collect())
    }

    pub(super) async fn checkpoint(&self, session: SessionId) -> Result<Option<Checkpoint>> {
        let rows = self.reader()?.read(CHECKPOINT, &[&session.0]).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let (seq, record) = (unsigned(row, 0), Record::Checkpoint { session });
        let state = whole(record, session, seq, row.get(1), row.get(2))?;
        Ok(Some(Checkpoint { seq, state }))
    }

    pub(super) async fn page(
        &self,
        text: &'static str,
        cursor: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>> {
        let cursor = cursor.map(|session| session.0);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.reader()?.read(text, &[&cursor, &limit]).await?;
        Ok(rows.iter().map(info).collect())
    }

    pub(super) async fn known(&self, session: SessionId) -> Result<Option<SessionInfo>> {
        let rows = self.reader()?.read(SESSION, &[&session.0]).await?;
        Ok(rows.first().map(info))
    }

    pub(super) async fn known_of(&self, sessions: Vec<SessionId>) -> Result<Vec<SessionInfo>> {
        let ids: Vec<Uuid> = sessions.iter().map(|session| session.0).collect();
        let rows = self.reader()?.read(EXISTING, &[&ids]).await?;
        let known = rows.iter().map(info).map(|info| (info.session, info));
        let known: HashMap<SessionId, SessionInfo> = known.collect();
        let found = sessions.iter().filter_map(|session| known.get(session));
        Ok(found.copied().collect())
    }

    pub(super) async fn measured(&self) -> Result<Space> {
        let rows = self.reader()?.read(SPACE, &[]).await?;
        let space = rows.first().map(|row| Space {
            disk_bytes: unsigned(row, 0),
            live_bytes: unsigned(row, 1),
        });
        Ok(space.unwrap_or_default())
    }
}

/// Verifies bytes against their checksum and returns them, or their fault.
fn whole(
    record: Record,
    session: SessionId,
    seq: u64,
    sum: i64,
    bytes: Vec<u8>,
) -> Result<Vec<u8>> {
    match sum == checksum(session, seq, &bytes) {
        true => Ok(bytes),
        false => Err(Error::unreadable(record, Fault::BadChecksum)),
    }
}

pub(super) fn info(row: &Row) -> SessionInfo {
    SessionInfo {
        session: SessionId(row.get(0)),
        last_seq: unsigned(row, 1),
        epoch: unsigned(row, 2),
        payload_bytes: unsigned(row, 3),
        created_unix_ms: unsigned(row, 4),
        updated_unix_ms: unsigned(row, 5),
    }
}
