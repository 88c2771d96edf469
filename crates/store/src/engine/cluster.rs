//! Several programs that share one store: which programs they are, and which of them works on a
//! session.
//!
//! A member sends a heartbeat (beat) every second. A member without one for
//! [`Cluster::takeover_after`] counts as gone, and others may claim its sessions. That only decides
//! who tries to claim. Who may write is decided by the epoch of a session: a member that was
//! wrongly considered gone finds its writes fenced.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use uuid::Uuid;

use crate::engine::{EngineFuture, SessionId, SessionInfo, SessionsFuture};

/// What a member announces about itself to the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcement {
    /// The address at which the others reach it, as `http://host:port`; `None` if it accepts no
    /// requests.
    pub address: Option<String>,
    /// A digest of the token that it accepts. All members with an address must accept the same.
    pub token: Option<Vec<u8>>,
    /// A digest of its agent definitions.
    pub agents: Option<Vec<u8>>,
}

/// A program that shares the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id, which stays the same when it is restarted in the same directory.
    pub id: Uuid,
    /// Program, host and process.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it announces about itself.
    pub announced: Announcement,
    /// When it joined by the database's clock, in milliseconds since 1970 UTC.
    pub joined_unix_ms: u64,
    /// Time since its last beat.
    pub beat_age: Duration,
    /// Whether its last beat is recent enough to count as alive.
    pub is_alive: bool,
    /// Whether it accepts no new sessions.
    pub is_draining: bool,
    /// Whether it is this program.
    pub is_self: bool,
}

impl Member {
    /// Whether it is another live program that takes new sessions, and that requests can be passed to.
    #[must_use]
    pub fn takes_sessions(&self) -> bool {
        let is_reached = self.announced.address.is_some() && !self.is_self;
        is_reached && self.is_alive && !self.is_draining
    }
}

/// The state of the group that a member learnt at its last beat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    /// Number of successful beats.
    pub count: u64,
    /// How often the others considered it gone while it was alive: it owns the sessions that no other
    /// member has claimed since. Or the database was set back to an earlier state: it has to claim all of
    /// its sessions again.
    pub lapses: u64,
    /// Whether there are sessions of members that are gone, which are to be taken over. If this program
    /// was cut off itself, the others are not gone until one lease after its return.
    pub has_gone: bool,
    /// Number of members that are alive, including itself; 0 before the first beat.
    pub alive: usize,
    /// The addresses of the other live members.
    pub addresses: Vec<String>,
    /// Number of sessions that it has claimed, as far as it knows.
    pub owned: usize,
    /// Number of its writes that were refused because another member had claimed the session.
    pub fenced: u64,
    /// Increases with each change of a shared document or of the tokens.
    pub documents: u64,
    /// The number of the last entry of the journal of automatic starts.
    pub starts: u64,
    /// Whether it was asked to accept no new sessions.
    pub is_draining: bool,
    /// Whether another live member takes new sessions, which requests can be passed to.
    pub others_take_sessions: bool,
    /// Live members whose agent definitions differ from its own.
    pub differing: Vec<String>,
    /// Whether another live member waits for budget: what is granted here and not used is to be given
    /// back.
    pub is_budget_wanted: bool,
    /// How long the first of these members has been waiting for its turn, where the budget of all members
    /// is too small for it: what is free then is for that member.
    pub budget_wait: Option<Duration>,
    /// Whether another live member has sessions that will free budget by themselves, such as at the end
    /// of a call.
    pub is_budget_coming: bool,
    /// The holds of providers and models by other members, with their remaining times at this beat.
    pub holds: Vec<ProviderPause>,
}

/// A provider or a model of it that is left alone for a while.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProviderPause {
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

/// The group of programs that share one store.
pub trait Cluster: Send + Sync {
    /// How long after its last beat a member counts as gone.
    fn takeover_after(&self) -> Duration;

    /// The longest time between two beats of a program that works.
    fn beat_every(&self) -> Duration;

    /// The time of the database's clock, in milliseconds since 1970 UTC: that of the last beat, and what
    /// has passed since. None if the database has just lost the row of this program.
    fn now_unix_ms(&self) -> Option<i64>;

    /// Announces this program to the others, with each beat from now on.
    ///
    /// Fails if a live member accepts another token.
    fn announce(&self, announcement: Announcement) -> EngineFuture<'_, ()>;

    /// The state of the group as of the last beat.
    fn beats(&self) -> watch::Receiver<Beat>;

    /// Returns all members, and the number of sessions that each owns.
    fn members(&self) -> EngineFuture<'_, Vec<(Member, u64)>>;

    /// Returns the other live member that owns a session, if there is one.
    fn owner(&self, session: SessionId) -> EngineFuture<'_, Option<Member>>;

    /// Whether a session belongs to another member, alive or gone, or was taken over from one and nothing
    /// works on it yet.
    fn is_of_another(&self, session: SessionId) -> EngineFuture<'_, bool>;

    /// Whether this program has claimed a session and does not know of a later claim by another
    /// one.
    fn is_own(&self, session: SessionId) -> bool;

    /// Whether the others still consider this program alive, as far as its own clock can tell. If
    /// not, it must not start anything with outside effects for a session, because another program
    /// may have started the same.
    fn holds_lease(&self) -> bool;

    /// Returns the sessions that this program owns.
    fn owned(&self) -> SessionsFuture<'_>;

    /// Returns at most `limit` sessions that a member owns and that have events, in descending order of
    /// their ids, starting before `before`.
    fn owned_by(
        &self,
        member: Uuid,
        before: SessionId,
        limit: usize,
    ) -> EngineFuture<'_, Vec<SessionInfo>>;

    /// Returns the sessions of all members that were created at that time or later, without the known
    /// ones. `known` has sessions with their times of creation. The database's clock gives all times,
    /// in milliseconds since 1970 UTC.
    fn created_since(&self, unix_ms: u64, known: Vec<(SessionId, u64)>) -> SessionsFuture<'_>;

    /// Returns a text that all members share, such as the settings that were changed at run time.
    fn document(&self, name: &'static str) -> EngineFuture<'_, Option<Document>>;

    /// Replaces such a text if it still has the version `before`, or is still not there where that is 0.
    /// Answers whether it did. Where an answer was lost it may say no though it did: then the text is there.
    fn put_document(&self, name: &'static str, text: String, before: u64)
    -> EngineFuture<'_, bool>;

    /// The session that a cause has begun within a day, such as the message of a client. With a session:
    /// the one that was named first for it, by whichever program, unless that one was deleted.
    fn begun(&self, cause: u128, session: Option<SessionId>)
    -> EngineFuture<'_, Option<SessionId>>;

    /// Tells the others to leave providers and models alone. The longer hold stays.
    fn hold(&self, holds: Vec<ProviderPause>) -> EngineFuture<'_, ()>;

    /// Tells the others whether budget is wanted that they hold and do not use, and since when this
    /// program has been waiting for its turn to get some of the budget of all members. They learn it at
    /// their next beats; the beats of all follow each other faster meanwhile.
    fn want_budget(&self, is_wanted: bool, since: Option<Instant>);

    /// Tells the others whether sessions of this program will free budget by themselves, such as at the
    /// end of a call.
    fn will_free_budget(&self, is_so: bool);

    /// Keeps a callback of a session's task, in place of one of the same name, for the program that
    /// works on the session. A session that is not there has none.
    fn put_callback(&self, session: SessionId, name: String, text: String) -> EngineFuture<'_, ()>;

    /// Forgets such a callback if it still has that text.
    fn forget_callback(
        &self,
        session: SessionId,
        name: String,
        text: String,
    ) -> EngineFuture<'_, ()>;

    /// The callbacks of these sessions; without any named, those of sessions that this program owns or
    /// that nobody does, 4,096 at most.
    fn callbacks(
        &self,
        sessions: Option<Vec<SessionId>>,
    ) -> EngineFuture<'_, Vec<(SessionId, String)>>;

    /// Claims at most `limit` sessions of members that are gone. Each session is claimed by one
    /// program only.
    fn take_over(&self, limit: usize) -> SessionsFuture<'_>;

    /// Begins to work on a session under the claim with which this program took it over, so that the
    /// session need not be claimed again. False if that claim may have ended: claim the session then.
    fn take_up(&self, session: SessionId, epoch: u64) -> bool;

    /// Gives up a session that this program took over and that nobody has claimed since, because
    /// this program lacks what the session's open turns need. It does not take the session over
    /// again until its agent definitions change.
    fn decline(&self, session: SessionInfo) -> EngineFuture<'_, ()>;

    /// Gives up the ownership of these sessions, unless they were claimed since. The next program
    /// that is asked for one of them claims it.
    fn release(&self, sessions: Vec<SessionInfo>) -> EngineFuture<'_, ()>;

    /// Asks a member to accept no new sessions and to hand over its own, or to work normally again;
    /// returns whether that member is alive.
    fn drain(&self, member: Uuid, drains: bool) -> EngineFuture<'_, bool>;

    /// Begins to give up all of its sessions: until [`Cluster::hand_over`] it owns and claims none.
    fn begin_hand_over(&self);

    /// Gives up all of its sessions to the others, and continues under a new id. All work on the
    /// sessions must have stopped, after [`Cluster::begin_hand_over`] so that none begins again.
    fn hand_over(&self) -> EngineFuture<'_, ()>;
}
