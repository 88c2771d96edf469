//! Settings that are changed while the daemon works: checked as at a start, taken as a whole or not
//! at all. They count for turns that begin after it. Those of all sessions are kept beside the
//! journal, those of one with the session.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::Local;

use crate::ask::Ask;
use crate::error::{Error, NotChanged};
use crate::replace::replace;
use crate::view::Inspect;
use unisono_config::settings::{self, Override, Own, OwnChanges, STORED, changed, own};
use unisono_config::setup::Setup;

impl Local {
    /// Configuration and agents as they count for a session. Files are as they were read last.
    ///
    /// # Errors
    /// With its settings, something is wrong by now; or the session cannot be opened.
    pub async fn setup_of(&self, session: &impl Inspect) -> Result<Arc<Setup>, Error> {
        let own = session.inspect(own).await?;
        self.setup_with(own, &[]).await
    }

    /// The same to look on: as for all sessions where something is wrong with its settings by now.
    ///
    /// # Errors
    /// The session cannot be opened.
    pub async fn setup_to_look(&self, session: &impl Inspect) -> Result<Arc<Setup>, Error> {
        match self.setup_of(session).await {
            Err(Error::Setup(_)) => Ok(self.setup()),
            setup => setup,
        }
    }

    /// Configuration and agents as they count for what is asked of a session: with its settings,
    /// and those of what is asked above all others. Files are as they were read last.
    ///
    /// # Errors
    /// With these settings, something is wrong; or the session cannot be opened.
    pub async fn setup_for(&self, session: &impl Inspect, ask: &Ask) -> Result<Arc<Setup>, Error> {
        let own = session.inspect(own).await?;
        self.setup_with(own, ask.settings()).await
    }

    /// Configuration and agents with the settings of a session, and those above all others.
    ///
    /// # Errors
    /// With these settings, something is wrong.
    pub async fn setup_with(&self, own: Arc<Own>, above: &[Override]) -> Result<Arc<Setup>, Error> {
        let setup = self.setup();
        if own.is_empty() && above.is_empty() {
            return Ok(setup);
        }
        let above = above.to_vec();
        let making = off_thread(move || setup.with(&own, &above));
        Ok(Arc::new(making.await?))
    }

    /// Whether a session can have these settings.
    ///
    /// # Errors
    /// It cannot have one, or with them something is wrong.
    pub(super) async fn check_own(&self, own: &Own) -> Result<(), NotChanged> {
        if own.is_empty() {
            return Ok(());
        }
        let (setup, own) = (self.setup(), own.clone());
        off_thread(move || check_own(&setup, &own)).await
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
        let before = self.setup();
        let work = move || change(&before, &changes);
        let setup = off_thread(work).await?;
        self.deadline.set(super::compaction_deadline(&setup));
        self.setup.set(setup);
        Ok(())
    }
}

/// The changes of a session's settings that set these keys, dotted, or leave them to the other
/// settings where there is no value. To leave one, nothing else has to be right.
///
/// # Errors
/// A session cannot have one, or with them something is wrong.
pub fn own_changes(
    setup: &Setup,
    before: &Own,
    wanted: BTreeMap<String, Option<String>>,
) -> Result<OwnChanges, NotChanged> {
    let sets = wanted.values().any(Option::is_some);
    let changes = settings::own::changes(wanted)?;
    if sets {
        check_own(setup, &settings::own::changed(before, &changes))?;
    }
    Ok(changes)
}

fn check_own(setup: &Setup, own: &Own) -> Result<(), NotChanged> {
    settings::own::check(own)?;
    let checked = setup.with(own, &[]);
    checked.map_err(NotChanged::Wrong)?;
    Ok(())
}

/// Sets keys, dotted, of a store that nobody works on, or leaves them to the settings files where
/// there is no value. Kept when it returns; gives configuration and agents with them.
///
/// # Errors
/// As of [`Local::change_settings`].
pub fn change(
    before: &Setup,
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
    let setup = Setup::load(sources).map_err(NotChanged::Wrong)?;
    replace(&file, &text)?;
    Ok(setup)
}

/// What blocks a thread, on one that may be.
pub(crate) async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
