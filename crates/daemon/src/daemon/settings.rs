//! Settings that are changed while the daemon works: checked as at a start, kept beside the journal,
//! taken as a whole or not at all. They count for turns that begin after it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use super::Daemon;
use crate::config::{STORED, Unchangeable, changed};
use crate::diagnostic::Diagnostics;
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
        let work = move || {
            let file = before.loaded.config.store.path.join(STORED);
            let text = match std::fs::read_to_string(&file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
                read => read?,
            };
            let text = changed(&text, &changes)?;
            let mut sources = before.loaded.sources().clone();
            sources.stored = Some(text.clone());
            let setup = Setup::load(sources, kinds.names()).map_err(NotChanged::Wrong)?;
            keep(&file, &text)?;
            Ok::<_, NotChanged>(setup)
        };
        let setup = match tokio::task::spawn_blocking(work).await {
            Ok(done) => done?,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        let mut held = self.setup.write().unwrap_or_else(PoisonError::into_inner);
        *held = Arc::new(setup);
        Ok(())
    }
}

/// Writes a file as a whole: it is the old one or the new one, also after a crash.
fn keep(file: &Path, text: &str) -> io::Result<()> {
    let new = file.with_extension("toml.new");
    std::fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
    std::fs::write(&new, text)?;
    std::fs::File::open(&new)?.sync_all()?;
    std::fs::rename(&new, file)?;
    // The rename is on disk once its directory is.
    match file.parent() {
        Some(directory) => std::fs::File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}
