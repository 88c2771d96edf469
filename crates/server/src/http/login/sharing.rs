//! Links and browsers that several daemons on one database share.

use std::io;
use std::time::Instant;

use axum::http::HeaderMap;
use unisono_api::Code;
use unisono_context::Timestamp;
use unisono_runtime::clock;

use super::super::problem::ApiError;
use super::super::token::random;
use super::super::{Shared, off_thread};
use super::{FILE, Login, NewLogin, PATH, Proof, cookies};

/// Maximum tries to replace the shared text while other daemons change it.
const SHARE_TRIES: usize = 16;

pub(in crate::http) async fn new_link(
    shared: &Shared,
    origin: &str,
    login: Login,
) -> io::Result<String> {
    let _sharing = shared.logins.sharing.lock().await;
    let (code, made) = (random()?, now(shared));
    for _ in 0..SHARE_TRIES {
        let before = read_shared(shared).await;
        shared.logins.link(&code, made, login);
        // While the database does not respond, the link works only at this daemon.
        let Some(before) = before else { break };
        if share(shared, before).await != Some(false) {
            break;
        }
    }
    Ok(format!("{origin}{PATH}?code={code}"))
}

/// The login of the browser that sent a request. If the browser is unknown, this reads the shared text:
/// it may just have logged in at another daemon.
pub(in crate::http) async fn find(shared: &Shared, headers: &HeaderMap) -> Option<Login> {
    let known = known(shared, headers);
    let has_cookie = !cookies::from_headers(headers).is_empty();
    let may_be_new = known.is_none() && has_cookie && shared.local.is_shared();
    if may_be_new && shared.people.may_read(Instant::now()) {
        take(shared).await;
        return self::known(shared, headers);
    }
    known
}

/// The login of the browser that sent a request, as far as this daemon knows.
pub(super) fn known(shared: &Shared, headers: &HeaderMap) -> Option<Login> {
    shared.logins.login(headers, now(shared))
}

/// The time of logins. Daemons that share them use the clock of the database.
fn now(shared: &Shared) -> Timestamp {
    clock::store_now(shared.local.journal())
}

/// Reads the browsers of the other daemons on the same database.
pub(in crate::http) async fn take(shared: &Shared) -> bool {
    let _sharing = shared.logins.sharing.lock().await;
    read_shared(shared).await.is_some()
}

/// Reads the shared text and returns its version, 0 if there is none; none if it cannot be read.
async fn read_shared(shared: &Shared) -> Option<u64> {
    let version = match shared.local.shared_text(FILE).await {
        Ok(Some(document)) => {
            let logins = shared.logins.clone();
            // It is written to disk.
            let taken = off_thread(move || logins.take(&document.text)).await;
            taken.is_ok().then_some(document.version)
        }
        Ok(None) => Some(0),
        Err(_) => None,
    };
    if version.is_none() {
        tracing::warn!("the logged-in browsers of other daemons are unknown");
    }
    version
}

/// Replaces the shared text. False if it has another version by now; none if that failed.
async fn share(shared: &Shared, before: u64) -> Option<bool> {
    let text = shared.logins.text();
    let put = shared.local.share_text(FILE, text, before).await;
    put.inspect_err(|error| {
        tracing::warn!(%error, "other daemons do not know the browsers of this one");
    })
    .ok()
}

/// Logs a browser in; returns none if the link does not work. If several daemons get the same link at
/// the same time, the one that replaces the shared text first accepts it.
pub(super) async fn log_in(shared: &Shared, proof: &Proof) -> Result<Option<NewLogin>, ApiError> {
    let failed = || {
        let detail = "the database does not respond, so nobody can log in: try again later";
        ApiError::new(Code::Unavailable, detail)
    };
    let mut lost: Option<NewLogin> = None;
    for _ in 0..SHARE_TRIES {
        let before = read_shared(shared).await.ok_or_else(failed)?;
        // The text was replaced, and only the answer was lost.
        let is_known = |new: &NewLogin| shared.logins.has(&new.secret);
        if lost.as_ref().is_some_and(is_known) {
            return Ok(lost);
        }
        let entering = {
            let (logins, proof, now) = (shared.logins.clone(), proof.clone(), now(shared));
            // It is written to disk.
            off_thread(move || match proof {
                Proof::Code(code) => logins.enter(&code, now),
                Proof::Token(login) => logins.enter_by_token(login, now).map(Some),
            })
        };
        let Some(new) = entering.await.ok().and_then(Result::ok).flatten() else {
            return Ok(None);
        };
        match share(shared, before).await {
            Some(true) => return Ok(Some(new)),
            shared_by_now => {
                shared.logins.forget(&new.secret);
                shared_by_now.ok_or_else(failed)?;
                lost = Some(new);
            }
        }
    }
    Err(failed())
}

/// Forgets the browsers with these cookies, each a name and a secret. False if the other daemons cannot
/// know of it.
pub(super) async fn forget_everywhere(shared: &Shared, left: &[(String, String)]) -> bool {
    for _ in 0..SHARE_TRIES {
        let Some(before) = read_shared(shared).await else {
            return false;
        };
        let (logins, left) = (shared.logins.clone(), left.to_vec());
        // It is written to disk.
        let forget_all = move || left.iter().for_each(|(_, secret)| logins.forget(secret));
        if off_thread(forget_all).await.is_err() {
            return false;
        }
        match share(shared, before).await {
            Some(true) => return true,
            Some(false) => {}
            None => return false,
        }
    }
    false
}
