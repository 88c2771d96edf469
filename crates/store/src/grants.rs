//! The daemon's level of the budget tree, kept in a journal of the store's own.
//!
//! The journal has the highest possible id, which no session has, and [`Journal`] does not list it.
//! When it is opened, its entries are folded into a state checkpoint, so opening it takes time only
//! for the entries since the last checkpoint.

use unisono_session::budget::{Broker, Grant};

use crate::engine::{Append, Checkpoint, Claim, Engine, SessionId};
use crate::error::{Error, Record, Result};
use crate::journal::Journal;
use crate::record;

pub(crate) const ID: SessionId = SessionId::from_u128(u128::MAX);
/// Number of entries read at a time.
const PAGE: usize = 4_096;
/// Number of entries after which opening the journal writes a state checkpoint.
const FOLD_AFTER: u64 = 1_024;

/// The journal of grants. One process at a time writes to it. If several programs share the store,
/// all of them may write, and a program that has not read the latest entries cannot.
#[derive(Debug)]
pub struct Grants {
    journal: Journal,
    /// `None` until the journal could be claimed.
    epoch: Option<u64>,
    last: u64,
    /// The end of the journal, if the last append was refused because another program had written to it.
    end: Option<u64>,
    /// The [lapses] of this program when it last read the whole journal; `None` if it has to read it again.
    lapses: Option<u64>,
}

impl Grants {
    /// Claims the journal and returns its content. If the store accepts no writes at the moment,
    /// the journal is claimed with the first write.
    ///
    /// # Errors
    /// The store accepts no writes, or failed; an entry cannot be read.
    pub async fn open(journal: &Journal) -> Result<(Grants, Broker)> {
        let engine = journal.engine();
        let lapses = Some(lapses(journal));
        let taken = match engine.cluster() {
            None => engine.claim(ID).await,
            Some(_) => join(engine.as_ref(), ID).await,
        };
        let claim = match taken {
            Err(error) if error.is_transient() => {
                let (journal, broker) = (journal.clone(), fold(journal, u64::MAX).await?.0);
                let grants = Grants {
                    journal,
                    epoch: None,
                    last: 0,
                    end: None,
                    lapses,
                };
                return Ok((grants, broker));
            }
            claim => claim?,
        };
        let (broker, folded) = fold(journal, claim.last_seq).await?;
        if claim.last_seq - folded > FOLD_AFTER {
            let entries: Vec<Grant> = broker.entries().copied().collect();
            let checkpoint = Checkpoint {
                seq: claim.last_seq,
                state: encode(&entries, claim.last_seq)?,
            };
            engine.put_checkpoint(ID, claim.epoch, checkpoint).await?;
        }
        let grants = Grants {
            journal: journal.clone(),
            epoch: Some(claim.epoch),
            last: claim.last_seq,
            end: None,
            lapses,
        };
        Ok((grants, broker))
    }

    /// Returns the content of the journal without claiming it.
    pub async fn read(journal: &Journal) -> Result<Broker> {
        Ok(fold(journal, u64::MAX).await?.0)
    }

    /// Applies the entries that other programs wrote, or that an own append without an answer did. After a
    /// refused append one read suffices: the refusal has shown the end, and the claim is still the last one.
    /// If the database may have been set back to an earlier state, all entries are read again: some of the
    /// known ones may be lost.
    pub async fn refresh(&mut self, broker: &mut Broker) -> Result<()> {
        let engine = self.journal.engine();
        let lapses = lapses(&self.journal);
        if self.lapses != Some(lapses) {
            let claim = join(engine.as_ref(), ID).await?;
            *broker = fold(&self.journal, claim.last_seq).await?.0;
            (self.epoch, self.last) = (Some(claim.epoch), claim.last_seq);
            (self.end, self.lapses) = (None, Some(lapses));
            return Ok(());
        }
        let end = match self.end.take() {
            Some(end) => end,
            None if engine.cluster().is_none() => return Ok(()),
            None => {
                let claim = join(engine.as_ref(), ID).await?;
                self.epoch = Some(claim.epoch);
                claim.last_seq
            }
        };
        self.last = apply(&self.journal, broker, self.last + 1, end).await?;
        Ok(())
    }

    /// The number of the newest entry that is known.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Writes grants; they are on disk when it returns.
    ///
    /// # Errors
    /// `Fenced` or `Conflict` if another process has claimed the journal or written to it; nothing
    /// is written then. Or the store accepts no writes, or failed.
    pub async fn append(&mut self, grants: &[Grant]) -> Result<()> {
        if grants.is_empty() {
            return Ok(());
        }
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => {
                let claim = self.journal.engine().claim(ID).await?;
                self.last = claim.last_seq;
                *self.epoch.insert(claim.epoch)
            }
        };
        let append = Append::new(ID, epoch, self.last, vec![encode(grants, self.last + 1)?]);
        match self.journal.engine().append(append).await {
            Ok(last) => {
                self.last = last;
                Ok(())
            }
            Err(error) => {
                if is_set_back(&error, self.last) {
                    self.lapses = None;
                } else if let Error::Conflict { last_seq, .. } = error {
                    self.end = Some(last_seq);
                }
                Err(error)
            }
        }
    }
}

/// The budget broker after the entries up to `last`, and how many of them its newest state
/// checkpoint covers.
async fn fold(journal: &Journal, last: u64) -> Result<(Broker, u64)> {
    let engine = journal.engine();
    let (mut broker, mut folded) = (Broker::default(), 0);
    if let Some(Checkpoint { seq, state }) = engine.latest_checkpoint(ID).await? {
        let of = Record::Event { session: ID, seq };
        let grants = record::decode_own::<Vec<Grant>>(&state);
        for grant in grants.map_err(|fault| Error::unreadable(of, fault))? {
            broker.apply(&grant);
        }
        folded = seq;
    }
    apply(journal, &mut broker, folded + 1, last).await?;
    Ok((broker, folded))
}

/// Claims one of the store's own journals, to which other programs may write as well.
pub(crate) async fn join(engine: &dyn Engine, journal: SessionId) -> Result<Claim> {
    match engine.session(journal).await? {
        Some(info) => Ok(Claim {
            epoch: info.epoch,
            last_seq: info.last_seq,
        }),
        None => engine.claim(journal).await,
    }
}

/// How often this program may have lost what it knows of its sessions and of the store's own journals, as
/// when the database was set back to an earlier state.
pub(crate) fn lapses(journal: &Journal) -> u64 {
    let cluster = journal.cluster();
    cluster.map_or(0, |cluster| cluster.beats().borrow().lapses)
}

/// Whether a refused append shows that a journal ends before its `last` known entry.
pub(crate) fn is_set_back(error: &Error, last: u64) -> bool {
    matches!(error, Error::Conflict { last_seq, .. } if *last_seq < last)
}

/// Applies the entries from `next` to `last`, and returns the number of the journal's last entry.
async fn apply(journal: &Journal, broker: &mut Broker, mut next: u64, last: u64) -> Result<u64> {
    let engine = journal.engine();
    while next <= last {
        let page = engine.read(ID, next, PAGE).await?;
        let Some(newest) = page.last() else { break };
        next = newest.seq + 1;
        for event in page {
            let of = Record::Event {
                session: ID,
                seq: event.seq,
            };
            let grants = record::decode_own::<Vec<Grant>>(&event.payload);
            for grant in grants.map_err(|fault| Error::unreadable(of, fault))? {
                broker.apply(&grant);
            }
        }
    }
    Ok(next - 1)
}

fn encode(grants: &[Grant], seq: u64) -> Result<Vec<u8>> {
    record::encode_entry(&grants.to_vec(), ID, seq)
}

#[cfg(test)]
mod tests {
    //! Tests that grants are read back as written, and that the journal is not listed as a session.

    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use unisono_context::cost::Cost;
    use unisono_context::{SessionId, Tokens};
    use unisono_session::budget::Amount;

    use super::*;
    use crate::disk::Disk;
    use crate::engine::{self, Deletion, EngineFuture, Event, SessionInfo};
    use crate::memory::Memory;

    fn grant(n: u64) -> Grant {
        let amount = |tokens| Amount {
            tokens: Tokens(tokens),
            cost: Cost::from_micro_dollars(tokens),
        };
        Grant {
            session: SessionId::from_u128(u128::from(n % 7)),
            period: n / 100,
            base: amount(n / 100 * 10),
            used: amount(n / 2),
            ceiling: amount(n),
            owner: None,
        }
    }

    #[tokio::test]
    async fn a_journal_that_is_opened_again_gives_the_same_house() {
        let directory = tempfile::tempdir().unwrap();
        let mut expected = Broker::default();
        let mut written = 0u64;
        for round in 0..4 {
            let disk = Disk::open(directory.path().join("store")).unwrap().disk;
            let journal = Journal::new(Arc::new(disk));
            assert_eq!(Grants::read(&journal).await.unwrap(), expected);
            let (mut grants, broker) = Grants::open(&journal).await.unwrap();
            assert_eq!(broker, expected, "round {round}");
            for n in written..written + 700 {
                expected.apply(&grant(n));
                grants.append(&[grant(n)]).await.unwrap();
            }
            written += 700;
            assert_eq!(journal.sessions(None, 10).await.unwrap(), []);
            assert_eq!(journal.unfinished().await.unwrap(), []);
            assert!(!journal.exists(ID.into()).await.unwrap());
            journal.close().await.unwrap();
        }
    }

    #[tokio::test]
    async fn who_took_the_journal_before_writes_no_more() {
        let journal = Journal::new(Arc::new(Memory::new()));
        let (mut first, _) = Grants::open(&journal).await.unwrap();
        let (mut second, _) = Grants::open(&journal).await.unwrap();
        assert!(matches!(
            first.append(&[grant(1)]).await,
            Err(Error::Fenced { .. })
        ));
        second.append(&[grant(1)]).await.unwrap();
    }

    /// Counts the reads.
    struct Counted(Memory, AtomicU64);

    impl Engine for Counted {
        crate::forward_engine!(
            0: claim, append, put_checkpoint, latest_checkpoint, sessions, delete_session, health, close
        );

        fn read(
            &self,
            session: engine::SessionId,
            from: u64,
            limit: usize,
        ) -> EngineFuture<'_, Vec<Event>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.read(session, from, limit)
        }

        fn session(&self, session: engine::SessionId) -> EngineFuture<'_, Option<SessionInfo>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.session(session)
        }
    }

    #[tokio::test]
    async fn what_another_program_wrote_is_one_read_after_a_refused_append() {
        let engine = Arc::new(Counted(Memory::new(), AtomicU64::new(0)));
        let journal = Journal::new(engine.clone());
        let (mut one, mut broker) = Grants::open(&journal).await.unwrap();
        let (mut other, _) = Grants::open(&journal).await.unwrap();
        one.epoch = other.epoch;
        for n in 1..=3 {
            other.append(&[grant(n)]).await.unwrap();
        }
        let refused = one.append(&[grant(4)]).await;
        assert!(matches!(refused, Err(Error::Conflict { .. })));
        let before = engine.1.load(Ordering::Relaxed);
        one.refresh(&mut broker).await.unwrap();
        assert_eq!(engine.1.load(Ordering::Relaxed) - before, 1);
        one.append(&[grant(4)]).await.unwrap();
        broker.apply(&grant(4));
        assert_eq!(Grants::read(&journal).await.unwrap(), broker);
    }

    #[tokio::test]
    async fn a_journal_that_ends_before_a_known_entry_is_read_again() {
        let journal = Journal::new(Arc::new(Memory::new()));
        let (mut one, mut broker) = Grants::open(&journal).await.unwrap();
        for n in 1..=3 {
            one.append(&[grant(n)]).await.unwrap();
            broker.apply(&grant(n));
        }
        let deletion = Deletion::of_session(ID);
        journal.engine().delete_session(deletion).await.unwrap();
        let (mut other, _) = Grants::open(&journal).await.unwrap();
        other.append(&[grant(4)]).await.unwrap();
        one.epoch = other.epoch;
        let refused = one.append(&[grant(5)]).await;
        assert!(matches!(refused, Err(Error::Conflict { .. })));
        one.refresh(&mut broker).await.unwrap();
        assert_eq!(broker, Grants::read(&journal).await.unwrap());
        one.append(&[grant(5)]).await.unwrap();
    }
}
