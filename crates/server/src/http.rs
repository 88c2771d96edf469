//! The HTTP server of the daemon: `/v1`, OpenAI endpoints, MCP, A2A, the page and health.
//!
//! ```text
//! connection ─► guard (host, origin, token, load) ─► route ─► Local
//!               connections    guard                  sessions, turns, events …
//! ```
//!
//! It listens on loopback by default. Every route except health and the problem pages requires a
//! token. All resources are bounded: connections, concurrent requests, streams, header and body bytes,
//! and the bytes of all bodies together.

mod agents;
mod approvals;
mod attached;
mod audit;
mod blobs;
mod bodies;
mod branches;
mod chat;
mod checkpoints;
mod cluster;
pub(crate) mod compactions;
mod connections;
mod context;
mod daemon_file;
mod delegations;
mod description;
mod events;
mod extract;
mod forward;
mod graceful_close;
mod guard;
mod health;
mod hosts;
mod imports;
mod login;
mod mcp;
mod messages;
mod metrics;
mod open_files;
mod openai;
mod opened;
mod past_events;
mod people;
mod pins;
mod problem;
mod query_numbers;
mod rate;
mod runs;
mod schedules;
mod scopes;
mod search;
pub(crate) mod sessions;
mod settings;
mod snapshots;
mod store;
pub(crate) mod token;
mod tokens;
mod tool_servers;
mod topics;
mod triggers;
mod turn_events;
mod turns;
mod upkeep;
mod usage;
mod views;

use std::future::Future;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router, middleware};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use unisono_api::Code;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::a2a::A2a;
pub use attached::AttachedClient;
use bodies::Bodies;
pub use daemon_file::{DaemonFile, DaemonInfo};
pub(crate) use hosts::authority;
use hosts::hosts;
use login::Logins;
use openai::ephemeral::EphemeralSessions;
use opened::Opened;
use people::People;
use rate::Rate;
use token::Token;
use unisono::Local;
use views::Views;

/// The time that tool calls have to stop after the drain period.
const CALLS_WITHIN: Duration = Duration::from_secs(1);
/// The time limit for removing ephemeral sessions of disconnected clients.
const LEFT_WITHIN: Duration = Duration::from_secs(1);

/// Why the HTTP server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is in use or does not belong to this machine.
    #[error("cannot listen on {address}: {error}; set `server.bind` to another address")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// Other machines could reach the address, and the settings do not allow it.
    #[error(
        "other machines can reach {0}: to allow this, pass --allow-remote (or set \
          `server.allow_remote`) and put a TLS proxy in front"
    )]
    Remote(SocketAddr),
    /// The token file cannot be read or created.
    #[error("the token file {}: {error}", .path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// The setting is not a valid header name.
    #[error(
        "server.trusted_user_header: {0:?} is not a valid header name; write one, or leave it empty"
    )]
    UserHeader(String),
    /// The daemon cannot join the cluster.
    #[error(transparent)]
    Cluster(#[from] unisono::Error),
}

/// The state of a caller's routes: the sessions that the caller sees, and the common state.
pub(crate) struct Shared {
    local: Arc<Local>,
    common: Arc<Common>,
}

impl Deref for Shared {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

/// The common state of all routes.
pub(crate) struct Common {
    token: Token,
    logins: Arc<Logins>,
    /// The allowed host names, in lower case.
    hosts: Vec<String>,
    requests: Semaphore,
    bodies: Bodies,
    rate: Rate,
    streams: Arc<Semaphore>,
    /// The maximum time during which a client may send or receive nothing.
    stall: Duration,
    /// Becomes true when the program stops.
    stopping: watch::Receiver<bool>,
    answers: metrics::Answers,
    openapi: OpenApi,
    /// The takeover of sessions of other daemons.
    taken_over: AtomicU64,
    /// Sessions that exist for one request.
    ephemeral_sessions: EphemeralSessions,
    people: People,
}

/// A listening server.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
    /// The routes of connections beyond the limit.
    full: Router,
    shared: Arc<Shared>,
    views: Arc<Views>,
    /// The server of the Agent2Agent protocol.
    a2a: Arc<A2a>,
    /// Permits for concurrent tool calls.
    calls: Arc<Semaphore>,
    stop: watch::Sender<bool>,
    limits: connections::Limits,
    token_file: PathBuf,
    /// The address at which other daemons reach this one.
    reached: String,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Listens at the configured address; it responds after [`Server::run`].
    ///
    /// # Errors
    /// The address is in use or open to other machines, or the token cannot be read or created.
    pub fn bind(local: Local) -> impl Future<Output = Result<Server, Error>> + Send {
        // Boxed: callers' crates do not compile it again.
        Server::new(local).boxed()
    }

    async fn new(local: Local) -> Result<Server, Error> {
        local.log_notices();
        match Opened::new(&local).await {
            Ok(opened) => Ok(Server::from_opened(local, opened).await),
            Err(error) => {
                // A store that is dropped while it opens reports damage that it does not have.
                local.shutdown().await;
                Err(error)
            }
        }
    }

    async fn from_opened(local: Local, opened: Opened) -> Server {
        let settings = local.setup().loaded.config.server.clone();
        let (stop, stopping) = watch::channel(false);
        let (router, openapi) = routes().split_for_parts();
        let mut hosts = hosts(opened.address, &settings.hosts);
        hosts.extend(local.beats().and_then(|_| cluster::host(&opened.reached)));
        let calls = Arc::new(Semaphore::new(settings.streams as usize));
        let logins = Logins::open(&local.setup().loaded.config.store.path, &opened.token);
        let logins = Arc::new(logins);
        store::remove_unfinished(&local).await;
        local.begin_audit();
        let common = Common {
            token: opened.token,
            logins,
            hosts,
            requests: Semaphore::new(settings.requests as usize),
            bodies: Bodies::new(settings.bodies_bytes, settings.body_limit_bytes.into()),
            rate: Rate::new(settings.requests_per_second),
            streams: Arc::new(Semaphore::new(settings.streams as usize)),
            stall: Duration::from_secs(settings.stall_seconds),
            stopping,
            answers: metrics::Answers::default(),
            openapi,
            taken_over: AtomicU64::new(0),
            ephemeral_sessions: EphemeralSessions::new(),
            people: opened.people,
        };
        let shared = Arc::new(Shared {
            local: Arc::new(local),
            common: Arc::new(common),
        });
        let a2a = Arc::new(A2a::new(&shared.local, &shared.streams, &shared.stopping));
        let body_limit_bytes = settings.body_limit_bytes as usize;
        let views = Views::new(router, &shared, &a2a, &calls, body_limit_bytes);
        let views = Arc::new(views);
        Server {
            listener: opened.listener,
            address: opened.address,
            router: views::router(&views, &shared),
            full: full(&shared),
            views,
            shared,
            a2a,
            calls,
            stop,
            limits: limits(&settings),
            token_file: settings.token_file,
            reached: opened.reached,
        }
    }

    /// The server of the Model Context Protocol, for clients other than those of `/mcp`. It must
    /// not outlive this server.
    pub fn mcp(&self) -> crate::mcp::Server {
        let stopping = self.shared.stopping.clone();
        crate::mcp::Server::new(&self.shared.local, stopping, self.calls.clone())
    }

    /// Attaches a client that does not use HTTP. None: the limit of clients is reached.
    pub fn attach(&self) -> Option<AttachedClient> {
        let place = self.calls.clone().try_acquire_owned().ok()?;
        let (shared, drain) = (&self.shared, self.limits.drain);
        let stopping = shared.stopping.clone();
        Some(AttachedClient::new(
            shared.local.clone(),
            stopping,
            drain,
            place,
        ))
    }

    /// The listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Host and port by which programs on this machine reach it.
    pub fn authority(&self) -> String {
        authority(self.address)
    }

    /// A login link for one browser, valid once; none without a source of random bytes.
    pub async fn login_link(&self) -> Option<String> {
        let login = login::Login::default();
        let origin = format!("http://{}", self.authority());
        login::new_link(&self.shared, &origin, login).await.ok()
    }

    /// The path of the token file.
    pub fn token_file(&self) -> &Path {
        &self.token_file
    }

    /// Resumes open turns and responds to requests until `stop` completes or the runtime fails.
    /// Then it accepts no new requests, finishes current requests and tool calls, and shuts the
    /// daemon down. Turns that are still open continue at the next start. Returns the failure of
    /// the runtime, if any.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Option<Arc<str>> {
        let shared = &self.shared;
        let upkeep = upkeep::begin(shared, &self.a2a, self.reached.clone());
        self.boxed(upkeep, stop.boxed()).await
    }

    /// As [`Server::run`], without maintenance: open turns continue when their sessions are opened,
    /// and it reloads no agents, deletes no old sessions and frees no space.
    pub async fn answer(self, stop: impl Future<Output = ()> + Send) -> Option<Arc<str>> {
        self.boxed(Vec::new(), stop.boxed()).await
    }

    /// Boxed: callers' crates do not compile it again.
    fn boxed<'a>(
        self,
        upkeep: Vec<JoinHandle<()>>,
        stop: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Option<Arc<str>>> {
        self.answer_beside(upkeep, stop).boxed()
    }

    async fn answer_beside(
        self,
        upkeep: Vec<JoinHandle<()>>,
        stop: BoxFuture<'_, ()>,
    ) -> Option<Arc<str>> {
        let Server {
            shared,
            router,
            full,
            a2a,
            views,
            ..
        } = self;
        let calls_at_a_time = shared.local.setup().loaded.config.server.streams;
        notify(sd_notify::NotifyState::Ready);
        let (stopping, drain) = (self.stop, self.limits.drain);
        let until = async {
            let failed = tokio::select! {
                () = stop => None,
                reason = shared.local.failed() => Some(reason),
            };
            notify(sd_notify::NotifyState::Stopping);
            stopping.send_replace(true);
            (failed, Instant::now() + drain)
        };
        let serving = connections::serve(self.listener, router, full, self.limits, until);
        let (failed, drained) = serving.await;
        for task in upkeep {
            task.abort();
            // The task must end before the daemon can be unwrapped.
            let _ = task.await;
        }
        a2a.stop().await;
        drop((a2a, views));
        let leaving = shared.ephemeral_sessions.wait_until_removed();
        if tokio::time::timeout(LEFT_WITHIN, leaving).await.is_err() {
            tracing::warn!("ephemeral sessions cannot be removed now; the next start removes them");
        }
        // A current call releases the daemon before its permit.
        let calls = self.calls.acquire_many(calls_at_a_time);
        if tokio::time::timeout_at(drained + CALLS_WITHIN, calls)
            .await
            .is_err()
        {
            tracing::warn!("a tool call did not end in time");
        }
        match Arc::into_inner(shared).and_then(|shared| Arc::into_inner(shared.local)) {
            Some(local) => local.shutdown().await,
            None => tracing::warn!("a request has not ended; the store closes with the process"),
        }
        failed
    }
}

fn limits(settings: &unisono_config::settings::Server) -> connections::Limits {
    connections::Limits {
        connections: connections::max_connections(settings.connections as usize),
        stall: Duration::from_secs(settings.stall_seconds),
        drain: Duration::from_secs(settings.drain_seconds),
    }
}

/// Runs blocking work on a separate thread.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, problem::ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| problem::ApiError::new(Code::Failed, error.to_string()))
}

/// Notifies the service manager, if any.
fn notify(state: sd_notify::NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "the service manager cannot be notified");
    }
}

fn routes() -> OpenApiRouter<Arc<Shared>> {
    let problems = OpenApiRouter::new().routes(routes!(problem::problem_page));
    let login = OpenApiRouter::new().routes(routes!(login::link));
    let resources = [
        ("sessions", sessions::routes()),
        ("messages", messages::routes()),
        ("messages", blobs::routes()),
        ("branches", branches::routes()),
        ("turns", turns::routes()),
        ("turns", turn_events::routes()),
        ("chat", chat::routes()),
        ("delegations", delegations::routes()),
        ("runs", runs::routes()),
        ("compactions", compactions::routes()),
        ("checkpoints", checkpoints::routes()),
        ("topics", topics::routes()),
        ("pins", pins::routes()),
        ("context", context::routes()),
        ("snapshots", snapshots::routes()),
        ("search", search::routes()),
        ("events", events::routes()),
        ("agents", agents::routes()),
        ("cluster", cluster::routes()),
        ("approvals", approvals::routes()),
        ("schedules", schedules::routes()),
        ("triggers", triggers::routes()),
        ("usage", usage::routes()),
        ("metrics", metrics::routes()),
        ("settings", settings::routes()),
        ("imports", imports::routes()),
        ("store", store::routes()),
        ("tokens", tokens::routes()),
        ("tool_servers", tool_servers::routes()),
        ("audit", audit::routes()),
        ("openai", openai::routes()),
        ("health", health::routes()),
        ("problems", problems),
        ("login", login),
    ];
    let blank = OpenApiRouter::with_openapi(description::blank());
    let mut all = resources
        .into_iter()
        .fold(blank, |all, (resource, routes)| {
            all.merge(description::named(resource, routes))
        });
    description::complete(all.get_openapi_mut());
    all.route("/v1/openapi.json", get(openapi))
}

/// The routes of connections beyond the limit: health only.
fn full(shared: &Arc<Shared>) -> Router {
    let (health, _) = health::routes().split_for_parts();
    health
        .fallback(guard::full)
        .layer(middleware::from_fn_with_state(shared.clone(), guard::guard))
        .with_state(shared.clone())
}

/// The description of all routes (OpenAPI 3.1), as JSON.
pub fn description() -> String {
    // Serialisation of the description does not fail.
    serde_json::to_string(&routes().into_openapi()).unwrap_or_default()
}

/// The description of all routes.
async fn openapi(State(shared): State<Arc<Shared>>) -> Json<OpenApi> {
    Json(shared.openapi.clone())
}
