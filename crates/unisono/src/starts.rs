//! The recorded starts of automatic turns, in memory and in the store.

use std::sync::Arc;

use tokio::sync::{Mutex, Notify};
use unisono_store::Error as StoreError;
use unisono_store::starts::{Entry, Source, Sources, StartFact, Starts};

use crate::Local;
use crate::error::Error;

/// Maximum attempts to record an entry while other processes write.
const TRIES: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct StartRecords {
    /// None until they are first read.
    starts: Mutex<Option<Starts>>,
    /// Held while the session of a label is found or created.
    pub(crate) by_label: Mutex<()>,
    /// Notified when a schedule is paused or resumed, or another process recorded something.
    pub(crate) changed: Notify,
}

impl Local {
    /// Decides by the recorded state of a source and records the decision. If another process
    /// recorded something meanwhile, it decides again.
    pub(crate) async fn record<T>(
        &self,
        source: &Arc<str>,
        decide: impl Fn(&Source) -> (T, Option<StartFact>),
    ) -> Result<T, Error> {
        let mut held = self.shared.starts.starts.lock().await;
        let starts = match &mut *held {
            Some(starts) => starts,
            none => none.insert(Starts::open(self.journal()).await?),
        };
        let mut tried = 0;
        loop {
            starts.claim().await?;
            let (decided, fact) = match starts.source(source) {
                Some(known) => decide(known),
                None => decide(&Source::default()),
            };
            let Some(fact) = fact else { return Ok(decided) };
            let entry = Entry {
                source: source.clone(),
                at: unisono_runtime::clock::store_now(self.journal()),
                fact,
            };
            tried += 1;
            match starts.append(entry).await {
                Ok(()) => return Ok(decided),
                Err(StoreError::Fenced { .. } | StoreError::Conflict { .. }) if tried < TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether the entries up to this number were read or written here, and none of them may be lost since.
    pub(crate) async fn has_read_starts(&self, last: u64) -> bool {
        let held = self.shared.starts.starts.lock().await;
        held.as_ref().is_some_and(|starts| starts.has_read(last))
    }

    /// The recorded state of all sources, for reading only.
    pub(crate) async fn known_starts(&self) -> Result<Sources, Error> {
        let held = self.shared.starts.starts.lock().await;
        match &*held {
            Some(starts) => Ok(starts.sources().clone()),
            None => Ok(Starts::read(self.journal()).await?),
        }
    }
}
