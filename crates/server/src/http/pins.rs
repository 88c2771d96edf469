//! `/v1/sessions/{session}/pins`: messages that always stand verbatim.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use unisono_api::Page;
use unisono_api::pin::{Pin, Pins};
use unisono_api::session::main_branch;
use unisono_context::MessageId;
use unisono_runtime::Handle;
use unisono_session::State as SessionState;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path, Query};
use super::part::OnBranch;
use super::problem::Fault;
use super::{Shared, sessions};
use unisono::context::pins;
use unisono::service::messages::placed;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(pin, unpin))
}

/// On which branch.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct On {
    /// The branch: `main`.
    #[serde(default = "main_branch")]
    branch: String,
}

/// What is pinned on a branch, and what it takes.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/pins", tag = "context",
    params(("session" = String, Path, description = "The session's id"), OnBranch),
    responses((status = 200, description = "What is pinned, a part of it", body = Pins))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(on): Query<OnBranch>,
) -> Result<Json<Pins>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let (branch, part) = on.split();
    let (after, limit) = (part.after()?, part.limit());
    read_pins(&shared, &session, &branch, after, limit)
        .await
        .map(Json)
}

/// What is pinned on a branch after a message.
async fn read_pins(
    shared: &Shared,
    session: &Handle,
    branch: &str,
    after: Option<u32>,
    limit: usize,
) -> Result<Pins, Fault> {
    let setup = shared.local.setup_of(session).await?;
    let mut state = session.inspect(Clone::clone).await?;
    let (branch, learnt) = (branch.to_owned(), shared.local.calibrations().clone());
    let work = move || pins::Pins::of(&setup, &learnt, &mut state, &branch);
    let pins = super::off_thread(work).await??;
    let left = pins.messages.iter();
    let left = left.filter(|(message, _)| after.is_none_or(|after| message.ordinal.0 > after));
    let pinned = left.map(|(message, tokens)| Pin {
        message: message.id.to_string(),
        ordinal: message.ordinal.0,
        role: message.role.name().to_owned(),
        tokens: tokens.0,
        text: message.countable_text(),
    });
    let part = Page::first(pinned, limit, |last| last.ordinal.to_string());
    Ok(Pins {
        pinned: part.items,
        next: part.next,
        pinned_tokens: pins.tokens().0,
        usable_tokens: pins.usable.0,
    })
}

/// What is pinned on a branch once that has changed, from the first message on.
async fn now(shared: &Shared, session: &Handle, branch: &str) -> Result<Pins, Fault> {
    read_pins(shared, session, branch, None, Page::<Pin>::size(None)).await
}

/// Pins a message, and the call or results it belongs together with.
#[utoipa::path(
    put, path = "/v1/sessions/{session}/pins/{message}", tag = "context",
    params(("session" = String, Path, description = "The session's id"),
           ("message" = String, Path, description = "Its id, or its place on the branch"), On),
    responses((status = 200, description = "What is pinned now", body = Pins))
)]
async fn pin(
    State(shared): State<Arc<Shared>>,
    Path((id, message)): Path<(String, String)>,
    Query(on): Query<On>,
) -> Result<Json<Pins>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    set(&session, &on.branch, &message, true).await?;
    now(&shared, &session, &on.branch).await.map(Json)
}

/// Takes a message's pin away.
#[utoipa::path(
    delete, path = "/v1/sessions/{session}/pins/{message}", tag = "context",
    params(("session" = String, Path, description = "The session's id"),
           ("message" = String, Path, description = "Its id, or its place on the branch"), On),
    responses((status = 200, description = "What is pinned now", body = Pins))
)]
async fn unpin(
    State(shared): State<Arc<Shared>>,
    Path((id, message)): Path<(String, String)>,
    Query(on): Query<On>,
) -> Result<Json<Pins>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    set(&session, &on.branch, &message, false).await?;
    now(&shared, &session, &on.branch).await.map(Json)
}

/// Pins a message, or takes its pin away.
pub(super) async fn set(
    session: &Handle,
    branch: &str,
    message: &str,
    pinned: bool,
) -> Result<(), Fault> {
    let id: MessageId = match message.parse() {
        Ok(ordinal) => {
            let on = branch.to_owned();
            let look = move |state: &SessionState| placed(state, &on, ordinal);
            session.inspect(look).await??
        }
        Err(_) => extract::id("message", message)?,
    };
    Ok(session.pin(branch, vec![id], pinned).await?)
}
