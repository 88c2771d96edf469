//! Agents that are defined anew while the daemon works.
//!
//! What is read again is checked as at a start and taken as a whole or not at all. It counts for
//! turns that begin after it: an open turn has its definitions in its journal.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use unisono_context::AgentId;
use unisono_runtime::Handle;
use unisono_session::State;

use super::Local;
use super::settings::off_thread;
use crate::error::Error;
use unisono_config::agents::{Change, Difference, Seen};
use unisono_config::diagnostic::Diagnostics;
use unisono_config::settings;
use unisono_config::setup::Setup;

/// What came of reading the agents again: how they differ and what is odd about them, or why
/// those of before stay.
pub type Reload = Result<(Difference, Diagnostics), Diagnostics>;

impl Local {
    /// Configuration and agents, as they are now.
    pub fn setup(&self) -> Arc<Setup> {
        self.setup.now()
    }

    /// Reads the definitions of all agents again. If one is wrong, all stay as they were; that is
    /// logged, and told to those who follow.
    ///
    /// # Errors
    /// What is wrong, where, and how to put it right.
    pub async fn reload_agents(&self) -> Reload {
        let _one_at_a_time = self.reloading.lock().await;
        let before = self.setup();
        let read = off_thread({
            let before = before.clone();
            move || before.with_agents_of_now()
        })
        .await;
        let outcome = read.map(|setup| self.take(&before, setup));
        if let Err(found) = &outcome {
            for problem in found.iter() {
                tracing::error!("{problem}");
            }
            tracing::error!("the agents were read again and not taken: those of before stay");
        }
        let news = outcome
            .as_ref()
            .map_or(true, |(found, _)| !found.is_empty());
        if news {
            self.reloads.send_replace(Some(Arc::new(outcome.clone())));
        }
        outcome
    }

    /// Logs which agents of open turns are defined otherwise by now.
    pub(super) async fn note_changed_agents(&self, handle: &Handle) -> Result<(), Error> {
        let own = |state: &State| {
            let is_at_work = state.open_turns().next().is_some();
            is_at_work.then(|| settings::own(state))
        };
        let Some(own) = handle.inspect(own).await? else {
            return Ok(());
        };
        // What is wrong with its settings by now is said where they are to count.
        let setup = self.setup_with(own, &[]).await;
        let setup = setup.unwrap_or_else(|_| self.setup());
        let look = move |state: &State| -> Vec<(AgentId, Change)> {
            let turns = state.open_turns();
            turns.flat_map(|turn| setup.roster.changed(turn)).collect()
        };
        for (agent, change) in handle.inspect(look).await? {
            let session = handle.id();
            tracing::info!(%session, %agent, "an agent of an open turn {change} since it began");
        }
        Ok(())
    }

    fn take(&self, before: &Setup, setup: Setup) -> (Difference, Diagnostics) {
        let difference = setup.roster.since(&before.roster);
        let warnings = setup.warnings.clone();
        let known = |warning| before.warnings.iter().any(|told| told == warning);
        for warning in warnings.iter().filter(|warning| !known(*warning)) {
            tracing::warn!("{warning}");
        }
        if !difference.is_empty() {
            tracing::info!("agents: {difference}; open turns keep those that they began with");
        }
        self.setup.set(setup);
        (difference, warnings)
    }

    /// What comes of reading agents again, from now on.
    pub fn reloads(&self) -> watch::Receiver<Option<Arc<Reload>>> {
        self.reloads.subscribe()
    }

    /// Looks at the files of agents every so often, and reads them again when they were written
    /// and have been left alone since. Never done.
    pub async fn follow_agents(&self, every: Duration) {
        // As if never seen: what was written since the start is noticed as well.
        let mut read = Seen::default();
        let mut last = Seen::default();
        loop {
            tokio::time::sleep(every).await;
            let setup = self.setup();
            let look = tokio::task::spawn_blocking(move || Seen::now(&setup.loaded));
            let Ok(now) = look.await else { continue };
            // One that is being written is waited for.
            if now != read && now == last {
                read = now.clone();
                // Told by itself.
                let _ = self.reload_agents().await;
            }
            last = now;
        }
    }
}
