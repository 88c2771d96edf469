//! Identifies the caller of a request: by the daemon's token, by a token of a person or program, by the
//! login of a browser, or by a header from a proxy or another daemon.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue};
use tokio::sync::watch;
use unisono::Local;
use unisono::caller::Caller;
use unisono::tokens::{Table, caller_of};
use unisono_api::Code;
use unisono_api::audit::DAEMON;
use unisono_api::token::{NAME_CHARS, Scope, is_name};
use unisono_config::settings::{Server, UserScope};
use unisono_context::{Digest, Timestamp};
use unisono_runtime::clock;
use unisono_store::tokens::Token;

use super::login::Login;
use super::problem::ApiError;
use super::{Error, Shared};

/// The header in which a daemon names the caller of a forwarded request. It is ignored without the
/// daemon's token.
pub(super) const CALLER: HeaderName = HeaderName::from_static("unisono-caller");
/// Minimum period between two reads of the store for unknown tokens.
const READ_EVERY: Duration = Duration::from_millis(250);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    caller: Caller,
}

impl Identity {
    fn of_token(token: &Token) -> Identity {
        Identity {
            caller: caller_of(token),
        }
    }

    /// The identity of the daemon's token, which may do everything.
    pub(super) fn of_daemon() -> Identity {
        Identity::default()
    }

    /// The caller, unless it has the daemon's token.
    pub(super) fn limited(&self) -> Option<&Caller> {
        self.caller.name().map(|_| &self.caller)
    }

    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The header that names the caller to another daemon.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        let text = match (self.caller.token(), self.caller.owner()) {
            (Some(token), _) => format!("token {token}"),
            (None, Some(owner)) => format!("user {owner}"),
            (None, None) => return None,
        };
        HeaderValue::from_str(&text).ok()
    }
}

/// The known tokens, and the settings for users of a proxy.
pub(crate) struct People {
    tokens: watch::Receiver<Arc<Table>>,
    read_at: Mutex<Option<Instant>>,
    /// The header in which a proxy names the user.
    user_header: Option<HeaderName>,
    user_scope: Scope,
    requests_per_minute: u32,
}

impl People {
    /// # Errors
    /// `server.trusted_user_header` is not a valid header name.
    pub(super) async fn open(local: &Local, settings: &Server) -> Result<People, Error> {
        let user_header = match settings.trusted_user_header.as_str() {
            "" => None,
            name => Some(
                name.parse()
                    .map_err(|_| Error::UserHeader(name.to_owned()))?,
            ),
        };
        if let Err(error) = local.take_tokens().await {
            tracing::warn!(%error, "the tokens cannot be read now; they are read again later");
        }
        Ok(People {
            tokens: local.known_tokens(),
            read_at: Mutex::default(),
            user_header,
            user_scope: match settings.trusted_user_scope {
                UserScope::Read => Scope::Read,
                UserScope::Ask => Scope::Ask,
                UserScope::Approve => Scope::Approve,
            },
            requests_per_minute: settings.token_requests_per_minute,
        })
    }

    pub(super) fn user_header(&self) -> Option<&HeaderName> {
        self.user_header.as_ref()
    }

    pub(super) fn requests_per_minute(&self) -> u32 {
        self.requests_per_minute
    }

    fn table(&self) -> Arc<Table> {
        self.tokens.borrow().clone()
    }

    /// Whether the store may be read again for unknown tokens and browsers.
    pub(super) fn may_read(&self, now: Instant) -> bool {
        let mut read_at = self.read_at.lock().unwrap_or_else(PoisonError::into_inner);
        if read_at.is_some_and(|read_at| now.duration_since(read_at) < READ_EVERY) {
            return false;
        }
        *read_at = Some(now);
        true
    }
}

/// Identifies the caller of a request with this secret and these headers.
pub(super) async fn by_secret(
    shared: &Shared,
    secret: &str,
    headers: &HeaderMap,
) -> Result<Identity, ApiError> {
    if shared.token.matches(secret) {
        return by_header(shared, headers).await;
    }
    let digest = Digest::of_bytes(secret.as_bytes());
    match find_token(shared, digest).await {
        Some(token) => of_token(&token, clock::now()),
        None => Err(ApiError::new(Code::Unauthorized, "the token is wrong")),
    }
}

/// Identifies the caller of a request with the daemon's token. A header from a proxy or another daemon may
/// name the caller. The header of the proxy counts first: its clients could send that of daemons.
async fn by_header(shared: &Shared, headers: &HeaderMap) -> Result<Identity, ApiError> {
    let people = &shared.people;
    if let Some(header) = &people.user_header {
        let mut named = headers.get_all(header).iter();
        match (named.next(), named.next()) {
            (None, _) => {}
            (Some(name), None) => {
                return user(people.user_scope, name.to_str().unwrap_or_default());
            }
            _ => {
                let detail = format!("the header {header} names several users");
                return Err(ApiError::new(Code::InvalidRequest, detail));
            }
        }
    }
    let Some(value) = headers.get(CALLER) else {
        return Ok(Identity::of_daemon());
    };
    let value = value.to_str().ok().and_then(|value| value.split_once(' '));
    match value {
        Some(("token", hex)) => {
            let digest = hex.parse::<Digest>().map_err(|_| unreadable())?;
            match find_token(shared, digest).await {
                Some(token) => of_token(&token, clock::now()),
                None => Err(ApiError::new(Code::Unauthorized, "the token is revoked")),
            }
        }
        Some(("user", name)) => user(people.user_scope, name),
        _ => Err(unreadable()),
    }
}

fn unreadable() -> ApiError {
    ApiError::new(
        Code::InvalidRequest,
        format!("the header {CALLER} has an unreadable value"),
    )
}

/// The identity of a user named by a proxy or by another daemon.
fn user(scope: Scope, name: &str) -> Result<Identity, ApiError> {
    if name == DAEMON {
        let detail = format!("no user can have the name {DAEMON:?}: the daemon's own token has it");
        return Err(ApiError::new(Code::Forbidden, detail));
    }
    if !is_name(name) {
        let detail = format!(
            "{name:?} is not a valid user name: use 1 to {NAME_CHARS} letters, digits and `-_.@+`"
        );
        return Err(ApiError::new(Code::Forbidden, detail));
    }
    Ok(Identity {
        caller: Caller::new(name, scope, Some(name.into())),
    })
}

/// Identifies the caller of a link. Another daemon may have just created its token.
pub(super) async fn of_link(shared: &Shared, login: Login) -> Result<Identity, ApiError> {
    if let Some(digest) = login.token {
        find_token(shared, digest).await;
    }
    of_login(shared, login)
}

/// Identifies the caller of a browser login by the token that made its link.
pub(super) fn of_login(shared: &Shared, login: Login) -> Result<Identity, ApiError> {
    let Some(digest) = login.token else {
        return Ok(Identity::of_daemon());
    };
    let table = shared.people.table();
    match table.of_digest(digest) {
        Some(token) => of_token(token, clock::now()),
        None => Err(ApiError::new(
            Code::Unauthorized,
            "the token of this login is revoked; log in with another link",
        )),
    }
}

/// The login with a token; none if the token is unknown, revoked or expired.
pub(super) async fn login_with(shared: &Shared, secret: &str) -> Option<Login> {
    if shared.token.matches(secret) {
        return Some(Login::default());
    }
    let token = find_token(shared, Digest::of_bytes(secret.as_bytes())).await?;
    let is_valid = !token.is_expired(clock::now());
    is_valid.then_some(Login {
        token: Some(token.digest),
    })
}

fn of_token(token: &Token, now: Timestamp) -> Result<Identity, ApiError> {
    match token.is_expired(now) {
        false => Ok(Identity::of_token(token)),
        true => {
            let detail = format!("the token {} has expired; use another one", token.name);
            Err(ApiError::new(Code::Unauthorized, detail))
        }
    }
}

/// The token with that digest. If several programs use the store, it reads the new tokens of the others
/// first.
async fn find_token(shared: &Shared, digest: Digest) -> Option<Arc<Token>> {
    let people = &shared.people;
    if let Some(token) = people.table().of_digest(digest) {
        return Some(token.clone());
    }
    if shared.local.beats().is_some() && people.may_read(Instant::now()) {
        if let Err(error) = shared.local.take_tokens().await {
            tracing::warn!(%error, "new tokens of other programs cannot be read now; requests with them are refused");
        }
        return people.table().of_digest(digest).cloned();
    }
    None
}

/// Reads the token changes of other programs on the same database, at each beat that announces one.
pub(super) async fn follow(shared: Arc<Shared>) {
    let Some(mut beats) = shared.local.beats() else {
        return;
    };
    let mut read = None;
    // If the sender is gone, so is the store.
    while beats.changed().await.is_ok() {
        let current = {
            let beat = beats.borrow_and_update();
            // After a lapse the database may have been set back, and changed again since.
            (beat.documents, beat.lapses)
        };
        if read == Some(current) {
            continue;
        }
        match shared.local.take_tokens().await {
            Ok(()) => read = Some(current),
            Err(error) => {
                tracing::warn!(%error, "token changes of other programs cannot be read now; revoked tokens may still be accepted");
            }
        }
    }
}

/// The identity of an expired token in a refused request, if the token is known.
pub(super) fn expired(shared: &Shared, headers: &HeaderMap) -> Option<Identity> {
    let bearer = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (_, secret) = bearer.split_once(' ')?;
    let table = shared.people.table();
    table
        .of_secret(secret.trim())
        .map(|token| Identity::of_token(token))
}

/// Whether a request has an `Authorization` header; without one, a browser may have a login.
pub(super) fn has_secret(headers: &HeaderMap) -> bool {
    headers.contains_key(header::AUTHORIZATION)
}
