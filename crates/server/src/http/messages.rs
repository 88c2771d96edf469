//! `/v1/sessions/{session}/messages`: what was said.

use std::num::NonZeroUsize;
use std::sync::Arc;
use unisono::values;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use unisono_api::message::{Appended, Message, NewMessage, Part, ReportedUsage};
use unisono_api::session::main_branch;
use unisono_api::{Code, Page};
use unisono_context::Ordinal;
use unisono_context::alteration::Form;
use unisono_context::checkpoint::Body;
use unisono_context::message::{Message as Said, Part as SaidPart};
use unisono_context::tree::Node;
use unisono_context::view::{Standing, View};
use unisono_session::State as SessionState;
use unisono_session::state::MAIN;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{self, Path, Query};
use super::part::after;
use super::problem::Fault;
use super::{Shared, sessions, turns};
use unisono::append;

/// Messages of a part, where nobody says how many; and the most.
const PAGE: u32 = 100;
const MOST: u32 = 1_000;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(list, append))
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
    #[param(value_type = Option<usize>, minimum = 1)]
    limit: Option<NonZeroUsize>,
}

/// The messages of a branch, the oldest first, also those that have left the context.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/messages", tag = "messages",
    params(("session" = String, Path, description = "The session's id"), Which),
    responses((status = 200, description = "A part of the branch", body = Page<Message>))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(part): Query<Which>,
) -> Result<Json<Page<Message>>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    let first = after(part.cursor.as_deref())?.unwrap_or(1);
    let limit = part
        .limit
        .map_or(PAGE, |limit| u32::try_from(limit.get()).unwrap_or(MOST));
    let branch = part.branch.clone();
    let look = move |state: &SessionState| read(state, &branch, first, limit);
    let found = session.inspect(look).await?;
    Ok(Json(found.ok_or_else(|| unknown_branch(&part.branch))?))
}

/// Appends a message without a turn. While a turn is open on its branch it waits until that has
/// ended, and is not seen before.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/messages", tag = "messages",
    params(("session" = String, Path, description = "The session's id"),
           ("Idempotency-Key" = Option<String>, Header,
            description = "The same request under the same key again gives the same message, also after a crash")),
    request_body = NewMessage,
    responses((status = 200, description = "It was appended under this key before", body = Appended),
              (status = 201, description = "It is on its branch", body = Appended),
              (status = 202, description = "It waits for the end of a turn", body = Appended))
)]
async fn append(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    extract::Json(new): extract::Json<NewMessage>,
) -> Result<(StatusCode, Json<Appended>), Fault> {
    let session = sessions::open(&shared, &id).await?;
    let key = turns::key(&headers, &new)?;
    let wrong = |error: append::Error| {
        let code = match error {
            // Each field can be read; together they make no message.
            append::Error::Both | append::Error::Arguments(_) => Code::Refused,
            _ => Code::InvalidRequest,
        };
        Fault::new(code, error.to_string())
    };
    let asked = append::message(&new, key).map_err(wrong)?;
    let id = asked.message.id;
    let appended = session.append(asked).await?;
    let (status, state) = match appended.ordinal {
        Some(_) if appended.message == id => (StatusCode::CREATED, "appended"),
        Some(_) => (StatusCode::OK, "appended"),
        None => (StatusCode::ACCEPTED, "waiting"),
    };
    let body = Appended {
        session: session.id().to_string(),
        branch: new.branch,
        message: appended.message.to_string(),
        state: state.to_owned(),
        ordinal: appended.ordinal.map(|ordinal| ordinal.0),
    };
    Ok((status, Json(body)))
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
    let none = Page {
        items: Vec::new(),
        next: None,
    };
    let Some(head) = state.tree().head(branch) else {
        // A session without messages has its first branch all the same.
        let empty = state.tree().is_empty() && branch == MAIN;
        return empty.then_some(none);
    };
    let view = state.view(head, false)?;
    let first = first.max(1);
    let limit = limit.clamp(1, MOST);
    let last = first.saturating_add(limit - 1).min(view.len().0);
    if first > last {
        return Some(none);
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
        at: values::instant(said.at),
        parts: said.parts.iter().map(part).collect(),
        tokens: counted.map(|(_, count)| count.tokens.0),
        usage: said.usage.map(|usage| ReportedUsage {
            input_tokens: usage.input.0,
            output_tokens: usage.output.0,
        }),
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
