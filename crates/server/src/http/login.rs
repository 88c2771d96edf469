//! `/v1/login-links` and `/login`: a one-time link, or a form, logs a browser in.

mod cookies;
mod form;
mod lines;
mod sharing;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use blake3::Hash;
use serde::Deserialize;
use tokio::sync::watch;
use unisono_api::Code;
use unisono_api::session::Link as NewLink;
use unisono_context::{Digest, Timestamp};
use unisono_runtime::clock;

use super::Shared;
use super::extract::Query;
use super::hosts::origin;
use super::people::{self, Identity};
use super::problem::{self, ApiError};
use super::token::{Token, digest, random};
use crate::audit::Note;
use unisono_store::Journal;
use unisono_store::private::write_atomically;

pub(super) use form::submit;
pub(super) use sharing::{find, new_link, take};
use sharing::{forget_everywhere, log_in};

/// The path of links and of the form.
pub(super) const PATH: &str = "/login";
/// Maximum number of logged-in browsers of a token, and of its links; the oldest is logged out.
const BROWSERS: usize = 64;

/// Lifetime of a link in milliseconds: one hour.
const LINK_MS: u64 = 60 * 60 * 1_000;
/// Lifetime of a browser's login in milliseconds: 30 days.
const KNOWN_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
/// The file of browsers in the store's directory.
const FILE: &str = "browsers";

/// Why a login is refused.
const NO_CODE: &str = "The address has no code, so it is not a login link.";
const INVALID: &str =
    "This link was used before, is older than an hour, or is not one of this daemon's.";
const NO_TOKEN: &str = "The token that this link was made with is revoked or has expired.";

/// One-time links and the browsers that used one. Only keyed digests of their secrets are stored,
/// with the token as the key: a new token logs all browsers out.
#[derive(Debug)]
pub(super) struct Logins {
    key: [u8; 32],
    /// `None` if logins end with the program.
    file: Option<PathBuf>,
    entries: Mutex<Entries>,
    /// Notified when a browser is logged out.
    logouts: watch::Sender<()>,
    /// Held while the shared text is read or replaced, so that an older text never replaces a newer
    /// one.
    sharing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Entries {
    links: Vec<Link>,
    browsers: Vec<Browser>,
}

/// An unused link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    code: Hash,
    made: Timestamp,
    login: Login,
}

/// The login of a link or a browser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Login {
    /// The digest of its token; none for the daemon's own token.
    pub(super) token: Option<Digest>,
}

/// The evidence with which a browser logs in.
#[derive(Clone)]
enum Proof {
    /// The code of an unused link.
    Code(String),
    /// A token that was checked.
    Token(Login),
}

/// A browser that has just logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NewLogin {
    /// The secret of its cookie.
    secret: String,
    login: Login,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Browser {
    secret: Hash,
    since: Timestamp,
    login: Login,
}

impl Logins {
    /// Opens the logins of a store. Without a directory they are only in memory.
    pub(super) fn open(store: &Path, token: &Token) -> Logins {
        let file = store.is_dir().then(|| store.join(FILE));
        let text = file.as_ref().map(fs::read_to_string);
        let text = match text {
            Some(Ok(text)) => text,
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "the file of logins cannot be read; browsers must log in again");
                String::new()
            }
            _ => String::new(),
        };
        Logins {
            key: token.key(),
            file,
            entries: Mutex::new(Entries {
                links: Vec::new(),
                browsers: text.lines().filter_map(Browser::read).collect(),
            }),
            logouts: watch::Sender::default(),
            sharing: tokio::sync::Mutex::default(),
        }
    }

    /// Adds a one-time link with this code.
    fn link(&self, code: &str, made: Timestamp, login: Login) {
        let link = Link {
            code: digest(code),
            made,
            login,
        };
        self.with_entries(|known| {
            known.links.retain(|link| link.is_valid(made));
            if !known.links.contains(&link) {
                keep(&mut known.links, link, |link| link.login);
            }
        });
    }

    /// Whether a browser with that secret is logged in.
    fn has(&self, secret: &str) -> bool {
        let secret = self.digest(secret);
        self.with_entries(|known| known.browsers.iter().any(|one| one.secret == secret))
    }

    /// Uses a link. Returns the new browser if the link was valid.
    fn enter(&self, code: &str, now: Timestamp) -> io::Result<Option<NewLogin>> {
        let (secret, code) = (random()?, digest(code));
        Ok(self.with_entries(|known| {
            known.links.retain(|link| link.is_valid(now));
            let at = known.links.iter().position(|link| link.code == code)?;
            let login = known.links.remove(at).login;
            Some(self.add(known, secret, login, now))
        }))
    }

    /// Logs a browser in whose token was checked.
    fn enter_by_token(&self, login: Login, now: Timestamp) -> io::Result<NewLogin> {
        let secret = random()?;
        Ok(self.with_entries(|known| self.add(known, secret, login, now)))
    }

    fn add(&self, known: &mut Entries, secret: String, login: Login, now: Timestamp) -> NewLogin {
        let browser = Browser {
            secret: self.digest(&secret),
            since: now,
            login,
        };
        known.browsers.retain(|browser| browser.is_known(now));
        keep(&mut known.browsers, browser, |browser| browser.login);
        self.write(&known.browsers);
        NewLogin { secret, login }
    }

    /// The login of the browser that sent a request; none without a login.
    fn login(&self, headers: &HeaderMap, now: Timestamp) -> Option<Login> {
        let mut all = cookies::from_headers(headers).into_iter();
        self.with_entries(|known| {
            all.find_map(|cookie| {
                let secret = self.digest(cookie.secret);
                let mut browsers = known.browsers.iter();
                let found = browsers.find(|one| one.secret == secret && one.is_known(now));
                found.map(|browser| browser.login)
            })
        })
    }

    fn forget(&self, secret: &str) {
        let secret = self.digest(secret);
        self.with_entries(|known| {
            known.browsers.retain(|browser| browser.secret != secret);
            self.write(&known.browsers);
        });
        self.logouts.send_replace(());
    }

    /// Ends when the browser that sent a request is logged out; never without a login.
    pub(super) async fn wait_until_logged_out(
        self: Arc<Self>,
        headers: HeaderMap,
        journal: Journal,
    ) {
        let mut logouts = self.logouts.subscribe();
        let has_login = || self.login(&headers, clock::store_now(&journal)).is_some();
        if !has_login() {
            return std::future::pending().await;
        }
        while has_login() && logouts.changed().await.is_ok() {}
    }

    /// The shared text for other members, for [`Logins::take`].
    fn text(&self) -> String {
        self.with_entries(|known| {
            let links = known.links.iter();
            let links = links.map(Link::line);
            links
                .chain(known.browsers.iter().map(Browser::line))
                .collect()
        })
    }

    /// Replaces links and browsers by those of the shared text. A logout at one daemon is a logout at
    /// all of them.
    fn take(&self, text: &str) {
        self.with_entries(|known| {
            known.links = text.lines().filter_map(Link::read).collect();
            known.browsers = text.lines().filter_map(Browser::read).collect();
            self.write(&known.browsers);
        });
        self.logouts.send_replace(());
    }

    fn digest(&self, secret: &str) -> Hash {
        blake3::keyed_hash(&self.key, secret.as_bytes())
    }

    /// Stores the browsers for the next start. After a failure their logins end with the program.
    fn write(&self, browsers: &[Browser]) {
        let Some(file) = &self.file else { return };
        let lines = browsers.iter().map(Browser::line);
        if let Err(error) = write_atomically(file, &lines.collect::<String>()) {
            tracing::warn!(%error, "a browser has to log in again when the daemon is started again");
        }
    }

    fn with_entries<T>(&self, use_it: impl FnOnce(&mut Entries) -> T) -> T {
        // Nothing in it can be half done.
        use_it(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Adds an entry. Of too many with its login the oldest leaves: nobody logs others out.
fn keep<T>(all: &mut Vec<T>, one: T, login: impl Fn(&T) -> Login) {
    let own = login(&one);
    let mut same = (0..all.len()).filter(|at| login(&all[*at]) == own);
    let oldest = same.next();
    if let Some(oldest) = oldest.filter(|_| same.count() + 1 >= BROWSERS) {
        all.remove(oldest);
    }
    all.push(one);
}

/// Creates a link with which one browser can log in once, as the caller.
#[utoipa::path(
    post, path = "/v1/login-links", tag = "about", security(("token" = [])),
    responses((status = 201, description = "The link", body = NewLink))
)]
pub(super) async fn link(
    State(shared): State<Arc<Shared>>,
    Extension(who): Extension<Identity>,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<NewLink>), ApiError> {
    let token = who.caller().token();
    if who.limited().is_some() && token.is_none() {
        let detail = "a person whom a proxy names needs no link";
        return Err(ApiError::new(Code::Refused, detail));
    }
    let origin = origin_for(&shared, &headers);
    let made = new_link(&shared, &origin, Login { token }).await;
    let url = made.map_err(|error| ApiError::new(Code::Failed, error.to_string()))?;
    Ok((StatusCode::CREATED, Json(NewLink { url })))
}

/// The beginning of addresses at the host of a request.
fn origin_for(shared: &Shared, headers: &HeaderMap) -> String {
    // The guard has checked it.
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let setup = shared.local.setup();
    let public = &setup.loaded.config.server.public_url;
    origin(host.unwrap_or_default(), public)
}

#[derive(Debug, Deserialize)]
pub(super) struct LinkQuery {
    code: String,
}

/// Logs a browser in by a one-time link. HEAD, which previews send, does not use the link. A browser
/// gets a page that says why a link does not work; a program gets a problem.
pub(super) async fn enter(
    method: Method,
    State(shared): State<Arc<Shared>>,
    Extension(note): Extension<Note>,
    link: Result<Query<LinkQuery>, ApiError>,
    headers: HeaderMap,
) -> Response {
    if method == Method::HEAD {
        return StatusCode::OK.into_response();
    }
    let _sharing = shared.logins.sharing.lock().await;
    let new = match &link {
        Ok(Query(LinkQuery { code })) => log_in(&shared, &Proof::Code(code.clone())).await,
        Err(_) => Ok(None),
    };
    match new {
        Ok(Some(new)) => welcome(&shared, &note, &headers, (new, "/")).await,
        // A link that was used is opened again, in the same browser.
        Ok(None) if sharing::known(&shared, &headers).is_some() => {
            Redirect::to("/").into_response()
        }
        Ok(None) => refuse(&headers, if link.is_ok() { INVALID } else { NO_CODE }, None),
        Err(error) => fail(&headers, error),
    }
}

/// Answers a login with the cookie of the new browser, and leads it to a page.
async fn welcome(
    shared: &Shared,
    note: &Note,
    headers: &HeaderMap,
    (new, page): (NewLogin, &str),
) -> Response {
    let NewLogin { secret, login } = new;
    match people::of_link(shared, login).await {
        Ok(who) => note.set_caller(who.caller()),
        Err(_) => return refuse(headers, NO_TOKEN, Some(page)),
    }
    note.operation("login", Vec::new());
    let has_tls = origin_for(shared, headers).starts_with("https://");
    let text = cookies::set(&cookies::name_for(headers), &secret, has_tls);
    match HeaderValue::from_str(&text) {
        Ok(cookie) => ([(header::SET_COOKIE, cookie)], Redirect::to(page)).into_response(),
        Err(error) => ApiError::new(Code::Failed, error.to_string()).into_response(),
    }
}

/// Answers with an error: as a page for a browser, as a problem for a program.
fn fail(headers: &HeaderMap, error: ApiError) -> Response {
    match problem::is_browser(headers) {
        true => unisono_web::problem(error.problem()),
        false => error.into_response(),
    }
}

/// Refuses a login: with a page that says how to get another link for a browser, with a problem for a
/// program. `page`: where the form of that page leads to.
fn refuse(headers: &HeaderMap, why: &str, page: Option<&str>) -> Response {
    match problem::is_browser(headers) {
        true => unisono_web::refused(why, page),
        false => {
            let detail = "the login link is not valid; POST /v1/login-links creates another one";
            ApiError::new(Code::Unauthorized, detail).into_response()
        }
    }
}

/// Logs a browser out. It stays logged in at other daemons of the host. If the daemons on the same
/// database cannot know of the logout, it is refused: they would log the browser in again.
pub(super) async fn leave(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let _sharing = shared.logins.sharing.lock().await;
    let own = cookies::name_for(&headers);
    let left = cookies::from_headers(&headers).into_iter();
    let left: Vec<(String, String)> = left
        .filter(|cookie| cookie.name == own || shared.logins.has(cookie.secret))
        .map(|cookie| (cookie.name.to_owned(), cookie.secret.to_owned()))
        .collect();
    if !forget_everywhere(&shared, &left).await {
        let detail = "the database does not respond, so nobody can log out: try again later";
        return fail(&headers, ApiError::new(Code::Unavailable, detail));
    }
    let mut response = Redirect::to("/").into_response();
    for (name, _) in &left {
        if let Ok(gone) = HeaderValue::from_str(&cookies::removed(name)) {
            response.headers_mut().append(header::SET_COOKIE, gone);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(cookie: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_str(cookie).unwrap());
        headers
    }

    #[test]
    fn a_link_of_one_daemon_lets_a_browser_in_at_another_and_is_used_up_for_both() {
        let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let token = Token::open(&places[0].path().join("token")).unwrap();
        let [one, other] = places
            .each_ref()
            .map(|place| Logins::open(place.path(), &token));
        let (code, now) = (random().unwrap(), Timestamp(1_000));
        one.link(&code, now, Login::default());
        other.take(&one.text());
        let secret = other.enter(&code, now).unwrap().unwrap().secret;
        one.take(&other.text());
        assert_eq!(one.enter(&code, now).unwrap(), None);
        let cookie = with(&format!("unisono={secret}"));
        assert!(one.login(&cookie, now).is_some() && other.login(&cookie, now).is_some());
        assert!(!one.text().contains(&secret) && !one.text().contains(&code));
        other.forget(&secret);
        one.take(&format!("garbage\nlink x\n{}", other.text()));
        assert!(one.login(&cookie, now).is_none(), "logged out at all");
    }

    #[test]
    fn a_browser_is_logged_in_at_several_daemons_of_one_host() {
        let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        // Daemons of one user have one token.
        let token = Token::open(&places[0].path().join("token")).unwrap();
        let [one, other] = places
            .each_ref()
            .map(|place| Logins::open(place.path(), &token));
        let now = Timestamp(1_000);
        let enter = |logins: &Logins, host: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            let new = logins.enter_by_token(Login::default(), now).unwrap();
            let set = cookies::set(&cookies::name_for(&headers), &new.secret, false);
            set.split(';').next().unwrap().to_owned()
        };
        let (first, second) = (
            enter(&one, "127.0.0.1:7007"),
            enter(&other, "127.0.0.1:7008"),
        );
        let name = |cookie: &str| cookie.split('=').next().unwrap().to_owned();
        assert_ne!(name(&first), name(&second), "one would replace the other");
        let both = with(&format!("{first}; {second}"));
        assert!(one.login(&both, now).is_some() && other.login(&both, now).is_some());
    }

    #[test]
    fn nobody_is_logged_out_by_the_logins_of_others() {
        let place = tempfile::tempdir().unwrap();
        let token = Token::open(&place.path().join("token")).unwrap();
        let (logins, now) = (Logins::open(place.path(), &token), Timestamp(1_000));
        let enter = |name: &str| {
            let token = Some(Digest::of_bytes(name.as_bytes()));
            let new = logins.enter_by_token(Login { token }, now).unwrap();
            with(&format!("unisono={}", new.secret))
        };
        let is_in = |cookie: &HeaderMap| logins.login(cookie, now).is_some();
        let ada = enter("ada");
        let of_bob: Vec<HeaderMap> = (0..=BROWSERS).map(|_| enter("bob")).collect();
        assert!(is_in(&ada));
        assert!(!is_in(&of_bob[0]) && of_bob[1..].iter().all(is_in));
    }

    #[test]
    fn a_login_holds_at_a_daemon_whose_clock_is_behind() {
        let place = tempfile::tempdir().unwrap();
        let token = Token::open(&place.path().join("token")).unwrap();
        let logins = Logins::open(place.path(), &token);
        let now = Timestamp(100_000);
        let new = logins.enter_by_token(Login::default(), now).unwrap();
        let cookie = with(&format!("unisono={}", new.secret));
        let behind = Timestamp(now.0 - 5_000);
        assert!(logins.login(&cookie, behind).is_some());
        // Another login there does not end the first one.
        logins.enter_by_token(Login::default(), behind).unwrap();
        assert!(logins.login(&cookie, now).is_some());
    }

    #[test]
    fn a_link_lets_one_browser_in_once_also_after_a_restart() {
        let place = tempfile::tempdir().unwrap();
        let token = Token::open(&place.path().join("token")).unwrap();
        let logins = Logins::open(place.path(), &token);
        let (code, now) = (random().unwrap(), Timestamp(1_000));
        logins.link(&code, now, Login::default());
        assert_eq!(logins.enter("x", now).unwrap(), None);
        let secret = logins.enter(&code, now).unwrap().unwrap().secret;
        assert_eq!(logins.enter(&code, now).unwrap(), None);
        assert!(logins.login(&HeaderMap::new(), now).is_none());
        let cookie = with(&format!("a=b; unisono={secret}"));
        assert!(logins.login(&cookie, now).is_some());
        assert!(logins.login(&with("unisono=0"), now).is_none());
        let kept = fs::read_to_string(place.path().join(FILE)).unwrap();
        assert!(!kept.contains(&secret), "the secret itself is not kept");
        let again = Logins::open(place.path(), &token);
        assert!(again.login(&cookie, now).is_some());
        let last = Timestamp(now.0 + KNOWN_MS as i64 - 1);
        assert!(again.login(&cookie, last).is_some());
        assert!(again.login(&cookie, Timestamp(last.0 + 1)).is_none());
        // A link is forgotten, and with another token so is every browser.
        assert_eq!(again.enter(&code, now).unwrap(), None);
        let other = Token::open(&place.path().join("other")).unwrap();
        assert!(
            Logins::open(place.path(), &other)
                .login(&cookie, now)
                .is_none()
        );
    }

    #[test]
    fn a_link_works_for_an_hour() {
        let place = tempfile::tempdir().unwrap();
        let token = Token::open(&place.path().join("token")).unwrap();
        let (logins, made) = (Logins::open(place.path(), &token), Timestamp(1_000));
        for (now, is_in) in [
            (made.0 - 1_000, true),
            (made.0 + 3_599_999, true),
            (made.0 + 3_600_000, false),
        ] {
            let code = random().unwrap();
            logins.link(&code, made, Login::default());
            let new = logins.enter(&code, Timestamp(now)).unwrap();
            assert_eq!(new.is_some(), is_in, "{now}");
        }
    }

    #[test]
    fn lines_that_are_none_are_left_out() {
        let browser = Browser {
            secret: digest("x"),
            since: Timestamp(7),
            login: Login::default(),
        };
        assert_eq!(Browser::read(browser.line().trim_end()), Some(browser));
        for line in ["", "x 7", "7", &browser.line().replace(" 7", " x")] {
            assert_eq!(Browser::read(line), None, "{line:?}");
        }
    }
}
