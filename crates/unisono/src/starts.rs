//! What is known of turns that begin by themselves, and what is written down of them.

use std::sync::Arc;

use tokio::sync::{Mutex, Notify};
use unisono_store::Error as StoreError;
use unisono_store::starts::{Entry, Source, Sources, StartFact, Starts};

use crate::Local;
use crate::error::Error;

/// How often an entry is decided again because another process wrote one meanwhile.
const TRIES: usize = 64;

/// What is known of turns that begin by themselves.
#[derive(Debug, Default)]
pub(crate) struct KnownStarts {
    /// None before it is asked for.
    starts: Mutex<Option<Starts>>,
    /// Told when a schedule is paused or goes on.
    pub(crate) changed: Notify,
}

impl Local {
    /// Decides by what is known of a source, and writes down what is decided. Where another process
    /// wrote meanwhile, it is decided again.
    pub(crate) async fn record<T>(
        &self,
        source: &Arc<str>,
        decide: impl Fn(&Source) -> (T, Option<StartFact>),
    ) -> Result<T, Error> {
        let mut held = self.starts.starts.lock().await;
        let starts = match &mut *held {
            Some(starts) => starts,
            none => none.insert(Starts::open(self.journal()).await?),
        };
        let mut tried = 0;
        loop {
            starts.take().await?;
            let (decided, fact) = match starts.source(source) {
                Some(known) => decide(known),
                None => decide(&Source::default()),
            };
            let Some(fact) = fact else { return Ok(decided) };
            let entry = Entry {
                source: source.clone(),
                at: unisono_runtime::clock::now(),
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

    /// What is known of all sources, without a claim to write.
    pub(crate) async fn known_starts(&self) -> Result<Sources, Error> {
        let held = self.starts.starts.lock().await;
        match &*held {
            Some(starts) => Ok(starts.sources().clone()),
            None => Ok(Starts::read(self.journal()).await?),
        }
    }
}
