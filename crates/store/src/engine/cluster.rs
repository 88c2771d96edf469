//! Several programs on one store: who they are, and which of them works on a session.
//!
//! A member beats every second. One that has not for [`Cluster::takeover_after`] is taken to be gone:
//! others may claim its sessions. That decides only who tries. The epoch of a session decides who
//! writes: a member that was taken to be gone and is not finds its writes fenced.

use std::time::Duration;

use tokio::sync::watch;
use uuid::Uuid;

use crate::engine::{Answer, SessionId, SessionInfo};

/// What a member tells the others about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcement {
    /// Where the others reach it, as `http://host:port`; none: it answers nobody.
    pub address: Option<String>,
    /// A digest of the token that it takes. All members with an address take the same.
    pub token: Option<Vec<u8>>,
    /// A digest of its agent definitions.
    pub agents: Option<Vec<u8>>,
}

/// A program that uses the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id. It keeps it when it is started again in the same directory.
    pub id: Uuid,
    /// Program, host and process.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it tells about itself.
    pub announced: Announcement,
    /// When it joined, in milliseconds since 1970 UTC, by the database's clock.
    pub joined_unix_ms: u64,
    /// How long ago its last beat was.
    pub beat_age: Duration,
    /// Whether its last beat is recent enough.
    pub is_alive: bool,
    /// Whether it takes no new sessions.
    pub is_draining: bool,
    /// Whether it is this program.
    pub is_self: bool,
}

/// What a member knows since its last beat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    /// How many beats came through.
    pub count: u64,
    /// How often it was taken to be gone, and was not: what it worked on may be others' by now.
    pub lapses: u64,
    /// Whether members are gone whose sessions wait for somebody.
    pub has_gone: bool,
    /// How many members are alive, itself among them; 0 before the first beat.
    pub alive: usize,
    /// How many sessions it has claimed, as far as it knows.
    pub owned: usize,
    /// How many of its writes were refused because another one had claimed the session.
    pub fenced: u64,
    /// Grows with each change of a document.
    pub documents: u64,
    /// Whether somebody asked it to take no new sessions.
    pub is_draining: bool,
    /// Live members whose agent definitions differ from its own.
    pub differing: Vec<String>,
}

/// The group of programs on one store.
pub trait Cluster: Send + Sync {
    /// How long after its last beat a member is taken to be gone.
    fn takeover_after(&self) -> Duration;

    /// Tells the others about this program from now on.
    ///
    /// Fails where a live member takes another token.
    fn announce(&self, announcement: Announcement) -> Answer<'_, ()>;

    /// What is known since the last beat.
    fn beats(&self) -> watch::Receiver<Beat>;

    /// All members, and how many sessions each owns.
    fn members(&self) -> Answer<'_, Vec<(Member, u64)>>;

    /// The other live member that owns a session.
    fn owner(&self, session: SessionId) -> Answer<'_, Option<Member>>;

    /// Whether this program has claimed a session, and has not heard that another one has.
    fn is_own(&self, session: SessionId) -> bool;

    /// Whether others still take this program to be there, as far as its own clock can tell. Where it is
    /// not so, nothing is begun outside for a session: another program may have begun it, too.
    fn holds_lease(&self) -> bool;

    /// The sessions that this program owns.
    fn owned(&self) -> Answer<'_, Vec<SessionInfo>>;

    /// A text that all members share, such as the settings that were changed at run time.
    fn document(&self, name: &'static str) -> Answer<'_, Option<String>>;

    /// Replaces such a text. The last one counts.
    fn put_document(&self, name: &'static str, text: String) -> Answer<'_, ()>;

    /// Claims at most `limit` sessions of members that are gone, each for one program only.
    fn take_over(&self, limit: usize) -> Answer<'_, Vec<SessionInfo>>;

    /// Leaves a session that it took over, and that nothing has claimed since, to another program: it
    /// lacks what the session's open turns need. It takes it over no more, before its agents change.
    fn decline(&self, session: SessionInfo) -> Answer<'_, ()>;

    /// Owns these sessions no longer, as far as nothing has claimed them since: whoever is asked for one
    /// claims it.
    fn release(&self, sessions: Vec<SessionInfo>) -> Answer<'_, ()>;

    /// Asks a member to take no new sessions and hand over its own, or to work as before; answers
    /// whether there is one that is alive.
    fn drain(&self, member: Uuid, drains: bool) -> Answer<'_, bool>;

    /// Leaves all of its sessions to the others, and goes on under a new id. What works on them must
    /// have stopped.
    fn hand_over(&self) -> Answer<'_, ()>;
}
