//! Turns that are started automatically, by schedules and triggers. They are recorded in a journal
//! of the store's own.
//!
//! Before a turn is submitted to its session, the intention is recorded with the session and the
//! key under which the turn is submitted. If the process ends between the two, the next one submits
//! the turn again under the same key, so it is started only once.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::{Digest, SessionId, Timestamp, TurnId};

use crate::engine::STARTS as ID;
use crate::error::{Fault, Result};
use crate::journal::Journal;
use crate::record::layout::{Fields, Layout, layout, put_optional, unknown};
use crate::shared_journal::{SharedJournal, State};

/// Number of starts kept for one source, the newest ones. A trigger recognises repeated requests
/// among these.
pub const KEPT: usize = 1_000;

/// An entry of the journal: an event of a source of turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The schedule or trigger, such as `schedule:daily`.
    pub source: Arc<str>,
    /// The time of the event.
    pub at: Timestamp,
    /// The event.
    pub fact: StartFact,
}

/// An event of a source of turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartFact {
    /// It has a new rule from now on; earlier instants of the rule are ignored.
    Follows {
        /// The rule as the user wrote it.
        rule: Arc<str>,
    },
    /// A turn is about to be submitted.
    Intended {
        /// The key under which it is submitted.
        key: Arc<str>,
        /// The instant of its rule; `None` if a user requested it.
        scheduled: Option<Timestamp>,
        /// The session to which it is submitted.
        session: SessionId,
        /// The content of the request; `None` if the key alone identifies it.
        request: Option<Digest>,
    },
    /// The turn was submitted.
    Started {
        /// Its key.
        key: Arc<str>,
        /// The turn.
        turn: TurnId,
    },
    /// The turn was refused, and is not submitted again.
    Failed {
        /// Its key.
        key: Arc<str>,
        /// Why.
        reason: Arc<str>,
    },
    /// No turn was submitted for an instant of its rule.
    Skipped {
        /// The instant.
        scheduled: Timestamp,
        /// Why.
        reason: Arc<str>,
    },
    /// It is paused and starts no turns automatically.
    Paused,
    /// It starts turns again; the instants that passed meanwhile are ignored.
    Resumed,
}

/// The start of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The key under which the turn is submitted.
    pub key: Arc<str>,
    /// The instant of the rule; `None` if a user requested it.
    pub scheduled: Option<Timestamp>,
    /// When it was decided.
    pub at: Timestamp,
    /// Its session.
    pub session: SessionId,
    /// Its progress.
    pub progress: Progress,
    /// The content of the request; `None` if the key alone identifies it.
    pub request: Option<Digest>,
}

/// The progress of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The turn is about to be submitted.
    Intended,
    /// The turn was submitted.
    Started(TurnId),
    /// The turn was refused.
    Failed(Arc<str>),
}

/// The state of a source of turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Its rule, if it has one.
    pub rule: Option<Arc<str>>,
    /// All instants of its rule up to this one are handled.
    pub settled: Timestamp,
    /// Whether it is paused.
    pub paused: bool,
    /// The newest instant for which no turn was submitted, and the reason.
    pub skipped: Option<(Timestamp, Arc<str>)>,
    /// The newest starts, the oldest of them first.
    pub starts: Vec<Start>,
}

impl Source {
    /// The start with this key.
    pub fn start(&self, key: &str) -> Option<&Start> {
        self.starts.iter().rev().find(|start| &*start.key == key)
    }

    /// The start whose turn is about to be submitted, if there is one.
    pub fn intended(&self) -> Option<&Start> {
        let mut newest = self.starts.iter().rev();
        newest.find(|start| start.progress == Progress::Intended)
    }

    fn apply(&mut self, at: Timestamp, fact: &StartFact) {
        match fact {
            StartFact::Follows { rule } => {
                self.rule = Some(rule.clone());
                self.settled = at;
                self.skipped = None;
            }
            StartFact::Intended {
                key,
                scheduled,
                session,
                request,
            } => {
                self.settled = scheduled.unwrap_or(self.settled).max(self.settled);
                if self.starts.len() == KEPT {
                    self.starts.remove(0);
                }
                self.starts.push(Start {
                    key: key.clone(),
                    scheduled: *scheduled,
                    at,
                    session: *session,
                    progress: Progress::Intended,
                    request: *request,
                });
            }
            StartFact::Started { key, turn } => self.came_to(key, Progress::Started(*turn)),
            StartFact::Failed { key, reason } => {
                self.came_to(key, Progress::Failed(reason.clone()));
            }
            StartFact::Skipped { scheduled, reason } => {
                self.settled = self.settled.max(*scheduled);
                self.skipped = Some((*scheduled, reason.clone()));
            }
            StartFact::Paused => self.paused = true,
            StartFact::Resumed => {
                self.paused = false;
                self.settled = self.settled.max(at);
            }
        }
    }

    fn came_to(&mut self, key: &str, progress: Progress) {
        let mut newest = self.starts.iter_mut().rev();
        if let Some(start) = newest.find(|start| *start.key == *key) {
            start.progress = progress;
        }
    }
}

layout! {
    struct Entry { source, at, fact }
    enum StartFact {
        0 Follows { rule },
        1 Intended { key, scheduled, session; request },
        2 Started { key, turn },
        3 Failed { key, reason },
        4 Skipped { scheduled, reason },
        5 Paused,
        6 Resumed,
    }
    struct Start { key, scheduled, at, session, progress; request }
    enum Progress { 0 Intended, 1 Started(turn), 2 Failed(reason) }
    struct Source { rule, settled, paused, skipped, starts }
}

/// The states of all sources, by name.
pub type Sources = BTreeMap<Arc<str>, Source>;

impl State for Sources {
    const ID: crate::engine::SessionId = ID;
    type Entry = Entry;
    type Saved = Vec<(Arc<str>, Source)>;

    fn apply(&mut self, entry: Entry) {
        let source = self.entry(entry.source).or_default();
        source.apply(entry.at, &entry.fact);
    }

    fn save(&self) -> Self::Saved {
        let owned = |(name, source): (&Arc<str>, &Source)| (name.clone(), source.clone());
        self.iter().map(owned).collect()
    }

    fn restore(saved: Self::Saved) -> Sources {
        saved.into_iter().collect()
    }
}

/// The journal of automatically started turns.
#[derive(Debug)]
pub struct Starts(SharedJournal<Sources>);

impl Starts {
    /// Reads the journal, without a claim.
    pub async fn open(journal: &Journal) -> Result<Starts> {
        SharedJournal::open(journal).await.map(Starts)
    }

    /// The content of the journal.
    pub async fn read(journal: &Journal) -> Result<Sources> {
        Ok(SharedJournal::open(journal).await?.into_state())
    }

    /// The state of a source.
    pub fn source(&self, name: &str) -> Option<&Source> {
        self.sources().get(name)
    }

    /// The states of all sources.
    pub fn sources(&self) -> &Sources {
        self.0.state()
    }

    /// Whether this process has read or written the entries up to this number, and no known entry may be
    /// lost since, as when the database was set back to an earlier state.
    pub fn has_read(&self, last: u64) -> bool {
        self.0.has_read(last)
    }

    /// Claims the journal if it is not claimed, and reads the new entries of other processes.
    /// Returns whether there were any.
    pub async fn claim(&mut self) -> Result<bool> {
        self.0.claim().await
    }

    /// Appends an entry; it is on disk when this returns. The caller has [claimed](Starts::claim)
    /// the journal.
    ///
    /// # Errors
    /// Another process claimed the journal or appended to it: claim it again and decide by its new
    /// state. Or the store accepts no writes or fails.
    pub async fn append(&mut self, entry: Entry) -> Result<()> {
        self.0.append(entry).await
    }
}

#[cfg(test)]
mod tests {
    //! Tests that entries are read back as written, and that no process writes without having read
    //! the entries of others.

    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::disk::Disk;
    use crate::engine::{self, Engine, EngineFuture, Event};
    use crate::error::Error;
    use crate::memory::Memory;

    const SESSION: SessionId = SessionId::from_u128(7);

    /// An engine that does not answer reads beyond the end of a journal while it halts.
    #[derive(Default)]
    struct Halting {
        inner: Memory,
        halts: AtomicBool,
    }

    impl Engine for Halting {
        crate::forward_engine!(
            inner: claim, append, put_checkpoint, latest_checkpoint, session, sessions,
            delete_session, health, close
        );

        fn read(
            &self,
            session: engine::SessionId,
            from: u64,
            limit: usize,
        ) -> EngineFuture<'_, Vec<Event>> {
            Box::pin(async move {
                let read = self.inner.read(session, from, limit).await?;
                if read.is_empty() && self.halts.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
                Ok(read)
            })
        }
    }

    #[tokio::test]
    async fn a_read_that_its_caller_gives_up_applies_no_entry_twice() {
        let engine = Arc::new(Halting::default());
        let journal = Journal::new(engine.clone());
        let mut one = Starts::open(&journal).await.unwrap();
        let mut other = Starts::open(&journal).await.unwrap();
        other.claim().await.unwrap();
        other.append(entry(1, intended(1))).await.unwrap();
        engine.halts.store(true, Ordering::Relaxed);
        let given_up = tokio::time::timeout(Duration::ZERO, one.0.refresh()).await;
        assert!(given_up.is_err());
        engine.halts.store(false, Ordering::Relaxed);
        assert!(one.0.refresh().await.unwrap());
        assert_eq!(one.sources()["schedule:daily"].starts.len(), 1);
    }

    fn entry(at: i64, fact: StartFact) -> Entry {
        Entry {
            source: "schedule:daily".into(),
            at: Timestamp(at),
            fact,
        }
    }

    fn intended(n: i64) -> StartFact {
        StartFact::Intended {
            key: format!("schedule:daily:{n}").into(),
            scheduled: Some(Timestamp(n)),
            session: SESSION,
            request: (n % 2 == 1).then(|| Digest::of_bytes(&n.to_le_bytes())),
        }
    }

    #[tokio::test]
    async fn a_journal_that_is_opened_again_says_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let mut known = Sources::new();
        for round in 0..3i64 {
            let disk = Disk::open(directory.path().join("store")).unwrap().disk;
            let journal = Journal::new(Arc::new(disk));
            let mut starts = Starts::open(&journal).await.unwrap();
            assert_eq!(*starts.sources(), known, "round {round}");
            starts.claim().await.unwrap();
            assert_eq!(*starts.sources(), known, "round {round}");
            for n in round * 600..(round + 1) * 600 {
                let (key, turn) = (format!("schedule:daily:{n}").into(), TurnId::from_u128(1));
                let facts = [intended(n), StartFact::Started { key, turn }];
                for fact in facts {
                    starts.append(entry(n, fact)).await.unwrap();
                }
            }
            known = starts.sources().clone();
            assert_eq!(Starts::read(&journal).await.unwrap(), known);
            let source = starts.source("schedule:daily").unwrap();
            assert_eq!(source.settled, Timestamp((round + 1) * 600 - 1));
            assert!(source.starts.len() <= KEPT && source.intended().is_none());
            assert_eq!(journal.sessions(None, 10).await.unwrap(), []);
            assert!(!journal.exists(ID.into()).await.unwrap());
            journal.close().await.unwrap();
        }
    }

    #[test]
    fn what_is_known_follows_from_the_entries() {
        let mut sources = Sources::new();
        let mut say = |at, fact| {
            sources.apply(entry(at, fact));
            sources["schedule:daily"].clone()
        };
        let rule = || StartFact::Follows {
            rule: "0 7 * * * UTC".into(),
        };
        let source = say(100, rule());
        assert_eq!((source.settled, source.paused), (Timestamp(100), false));
        let source = say(200, intended(200));
        assert_eq!(source.intended().unwrap().scheduled, Some(Timestamp(200)));
        let (key, reason) = (Arc::from("schedule:daily:200"), Arc::from("no such agent"));
        let source = say(201, StartFact::Failed { key, reason });
        assert!(source.intended().is_none());
        let progress = &source.start("schedule:daily:200").unwrap().progress;
        assert_eq!(*progress, Progress::Failed("no such agent".into()));
        let (scheduled, reason) = (Timestamp(300), Arc::from("it was missed"));
        let source = say(900, StartFact::Skipped { scheduled, reason });
        assert_eq!(source.settled, Timestamp(300));
        assert!(say(901, StartFact::Paused).paused);
        let source = say(950, StartFact::Resumed);
        assert_eq!((source.settled, source.paused), (Timestamp(950), false));
        let by_hand = StartFact::Intended {
            key: "x".into(),
            scheduled: None,
            session: SESSION,
            request: None,
        };
        assert_eq!(
            say(2_000, by_hand).settled,
            Timestamp(950),
            "somebody asked"
        );
        assert_eq!(say(3_000, rule()).skipped, None);
    }

    #[tokio::test]
    async fn who_took_the_journal_before_writes_no_more_until_it_has_read() {
        let journal = Journal::new(Arc::new(Memory::new()));
        let mut first = Starts::open(&journal).await.unwrap();
        assert!(
            first.append(entry(1, intended(1))).await.is_err(),
            "not taken"
        );
        assert!(!first.claim().await.unwrap());
        let mut second = Starts::open(&journal).await.unwrap();
        second.claim().await.unwrap();
        second.append(entry(1, intended(1))).await.unwrap();
        let fenced = first.append(entry(1, intended(1))).await;
        assert!(matches!(fenced, Err(Error::Fenced { .. })));
        assert!(first.claim().await.unwrap(), "something was written");
        assert!(first.source("schedule:daily").unwrap().intended().is_some());
    }
}
