//! Settings that are changed while the daemon works: checked as at a start, kept beside the journal,
//! taken as a whole or not at all. They count for turns that begin after it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError};

use super::{Daemon, Error};
use unisono_runtime::Kinds;

use crate::ask::Ask;
use crate::config::{STORED, Unchangeable, changed};
use crate::diagnostic::Diagnostics;
use crate::replace::replace;
use crate::setup::Setup;

/// Why settings stay as they were.
#[derive(Debug, thiserror::Error)]
pub enum NotChanged {
    /// They cannot be changed while the daemon runs.
    #[error(transparent)]
    Key(#[from] Unchangeable),
    /// With them, something is wrong.
    #[error("{0}")]
    Wrong(Diagnostics),
    /// They cannot be kept.
    #[error("the settings cannot be kept: {0}")]
    Store(#[from] io::Error),
}

impl Daemon {
    /// Configuration and agents as they count for what is asked: as they are, or with its own
    /// settings above all others. Files are as they were read last.
    ///
    /// # Errors
    /// With its settings, something is wrong.
    pub async fn setup_for(&self, ask: &Ask) -> Result<Arc<Setup>, Error> {
        let setup = self.setup();
        if ask.settings().is_empty() {
            return Ok(setup);
        }
        let (own, kinds) = (ask.settings().to_vec(), self.kinds.clone());
        let making = tokio::task::spawn_blocking(move || setup.with(&own, kinds.names()));
        match making.await {
            Ok(made) => Ok(Arc::new(made?)),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    /// Sets keys, dotted, or leaves them to the settings files where there is no value. Kept when it
    /// returns.
    ///
    /// # Errors
    /// A key cannot be changed, a value is wrong, or the file cannot be written; then nothing is
    /// changed.
    pub async fn change_settings(
        &self,
        changes: BTreeMap<String, Option<toml::Value>>,
    ) -> Result<(), NotChanged> {
        let _one_at_a_time = self.reloading.lock().await;
        let (before, kinds) = (self.setup(), self.kinds.clone());
        let work = move || change(&before, &kinds, &changes);
        let setup = match tokio::task::spawn_blocking(work).await {
            Ok(done) => done?,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        let mut held = self.setup.write().unwrap_or_else(PoisonError::into_inner);
        *held = Arc::new(setup);
        Ok(())
    }
}

/// Sets keys, dotted, of a store that nobody works on, or leaves them to the settings files where
/// there is no value. Kept when it returns; gives configuration and agents with them.
///
/// # Errors
/// As of [`Daemon::change_settings`].
pub fn change(
    before: &Setup,
    kinds: &Kinds,
    changes: &BTreeMap<String, Option<toml::Value>>,
) -> Result<Setup, NotChanged> {
    let file = before.loaded.config.store.path.join(STORED);
    let text = match std::fs::read_to_string(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let text = changed(&text, changes)?;
    let mut sources = before.loaded.sources().clone();
    sources.stored = Some(text.clone());
    let setup = Setup::load(sources, kinds.names()).map_err(NotChanged::Wrong)?;
    replace(&file, &text)?;
    Ok(setup)
}
