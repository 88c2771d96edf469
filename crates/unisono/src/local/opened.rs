//! An open store, the starting point of a daemon or a command.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt as _;
use unisono_search::Search;
use unisono_store::audit::record_opening;
use unisono_store::{DegradedDisk, Disk, Journal, Losses, Memory, ReadOnlyDisk, Salvage};

use super::{repair_branches, settings};
use crate::audit::retention;
use unisono_config::settings::{Audit, Config, SearchIndex};
use unisono_config::setup::Setup;

/// A journal on disk, and the repairs made when it was opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenedStore {
    /// The journal.
    pub journal: Journal,
    /// Its directory; none for one in memory.
    pub directory: Option<PathBuf>,
    /// The saved and lost events; none if the store was intact.
    pub salvage: Option<Salvage>,
    /// Number of its files that other users could access before.
    pub narrowed: u64,
    /// Whether it could not be opened for writing: its search index is then built in memory.
    pub degraded: bool,
    /// Unacknowledged losses of repairs; none for a store in memory or in a database.
    pub losses: Option<Arc<Losses>>,
}

impl OpenedStore {
    /// An empty journal in memory.
    pub fn nothing() -> OpenedStore {
        OpenedStore {
            journal: Journal::new(Arc::new(Memory::new())),
            directory: None,
            salvage: None,
            narrowed: 0,
            degraded: false,
            losses: None,
        }
    }

    /// Records in the audit log what the opening changed in the store.
    pub async fn record_repairs(&self, settings: &Audit) {
        if !settings.enabled {
            return;
        }
        let retention = retention(settings);
        if let Some(salvage) = &self.salvage {
            let object = [("quarantine".into(), salvage.quarantine_name().into())].into();
            record_opening(&self.journal, "repair", object, retention).await;
        }
        if self.narrowed > 0 {
            let paths = self.narrowed.to_string().into();
            let object = [("paths".into(), paths)].into();
            record_opening(&self.journal, "narrow", object, retention).await;
        }
    }

    /// The directory of its search index; none: it is built in memory on demand. After a repair it
    /// is rebuilt, because its contents may differ from the saved events.
    pub(super) fn search_index(
        &self,
        setup: &Setup,
    ) -> Result<Option<PathBuf>, unisono_search::Error> {
        let directory = self.directory.as_deref().map(unisono_search::directory);
        if let (Some(directory), Some(_)) = (&directory, &self.salvage) {
            unisono_search::remove(directory)?;
        }
        let kept = setup.loaded.config.store.search_index == SearchIndex::Disk && !self.degraded;
        Ok(directory.filter(|_| kept))
    }

    /// The search index of its sessions, without starting anything else.
    ///
    /// # Errors
    /// An index that does not match the store any more cannot be removed.
    pub fn search(&self, setup: &Setup) -> Result<Search, unisono_search::Error> {
        let journal = self.journal.clone();
        Ok(match self.search_index(setup)? {
            Some(directory) => Search::on_disk(journal, directory),
            None => Search::in_memory(journal),
        })
    }
}

/// Opens the store in a directory, or creates one, off the async threads.
///
/// # Errors
/// Another process has opened it, it cannot be written, or it is of a newer version.
pub fn open_store(
    path: &Path,
) -> impl Future<Output = Result<OpenedStore, unisono_store::Error>> + Send {
    async move {
        let directory = path.to_owned();
        let path = directory.clone();
        let opened = settings::off_thread(move || Disk::open(path)).await?;
        let journal = Journal::new(Arc::new(opened.disk));
        delete_unfinished_imports(&journal).await?;
        if let Some(salvage) = &opened.salvage {
            repair_branches(&journal, salvage).await;
        }
        Ok(OpenedStore {
            journal,
            losses: Some(Arc::new(Losses::open(&directory)?)),
            directory: Some(directory),
            salvage: opened.salvage,
            narrowed: opened.narrowed,
            degraded: false,
        })
    }
    // Callers' crates do not compile it again.
    .boxed()
}

/// Opens the store of the settings: a database, or the directory as [`open_store`] does. The audit
/// log gets an entry for each repair.
///
/// # Errors
/// As [`open_store`]; the database does not answer, or cannot be used.
pub fn open_configured(
    config: &Config,
) -> impl Future<Output = Result<OpenedStore, unisono_store::Error>> + Send {
    async move {
        match &config.store.url {
            None => open_directory(config).await,
            Some(url) => open_database(url, config).await,
        }
    }
    // Callers' crates do not compile it again.
    .boxed()
}

/// Opens the store in the directory of the settings, also if they name a database.
pub(super) async fn open_directory(config: &Config) -> Result<OpenedStore, unisono_store::Error> {
    let opened = open_store(&config.store.path).await?;
    opened.record_repairs(&config.audit).await;
    Ok(opened)
}

#[cfg(feature = "postgres")]
async fn open_database(url: &str, config: &Config) -> Result<OpenedStore, unisono_store::Error> {
    use std::time::Duration;

    use unisono_store::postgres::{Options, Postgres};

    let store = &config.store;
    let options = Options::new(url, store.password_file.as_deref())?;
    let takeover_after = Duration::from_millis(config.cluster.takeover_after.ms());
    let options = options.directory(&store.path).member(takeover_after);
    let journal = Journal::new(Arc::new(Postgres::open(options).await?));
    delete_unfinished_imports(&journal).await?;
    Ok(OpenedStore {
        journal,
        directory: Some(store.path.clone()),
        ..OpenedStore::nothing()
    })
}

async fn delete_unfinished_imports(journal: &Journal) -> Result<(), unisono_store::Error> {
    let unfinished = journal.sweep().await?;
    if unfinished > 0 {
        tracing::warn!(
            sessions = unfinished,
            "an import was cut short: nothing of it is kept"
        );
    }
    Ok(())
}

/// Opens the database of the settings for reading, beside a daemon that uses it with the same
/// directory.
///
/// # Errors
/// The settings name no database; it does not answer, or cannot be used.
pub fn open_beside(
    config: &Config,
) -> impl Future<Output = Result<OpenedStore, unisono_store::Error>> + Send {
    async move { read_database(config).await }.boxed()
}

#[cfg(feature = "postgres")]
async fn read_database(config: &Config) -> Result<OpenedStore, unisono_store::Error> {
    use unisono_store::postgres::{Options, Postgres};

    let url = config.store.url.as_deref().unwrap_or_default();
    let options = Options::new(url, config.store.password_file.as_deref())?;
    Ok(OpenedStore {
        journal: Journal::new(Arc::new(Postgres::open(options).await?)),
        ..OpenedStore::nothing()
    })
}

#[cfg(not(feature = "postgres"))]
async fn read_database(config: &Config) -> Result<OpenedStore, unisono_store::Error> {
    open_database("", config).await
}

#[cfg(not(feature = "postgres"))]
async fn open_database(_: &str, _: &Config) -> Result<OpenedStore, unisono_store::Error> {
    Err(unisono_store::Error::Database {
        reason: "this program was built without the feature `postgres`".to_owned(),
    })
}

/// Opens a store for reading that cannot be written at the moment because of `error`, and opens it
/// for writing as soon as possible. Logs this.
///
/// # Errors
/// Another process has opened it, it cannot be read, or it is of a newer version.
pub fn open_degraded(
    path: &Path,
    error: unisono_store::Error,
) -> impl Future<Output = Result<OpenedStore, unisono_store::Error>> + Send {
    async move {
        let directory = path.to_owned();
        tracing::error!(%error, "the store takes no writes for now, it is only read");
        let path = directory.clone();
        let disk = settings::off_thread(move || DegradedDisk::open(path, &error)).await?;
        let journal = Journal::new(Arc::new(disk));
        // An aborted import is hidden; the next opening deletes it.
        journal.sweep().await?;
        Ok(OpenedStore {
            journal,
            losses: Some(Arc::new(Losses::open(&directory)?)),
            directory: Some(directory),
            degraded: true,
            ..OpenedStore::nothing()
        })
    }
    // Callers' crates do not compile it again.
    .boxed()
}

/// Opens a store for reading only, if it cannot be written. Its search index is built in memory.
///
/// # Errors
/// Another process has opened it, it cannot be read, or it is of a newer version.
pub fn open_read_only(
    path: &Path,
    reason: String,
) -> impl Future<Output = Result<OpenedStore, unisono_store::Error>> + Send {
    async move {
        let directory = path.to_owned();
        let disk = settings::off_thread(move || ReadOnlyDisk::open(directory, reason)).await?;
        let journal = Journal::new(Arc::new(disk));
        // An aborted import is hidden.
        journal.sweep().await?;
        Ok(OpenedStore {
            journal,
            losses: Some(Arc::new(Losses::open(path)?)),
            ..OpenedStore::nothing()
        })
    }
    // Callers' crates do not compile it again.
    .boxed()
}
