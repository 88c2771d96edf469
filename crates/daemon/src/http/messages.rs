//! `/v1/sessions/{session}/messages`: what was said.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use unisono_api::message::{Message, Part};
use unisono_api::session::main_branch;
use unisono_api::{Code, Page, Problem};
use unisono_context::Ordinal;
use unisono_context::alteration::Form;
use unisono_context::checkpoint::Body;
use unisono_context::message::{Message as Said, Part as SaidPart};
use unisono_context::tree::Node;
use unisono_context::view::{Standing, View};
use unisono_session::State as SessionState;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{Path, Query};
use super::part::after;
use super::problem::Fault;
use super::{Shared, sessions, words};

/// Messages of a part, where nobody says how many; and the most.
const PAGE: u32 = 100;
const MOST: u32 = 1_000;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(list))
}

/// Which messages.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Which {
    /// The branch: `main`.
    #[serde(default = "main_branch")]
    branch: String,
    /// `next` of the part before.
    cursor: Option<String>,
    /// How many at most: 100, and no more than 1,000.
    limit: Option<u32>,
}

/// The messages of a branch, the oldest first, also those that have left the context.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/messages", tag = "messages", security(("token" = [])),
    params(("session" = String, Path, description = "The session's id"), Which),
    responses((status = 200, description = "A part of the branch", body = Page<Message>),
              (status = "default", description = "A problem", body = Problem))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(part): Query<Which>,
) -> Result<Json<Page<Message>>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let first = after(part.cursor.as_deref())?.unwrap_or(1);
    let (branch, limit) = (part.branch.clone(), part.limit.unwrap_or(PAGE));
    let look = move |state: &SessionState| read(state, &branch, first, limit);
    let found = session.inspect(look).await?;
    Ok(Json(found.ok_or_else(|| unknown_branch(&part.branch))?))
}

pub(super) fn unknown_branch(branch: &str) -> Fault {
    Fault::new(Code::NotFound, format!("there is no branch {branch:?}"))
}

/// The messages of a branch from one on; none where the branch is not there.
pub(super) fn read(
    state: &SessionState,
    branch: &str,
    first: u32,
    limit: u32,
) -> Option<Page<Message>> {
    let head = state.tree().head(branch)?;
    let view = state.view(head, false)?;
    let first = first.max(1);
    let limit = limit.clamp(1, MOST);
    let last = first.saturating_add(limit - 1).min(view.len().0);
    if first > last {
        return Some(Page {
            items: Vec::new(),
            next: None,
        });
    }
    let nodes = state.tree().range(head, Ordinal(first)..=Ordinal(last));
    Some(Page {
        items: nodes.into_iter().map(|node| message(&view, node)).collect(),
        next: (last < view.len().0).then(|| (last + 1).to_string()),
    })
}

fn message(view: &View<'_>, node: &Node) -> Message {
    let said: &Said = &node.message;
    let counted = node.counts.iter().next();
    Message {
        id: said.id.to_string(),
        parent: said.parent.map(|id| id.to_string()),
        ordinal: said.ordinal.0,
        role: said.role.name().to_owned(),
        author: said.author.as_ref().map(ToString::to_string),
        at: words::instant(said.at),
        parts: said.parts.iter().map(part).collect(),
        tokens: counted.map(|(_, count)| count.tokens.0),
        form: form(view, node).to_owned(),
    }
}

fn part(part: &SaidPart) -> Part {
    match part {
        SaidPart::Text(text) => Part::Text {
            text: text.to_string(),
        },
        SaidPart::ToolCall {
            id,
            name,
            arguments,
        } => Part::ToolCall {
            id: id.to_string(),
            name: name.to_string(),
            arguments: arguments.to_string(),
        },
        SaidPart::ToolResult {
            call_id,
            content,
            is_error,
        } => Part::ToolResult {
            call_id: call_id.to_string(),
            content: content.to_string(),
            is_error: *is_error,
        },
        SaidPart::Attachment {
            filename,
            mime,
            size_bytes,
        } => Part::Attachment {
            filename: filename.to_string(),
            mime: mime.to_string(),
            size_bytes: *size_bytes,
        },
    }
}

/// How the context has a message.
fn form(view: &View<'_>, node: &Node) -> &'static str {
    match view.standing(node.ordinal()) {
        Some(Standing::Covered(checkpoint)) => match checkpoint.body {
            Body::Summary(_) => "summarised",
            Body::Tombstone => "dropped",
        },
        Some(Standing::Shortened(Form::Masked { .. })) => "masked",
        Some(Standing::Shortened(Form::Cut { .. } | Form::Truncated { .. })) => "cut",
        Some(Standing::Verbatim) | None => "verbatim",
    }
}
