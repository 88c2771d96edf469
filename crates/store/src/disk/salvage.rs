//! Saves all undamaged records into a fresh log, keeps the damaged log, and names what is lost.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::disk::carve::Index;
use crate::disk::fresh::NewLog;
use crate::disk::ledger::{self, Extent, Extents};
use crate::disk::log::SessionState;
use crate::disk::{files, losses, tail};
use crate::engine::is_of_a_session;
use crate::engine::{Checkpoint, SessionId, now_unix_ms};
use crate::error::Result;
use crate::row::Head;

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvage {
    /// The damage that was found.
    pub reason: String,
    /// The directory with the damaged log.
    pub quarantine: PathBuf,
    /// Number of sessions saved, completely or in part, without internal journals.
    pub sessions: u64,
    /// Number of events saved.
    pub events: u64,
    /// What could not be saved; empty if all acknowledged data is readable.
    pub lost: Vec<LostData>,
}

impl Salvage {
    /// The name of the directory with the damaged log.
    #[must_use]
    pub fn quarantine_name(&self) -> String {
        let name = self.quarantine.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

/// Data that a repair could not save.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostData {
    /// Events of a session, from the first damaged one to the last known one. Events after a
    /// damaged one may be undamaged, but cannot follow a gap; they stay in the quarantine.
    Events {
        /// The session.
        session: SessionId,
        /// The first event lost.
        first: u64,
        /// The last event that is known to have existed.
        last: u64,
    },
    /// The state checkpoint of a session; the state is folded from the events again.
    Checkpoint {
        /// The session.
        session: SessionId,
    },
}

impl fmt::Display for LostData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Events {
                session,
                first,
                last,
            } if first == last => write!(f, "event {first} of session {session}"),
            Self::Events {
                session,
                first,
                last,
            } => write!(f, "events {first} to {last} of session {session}"),
            Self::Checkpoint { session } => write!(
                f,
                "the checkpoint of session {session} (rebuilt from its events)"
            ),
        }
    }
}

/// Formats a number with a noun: `1 event`, `2 events`.
fn many(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

impl fmt::Display for Salvage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the store was damaged: {}", self.reason)?;
        writeln!(
            f,
            "saved {} of {}",
            many(self.events, "event"),
            many(self.sessions, "session")
        )?;
        for lost in &self.lost {
            writeln!(f, "lost {lost}")?;
        }
        if self.lost.is_empty() {
            writeln!(f, "lost nothing")?;
        }
        write!(
            f,
            "the damaged store is kept in {}",
            self.quarantine.display()
        )
    }
}

/// Replaces the store's log by a fresh one with all undamaged records. The log must be closed and
/// the store's lock held.
pub(super) fn salvage(root: &Path, extents: &Extents, reason: String) -> Result<Salvage> {
    let quarantine = files::quarantine(root)?;
    let mut index = Index::default();
    index.add(&files::data(root).join("db"))?;
    index.add(&tail::path(root))?;
    let fresh = NewLog::create(root)?;
    let report = Salvage {
        reason,
        quarantine,
        sessions: 0,
        events: 0,
        lost: Vec::new(),
    };
    let mut saving = Saving {
        index: &index,
        fresh,
        report,
        extents: Extents::new(),
    };
    for session in known_sessions(&index, extents) {
        saving.session(session, extents.get(&session).copied())?;
    }
    let Saving {
        fresh,
        report,
        extents,
        ..
    } = saving;
    fresh.finish()?;
    put_in_place(root, &report, &extents)?;
    Ok(report)
}

fn known_sessions(index: &Index, extents: &Extents) -> BTreeSet<SessionId> {
    let carved = index
        .heads
        .keys()
        .copied()
        .chain(index.events.keys().map(|(session, _)| *session));
    carved.chain(extents.keys().copied()).collect()
}

/// Moves the damaged log with its tail and a report to the quarantine, and puts the fresh log in
/// place.
fn put_in_place(root: &Path, report: &Salvage, extents: &Extents) -> Result<()> {
    let quarantine = &report.quarantine;
    files::replace(
        &quarantine.join("report.txt"),
        format!("{report}\n").as_bytes(),
    )?;
    files::replace(
        &quarantine.join("acknowledged"),
        &std::fs::read(ledger::path(root)).unwrap_or_default(),
    )?;
    losses::note(root, &report.lost, quarantine, now_unix_ms())?;
    files::swap(root, &quarantine.join("data"))?;
    if tail::path(root).exists() {
        files::rename(&tail::path(root), &quarantine.join("tail"))?;
    }
    ledger::rewrite(root, extents)
}

struct Saving<'a> {
    index: &'a Index,
    fresh: NewLog,
    report: Salvage,
    extents: Extents,
}

impl Saving<'_> {
    fn session(&mut self, session: SessionId, extent: Option<Extent>) -> Result<()> {
        let known = self.index.heads.get(&session);
        if is_deleted(known, extent) {
            return Ok(());
        }
        let born_epoch = known.map_or(0, |head| head.born_epoch);
        let mut saved = SessionState::new(fresh_head(session, known, extent));
        self.events(session, born_epoch, &mut saved)?;
        let last_seq = saved.head.last_seq;
        let last = known
            .map_or(0, |head| head.last_seq)
            .max(extent.map_or(0, |extent| extent.last_seq));
        if last > last_seq {
            self.report.lost.push(LostData::Events {
                session,
                first: last_seq + 1,
                last,
            });
        }
        let checkpoint = self.checkpoint(session, born_epoch, last_seq);
        self.fresh.end(session, &saved, checkpoint)?;
        self.extents.insert(session, Extent::from_head(&saved.head));
        self.report.sessions += u64::from(is_of_a_session(session));
        Ok(())
    }

    /// Follows the chain from its start until it breaks.
    fn events(
        &mut self,
        session: SessionId,
        born_epoch: u64,
        saved: &mut SessionState,
    ) -> Result<()> {
        while let Some((stamp, payload)) = self.index.follow(session, born_epoch, &saved.head) {
            saved.head.push(&payload, stamp.at_unix_ms);
            saved.head.epoch = saved.head.epoch.max(stamp.epoch);
            self.fresh.event(session, saved, stamp, &payload)?;
            self.report.events += 1;
        }
        Ok(())
    }

    /// Returns the newest readable checkpoint and its epoch; reports a newer one that is not
    /// readable.
    fn checkpoint(
        &mut self,
        session: SessionId,
        born_epoch: u64,
        last_seq: u64,
    ) -> Option<(u64, Checkpoint)> {
        let newest = self.index.newest_checkpoint(session, born_epoch)?;
        let saved = self.index.checkpoint(session, born_epoch, last_seq);
        if saved
            .as_ref()
            .is_none_or(|(_, checkpoint)| checkpoint.seq < newest)
        {
            self.report.lost.push(LostData::Checkpoint { session });
        }
        saved
    }
}

/// Whether the latest known state of a session is that it was deleted.
fn is_deleted(head: Option<&Head>, extent: Option<Extent>) -> bool {
    let latest = head.map(Extent::from_head).max(extent);
    latest.is_some_and(|latest| latest.deleted)
}

/// The head a salvaged session starts from, before its events are added.
fn fresh_head(session: SessionId, known: Option<&Head>, extent: Option<Extent>) -> Head {
    let epoch = known
        .map_or(1, |head| head.epoch)
        .max(extent.map_or(1, |extent| extent.epoch));
    match known {
        Some(head) => Head {
            epoch,
            deleted: false,
            ..head.start(session)
        },
        None => Head {
            epoch,
            born_epoch: 1,
            ..Head::claimed(session, None, now_unix_ms())
        },
    }
}
