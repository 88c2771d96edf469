//! The row of this program, as it writes it, and the rows of all members, as it reads them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::beat::MemberRow;
use super::statements::BEAT;
use super::{Membership, NOBODY, lock};
use crate::engine::{Announcement, Member, STARTS, TOKENS};
use crate::error::Result;
use crate::postgres::unsigned;

/// A member that missed this many beats may be gone: claims wait until that is known.
const MISSED: u32 = 2;

impl Membership {
    /// Renews the row of this program under that id, and returns all rows.
    pub(super) async fn renewed(
        &self,
        id: Uuid,
        drains: bool,
        is_short: bool,
        announced: &Announcement,
    ) -> Result<Vec<Row>> {
        let version = env!("CARGO_PKG_VERSION");
        let is_spending = self.is_spending.load(Ordering::Relaxed);
        let since = lock(&self.short_since).filter(|_| is_short);
        let is_refused = self.gate.check().is_err();
        let waited = since.and_then(|since| i64::try_from(since.elapsed().as_millis()).ok());
        let parameters: [&(dyn ToSql + Sync); 15] = [
            &id,
            &self.instance,
            &self.name,
            &version,
            &announced.address,
            &announced.token,
            &announced.agents,
            &drains,
            &NOBODY,
            &is_short,
            &TOKENS.0,
            &STARTS.0,
            &is_spending,
            &waited,
            &is_refused,
        ];
        let rows = self.link.read(BEAT, &parameters).await;
        self.gate.record(&rows, 0);
        rows
    }

    /// Records the beat that returned these rows. The first beat of a program returns no row of its own.
    pub(super) fn record_beat(&self, rows: &[Row], id: Uuid) {
        let at = rows.first().and_then(|row| row.get::<_, Option<i64>>(21));
        *lock(&self.acknowledged) = at.map(|at| (id, at, Instant::now()));
    }

    /// The time of the last recorded beat under that id.
    pub(super) fn recorded_beat(&self, id: Uuid) -> Option<i64> {
        let recorded = lock(&self.acknowledged).filter(|(of, ..)| *of == id);
        recorded.map(|(_, at, _)| at)
    }

    /// The member of a row, without what only a beat returns.
    pub(super) fn known(&self, row: &Row, id: Uuid) -> MemberRow {
        let age = Duration::from_millis(unsigned(row, 7));
        let member: Uuid = row.get(0);
        let lease = match member == id {
            true => self.takeover_after,
            false => self.lease_of_others(),
        };
        MemberRow {
            instance: row.get(9),
            is_short: false,
            waited: None,
            is_spending: false,
            is_refused: false,
            member: Member {
                id: member,
                name: row.get(1),
                version: row.get(2),
                announced: Announcement {
                    address: row.get(3),
                    token: row.get(4),
                    agents: row.get(5),
                },
                joined_unix_ms: unsigned(row, 6),
                beat_age: age,
                is_alive: age < lease,
                is_draining: row.get(8),
                is_self: member == id,
            },
        }
    }

    /// Whether another member is gone or may be: it missed beats, or it is a command that may have been
    /// killed.
    pub(super) fn may_be_gone(&self, member: &Member) -> bool {
        let is_silent = member.beat_age > self.pause() * (MISSED + 1);
        !member.is_alive || member.announced.address.is_none() || is_silent
    }

    /// The member of a row that a beat returned.
    pub(super) fn known_by_beat(&self, row: &Row, id: Uuid) -> MemberRow {
        let waited: Option<i64> = row.get(18);
        MemberRow {
            is_short: row.get(12),
            waited: waited.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or_default())),
            is_spending: row.get(17),
            is_refused: row.get(19),
            ..self.known(row, id)
        }
    }
}

/// How old the beat is that the database has of a program, if it has lost a later one that it acknowledged:
/// it was set back to an earlier state.
pub(super) fn set_back(rows: &[Row], id: Uuid, acknowledged: Option<i64>) -> Option<Duration> {
    let own = rows.iter().find(|row| row.get::<_, Uuid>(0) == id)?;
    let last: i64 = own.get(20);
    (last < acknowledged?).then(|| Duration::from_millis(unsigned(own, 7)))
}
