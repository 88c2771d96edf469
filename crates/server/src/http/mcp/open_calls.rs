//! Tool calls that clients of earlier revisions take back.
//!
//! Such a client does not close the connection of the call. It sends another request with the number that
//! it gave to the call. Two clients may give one number, so the header `Mcp-Session-Id` names the client.
//! Each client gets its id in the response to `initialize`; nothing else is kept for it. A client takes back
//! no calls of other callers, whichever id it sends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::{StreamExt as _, stream};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use unisono::caller::Caller;
use uuid::Uuid;

/// The header that names a client.
pub(super) const CLIENT: HeaderName = HeaderName::from_static("mcp-session-id");

/// A caller, and the id of its client.
type Client = (Caller, String);
/// The client of a call, and its id in JSON.
type CallKey = (Client, String);

/// The calls that are being answered. Of two calls with one key, the later one can be taken back.
#[derive(Debug, Default)]
pub(in crate::http) struct OpenCalls(Mutex<HashMap<CallKey, CancellationToken>>);

/// A call that is being answered, until it is dropped.
struct OpenCall {
    calls: Arc<OpenCalls>,
    key: CallKey,
    cancelled: CancellationToken,
}

impl OpenCalls {
    /// The answer to a call. If the client takes the call back, the answer ends as if the client had
    /// closed the connection.
    pub(super) async fn answer(
        self: &Arc<OpenCalls>,
        key: CallKey,
        answering: impl Future<Output = Response>,
    ) -> Response {
        let call = self.begin(key);
        let answered = call.cancelled.run_until_cancelled(answering).await;
        let Some(response) = answered else {
            return StatusCode::ACCEPTED.into_response();
        };
        let kind = response.headers().get(header::CONTENT_TYPE);
        match kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
            true => until_cancelled(response, call),
            false => response,
        }
    }

    /// Takes back the call that a message of a client names, if it is being answered.
    pub(super) fn cancel(&self, client: Client, message: &[u8]) {
        let message: Value = serde_json::from_slice(message).unwrap_or_default();
        let id = message["params"]["requestId"].to_string();
        let call = self.lock().remove(&(client, id));
        if let Some(call) = call {
            call.cancel();
        }
    }

    fn begin(self: &Arc<OpenCalls>, key: CallKey) -> OpenCall {
        let cancelled = CancellationToken::new();
        self.lock().insert(key.clone(), cancelled.clone());
        OpenCall {
            calls: self.clone(),
            key,
            cancelled,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallKey, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut calls = self.calls.lock();
        if calls.get(&self.key) == Some(&self.cancelled) {
            calls.remove(&self.key);
        }
    }
}

/// The response to `initialize`, with a name for the client.
pub(super) fn name_client(mut response: Response) -> Response {
    if let Ok(name) = HeaderValue::from_str(&Uuid::now_v7().to_string()) {
        response.headers_mut().insert(CLIENT, name);
    }
    response
}

/// A stream of messages that ends early if the client takes the call back.
fn until_cancelled(response: Response, call: OpenCall) -> Response {
    let (parts, body) = response.into_parts();
    let open = (body.into_data_stream(), call);
    let pieces = stream::unfold(open, |(mut body, call)| async move {
        let piece = call.cancelled.run_until_cancelled(body.next()).await??;
        Some((piece, (body, call)))
    });
    Response::from_parts(parts, Body::from_stream(pieces))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt as _;
    use unisono_api::token::Scope;

    use super::*;

    #[tokio::test]
    async fn a_call_is_taken_back_by_its_client_alone() {
        let calls = Arc::new(OpenCalls::default());
        let client = |id: &str| (Caller::default(), id.to_owned());
        let key = |id: &str| (client(id), "5".to_owned());
        let cancel_as = |client: Client, id: &str| {
            let message = format!(r#"{{"params":{{"requestId":{id}}}}}"#);
            calls.cancel(client, message.as_bytes());
        };
        let cancel = |id: &str, call: &str| cancel_as(client(id), call);
        let mut answering = Box::pin(calls.answer(key("a"), pending()));
        assert!((&mut answering).now_or_never().is_none());
        for (client, id) in [
            ("b", "5"),
            ("a", "6"),
            ("a", "\"5\""),
            ("a", "null"),
            ("a", ""),
        ] {
            cancel(client, id);
            assert!((&mut answering).now_or_never().is_none(), "{client} {id}");
        }
        let other = Caller::new("ada", Scope::Admin, None);
        cancel_as((other, "a".to_owned()), "5");
        assert!((&mut answering).now_or_never().is_none());
        cancel("a", "5");
        assert_eq!(answering.await.status(), StatusCode::ACCEPTED);

        let said = stream::iter([Ok::<_, std::io::Error>("data: 1\n\n")]);
        let body = Body::from_stream(said.chain(stream::pending()));
        let kind = [(header::CONTENT_TYPE, "text/event-stream")];
        let answered = async { (kind, body).into_response() };
        let response = calls.answer(key("b"), answered).await;
        let mut pieces = response.into_body().into_data_stream();
        assert_eq!(pieces.next().await.unwrap().unwrap(), "data: 1\n\n");
        cancel("b", "5");
        assert!(pieces.next().await.is_none());
        drop(pieces);
        assert!(calls.lock().is_empty());

        // A client gives a number again.
        let mut before = Box::pin(calls.answer(key("c"), pending()));
        assert!((&mut before).now_or_never().is_none());
        let mut again = Box::pin(calls.answer(key("c"), pending()));
        assert!((&mut again).now_or_never().is_none());
        drop(before);
        cancel("c", "5");
        let answered = again.now_or_never().unwrap();
        assert_eq!(answered.status(), StatusCode::ACCEPTED);
        assert!(calls.lock().is_empty());
    }
}
