//! The programs that share one database. Each has a row, which its heartbeat (beat) renews.
//!
//! All times are those of the database's clock. A member without a beat for the lease time counts
//! as gone: its sessions may be claimed. Nothing here decides who may write; the epochs of sessions
//! do.

mod absence;
mod beat;
mod group;
mod id_file;
mod joining;
mod own_sessions;
mod rows;
mod shared;
mod statements;
mod takeover;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use absence::Absence;
use beat::{MemberRow, OwnBeat, next, next_pause};
use id_file::{FILE, known_id};
use own_sessions::OwnSessions;
use statements::{LEAVE, MEMBERS, OWNED, OWNER, WAITS};

use super::link::Link;
use super::recent::RecentEvents;
use super::write_gate::WriteGate;
use super::{info, unsigned};
use crate::engine::{Announcement, Beat, Cluster as _, Member, SessionId, SessionInfo};
use crate::error::{Error, Result};

/// Number of beats within the time after which a member counts as gone.
const BEATS: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Interval at which a session whose owner may be gone is checked, and between beats that wait for
/// budget.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Largest length of a member's name, in characters.
const NAME_MAX: usize = 200;
/// The owner of sessions that wait for a member that can work on them. No member has this id.
pub(super) const NOBODY: Uuid = Uuid::max();

/// This program's membership in the group.
pub(super) struct Membership {
    link: Link,
    gate: Arc<WriteGate>,
    recent: Arc<RecentEvents>,
    /// New at each start, so that two programs with the same id detect each other.
    instance: Uuid,
    name: String,
    directory: Option<PathBuf>,
    takeover_after: Duration,
    mine: Mutex<OwnSessions>,
    announced: Mutex<Announcement>,
    beats: watch::Sender<Beat>,
    fenced: AtomicU64,
    /// The time at which the last successful beat began.
    seen: Mutex<Instant>,
    /// The id under which the last successful beat was, its time by the database's clock, and when its
    /// answer came.
    acknowledged: Mutex<Option<(Uuid, i64, Instant)>>,
    /// The last absence of this program. Before its first one: the absence of all members before it
    /// joined.
    absence: Mutex<Option<Absence>>,
    at_once: Notify,
    /// Whether it waits for budget that others hold.
    is_short: AtomicBool,
    /// Since when it waits for its turn to get budget.
    short_since: Mutex<Option<std::time::Instant>>,
    /// Whether its sessions free budget by themselves.
    is_spending: AtomicBool,
    /// Whether it has probed since another member's writes are refused.
    has_probed: AtomicBool,
    /// Why the database refused the last beat.
    refusal: Mutex<Option<String>>,
    beating: Mutex<Option<JoinHandle<()>>>,
}

impl Membership {
    pub(super) async fn join(
        link: Link,
        (gate, recent): (Arc<WriteGate>, Arc<RecentEvents>),
        directory: Option<&Path>,
        takeover_after: Duration,
        name: &str,
    ) -> Result<Arc<Membership>> {
        let id = directory.map_or_else(|| Ok(Uuid::now_v7()), known_id)?;
        let membership = Arc::new(Membership {
            link,
            gate,
            recent,
            instance: Uuid::now_v7(),
            name: name.chars().take(NAME_MAX).collect(),
            directory: directory.map(Path::to_owned),
            takeover_after,
            mine: Mutex::new(OwnSessions::new(id)),
            announced: Mutex::default(),
            beats: watch::Sender::default(),
            fenced: AtomicU64::new(0),
            seen: Mutex::new(Instant::now()),
            acknowledged: Mutex::default(),
            absence: Mutex::default(),
            at_once: Notify::new(),
            is_short: AtomicBool::new(false),
            short_since: Mutex::default(),
            is_spending: AtomicBool::new(false),
            has_probed: AtomicBool::new(false),
            refusal: Mutex::default(),
            beating: Mutex::default(),
        });
        membership.note_outage().await?;
        membership.beat().await?;
        if membership.now_unix_ms().is_none() {
            // The first beat of the only program has no answer, and the time is needed at once.
            membership.beat().await?;
        }
        let beating = tokio::spawn(membership.clone().beat_on());
        *lock(&membership.beating) = Some(beating);
        Ok(membership)
    }

    pub(super) fn id(&self) -> Uuid {
        lock(&self.mine).id
    }

    /// The id under which this program may claim that session; `None` if it is draining.
    pub(super) fn claimant(&self, session: SessionId) -> Option<Uuid> {
        let mine = lock(&self.mine);
        mine.may_claim(session).then_some(mine.id)
    }

    /// Records a claim under that id. False if this program has handed its sessions over since, or
    /// is about to: the session is among them.
    pub(super) fn claimed(&self, session: SessionId, id: Uuid) -> bool {
        let mut mine = lock(&self.mine);
        let is_current = mine.id == id && !mine.is_handing_over;
        if is_current {
            mine.claimed(session);
        }
        is_current
    }

    /// Records that a write was refused because another member has claimed the session.
    pub(super) fn was_fenced(&self, session: SessionId) {
        self.fenced.fetch_add(1, Ordering::Relaxed);
        lock(&self.mine).forget(session);
    }

    pub(super) fn lease_ms(&self) -> i64 {
        i64::try_from(self.takeover_after.as_millis()).unwrap_or(i64::MAX)
    }

    /// The age of a beat from which on another member counts as gone.
    fn lease_of_others(&self) -> Duration {
        let absence = *lock(&self.absence);
        Absence::lease_of_others(absence, Instant::now(), self.takeover_after)
    }

    pub(super) fn lease_of_others_ms(&self) -> i64 {
        i64::try_from(self.lease_of_others().as_millis()).unwrap_or(i64::MAX)
    }

    /// Called when a claim found that another member owns the session: returns an error that names
    /// the owner, or, if that may be gone, waits and returns `None`.
    pub(super) async fn refused(&self, session: SessionId) -> Result<Option<Error>> {
        lock(&self.mine).forget(session);
        let until = Instant::now() + self.takeover_after + self.pause();
        loop {
            let waiting: [&(dyn ToSql + Sync); 2] = [&session.0, &NOBODY];
            if !self.link.read(WAITS, &waiting).await?.is_empty() {
                return Ok(Some(Error::Waiting { session }));
            }
            let Some(owner) = self.asked_owner(session).await? else {
                // The owner is gone, or this program missed its own beats.
                self.beat().await?;
                return Ok(None);
            };
            if !self.may_be_gone(&owner) || Instant::now() >= until {
                return Ok(Some(Error::Owned {
                    session,
                    owner: owner.name,
                    address: owner.announced.address,
                }));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Removes this program from the group.
    pub(super) async fn leave(&self) {
        if let Some(beating) = lock(&self.beating).take() {
            beating.abort();
        }
        let id = self.id();
        let parameters: [&(dyn ToSql + Sync); 2] = [&id, &self.instance];
        let left = timeout(LONGEST_PAUSE, self.link.read(LEAVE, &parameters)).await;
        if let Ok(Err(error)) = left {
            tracing::warn!(%error, "this program cannot announce that it leaves; the others notice it after a timeout");
        }
        self.link.close().await;
    }

    fn pause(&self) -> Duration {
        (self.takeover_after / BEATS).min(LONGEST_PAUSE)
    }

    async fn beat_on(self: Arc<Self>) {
        let mut pause = self.pause();
        loop {
            // Woken earlier if there is something to announce.
            let _ = timeout(pause, self.at_once.notified()).await;
            let beat = self.beat().await;
            self.note_refusal(beat.as_ref().err());
            pause = beat.unwrap_or_else(|_| self.pause());
        }
    }

    /// Why the database refused the last beat, such as because its tables are gone.
    pub(super) fn refusal(&self) -> Option<String> {
        lock(&self.refusal).clone()
    }

    fn note_refusal(&self, error: Option<&Error>) {
        if let Some(error) = error {
            tracing::debug!(%error, "a beat did not come through");
        }
        let reason = error.and_then(|error| match error {
            Error::Database { reason } => Some(reason.clone()),
            _ => None,
        });
        let before = std::mem::replace(&mut *lock(&self.refusal), reason.clone());
        if let (None, Some(reason)) = (before, reason) {
            tracing::error!(
                reason,
                "the database refuses the heartbeats of this program"
            );
        }
    }

    /// Renews this program's row, and reads those of the others. Returns the time until its next
    /// beat.
    async fn beat(&self) -> Result<Duration> {
        let (id, drains) = {
            let mine = lock(&self.mine);
            (mine.id, mine.is_draining)
        };
        let announced = lock(&self.announced).clone();
        let is_short = self.is_short.load(Ordering::Relaxed);
        let (begun, last) = (Instant::now(), self.recorded_beat(id));
        let rows = self.renewed(id, drains, is_short, &announced).await?;
        self.record_beat(&rows, id);
        let set_back = rows::set_back(&rows, id, last).filter(|_| self.id() == id);
        let kept = self.kept(&rows, id, set_back).await?;
        let members = rows.iter().map(|row| self.known_by_beat(row, id));
        let members: Vec<MemberRow> = members.collect();
        self.probe_after(&members);
        let holds = rows.first().map(shared::holds).unwrap_or_default();
        let some_wait = rows.first().is_some_and(|row| row.get(11));
        let own = OwnBeat {
            instance: self.instance,
            announced: &announced,
            drains,
            is_late: false,
            documents: rows.first().map(|row| unsigned(row, 10)),
            starts: rows.first().map(|row| unsigned(row, 16)),
            some_wait,
            holds: &holds,
        };
        let mut mine = lock(&self.mine);
        // If the answer to an earlier beat was lost, the row does not show that this one is late.
        let is_late = kept.is_some() || !self.holds_lease();
        let own = OwnBeat { is_late, ..own };
        let beat = self.learnt(&mut mine, id, &members, own, kept.as_deref());
        // Not before the sessions that others may own are forgotten.
        let mut seen = lock(&self.seen);
        *seen = begun.max(*seen);
        drop(seen);
        if let Some(beat) = beat {
            // The lock is held, so that updates are sent in the order in which they were read.
            self.beats.send_replace(beat);
        }
        Ok(self.pause_after(&members, is_short))
    }

    /// Probes once if the database refuses the writes of another member: without writes of its own, this
    /// one would not notice that its writes are refused, too.
    fn probe_after(&self, members: &[MemberRow]) {
        let is_refused =
            |known: &MemberRow| known.is_refused && known.member.is_alive && !known.member.is_self;
        let is_known = self.has_probed.load(Ordering::Relaxed);
        let some_refused = members.iter().any(is_refused);
        self.has_probed.store(some_refused, Ordering::Relaxed);
        if some_refused && !is_known {
            self.gate.probe_once();
        }
    }

    /// The time from a beat with these rows until the next one. Programs that wait for budget and those
    /// that compete with them beat more often: they decide at beats.
    fn pause_after(&self, members: &[MemberRow], is_short: bool) -> Duration {
        let waits = |known: &MemberRow| known.is_short && known.member.is_alive;
        let usual = match is_short || members.iter().any(waits) {
            true => self.pause().min(LOOK_EVERY),
            false => self.pause(),
        };
        match self.lease_of_others() == self.takeover_after {
            true => next_pause(members, usual, self.takeover_after),
            false => usual,
        }
    }

    /// The sessions that are still its own, if a beat is the first one after an absence. From that beat
    /// on nobody takes them over. None of them, if the database was set back: what this program knows is of
    /// a later state.
    async fn kept(
        &self,
        rows: &[Row],
        id: Uuid,
        set_back: Option<Duration>,
    ) -> Result<Option<Vec<SessionInfo>>> {
        if let Some(age) = set_back {
            tracing::error!(
                seconds = age.as_secs(),
                "the database was set back to an earlier state: what was written since is lost, and this \
                 program reads its sessions again"
            );
            // Those that were alive then have time to come back.
            let now = Instant::now();
            self.note_absence(now.checked_sub(age).unwrap_or(now));
            return Ok(Some(Vec::new()));
        }
        if !self.returned(rows, id) {
            return Ok(None);
        }
        let owned = self.link.read(OWNED, &[&id]).await?;
        Ok(Some(owned.iter().map(info).collect()))
    }

    /// Whether a beat is the first one after an absence. The others are then not taken over before
    /// they could come back, too.
    fn returned(&self, rows: &[Row], id: Uuid) -> bool {
        if self.beats.borrow().count == 0 {
            return false;
        }
        let mut rows = rows.iter().map(|row| self.known(row, id));
        let own = rows.find(|known| known.member.is_self && known.instance == self.instance);
        let own = own.map(|known| known.member);
        if self.holds_lease() && own.as_ref().is_some_and(|own| own.is_alive) {
            return false;
        }
        let age = own.map(|own| own.beat_age).unwrap_or_default();
        let seen = *lock(&self.seen);
        self.note_absence(absence::began(seen, Instant::now(), age));
        true
    }

    /// Records that no program could send a beat since then.
    fn note_absence(&self, since: Instant) {
        let mut absence = lock(&self.absence);
        let now = Instant::now();
        *absence = Some(Absence::new(*absence, since, now, self.takeover_after));
    }

    fn learnt(
        &self,
        mine: &mut OwnSessions,
        id: Uuid,
        members: &[MemberRow],
        own: OwnBeat<'_>,
        kept: Option<&[SessionInfo]>,
    ) -> Option<Beat> {
        let before = self.beats.borrow().clone();
        if mine.id != id {
            return None;
        }
        let mut beat = next(&before, members, own);
        let is_doubled = |known: &&MemberRow| {
            known.member.is_self && known.member.is_alive && known.instance != self.instance
        };
        let is_doubled = before.count > 0 && members.iter().any(|known| is_doubled(&known));
        if is_doubled {
            tracing::error!(
                "another program has the id of this one, because its directory was copied: remove \
                 the file `{FILE}` from `store.path` of one of them, and start that one again"
            );
        }
        if beat.lapses > before.lapses {
            let before = mine.len();
            mine.keep(kept.filter(|_| !is_doubled).unwrap_or_default());
            tracing::warn!(
                kept = mine.len(),
                lost = before - mine.len(),
                "the others may have taken over sessions of this program"
            );
        }
        mine.is_draining = beat.is_draining;
        beat.owned = mine.len();
        beat.fenced = self.fenced.load(Ordering::Relaxed);
        Some(beat)
    }

    async fn asked_owner(&self, session: SessionId) -> Result<Option<Member>> {
        let rows = self.link.read(OWNER, &[&session.0]).await?;
        let id = self.id();
        let owner = rows.first().map(|row| self.known(row, id).member);
        Ok(owner.filter(|owner| owner.is_alive && !owner.is_self))
    }

    async fn all(&self) -> Result<Vec<(Member, u64)>> {
        let id = self.id();
        let rows = self.link.read(MEMBERS, &[]).await?;
        let members = rows
            .iter()
            .map(|row| (self.known(row, id).member, unsigned(row, 10)));
        Ok(members.collect())
    }
}

/// Locks a mutex. No change of the guarded value can be left incomplete, so a poisoned lock is
/// ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
