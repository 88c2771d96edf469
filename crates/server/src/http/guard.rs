//! The checks of every request: host, origin, token, and load.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use tokio::sync::{Semaphore, SemaphorePermit};
use unisono_api::{Code, Problem};
use unisono_context::Digest;

use super::Shared;
use super::audit::Recording;
use super::bodies::BodyPermit;
use super::login;
use super::openai;
use super::people::{self, Identity};
use super::problem::{self, ApiError};
use super::triggers;
use crate::a2a;
use crate::audit::Note;

/// Paths that need no token and no known host, and are answered under any load.
pub(super) const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// Has a proxy such as nginx pass each event on when it comes, and not collect them.
const UNBUFFERED: (HeaderName, &str) = (HeaderName::from_static("x-accel-buffering"), "no");

/// Forms of refused requests that are read at the same time: their senders need no token.
static REFUSED_FORMS: Semaphore = Semaphore::const_new(16);
/// The time in which such a form must come.
const FORM_WITHIN: Duration = Duration::from_secs(5);

/// Answers a request, or says why not in the shape its client knows.
pub(super) async fn guard(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response {
    let recording = Recording::begin(&shared, &mut request);
    let has_body = has_body(request.headers());
    let mut answered = let_through(&shared, request, next).await;
    if has_body && is_refusal(answered.status()) {
        // The connection ends if the body is unread.
        let close = HeaderValue::from_static("close");
        answered.headers_mut().insert(header::CONNECTION, close);
    }
    shared.answers.count(answered.status());
    recording.finish(answered.status().as_u16());
    answered
}

fn has_body(headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH);
    length.is_some_and(|length| length != "0") || headers.contains_key(header::TRANSFER_ENCODING)
}

/// Whether a request may have been refused before its body was read.
fn is_refusal(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PAYLOAD_TOO_LARGE
    )
}

async fn let_through(shared: &Shared, mut request: Request, next: Next) -> Response {
    // Probes name this machine by addresses that no setting has, or not at all.
    if OPEN.contains(&request.uri().path()) {
        request.extensions_mut().insert(Identity::of_daemon());
        return answer(request, next).await;
    }
    let (uri, is_browser) = (
        request.uri().clone(),
        problem::is_browser(request.headers()),
    );
    let refusal = |fault| problem::format_for_client(&uri, is_browser, fault);
    let (parts, body) = request.into_parts();
    let admission = admit(shared, &parts).await;
    let request = Request::from_parts(parts, body);
    match admission {
        Ok(admission) => {
            let answered = answer_admitted(shared, admission, request, next).await;
            answered.unwrap_or_else(refusal)
        }
        Err(fault) => with_form(request, refusal(fault)).await,
    }
}

/// What a request has while it is answered.
struct Admission<'s> {
    who: Identity,
    held: BodyPermit,
    _room: SemaphorePermit<'s>,
}

/// Admits a request, or says why not. Its body is not read.
async fn admit<'s>(shared: &'s Shared, parts: &Parts) -> Result<Admission<'s>, ApiError> {
    let host = host(&parts.headers, &parts.uri)?;
    if !is_known(&shared.hosts, host) {
        return Err(ApiError::new(
            Code::Forbidden,
            format!("{host:?} is not a name of this server; `server.hosts` lists more"),
        ));
    }
    check_origin(&parts.headers, host)?;
    if let Err(wait) = shared.rate.take(Instant::now()) {
        let detail = "more requests than `server.requests_per_second` allows";
        let seconds = wait.as_secs_f64().ceil() as u64;
        return Err(ApiError::new(Code::Busy, detail).retry_after(seconds));
    }
    let who = match is_open(parts.uri.path()) {
        true => Identity::of_daemon(),
        false => {
            let note = Note::from_extensions(&parts.extensions);
            token_identity(shared, &note, &parts.method, &parts.headers).await?
        }
    };
    if *shared.stopping.borrow() {
        return Err(ApiError::new(Code::Unavailable, "the program is stopping"));
    }
    let Ok(room) = shared.requests.try_acquire() else {
        return Err(ApiError::new(
            Code::Busy,
            "as many requests as `server.requests` allows are being answered",
        ));
    };
    Ok(Admission {
        who,
        held: shared.bodies.hold(&parts.headers)?,
        _room: room,
    })
}

async fn answer_admitted(
    shared: &Shared,
    admission: Admission<'_>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let Admission { who, held, _room } = admission;
    let is_one_answer = is_one_answer(request.uri().path());
    let cookies = browser_cookies(request.headers());
    let mut request = request.map(|body| held.body(body, shared.stall));
    let token = who.caller().token();
    request.extensions_mut().insert(who);
    request.extensions_mut().insert(held.share());
    let answering = answer(request, next);
    let answered = match token {
        None => answering.await,
        Some(token) => tokio::select! {
            answered = answering => answered,
            () = shared.local.wait_until_invalid(token) => {
                let detail = "the token was revoked or expired while the request was answered";
                return Err(ApiError::new(Code::Unauthorized, detail));
            }
        },
    };
    let answered = while_valid(shared, token, cookies, (answered, is_one_answer));
    held.share().release();
    held.refusal().map_or(Ok(answered), Err)
}

/// The page of a request that was refused before its form was read, with what a person wrote in it.
pub(super) async fn with_form(request: Request, refusal: Response) -> Response {
    let place = REFUSED_FORMS.try_acquire();
    let has_form = *request.method() == Method::POST && unisono_web::is_page(request.uri().path());
    if place.is_err() || !has_form {
        return refusal;
    }
    let in_time = |body| {
        until(
            body,
            tokio::time::sleep(FORM_WITHIN),
            Some("its time is over"),
        )
    };
    unisono_web::refused_with_way_back(request.map(in_time), refusal).await
}

/// The cookies of a request and the host that they are for, if it has no other secret.
fn browser_cookies(headers: &HeaderMap) -> Option<HeaderMap> {
    if people::has_secret(headers) || !headers.contains_key(header::COOKIE) {
        return None;
    }
    let cookies = headers.get_all(header::COOKIE).iter();
    let cookies = cookies.map(|cookie| (header::COOKIE, cookie.clone()));
    let host = headers.get(header::HOST);
    let host = host.map(|host| (header::HOST, host.clone()));
    Some(cookies.chain(host).collect())
}

/// An answer that is still being sent ends with the token or the login of its reader. Events just end
/// then, anything else breaks off.
fn while_valid(
    shared: &Shared,
    token: Option<Digest>,
    cookies: Option<HeaderMap>,
    (answered, is_one_answer): (Response, bool),
) -> Response {
    let breaks = is_one_answer || !has_events(answered.headers());
    let is_complete = answered.body().size_hint().exact().is_some();
    if is_complete || token.is_none() && cookies.is_none() {
        return answered;
    }
    let (local, logins) = (shared.local.clone(), shared.logins.clone());
    let journal = local.journal().clone();
    let invalid = async move {
        match token {
            Some(token) => local.wait_until_invalid(token).await,
            None => std::future::pending().await,
        }
    };
    let logged_out = async move {
        match cookies {
            Some(cookies) => logins.wait_until_logged_out(cookies, journal).await,
            None => std::future::pending().await,
        }
    };
    let ended = async move {
        tokio::select! {
            () = invalid => {}
            () = logged_out => {}
        }
    };
    let why = breaks.then_some("the token was revoked or expired");
    answered.map(|body| until(body, ended, why))
}

/// Whether an address answers with one answer, also if it comes as events: clients of OpenAI and of AI
/// SDK UI would take its pieces so far for all of it.
pub(super) fn is_one_answer(path: &str) -> bool {
    let is_resumed = || path.ends_with("/stream") && path.contains("/chat/");
    path.starts_with(openai::BASE) || path.ends_with("/chat") || is_resumed()
}

/// Whether an answer is a stream of events.
pub(super) fn has_events(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// A body up to an end that may come earlier. `breaks`: why it breaks off there, because its reader must
/// not take a part for the whole; none: it just ends.
pub(super) fn until(
    body: Body,
    ended: impl Future<Output = ()> + Send + 'static,
    breaks: Option<&'static str>,
) -> Body {
    let pieces = (body.into_data_stream(), Box::pin(ended));
    let pieces = stream::try_unfold(pieces, move |(mut pieces, mut ended)| async move {
        let next = tokio::select! {
            () = &mut ended => None,
            piece = pieces.next() => Some(piece),
        };
        match (next, breaks) {
            (Some(Some(Ok(piece))), _) => Ok(Some((piece, (pieces, ended)))),
            (Some(Some(Err(error))), _) => Err(error),
            (None, Some(why)) => Err(axum::Error::new(why)),
            (Some(None), _) | (None, None) => Ok(None),
        }
    });
    Body::from_stream(pieces)
}

/// Whether a path needs no token: logins, pages about problems, static files of the page, agent
/// cards, and triggers (each has its own secret).
pub(super) fn is_open(path: &str) -> bool {
    path == login::PATH
        || path.starts_with(triggers::BASE)
        || path.starts_with("/problems/")
        || unisono_web::is_asset(path)
        || a2a::is_card(path)
}

/// Whether a path is answered without a token.
pub(super) fn is_free(path: &str) -> bool {
    OPEN.contains(&path) || is_open(path)
}

/// The refusal for connections beyond the limit; paths in [`OPEN`] are still answered.
pub(super) async fn full(uri: Uri) -> Response {
    let detail = "as many connections as `server.connections` allows are open";
    problem::format_for(&uri, ApiError::new(Code::Busy, detail))
}

/// Authenticates a request by its token or its browser session. A change by a browser must come
/// from a page of this server.
async fn authenticate(
    shared: &Shared,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Identity, ApiError> {
    if !people::has_secret(headers)
        && let Some(login) = login::find(shared, headers).await
    {
        if method.is_safe() || headers.contains_key(header::ORIGIN) {
            return people::of_login(shared, login);
        }
        return Err(ApiError::new(
            Code::Forbidden,
            "the request does not say which page it is from",
        ));
    }
    people::by_secret(shared, bearer(headers)?, headers).await
}

/// Identifies the caller and notes it for the audit log, also with an expired token.
async fn token_identity(
    shared: &Shared,
    note: &Note,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Identity, ApiError> {
    let known = authenticate(shared, method, headers).await;
    match &known {
        Ok(who) => note.set_caller(who.caller()),
        Err(_) => {
            if let Some(expired) = people::expired(shared, headers) {
                note.set_caller(expired.caller());
            }
        }
    }
    known
}

async fn answer(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let fixed = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "same-origin"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
    ];
    for (name, value) in fixed {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    if has_events(headers) {
        let (name, value) = UNBUFFERED;
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn host<'r>(headers: &'r HeaderMap, uri: &'r Uri) -> Result<&'r str, ApiError> {
    let mut named = headers.get_all(header::HOST).iter();
    let (first, more) = (named.next(), named.next());
    let named = first
        .filter(|_| more.is_none())
        .and_then(|host| host.to_str().ok());
    let host = uri
        .authority()
        .map(|authority| authority.as_str())
        .or(named);
    host.ok_or_else(|| ApiError::new(Code::InvalidRequest, "the request names no host"))
}

/// Whether a host, without its port, is allowed.
fn is_known(hosts: &[String], host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Rejects requests that a browser sends from a page of another site.
fn check_origin(headers: &HeaderMap, host: &str) -> Result<(), ApiError> {
    let Some(origin) = headers.get(header::ORIGIN) else {
        return Ok(());
    };
    let own = origin.to_str().ok().and_then(|origin| {
        let plain = origin.strip_prefix("http://");
        plain.or_else(|| origin.strip_prefix("https://"))
    });
    if own.is_some_and(|own| own.eq_ignore_ascii_case(host)) {
        return Ok(());
    }
    Err(ApiError::new(
        Code::Forbidden,
        "pages of other origins are not served",
    ))
}

/// The token a request carries.
fn bearer(headers: &HeaderMap) -> Result<&str, ApiError> {
    let text = headers
        .get(header::AUTHORIZATION)
        .and_then(|text| text.to_str().ok());
    let (scheme, token) = text
        .and_then(|text| text.split_once(' '))
        .ok_or_else(|| missing("there is no `Authorization: Bearer <token>`"))?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(missing("the authorization must be `Bearer <token>`"));
    }
    Ok(token.trim())
}

fn missing(detail: &str) -> ApiError {
    ApiError::from(Problem::new(Code::Unauthorized, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_a_token_events_end_and_a_file_breaks_off() {
        for (why, breaks) in [(None, false), (Some("so"), true)] {
            let first = stream::once(async { Ok::<_, std::io::Error>("a") });
            let body = Body::from_stream(first.chain(stream::pending()));
            let (end, ended) = tokio::sync::oneshot::channel::<()>();
            let ended = async move { _ = ended.await };
            let mut pieces = until(body, ended, why).into_data_stream();
            assert_eq!(pieces.next().await.unwrap().unwrap(), "a");
            end.send(()).unwrap();
            let last = pieces.next().await;
            assert_eq!(last.is_some_and(|last| last.is_err()), breaks);
        }
        let whole = until(Body::from("all"), std::future::pending(), Some("so"));
        let mut pieces = whole.into_data_stream();
        assert_eq!(pieces.next().await.unwrap().unwrap(), "all");
        assert!(pieces.next().await.is_none());
    }

    #[test]
    fn an_answer_that_cannot_be_resumed_is_known_by_its_address() {
        for (path, expected) in [
            ("/openai/v1/chat/completions", true),
            ("/openai/v1/responses", true),
            ("/v1/sessions/s/chat", true),
            ("/v1/sessions/s/chat/any/stream", true),
            ("/v1/sessions/s/events", false),
            ("/v1/sessions/s/turns/t/events", false),
            ("/a2a/message:stream", false),
        ] {
            assert_eq!(is_one_answer(path), expected, "{path}");
        }
    }

    #[test]
    fn a_host_is_known_by_its_name_whatever_its_port() {
        let hosts = ["127.0.0.1", "localhost", "[::1]"].map(str::to_owned);
        let known = [
            "localhost",
            "LOCALHOST:7007",
            "127.0.0.1:1",
            "[::1]",
            "[::1]:7007",
        ];
        for host in known {
            assert!(is_known(&hosts, host), "{host}");
        }
        let unknown = [
            "",
            "evil.example",
            "localhost.evil.example:80",
            "127.0.0.1:x",
            "[::2]:1",
        ];
        for host in unknown {
            assert!(!is_known(&hosts, host), "{host}");
        }
    }
}
