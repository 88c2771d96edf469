//! The Agent2Agent protocol, version 1.0: other programs give tasks to agents.
//!
//! ```text
//! rpc (JSON-RPC), rest (HTTP+JSON) ─► Operation ─► operations ─► Local
//!        a request in its binding                   send, follow   sessions, turns, calls
//! ```
//!
//! A context is a session, a task is a turn, an artifact is the result of an agent. A tool call
//! that waits for a person is a task that requires input; a message to that task decides about it.
//! Tasks are not stored: each is derived from its turn in the journal.
//!
//! `/a2a` is the team, `/a2a/agents/{agent}` a single agent. Both bindings have the same address.
//! Every route except the cards requires the token.

mod answered;
mod callbacks;
mod card;
mod deliver;
mod error;
mod follow;
mod http;
mod message;
mod operations;
mod parts;
mod references;
mod rest;
mod rpc;
mod send;
mod task;
mod updates;

use std::sync::Arc;

use axum::Router;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::{Semaphore, watch};
use unisono::Local;
use unisono::tasks::Tasks;
use unisono_api::Problem;
use unisono_context::Digest;

use crate::audit::Note;
use crate::body_share::BodyShare;
use crate::turn_follower::Pauses;
use answered::AnsweredMessages;
use callbacks::Callbacks;
use card::Capabilities;
use error::{Error, Kind};
pub(crate) use send::session_of_message;

/// The address of the team.
const BASE: &str = "/a2a";
/// The addresses of agents begin with this.
const AGENTS: &str = "/a2a/agents";
/// The path of a card, below the address of an agent or of the server.
const CARD: &str = "/.well-known/agent-card.json";
/// The time for which a client may cache a card.
const CARD_KEPT: HeaderValue = HeaderValue::from_static("public, max-age=60");

/// Whether an address is one of the protocol's.
pub(crate) fn is_under(path: &str) -> bool {
    let below = path.strip_prefix(BASE);
    path == CARD || below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// Whether an address is that of a card. Cards are public.
pub(crate) fn is_card(path: &str) -> bool {
    is_under(path) && path.ends_with(CARD)
}

/// Why a request came not even here, as its binding has it.
pub(crate) fn refused(path: &str, problem: &Problem) -> Response {
    let error = Error::from(problem);
    match is_rpc(path) {
        true => rpc::refused(&error),
        false => http::refused(&error),
    }
}

/// Whether an address is that of a subscription to a task, which changes nothing, also by POST.
pub(crate) fn is_subscription(path: &str) -> bool {
    is_under(path) && path.ends_with(":subscribe")
}

/// Whether a request by JSON-RPC changes nothing and needs nothing but the store.
pub(crate) fn only_reads(path: &str, body: &[u8]) -> bool {
    is_under(path) && is_rpc(path) && rpc::only_reads(body)
}

/// Whether an address serves JSON-RPC.
fn is_rpc(path: &str) -> bool {
    let agent = path
        .strip_prefix(AGENTS)
        .and_then(|below| below.strip_prefix('/'));
    let is_agent = |agent: &str| !agent.trim_end_matches('/').contains('/') && agent != "/";
    path.strip_suffix('/').unwrap_or(path) == BASE || agent.is_some_and(is_agent)
}

/// The parts of an HTTP request that an operation needs.
struct RequestContext {
    note: Note,
    body: BodyShare,
    /// Scheme and host of the server.
    origin: String,
    /// How a task is followed if another daemon owns its session; none: it is not.
    pauses: Option<Pauses>,
}

/// Answers the requests of the protocol.
#[derive(Debug)]
pub(crate) struct A2a {
    local: Arc<Local>,
    /// The streams that are still allowed, of all connections of the server.
    streams: Arc<Semaphore>,
    /// Becomes true when the program stops.
    stopping: watch::Receiver<bool>,
    tasks: Tasks,
    /// The address by which others reach the server; empty: the host that the request names.
    public_url: String,
    /// The callbacks; none: they are switched off.
    callbacks: Option<Arc<Callbacks>>,
    answered: Arc<AnsweredMessages>,
}

impl A2a {
    pub(crate) fn new(
        local: &Arc<Local>,
        streams: &Arc<Semaphore>,
        stopping: &watch::Receiver<bool>,
    ) -> A2a {
        let setup = local.setup();
        let settings = &setup.loaded.config.server;
        let callbacks = Callbacks::open(&settings.callback_hosts, local.directory());
        A2a {
            local: local.clone(),
            streams: streams.clone(),
            stopping: stopping.clone(),
            tasks: Tasks::default(),
            public_url: settings.public_url.trim_end_matches('/').to_owned(),
            callbacks: callbacks.map(Arc::new),
            answered: Arc::default(),
        }
    }

    /// The same on the sessions that a caller sees.
    pub(crate) fn for_caller(&self, local: &Arc<Local>) -> A2a {
        A2a {
            local: local.clone(),
            streams: self.streams.clone(),
            stopping: self.stopping.clone(),
            tasks: Tasks::default(),
            public_url: self.public_url.clone(),
            callbacks: self.callbacks.clone(),
            answered: self.answered.clone(),
        }
    }

    fn context(&self, request: &Request) -> RequestContext {
        let headers = request.headers();
        RequestContext {
            note: Note::from_extensions(request.extensions()),
            body: BodyShare::from_extensions(request.extensions()),
            origin: self.origin(headers),
            pauses: Pauses::for_request(headers, &self.stopping, None),
        }
    }

    /// Scheme and host of the addresses that cards have.
    fn origin(&self, headers: &HeaderMap) -> String {
        let host = headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok());
        match (self.public_url.as_str(), host) {
            ("", host) => format!("http://{}", host.unwrap_or("localhost")),
            (url, _) => url.to_owned(),
        }
    }

    fn able(&self) -> Capabilities {
        Capabilities {
            callbacks: self.callbacks.is_some(),
        }
    }
}

pub(crate) fn routes<S: Clone + Send + Sync + 'static>(a2a: Arc<A2a>) -> Router<S> {
    let each = || {
        rest::routes()
            .merge(rpc::routes())
            .route(CARD, get(card_of))
    };
    Router::new()
        .route(CARD, get(card_of))
        .nest(BASE, each())
        .nest("/a2a/agents/{agent}", each())
        // Clients that resolve `/` against a card's address send it with a slash at the end.
        .route("/a2a/", rpc::endpoint())
        .route("/a2a/agents/{agent}/", rpc::endpoint())
        .with_state(a2a)
}

/// The agent that an address names; none: the team.
fn agent(params: &RawPathParams) -> Option<&str> {
    let mut params = params.iter();
    params.find_map(|(name, value)| (name == "agent").then_some(value))
}

/// A card, with an entity tag for cache validation.
async fn card_of(
    State(a2a): State<Arc<A2a>>,
    params: RawPathParams,
    headers: HeaderMap,
) -> Response {
    let setup = a2a.local.setup();
    let (origin, able) = (a2a.origin(&headers), a2a.able());
    let card = match agent(&params) {
        None => Some(card::of_team(&setup, &origin, able)),
        Some(name) => card::of_agent(&setup, &origin, name, able),
    };
    let Some(card) = card else {
        let name = agent(&params).unwrap_or_default();
        let message = format!("there is no agent {name:?}");
        return http::refused(&Error::new(Kind::NotFound, message));
    };
    // Serialising a card does not fail.
    let body = serde_json::to_string(&card).unwrap_or_default();
    let tag = format!("\"{}\"", Digest::of_bytes(body.as_bytes()));
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut known = known.filter_map(|known| known.to_str().ok());
    let is_known = known.any(|known| known.split(',').any(|one| is_tag(one, &tag)));
    let tag = HeaderValue::from_str(&tag).ok();
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => {
            let kind = HeaderValue::from_static("application/json");
            ([(header::CONTENT_TYPE, kind)], body).into_response()
        }
    };
    let to = response.headers_mut();
    to.insert(header::CACHE_CONTROL, CARD_KEPT);
    to.extend(tag.map(|tag| (header::ETAG, tag)));
    response
}

/// Whether an entity tag of a client is this one. A proxy may have made it a weak one.
fn is_tag(known: &str, tag: &str) -> bool {
    let known = known.trim();
    known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_known_by_its_tag_also_by_a_weak_one() {
        for (known, expected) in [
            ("\"a\"", true),
            (" \"a\" ", true),
            ("W/\"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("a", false),
            ("w/\"a\"", false),
        ] {
            assert_eq!(is_tag(known, "\"a\""), expected, "{known}");
        }
    }

    #[test]
    fn cards_are_open_and_nothing_else_is() {
        for path in [
            CARD,
            "/a2a/.well-known/agent-card.json",
            "/a2a/agents/lead/.well-known/agent-card.json",
        ] {
            assert!(is_card(path), "{path}");
        }
        for path in [
            "/a2a",
            "/a2a/",
            "/a2a/tasks",
            "/a2abc/.well-known/agent-card.json",
            "/v1/sessions/.well-known/agent-card.json",
            "/a2a/.well-known/agent-card.json/",
        ] {
            assert!(!is_card(path), "{path}");
        }
    }

    #[test]
    fn an_address_says_which_binding_is_spoken() {
        for path in ["/a2a", "/a2a/", "/a2a/agents/lead", "/a2a/agents/lead/"] {
            assert!(is_rpc(path) && is_under(path), "{path}");
        }
        for path in [
            "/a2a/tasks",
            "/a2a/agents",
            "/a2a/agents/lead/tasks",
            "/a2ab",
        ] {
            assert!(!is_rpc(path), "{path}");
        }
    }
}
