//! Changes on the page of a session: forks, ends of topics, pins.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Redirect;
use serde::Deserialize;
use unisono_api::pin::Pins;
use unisono_api::service::{self, Service};
use unisono_api::session::{NewBranch, main_branch};
use unisono_api::{Code, Problem};

use crate::branch_view::{BranchQuery, back, branch_named};
use crate::error::PageError;
use crate::extract::{Form, Path};
use crate::lists;
use crate::parts::encoded;

#[derive(Debug, Deserialize)]
pub(crate) struct Fork {
    name: String,
    at: String,
}

/// Starts a branch at a message.
pub(crate) async fn fork(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Form(form): Form<Fork>,
) -> Result<Redirect, PageError> {
    let about = service.session(&id).await?;
    let name = form.name.trim();
    if name.is_empty() {
        return Err(Problem::new(Code::Refused, "a branch needs a name").into());
    }
    if branch_named(&*service, &about, name).await?.is_some() {
        let detail = format!("there is a branch {name:?} already: take another name");
        return Err(Problem::new(Code::Conflict, detail).into());
    }
    let new = NewBranch {
        name: name.to_owned(),
        at: form.at,
        from: main_branch(),
    };
    service.fork(&id, &new).await?;
    Ok(back(&id, name))
}

/// Lets the current topic of a branch end.
pub(crate) async fn seal(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Form(on): Form<BranchQuery>,
) -> Result<Redirect, PageError> {
    service.seal(&id, &on.branch).await?;
    Ok(back(&id, &on.branch))
}

/// The form that pins or unpins a message.
#[derive(Debug, Deserialize)]
pub(crate) struct Pin {
    branch: String,
    message: String,
    pinned: bool,
}

/// Pins a message, or takes its pin away.
pub(crate) async fn pin(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Form(form): Form<Pin>,
) -> Result<Redirect, PageError> {
    let (branch, message, pinned) = (&form.branch, &form.message, form.pinned);
    // Only a pinned message has an ordinal: before it is unpinned, or after it is pinned.
    let before = match pinned {
        true => None,
        false => ordinal(&*service, &id, branch, message).await?,
    };
    service.pin(&id, branch, message, pinned).await?;
    let at = match pinned {
        true => ordinal(&*service, &id, branch, message).await?,
        false => before,
    };
    let (branch, at) = (encoded(branch), at.unwrap_or(1));
    let there = format!("/sessions/{id}/history?branch={branch}&from={at}#m{at}");
    Ok(Redirect::to(&there))
}

/// The place of a pinned message on a branch.
async fn ordinal(
    service: &dyn Service,
    session: &str,
    branch: &str,
    message: &str,
) -> service::Result<Option<u32>> {
    let mut query = lists::first_of_branch(branch, lists::PART);
    loop {
        let Pins { pinned, next, .. } = service.pins(session, &query).await?;
        let found = pinned.iter().find(|pin| pin.message == message);
        if found.is_some() || next.is_none() {
            return Ok(found.map(|pin| pin.ordinal));
        }
        query.cursor = next;
    }
}
