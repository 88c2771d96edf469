//! An internal journal of the store whose entries fold into a state.
//!
//! If several processes share the store, all of them append to the journal. Each reads the entries
//! of the others before it decides, and a process with an outdated state cannot append.

use crate::engine::{Append, Checkpoint, SessionId};
use crate::error::{Error, Record, Result};
use crate::grants::{is_set_back, join, lapses};
use crate::journal::Journal;
use crate::record;
use crate::record::layout::Layout;

/// Entries per read.
const PAGE: usize = 4_096;
/// Entries after which a claim of the journal writes a checkpoint of the state: opening the journal takes time
/// only for the entries since then.
const FOLD_AFTER: u64 = 1_024;

/// The state of a journal: the fold of its entries.
pub(crate) trait State: Default {
    const ID: SessionId;
    type Entry: Layout;
    /// The content of a checkpoint.
    type Saved: Layout;

    fn apply(&mut self, entry: Self::Entry);
    /// The content for a checkpoint.
    fn save(&self) -> Self::Saved;
    /// The state in a checkpoint.
    fn restore(saved: Self::Saved) -> Self;
}

/// An internal journal with its state.
#[derive(Debug)]
pub(crate) struct SharedJournal<S> {
    journal: Journal,
    /// The claimed epoch; `None` before the claim and after another process claimed the journal.
    epoch: Option<u64>,
    last: u64,
    state: S,
    /// The last entry that the checkpoint covers.
    saved: u64,
    /// The [lapses] of this program when it last read the whole journal; `None` if it has to read it again.
    lapses: Option<u64>,
}

impl<S: State> SharedJournal<S> {
    /// Reads the journal, without a claim.
    pub(crate) async fn open(journal: &Journal) -> Result<Self> {
        let lapses = Some(lapses(journal));
        let (state, last, saved) = fold(journal).await?;
        Ok(Self {
            journal: journal.clone(),
            epoch: None,
            last,
            state,
            saved,
            lapses,
        })
    }

    pub(crate) fn state(&self) -> &S {
        &self.state
    }

    /// Whether the entries up to this number were read or written, and no known entry may be lost since.
    pub(crate) fn has_read(&self, last: u64) -> bool {
        self.last >= last && self.lapses == Some(lapses(&self.journal))
    }

    pub(crate) fn into_state(self) -> S {
        self.state
    }

    /// Reads the new entries of other processes, and returns whether there were any. If the database may
    /// have been set back to an earlier state, all entries are read again.
    pub(crate) async fn refresh(&mut self) -> Result<bool> {
        let lapses = lapses(&self.journal);
        if self.lapses != Some(lapses) {
            (self.state, self.last, self.saved) = fold::<S>(&self.journal).await?;
            self.lapses = Some(lapses);
            return Ok(true);
        }
        let last = read_after(&self.journal, &mut self.state, self.last).await?;
        let is_new = last != self.last;
        self.last = last;
        Ok(is_new)
    }

    /// Claims the journal if it is not claimed, and reads the new entries of other processes.
    /// Returns whether there were any.
    pub(crate) async fn claim(&mut self) -> Result<bool> {
        let engine = self.journal.engine().clone();
        if self.journal.cluster().is_some() {
            let epoch = join(engine.as_ref(), S::ID).await?.epoch;
            self.epoch = Some(epoch);
            let is_new = self.refresh().await?;
            if self.is_long() {
                // A checkpoint stays: it is made of what the store has now.
                (self.state, self.last, self.saved) = fold::<S>(&self.journal).await?;
                if let Err(error) = self.save(epoch).await {
                    tracing::debug!(%error, "a journal of the store gets its checkpoint later");
                }
            }
            return Ok(is_new);
        }
        if self.epoch.is_some() {
            return Ok(false);
        }
        let before = self.last;
        let claim = engine.claim(S::ID).await?;
        (self.state, self.last, self.saved) = fold::<S>(&self.journal).await?;
        self.save(claim.epoch).await?;
        self.epoch = Some(claim.epoch);
        Ok(self.last != before)
    }

    /// Whether there are many entries since the last checkpoint.
    fn is_long(&self) -> bool {
        self.last.saturating_sub(self.saved) > FOLD_AFTER
    }

    /// Writes a checkpoint of the state, if there are many entries since the last one.
    async fn save(&mut self, epoch: u64) -> Result<()> {
        if self.is_long() {
            let checkpoint = Checkpoint {
                seq: self.last,
                state: record::encode_entry(&self.state.save(), S::ID, self.last)?,
            };
            let engine = self.journal.engine();
            engine.put_checkpoint(S::ID, epoch, checkpoint).await?;
            self.saved = self.last;
        }
        Ok(())
    }

    /// Appends an entry; it is on disk when this returns. The caller has claimed the journal.
    pub(crate) async fn append(&mut self, entry: S::Entry) -> Result<()> {
        let Some(epoch) = self.epoch else {
            return Err(Error::Conflict {
                session: S::ID,
                expected_seq: self.last,
                last_seq: self.last,
            });
        };
        let append = Append {
            session: S::ID,
            epoch,
            expected_seq: self.last,
            payloads: vec![record::encode_entry(&entry, S::ID, self.last + 1)?],
        };
        match self.journal.engine().append(append).await {
            Ok(last) => {
                self.last = last;
                self.state.apply(entry);
                Ok(())
            }
            Err(error) => {
                // The next append requires a new claim.
                self.epoch = None;
                if is_set_back(&error, self.last) {
                    self.lapses = None;
                }
                Err(error)
            }
        }
    }
}

/// Folds the journal: its state, its last entry, and the last entry that its checkpoint covers.
async fn fold<S: State>(journal: &Journal) -> Result<(S, u64, u64)> {
    let (mut state, mut folded) = (S::default(), 0);
    if let Some(checkpoint) = journal.engine().latest_checkpoint(S::ID).await? {
        folded = checkpoint.seq;
        state = S::restore(decode::<S, _>(&checkpoint.state, folded)?);
    }
    let last = read_after(journal, &mut state, folded).await?;
    Ok((state, last, folded))
}

/// Applies the entries after `last`, all or none, and returns the number of the last entry. A caller that
/// gives up meanwhile, such as a request whose client leaves, must not have some of them applied twice.
async fn read_after<S: State>(journal: &Journal, state: &mut S, mut last: u64) -> Result<u64> {
    let mut events = Vec::new();
    loop {
        let page = journal.engine().read(S::ID, last + 1, PAGE).await?;
        let Some(newest) = page.last() else { break };
        last = newest.seq;
        events.extend(page);
    }
    let entries = events.iter();
    let entries = entries.map(|event| decode::<S, S::Entry>(&event.payload, event.seq));
    for entry in entries.collect::<Result<Vec<_>>>()? {
        state.apply(entry);
    }
    Ok(last)
}

fn decode<S: State, T: Layout>(payload: &[u8], seq: u64) -> Result<T> {
    let of = Record::Event {
        session: S::ID,
        seq,
    };
    record::decode_own(payload).map_err(|fault| Error::unreadable(of, fault))
}
