//! The routes of each caller.
//!
//! ```text
//! request ─► guard: the caller ─► the routes of that caller ─► scope ─► owner of the session ─► route
//!                                 a Local for the caller       scopes   forward
//! ```
//!
//! Every caller has its own routes for `/v1`, OpenAI, MCP, A2A and the page. They use a
//! [`Local`](unisono::Local) that shows only what the caller may see, so no route can omit the check.
//! The first request of a caller creates its routes; a cache keeps the routes of recent callers.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Extension, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::sync::Semaphore;
use unisono::caller::Caller;
use unisono_api::Code;

use super::people::Identity;
use super::problem::{self, ApiError};
use super::rate::Rate;
use super::{Shared, forward, guard, login, mcp, scopes};
use crate::a2a::{self, A2a};

/// Maximum number of callers in the cache.
const CACHED: usize = 256;

/// The routes of all callers.
pub(super) struct Views {
    /// The routes of `/v1` and OpenAI, without state.
    routes: Router<Arc<Shared>>,
    shared: Arc<Shared>,
    a2a: Arc<A2a>,
    calls: Arc<Semaphore>,
    /// The tool calls of all callers, also of those that have left the cache.
    open_calls: Arc<mcp::OpenCalls>,
    body_limit_bytes: usize,
    /// The routes for the daemon's own token.
    whole: Router,
    cached: Mutex<HashMap<Caller, (Instant, Arc<View>)>>,
}

/// The routes of one caller.
struct View {
    router: Router,
    rate: Rate,
    /// Its part of the requests that are answered at the same time.
    requests: Semaphore,
}

impl Views {
    pub(super) fn new(
        routes: Router<Arc<Shared>>,
        shared: &Arc<Shared>,
        a2a: &Arc<A2a>,
        calls: &Arc<Semaphore>,
        body_limit_bytes: usize,
    ) -> Views {
        let mut views = Views {
            routes,
            shared: shared.clone(),
            a2a: a2a.clone(),
            calls: calls.clone(),
            open_calls: Arc::default(),
            body_limit_bytes,
            whole: Router::new(),
            cached: Mutex::default(),
        };
        views.whole = views.routes_on(shared, a2a.clone());
        views
    }

    /// All routes, with the state of one caller.
    fn routes_on(&self, shared: &Arc<Shared>, a2a: Arc<A2a>) -> Router {
        let forwarding = middleware::from_fn_with_state(shared.clone(), forward::forward);
        let scoped = middleware::from_fn_with_state(shared.clone(), scopes::check);
        self.routes
            .clone()
            .layer(middleware::from_fn(unisono_web::compress))
            .merge(page(shared))
            .merge(mcp::routes(shared, &self.calls, &self.open_calls))
            .merge(a2a::routes(a2a))
            .route_layer(scoped)
            .layer(middleware::from_fn_with_state(shared.clone(), way_back))
            .fallback(not_found)
            .method_not_allowed_fallback(problem::method_not_allowed)
            .layer(DefaultBodyLimit::max(self.body_limit_bytes))
            .layer(forwarding)
            .with_state(shared.clone())
    }

    /// The routes of a caller, from the cache if possible.
    fn view_for(&self, caller: &Caller, now: Instant) -> Arc<View> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((used, view)) = cached.get_mut(caller) {
            *used = now;
            return view.clone();
        }
        if cached.len() >= CACHED {
            let oldest = cached.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(caller, _)| caller.clone()) {
                cached.remove(&oldest);
            }
        }
        let local = Arc::new(self.shared.local.for_caller(caller.clone()));
        let a2a = Arc::new(self.a2a.for_caller(&local));
        let shared = Arc::new(Shared {
            local,
            common: self.shared.common.clone(),
        });
        let all = self.shared.local.setup().loaded.config.server.requests;
        let view = Arc::new(View {
            router: self.routes_on(&shared, a2a),
            rate: Rate::per_minute(self.shared.people.requests_per_minute()),
            requests: Semaphore::new((all - all / 4) as usize),
        });
        cached.insert(caller.clone(), (now, view.clone()));
        view
    }
}

/// The page, and the login and logout of browsers.
fn page(shared: &Shared) -> Router<Arc<Shared>> {
    let login = Router::new()
        .route(login::PATH, get(login::enter).post(login::submit))
        .route("/logout", post(login::leave));
    login.merge(unisono_web::router(shared.local.clone(), viewer(shared)))
}

/// The caller, as the pages show it.
fn viewer(shared: &Shared) -> unisono_web::Viewer {
    let caller = shared.local.caller();
    unisono_web::Viewer {
        name: caller.name().cloned(),
        scope: caller.scope(),
        logs_out: caller.token().is_some(),
        needed: scopes::needed,
    }
}

/// Lets the refusals of the page's forms lead back, those for a scope included, and names the viewer in
/// them.
async fn way_back(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    if !unisono_web::is_page(request.uri().path()) {
        return next.run(request).await;
    }
    let response = unisono_web::with_way_back(request, next).await;
    match response.status() {
        StatusCode::FORBIDDEN => unisono_web::with_viewer(&viewer(&shared), response).await,
        _ => response,
    }
}

/// The response for an unknown path; a page names the viewer.
async fn not_found(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap) -> Response {
    let response = problem::not_found(uri, headers).await;
    unisono_web::with_viewer(&viewer(&shared), response).await
}

/// The router of all requests: it identifies the caller, then dispatches to the caller's routes.
pub(super) fn router(views: &Arc<Views>, shared: &Arc<Shared>) -> Router {
    Router::new()
        .fallback(dispatch)
        .with_state(views.clone())
        .layer(middleware::from_fn_with_state(shared.clone(), guard::guard))
}

async fn dispatch(
    State(views): State<Arc<Views>>,
    Extension(who): Extension<Identity>,
    request: Request,
) -> Response {
    let Some(caller) = who.limited() else {
        return answer(views.whole.clone(), request).await;
    };
    // `view` lives until the response begins: MCP routes do not hold their sessions themselves.
    let view = views.view_for(caller, Instant::now());
    if let Err(wait) = view.rate.take(Instant::now()) {
        let name = caller.name().map_or("", |name| name);
        let detail = format!(
            "token {name} exceeded its limit of requests (`server.token_requests_per_minute`)"
        );
        let seconds = wait.as_secs_f64().ceil() as u64;
        let error = ApiError::new(Code::Busy, detail).retry_after(seconds);
        let refusal = problem::format_for(request.uri(), error);
        return guard::with_form(request, refusal).await;
    }
    // The others are for other callers: one of them may revoke this token.
    let Ok(_room) = view.requests.try_acquire() else {
        let detail =
            "as many requests of this caller as `server.requests` allows are being answered";
        let refusal = problem::format_for(request.uri(), ApiError::new(Code::Busy, detail));
        return guard::with_form(request, refusal).await;
    };
    answer(view.router.clone(), request).await
}

async fn answer(router: Router, request: Request) -> Response {
    let answered: Result<Response, Infallible> =
        TowerToHyperService::new(router).call(request).await;
    match answered {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
