//! `/v1/sessions/{session}/chat`: a session as the chat of a page that uses AI SDK UI.
//!
//! The session stores the conversation: only the last message of a chat request is used, and the
//! answer before it determines the position. If that position is not the end of its branch, as
//! after an edited message or a regenerated answer, a new branch begins there. A client that
//! disconnects does not stop the turn: `…/stream` returns its answer again.

mod parts;
mod request;

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::OwnedSemaphorePermit;
use unisono::chat::{Continuation, author_after, continuation, ended_tries};
use unisono::follow::Follower;
use unisono::{Local, approvals};
use unisono_api::approval::Approval;
use unisono_api::chat::{ChatRequest, Part, Trigger};
use unisono_api::service::{Messages as _, Turns as _};
use unisono_api::session::NewBranch;
use unisono_api::token::Scope;
use unisono_api::turn::{NewTurn, Turn, TurnRequest};
use unisono_api::turn_event::TurnEvent;
use unisono_api::{Code, PageQuery};
use unisono_context::{SessionId, TurnId};
use unisono_session::run::calls::{CallStatus, WaitingCall};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::events::{KEEP_ALIVE, json, reserve_stream};
use super::extract::{self, Path};
use super::problem::ApiError;
use super::{Shared, sessions};
use crate::turn_follower::{Pauses, TurnFollower};
use parts::Parts;
use request::{Action, Task};

/// The header with the protocol of a response and its version.
const PROTOCOL: (HeaderName, &str) = (
    HeaderName::from_static("x-vercel-ai-ui-message-stream"),
    "v1",
);
/// The last line of a stream.
const DONE: &str = "[DONE]";

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(resume))
}

/// Answers the last message of a chat in the format of AI SDK UI (`useChat`). A repeated request
/// with the same message gets the same turn.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/chat", tag = "chat",
    params(("session" = String, Path, description = "The session's id")),
    request_body = ChatRequest,
    responses((status = 200, body = Part, content_type = "text/event-stream",
               description = "Server-sent events without a name; the data of each is such a part, \
                   and of the last one `[DONE]`"))
)]
async fn create(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    extract::Json(request): extract::Json<ChatRequest>,
) -> Result<Response, ApiError> {
    let refused = |reason| ApiError::new(Code::Refused, reason);
    let place = reserve_stream(&shared)?;
    match request::read(&request).map_err(refused)? {
        Action::Ask(task) => {
            let (turn, follower) = begin(&shared, &id, request, task).await?;
            answer(shared, follower.into(), (&turn, Vec::new()), place)
        }
        Action::Answer { turn, calls } => {
            let turn = shared.local.turn(&id, &turn).await?;
            let known = calls.iter().map(request::question_of).collect();
            // The follower starts before the calls continue, so that their results are sent.
            let handle = sessions::open(&shared, &id).await?;
            let of = extract::id("turn", &turn.turn)?;
            let follower = shared.local.follower(handle.clone(), of, None).await?;
            shared.local.answer_calls(&handle, of, &calls).await?;
            answer(shared, follower.into(), (&turn, known), place)
        }
    }
}

/// Returns the answer of the open turn again, from its beginning; 204 if no turn is open.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/chat/{chat}/stream", tag = "chat",
    params(("session" = String, Path, description = "The session's id"),
           ("chat" = String, Path, description = "The chat's id; ignored")),
    responses((status = 200, body = Part, content_type = "text/event-stream",
               description = "As of `POST /v1/sessions/{session}/chat`"),
              (status = 204, description = "No turn is open"))
)]
async fn resume(
    State(shared): State<Arc<Shared>>,
    Path((id, _)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let place = reserve_stream(&shared)?;
    let newest = shared.local.turns(&id, &PageQuery::default()).await?;
    // A compaction is a turn without a task.
    let open = newest
        .items
        .into_iter()
        .find(|turn| turn.ended_at.is_none() && turn.task.is_some());
    match open {
        Some(turn) => {
            let of = (
                extract::id("session", &id)?,
                extract::id("turn", &turn.turn)?,
            );
            let pauses = Pauses::for_request(&headers, &shared.stopping, None);
            let follower = TurnFollower::rewound(&shared.local, of, pauses).await?;
            answer(shared, follower, (&turn, Vec::new()), place)
        }
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// Starts the turn of a task and follows it; a repeated request gets its first turn. An answer that
/// is regenerated again, in a request that does not name it, gets another turn as soon as the last
/// one has ended.
async fn begin(
    shared: &Shared,
    session: &str,
    request: ChatRequest,
    mut task: Task,
) -> Result<(Turn, Follower), ApiError> {
    let handle = sessions::open(shared, session).await?;
    let (branch, author) = match task.after.clone() {
        None => (request.branch, None),
        Some(before) => {
            let before = extract::id("turn", &before)?;
            if task.is_unnamed {
                let key = task.key.clone();
                let tries = ended_tries(&handle, move |number| request::nth(&key, number));
                task = task.after_tries(tries.await?);
            }
            let branch = match continuation(&handle, before, task.key.clone()).await? {
                Continuation::Turn(turn) => {
                    let follower = shared.local.follower(handle.clone(), turn, Some(0)).await?;
                    return Ok((shared.local.turn_of(&handle, turn).await?, follower));
                }
                Continuation::Branch(branch) => branch,
                Continuation::Unanswered => shared.local.turn_of(&handle, before).await?.branch,
                Continuation::Message(message) => {
                    let fork = NewBranch {
                        name: task.fork,
                        at: message.to_string(),
                        from: request.branch,
                    };
                    shared.local.fork(session, &fork).await?.name
                }
            };
            let author = match request.trigger {
                Trigger::RegenerateMessage => {
                    author_after(&shared.local, &handle, before, task.text.clone()).await?
                }
                Trigger::SubmitMessage => None,
            };
            (branch, author)
        }
    };
    let asked = TurnRequest::Task(NewTurn {
        branch,
        lead: request.lead,
        agents: request.agents,
        settings: request.settings,
        attachments: task.files,
        ..NewTurn::new(task.text)
    });
    let ask = shared.local.ask_for(&handle, &asked, Some(&task.key));
    let ask = ask.await?.with_author(author);
    let (turn, follower) = shared.local.begin_followed(&handle, &ask).await?;
    Ok((shared.local.turn_of(&handle, turn).await?, follower))
}

/// The answer of a turn, part by part. The chat already knows the calls of the given questions.
fn answer(
    shared: Arc<Shared>,
    follower: TurnFollower,
    (turn, known): (&Turn, Vec<String>),
    place: OwnedSemaphorePermit,
) -> Result<Response, ApiError> {
    let may_approve = shared.local.caller().allows(Scope::Approve);
    let parts = Parts::new(turn, known, may_approve);
    let open = Open {
        ready: [event(&parts.begin())].into(),
        of: (
            extract::id("session", &turn.session)?,
            extract::id("turn", &turn.turn)?,
        ),
        parts,
        follower,
        is_done: false,
        shared,
        _place: place,
    };
    let events = stream::unfold(open, |mut open| async {
        let event = open.next().await?;
        Some((Ok::<_, Infallible>(event), open))
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(([PROTOCOL], Sse::new(events).keep_alive(keep_alive)).into_response())
}

/// Removes the calls of an event that do not wait any more, and returns those of the turn: an answer that
/// comes again begins with its earlier events. A queued turn is told of the calls of the turn before it.
async fn take_decided(
    local: &Local,
    (session, turn): (SessionId, TurnId),
    event: &mut TurnEvent,
) -> Vec<Approval> {
    let TurnEvent::Waiting { calls } = event else {
        return Vec::new();
    };
    let Ok(view) = local.view(session).await else {
        return Vec::new();
    };
    let Ok(waiting) = approvals::waiting(&view, turn).await else {
        return Vec::new();
    };
    let question = |one: &WaitingCall| (one.id.to_string(), one.call.status == CallStatus::InDoubt);
    let open: BTreeSet<(String, bool)> = waiting.iter().map(question).collect();
    let is_open = |call: &Approval| open.contains(&(call.call.clone(), parts::is_in_doubt(call)));
    let each = std::mem::take(calls).into_iter();
    let (waiting, mut decided): (Vec<Approval>, Vec<Approval>) = each.partition(is_open);
    *calls = waiting;
    let own = turn.to_string();
    decided.retain(|call| call.turn == own);
    decided
}

/// An answer during its stream.
struct Open {
    ready: VecDeque<Event>,
    of: (SessionId, TurnId),
    parts: Parts,
    follower: TurnFollower,
    is_done: bool,
    shared: Arc<Shared>,
    _place: OwnedSemaphorePermit,
}

impl Open {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_done {
                return None;
            }
            if self.parts.is_ended() {
                self.end();
                continue;
            }
            match self.follower.next().await {
                Ok(Some(mut update)) => {
                    let local = &self.shared.local;
                    let decided = take_decided(local, self.of, &mut update.event).await;
                    let mut parts = self.parts.waited(decided);
                    parts.extend(self.parts.take(update.event));
                    self.ready.extend(parts.iter().map(event));
                }
                // The turn goes on at another daemon.
                Ok(None) => self.fail("the program is stopping; open the chat again".to_owned()),
                Err(error) => self.fail(error.to_string()),
            }
        }
    }

    fn fail(&mut self, error_text: String) {
        self.ready.push_back(event(&Part::Error { error_text }));
        self.end();
    }

    fn end(&mut self) {
        self.is_done = true;
        self.ready.push_back(Event::default().data(DONE));
    }
}

fn event(part: &Part) -> Event {
    Event::default().data(json(part))
}
