//! The binding to JSON-RPC 2.0.

use std::sync::Arc;

use a2a::methods;
use axum::Router;
use axum::extract::{RawPathParams, Request, State};
use axum::http::Uri;
use axum::response::Response;
use axum::response::sse::Event;
use axum::routing::{MethodRouter, post};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::error::{Error, Kind};
use super::operations::{Answer, Operation};
use super::{A2a, agent, http, message};

/// The media type of a response.
const JSON: &str = "application/json";

pub(super) fn routes() -> Router<Arc<A2a>> {
    Router::new().route("/", endpoint())
}

/// The handler of all requests, for addresses outside of [`routes`].
pub(super) fn endpoint() -> MethodRouter<Arc<A2a>> {
    post(answer)
}

/// A request, with the readable fields.
#[derive(Debug)]
struct Call {
    id: Value,
    operation: Operation,
}

async fn answer(
    State(a2a): State<Arc<A2a>>,
    uri: Uri,
    params: RawPathParams,
    request: Request,
) -> Response {
    let context = a2a.context(&request);
    let version = http::check_version(request.headers(), &uri);
    let body = match http::body(request, false).await {
        Ok(body) => body,
        Err(error) => return refused(&error),
    };
    let call = match read(&body) {
        Ok(call) => call,
        Err(unread) => {
            let InvalidRequest { id, error } = *unread;
            // Other versions have other methods.
            let is_method = error.kind == Kind::MethodNotFound;
            let other = version.err().filter(|_| is_method);
            return failed(&id, &other.unwrap_or(error));
        }
    };
    drop(body);
    let agent = agent(&params);
    let answered = match version {
        Ok(()) => a2a.carry_out(agent, call.operation, context).await,
        Err(error) => Err(error),
    };
    let id = call.id;
    match answered {
        Ok(Answer::Value(result)) => http::answer(200, JSON, &response(&id, Ok(result)), None),
        Ok(Answer::Stream(updates)) => {
            let word = move |update| Event::default().data(response(&id, update).to_string());
            http::events(*updates, word)
        }
        Err(error) => failed(&id, &error),
    }
}

/// An error of a request with an unknown id.
pub(super) fn refused(error: &Error) -> Response {
    failed(&Value::Null, error)
}

fn failed(id: &Value, error: &Error) -> Response {
    let body = response(id, Err(error.clone()));
    http::answer(error.rpc_status(), JSON, &body, Some(error))
}

fn response(id: &Value, result: Result<Value, Error>) -> Value {
    match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error.to_rpc()}),
    }
}

/// An invalid request, with its id if it is readable.
#[derive(Debug)]
struct InvalidRequest {
    id: Value,
    error: Error,
}

/// Parses a request.
fn read(body: &[u8]) -> Result<Call, Box<InvalidRequest>> {
    let unread = |id: Value, error: Error| Box::new(InvalidRequest { id, error });
    let invalid = |id: Value, why: &str| unread(id, Error::new(Kind::InvalidRequest, why));
    let request: Value = serde_json::from_slice(body).map_err(|error| {
        let message = format!("the body is not JSON: {error}");
        unread(Value::Null, Error::new(Kind::Parse, message))
    })?;
    let Value::Object(mut request) = request else {
        let why = "the body must be one request: an object of JSON-RPC 2.0";
        return Err(invalid(Value::Null, why));
    };
    let id = match request.remove("id") {
        Some(id @ (Value::String(_) | Value::Number(_))) => id,
        _ => {
            let why = "`id` must be a text or a number: each request is answered";
            return Err(invalid(Value::Null, why));
        }
    };
    if request.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid(id, "`jsonrpc` must be \"2.0\""));
    }
    let Some(method) = request
        .get("method")
        .and_then(Value::as_str)
        .map(str::to_owned)
    else {
        return Err(invalid(id, "`method` must be a text"));
    };
    let params = match request.remove("params") {
        None => Value::Object(Map::new()),
        Some(params @ Value::Object(_)) => params,
        Some(_) => {
            let error = Error::new(Kind::InvalidParams, "`params` must be an object");
            return Err(unread(id, error));
        }
    };
    match operation(&method, params) {
        Ok(operation) => Ok(Call { id, operation }),
        Err(error) => Err(unread(id, error)),
    }
}

fn operation(method: &str, params: Value) -> Result<Operation, Error> {
    Ok(match method {
        methods::SEND_MESSAGE => Operation::SendMessage(message::request(params)?),
        methods::SEND_STREAMING_MESSAGE => {
            Operation::SendStreamingMessage(message::request(params)?)
        }
        methods::GET_TASK => Operation::GetTask(typed(params)?),
        methods::LIST_TASKS => Operation::ListTasks(typed(params)?),
        methods::CANCEL_TASK => Operation::CancelTask(typed(params)?),
        methods::SUBSCRIBE_TO_TASK => Operation::SubscribeToTask(typed(params)?),
        methods::CREATE_PUSH_CONFIG => Operation::CreateCallback(typed(params)?),
        methods::GET_PUSH_CONFIG => Operation::GetCallback(typed(params)?),
        methods::LIST_PUSH_CONFIGS => Operation::ListCallbacks(typed(params)?),
        methods::DELETE_PUSH_CONFIG => Operation::DeleteCallback(typed(params)?),
        methods::GET_EXTENDED_AGENT_CARD => Operation::GetExtendedAgentCard,
        unknown => {
            let shown: String = unknown.chars().take(64).collect();
            let message = format!("there is no method {shown:?}");
            return Err(Error::new(Kind::MethodNotFound, message));
        }
    })
}

/// Whether a request changes nothing and needs nothing but the store.
pub(super) fn only_reads(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Method {
        method: String,
    }
    const READS: [&str; 5] = [
        methods::GET_TASK,
        methods::LIST_TASKS,
        methods::SUBSCRIBE_TO_TASK,
        methods::GET_PUSH_CONFIG,
        methods::LIST_PUSH_CONFIGS,
    ];
    let request = serde_json::from_slice::<Method>(body);
    request.is_ok_and(|request| READS.contains(&request.method.as_str()))
}

pub(super) fn typed<T: DeserializeOwned>(params: Value) -> Result<T, Error> {
    let parsed = serde_path_to_error::deserialize(params);
    parsed.map_err(|error: serde_path_to_error::Error<serde_json::Error>| {
        match error.path().iter().next() {
            Some(_) => Error::field(error.path().to_string(), error.inner()),
            None => Error::new(Kind::InvalidParams, error.inner().to_string()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_reads_is_known_by_its_method() {
        for (body, expected) in [
            (r#"{"id":1,"method":"GetTask","params":{"id":"x"}}"#, true),
            (r#"{"method":"SubscribeToTask"}"#, true),
            (r#"{"method":"ListTasks"}"#, true),
            (r#"{"method":"SendMessage"}"#, false),
            (r#"{"method":"CancelTask"}"#, false),
            (r#"{"method":"GetTaskPushNotificationConfig"}"#, true),
            (r#"{"method":"CreateTaskPushNotificationConfig"}"#, false),
            (r#"{"method":1}"#, false),
            ("[]", false),
            ("{", false),
        ] {
            assert_eq!(only_reads(body.as_bytes()), expected, "{body}");
        }
    }

    #[test]
    fn an_invalid_field_is_named() {
        let params = json!({"pageSize": 5, "statusTimestampAfter": "yesterday"});
        let refused = typed::<a2a::ListTasksRequest>(params)
            .unwrap_err()
            .to_string();
        assert!(refused.starts_with("statusTimestampAfter: "), "{refused}");
        let refused = typed::<a2a::GetTaskRequest>(json!({}))
            .unwrap_err()
            .to_string();
        assert_eq!(refused, "missing field `id`");
    }

    #[test]
    fn what_is_no_request_is_refused_with_what_is_known_of_its_id() {
        let request = |changes: Value| {
            let mut request = json!({"jsonrpc": "2.0", "id": 7, "method": "GetTask",
                "params": {"id": "x"}});
            let fields = request.as_object_mut().unwrap();
            fields.extend(changes.as_object().unwrap().clone());
            request.to_string()
        };
        read(request(json!({})).as_bytes()).unwrap();
        let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
        let rows = rows! {
            ("{".to_owned(), Value::Null, -32700),
            (String::new(), Value::Null, -32700),
            ("\u{0}".to_owned(), Value::Null, -32700),
            (deep, Value::Null, -32700),
            ("[]".to_owned(), Value::Null, -32600),
            (format!("[{}]", request(json!({}))), Value::Null, -32600),
            (request(json!({"id": null})), Value::Null, -32600),
            (request(json!({"id": {"a": 1}})), Value::Null, -32600),
            (request(json!({"jsonrpc": "1.0"})), json!(7), -32600),
            (request(json!({"method": 1, "id": "a"})), json!("a"), -32600),
            (request(json!({"method": "message/send"})), json!(7), -32601),
            (request(json!({"method": ""})), json!(7), -32601),
            (request(json!({"params": ["x"]})), json!(7), -32602),
            (request(json!({"params": {}})), json!(7), -32602),
            (request(json!({"params": {"id": 1}})), json!(7), -32602),
            (request(json!({"params": {"id": "x", "historyLength": 1.5}})), json!(7), -32602),
            (request(json!({"method": "ListTasks", "params": {"status": "RUNNING"}})), json!(7),
             -32602),
            (request(json!({"method": "SendMessage", "params": {"message": {
                "messageId": "m", "role": "user", "parts": []}}})), json!(7), -32602),
            (request(json!({"method": "SendMessage", "params": {"message": {
                "messageId": "m", "role": "ROLE_USER", "parts": [{"kind": "text"}]}}})), json!(7),
             -32602),
        };
        for (body, id, code) in rows {
            let InvalidRequest { id: found, error } = *read(body.as_bytes()).unwrap_err();
            assert_eq!(
                (found, &error.to_rpc()["code"]),
                (id, &json!(code)),
                "{body}"
            );
        }
    }
}
