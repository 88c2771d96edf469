//! The server of the Model Context Protocol: tools that ask, delegate, recall, search, compact and
//! list, and resources for sessions and snapshots.
//!
//! The same server responds at `/mcp` of the daemon and on standard input and output. It has no state
//! between requests, so it serves the current revision of the protocol (2026-07-28, without a
//! handshake) and the earlier ones in the same way.

mod answer;
mod queries;
mod resources;
mod stdio;
mod tasks;
mod tools;
mod turns;
mod waiting;

use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::http::Extensions;
use axum::http::request::Parts;
use futures_util::FutureExt as _;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
    CompleteRequestMethod, CompleteRequestParams, CompleteResult, ContentBlock, CreateTaskResult,
    CustomRequest, CustomResult, ErrorCode, GetTaskParams, GetTaskResult, Implementation,
    InputRequiredResult, ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServiceExt as _};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use unisono::Local;
use unisono_api::token::Scope;

use crate::audit::Note;
use crate::body_share::BodyShare;
use crate::turn_follower::stopped;

pub use answer::in_form_of;
pub use stdio::Line;
pub use turns::QUIET;
pub use waiting::{approves, can_elicit, question};

const INSTRUCTIONS: &str = "Sessions are conversations that are kept, compacted when they grow, and \
    frozen into one snapshot for all agents that work on them. `ask` gives a session's team a task; \
    `delegate` gives tasks to agents by name, all on the same snapshot; `recall` and `search` find \
    what was said, whether or not a model still sees it.";

/// The server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Server {
    local: Weak<Local>,
    stopping: watch::Receiver<bool>,
    /// Permits for concurrent calls.
    places: Arc<Semaphore>,
    most: u32,
    /// The time that a call of a client with task support blocks before it becomes a task.
    task_after: Duration,
    /// The time for calls after the program stops.
    drain: Duration,
    /// Whether it can send requests to clients.
    can_request: bool,
}

struct Outcome {
    text: String,
    note: Option<&'static str>,
    structured: Value,
    is_error: bool,
}

/// The response to a call.
enum Answer {
    Complete(Outcome),
    /// The calls that require a decision first.
    Asks(InputRequiredResult),
    /// The call became a task; the client polls it.
    Task(CreateTaskResult),
}

impl Outcome {
    fn search_answer(text: &str, structured: Value) -> Answer {
        Answer::Complete(Outcome {
            text: text.trim_end().to_owned(),
            note: None,
            structured,
            is_error: false,
        })
    }
}

impl From<Outcome> for CallToolResult {
    fn from(outcome: Outcome) -> CallToolResult {
        let Outcome {
            text,
            note,
            structured,
            is_error,
        } = outcome;
        let text = [Some(text), note.map(str::to_owned)].into_iter().flatten();
        let text = text.map(ContentBlock::text).collect();
        let mut result = match is_error {
            true => CallToolResult::error(text),
            false => CallToolResult::success(text),
        };
        result.structured_content = Some(structured);
        result
    }
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Answer {
        Answer::Complete(outcome)
    }
}

type AnswerResult = Result<Answer, String>;

/// The permit of a current call and its daemon; the daemon is released first.
struct CurrentCall {
    local: Arc<Local>,
    _place: OwnedSemaphorePermit,
}

impl Server {
    /// Makes a server that answers until the daemon stops. It refuses calls beyond its limit of
    /// concurrent calls.
    pub(crate) fn new(
        local: &Arc<Local>,
        stopping: watch::Receiver<bool>,
        places: Arc<Semaphore>,
    ) -> Server {
        let settings = &local.setup().loaded.config.server;
        Server {
            local: Arc::downgrade(local),
            stopping,
            places,
            most: settings.streams,
            task_after: Duration::from_millis(settings.mcp_task_after.ms()),
            drain: Duration::from_secs(settings.drain_seconds),
            can_request: false,
        }
    }

    /// Responds on standard output to the lines of standard input until they end or the program stops;
    /// in both cases it finishes current calls within the drain period.
    ///
    /// # Errors
    /// The client violates the protocol, or has disconnected.
    pub fn serve_stdio(
        mut self,
        lines: mpsc::Receiver<Line>,
    ) -> impl Future<Output = Result<(), String>> + Send {
        async move {
            self.can_request = true;
            let mut stopping = self.stopping.clone();
            let service = self.clone().serve(stdio::Stdio::new(lines, self.drain));
            let running = tokio::select! {
                started = service => started.map_err(|error| error.to_string())?,
                () = stopped(&mut stopping) => return Ok(()),
            };
            let token = running.cancellation_token();
            // A drop would cancel the current calls.
            let running = running.waiting();
            tokio::pin!(running);
            let ended = tokio::select! {
                ended = &mut running => ended,
                () = stopped(&mut stopping) => {
                    let calls = self.places.acquire_many(self.most);
                    if tokio::time::timeout(self.drain, calls).await.is_err() {
                        tracing::warn!("tool calls did not end in time");
                    }
                    token.cancel();
                    running.await
                }
            };
            ended.map(|_| ()).map_err(|error| error.to_string())
        }
        // Callers' crates do not compile it again.
        .boxed()
    }

    /// Responds over HTTP. The guard has authorised the request.
    pub(crate) fn over_http(
        self,
        body_limit_bytes: usize,
    ) -> StreamableHttpService<Server, NeverSessionManager> {
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .disable_allowed_hosts()
            .with_max_request_body_bytes(body_limit_bytes);
        let make = move || Ok(self.clone());
        StreamableHttpService::new(make, Arc::default(), config)
    }

    /// Waits until the program stops, and then for most of the drain period. The rest is for the
    /// responses of unfinished calls.
    async fn drained(&self) {
        stopped(&mut self.stopping.clone()).await;
        tokio::time::sleep(self.drain * 9 / 10).await;
    }

    fn begin_call(&self) -> Result<CurrentCall, String> {
        let local = self.local.upgrade().filter(|_| !*self.stopping.borrow());
        let local = local.ok_or("the program is stopping; ask again when it is back")?;
        let place = self.places.clone().try_acquire_owned();
        let place = place.map_err(
            |_| "as many calls as are allowed are being answered; ask again in a moment",
        )?;
        Ok(CurrentCall {
            local,
            _place: place,
        })
    }

    fn begin_request(&self) -> Result<CurrentCall, ErrorData> {
        let held = self.begin_call();
        held.map_err(|reason| ErrorData::internal_error(reason, None))
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> AnswerResult {
        let held = self.begin_call()?;
        let needed = tools::scope(&request.name);
        let note = note(context);
        if needed > Scope::Read {
            let session = request
                .arguments
                .as_ref()
                .and_then(|all| all.get("session"));
            let session = session.and_then(Value::as_str).map(str::to_owned);
            let object = session.into_iter().map(|session| ("session", session));
            note.operation(tools::name(&request.name), object.collect());
        }
        let allowed = held.local.check_scope(needed);
        allowed.map_err(|error| {
            note.refused();
            error.to_string()
        })?;
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        if let Some(state) = &request.request_state {
            // The turn has them; a call that waits keeps nothing of its body.
            drop(arguments);
            let asked = (&*request.name, state.as_str(), request.input_responses);
            return turns::go_on(self, &held.local, asked, context).await;
        }
        match &*request.name {
            tools::ASK => turns::ask(self, &held.local, tools::read(arguments)?, context).await,
            tools::DELEGATE => {
                turns::delegate(self, &held.local, tools::read(arguments)?, context).await
            }
            tools::COMPACT => {
                turns::compact(self, &held.local, tools::read(arguments)?, context).await
            }
            tools::WAIT => turns::wait(self, &held.local, tools::read(arguments)?, context).await,
            tools::RECALL => {
                let recalling = queries::recall(&held.local, tools::read(arguments)?);
                while_wanted(context, recalling).await
            }
            tools::SEARCH => {
                let searching = queries::search(&held.local, tools::read(arguments)?);
                while_wanted(context, searching).await
            }
            tools::SESSIONS => queries::sessions(&held.local, tools::read(arguments)?).await,
            other => Err(format!("there is no tool {other:?}")),
        }
    }
}

/// The extensions of the request's head, if it came over HTTP.
fn http_extensions(context: &RequestContext<RoleServer>) -> Option<&Extensions> {
    Some(&context.extensions.get::<Parts>()?.extensions)
}

/// The note of the request for the audit log, if it came over HTTP.
fn note(context: &RequestContext<RoleServer>) -> Note {
    http_extensions(context).map_or_else(Note::default, Note::from_extensions)
}

/// The share of the request's body, if it came over HTTP.
fn body_share(context: &RequestContext<RoleServer>) -> BodyShare {
    http_extensions(context).map_or_else(BodyShare::default, BodyShare::from_extensions)
}

/// Ends a read-only call when its client disconnects or cancels it.
async fn while_wanted(
    context: &RequestContext<RoleServer>,
    call: impl Future<Output = AnswerResult>,
) -> AnswerResult {
    let done = context.ct.run_until_cancelled(call).await;
    done.unwrap_or_else(|| Err("the call was cancelled".to_owned()))
}

/// Refuses a further page of a list that has only one.
fn check_only_page(page: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match page.and_then(|page| page.cursor) {
        None => Ok(()),
        Some(cursor) => {
            let reason = format!("{cursor:?} is not a cursor: the list has one page");
            Err(ErrorData::invalid_params(reason, None))
        }
    }
}

/// The error for a request that the library did not understand: its method or its parameters.
fn not_understood(request: &CustomRequest) -> ErrorData {
    const METHODS: [&str; 12] = [
        "completion/complete",
        "initialize",
        "ping",
        "tools/call",
        "tools/list",
        "resources/list",
        "prompts/list",
        "resources/read",
        "resources/templates/list",
        "tasks/get",
        "tasks/update",
        "tasks/cancel",
    ];
    let method = &request.method;
    if !METHODS.contains(&&**method) {
        let message = format!("there is no method {method:?}");
        return ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None);
    }
    let params = request.params.clone().unwrap_or_default();
    let reason = match &**method {
        "tools/call" => serde_json::from_value::<CallToolRequestParams>(params).err(),
        _ => None,
    };
    let reason = reason.map(|error| format!(": {error}")).unwrap_or_default();
    ErrorData::invalid_params(format!("invalid parameters of {method}{reason}"), None)
}

impl ServerHandler for Server {
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(not_understood(&request))
    }

    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_tasks()
            .build();
        let mut info = ServerConfig::new(capabilities).with_instructions(INSTRUCTIONS);
        info.server_info = Implementation::new("unisono", env!("CARGO_PKG_VERSION"));
        info
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        check_only_page(page)?;
        Ok(ListToolsResult::with_all_items(tools::specs()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if !tools::NAMES.contains(&&*request.name) {
            let reason = format!("there is no tool {:?}", request.name);
            return Err(ErrorData::invalid_params(reason, None));
        }
        // A client shows the text of a result, but may hide a protocol error.
        let result = match self.call(request, &context).await {
            Ok(Answer::Asks(asks)) => return Ok(asks.into()),
            Ok(Answer::Task(task)) => return Ok(CallToolResponse::Task(task)),
            Ok(Answer::Complete(outcome)) => outcome.into(),
            Err(reason) => CallToolResult::error(vec![ContentBlock::text(reason)]),
        };
        Ok(result.into())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let held = self.begin_request()?;
        let can_ask = waiting::can_ask(&context);
        tasks::get(&held.local, &request.task_id, can_ask).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let held = self.begin_request()?;
        let task = vec![("task", request.task_id.clone())];
        let note = note(&context);
        note.operation("tasks/update", task);
        tasks::update(
            &held.local,
            &note,
            &request.task_id,
            request.input_responses,
        )
        .await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let held = self.begin_request()?;
        let task = vec![("task", request.task_id.clone())];
        let note = note(&context);
        note.operation("tasks/cancel", task);
        tasks::cancel(&held.local, &note, &request.task_id).await
    }

    /// The server declares none.
    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    /// The server has and declares none.
    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let held = self.begin_request()?;
        resources::list(&held.local, page).await
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        check_only_page(page)?;
        Ok(ListResourceTemplatesResult::with_all_items(
            resources::templates(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let held = self.begin_request()?;
        let read = resources::read(&held.local, &request.uri).await?;
        Ok(read.into())
    }
}
