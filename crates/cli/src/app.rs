//! The environment of a command: settings, the store, a daemon.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use unisono::Local;
use unisono::local::{self, OpenedStore};
use unisono::models;
use unisono::telemetry;
use unisono_api::store::LostEvents;
use unisono_client::Client;
use unisono_config::diagnostic::Origin;
use unisono_config::settings::{
    MODEL_OVERRIDE, Override, Program, SessionOverrides, Sources, Store,
};
use unisono_config::setup::Setup;
use unisono_model::calibration::Calibrations;
use unisono_runtime::Extensions;
use unisono_server::http::DaemonInfo;
use unisono_store::{Checkup, Error, Health, Salvage};

use crate::caller::Verb;
use crate::options::Global;
use crate::output::Out;
use crate::place::Place;
use crate::problem::{Problem, Result};
use crate::show;

pub(crate) fn client(running: &DaemonInfo) -> Result<Client> {
    let (url, file) = (&running.url, running.token_file.display());
    let token = std::fs::read_to_string(&running.token_file).map_err(|error| {
        let problem = format!(
            "the daemon at {url} has the store open, and its token cannot be read: {file}: {error}"
        );
        Problem::failed(problem)
            .hint("run this as the user who started it, or use another store (--store DIR)")
    })?;
    Ok(Client::new(url.as_str(), token)?)
}

/// One run of the program.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) out: Out,
    pub(crate) extensions: Extensions,
    global: Global,
    verb: Verb,
    /// Whether the store was already announced.
    said_store: AtomicBool,
    /// Why this process cannot ask the model of a flag: only a daemon may know that model.
    unknown_model: OnceLock<Problem>,
}

impl App {
    pub(crate) fn new(global: Global, verb: Verb, extensions: Extensions) -> App {
        App {
            out: Out::new(&global),
            extensions,
            global,
            verb,
            said_store: AtomicBool::new(false),
            unknown_model: OnceLock::new(),
        }
    }

    pub(crate) fn sources(&self, flags: Vec<Override>) -> Result<Sources> {
        let directory = std::env::current_dir().map_err(|error| {
            Problem::failed(format!("the working directory cannot be found: {error}"))
        })?;
        let mut sources = Sources::of_process(directory);
        sources.program = Program::from(&self.extensions);
        sources.file.clone_from(&self.global.config);
        sources.overrides = self.global.overrides()?;
        sources.overrides.extend(flags);
        Ok(sources)
    }

    /// Reads configuration and agents, reports warnings, and sets up the log.
    pub(crate) fn setup(&self, flags: Vec<Override>) -> Result<Setup> {
        let setup = self.load(flags)?;
        for warning in setup.warnings.iter().filter(|warning| !warning.of_model) {
            let help = warning.help.as_ref().map(|help| format!("; {help}"));
            let help = help.unwrap_or_default();
            self.out
                .warn(format_args!("{}: {}{help}", warning.place, warning.problem));
        }
        let variable = std::env::var(telemetry::VARIABLE).ok();
        let colours = self.out.paint_messages.0;
        telemetry::init(&setup.loaded.config.log, variable.as_deref(), colours)
            .map_err(Problem::usage)?;
        Ok(setup)
    }

    /// Reads configuration and agents. If a daemon has the store, it knows the model of a flag.
    fn load(&self, flags: Vec<Override>) -> Result<Setup> {
        let mut sources = self.sources(flags)?;
        let found = match Setup::load(sources.clone()) {
            Ok(setup) => return Ok(setup),
            Err(found) => found,
        };
        let all = sources.overrides.clone();
        // A name without a provider is wrong everywhere.
        let is_model = |flag: &Override| flag.key == MODEL_OVERRIDE && flag.value.contains('/');
        sources.overrides.retain(|flag| !is_model(flag));
        if sources.overrides.len() == all.len() {
            return Err(found.into());
        }
        match Setup::load(sources) {
            Ok(setup) if self.has_daemon(&setup) => {
                self.unknown_model.get_or_init(|| found.into());
                Ok(setup.with_request_overrides(all))
            }
            _ => Err(found.into()),
        }
    }

    /// Configuration and agents for a session with these settings.
    pub(crate) fn setup_with(&self, setup: &Setup, own: &SessionOverrides) -> Result<Setup> {
        if own.is_empty() {
            return Ok(setup.clone());
        }
        Ok(setup.with(own, &[])?)
    }

    /// As above, but ignores invalid session settings, for commands that only read.
    pub(crate) fn setup_beside(&self, setup: &Setup, own: &SessionOverrides) -> Setup {
        let with = self.setup_with(setup, own);
        with.unwrap_or_else(|_| setup.clone())
    }

    /// Announces the store once, unless it is the default one, or a program reads the output.
    fn announce_store(&self, setup: &Setup) {
        if self.out.json {
            return;
        }
        let store = &setup.loaded.config.store;
        let key = if store.url.is_some() { "url" } else { "path" };
        let place = setup.loaded.place(&["store", key]);
        if *place.origin == Origin::Defaults || self.said_store.swap(true, Ordering::Relaxed) {
            return;
        }
        let said = format!("store      {} ({})", store_name(store), place.origin);
        self.out.message(self.out.paint_messages.dim(said));
    }

    /// Opens the store for reading. A missing store counts as empty and is not created; one without
    /// write access is opened read-only.
    pub(crate) async fn store_to_read(&self, setup: &Setup) -> Result<Place> {
        if !self.has_store(setup)? {
            return Ok(Place::Process(OpenedStore::nothing()));
        }
        let path = &setup.loaded.config.store.path;
        let error = match self.open_or_find(setup).await? {
            Ok(found) => return Ok(found),
            Err(error) if may_be_read(setup, &error) => error,
            Err(error) => return Err(error.into()),
        };
        let reason = error.to_string();
        // If reading fails too, the first error is reported, unless another process has the store.
        let opened = local::open_read_only(path, reason).await;
        let opened = match opened {
            Ok(opened) => opened,
            Err(held @ Error::Held { .. }) => {
                return match self.holder(setup, &held) {
                    Some(running) => Ok(Place::Daemon(client(&running)?)),
                    None => Err(held.into()),
                };
            }
            Err(_) => return Err(error.into()),
        };
        if let Health::ReadOnly { reason } = opened.journal.health() {
            self.out
                .warn(format_args!("the store is open for reading only: {reason}"));
        }
        Ok(Place::Process(opened))
    }

    /// Opens the store for work, also if it is read-only for now.
    pub(crate) async fn store_to_serve(&self, setup: &Setup) -> Result<Place> {
        let path = &setup.loaded.config.store.path;
        // A daemon records the requests that it answers.
        let error = match self.find_store(setup).await? {
            Ok(found) => return Ok(found),
            Err(error) if may_be_read(setup, &error) && unisono_store::is_store(path)? => error,
            Err(error) => return Err(error.into()),
        };
        let first = error.to_string();
        match local::open_degraded(path, error).await {
            Ok(opened) => Ok(Place::Process(opened)),
            Err(held @ Error::Held { .. }) => Err(held.into()),
            // If reading fails too, the first error is reported.
            Err(_) => Err(Problem::failed(first)),
        }
    }

    /// Opens the store for a change of something in it. A missing store counts as empty and is not
    /// created; a store that this call names must exist.
    pub(crate) async fn store_if_exists(&self, setup: &Setup) -> Result<Place> {
        if self.has_store(setup)? {
            return self.store_or_daemon(setup).await;
        }
        Ok(Place::Process(OpenedStore::nothing()))
    }

    /// Whether the store exists. A missing store is an error if a flag names it.
    pub(crate) fn has_store(&self, setup: &Setup) -> Result<bool> {
        let store = &setup.loaded.config.store;
        let path = &store.path;
        let found = store.url.is_some() || unisono_store::is_store(path)?;
        if !found && self.global.names_store() {
            return Err(no_store(path));
        }
        self.announce_store(setup);
        Ok(found)
    }

    /// The store's directory, which must exist.
    pub(crate) fn store_path<'s>(&self, setup: &'s Setup) -> Result<&'s Path> {
        let path = &setup.loaded.config.store.path;
        match unisono_store::is_store(path)? {
            true => Ok(path),
            false => Err(no_store(path)),
        }
    }

    /// Checks the parent directory of a store that a flag names, so that a mistyped path creates no
    /// store.
    fn check_named(&self, path: &Path) -> Result<()> {
        let parent = path.parent().filter(|_| self.global.names_store());
        let Some(parent) = parent.filter(|parent| !path.exists() && !parent.exists()) else {
            return Ok(());
        };
        let problem = format!(
            "cannot create a store at {}: directory {} does not exist",
            path.display(),
            parent.display()
        );
        Err(Problem::usage(problem).hint("create that directory first, or give another path"))
    }

    /// Opens an existing store and reports repairs.
    pub(crate) async fn store(&self, setup: &Setup) -> Result<OpenedStore> {
        self.announce_store(setup);
        let opened = local::open_configured(&setup.loaded.config).await?;
        self.report_opening(&opened);
        Ok(opened)
    }

    pub(crate) fn report_opening(&self, opened: &OpenedStore) {
        if opened.narrowed > 0 {
            self.report_narrowed(opened.narrowed);
        }
        if let Some(salvage) = &opened.salvage {
            self.report_salvage(salvage);
        }
    }

    /// Reports that other users could read the store until now.
    pub(crate) fn report_narrowed(&self, narrowed: u64) {
        let files = show::many(narrowed, "path");
        self.out.warn(format_args!(
            "other users of this machine had rights to {files} of the store; it is its owner's alone now"
        ));
    }

    /// Whether a daemon reports that it has the store open.
    pub(crate) fn has_daemon(&self, setup: &Setup) -> bool {
        DaemonInfo::find(&setup.loaded.config.store.path).is_some()
    }

    /// Opens the store, or finds the daemon that has it open.
    pub(crate) async fn store_or_daemon(&self, setup: &Setup) -> Result<Place> {
        Ok(self.open_or_find(setup).await??)
    }

    /// As [`Self::store_or_daemon`]; or why the store cannot be opened.
    async fn open_or_find(&self, setup: &Setup) -> Result<Result<Place, Error>> {
        let found = self.find_store(setup).await?;
        Ok(found.map(|place| match place {
            Place::Process(opened) => Place::Process(self.verb.with_audit(opened, setup)),
            Place::Daemon(client) => Place::Daemon(client),
        }))
    }

    /// As `find_store`, without audit entries for the changes of this call.
    async fn find_store(&self, setup: &Setup) -> Result<Result<Place, Error>> {
        let store = &setup.loaded.config.store;
        self.check_named(&store.path)?;
        self.announce_store(setup);
        let held = match local::open_configured(&setup.loaded.config).await {
            Ok(opened) => {
                // The daemon has ended, perhaps without removing its file.
                if let Some(problem) = self.unknown_model.get() {
                    return Err(problem.clone());
                }
                self.report_opening(&opened);
                return Ok(Ok(Place::Process(opened)));
            }
            Err(error) => error,
        };
        Ok(match self.holder(setup, &held) {
            Some(running) => Ok(Place::Daemon(client(&running)?)),
            None => Err(held),
        })
    }

    /// After this call has checked the store: repairs the branches of its sessions if it repaired the
    /// store, and records in the audit log what it changed. A requested repair is a change by the command,
    /// any other by the opening.
    pub(crate) async fn record_checkup(&self, setup: &Setup, checkup: &Checkup, requested: bool) {
        let config = &setup.loaded.config;
        let mut opened = match local::open_configured(config).await {
            Ok(opened) => opened,
            Err(error) => return self.out.warn(error),
        };
        opened.narrowed = checkup.narrowed;
        opened.salvage = None;
        if let Some(salvage) = &checkup.salvage {
            local::repair_branches(&opened.journal, salvage).await;
            if requested {
                let about = ("quarantine", salvage.quarantine_name());
                self.record_change(&opened, setup, about).await;
            } else {
                opened.salvage = Some(salvage.clone());
            }
        }
        opened.record_repairs(&config.audit).await;
        if let Err(error) = opened.journal.close().await {
            self.out.warn(error);
        }
    }

    /// Records in the audit log that this call has changed the store as a whole, with the kind and the
    /// name of what it concerns.
    pub(crate) async fn record_change(
        &self,
        opened: &OpenedStore,
        setup: &Setup,
        about: (&str, String),
    ) {
        self.verb.record(opened, setup, Some(about)).await;
    }

    /// Records in the audit log that this call has changed the store as a whole. The change is made: if
    /// the log cannot be written, there is a warning only.
    pub(crate) async fn record_maintenance(&self, setup: &Setup) {
        let opened = match local::open_configured(&setup.loaded.config).await {
            Ok(opened) => opened,
            Err(error) => return self.out.warn(error),
        };
        self.verb.record(&opened, setup, None).await;
        if let Err(error) = opened.journal.close().await {
            self.out.warn(error);
        }
    }

    /// The daemon that has the store open, if that is the reason for the error.
    pub(crate) fn holder(&self, setup: &Setup, error: &Error) -> Option<DaemonInfo> {
        let Error::Held { pid, .. } = error else {
            return None;
        };
        let running = DaemonInfo::find(&setup.loaded.config.store.path)?;
        (Some(running.pid) == *pid).then_some(running)
    }

    pub(crate) async fn daemon(&self, opened: OpenedStore, setup: Setup) -> Result<Local> {
        Ok(Local::start_on(opened, setup, self.extensions.clone()).await?)
    }

    /// What a repair saved and lost.
    pub(crate) fn report_salvage(&self, salvage: &Salvage) {
        self.out
            .warn(format_args!("the store was damaged: {}", salvage.reason));
        self.out.message(format_args!(
            "  saved {} with {}; the damaged files are kept in {}",
            show::many(salvage.sessions, "session"),
            show::many(salvage.events, "event"),
            salvage.quarantine.display()
        ));
        for lost in &salvage.lost {
            self.out.message(format_args!("  lost: {lost}"));
        }
    }

    pub(crate) fn report_lost(&self, session: &str, lost: &LostEvents) {
        let LostEvents {
            first,
            last,
            quarantine,
            ..
        } = lost;
        self.out.warn(format_args!(
            "session {session} has lost its events {first} to {last}: the store was damaged; the damaged \
             files are in quarantine/{quarantine}, `unisono doctor --acknowledge` takes note of it"
        ));
    }

    pub(crate) fn wait_for<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build();
        let runtime =
            runtime.map_err(|error| Problem::failed(format!("cannot start threads: {error}")))?;
        survive_size_limit(&runtime);
        // Boxed: the runtime's code is compiled once, and not for each verb.
        let work: Pin<Box<dyn Future<Output = Result<T>> + '_>> = Box::pin(work);
        let done = runtime.block_on(work);
        // Blocked threads are not joined, because all data is on disk.
        runtime.shutdown_timeout(std::time::Duration::from_millis(200));
        done
    }
}

/// Has a write beyond the size limit of files fail as on a full disk. Without a handler, its signal ends
/// the program.
fn survive_size_limit(runtime: &Runtime) {
    let _within = runtime.enter();
    if let Err(error) = signal(SignalKind::from_raw(Signal::XFSZ.as_raw())) {
        tracing::warn!(%error, "a write beyond the size limit of files ends the program");
    }
}

/// Whether the store may be readable although it cannot be opened for writing. A directory from before the
/// sessions moved to a database is not the store.
fn may_be_read(setup: &Setup, error: &Error) -> bool {
    setup.loaded.config.store.url.is_none() && error.is_unwritable()
}

/// The calibrations of models in the configured store.
pub(crate) fn learnt_here(setup: &Setup) -> Calibrations {
    models::read_calibrations(&setup.loaded.config.store.path)
}

/// The name of a store: its directory, or its database without user and password.
pub(crate) fn store_name(store: &Store) -> String {
    match &store.url {
        Some(url) => unisono_store::postgres::place(url),
        None => store.path.display().to_string(),
    }
}

fn no_store(path: &Path) -> Problem {
    let problem = Problem::usage(format!("the store {} does not exist", path.display()));
    problem.hint("`unisono run FILE` or `unisono import FILE` makes one")
}
