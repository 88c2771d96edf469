//! Reloading agent definitions while the daemon works.
//!
//! The new definitions are checked as at a start and used completely or not at all. They apply to
//! turns that begin later: an open turn has its definitions in its journal.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{MutexGuard, watch};
use unisono_context::AgentId;
use unisono_runtime::Handle;
use unisono_session::State;

use super::Local;
use super::settings::off_thread;
use crate::error::Error;
use unisono_config::agents::{Change, Difference, FileStates};
use unisono_config::diagnostic::Diagnostics;
use unisono_config::settings;
use unisono_config::setup::Setup;

/// The outcome of a reload: the changes and warnings, or the errors that prevented it.
pub type Reload = Result<(Difference, Diagnostics), Diagnostics>;

impl Local {
    /// The current configuration and agents.
    pub fn setup(&self) -> Arc<Setup> {
        self.shared.setup.now()
    }

    /// Reads the definitions of all agents again. If one is wrong, nothing changes; this is logged,
    /// and reported to followers.
    ///
    /// # Errors
    /// What is wrong, where, and how to correct it.
    pub async fn reload_agents(&self) -> Reload {
        let _one_at_a_time = self.shared.reloading.lock().await;
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
            tracing::error!("the new agent definitions are invalid; the old ones stay in use");
        }
        let news = outcome
            .as_ref()
            .map_or(true, |(found, _)| !found.is_empty());
        if news {
            self.shared
                .reloads
                .send_replace(Some(Arc::new(outcome.clone())));
        }
        outcome
    }

    /// The holder of this guard may replace the file of an agent.
    pub(crate) async fn editing(&self) -> MutexGuard<'_, ()> {
        self.shared.editing.lock().await
    }

    /// Logs the agents of open turns whose definitions have changed.
    pub(super) async fn note_changed_agents(&self, handle: &Handle) -> Result<(), Error> {
        let own = |state: &State| {
            let is_at_work = state.open_turns().next().is_some();
            is_at_work.then(|| settings::session_overrides(state))
        };
        let Some(own) = handle.inspect(own).await? else {
            return Ok(());
        };
        // Errors in its settings are reported when they are used.
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
        let known = |warning| before.warnings.iter().any(|known| known == warning);
        for warning in warnings.iter().filter(|warning| !known(*warning)) {
            tracing::warn!("{warning}");
        }
        if !difference.is_empty() {
            tracing::info!("agents: {difference}; open turns keep those that they began with");
        }
        self.shared.setup.set(setup);
        (difference, warnings)
    }

    /// The outcomes of later reloads.
    pub fn reloads(&self) -> watch::Receiver<Option<Arc<Reload>>> {
        self.shared.reloads.subscribe()
    }

    /// Checks the files of agents periodically, and reloads them when they have changed and been
    /// stable since the last check. Never returns.
    pub async fn follow_agents(&self, every: Duration) {
        // Starts without a known state: changes since the start are noticed as well.
        let mut read = FileStates::default();
        let mut last = FileStates::default();
        let mut were_refused = false;
        loop {
            tokio::time::sleep(every).await;
            let setup = self.setup();
            let look = move || FileStates::now(&setup.loaded, &setup.roster, were_refused);
            let Ok(now) = tokio::task::spawn_blocking(look).await else {
                continue;
            };
            // A file that is being written is not read yet.
            if now != read && now == last {
                read = now.clone();
                // The outcome is reported by the call itself.
                were_refused = self.reload_agents().await.is_err();
            }
            last = now;
        }
    }
}
