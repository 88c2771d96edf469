//! `/openai/v1`: agents for clients of OpenAI. An agent is a model.
//!
//! Without a session the request's messages are the conversation, kept in memory until the response
//! is complete ([`ephemeral`]). With a session, named in the header `X-Unisono-Session` or in
//! `metadata.session`, its new messages are appended and the last one is the turn's input
//! ([`continued`]).

mod addresses;
mod answer;
mod chat;
mod continued;
pub(super) mod ephemeral;
mod form;
mod models;
mod responses;
mod unsupported;

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use unisono_api::Code;
use unisono_api::fmt::line;
use unisono_api::openai::{ChatCompletion, ChatRequest, Failure, Reason};
use unisono_api::turn::Turn;
use unisono_context::TurnId;
use unisono_context::message::Part;
use unisono_runtime::{Handle, clock};
use unisono_session::machine::Import;
use unisono_session::run::calls::WaitingCall;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::problem::ApiError;
use super::{Shared, events, extract, sessions, turns};
use crate::body_share::BodyShare;
use crate::waiting::describe_calls;
use answer::answer_text;
use continued::List;
use ephemeral::EphemeralSession;
use form::Form;
use unisono::approvals::until_waiting;
use unisono::ask::Ask;
use unisono::client_tools::ClientToolRequest;
use unisono::follow::Follower;
use unisono_config::agents::Error as AgentsError;
use unisono_config::settings::Attachments;

pub(super) const BASE: &str = "/openai/";
/// The model name of the configured lead with its delegates.
const TEAM: &str = "team";
/// Characters of a file's name or type in an error; without a name, its address stands there.
const SHOWN_CHARS: usize = 80;
/// The header that names a session.
pub(super) const SESSION: &str = "x-unisono-session";

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .merge(models::routes())
        .routes(routes!(complete))
        .merge(responses::routes())
}

/// An error in OpenAI's format.
#[derive(Debug)]
pub(super) struct FieldError(ApiError, Option<&'static str>);

impl FieldError {
    fn field(name: &'static str, code: Code, detail: impl Into<String>) -> FieldError {
        FieldError(ApiError::new(code, detail), Some(name))
    }

    fn failure(&self) -> Failure {
        let problem = self.0.problem();
        let kind = match problem.code {
            Code::Unauthorized | Code::Forbidden => "authentication_error",
            Code::Busy => "rate_limit_error",
            Code::Failed | Code::Unavailable | Code::DiskFull => "server_error",
            Code::BudgetExceeded => "insufficient_quota",
            _ => "invalid_request_error",
        };
        let code = match (problem.code, self.1) {
            (Code::NotFound, Some("model")) => "model_not_found",
            (code, _) => code.name(),
        };
        Failure {
            error: Reason {
                message: problem.detail.clone(),
                kind,
                param: self.1.map(str::to_owned),
                code: Some(code.to_owned()),
            },
        }
    }
}

impl<E> From<E> for FieldError
where
    ApiError: From<E>,
{
    fn from(error: E) -> FieldError {
        FieldError(ApiError::from(error), None)
    }
}

impl IntoResponse for FieldError {
    fn into_response(self) -> Response {
        let body = Json(self.failure());
        let (head, _) = self.0.into_response().into_parts();
        let mut response = (head.status, body).into_response();
        for name in [header::RETRY_AFTER, header::WWW_AUTHENTICATE] {
            if let Some(value) = head.headers.get(&name) {
                response.headers_mut().insert(name, value.clone());
            }
        }
        response
    }
}

/// Gives a task to an agent, or to the team.
#[utoipa::path(
    post, path = "/openai/v1/chat/completions", tag = "openai",
    params(("X-Unisono-Session" = Option<String>, Header, description = "The session to continue"),
           ("Idempotency-Key" = Option<String>, Header,
            description = "In a session: a repeated request with this key gets the first answer, also after a crash")),
    request_body = ChatRequest,
    responses((status = 200, description = "The answer; with `stream`, its pieces as server-sent events",
               headers(("X-Unisono-Session" = String, description = "The continued session, if any")),
               content((ChatCompletion = "application/json"), (String = "text/event-stream"))))
)]
async fn complete(
    State(shared): State<Arc<Shared>>,
    Extension(body): Extension<BodyShare>,
    headers: HeaderMap,
    request: Result<extract::Json<ChatRequest>, ApiError>,
) -> Result<Response, FieldError> {
    let extract::Json(request) = request?;
    unsupported::check_chat(&request)?;
    let stream = request.stream.unwrap_or_default();
    let conversation = Conversation {
        model: request.model.clone(),
        messages: request.messages,
        field: "messages",
        session: request.metadata.and_then(|mut data| data.remove("session")),
        stream,
        form: Form {
            answers: request.n,
            format: request
                .response_format
                .map(|format| ("response_format", format)),
            most: match (request.max_completion_tokens, request.max_tokens) {
                (Some(most), _) => Some(("max_completion_tokens", most)),
                (None, Some(most)) => Some(("max_tokens", most)),
                (None, None) => None,
            },
            stop: request.stop,
        },
        tools: ClientToolRequest::new(
            request.tools,
            request.tool_choice,
            request.parallel_tool_calls,
        ),
    };
    let prepared = prepare(&shared, &headers, conversation).await?;
    let session = prepared.continued();
    if stream {
        let shape = |id| chat::Chunks {
            id,
            model: request.model,
            created: now(),
            usage: request.stream_options.unwrap_or_default().include_usage == Some(true),
        };
        return Ok(named(
            answer::stream(shared, prepared, shape).await,
            session,
        ));
    }
    let answer = answer_of(&shared, prepared, &body).await;
    let answer = answer.map(|(id, turn, text)| {
        Json(chat::completion(id, request.model, text, &turn)).into_response()
    });
    Ok(named(answer, session))
}

/// The response, with a header that names the continued session.
fn named(answer: Result<Response, FieldError>, session: Option<HeaderValue>) -> Response {
    let mut response = answer.into_response();
    if let Some(session) = session {
        response.headers_mut().insert(SESSION, session);
    }
    response
}

/// The input and its recipient.
struct Conversation {
    /// An agent, or the team.
    model: String,
    /// Chat messages; the last one is the task.
    messages: Vec<Value>,
    /// The field of the request that holds them.
    field: &'static str,
    /// The session named in the request's body.
    session: Option<String>,
    stream: bool,
    form: Form,
    tools: ClientToolRequest,
}

impl Conversation {
    /// The content of the request without its output format, for the idempotency key.
    fn keyed(&self) -> impl Serialize {
        let (form, tools) = (&self.form, &self.tools);
        (
            (&self.model, &self.messages),
            (form.answers, &form.format, form.most, &form.stop),
            (&tools.tools, &tools.choice, tools.parallel),
        )
    }
}

/// The answer at the end of the turn. While it waits, it keeps neither the ask nor the room of the body.
async fn answer_of(
    shared: &Shared,
    mut prepared: PreparedRequest,
    body: &BodyShare,
) -> Result<(TurnId, Turn, String), FieldError> {
    let id = begin(shared, &mut prepared).await?;
    body.release();
    let ended = tokio::select! {
        biased;
        ended = prepared.session.wait(id) => ended,
        waiting = until_waiting(&prepared.session, id) => {
            return Err(prepared.waits(id, &waiting));
        }
    };
    let turn = match ended {
        Ok(_) => turns::read(shared, &prepared.session, id).await,
        Err(error) => Err(error.into()),
    };
    prepared.leave().await;
    let (turn, text) = answer_text(turn?)?;
    Ok((id, turn, text))
}

/// The task and its agents.
struct PreparedRequest {
    session: Handle,
    ask: Ask,
    /// The earlier turn with the same key.
    known: Option<TurnId>,
    /// Owns the ephemeral session of this request.
    ephemeral: Option<EphemeralSession>,
    /// The permit of its stream, if it streams.
    place: Option<OwnedSemaphorePermit>,
    /// Whether the answer may be JSON. A stream sends it when it is complete: the text of an attempt
    /// that fails cannot be taken back.
    is_structured: bool,
}

impl PreparedRequest {
    /// The continued session, for a header; none for an ephemeral one.
    fn continued(&self) -> Option<HeaderValue> {
        let id = self.session.id().to_string();
        let id = self.ephemeral.is_none().then_some(id)?;
        HeaderValue::from_str(&id).ok()
    }

    /// The error for a turn with calls that wait for a person, which may take hours. The turn stays,
    /// with its session. Clients do not repeat the request after this status.
    fn waits(&mut self, turn: TurnId, waiting: &[WaitingCall]) -> FieldError {
        if let Some(ephemeral) = self.ephemeral.take() {
            ephemeral.keep();
        }
        let session = self.session.id();
        let text = describe_calls(session, turn, waiting);
        let detail = format!(
            "{text}The turn stays. Once that is decided, GET /v1/sessions/{session}/turns/{turn} \
             has its answer."
        );
        ApiError::new(Code::Refused, detail).into()
    }

    /// Removes the ephemeral session of this request.
    async fn leave(&mut self) {
        if let Some(ephemeral) = self.ephemeral.take() {
            ephemeral.leave().await;
        }
    }
}

/// The session that the header of a request names, or else its body.
async fn named_session(
    shared: &Shared,
    headers: &HeaderMap,
    in_body: Option<&str>,
) -> Result<Option<Handle>, ApiError> {
    let header = headers.get(SESSION);
    // An id that is not ASCII is refused like any other wrong one.
    let header = header.map(|id| String::from_utf8_lossy(id.as_bytes()));
    Ok(match header.as_deref().or(in_body) {
        Some(id) => Some(sessions::open(shared, id).await?),
        None => None,
    })
}

async fn prepare(
    shared: &Shared,
    headers: &HeaderMap,
    said: Conversation,
) -> Result<PreparedRequest, FieldError> {
    let named = named_session(shared, headers, said.session.as_deref()).await?;
    let key = match &named {
        Some(_) => turns::key(headers, &said.keyed())?,
        None => None,
    };
    if let (Some(session), Some(key)) = (&named, &key)
        && let Some(known) = session.turn_by_key(key).await?
    {
        return repeated_request(shared, session, known, &said);
    }
    let list = List {
        messages: addresses::read(shared, said.messages, said.field).await?,
        field: said.field,
    };
    let (import, ask) = match &named {
        Some(session) => (Import::default(), list.new_in(shared, session).await?),
        None => list.without_session(shared)?,
    };
    let ask = ask.with_key(key);
    let wanted = said.form.read()?;
    let ask = for_model(ask, &said.model, said.tools)?
        .with_bounds(wanted.bounds.clone())
        .stopping_at(wanted.stop.clone());
    let setup = match &named {
        Some(session) => shared.local.setup_of(session).await?,
        None => shared.local.setup(),
    };
    let team = ask.team(&setup).map_err(|error| no_model(&error))?;
    wanted.fits(&team.lead)?;
    // Checked before the session exists, so that an error leaves no session behind.
    let place = said
        .stream
        .then(|| events::reserve_stream(shared))
        .transpose()?;
    let (session, ephemeral) = match named {
        Some(session) => (session, None),
        None => {
            let sessions = &shared.ephemeral_sessions;
            let ephemeral = sessions.create(&shared.local, import).await?;
            (ephemeral.session.clone(), Some(ephemeral))
        }
    };
    Ok(PreparedRequest {
        ephemeral,
        session,
        ask,
        known: None,
        place,
        is_structured: team.lead.output_schema.is_some(),
    })
}

/// The error for a model that is no agent, and not the team.
fn no_model(error: &AgentsError) -> FieldError {
    let detail = match error {
        AgentsError::Unknown { .. } => {
            format!("{error}; `{TEAM}` is the configured lead with its delegates")
        }
        error => error.to_string(),
    };
    FieldError::field("model", Code::NotFound, detail)
}

/// The ask for the team, or for a single agent with the client's tools.
fn for_model(ask: Ask, model: &str, tools: ClientToolRequest) -> Result<Ask, FieldError> {
    let (specs, client_options) = tools
        .read()
        .map_err(|wrong| FieldError::field(wrong.field, Code::InvalidRequest, wrong.detail))?;
    if model != TEAM {
        let ask = ask.lead(model).agents(Vec::<String>::new());
        return Ok(ask.with_client_tools(specs, client_options));
    }
    if !specs.is_empty() {
        let detail = "client tools work for a single agent: name an agent as the model";
        return Err(FieldError::field("tools", Code::InvalidRequest, detail));
    }
    Ok(ask)
}

/// The earlier request with the same key.
fn repeated_request(
    shared: &Shared,
    session: &Handle,
    known: TurnId,
    said: &Conversation,
) -> Result<PreparedRequest, FieldError> {
    Ok(PreparedRequest {
        session: session.clone(),
        ask: Ask::new(""),
        known: Some(known),
        ephemeral: None,
        place: said
            .stream
            .then(|| events::reserve_stream(shared))
            .transpose()?,
        is_structured: true,
    })
}

/// Rejects images and files without content, unless a note may replace them: they would reach no
/// model.
fn check_attachments(
    shared: &Shared,
    import: &Import,
    field: &'static str,
) -> Result<(), FieldError> {
    if shared.local.setup().loaded.config.server.attachments == Attachments::Note {
        return Ok(());
    }
    let mut parts = import
        .messages
        .iter()
        .flat_map(|(_, message)| &message.parts);
    let found = parts.find_map(|part| match part {
        Part::Attachment {
            filename,
            mime,
            content: None,
            ..
        } => Some(format!(
            "{} ({})",
            line(filename, SHOWN_CHARS),
            line(mime, SHOWN_CHARS)
        )),
        _ => None,
    });
    found.map_or(Ok(()), |found| {
        let detail = format!(
            "{found} cannot be sent: PNG, JPEG, GIF, WebP and PDF are taken, with their content in the \
             request (a `data:` URL) or at a host of `attachments.allowed_hosts`. Leave it out, or \
             set `server.attachments` to \"note\", and a note stands in its place"
        );
        Err(FieldError::field(field, Code::InvalidRequest, detail))
    })
}

async fn begin(shared: &Shared, prepared: &mut PreparedRequest) -> Result<TurnId, FieldError> {
    if let Some(known) = prepared.known {
        return Ok(known);
    }
    let ask = std::mem::replace(&mut prepared.ask, Ask::new(""));
    match shared.local.begin(&prepared.session, &ask).await {
        Ok(turn) => Ok(turn),
        Err(error) => {
            prepared.leave().await;
            Err(error.into())
        }
    }
}

/// Unix time in seconds.
fn now() -> i64 {
    clock::now().0 / 1_000
}

/// Starts the turn of a request and follows it. The turn of a repeated request is followed from its
/// current state on.
async fn follow(
    shared: &Shared,
    prepared: &mut PreparedRequest,
) -> Result<(TurnId, Follower), FieldError> {
    let ask = std::mem::replace(&mut prepared.ask, Ask::new(""));
    let session = &prepared.session;
    if let Some(turn) = prepared.known {
        let follower = shared.local.follower(session.clone(), turn, None).await?;
        return Ok((turn, follower));
    }
    match shared.local.begin_followed(session, &ask).await {
        Ok(begun) => Ok(begun),
        Err(error) => {
            prepared.leave().await;
            Err(error.into())
        }
    }
}
