//! A connected server: lists and calls its tools.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, Implementation,
    MetaObject, PaginatedRequestParams, ProtocolVersion, RequestMetaObject, TASKS_EXTENSION_ID,
    Tool,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, Peer, RoleClient, RunningService,
    serve_client_with_lifecycle_and_ct,
};
use rmcp::transport::IntoTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClient, StreamableHttpError};
use rmcp::{ClientHandler, ServiceError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use unisono_model::client::Connections;
use unisono_session::assignment::ToolJob;
use unisono_session::run::calls::CallOutput;
use unisono_session::tool::Contract;

use super::tasks::ServerTask;
use super::{Server, names, output};

/// The metadata key of the idempotency key of a call.
const KEY: &str = "idempotencyKey";

/// The error of a request to a server at an address.
pub(super) type HttpError = StreamableHttpError<<Connections as StreamableHttpClient>::Error>;

/// The error of a connection, set once and visible to all waiting callers.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionError(Arc<OnceLock<String>>);

impl ConnectionError {
    /// Sets the error; the first one stays.
    pub(super) fn set(&self, what: impl Into<String>) {
        let _ = self.0.set(what.into());
    }

    /// The error, or another text if there is none.
    pub(super) fn or(&self, otherwise: impl FnOnce() -> String) -> String {
        self.0.get().cloned().unwrap_or_else(otherwise)
    }
}

/// The client's identity for servers.
#[derive(Clone, Debug)]
pub(crate) struct ClientIdentity;

impl ClientHandler for ClientIdentity {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("unisono", env!("CARGO_PKG_VERSION"));
        let mut capabilities = ClientCapabilities::default();
        let tasks = (TASKS_EXTENSION_ID.to_owned(), Default::default());
        capabilities.extensions = Some([tasks].into());
        ClientConfig::new(capabilities, us)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// A connected server. Clones share one connection.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    tools: Arc<Mutex<Arc<[Tool]>>>,
    trouble: ConnectionError,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

#[derive(Debug)]
pub(super) enum CallReply {
    Output(CallOutput),
    Task(ServerTask),
}

/// A connection, and the service that runs it until it is cancelled or lost.
pub(crate) type Opened = (Connection, RunningService<RoleClient, ClientIdentity>);

/// Negotiates a protocol revision with a server: the current one, or the one before it. A server
/// that accepts no request before the handshake gets only the old handshake
/// (`use_legacy_handshake`).
///
/// # Errors
/// The reason why there is no connection, and whether the old handshake may work.
pub(super) async fn open<T, E, A>(
    transport: T,
    trouble: ConnectionError,
    use_legacy_handshake: bool,
    cancelled: CancellationToken,
) -> Result<Opened, (String, bool)>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let lifecycle = if use_legacy_handshake {
        ClientLifecycleMode::Initialize
    } else {
        ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        }
    };
    let served =
        serve_client_with_lifecycle_and_ct(ClientIdentity, transport, lifecycle, cancelled).await;
    match served {
        Ok(service) => {
            let connection = Connection {
                peer: service.peer().clone(),
                tools: Arc::new(Mutex::new(Arc::from([]))),
                trouble,
            };
            Ok((connection, service))
        }
        Err(error) => {
            // It may not know the question for its revisions.
            let may_be_older = matches!(
                error,
                ClientInitializeError::ConnectionClosed(_)
                    | ClientInitializeError::ExpectedInitResult(_)
            );
            // The reason of the last attempt; the library names none.
            let last = match &error {
                ClientInitializeError::LegacyFallbackFailed { fallback, .. } => &**fallback,
                error => error,
            };
            let why = || match last {
                // Without the type name of the sender.
                ClientInitializeError::TransportError { error, .. } => chain(error.error.as_ref()),
                error => chain(error),
            };
            let reason = trouble.or(|| format!("did not complete the handshake: {}", why()));
            Err((reason, may_be_older && !use_legacy_handshake))
        }
    }
}

impl Connection {
    pub(super) fn error_text(&self) -> String {
        self.trouble.or(|| "closed the connection".to_owned())
    }

    /// The current list of the tools that the server offers.
    pub(super) async fn list(&self, server: &Server) -> Result<Arc<[Tool]>, String> {
        let mut tools: Vec<Tool> = Vec::new();
        let (mut cursor, mut seen) = (None, HashSet::new());
        loop {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let listed = self.peer.list_tools(Some(page)).await;
            let listed =
                listed.map_err(|error| self.describe_failure("did not list its tools", &error))?;
            names::add_offered(server, &mut tools, listed.tools)?;
            cursor = unseen(&mut seen, listed.next_cursor);
            if cursor.is_none() {
                break;
            }
        }
        let tools: Arc<[Tool]> = tools.into();
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = tools.clone();
        Ok(tools)
    }

    /// The tool with this model name. If it is not in the last list, the list is read again.
    ///
    /// # Errors
    /// The server has no such tool, or does not answer.
    pub(super) async fn find(&self, server: &Server, shown: &str) -> Result<Tool, String> {
        let is_shown = |tool: &&Tool| names::model_name(&server.name, &tool.name) == shown;
        let known = |tools: &[Tool]| tools.iter().find(is_shown).cloned();
        let listed = self
            .tools
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(tool) = known(&listed) {
            return Ok(tool);
        }
        let listing = tokio::time::timeout(server.start_timeout, self.list(server));
        let tools = listing.await.unwrap_or_else(|_| {
            let limit = server.start_timeout.as_secs_f64();
            Err(format!("did not list its tools within {limit:.1} s"))
        })?;
        known(&tools).ok_or_else(|| format!("no longer offers the tool `{shown}`"))
    }

    /// Calls a tool. Dropping the future cancels the request at the server.
    pub(super) async fn call(
        &self,
        tool: Tool,
        job: &ToolJob,
        max_file_bytes: u64,
    ) -> Result<CallReply, String> {
        let arguments: Value = serde_json::from_str(&job.arguments).unwrap_or_default();
        let mut params = CallToolRequestParams::new(tool.name);
        if let Value::Object(arguments) = arguments {
            params = params.with_arguments(arguments);
        }
        if job.contract != Contract::Pure {
            let mut meta = MetaObject::new();
            meta.0
                .insert(KEY.to_owned(), Value::String(job.id.to_string()));
            params.meta = Some(RequestMetaObject(meta));
        }
        match self.peer.call_tool_once(params).await {
            Ok(CallToolResponse::Complete(result)) => Ok(CallReply::Output(output::from_result(
                result,
                max_file_bytes,
            ))),
            Ok(CallToolResponse::Task(made)) => Ok(CallReply::Task(made.into())),
            Ok(CallToolResponse::InputRequired(_)) => {
                Err("asks for input, which is not supported here".to_owned())
            }
            Ok(_) => Err("answered in a way that is not known".to_owned()),
            // It was made, and has ended.
            Err(ServiceError::UnexpectedResponse) => {
                let reason = "[failed: the call was made, but its result cannot be read]";
                Ok(CallReply::Output(CallOutput::text(reason, true)))
            }
            // The server's own error about the call is a result, not a broken server.
            Err(ServiceError::McpError(error)) => {
                let reason = format!("[failed: {}]", error.message);
                Ok(CallReply::Output(CallOutput::text(reason, true)))
            }
            Err(error) => Err(self.describe_failure("did not answer", &error)),
        }
    }

    pub(super) fn describe_failure(&self, what: &str, error: &ServiceError) -> String {
        match error {
            ServiceError::TransportClosed | ServiceError::Cancelled { .. } => self.error_text(),
            // Without the type name of the sender.
            ServiceError::TransportSend(sent) => {
                let why = || format!("{what}: {}", chain(sent.error.as_ref()));
                self.trouble.or(why)
            }
            error => self.trouble.or(|| format!("{what}: {}", chain(error))),
        }
    }
}

/// The cursor of the next page. None: there is none, or the server repeats its pages.
fn unseen(seen: &mut HashSet<String>, next: Option<String>) -> Option<String> {
    next.filter(|next| seen.insert(next.clone()))
}

/// An error with its sources, each once.
fn chain(error: &(dyn std::error::Error + 'static)) -> Cow<'static, str> {
    let mut text = error.to_string();
    let mut next = source_of(error);
    while let Some(source) = next {
        let own = source.to_string();
        if !text.contains(&own) {
            text.push_str(": ");
            text.push_str(&own);
        }
        next = source_of(source);
    }
    text.into()
}

/// The source of an error. The library's errors do not return the HTTP client's error as their source.
fn source_of<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> Option<&'e (dyn std::error::Error + 'static)> {
    match error.downcast_ref::<HttpError>() {
        Some(StreamableHttpError::Client(error)) => Some(error),
        _ => error.source(),
    }
}
