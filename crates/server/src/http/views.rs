//! The routes of each caller.
//!
//! ```text
//! request ─► guard: who asks? ─► the routes of that caller ─► scope ─► owner of the session ─► route
//!                                a Local for the caller      scopes    forward
//! ```
//!
//! Every caller has routes of its own, all of them on a [`Local`](unisono::Local) that shows what the
//! caller may see: those of `/v1`, of OpenAI, MCP and A2A, and the page. A route cannot forget to ask
//! who its caller is, because it has nothing else to ask. Routes are made when a caller comes first, and
//! kept for those that came last.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Extension, Request, State};
use axum::middleware;
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
use crate::a2a::{self, Door};

/// Callers whose routes are kept.
const KEPT: usize = 256;

/// The routes of all callers.
pub(super) struct Views {
    /// The routes of `/v1` and OpenAI, on nobody's sessions yet.
    routes: Router<Arc<Shared>>,
    shared: Arc<Shared>,
    door: Arc<Door>,
    calls: Arc<Semaphore>,
    body_limit_bytes: usize,
    /// Those of the program itself.
    whole: Router,
    kept: Mutex<HashMap<Caller, (Instant, Arc<View>)>>,
}

/// The routes of one caller.
struct View {
    router: Router,
    rate: Rate,
}

impl Views {
    pub(super) fn new(
        routes: Router<Arc<Shared>>,
        shared: &Arc<Shared>,
        door: &Arc<Door>,
        calls: &Arc<Semaphore>,
        body_limit_bytes: usize,
    ) -> Views {
        let mut views = Views {
            routes,
            shared: shared.clone(),
            door: door.clone(),
            calls: calls.clone(),
            body_limit_bytes,
            whole: Router::new(),
            kept: Mutex::default(),
        };
        views.whole = views.routes_on(shared, door.clone());
        views
    }

    /// All routes on the sessions that somebody sees.
    fn routes_on(&self, shared: &Arc<Shared>, door: Arc<Door>) -> Router {
        let forwarding = middleware::from_fn_with_state(shared.clone(), forward::forward);
        let scoped = middleware::from_fn_with_state(shared.clone(), scopes::check);
        self.routes
            .clone()
            .merge(page(shared))
            .merge(mcp::routes(shared, &self.calls))
            .merge(a2a::routes(door))
            .route_layer(scoped)
            .fallback(problem::not_found)
            .method_not_allowed_fallback(problem::method_not_allowed)
            .layer(DefaultBodyLimit::max(self.body_limit_bytes))
            .layer(forwarding)
            .with_state(shared.clone())
    }

    /// The routes of a caller.
    fn of(&self, caller: &Caller, now: Instant) -> Arc<View> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((used, view)) = kept.get_mut(caller) {
            *used = now;
            return view.clone();
        }
        if kept.len() >= KEPT {
            let oldest = kept.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(caller, _)| caller.clone()) {
                kept.remove(&oldest);
            }
        }
        let local = Arc::new(self.shared.local.for_caller(caller.clone()));
        let door = Arc::new(self.door.for_caller(&local));
        let shared = Arc::new(Shared {
            local,
            common: self.shared.common.clone(),
        });
        let view = Arc::new(View {
            router: self.routes_on(&shared, door),
            rate: Rate::per_minute(self.shared.people.requests_per_minute()),
        });
        kept.insert(caller.clone(), (now, view.clone()));
        view
    }
}

/// The page, and what lets a browser in to see it.
fn page(shared: &Shared) -> Router<Arc<Shared>> {
    let login = Router::new()
        .route(login::PATH, get(login::enter))
        .route("/logout", post(login::leave));
    let who = shared.local.caller().name().cloned();
    login.merge(unisono_web::router(shared.local.clone(), who))
}

/// What every request goes through: who asks, then the routes of the caller.
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
    // It is held until the answer begins: a route of MCP does not hold its sessions itself.
    let view = views.of(caller, Instant::now());
    if let Err(wait) = view.rate.take(Instant::now()) {
        let name = caller.name().map_or("", |name| name);
        let detail = format!(
            "token {name} made more requests than `server.token_requests_per_minute` allows"
        );
        let seconds = wait.as_secs_f64().ceil() as u64;
        let fault = ApiError::new(Code::Busy, detail).retry_after(seconds);
        return problem::shaped(request.uri(), fault);
    }
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
