//! The binding to HTTP with JSON.

use std::sync::Arc;

use a2a::SendMessageRequest;
use axum::Router;
use axum::extract::{RawPathParams, Request, State};
use axum::http::Uri;
use axum::response::Response;
use axum::response::sse::Event;
use axum::routing::{get, post};
use serde_json::{Map, Value};

use super::error::{Error, Kind};
use super::operations::{Answer, Operation};
use super::rpc::typed;
use super::{A2a, agent, http, message};

/// The name of the event that ends a stream with an error.
const ERROR: &str = "error";
/// Parameters with a number, and parameters with a flag.
const NUMBERS: [&str; 2] = ["historyLength", "pageSize"];
const FLAGS: [&str; 1] = ["includeArtifacts"];

pub(super) fn routes() -> Router<Arc<A2a>> {
    let callbacks = "/tasks/{task}/pushNotificationConfigs";
    let callback = "/tasks/{task}/pushNotificationConfigs/{callback}";
    Router::new()
        .route("/message:send", post(send))
        .route("/message:stream", post(stream))
        .route("/tasks", get(list))
        .route("/tasks/{task}", get(task).post(task))
        .route(callbacks, get(callbacks_of).post(create_callback))
        .route(callback, get(callback_of).delete(delete_callback))
        .route("/extendedAgentCard", get(extended))
}

/// The address of a request and the state of the routes.
type Extracted = (State<Arc<A2a>>, Uri, RawPathParams);

async fn send(at: Extracted, request: Request) -> Response {
    let read = async |request| Ok(Operation::SendMessage(sent(request).await?));
    carry_out(at, request, read).await
}

async fn stream(at: Extracted, request: Request) -> Response {
    let read = async |request| Ok(Operation::SendStreamingMessage(sent(request).await?));
    carry_out(at, request, read).await
}

async fn list(at: Extracted, request: Request) -> Response {
    let query = query(&at.1);
    let read = async |_| Ok(Operation::ListTasks(typed(Value::Object(query?))?));
    carry_out(at, request, read).await
}

async fn extended(at: Extracted, request: Request) -> Response {
    carry_out(at, request, async |_| Ok(Operation::GetExtendedAgentCard)).await
}

async fn create_callback(at: Extracted, request: Request) -> Response {
    let named = path_fields(&at.2);
    let read = async |request| {
        let mut fields = object(&http::body(request, false).await?)?;
        fields.extend(named);
        Ok(Operation::CreateCallback(typed(Value::Object(fields))?))
    };
    carry_out(at, request, read).await
}

async fn callbacks_of(at: Extracted, request: Request) -> Response {
    let fields = all_fields(&at);
    let read = async |_| Ok(Operation::ListCallbacks(typed(Value::Object(fields?))?));
    carry_out(at, request, read).await
}

async fn callback_of(at: Extracted, request: Request) -> Response {
    let fields = all_fields(&at);
    let read = async |_| Ok(Operation::GetCallback(typed(Value::Object(fields?))?));
    carry_out(at, request, read).await
}

async fn delete_callback(at: Extracted, request: Request) -> Response {
    let fields = all_fields(&at);
    let read = async |_| Ok(Operation::DeleteCallback(typed(Value::Object(fields?))?));
    carry_out(at, request, read).await
}

/// The fields of a request without a body: those of its query, and those that its address names.
fn all_fields((_, uri, params): &Extracted) -> Result<Map<String, Value>, Error> {
    let mut fields = query(uri)?;
    fields.extend(path_fields(params));
    Ok(fields)
}

/// The task and the callback that an address names.
fn path_fields(params: &RawPathParams) -> Map<String, Value> {
    let named = params.iter().filter_map(|(name, value)| match name {
        "task" => Some(("taskId".to_owned(), value.into())),
        "callback" => Some(("id".to_owned(), value.into())),
        _ => None,
    });
    named.collect()
}

/// A task, or an action on it: `{id}`, `{id}:cancel`, `{id}:subscribe`.
async fn task(at: Extracted, request: Request) -> Response {
    let named = at.2.iter().find(|(name, _)| *name == "task");
    let named = named.map(|(_, task)| task.to_owned()).unwrap_or_default();
    let (id, verb) = match named.rsplit_once(':') {
        Some((id, verb)) => (id.to_owned(), Some(verb.to_owned())),
        None => (named, None),
    };
    let query = query(&at.1);
    let read = async |request: Request| {
        let is_get = request.method().is_safe();
        let mut fields = match is_get {
            true => query?,
            false => object(&http::body(request, true).await?)?,
        };
        fields.insert("id".to_owned(), id.into());
        let fields = Value::Object(fields);
        Ok(match (verb.as_deref(), is_get) {
            (None, true) => Operation::GetTask(typed(fields)?),
            (Some("cancel"), false) => Operation::CancelTask(typed(fields)?),
            (Some("subscribe"), _) => Operation::SubscribeToTask(typed(fields)?),
            (None | Some("cancel"), _) => {
                let message = "GET a task, POST to cancel it";
                return Err(Error::new(Kind::MethodNotAllowed, message));
            }
            (Some(_), _) => {
                let message = "a task supports GET, `:cancel` and `:subscribe`";
                return Err(Error::new(Kind::NotFound, message));
            }
        })
    };
    carry_out(at, request, read).await
}

async fn carry_out(
    (State(a2a), uri, params): Extracted,
    request: Request,
    read: impl AsyncFnOnce(Request) -> Result<Operation, Error>,
) -> Response {
    let kind = http::media_type(request.headers());
    let context = a2a.context(&request);
    let answered = async {
        http::check_version(request.headers(), &uri)?;
        let operation = read(request).await?;
        a2a.carry_out(agent(&params), operation, context).await
    };
    match answered.await {
        Ok(Answer::Value(value)) => http::answer(200, kind, &value, None),
        Ok(Answer::Stream(updates)) => http::events(*updates, |update| match update {
            Ok(update) => Event::default().data(update.to_string()),
            Err(error) => Event::default()
                .event(ERROR)
                .data(error.to_http().to_string()),
        }),
        Err(error) => http::refused(&error),
    }
}

/// Reads a request that sends a message from a body.
async fn sent(request: Request) -> Result<SendMessageRequest, Error> {
    let body = http::body(request, false).await?;
    message::request(Value::Object(object(&body)?))
}

fn object(body: &[u8]) -> Result<Map<String, Value>, Error> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Error::new(
            Kind::InvalidRequest,
            "the body must be a JSON object",
        )),
        Err(error) => {
            let message = format!("the body is not JSON: {error}");
            Err(Error::new(Kind::Parse, message))
        }
    }
}

/// Reads the fields of a request from its query.
fn query(uri: &Uri) -> Result<Map<String, Value>, Error> {
    let each = http::parameters(uri).into_iter().map(|(name, text)| {
        let value = match name.as_str() {
            number if NUMBERS.contains(&number) => {
                let wrong = |_| Error::field(number, "must be a whole number");
                text.parse::<i32>().map_err(wrong)?.into()
            }
            flag if FLAGS.contains(&flag) => {
                let wrong = |_| Error::field(flag, "must be `true` or `false`");
                text.parse::<bool>().map_err(wrong)?.into()
            }
            _ => Value::String(text),
        };
        Ok((name, value))
    });
    each.collect()
}
