//! The protocol's operations, whichever binding asks for them.

use std::sync::Arc;

use a2a::{
    CancelTaskRequest, DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest, GetTaskRequest, ListTaskPushNotificationConfigsRequest,
    ListTasksRequest, ListTasksResponse, SendMessageConfiguration, SendMessageRequest,
    SendMessageResponse, SubscribeToTaskRequest, Task, TaskPushNotificationConfig, TaskState,
    methods,
};
use serde::Serialize;
use serde_json::{Value, json};
use unisono::approvals;
use unisono::tasks::{self, Place, Status, TaskId, TaskQuery};
use unisono_api::Code;
use unisono_api::approval::{Approval, ApprovalQuery};
use unisono_api::service::{Approvals as _, Turns as _};
use unisono_api::token::Scope;
use unisono_api::turn::Turn;
use unisono_context::Timestamp;

use super::card;
use super::error::{Error, Kind};
use super::follow::{self, StreamEnd, Updates};
use super::task::{self, Extent};
use super::{A2a, RequestContext};
use crate::audit::Note;
use crate::body_share::BodyShare;

/// Default and maximum number of tasks of a page.
const USUAL_TASKS: usize = 50;
const MAX_TASKS: usize = 100;

#[derive(Debug)]
pub(super) enum Operation {
    SendMessage(SendMessageRequest),
    SendStreamingMessage(SendMessageRequest),
    GetTask(GetTaskRequest),
    ListTasks(ListTasksRequest),
    CancelTask(CancelTaskRequest),
    SubscribeToTask(SubscribeToTaskRequest),
    CreateCallback(TaskPushNotificationConfig),
    GetCallback(GetTaskPushNotificationConfigRequest),
    ListCallbacks(ListTaskPushNotificationConfigsRequest),
    DeleteCallback(DeleteTaskPushNotificationConfigRequest),
    GetExtendedAgentCard,
}

impl Operation {
    const fn scope(&self) -> Scope {
        match self {
            Operation::GetTask(_)
            | Operation::ListTasks(_)
            | Operation::SubscribeToTask(_)
            | Operation::GetCallback(_)
            | Operation::ListCallbacks(_)
            | Operation::GetExtendedAgentCard => Scope::Read,
            Operation::SendMessage(_)
            | Operation::SendStreamingMessage(_)
            | Operation::CancelTask(_)
            | Operation::CreateCallback(_)
            | Operation::DeleteCallback(_) => Scope::Ask,
        }
    }

    fn tenant(&self) -> Option<&str> {
        let tenant = match self {
            Operation::SendMessage(request) | Operation::SendStreamingMessage(request) => {
                &request.tenant
            }
            Operation::GetTask(request) => &request.tenant,
            Operation::ListTasks(request) => &request.tenant,
            Operation::CancelTask(request) => &request.tenant,
            Operation::SubscribeToTask(request) => &request.tenant,
            Operation::CreateCallback(config) => &config.tenant,
            Operation::GetCallback(asked) => &asked.tenant,
            Operation::ListCallbacks(asked) => &asked.tenant,
            Operation::DeleteCallback(asked) => &asked.tenant,
            Operation::GetExtendedAgentCard => return None,
        };
        non_empty(tenant)
    }

    /// Notes it for the audit log, if it changes something.
    fn note(&self, note: &Note) {
        let of_task = |id: &str| vec![("task", id.to_owned())];
        let of_message = |request: &SendMessageRequest| {
            let message = &request.message;
            let task = message.task_id.iter().map(|id| ("task", id.clone()));
            let session = message.context_id.iter();
            task.chain(session.map(|id| ("session", id.clone())))
                .collect()
        };
        let (name, object) = match self {
            Operation::SendMessage(request) => (methods::SEND_MESSAGE, of_message(request)),
            Operation::SendStreamingMessage(request) => {
                (methods::SEND_STREAMING_MESSAGE, of_message(request))
            }
            Operation::CancelTask(request) => (methods::CANCEL_TASK, of_task(&request.id)),
            Operation::CreateCallback(config) => {
                (methods::CREATE_PUSH_CONFIG, of_task(&config.task_id))
            }
            Operation::DeleteCallback(asked) => {
                (methods::DELETE_PUSH_CONFIG, of_task(&asked.task_id))
            }
            Operation::GetTask(_)
            | Operation::ListTasks(_)
            | Operation::SubscribeToTask(_)
            | Operation::GetCallback(_)
            | Operation::ListCallbacks(_)
            | Operation::GetExtendedAgentCard => return,
        };
        note.operation(name, object);
    }
}

pub(super) enum Answer {
    Value(Value),
    Stream(Box<Updates>),
}

impl Answer {
    fn json(answer: &impl Serialize) -> Result<Answer, Error> {
        let value = serde_json::to_value(answer);
        let failed = |error: serde_json::Error| Error::new(Kind::Internal, error.to_string());
        value.map(Answer::Value).map_err(failed)
    }
}

/// The current state of a task: its turn and its waiting calls.
pub(super) struct TaskView {
    pub(super) id: TaskId,
    pub(super) turn: Turn,
    pub(super) waiting: Vec<Approval>,
}

impl TaskView {
    pub(super) fn status(&self) -> Status {
        Status::of_turn(&self.turn, !self.waiting.is_empty())
    }

    pub(super) fn task(&self, extent: Extent<'_>) -> Task {
        task::task(&self.id.to_string(), &self.turn, &self.waiting, extent)
    }
}

impl A2a {
    /// Executes an operation for an agent or the team.
    pub(super) async fn carry_out(
        self: &Arc<A2a>,
        agent: Option<&str>,
        operation: Operation,
        context: RequestContext,
    ) -> Result<Answer, Error> {
        operation.note(&context.note);
        let origin = context.origin.as_str();
        self.local.check_scope(operation.scope())?;
        self.check_agent(agent)?;
        check_tenant(operation.tenant())?;
        match operation {
            Operation::SendMessage(request) => {
                let body = &context.body;
                self.send_and_wait(agent, request, origin, body).await
            }
            Operation::SendStreamingMessage(request) => {
                let place = self.reserve_stream()?;
                let extent = extent(request.configuration.as_ref(), origin)?;
                let sent = self.send(agent, request, true).await?;
                let end = StreamEnd::EndOrQuestion;
                let stream = Updates::new(self, sent, end, place, extent).await?;
                Ok(Answer::Stream(stream.into()))
            }
            Operation::GetTask(request) => Answer::json(&self.get(&request, origin).await?),
            Operation::ListTasks(request) => Answer::json(&self.list(&request, origin).await?),
            Operation::CancelTask(request) => {
                Answer::json(&self.cancel(&request.id, origin).await?)
            }
            Operation::SubscribeToTask(request) => {
                let place = self.reserve_stream()?;
                let look = self.look_for(&request.id).await?;
                if look.status().is_ended() {
                    return Err(task_ended(&look));
                }
                let sent = self.task_handle(look.id, context.pauses).await?;
                let (end, extent) = (StreamEnd::End, Extent::all(origin));
                let stream = Updates::new(self, sent, end, place, extent).await?;
                Ok(Answer::Stream(stream.into()))
            }
            Operation::CreateCallback(config) => Answer::json(&self.create_callback(config).await?),
            Operation::GetCallback(asked) => {
                Answer::json(&self.callback(&asked.task_id, &asked.id).await?)
            }
            Operation::ListCallbacks(asked) => Answer::json(&self.callbacks_of(&asked).await?),
            Operation::DeleteCallback(asked) => {
                self.delete_callback(&asked.task_id, &asked.id).await?;
                Ok(Answer::Value(json!({})))
            }
            Operation::GetExtendedAgentCard => {
                let message = "there is only the public card";
                Err(Error::new(Kind::UnsupportedOperation, message))
            }
        }
    }

    fn check_agent(&self, agent: Option<&str>) -> Result<(), Error> {
        let setup = self.local.setup();
        let is_known = |name: &str| card::exposed(&setup).any(|agent| agent.id.as_str() == name);
        match agent.filter(|name| !is_known(name)) {
            None => Ok(()),
            Some(name) => {
                let message = format!("there is no agent {name:?}");
                Err(Error::new(Kind::NotFound, message))
            }
        }
    }

    async fn send_and_wait(
        self: &Arc<A2a>,
        agent: Option<&str>,
        request: SendMessageRequest,
        origin: &str,
        body: &BodyShare,
    ) -> Result<Answer, Error> {
        let configuration = request.configuration.as_ref();
        let at_once = configuration.and_then(|how| how.return_immediately);
        let extent = extent(configuration, origin)?;
        let id = self.send(agent, request, false).await?.id;
        body.release();
        if at_once != Some(true) {
            follow::settled(&self.local, id).await?;
        }
        let task = self.look(id).await?.task(extent);
        Answer::json(&SendMessageResponse::Task(task))
    }

    /// The task with the id of a client.
    pub(super) async fn look_for(&self, id: &str) -> Result<TaskView, Error> {
        let missing = || Error::task_not_found(id);
        let parsed = id.parse().map_err(|_| missing())?;
        let look = self.look(parsed).await;
        look.map_err(|error| error.or_missing(missing))
    }

    /// The current state of a task.
    pub(super) async fn look(&self, id: TaskId) -> Result<TaskView, Error> {
        let (session, turn) = (id.session.to_string(), id.turn.to_string());
        let turn = self.local.turn(&session, &turn).await?;
        if turn.task.is_none() {
            return Err(Error::task_not_found(&id.to_string()));
        }
        let waiting = match turn.ended_at {
            Some(_) => Vec::new(),
            None => self.waiting(id, &turn).await?,
        };
        Ok(TaskView { id, turn, waiting })
    }

    /// The calls of a turn that wait for a person. If the turn is queued: those of the turn that it
    /// waits for.
    async fn waiting(&self, id: TaskId, turn: &Turn) -> Result<Vec<Approval>, Error> {
        let mut known = Vec::new();
        if turn.state == "queued" {
            let session = self.local.view(id.session).await?;
            let calls = approvals::waiting(&session, id.turn).await?;
            known.extend(calls.iter().map(|one| one.id.to_string()));
        }
        let mut query = ApprovalQuery {
            session: Some(turn.session.clone()),
            ..ApprovalQuery::default()
        };
        let mut waiting = Vec::new();
        loop {
            let page = self.local.approvals(&query).await?;
            let calls = page.items.into_iter();
            waiting
                .extend(calls.filter(|call| call.turn == turn.turn || known.contains(&call.call)));
            if page.next.is_none() {
                return Ok(waiting);
            }
            query.cursor = page.next;
        }
    }

    async fn get(&self, request: &GetTaskRequest, origin: &str) -> Result<Task, Error> {
        let extent = Extent {
            history: history(request.history_length)?,
            ..Extent::all(origin)
        };
        Ok(self.look_for(&request.id).await?.task(extent))
    }

    async fn list(
        &self,
        request: &ListTasksRequest,
        origin: &str,
    ) -> Result<ListTasksResponse, Error> {
        let limit = page_size(request.page_size)?;
        let extent = Extent {
            history: history(request.history_length)?,
            artifacts: request.include_artifacts == Some(true),
            origin,
        };
        let page_size = i32::try_from(limit).unwrap_or(i32::MAX);
        let status = request.status.as_ref();
        let status = status.filter(|status| **status != TaskState::Unspecified);
        let wanted = status.map(task::status_of);
        let nothing = || ListTasksResponse {
            tasks: Vec::new(),
            next_page_token: String::new(),
            page_size,
            total_size: 0,
        };
        let session = non_empty(&request.context_id).map(str::parse);
        let (Some(status), Ok(session)) = (
            wanted.map_or(Some(None), |status| status.map(Some)),
            session.transpose(),
        ) else {
            return Ok(nothing());
        };
        let since = request.status_timestamp_after;
        let page_token = non_empty(&request.page_token);
        let mut query = TaskQuery::new(limit);
        query.session = session;
        query.status = status;
        query.since = since.map(|since| {
            // Times of tasks are whole milliseconds: the first one that is not before it.
            let is_between = since.timestamp_subsec_nanos() % 1_000_000 > 0;
            Timestamp(since.timestamp_millis()).plus_ms(i64::from(is_between))
        });
        query.after = page_token.map(parse_page_token).transpose()?;
        let part = self.tasks.list(&self.local, &query).await;
        let part = match part.map_err(Error::from) {
            Ok(part) => part,
            // Like any other unknown context, a context without tasks is an error.
            Err(error) if error.kind == Kind::NotFound => return Ok(nothing()),
            Err(error) => return Err(error),
        };
        Ok(ListTasksResponse {
            tasks: self.listed(&part.tasks, extent).await?,
            next_page_token: part.next.map(|next| next.to_string()).unwrap_or_default(),
            page_size,
            total_size: i32::try_from(part.total).unwrap_or(i32::MAX),
        })
    }

    async fn listed(&self, all: &[tasks::Task], extent: Extent<'_>) -> Result<Vec<Task>, Error> {
        let mut tasks = Vec::new();
        for found in all {
            match self.look(found.place.task).await {
                Ok(look) => tasks.push(look.task(extent)),
                // The session was deleted meanwhile.
                Err(error) if error.kind == Kind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(tasks)
    }

    async fn cancel(&self, id: &str, origin: &str) -> Result<Task, Error> {
        let look = self.look_for(id).await?;
        let (session, turn) = (look.id.session.to_string(), look.id.turn.to_string());
        if let Err(error) = self.local.cancel_turn(&session, &turn).await {
            if error.code() != Code::NotFound {
                return Err(error.into());
            }
            let state = task::state(self.look(look.id).await?.status());
            let message = format!("the task has ended: it is {}", name(&state));
            return Err(Error::new(Kind::TaskNotCancelable, message).with_detail("taskId", id));
        }
        Ok(self.look(look.id).await?.task(Extent::all(origin)))
    }
}

/// That a task takes nothing any more.
pub(super) fn task_ended(look: &TaskView) -> Error {
    let state = task::state(look.status());
    let message = format!(
        "the task has ended: it is {}; a message with its contextId alone begins another one",
        name(&state)
    );
    Error::new(Kind::UnsupportedOperation, message).with_detail("taskId", look.id.to_string())
}

fn name(state: &TaskState) -> String {
    let name = serde_json::to_value(state).unwrap_or_default();
    name.as_str().unwrap_or_default().to_owned()
}

/// Rejects tenants: each agent has its own address instead.
pub(super) fn check_tenant(tenant: Option<&str>) -> Result<(), Error> {
    match tenant.filter(|tenant| !tenant.is_empty()) {
        None => Ok(()),
        Some(_) => Err(Error::field("tenant", "the agent's card has no tenants")),
    }
}

/// The text of an optional field. The protocol treats an empty text as absent.
pub(super) fn non_empty(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// The extent of the task in the response to a message.
fn extent<'o>(
    configuration: Option<&SendMessageConfiguration>,
    origin: &'o str,
) -> Result<Extent<'o>, Error> {
    Ok(Extent {
        history: history(configuration.and_then(|how| how.history_length))?,
        ..Extent::all(origin)
    })
}

/// The requested number of messages of a task's history.
pub(super) fn history(length: Option<i32>) -> Result<Option<usize>, Error> {
    let negative = |_| Error::field("historyLength", "must not be below 0");
    length.map(usize::try_from).transpose().map_err(negative)
}

fn page_size(size: Option<i32>) -> Result<usize, Error> {
    let size = match size {
        None => return Ok(USUAL_TASKS),
        Some(size) => usize::try_from(size).unwrap_or_default(),
    };
    match size {
        1..=MAX_TASKS => Ok(size),
        _ => {
            let why = format!("must be 1 to {MAX_TASKS}");
            Err(Error::field("pageSize", why))
        }
    }
}

fn parse_page_token(token: &str) -> Result<Place, Error> {
    let wrong = |()| {
        Error::field(
            "pageToken",
            "send `nextPageToken` of the previous page unchanged",
        )
    };
    token.parse().map_err(wrong)
}

pub(super) fn no_context(field: &str, id: &str) -> Error {
    let why = format!("context {id:?} does not exist; omit it to begin one");
    Error::field(field, why)
}
