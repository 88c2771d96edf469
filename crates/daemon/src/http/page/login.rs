//! Who may look at the page: whoever has a link that works once.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use serde::Deserialize;

use super::layout;
use crate::http::Shared;
use crate::http::extract::Query;
use crate::http::token::{digest, random};

/// The cookie's name.
const COOKIE: &str = "unisono";
/// Browsers that are let in at the same time; the oldest is forgotten.
const BROWSERS: usize = 64;

/// Links that work once, and the browsers that came by one. Only digests are kept.
#[derive(Debug, Default)]
pub(in crate::http) struct Logins(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    links: Vec<blake3::Hash>,
    browsers: Vec<blake3::Hash>,
}

impl Logins {
    /// The code of a new link.
    pub(in crate::http) fn link(&self) -> io::Result<String> {
        let code = random()?;
        self.known(|known| keep(&mut known.links, digest(&code)));
        Ok(code)
    }

    /// Uses a link up; the secret of the browser that came by it, if it was one.
    fn enter(&self, code: &str) -> io::Result<Option<String>> {
        let (secret, code) = (random()?, digest(code));
        Ok(self.known(|known| {
            let at = known.links.iter().position(|link| *link == code)?;
            known.links.remove(at);
            keep(&mut known.browsers, digest(&secret));
            Some(secret)
        }))
    }

    /// Whether a request comes from a browser that was let in.
    pub(in crate::http) fn knows(&self, headers: &HeaderMap) -> bool {
        let Some(secret) = cookie(headers) else {
            return false;
        };
        let secret = digest(secret);
        self.known(|known| known.browsers.contains(&secret))
    }

    fn known<T>(&self, use_it: impl FnOnce(&mut Known) -> T) -> T {
        // Nothing in it can be half done.
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn keep(all: &mut Vec<blake3::Hash>, one: blake3::Hash) {
    if all.len() == BROWSERS {
        all.remove(0);
    }
    all.push(one);
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(header::COOKIE).iter();
    let texts = lines.filter_map(|line| line.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';'));
    pairs.find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

/// The code of a link.
#[derive(Debug, Deserialize)]
pub(super) struct Code {
    code: String,
}

/// Lets a browser in that comes by a link, once.
pub(super) async fn enter(
    State(shared): State<Arc<Shared>>,
    Query(Code { code }): Query<Code>,
) -> Response {
    let entered = shared.logins.enter(&code).ok().flatten();
    let cookie = entered.and_then(|secret| {
        let text = format!("{COOKIE}={secret}; Path=/; HttpOnly; SameSite=Strict");
        HeaderValue::from_str(&text).ok()
    });
    match cookie {
        Some(cookie) => ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response(),
        None => refused("This link was used before, or is not one of this daemon's."),
    }
}

/// What a browser is shown that was not let in.
pub(in crate::http) fn refused(why: &str) -> Response {
    let body = html! {
        section class="card" {
            h1 { "You are not logged in" }
            p { (why) }
            p { "The daemon prints a link that works once when it starts. Another one comes from:" }
            pre { "curl -X POST -H \"Authorization: Bearer $(cat TOKEN_FILE)\" http://ADDRESS/v1/login-links" }
        }
    };
    (StatusCode::UNAUTHORIZED, layout("not logged in", &body)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_lets_one_browser_in_once() {
        let logins = Logins::default();
        let code = logins.link().unwrap();
        assert_eq!(logins.enter("x").unwrap(), None);
        let secret = logins.enter(&code).unwrap().unwrap();
        assert_eq!(logins.enter(&code).unwrap(), None);
        let mut headers = HeaderMap::new();
        assert!(!logins.knows(&headers));
        let with = |text: &str| HeaderValue::from_str(text).unwrap();
        headers.insert(header::COOKIE, with(&format!("a=b; unisono={secret}")));
        assert!(logins.knows(&headers));
        headers.insert(header::COOKIE, with("unisono=0"));
        assert!(!logins.knows(&headers));
    }
}
