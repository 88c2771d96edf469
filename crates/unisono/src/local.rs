//! Connects a store, a runtime on it, and the agents.
//!
//! ```text
//! Local::builder()            configuration, agents, extensions of the program
//!     .start()              ─► store opened (repaired if necessary), runtime started
//! local.import(…)           ─► a session
//! local.ask(&session, …)    ─► a turn; its end, with the answer
//! local.shutdown()          ─► open turns stay open and resume at the next start
//! ```

mod branch_repair;
mod builder;
mod caller;
mod cluster;
mod model_queries;
mod new_session;
mod opened;
mod options;
mod reload;
mod resumable;
mod settings;
mod stopping;
mod turns;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt as _;
use tokio::sync::{Mutex, watch};
use unisono_context::SessionId;
use unisono_model::cache_warming::CacheWarmth;
use unisono_model::calibration::Calibrations;
use unisono_model::client::LimitShare;
use unisono_runtime::{Deadline, Extensions, Handle, Options, Runtime};
use unisono_search::Search;
use unisono_session::State;
use unisono_session::machine::Import;
use unisono_store::{Journal, Loss, Losses, Salvage, Vacuumed};
use uuid::Uuid;

use crate::audit::AuditLog;
use crate::caller::Caller;
use crate::current::Current;
use crate::decisions::RecentDecisions;
use crate::error::{Error, existing};
use crate::first_messages::FirstMessages;
use crate::history;
use crate::history::run_index::RunIndex;
use crate::history::usage::Folds;
use crate::metrics::Metrics;
use crate::models::notices::LoggedNotices;
use crate::models::{self, CalibrationFile, Servers};
use crate::server_skills::ServerSkills;
use crate::skill_tool::SkillTool;
use crate::starts::StartRecords;
use crate::tokens::TokenCache;
use crate::view::View;
use crate::waiting_sessions::WaitingSessions;
use unisono_config::setup::Setup;

pub use branch_repair::repair_branches;
pub use builder::Builder;
pub use opened::{
    OpenedStore, open_beside, open_configured, open_degraded, open_read_only, open_store,
};
pub use reload::Reload;
pub(crate) use settings::off_thread;
pub use settings::session_changes;

/// A store with a running runtime, its configuration and agents.
///
/// It implements [`Service`](unisono_api::Service), on a store of the process:
///
/// ```
/// use unisono::api::service::{Messages, Sessions};
/// use unisono::{Conversation, Local};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let local = Local::builder().in_memory().start().await?;
/// local.import(Conversation::new("Move").user("The shop moves.")).await?;
/// let page = local.sessions(&Default::default()).await?;
/// assert_eq!(page.items[0].title, "Move");
/// local.shutdown().await;
/// # Ok(()) }
/// ```
///
/// [`Local::for_caller`] makes the same for one caller, who may be limited to the sessions of an owner.
#[derive(Debug)]
pub struct Local {
    pub(crate) shared: Arc<Shared>,
    /// The journal as the caller sees it.
    journal: Journal,
    caller: Caller,
    /// The search index as the caller sees it; opened when it is used.
    own_search: OnceLock<Search>,
}

/// What all callers of a [`Local`] share.
#[derive(Debug)]
pub(crate) struct Shared {
    setup: Current,
    /// The deadline of later compactions.
    deadline: Deadline,
    extensions: Extensions,
    pub(crate) server_skills: ServerSkills,
    /// Held during a reload of agents.
    reloading: Mutex<()>,
    /// Held while the file of an agent is compared and replaced.
    editing: Mutex<()>,
    reloads: watch::Sender<Option<Arc<Reload>>>,
    journal: Journal,
    /// The runtime; none if sessions are only read.
    runtime: Option<Runtime>,
    /// The async executor of the runtime.
    executor: Option<tokio::runtime::Handle>,
    /// The search index, if sessions are only read; opened when it is used.
    search: OnceLock<Search>,
    /// The directory of the index; none: it is built in memory.
    pub(crate) search_index: Option<PathBuf>,
    /// The last inspected session with the time of its creation, if sessions are only read: another one
    /// may have its id later.
    last_view: Mutex<Option<(SessionId, u64, Arc<State>)>>,
    /// The usage of sessions, folded on demand.
    pub(crate) usage_folds: Folds,
    pub(crate) run_index: RunIndex,
    pub(crate) recent_decisions: RecentDecisions,
    pub(crate) waiting_sessions: WaitingSessions,
    /// The tokens of people and programs.
    pub(crate) tokens: TokenCache,
    pub(crate) audit: AuditLog,
    /// Turns that begin by themselves.
    pub(crate) starts: StartRecords,
    /// The sessions that messages of other programs began.
    pub(crate) first_messages: FirstMessages,
    learnt: Arc<CalibrationFile>,
    metrics: Metrics,
    /// Answers of the user's own model servers, and their warm prefixes.
    servers: Servers,
    warmth: CacheWarmth,
    /// Of the providers' limits, among the programs on one database.
    limit_share: LimitShare,
    /// The logged notices about models: each is logged once.
    logged_notices: LoggedNotices,
    /// Whether the program ends when its turns have ended.
    short_lived: AtomicBool,
    #[cfg(feature = "otel")]
    traces: Option<crate::otel::Exporter>,
    salvage: Option<Salvage>,
    directory: Option<PathBuf>,
    losses: Option<Arc<Losses>>,
}

impl Local {
    /// A builder with the defaults of the working directory.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Reads an open store and starts nothing: open turns stay as they are.
    ///
    /// # Errors
    /// The search index does not match the store and cannot be removed.
    pub fn reader(
        opened: OpenedStore,
        setup: Setup,
        extensions: Extensions,
    ) -> Result<Local, Error> {
        let search_index = opened.search_index(&setup)?;
        let mut shared = Local::with(opened, setup, extensions)?;
        shared.search_index = search_index;
        Ok(shared.into())
    }

    /// Declares that this program ends when its turns have ended: no summaries are written ahead for
    /// later turns.
    pub fn set_short_lived(&self) {
        self.shared.short_lived.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_short_lived(&self) -> bool {
        self.shared.short_lived.load(Ordering::Relaxed)
    }

    /// Without a runtime.
    fn with(opened: OpenedStore, setup: Setup, extensions: Extensions) -> Result<Shared, Error> {
        let learnt = Arc::new(CalibrationFile::open(opened.directory.as_deref()));
        let deadline = options::compaction_deadline(&setup).into();
        let setup = Current::new(setup);
        let server_skills = ServerSkills::default();
        let extensions = extensions.tool(SkillTool(setup.clone(), server_skills.clone()));
        Ok(Shared {
            setup,
            deadline,
            extensions,
            server_skills,
            reloading: Mutex::default(),
            editing: Mutex::default(),
            reloads: watch::Sender::new(None),
            journal: opened.journal,
            runtime: None,
            executor: None,
            search: OnceLock::new(),
            search_index: None,
            last_view: Mutex::default(),
            usage_folds: Folds::default(),
            run_index: RunIndex::default(),
            recent_decisions: RecentDecisions::default(),
            waiting_sessions: WaitingSessions::default(),
            tokens: TokenCache::default(),
            audit: AuditLog::default(),
            starts: StartRecords::default(),
            first_messages: FirstMessages::default(),
            learnt,
            metrics: Metrics::default(),
            servers: Servers::default(),
            warmth: CacheWarmth::default(),
            limit_share: LimitShare::default(),
            logged_notices: LoggedNotices::default(),
            short_lived: AtomicBool::new(false),
            #[cfg(feature = "otel")]
            traces: None,
            salvage: opened.salvage,
            directory: opened.directory,
            losses: opened.losses,
        })
    }

    /// Starts on an open store.
    ///
    /// # Errors
    /// The runtime cannot be started.
    pub fn start_on(
        opened: OpenedStore,
        setup: Setup,
        extensions: Extensions,
    ) -> impl Future<Output = Result<Local, Error>> + Send {
        async move {
            let search_index = opened.search_index(&setup)?;
            let mut local = Local::with(opened, setup, extensions)?;
            local.search_index = search_index;
            let (setup, learnt) = (local.setup.now(), &local.learnt);
            let (models, options) = (
                models::build(
                    &setup,
                    &local.extensions,
                    &learnt.calibrations,
                    &local.warmth,
                    &local.limit_share,
                ),
                options::of_settings(&local.setup, &learnt.calibrations),
            );
            let observer = local.metrics.observer().and(learnt.observer());
            let observer = observer.and(local.waiting_sessions.observer());
            #[cfg(feature = "otel")]
            let observer = {
                local.traces = crate::otel::Exporter::from_setup(&setup);
                match &local.traces {
                    Some(traces) => {
                        traces.note_cut(&local.journal).await;
                        observer.and(traces.observer())
                    }
                    None => observer,
                }
            };
            local.deadline = options.compaction_deadline.clone();
            let runtime = Runtime::start(
                local.journal.clone(),
                local.extensions.clone(),
                models,
                Options {
                    search_index: local.search_index.clone(),
                    load: local.metrics.load.clone(),
                    observer,
                    ..options
                },
            );
            let runtime = runtime.await?;
            local.server_skills.connect(runtime.skill_reader());
            local.runtime = Some(runtime);
            local.executor = tokio::runtime::Handle::try_current().ok();
            Ok(local.into())
        }
        // Callers' crates do not compile it again.
        .boxed()
    }

    /// The losses of repairs, the oldest first, until they are acknowledged.
    pub fn losses(&self) -> Arc<[Loss]> {
        let losses = self.shared.losses.as_ref().map(|losses| losses.now());
        losses.unwrap_or_default()
    }

    /// Acknowledges the losses of repairs: they are not reported any more. Returns their number.
    ///
    /// # Errors
    /// The store's directory cannot be written.
    pub async fn acknowledge_losses(&self) -> Result<usize, unisono_store::Error> {
        let Some(directory) = self.shared.directory.clone() else {
            return Ok(0);
        };
        off_thread(move || unisono_store::acknowledge_losses(&directory)).await
    }

    /// The calibrations of models' tokens.
    pub fn calibrations(&self) -> &Calibrations {
        &self.shared.learnt.calibrations
    }

    /// Counters of events since the start.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// The program's extensions in Rust.
    pub fn extensions(&self) -> &Extensions {
        &self.shared.extensions
    }

    /// The runtime.
    ///
    /// # Errors
    /// Sessions are only read.
    pub fn runtime(&self) -> Result<&Runtime, Error> {
        self.shared.runtime.as_ref().ok_or(Error::OnlyReads)
    }

    /// The journal, as the caller sees it.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// A session for inspection. If there is a runtime, its open turns resume.
    ///
    /// # Errors
    /// There is no session with that id, or its journal cannot be read.
    pub async fn view(&self, session: SessionId) -> Result<View, Error> {
        self.check_shown(session).await?;
        let id = session.into();
        let others = self.cluster().filter(|cluster| !cluster.is_own(id));
        let is_elsewhere = match others.filter(|_| self.shared.runtime.is_some()) {
            Some(cluster) => cluster.owner(id).await?.is_some(),
            None => false,
        };
        if self.shared.runtime.is_some() && !is_elsewhere {
            match self.open(session).await {
                // Another program owns the session; its state on disk is shown.
                Err(Error::Runtime(error)) if error.is_owned_elsewhere() => {}
                opened => return Ok(View::Live(opened?)),
            }
        }
        let known = self.journal.session(session).await?;
        let known = known.ok_or(unisono_runtime::Error::UnknownSession(session))?;
        let created = known.created_unix_ms;
        let mut viewed = self.shared.last_view.lock().await;
        let mut state = match viewed.take() {
            Some((id, of, state)) if (id, of) == (session, created) => Arc::unwrap_or_clone(state),
            _ => State::default(),
        };
        history::catch_up(&self.journal, session, &mut state).await?;
        let state = Arc::new(state);
        *viewed = Some((session, created, state.clone()));
        Ok(View::Stored { id: session, state })
    }

    /// The same for a session of a list; none if it was deleted since the list was made.
    ///
    /// # Errors
    /// Its journal cannot be read.
    pub async fn view_listed(&self, session: SessionId) -> Result<Option<View>, Error> {
        existing(self.view(session).await)
    }

    /// Deletes a session, even with open turns, and what was folded of it; returns whether it existed.
    /// A session that the caller does not see stays.
    ///
    /// # Errors
    /// Sessions are only read, or the store fails.
    pub async fn discard(&self, session: SessionId) -> Result<bool, Error> {
        if !self.journal.shows(session).await? {
            return Ok(false);
        }
        let deleted = self.runtime()?.delete(session).await?;
        self.shared.waiting_sessions.note(session);
        self.shared.usage_folds.forget(session);
        self.shared.run_index.forget(session);
        Ok(deleted)
    }

    /// Removes the bytes of deleted sessions from the disk: from the search index and the journal.
    ///
    /// # Errors
    /// There is no space for a copy of the live data, or the store or the index cannot be written.
    pub(crate) async fn purge(&self) -> Result<Vacuumed, Error> {
        self.purge_index().await?;
        Ok(self.journal.vacuum(None).await?)
    }

    /// Removes the words of deleted sessions from the search index on disk. An index that this program does
    /// not use is removed.
    ///
    /// # Errors
    /// The index cannot be written.
    pub(crate) async fn purge_index(&self) -> Result<(), Error> {
        if let Ok(runtime) = self.runtime() {
            runtime.purge_index().await?;
        }
        if let (None, Some(store)) = (&self.shared.search_index, self.directory()) {
            unisono_search::remove(&unisono_search::directory(store))?;
        }
        Ok(())
    }

    /// Waits until it has failed, and returns the reason. It never returns while it works.
    pub async fn failed(&self) -> Arc<str> {
        match &self.shared.runtime {
            Some(runtime) => runtime.failed().await,
            None => std::future::pending().await,
        }
    }

    /// The directory of its store; none if the store is in memory.
    pub fn directory(&self) -> Option<&Path> {
        self.shared.directory.as_deref()
    }

    /// The repairs made when the store was opened, to be shown to the user.
    pub fn salvage(&self) -> Option<&Salvage> {
        self.shared.salvage.as_ref()
    }

    /// Creates a session from a conversation; one without an id gets one. It is on disk when this
    /// returns.
    ///
    /// # Errors
    /// The conversation or its settings are refused, or the store fails.
    pub async fn import(&self, conversation: impl Into<Import>) -> Result<Handle, Error> {
        let mut import = conversation.into();
        import
            .session
            .get_or_insert_with(|| SessionId::new(Uuid::now_v7()));
        self.label_import(&mut import).await?;
        new_session::check_sizes(&import)?;
        self.check_own(&import.settings).await?;
        Ok(self.runtime()?.create(import).await?)
    }

    /// The sessions that may have open turns, by the last event of each: open them to resume.
    ///
    /// # Errors
    /// The store fails.
    pub async fn unfinished(&self) -> Result<Vec<SessionId>, Error> {
        Ok(self.journal.unfinished().await?)
    }

    /// Opens a session. Its open turns resume, with the agents as they were when a turn began.
    /// Changed definitions are logged.
    ///
    /// # Errors
    /// There is no session with that id, or its journal cannot be read.
    pub fn open(&self, session: SessionId) -> impl Future<Output = Result<Handle, Error>> + Send {
        async move {
            self.check_shown(session).await?;
            self.check_resumable(session).await?;
            self.open_own(session).await
        }
        // Callers' crates do not compile it again.
        .boxed()
    }

    /// Opens a session that this program owns already, also if it cannot continue the open turns: they fail.
    async fn open_own(&self, session: SessionId) -> Result<Handle, Error> {
        #[cfg(feature = "otel")]
        if let Some(traces) = &self.shared.traces {
            traces.recall(&self.journal, session).await;
        }
        let handle = self.runtime()?.open(session).await?;
        self.note_changed_agents(&handle).await?;
        Ok(handle)
    }
}
