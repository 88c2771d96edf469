//! Forwards requests for sessions of another daemon to that daemon.
//!
//! ```text
//! request ─► session ─► owned by another live daemon ─► its response, streamed
//!                   └► owned by this one or by none ─► answered here
//! ```
//!
//! Path, query, body and response are streamed. A request is forwarded once: the receiving daemon
//! answers it. If the owner is unreachable or answers nothing, this daemon answers read-only
//! requests from the journal.
//!
//! A drained daemon passes a request for a session without an owner to one of the others. If that one
//! cannot be connected, it passes the request to the next one.
//!
//! A message of MCP that takes a call back names no session. It goes to all daemons.

mod connections;
mod unread_body;

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::middleware::Next;
use axum::response::Response;
use serde::Deserialize;
use unisono_api::Code;
use unisono_context::{CallId, SessionId};

use super::people::{self, Identity};
use super::problem::{self, ApiError};
use super::{Shared, guard, mcp, openai, token};
use crate::audit::Note;
use crate::body_share::BodyShare;
use crate::forwarded::{FORWARDED, is_forwarded};
use crate::turn_follower::stopped;
use unread_body::UnreadBody;

/// Headers of one connection or of one daemon, which are not forwarded.
const LEFT_OUT: [HeaderName; 9] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::HOST,
    header::ORIGIN,
    header::COOKIE,
    header::AUTHORIZATION,
];

/// The first parts of the paths of the API and the page that concern this daemon itself: its files, its machine,
/// its logins, and the cluster as it sees it.
const OF_EACH: [&str; 10] = [
    "agent-imports",
    "agents",
    "cluster",
    "doctor",
    "health",
    "login-links",
    "losses",
    "metrics",
    "models",
    "settings",
];

/// Maximum bytes of a message for all daemons: its copies have no room in `server.bodies_bytes`.
const FOR_ALL_BYTES: usize = 64 * 1024;

/// Forwards a request to the owner of its session, or lets this daemon answer it.
pub(super) async fn forward(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let uri = request.uri().clone();
    if !may_pass(&shared, request.headers()) || is_of_each(uri.path()) {
        return next.run(request).await;
    }
    let forwarding = async {
        let (session, mut request) = session_of(&shared, request).await?;
        if let Some(ToAll(message)) = request.extensions_mut().remove() {
            let (parts, body) = request.into_parts();
            tell_others(&shared, &parts, &message);
            return Ok(Forwarding::Local(Request::from_parts(parts, body)));
        }
        match session {
            Some(session) if shared.local.owns(session) => Ok(Forwarding::Local(request)),
            // The caller may not see the session, so this daemon answers.
            Some(session) if !shared.local.journal().shows(session).await? => {
                Ok(Forwarding::Local(request))
            }
            session => pass(&shared, session, request).await,
        }
    };
    match forwarding.await {
        Ok(Forwarding::Remote(response)) => response,
        Ok(Forwarding::Local(request)) => next.run(request).await,
        Err(fault) => problem::format_for(&uri, fault),
    }
}

/// The answer of the owner of a session, for routes that find the session themselves; none if this
/// daemon must answer.
pub(super) async fn by_owner(
    shared: &Arc<Shared>,
    session: Option<SessionId>,
    request: Request,
) -> Result<Option<Response>, ApiError> {
    if !may_pass(shared, request.headers()) {
        return Ok(None);
    }
    match pass(shared, session, request).await? {
        Forwarding::Remote(response) => Ok(Some(response)),
        Forwarding::Local(_) => Ok(None),
    }
}

/// Whether there are other daemons and the request has not been forwarded yet.
fn may_pass(shared: &Shared, headers: &HeaderMap) -> bool {
    let others = shared.local.beats();
    let others = others.is_some_and(|beats| beats.borrow().alive > 1);
    others && !is_forwarded(headers)
}

/// The body of a request that only reads although its method may change something.
#[derive(Clone)]
struct ReadBody(Bytes);

/// The body of a request for all daemons.
#[derive(Clone)]
struct ToAll(Bytes);

enum Forwarding {
    /// Another daemon has answered.
    Remote(Response),
    /// This daemon must answer.
    Local(Request),
}

/// Whether a path concerns this daemon itself and is never forwarded.
fn is_of_each(path: &str) -> bool {
    let inner = path.strip_prefix("/v1").unwrap_or(path);
    let mut parts = inner.trim_start_matches('/').split('/');
    // The page tries an agent in a new session.
    let is_own = |first| OF_EACH.contains(&first) && !path.ends_with("/try");
    guard::OPEN.contains(&path) || guard::is_open(path) || parts.next().is_some_and(is_own)
}

async fn pass(
    shared: &Arc<Shared>,
    session: Option<SessionId>,
    request: Request,
) -> Result<Forwarding, ApiError> {
    let others = shared.local.members_for(session).await?.into_iter();
    let others = others.filter_map(|member| Some((member.announced.address?, member.name)));
    let others: Vec<(String, String)> = others.collect();
    if others.is_empty() {
        return Ok(Forwarding::Local(request));
    }
    let (mut parts, body) = request.into_parts();
    let read = match parts.method.is_safe() {
        // It has no body that could be lost.
        true => Some(Bytes::new()),
        false => parts.extensions.remove::<ReadBody>().map(|read| read.0),
    };
    let mut unread = UnreadBody::new(match read {
        Some(_) => body,
        None => BodyShare::from_extensions(&parts.extensions).until_sent(body),
    });
    let mut failure = None;
    for (address, name) in others {
        let asked = request_for(&address, shared, &parts, unread.lend())?;
        match send_to(&address, shared, asked, read.is_some()).await {
            Ok(answer) => {
                Note::from_extensions(&parts.extensions).passed_on();
                let lost = is_lost(shared.clone(), address);
                let is_one_answer = guard::is_one_answer(parts.uri.path());
                let answer = until_stop(shared, (answer, is_one_answer), lost);
                return Ok(Forwarding::Remote(answer));
            }
            Err(error) => {
                tracing::warn!(%name, %address, %error, "another daemon does not respond");
                match &read {
                    Some(read) => unread = UnreadBody::new(read.clone().into()),
                    None => failure = Some(failed(&name, &address, &error)),
                }
                if failure.is_some() && !error.is_unconnected() {
                    // It may have carried the request out.
                    break;
                }
            }
        }
    }
    match failure {
        Some(failure) => Err(failure),
        None => {
            let body = Body::from(read.unwrap_or_default());
            Ok(Forwarding::Local(Request::from_parts(parts, body)))
        }
    }
}

/// The request for the daemon at an address.
fn request_for(
    address: &str,
    shared: &Shared,
    given: &Parts,
    body: Body,
) -> Result<Request, ApiError> {
    let mut asked = Request::new(body);
    *asked.method_mut() = given.method.clone();
    *asked.uri_mut() = uri_at(address, &given.uri)?;
    *asked.headers_mut() = headers(shared, given, address)?;
    Ok(asked)
}

/// Passes a copy of a request on to all other daemons, and waits for none of them.
fn tell_others(shared: &Shared, given: &Parts, message: &Bytes) {
    let beats = shared.local.beats();
    let addresses = beats.map(|beats| beats.borrow().addresses.clone());
    for address in addresses.unwrap_or_default() {
        let copy = Body::from(message.clone());
        // What is no address is reported when a request is for that daemon alone.
        let Ok(asked) = request_for(&address, shared, given, copy) else {
            continue;
        };
        tokio::spawn(async move {
            if let Err(error) = connections::send_read(asked).await {
                tracing::warn!(%address, %error, "another daemon does not get a message for all");
            }
        });
    }
}

/// Sends a request to the daemon at an address, unless that one is lost meanwhile.
async fn send_to(
    address: &str,
    shared: &Arc<Shared>,
    asked: Request,
    is_read: bool,
) -> Result<Response, connections::Error> {
    let sent = async {
        match is_read {
            true => connections::send_read(asked).await,
            false => connections::send_write(asked, address).await,
        }
    };
    tokio::select! {
        answered = sent => answered,
        () = is_lost(shared.clone(), address.to_owned()) => Err(connections::Error::Lost),
    }
}

/// Ends when the daemon at an address counts as lost. A daemon that hangs keeps its connections; one
/// that hands its sessions over has a new id and the same address.
async fn is_lost(shared: Arc<Shared>, address: String) {
    let Some(mut beats) = shared.local.beats() else {
        return std::future::pending().await;
    };
    while beats.changed().await.is_ok() {
        if !beats.borrow_and_update().addresses.contains(&address) {
            return;
        }
    }
    std::future::pending().await
}

fn failed(name: &str, address: &str, error: &dyn std::error::Error) -> ApiError {
    let causes = std::iter::successors(error.source(), |error| error.source());
    let source = causes.fold(String::new(), |text, cause| format!("{text}: {cause}"));
    let detail = format!(
        "the request is for {name}, which does not respond at {address} ({error}{source}); try again in \
         a moment, and see that the daemons reach each other (`cluster.address`)"
    );
    ApiError::new(Code::Unavailable, detail)
}

/// The same place at another daemon.
fn uri_at(address: &str, uri: &Uri) -> Result<Uri, ApiError> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let uri = format!("{}{path}", address.trim_end_matches('/'));
    uri.parse().map_err(|_| {
        ApiError::new(
            Code::Failed,
            format!("{address} is not the address of a daemon; see `cluster.address`"),
        )
    })
}

/// The headers forwarded to the daemon at an address, with the daemons' token if the path requires one.
fn headers(shared: &Shared, given: &Parts, address: &str) -> Result<HeaderMap, ApiError> {
    let mut headers = given.headers.clone();
    for name in LEFT_OUT {
        headers.remove(name);
    }
    if let Some(page) = page_at(address, &given.headers) {
        headers.insert(header::REFERER, page);
    }
    headers.remove(people::CALLER);
    // The other daemon believes it beside the daemons' token, which this request may not have had.
    if let Some(user) = shared.people.user_header() {
        headers.remove(user);
    }
    headers.insert(FORWARDED, HeaderValue::from_static("1"));
    let caller = given.extensions.get::<Identity>();
    let caller = caller.and_then(Identity::header);
    let bearer = match given.headers.get(header::AUTHORIZATION) {
        Some(bearer) => bearer.clone(),
        // It proves itself in another way.
        None if guard::is_open(given.uri.path()) => return Ok(headers),
        // A browser that is logged in here.
        None => {
            let file = shared.local.setup().loaded.config.server.token_file.clone();
            let token = token::text(&file).map_err(|error| {
                let detail = format!("the token file {}: {error}", file.display());
                ApiError::new(Code::Failed, detail)
            })?;
            let bearer = HeaderValue::from_str(&format!("Bearer {token}"));
            bearer.map_err(|error| ApiError::new(Code::Failed, error.to_string()))?
        }
    };
    headers.insert(header::AUTHORIZATION, bearer);
    if let Some(caller) = caller {
        headers.insert(people::CALLER, caller);
    }
    Ok(headers)
}

/// The page of this daemon that a request came from, as one of the daemon at an address, which knows its own
/// pages only.
fn page_at(address: &str, given: &HeaderMap) -> Option<HeaderValue> {
    let text = |name| given.get(name)?.to_str().ok();
    let (referer, host) = (text(header::REFERER)?, text(header::HOST)?);
    let (_, rest) = referer.split_once("://")?;
    let path = rest.strip_prefix(host)?;
    let page = format!("{}{path}", address.trim_end_matches('/'));
    path.starts_with('/').then(|| page.parse().ok()).flatten()
}

/// The response of another daemon. A stream of events ends when this daemon stops or the other one is
/// `lost`; its client reconnects. A single answer goes on while this daemon finishes its requests, and
/// breaks off if the other one is lost.
fn until_stop(
    shared: &Shared,
    (mut answer, is_one_answer): (Response, bool),
    lost: impl Future<Output = ()> + Send + 'static,
) -> Response {
    for name in [header::CONNECTION, header::TRANSFER_ENCODING] {
        answer.headers_mut().remove(name);
    }
    if !guard::has_events(answer.headers()) {
        return answer;
    }
    let mut stopping = shared.stopping.clone();
    let end = async move {
        tokio::select! {
            () = stopped(&mut stopping), if !is_one_answer => {}
            () = lost => {}
        }
    };
    let why = is_one_answer.then_some("the daemon that works on the answer is lost");
    answer.map(|body| guard::until(body, end, why))
}

/// The session of a request, and the request. The body is read only if nothing else names the
/// session, and is put back.
async fn session_of(
    shared: &Shared,
    mut request: Request,
) -> Result<(Option<SessionId>, Request), ApiError> {
    let path = request.uri().path();
    if let Some(session) = session_in(path) {
        if crate::a2a::is_subscription(path) {
            // Its address has all that this daemon needs for an answer.
            request.extensions_mut().insert(ReadBody(Bytes::new()));
        }
        return Ok((Some(session), request));
    }
    if let Some(call) = call_in(path) {
        return Ok((shared.local.session_of_call(call).await?, request));
    }
    if let Some(schedule) = schedule_in(path) {
        return Ok((shared.local.session_of_schedule(schedule).await, request));
    }
    let is_read = path == mcp::PATH || path.starts_with(openai::BASE) || crate::a2a::is_under(path);
    if request.method().is_safe() || !is_read {
        return Ok((None, request));
    }
    if let Some(named) = request.headers().get(openai::SESSION) {
        let named = named.to_str().ok().and_then(|text| text.parse().ok());
        return Ok((named, request));
    }
    let limit = shared.local.setup().loaded.config.server.body_limit_bytes as usize;
    let (parts, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, limit).await.map_err(|error| {
        let detail = format!("the body cannot be read: {error}");
        ApiError::new(Code::TooLarge, detail)
    })?;
    let session = match session_in_body(&bytes) {
        None if crate::a2a::is_under(parts.uri.path()) => {
            crate::a2a::session_of_message(&shared.local, parts.uri.path(), &bytes).await?
        }
        parsed => parsed,
    };
    let only_reads = crate::a2a::only_reads(parts.uri.path(), &bytes);
    let may_be_for_all = parts.uri.path() == mcp::PATH && bytes.len() <= FOR_ALL_BYTES;
    let is_for_all = may_be_for_all && mcp::takes_call_back(&bytes);
    let mut request = Request::from_parts(parts, Body::from(bytes.clone()));
    if is_for_all {
        request.extensions_mut().insert(ToAll(bytes));
    } else if only_reads {
        request.extensions_mut().insert(ReadBody(bytes));
    }
    Ok((session, request))
}

fn session_in(path: &str) -> Option<SessionId> {
    if crate::a2a::is_under(path) {
        let (_, task) = path.split_once("/tasks/")?;
        return session_of_task(task);
    }
    let path = path.strip_prefix("/v1").unwrap_or(path);
    let rest = path.strip_prefix("/sessions/")?;
    rest.split('/').next()?.parse().ok()
}

/// The id of the tool call in a path; the call may be of any session.
fn call_in(path: &str) -> Option<CallId> {
    let path = path.strip_prefix("/v1").unwrap_or(path);
    path.strip_prefix("/approvals/")?.parse().ok()
}

/// The schedule that a path of the API or of the page has begin its turn.
fn schedule_in(path: &str) -> Option<&str> {
    match path.strip_prefix("/v1/schedules/") {
        Some(rest) => rest.strip_suffix("/runs"),
        None => path.strip_prefix("/schedules/")?.strip_suffix("/run"),
    }
}

/// The session of a task of MCP or A2A: its id begins with that of the session.
fn session_of_task(task: &str) -> Option<SessionId> {
    task.split_once('.')?.0.parse().ok()
}

/// The session that a body names: one for OpenAI's endpoint, a call of a tool or a task of MCP, or a
/// message or a task of A2A.
fn session_in_body(body: &Bytes) -> Option<SessionId> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Body {
        metadata: Option<SessionField>,
        params: Option<Params>,
        message: Option<Message>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Message {
        context_id: Option<String>,
        task_id: Option<String>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Params {
        arguments: Option<SessionField>,
        request_state: Option<String>,
        task_id: Option<String>,
        id: Option<String>,
        message: Option<Message>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct SessionField {
        session: Option<String>,
    }
    // The route refuses an unreadable body.
    let parsed: Body = serde_json::from_slice(body).ok()?;
    let params = parsed.params.unwrap_or_default();
    let message = parsed.message.or(params.message).unwrap_or_default();
    let tasks = [params.task_id, params.id, message.task_id];
    if let Some(session) = tasks
        .iter()
        .flatten()
        .find_map(|task| session_of_task(task))
    {
        return Some(session);
    }
    // A repeated call of MCP may name the session in its state alone.
    let state = params.request_state;
    let state = state.and_then(|state| serde_json::from_str(&state).ok());
    let named = parsed.metadata.or(state).or(params.arguments);
    let named = named.and_then(|named| named.session);
    named.or(message.context_id)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0192f0c1-2b3c-7d4e-8f50-616263646566";

    #[test]
    fn the_session_of_a_request_is_found_in_its_path_or_its_body() {
        let rows = [
            (format!("/v1/sessions/{ID}"), true),
            (format!("/v1/sessions/{ID}/turns/x/events"), true),
            (format!("/sessions/{ID}/history"), true),
            (format!("/a2a/tasks/{ID}.{ID}:cancel"), true),
            (format!("/a2a/agents/lead/tasks/{ID}.{ID}"), true),
            ("/a2a/tasks".to_owned(), false),
            ("/v1/sessions".to_owned(), false),
            ("/v1/sessions/latest".to_owned(), false),
            (format!("/v1/approvals/{ID}"), false),
            (format!("/x/sessions/{ID}"), false),
        ];
        for (path, names) in rows {
            assert_eq!(session_in(&path).is_some(), names, "{path}");
        }
        let bodies = rows! {
            (format!(r#"{{"metadata":{{"session":"{ID}"}},"messages":[]}}"#), true),
            (format!(r#"{{"method":"tools/call","params":{{"arguments":{{"session":"{ID}"}}}}}}"#),
             true),
            (format!(r#"{{"params":{{"requestState":"{{\"session\":\"{ID}\",\"turn\":\"t\"}}","arguments":{{"task":"x"}}}}}}"#),
             true),
            (r#"{"params":{"requestState":"x","arguments":{}}}"#.to_owned(), false),
            (r#"{"params":{"arguments":{"session":7}}}"#.to_owned(), false),
            (r#"{"params":{}}"#.to_owned(), false),
            (format!(r#"{{"params":{{"taskId":"{ID}.{ID}"}}}}"#), true),
            (format!(r#"{{"params":{{"id":"{ID}.{ID}"}}}}"#), true),
            (format!(r#"{{"params":{{"message":{{"contextId":"{ID}"}}}}}}"#), true),
            (format!(r#"{{"message":{{"taskId":"{ID}.{ID}"}}}}"#), true),
            ("[1]".to_owned(), false),
            ("{".to_owned(), false),
        };
        for (body, names) in bodies {
            assert_eq!(
                session_in_body(&Bytes::from(body.clone())).is_some(),
                names,
                "{body}"
            );
        }
    }

    #[test]
    fn the_page_that_a_request_came_from_is_one_of_the_daemon_that_answers() {
        for (referer, page) in rows! {
            ("http://127.0.0.1:7007/sessions/a?branch=b", Some("http://10.0.0.5:7007/sessions/a?branch=b")),
            ("https://127.0.0.1:7007/", Some("http://10.0.0.5:7007/")),
            ("http://127.0.0.1:70/", None),
            ("http://127.0.0.1:70071/", None),
            ("http://evil.example/sessions/a", None),
        } {
            let host = (header::HOST, HeaderValue::from_static("127.0.0.1:7007"));
            let referer = (header::REFERER, HeaderValue::from_static(referer));
            let given: HeaderMap = [host, referer].into_iter().collect();
            let page = page.map(HeaderValue::from_static);
            assert_eq!(page_at("http://10.0.0.5:7007/", &given), page);
        }
    }

    #[test]
    fn the_schedule_of_a_request_is_found_in_its_path() {
        for (path, schedule) in rows! {
            ("/v1/schedules/beat/runs", Some("beat")),
            ("/schedules/beat/run", Some("beat")),
            ("/v1/schedules/beat/pause", None),
            ("/schedules/beat", None),
            ("/schedules", None),
        } {
            assert_eq!(schedule_in(path), schedule, "{path}");
        }
    }

    #[test]
    fn a_request_goes_to_the_same_place_of_another_daemon() {
        let uri: Uri = "/v1/sessions/a/events?after=3".parse().unwrap();
        let there = uri_at("http://10.0.0.5:7007/", &uri).unwrap();
        assert_eq!(there, "http://10.0.0.5:7007/v1/sessions/a/events?after=3");
        assert!(uri_at("no address", &uri).is_err());
    }

    #[test]
    fn what_is_about_one_daemon_stays_there() {
        for path in rows! {
            "/healthz", "/readyz", "/metrics", "/v1/cluster", "/v1/cluster/x", "/static/page.css",
            "/v1/agents/reload", "/agents/lead", "/v1/health", "/doctor", "/v1/settings",
        } {
            assert!(is_of_each(path), "{path}");
        }
        for path in rows! {
            "/v1/sessions", "/v1/sessions/x/settings", "/mcp", "/openai/v1/models", "/agents/lead/try", "/",
        } {
            assert!(!is_of_each(path), "{path}");
        }
    }
}
