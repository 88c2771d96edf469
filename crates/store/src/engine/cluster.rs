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
    /// Whether another live member waits for budget: what is granted here and not used is to be given
    /// back.
    pub is_budget_wanted: bool,
    /// How long other members were told to leave providers and models alone, as of this beat.
    pub holds: Vec<Hold>,
}

/// A provider or a model of it that is left alone for a while.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hold {
    /// The provider's name in the settings.
    pub provider: String,
    /// The model, as its provider knows it; none: all of them.
    pub model: Option<String>,
    /// How much longer.
    pub wait: Duration,
}

/// A text that all members share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The text.
    pub text: String,
    /// Grows with each change, from 1.
    pub version: u64,
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
    fn document(&self, name: &'static str) -> Answer<'_, Option<Document>>;

    /// Replaces such a text if it still has the version `before`, or is still not there where that is 0.
    /// Answers whether it did. Where an answer was lost it may say no though it did: then the text is there.
    fn put_document(&self, name: &'static str, text: String, before: u64) -> Answer<'_, bool>;

    /// The session that a cause has begun within a day, such as the message of a client. With a session:
    /// the one that was named first for it, by whichever program.
    fn begun(&self, cause: u128, session: Option<SessionId>) -> Answer<'_, Option<SessionId>>;

    /// Tells the others to leave providers and models alone. The longer hold stays.
    fn hold(&self, holds: Vec<Hold>) -> Answer<'_, ()>;

    /// Tells the others whether budget is wanted that they hold and do not use. They learn it at their
    /// next beats.
    fn want_budget(&self, is_wanted: bool);

    /// Keeps a callback of a session's task, in place of one of the same name, for whoever works on the
    /// session. A session that is not there has none.
    fn put_callback(&self, session: SessionId, name: String, text: String) -> Answer<'_, ()>;

    /// Forgets such a callback if it still has that text.
    fn forget_callback(&self, session: SessionId, name: String, text: String) -> Answer<'_, ()>;

    /// The callbacks of these sessions; without any named, those of sessions that this program owns or
    /// that nobody does, 4,096 at most.
    fn callbacks(&self, sessions: Option<Vec<SessionId>>) -> Answer<'_, Vec<(SessionId, String)>>;

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
