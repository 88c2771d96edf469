//! A turn as a task of the protocol.

use a2a::{Artifact, Message, Part, Role, Task, TaskState, TaskStatus};
use serde_json::{Value, json};
use unisono::tasks::Status;
use unisono_api::approval::Approval;
use unisono_api::fmt::shown_arguments;
use unisono_api::turn::{Member, Run, Turn};

use super::message::HOW;
use super::parts;

/// The id of the answer's artifact.
pub(super) const ANSWER: &str = "answer";

/// The extent of a task in a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent<'o> {
    /// Messages of its history at most; none: all.
    pub(super) history: Option<usize>,
    /// Whether its artifacts are.
    pub(super) artifacts: bool,
    /// Scheme and host of the addresses of its files.
    pub(super) origin: &'o str,
}

impl Extent<'_> {
    /// The complete task.
    pub(super) const fn all(origin: &str) -> Extent<'_> {
        Extent {
            history: None,
            artifacts: true,
            origin,
        }
    }
}

/// A turn and its waiting calls.
pub(super) fn task(id: &str, turn: &Turn, waiting: &[Approval], extent: Extent<'_>) -> Task {
    let ids = Ids {
        task: id,
        context: &turn.session,
    };
    let history: Vec<Message> = input(&ids, turn, extent.origin).into_iter().collect();
    let history = match extent.history {
        Some(0) => None,
        _ => Some(history),
    };
    Task {
        id: id.to_owned(),
        context_id: turn.session.clone(),
        status: status(&ids, turn, waiting),
        artifacts: extent.artifacts.then(|| artifacts(turn)),
        history,
        metadata: None,
    }
}

/// The message that began the turn, with the client's own id, parts and fields if they are stored.
fn input(ids: &Ids<'_>, turn: &Turn, origin: &str) -> Option<Message> {
    turn.task.as_ref()?;
    let message = ids.message("task", Role::User, parts::of_turn(turn, origin));
    let message = parts::with_fields(message, turn);
    Some(match &turn.client_message_id {
        Some(id) => Message {
            message_id: id.clone(),
            ..message
        },
        None => message,
    })
}

/// The ids that everything of a task has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ids<'i> {
    pub(super) task: &'i str,
    pub(super) context: &'i str,
}

impl Ids<'_> {
    /// A message of the task with a stable id.
    pub(super) fn message(
        &self,
        name: &str,
        role: Role,
        parts: impl IntoIterator<Item = Part>,
    ) -> Message {
        Message {
            message_id: format!("{}.{name}", self.task),
            context_id: Some(self.context.to_owned()),
            task_id: Some(self.task.to_owned()),
            role,
            parts: parts.into_iter().collect(),
            metadata: None,
            extensions: None,
            reference_task_ids: None,
        }
    }

    /// A progress message of the agent.
    pub(super) fn remark(&self, name: &str, text: impl Into<String>) -> Message {
        self.message(name, Role::Agent, [Part::text(text)])
    }
}

/// The protocol's state for the status of a task.
pub(super) fn state(status: Status) -> TaskState {
    match status {
        Status::Queued => TaskState::Submitted,
        Status::Working => TaskState::Working,
        Status::Waiting => TaskState::InputRequired,
        Status::Answered => TaskState::Completed,
        Status::Failed => TaskState::Failed,
        Status::Refused => TaskState::Rejected,
        Status::Cancelled => TaskState::Canceled,
    }
}

/// The status for a state of the protocol; none if no task can have it here.
pub(super) fn status_of(state: &TaskState) -> Option<Status> {
    Some(match state {
        TaskState::Submitted => Status::Queued,
        TaskState::Working => Status::Working,
        TaskState::InputRequired => Status::Waiting,
        TaskState::Completed => Status::Answered,
        TaskState::Failed => Status::Failed,
        TaskState::Rejected => Status::Refused,
        TaskState::Canceled => Status::Cancelled,
        TaskState::AuthRequired | TaskState::Unspecified => return None,
    })
}

/// The status of a turn, with its time and reason.
pub(super) fn status(ids: &Ids<'_>, turn: &Turn, waiting: &[Approval]) -> TaskStatus {
    let status = Status::of_turn(turn, !waiting.is_empty());
    let message = match status {
        Status::Waiting => Some(question(ids, waiting)),
        Status::Failed | Status::Refused => turn.error.as_ref().map(|error| {
            let text = format!("{}: {}", error.code, error.reason);
            ids.remark("error", text)
        }),
        _ => None,
    };
    // A turn can be accepted after the call that it waits for was asked about.
    let asked = waiting.iter().map(|call| &call.requested_at);
    let begun = turn.started_at.iter().chain([&turn.accepted_at]);
    let changed = asked.chain(&turn.resumed_at).chain(begun);
    let since = turn.ended_at.as_ref().or(changed.max());
    TaskStatus {
        state: state(status),
        message,
        timestamp: since.and_then(|since| since.parse().ok()),
    }
}

/// The question about waiting calls, as text and as data.
pub(super) fn question(ids: &Ids<'_>, waiting: &[Approval]) -> Message {
    let mut text = String::new();
    let mut newest = "";
    for one in waiting {
        newest = newest.max(&one.call);
        let (agent, tool, call) = (&one.agent, &one.tool, &one.call);
        // The data have them whole.
        let arguments = shown_arguments(&one.arguments.to_string());
        text += &match one.kind.as_str() {
            "in_doubt" => format!(
                "Nobody knows whether {agent}'s call of {tool} with {arguments} was made before a \
                 crash (call {call}). May it be made again?\n"
            ),
            _ => format!("{agent} wants to call {tool} with {arguments} (call {call}). May it?\n"),
        };
    }
    text += "To decide, send a message to this task: ";
    text += HOW;
    text.push('.');
    let calls: Vec<Value> = waiting.iter().map(call).collect();
    let data = Part::data(json!({"calls": calls})).with_media_type("application/json");
    ids.message(
        &format!("question.{newest}"),
        Role::Agent,
        [Part::text(text), data],
    )
}

fn call(one: &Approval) -> Value {
    json!({"call": one.call, "agent": one.agent, "tool": one.tool, "arguments": one.arguments,
        "kind": one.kind, "contract": one.contract, "rule": one.rule,
        "requestedAt": one.requested_at, "expiresAt": one.expires_at})
}

/// The answer, then the results of delegates in the order of their runs.
pub(super) fn artifacts(turn: &Turn) -> Vec<Artifact> {
    let own = answer(turn).into_iter();
    own.chain(turn.runs.iter().filter_map(delegate_artifact))
        .collect()
}

pub(super) fn answer(turn: &Turn) -> Option<Artifact> {
    let text = turn.answer.as_ref()?;
    let lead = turn.runs.iter().find(|run| run.role == "lead");
    let lacks = lead.and_then(|lead| lead.error.as_ref());
    Some(Artifact {
        metadata: lacks.map(|lacks| [("partial".to_owned(), json!(lacks.reason))].into()),
        ..answer_of(lead.map(|lead| lead.agent.clone()), text.clone())
    })
}

/// A piece of the answer of an agent.
pub(super) fn answer_of(agent: Option<String>, text: String) -> Artifact {
    Artifact {
        artifact_id: ANSWER.to_owned(),
        name: agent,
        description: None,
        parts: vec![Part::text(text).with_media_type("text/plain")],
        metadata: None,
        extensions: None,
    }
}

/// The result of an agent other than the lead.
fn delegate_artifact(run: &Run) -> Option<Artifact> {
    let is_done = matches!(run.state.as_str(), "done" | "partial");
    let text = run
        .text
        .as_ref()
        .filter(|_| is_done && run.role != "lead")?;
    let lacks = run.error.as_ref().map(|error| error.reason.as_str());
    Some(result(&run.run, &run.agent, text, lacks))
}

/// The result of a member of a followed turn.
pub(super) fn of_member(member: &Member) -> Option<Artifact> {
    let is_done = matches!(member.state.as_str(), "done" | "partial");
    let text = member
        .text
        .as_ref()
        .filter(|_| is_done && member.role != "lead")?;
    let lacks = member.error.as_ref().map(|error| error.reason.as_str());
    Some(result(member.run.as_ref()?, &member.agent, text, lacks))
}

fn result(run: &str, agent: &str, text: &str, lacks: Option<&str>) -> Artifact {
    Artifact {
        artifact_id: run.to_owned(),
        name: Some(agent.to_owned()),
        description: Some(format!("the result of {agent}")),
        parts: vec![Part::text(text).with_media_type("text/plain")],
        metadata: lacks.map(|lacks| [("partial".to_owned(), json!(lacks))].into()),
        extensions: None,
    }
}
