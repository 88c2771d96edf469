//! Who asks: by the daemon's token, by a token of a person or program, by the login of a browser, or
//! by the word of a proxy or of another daemon.

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
use unisono_api::token::{Scope, is_name};
use unisono_config::settings::{Server, UserScope};
use unisono_context::{Digest, Timestamp};
use unisono_runtime::clock;
use unisono_store::tokens::Token;

use super::login::Login;
use super::problem::ApiError;
use super::{Error, Shared};

/// The header by which a daemon says for whom it passes a request on. It counts only beside the token
/// of the daemons.
pub(super) const CALLER: HeaderName = HeaderName::from_static("unisono-caller");
/// How often the store is asked at most whether an unknown token was made meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    caller: Caller,
    /// The digest of the token by which the caller is known; none: it needs none.
    token: Option<Digest>,
}

impl Identity {
    fn of_token(token: &Token) -> Identity {
        Identity {
            caller: caller_of(token),
            token: Some(token.digest),
        }
    }

    /// Whoever has the daemon's token.
    pub(super) fn whole() -> Identity {
        Identity::default()
    }

    /// The caller, where it is not the one that may do everything.
    pub(super) fn limited(&self) -> Option<&Caller> {
        self.caller.name().map(|_| &self.caller)
    }

    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(super) fn token(&self) -> Option<Digest> {
        self.token
    }

    /// What another daemon is told of the caller.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        let text = match (self.token, self.caller.owner()) {
            (Some(token), _) => format!("token {token}"),
            (None, Some(owner)) => format!("user {owner}"),
            (None, None) => return None,
        };
        HeaderValue::from_str(&text).ok()
    }
}

/// What is known of people.
pub(crate) struct People {
    tokens: watch::Receiver<Arc<Table>>,
    asked: Mutex<Option<Instant>>,
    /// The header by which a proxy names the user.
    user_header: Option<HeaderName>,
    user_scope: Scope,
    requests_per_minute: u32,
}

impl People {
    /// # Errors
    /// The setting of the header is no name of one.
    pub(super) async fn open(local: &Local, settings: &Server) -> Result<People, Error> {
        let user_header = match settings.trusted_user_header.as_str() {
            "" => None,
            name => Some(
                name.parse()
                    .map_err(|_| Error::UserHeader(name.to_owned()))?,
            ),
        };
        if let Err(error) = local.take_tokens().await {
            tracing::warn!(%error, "tokens of people are not known yet");
        }
        Ok(People {
            tokens: local.known_tokens(),
            asked: Mutex::default(),
            user_header,
            user_scope: match settings.trusted_user_scope {
                UserScope::Read => Scope::Read,
                UserScope::Ask => Scope::Ask,
                UserScope::Approve => Scope::Approve,
            },
            requests_per_minute: settings.token_requests_per_minute,
        })
    }

    pub(super) fn requests_per_minute(&self) -> u32 {
        self.requests_per_minute
    }

    fn table(&self) -> Arc<Table> {
        self.tokens.borrow().clone()
    }

    /// Ends when a token is revoked or expires.
    pub(super) async fn ended(&self, token: Digest) {
        let mut tokens = self.tokens.clone();
        let expires = self
            .table()
            .of_digest(token)
            .and_then(|token| token.expires);
        let revoked = tokens.wait_for(|table| table.of_digest(token).is_none());
        tokio::select! {
            // Whoever would tell is gone: so is the daemon.
            _ = revoked => {}
            () = passed(expires) => {}
        }
    }

    /// Whether it is time to ask the store again.
    fn may_ask(&self, now: Instant) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.is_some_and(|asked| now.duration_since(asked) < ASK_EVERY) {
            return false;
        }
        *asked = Some(now);
        true
    }
}

/// Waits for an instant; for none, forever.
async fn passed(at: Option<Timestamp>) {
    let Some(at) = at else {
        return std::future::pending().await;
    };
    loop {
        let left = at.0.saturating_sub(clock::now().0);
        let Ok(left @ 1..) = u64::try_from(left) else {
            return;
        };
        // A clock may be set: it is looked at again.
        let left = Duration::from_millis(left).min(Duration::from_secs(60));
        tokio::time::sleep(left).await;
    }
}

/// Who makes a request that carries this secret; `headers` are those of the request.
pub(super) async fn by_secret(
    shared: &Shared,
    secret: &str,
    headers: &HeaderMap,
) -> Result<Identity, ApiError> {
    if shared.token.is(secret) {
        return by_word(shared, headers).await;
    }
    let digest = Digest::of_bytes(secret.as_bytes());
    match known(shared, digest).await {
        Some(token) => of_token(&token, clock::now()),
        None => Err(ApiError::new(Code::Unauthorized, "the token is wrong")),
    }
}

/// For whom a request is made that carries the daemon's token: another daemon or a proxy says so.
async fn by_word(shared: &Shared, headers: &HeaderMap) -> Result<Identity, ApiError> {
    let people = &shared.people;
    if let Some(said) = headers.get(CALLER) {
        let said = said.to_str().ok().and_then(|said| said.split_once(' '));
        let token = |hex: &str| hex.parse::<Digest>().ok();
        return match said {
            Some(("token", hex)) => match token(hex) {
                Some(digest) => match known(shared, digest).await {
                    Some(token) => of_token(&token, clock::now()),
                    None => Err(ApiError::new(Code::Unauthorized, "the token is revoked")),
                },
                None => Err(unreadable()),
            },
            Some(("user", name)) => user(people.user_scope, name),
            _ => Err(unreadable()),
        };
    }
    let Some(header) = &people.user_header else {
        return Ok(Identity::whole());
    };
    let mut named = headers.get_all(header).iter();
    match (named.next(), named.next()) {
        (None, _) => Ok(Identity::whole()),
        (Some(name), None) => user(people.user_scope, name.to_str().unwrap_or_default()),
        _ => Err(ApiError::new(
            Code::InvalidRequest,
            format!("the header {header} names several users"),
        )),
    }
}

fn unreadable() -> ApiError {
    ApiError::new(Code::InvalidRequest, format!("{CALLER} names nobody"))
}

/// A person whom a proxy names.
fn user(scope: Scope, name: &str) -> Result<Identity, ApiError> {
    if name == DAEMON {
        let detail = format!("{DAEMON:?} is the daemon's own token, and no user");
        return Err(ApiError::new(Code::Forbidden, detail));
    }
    if !is_name(name) {
        let detail = format!(
            "the user {name:?} has other characters than letters, digits and `-_.@+`, or too many"
        );
        return Err(ApiError::new(Code::Forbidden, detail));
    }
    Ok(Identity {
        caller: Caller::new(name, scope, Some(name.into())),
        token: None,
    })
}

/// Who came by a link, and whose link it was.
pub(super) fn of_login(shared: &Shared, login: Login) -> Result<Identity, ApiError> {
    let Some(digest) = login.token else {
        return Ok(Identity::whole());
    };
    let table = shared.people.table();
    match table.of_digest(digest) {
        Some(token) => of_token(token, clock::now()),
        None => Err(ApiError::new(
            Code::Unauthorized,
            "the token of this login is revoked; ask for another link",
        )),
    }
}

fn of_token(token: &Token, now: Timestamp) -> Result<Identity, ApiError> {
    match token.is_expired(now) {
        false => Ok(Identity::of_token(token)),
        true => {
            let detail = format!("the token {} has expired; ask for another one", token.name);
            Err(ApiError::new(Code::Unauthorized, detail))
        }
    }
}

/// The token with that digest. Where several programs use the store, another one may have made it just
/// now.
async fn known(shared: &Shared, digest: Digest) -> Option<Arc<Token>> {
    let people = &shared.people;
    if let Some(token) = people.table().of_digest(digest) {
        return Some(token.clone());
    }
    if shared.local.beats().is_some() && people.may_ask(Instant::now()) {
        if let Err(error) = shared.local.take_tokens().await {
            tracing::warn!(%error, "tokens that another program made are not known");
        }
        return people.table().of_digest(digest).cloned();
    }
    None
}

/// Reads what other programs on the same database wrote about tokens, at each beat that says so.
pub(super) async fn follow(shared: Arc<Shared>) {
    let Some(mut beats) = shared.local.beats() else {
        return;
    };
    let mut read = None;
    // If the sender is gone, so is the store.
    while beats.changed().await.is_ok() {
        let documents = beats.borrow_and_update().documents;
        if read == Some(documents) {
            continue;
        }
        match shared.local.take_tokens().await {
            Ok(()) => read = Some(documents),
            Err(error) => {
                tracing::warn!(%error, "tokens that another program revoked may still be taken");
            }
        }
    }
}

/// Whose token a refused request carries, where that is known: it has expired.
pub(super) fn expired(shared: &Shared, headers: &HeaderMap) -> Option<Identity> {
    let bearer = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (_, secret) = bearer.split_once(' ')?;
    let table = shared.people.table();
    table
        .of_secret(secret.trim())
        .map(|token| Identity::of_token(token))
}

/// Whether a request says who makes it: else a browser may be known.
pub(super) fn has_secret(headers: &HeaderMap) -> bool {
    headers.contains_key(header::AUTHORIZATION)
}
