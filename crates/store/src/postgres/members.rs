//! The programs on one database: a row for each, renewed by its beat.
//!
//! All times are the database's. A member that has not beaten for a while is gone: its sessions may be
//! claimed. Nothing here decides who writes; the epochs of sessions do.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::link::Link;
use super::{info, unsigned};
use crate::engine::{Announcement, Answer, Beat, Cluster, Member, SessionId, SessionInfo};
use crate::error::{Error, Result};
use crate::private;

/// A member beats so often in the time after which it is taken to be gone.
const BEATS: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A member that has not beaten for so many pauses may be gone: it is waited for.
const MISSED: u32 = 2;
/// How often a session is looked at whose owner may be gone.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Sessions of this program that are known without asking; more than that are asked for.
const KNOWN_MAX: usize = 100_000;
/// What is said of a member is no longer than this.
const NAME_MAX: usize = 200;
/// Owns the sessions that wait for a member that can work on them. No member has this id.
const NOBODY: Uuid = Uuid::max();
/// The file with the member's id, in its directory.
const FILE: &str = "member";

macro_rules! now {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}

/// Renews a member's row. Answers all rows as they were before.
const BEAT: &str = concat!(
    "WITH beat AS (
    INSERT INTO unisono_members AS me (member, instance, name, version, address, token, agents,
        draining, joined_unix_ms, beat_unix_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, ",
    now!(),
    ", ",
    now!(),
    ") ON CONFLICT (member) DO UPDATE SET
        instance = excluded.instance, name = excluded.name, version = excluded.version,
        address = excluded.address, token = excluded.token, agents = excluded.agents,
        draining = CASE WHEN me.instance = excluded.instance THEN me.draining
                        ELSE excluded.draining END,
        joined_unix_ms = CASE WHEN me.instance = excluded.instance THEN me.joined_unix_ms
                              ELSE excluded.joined_unix_ms END,
        beat_unix_ms = excluded.beat_unix_ms
)
SELECT member, name, version, address, token, agents, joined_unix_ms, ",
    now!(),
    " - beat_unix_ms, draining, instance,
    (SELECT coalesce(sum(version), 0)::bigint FROM unisono_documents),
    EXISTS (SELECT FROM unisono_sessions WHERE owner = $9) FROM unisono_members"
);

/// All members, and how many sessions each owns.
const MEMBERS: &str = concat!(
    "SELECT member, name, version, address, token, agents, joined_unix_ms, ",
    now!(),
    " - beat_unix_ms, draining, instance,
    (SELECT count(*) FROM unisono_sessions WHERE owner = known.member AND NOT deleted)
FROM unisono_members AS known ORDER BY joined_unix_ms, member"
);

const OWNER: &str = concat!(
    "SELECT member, name, version, address, token, agents, joined_unix_ms, ",
    now!(),
    " - beat_unix_ms, draining, instance
FROM unisono_members WHERE member = (SELECT owner FROM unisono_sessions WHERE session = $1)"
);

/// Each session of a member that is gone goes to one program, and its writer is fenced.
const TAKE_OVER: &str = concat!(
    "WITH taken AS (
    SELECT session FROM unisono_sessions
    WHERE owner IN (SELECT member FROM unisono_members
                    WHERE member <> $1 AND beat_unix_ms <= ",
    now!(),
    " - $2 UNION ALL SELECT $5)
        AND session <> ALL($4)
    LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE unisono_sessions AS known SET owner = $1, epoch = known.epoch + 1
FROM taken WHERE known.session = taken.session
RETURNING known.session, last_seq, epoch, payload_bytes, created_unix_ms, updated_unix_ms"
);

const DOCUMENT: &str = "SELECT text FROM unisono_documents WHERE name = $1";

const PUT_DOCUMENT: &str = "\
INSERT INTO unisono_documents AS known VALUES ($1, $2, 1)
ON CONFLICT (name) DO UPDATE SET text = excluded.text, version = known.version + 1
WHERE known.text <> excluded.text RETURNING version";

const OWNED: &str = "\
SELECT session, last_seq, epoch, payload_bytes, created_unix_ms, updated_unix_ms
FROM unisono_sessions WHERE owner = $1 AND NOT deleted";

const FORGET_GONE: &str = concat!(
    "DELETE FROM unisono_members AS gone WHERE member <> $1 AND beat_unix_ms <= ",
    now!(),
    " - $2 AND NOT EXISTS (SELECT FROM unisono_sessions WHERE owner = gone.member) RETURNING member"
);

const RELEASE: &str = "\
UPDATE unisono_sessions SET owner = NULL WHERE session = ANY($1) AND owner = $2 RETURNING session";

const DECLINE: &str = "\
UPDATE unisono_sessions SET owner = $3, epoch = epoch + 1 WHERE session = $1 AND owner = $2
RETURNING session";

const DRAIN: &str = concat!(
    "UPDATE unisono_members SET draining = $2 WHERE member = $1 AND beat_unix_ms > ",
    now!(),
    " - $3 RETURNING member"
);

const LEAVE: &str = "\
WITH owned AS (SELECT EXISTS (SELECT FROM unisono_sessions WHERE owner = $1) AS some), left_empty AS (
    DELETE FROM unisono_members USING owned
    WHERE member = $1 AND instance = $2 AND NOT owned.some RETURNING member
)
UPDATE unisono_members SET beat_unix_ms = 0
FROM owned WHERE member = $1 AND instance = $2 AND owned.some RETURNING member";

/// This program among the others.
pub(super) struct Membership {
    link: Link,
    /// New at each start: two programs with one id notice each other.
    instance: Uuid,
    name: String,
    directory: Option<PathBuf>,
    takeover_after: Duration,
    mine: Mutex<Mine>,
    announced: Mutex<Announcement>,
    beats: watch::Sender<Beat>,
    fenced: AtomicU64,
    /// When the last beat began that came through.
    seen: Mutex<Instant>,
    at_once: Notify,
    beating: Mutex<Option<JoinHandle<()>>>,
}

/// What this program is called, and the sessions it has claimed.
struct Mine {
    id: Uuid,
    sessions: HashSet<SessionId>,
    /// Sessions that it cannot work on.
    declined: HashSet<SessionId>,
    is_draining: bool,
}

impl Membership {
    /// Joins the others.
    pub(super) async fn join(
        link: Link,
        directory: Option<&Path>,
        takeover_after: Duration,
        name: &str,
    ) -> Result<Arc<Membership>> {
        let membership = Arc::new(Membership {
            link,
            instance: Uuid::now_v7(),
            name: name.chars().take(NAME_MAX).collect(),
            directory: directory.map(Path::to_owned),
            takeover_after,
            mine: Mutex::new(Mine {
                id: directory.map_or_else(|| Ok(Uuid::now_v7()), known_id)?,
                sessions: HashSet::new(),
                declined: HashSet::new(),
                is_draining: false,
            }),
            announced: Mutex::default(),
            beats: watch::Sender::default(),
            fenced: AtomicU64::new(0),
            seen: Mutex::new(Instant::now()),
            at_once: Notify::new(),
            beating: Mutex::default(),
        });
        membership.beat().await?;
        let beating = tokio::spawn(membership.clone().beat_on());
        *lock(&membership.beating) = Some(beating);
        Ok(membership)
    }

    pub(super) fn id(&self) -> Uuid {
        lock(&self.mine).id
    }

    /// Whether it may claim that session.
    pub(super) fn may_claim(&self, session: SessionId) -> bool {
        let mine = lock(&self.mine);
        !mine.is_draining || mine.sessions.contains(&session)
    }

    pub(super) fn claimed(&self, session: SessionId) {
        let mut mine = lock(&self.mine);
        if mine.sessions.len() < KNOWN_MAX {
            mine.sessions.insert(session);
        }
    }

    /// A write was refused: another member has claimed the session.
    pub(super) fn was_fenced(&self, session: SessionId) {
        self.fenced.fetch_add(1, Ordering::Relaxed);
        lock(&self.mine).sessions.remove(&session);
    }

    /// The lease, in milliseconds.
    pub(super) fn lease_ms(&self) -> i64 {
        i64::try_from(self.takeover_after.as_millis()).unwrap_or(i64::MAX)
    }

    /// A claim found a session to be another's: says whose, or waits where that one may be gone and
    /// answers none.
    pub(super) async fn refused(&self, session: SessionId) -> Result<Option<Error>> {
        lock(&self.mine).sessions.remove(&session);
        let until = Instant::now() + self.takeover_after + self.pause();
        loop {
            let Some(owner) = self.asked_owner(session).await? else {
                // The owner is gone, or this program missed its own beats.
                self.beat().await?;
                return Ok(None);
            };
            let may_be_gone =
                owner.announced.address.is_none() || owner.beat_age > self.pause() * (MISSED + 1);
            if !may_be_gone || Instant::now() >= until {
                return Ok(Some(Error::Owned {
                    session,
                    owner: owner.name,
                    address: owner.announced.address,
                }));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Tells the others that it is gone.
    pub(super) async fn leave(&self) {
        if let Some(beating) = lock(&self.beating).take() {
            beating.abort();
        }
        let id = self.id();
        let parameters: [&(dyn ToSql + Sync); 2] = [&id, &self.instance];
        let left = timeout(LONGEST_PAUSE, self.link.read(LEAVE, &parameters)).await;
        if let Ok(Err(error)) = left {
            tracing::warn!(%error, "the other programs are not told that this one leaves");
        }
        self.link.close().await;
    }

    fn pause(&self) -> Duration {
        (self.takeover_after / BEATS).min(LONGEST_PAUSE)
    }

    async fn beat_on(self: Arc<Self>) {
        loop {
            // Woken earlier where something is to be told.
            let _ = timeout(self.pause(), self.at_once.notified()).await;
            if let Err(error) = self.beat().await {
                tracing::debug!(%error, "a beat did not come through");
            }
        }
    }

    /// Tells the others that it lives, and learns who else does.
    async fn beat(&self) -> Result<()> {
        let (id, drains) = {
            let mine = lock(&self.mine);
            (mine.id, mine.is_draining)
        };
        let announced = lock(&self.announced).clone();
        let version = env!("CARGO_PKG_VERSION");
        let parameters: [&(dyn ToSql + Sync); 9] = [
            &id,
            &self.instance,
            &self.name,
            &version,
            &announced.address,
            &announced.token,
            &announced.agents,
            &drains,
            &NOBODY,
        ];
        let begun = Instant::now();
        let rows = self.link.read(BEAT, &parameters).await?;
        let members: Vec<Known> = rows.iter().map(|row| self.known(row, id)).collect();
        let documents = rows.first().map(|row| unsigned(row, 10));
        let some_wait = rows.first().is_some_and(|row| row.get(11));
        // Where the answer to an earlier one was lost, the row does not show that it was late.
        let is_late = {
            let mut seen = lock(&self.seen);
            let is_late = seen.elapsed() >= self.takeover_after;
            *seen = begun.max(*seen);
            is_late
        };
        let own = Own {
            instance: self.instance,
            announced: &announced,
            drains,
            is_late,
            documents,
            some_wait,
        };
        self.learnt(id, &members, own);
        Ok(())
    }

    fn learnt(&self, id: Uuid, members: &[Known], own: Own<'_>) {
        let before = self.beats.borrow().clone();
        let mut mine = lock(&self.mine);
        if mine.id != id {
            return;
        }
        let mut beat = next(&before, members, own);
        let is_doubled = |known: &&Known| {
            known.member.is_self && known.member.is_alive && known.instance != self.instance
        };
        if before.count > 0 && members.iter().any(|known| is_doubled(&known)) {
            tracing::error!(
                "another program has the id of this one, because its directory was copied: remove \
                 the file `{FILE}` from `store.path` of one of them, and start that one again"
            );
        }
        if beat.lapses > before.lapses {
            tracing::warn!("this program was taken to be gone: its sessions may be others' by now");
            mine.sessions.clear();
        }
        mine.is_draining = beat.is_draining;
        beat.owned = mine.sessions.len();
        beat.fenced = self.fenced.load(Ordering::Relaxed);
        drop(mine);
        self.beats.send_replace(beat);
    }

    fn known(&self, row: &Row, id: Uuid) -> Known {
        let age = Duration::from_millis(unsigned(row, 7));
        let member: Uuid = row.get(0);
        Known {
            instance: row.get(9),
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
                is_alive: age < self.takeover_after,
                is_draining: row.get(8),
                is_self: member == id,
            },
        }
    }

    async fn asked_owner(&self, session: SessionId) -> Result<Option<Member>> {
        let rows = self.link.read(OWNER, &[&session.0]).await?;
        let id = self.id();
        let owner = rows.first().map(|row| self.known(row, id).member);
        Ok(owner.filter(|owner| owner.is_alive && !owner.is_self))
    }

    async fn announced(&self, announcement: Announcement) -> Result<()> {
        for (member, _) in self.all().await? {
            let token = &member.announced.token;
            if member.is_alive && !member.is_self && token.is_some() && *token != announcement.token
            {
                return Err(Error::Database {
                    reason: format!(
                        "{} uses it with another token: programs on one database pass requests on \
                         to each other, so all of them need the same `server.token_file`",
                        member.name
                    ),
                });
            }
        }
        *lock(&self.announced) = announcement;
        self.beat().await
    }

    async fn all(&self) -> Result<Vec<(Member, u64)>> {
        let id = self.id();
        let rows = self.link.read(MEMBERS, &[]).await?;
        let members = rows
            .iter()
            .map(|row| (self.known(row, id).member, unsigned(row, 10)));
        Ok(members.collect())
    }

    async fn taken_over(&self, limit: usize) -> Result<Vec<SessionInfo>> {
        let (id, lease) = (self.id(), self.lease_ms());
        if lock(&self.mine).is_draining {
            return Ok(Vec::new());
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        // Where the answer is lost, the sessions are this program's all the same: asked for, they are
        // claimed, and at its next start its open turns go on.
        let declined = lock(&self.mine)
            .declined
            .iter()
            .map(|session| session.0)
            .collect::<Vec<_>>();
        let parameters: [&(dyn ToSql + Sync); 5] = [&id, &lease, &limit, &declined, &NOBODY];
        let rows = self.link.read(TAKE_OVER, &parameters).await?;
        if rows.is_empty() {
            self.link.read(FORGET_GONE, &[&id, &lease]).await?;
        }
        Ok(rows.iter().map(info).collect())
    }

    async fn released(&self, sessions: Vec<SessionId>) -> Result<()> {
        let ids: Vec<Uuid> = sessions.iter().map(|session| session.0).collect();
        {
            let mut mine = lock(&self.mine);
            for session in &sessions {
                mine.sessions.remove(session);
            }
        }
        self.link.read(RELEASE, &[&ids, &self.id()]).await?;
        Ok(())
    }

    async fn drained(&self, member: Uuid, drains: bool) -> Result<bool> {
        let parameters: [&(dyn ToSql + Sync); 3] = [&member, &drains, &self.lease_ms()];
        let found = self.link.read(DRAIN, &parameters).await?;
        self.at_once.notify_one();
        Ok(!found.is_empty())
    }

    async fn handed_over(&self) -> Result<()> {
        let new = Uuid::now_v7();
        if let Some(directory) = &self.directory {
            write_id(directory, new)?;
        }
        let old = {
            let mut mine = lock(&self.mine);
            mine.sessions.clear();
            mine.is_draining = true;
            std::mem::replace(&mut mine.id, new)
        };
        // Its first beat under the new id.
        self.beats.send_modify(|beat| beat.count = 0);
        // In this order: there is no time at which it is nobody.
        self.beat().await?;
        let parameters: [&(dyn ToSql + Sync); 2] = [&old, &self.instance];
        self.link.read(LEAVE, &parameters).await?;
        Ok(())
    }
}

/// A row of a member.
struct Known {
    instance: Uuid,
    member: Member,
}

/// What a program knows of itself at a beat.
#[derive(Clone, Copy, Debug)]
struct Own<'a> {
    instance: Uuid,
    announced: &'a Announcement,
    drains: bool,
    /// Whether the beat before it was too long ago, by its own clock.
    is_late: bool,
    /// The sum of the versions of all documents, where it is known.
    documents: Option<u64>,
    /// Whether sessions wait for a member that can work on them.
    some_wait: bool,
}

/// What follows from the rows as they were before a beat. Pure.
fn next(before: &Beat, members: &[Known], of: Own<'_>) -> Beat {
    let Own {
        instance,
        announced,
        drains,
        is_late,
        documents,
        some_wait,
    } = of;
    let own = members.iter().find(|known| known.member.is_self);
    let own = own.filter(|own| own.instance == instance);
    // Before the first beat there is no row, or that of an earlier start.
    let is_first = before.count == 0;
    let held = !is_late && own.is_some_and(|own| own.member.is_alive);
    let others = || members.iter().filter(|known| !known.member.is_self);
    let alive = || others().filter(|known| known.member.is_alive);
    let differs = |known: &&Known| {
        let theirs = &known.member.announced;
        let both = theirs.agents.is_some() && announced.agents.is_some();
        both && theirs.agents != announced.agents
    };
    Beat {
        count: before.count + 1,
        lapses: before.lapses + u64::from(!held && !is_first),
        has_gone: some_wait || others().any(|known| !known.member.is_alive),
        alive: alive().count() + 1,
        documents: documents.unwrap_or(before.documents),
        is_draining: own.map_or(drains, |own| own.member.is_draining),
        differing: alive()
            .filter(differs)
            .map(|known| known.member.name.clone())
            .collect(),
        ..Beat::default()
    }
}

/// The id that a program has in this directory; a new one where it was never used.
fn known_id(directory: &Path) -> Result<Uuid> {
    let text = std::fs::read_to_string(directory.join(FILE)).ok();
    let known = text.and_then(|text| Uuid::parse_str(text.trim()).ok());
    if let Some(known) = known {
        return Ok(known);
    }
    let new = Uuid::now_v7();
    write_id(directory, new)?;
    Ok(new)
}

fn write_id(directory: &Path, id: Uuid) -> Result<()> {
    let path = directory.join(FILE);
    let mut text = id.to_string();
    text.push('\n');
    let file = private::create(&path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| Error::io("write", &path, source))
}

/// No change of what it guards can be cut short, so a poisoned lock is fine.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cluster for Membership {
    fn takeover_after(&self) -> Duration {
        self.takeover_after
    }

    fn announce(&self, announcement: Announcement) -> Answer<'_, ()> {
        Box::pin(self.announced(announcement))
    }

    fn beats(&self) -> watch::Receiver<Beat> {
        self.beats.subscribe()
    }

    fn members(&self) -> Answer<'_, Vec<(Member, u64)>> {
        Box::pin(self.all())
    }

    fn owner(&self, session: SessionId) -> Answer<'_, Option<Member>> {
        Box::pin(async move {
            // Without its lease another one may have claimed it, and know more of it.
            if self.is_own(session) && self.holds_lease() {
                return Ok(None);
            }
            self.asked_owner(session).await
        })
    }

    fn is_own(&self, session: SessionId) -> bool {
        lock(&self.mine).sessions.contains(&session)
    }

    fn holds_lease(&self) -> bool {
        lock(&self.seen).elapsed() < self.takeover_after
    }

    fn owned(&self) -> Answer<'_, Vec<SessionInfo>> {
        Box::pin(async move {
            let rows = self.link.read(OWNED, &[&self.id()]).await?;
            Ok(rows.iter().map(info).collect())
        })
    }

    fn document(&self, name: &'static str) -> Answer<'_, Option<String>> {
        Box::pin(async move {
            let rows = self.link.read(DOCUMENT, &[&name]).await?;
            Ok(rows.first().map(|row| row.get(0)))
        })
    }

    fn put_document(&self, name: &'static str, text: String) -> Answer<'_, ()> {
        Box::pin(async move {
            self.link.read(PUT_DOCUMENT, &[&name, &text]).await?;
            self.at_once.notify_one();
            Ok(())
        })
    }

    fn take_over(&self, limit: usize) -> Answer<'_, Vec<SessionInfo>> {
        Box::pin(self.taken_over(limit))
    }

    fn decline(&self, session: SessionId) -> Answer<'_, ()> {
        Box::pin(async move {
            {
                let mut mine = lock(&self.mine);
                mine.sessions.remove(&session);
                if mine.declined.len() < KNOWN_MAX {
                    mine.declined.insert(session);
                }
            }
            let parameters: [&(dyn ToSql + Sync); 3] = [&session.0, &self.id(), &NOBODY];
            self.link.read(DECLINE, &parameters).await?;
            Ok(())
        })
    }

    fn release(&self, sessions: Vec<SessionId>) -> Answer<'_, ()> {
        Box::pin(self.released(sessions))
    }

    fn drain(&self, member: Uuid, drains: bool) -> Answer<'_, bool> {
        Box::pin(self.drained(member, drains))
    }

    fn hand_over(&self) -> Answer<'_, ()> {
        Box::pin(self.handed_over())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(announced: &Announcement) -> Own<'_> {
        Own {
            instance: Uuid::from_u128(1),
            announced,
            drains: false,
            is_late: false,
            documents: None,
            some_wait: false,
        }
    }

    fn known(n: u128, age_ms: u64, change: impl Fn(&mut Known)) -> Known {
        let mut known = Known {
            instance: Uuid::from_u128(n),
            member: Member {
                id: Uuid::from_u128(n),
                name: format!("m{n}"),
                version: "1".to_owned(),
                announced: Announcement::default(),
                joined_unix_ms: 0,
                beat_age: Duration::from_millis(age_ms),
                is_alive: age_ms < 10_000,
                is_draining: false,
                is_self: n == 1,
            },
        };
        change(&mut known);
        known
    }

    #[test]
    fn a_beat_says_who_lives_and_whether_this_program_was_taken_to_be_gone() {
        let plain = |n, age| known(n, age, |_| ());
        let foreign = known(1, 5, |one| one.instance = Uuid::from_u128(7));
        let started = Beat {
            count: 1,
            ..Beat::default()
        };
        let rows = [
            // before, rows, lapses, gone, alive
            (Beat::default(), vec![], 0, false, 1),
            (Beat::default(), vec![plain(1, 99_000)], 0, false, 1),
            (started.clone(), vec![plain(1, 900)], 0, false, 1),
            (started.clone(), vec![plain(1, 10_000)], 1, false, 1),
            (started.clone(), vec![], 1, false, 1),
            (started.clone(), vec![foreign], 1, false, 1),
            (
                started.clone(),
                vec![plain(1, 900), plain(2, 9_999), plain(3, 10_000)],
                0,
                true,
                2,
            ),
        ];
        for (before, members, lapses, has_gone, alive) in rows {
            let beat = next(&before, &members, own(&Announcement::default()));
            let seen = (beat.lapses, beat.has_gone, beat.alive);
            assert_eq!(seen, (lapses, has_gone, alive), "{before:?}");
            assert_eq!(beat.count, before.count + 1);
        }
        let announced = Announcement::default();
        let late = Own {
            is_late: true,
            ..own(&announced)
        };
        assert_eq!(next(&started, &[plain(1, 9)], late).lapses, 1);
    }

    #[test]
    fn a_member_is_drained_by_its_own_row_and_told_whose_agents_differ() {
        let announced = |digest: u8| Announcement {
            agents: Some(vec![digest]),
            ..Announcement::default()
        };
        let members = [
            known(1, 0, |one| one.member.is_draining = true),
            known(2, 0, |other| other.member.announced = announced(1)),
            known(3, 0, |other| other.member.announced = announced(2)),
            known(4, 99_000, |other| other.member.announced = announced(2)),
            known(5, 0, |_| ()),
        ];
        let beat = next(&Beat::default(), &members, own(&announced(1)));
        assert!(beat.is_draining);
        assert_eq!(beat.differing, ["m3"]);
        for drains in [true, false] {
            let announced = announced(1);
            let other = Own {
                instance: Uuid::from_u128(9),
                drains,
                ..own(&announced)
            };
            let beat = next(&Beat::default(), &members, other);
            assert_eq!(beat.is_draining, drains, "its row is not there yet");
        }
    }
}
