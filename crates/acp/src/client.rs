//! The client's end of the connection: messages to the client, requests to it, and errors in the
//! form of the protocol.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use unisono_api::Code;
use unisono_api::service;

use crate::protocol::Update;

/// Maximum queued messages. A slow client delays only itself.
const QUEUE: usize = 256;

/// Codes of JSON-RPC, and of the protocol.
pub(crate) const UNREADABLE: i64 = -32_700;
pub(crate) const INVALID_REQUEST: i64 = -32_600;
pub(crate) const UNKNOWN_METHOD: i64 = -32_601;
pub(crate) const INVALID_PARAMS: i64 = -32_602;
const INTERNAL: i64 = -32_603;
/// A session, an agent or another thing does not exist.
const NOT_FOUND: i64 = -32_002;

/// The notification, in both directions, that withdraws a request.
pub(crate) const CANCEL_REQUEST: &str = "$/cancel_request";

/// An error that a client is answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Error {
    code: i64,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
}

impl Error {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Error {
        Error {
            code,
            message: message.into(),
            data: None,
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(INVALID_PARAMS, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Error {
        Error::new(INTERNAL, message)
    }
}

impl From<service::Error> for Error {
    fn from(error: service::Error) -> Error {
        let code = match error.code() {
            Code::NotFound => NOT_FOUND,
            Code::InvalidRequest | Code::Refused | Code::Conflict | Code::TooLarge => {
                INVALID_PARAMS
            }
            _ => INTERNAL,
        };
        Error {
            data: Some(json!({"code": error.code()})),
            ..Error::new(code, error.to_string())
        }
    }
}

/// The writing side of a client. Clones write to the same client.
#[derive(Clone)]
pub(crate) struct Client {
    lines: mpsc::Sender<String>,
    requests: Arc<Mutex<OpenRequests>>,
}

#[derive(Debug)]
pub(crate) struct Disconnected;

impl From<Disconnected> for Error {
    fn from(_: Disconnected) -> Error {
        Error::internal("the client has left")
    }
}

/// Why a request to the client has no result.
#[derive(Debug)]
pub(crate) enum NoResult {
    Disconnected,
    /// The client's error, or the fault of its answer.
    Refused(String),
}

/// A request to the client. If it is dropped without an answer, the request is withdrawn.
struct OpenRequest<'c> {
    client: &'c Client,
    id: u64,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        let open = self.client.open_requests().open.remove(&self.id);
        if open.is_none() {
            return;
        }
        let cancel = json!({"jsonrpc": "2.0", "method": CANCEL_REQUEST,
            "params": {"requestId": self.id}});
        if self.client.lines.try_send(cancel.to_string()).is_err() {
            tracing::debug!(
                id = self.id,
                "a client is not told that a request is withdrawn"
            );
        }
    }
}

#[derive(Default)]
struct OpenRequests {
    /// The last number of a request or a message.
    last: u64,
    open: HashMap<u64, oneshot::Sender<Value>>,
    is_closed: bool,
}

impl Client {
    /// A client, and the lines to write to it.
    pub(crate) fn new() -> (Client, mpsc::Receiver<String>) {
        let (lines, to_write) = mpsc::channel(QUEUE);
        let requests = Arc::default();
        (Client { lines, requests }, to_write)
    }

    pub(crate) async fn notify(&self, session: &str, update: &Update) -> Result<(), Disconnected> {
        let params = json!({"sessionId": session, "update": update});
        self.send(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
            .await
    }

    pub(crate) async fn answer(
        &self,
        id: &Value,
        answer: Result<Value, Error>,
    ) -> Result<(), Disconnected> {
        let message = match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        };
        self.send(&message).await
    }

    /// Asks the client. A caller that no longer waits withdraws the request.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        params: Value,
    ) -> Result<T, NoResult> {
        let (id, answer) = {
            let mut asked = self.open_requests();
            if asked.is_closed {
                return Err(NoResult::Disconnected);
            }
            asked.last += 1;
            let (tell, answer) = oneshot::channel();
            let id = asked.last;
            asked.open.insert(id, tell);
            (id, answer)
        };
        let _open = OpenRequest { client: self, id };
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let sent = self.send(&request).await;
        sent.map_err(|Disconnected| NoResult::Disconnected)?;
        let answer = answer.await.map_err(|_| NoResult::Disconnected)?;
        T::deserialize(&answer["result"]).map_err(|wrong| {
            tracing::warn!(%wrong, %answer, "the client's answer to {method} cannot be read");
            let refused = answer["error"]["message"].as_str();
            NoResult::Refused(refused.map_or_else(|| wrong.to_string(), str::to_owned))
        })
    }

    /// A new id of a message that is not part of the conversation.
    pub(crate) fn message_id(&self) -> String {
        let mut asked = self.open_requests();
        asked.last += 1;
        format!("message:{}", asked.last)
    }

    /// Takes an answer of the client's.
    pub(crate) fn resolve(&self, id: &Value, message: Value) {
        let asked = id
            .as_u64()
            .and_then(|id| self.open_requests().open.remove(&id));
        match asked {
            // The caller may no longer wait.
            Some(tell) => drop(tell.send(message)),
            None => tracing::debug!(%id, "response to an unknown request"),
        }
    }

    /// The client has disconnected: all open requests end without an answer.
    pub(crate) fn close(&self) {
        let mut asked = self.open_requests();
        asked.is_closed = true;
        asked.open.clear();
    }

    async fn send(&self, message: &Value) -> Result<(), Disconnected> {
        self.lines
            .send(message.to_string())
            .await
            .map_err(|_| Disconnected)
    }

    fn open_requests(&self) -> MutexGuard<'_, OpenRequests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
