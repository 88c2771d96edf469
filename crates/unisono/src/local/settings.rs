//! Changing settings while the daemon works: they are checked as at a start and used completely or
//! not at all. They apply to turns that begin later. Settings of all sessions are stored beside the
//! journal, those of one session with the session.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::Local;

use crate::ask::Ask;
use crate::error::{ChangeError, Error};
use crate::labels;
use crate::view::Inspect;
use unisono_config::settings::{
    self, Override, OverrideChanges, STORED, SessionOverrides, Sources, changed,
    name_written_values, session_overrides,
};
use unisono_config::setup::Setup;
use unisono_session::State;
use unisono_store::private::write_atomically;

impl Local {
    /// Configuration and agents of a session. Files are in the state of the last read.
    ///
    /// # Errors
    /// The settings of the session are no longer valid; or the session cannot be opened.
    pub async fn setup_of(&self, session: &impl Inspect) -> Result<Arc<Setup>, Error> {
        self.setup_in(session, &[]).await
    }

    /// The same for display: without the settings of the session if they are no longer valid.
    ///
    /// # Errors
    /// The session cannot be opened.
    pub async fn setup_for_reading(&self, session: &impl Inspect) -> Result<Arc<Setup>, Error> {
        match self.setup_of(session).await {
            Err(Error::Setup(_)) => Ok(self.setup()),
            setup => setup,
        }
    }

    /// Configuration and agents for a request to a session: with the session's settings, and those
    /// of the request above all others. Files are in the state of the last read.
    ///
    /// # Errors
    /// These settings cause errors; or the session cannot be opened.
    pub async fn setup_for(&self, session: &impl Inspect, ask: &Ask) -> Result<Arc<Setup>, Error> {
        self.setup_in(session, ask.settings()).await
    }

    async fn setup_in(
        &self,
        session: &impl Inspect,
        above: &[Override],
    ) -> Result<Arc<Setup>, Error> {
        let look = |state: &State| (session_overrides(state), labels::directory(state));
        let (own, directory) = session.inspect(look).await?;
        let setup = self.setup_with(own, above).await?;
        Ok(match directory {
            None => setup,
            Some(_) => Arc::new(Setup {
                directory,
                ..Arc::unwrap_or_clone(setup)
            }),
        })
    }

    /// Configuration and agents with the settings of a session, and with settings above all others.
    ///
    /// # Errors
    /// These settings cause errors.
    pub async fn setup_with(
        &self,
        own: Arc<SessionOverrides>,
        above: &[Override],
    ) -> Result<Arc<Setup>, Error> {
        let setup = self.setup();
        if own.is_empty() && above.is_empty() {
            return Ok(setup);
        }
        let above = above.to_vec();
        let making = off_thread(move || setup.with(&own, &above));
        Ok(Arc::new(making.await?))
    }

    /// Checks whether a session can have these settings.
    ///
    /// # Errors
    /// It cannot override one, or they cause errors.
    pub(super) async fn check_own(&self, own: &SessionOverrides) -> Result<(), ChangeError> {
        if own.is_empty() {
            return Ok(());
        }
        let (setup, own) = (self.setup(), own.clone());
        off_thread(move || check_own(&setup, &own)).await
    }

    /// Whether its sessions are in memory only: the store of the settings is then another one.
    fn is_in_memory(&self) -> bool {
        self.shared.runtime.is_some() && self.shared.directory.is_none()
    }

    /// Sets dotted keys, or removes them if there is no value, so that the settings files apply.
    /// The changes are stored when it returns, unless sessions are in memory; with `dry_run` they are
    /// only checked.
    ///
    /// # Errors
    /// A key cannot be changed, a value is invalid, or the file cannot be written; then nothing
    /// changes.
    pub async fn change_settings(
        &self,
        changes: BTreeMap<String, Option<toml::Value>>,
        dry_run: bool,
    ) -> Result<(), ChangeError> {
        let _one_at_a_time = self.shared.reloading.lock().await;
        for _ in 0..CHANGED_AT_MOST {
            let version = self.take_newer().await?;
            let (before, changes) = (self.setup(), changes.clone());
            let is_in_memory = self.is_in_memory();
            let changing = off_thread(move || with_changes(&before, &changes, is_in_memory));
            let (setup, text) = changing.await?;
            if dry_run {
                return Ok(());
            }
            if self.share_settings(&text, version).await? {
                return self.use_stored(setup, text).await;
            }
            // Another program changed the settings first: its changes are kept, and these are added
            // to them.
        }
        let busy = "other daemons change settings all the time: try again";
        Err(ChangeError::Store(io::Error::other(busy)))
    }

    /// Shares this text of settings with the other programs; returns false if the shared text has
    /// another version by now.
    async fn share_settings(&self, text: &str, before: u64) -> Result<bool, ChangeError> {
        let Some(cluster) = self.cluster() else {
            return Ok(true);
        };
        let put = cluster.put_document(SHARED, text.to_owned(), before);
        Ok(put.await.map_err(unisono_runtime::Error::from)?)
    }

    /// Uses the settings that another program on the same database has changed.
    ///
    /// # Errors
    /// They are invalid with the files of this program, the database does not answer, or the file
    /// cannot be written.
    pub async fn take_shared_settings(&self) -> Result<(), ChangeError> {
        let _one_at_a_time = self.shared.reloading.lock().await;
        self.take_newer().await.map(drop)
    }

    /// Reads the shared settings. Returns their version; 0 if there are none.
    async fn take_newer(&self) -> Result<u64, ChangeError> {
        let Some(cluster) = self.cluster() else {
            return Ok(0);
        };
        let shared = cluster.document(SHARED).await;
        let Some(shared) = shared.map_err(unisono_runtime::Error::from)? else {
            return Ok(0);
        };
        let (text, before) = (shared.text, self.setup());
        let sources = before.loaded.sources();
        if sources.stored.as_ref() == Some(&text) {
            return Ok(shared.version);
        }
        let stored = Some(text.clone());
        let sources = Sources {
            stored,
            ..sources.clone()
        };
        let setup = off_thread(move || Setup::load_again(sources)).await;
        self.use_stored(setup.map_err(ChangeError::Wrong)?, text)
            .await?;
        Ok(shared.version)
    }

    async fn use_stored(&self, setup: Setup, text: String) -> Result<(), ChangeError> {
        if !self.is_in_memory() {
            let file = setup.loaded.config.store.path.join(STORED);
            off_thread(move || write_atomically(&file, &text)).await?;
        }
        self.shared
            .deadline
            .set(super::options::compaction_deadline(&setup));
        self.shared.setup.set(setup);
        Ok(())
    }
}

/// The text that programs on one database share.
const SHARED: &str = "settings";
/// Maximum attempts to change settings while other programs change them.
const CHANGED_AT_MOST: usize = 16;

/// The changes that set these dotted keys of a session, or remove them if there is no value. A
/// removal succeeds even if other settings are wrong.
///
/// # Errors
/// A session cannot override one, or they cause errors.
pub fn session_changes(
    setup: &Setup,
    before: &SessionOverrides,
    wanted: BTreeMap<String, Option<String>>,
) -> Result<OverrideChanges, ChangeError> {
    let sets = wanted.values().any(Option::is_some);
    let changes = settings::overrides::changes(wanted)?;
    if sets {
        check_own(setup, &settings::overrides::apply(before, &changes))?;
    }
    Ok(changes)
}

fn check_own(setup: &Setup, own: &SessionOverrides) -> Result<(), ChangeError> {
    settings::overrides::check(own)?;
    let checked = setup.with(own, &[]);
    checked.map_err(ChangeError::Wrong)?;
    Ok(())
}

/// The configuration and agents with changed settings, and the text to store. Changes of a program in
/// memory are in no file.
fn with_changes(
    before: &Setup,
    changes: &BTreeMap<String, Option<toml::Value>>,
    is_in_memory: bool,
) -> Result<(Setup, String), ChangeError> {
    let file = before.loaded.config.store.path.join(STORED);
    let text = match &before.loaded.sources().stored {
        Some(text) if is_in_memory => text.clone(),
        _ => match std::fs::read_to_string(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        },
    };
    let text = changed(&text, changes)?;
    let mut sources = before.loaded.sources().clone();
    sources.stored = Some(text.clone());
    // What else has changed in the files takes effect at the next start.
    let setup = Setup::load_again(sources).map_err(|found| {
        let (sources, store) = (before.loaded.sources(), &before.loaded.config.store.path);
        ChangeError::Wrong(name_written_values(&found, sources, store, changes))
    })?;
    Ok((setup, text))
}

/// Runs blocking work on a thread for it.
pub(crate) async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
