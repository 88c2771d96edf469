//! Converts updates of a turn to the events of a task.
//!
//! The answer is streamed in deltas, each appended to the previous ones. If the model is asked
//! again or continues after tool calls, the next delta replaces the text before it. A client that
//! comes in the middle of a reply gets the text so far first. If the deltas do not add up to the answer,
//! the complete answer follows.

use std::collections::{BTreeMap, BTreeSet};

use a2a::{
    Artifact, Message, StreamResponse, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus,
    TaskStatusUpdateEvent,
};
use unisono_api::approval::Approval;
use unisono_api::fmt;
use unisono_api::turn::Member;
use unisono_api::turn_event::{TurnEnd, TurnEvent};

use super::task::{self, Ids};

/// The decision about a call that ended before a person decided.
const WITHDRAWN: &str = "withdrawn";

/// A task and its sent state.
#[derive(Debug)]
pub(super) struct Updates {
    task: String,
    context: String,
    state: TaskState,
    /// The run that answers.
    lead: Option<String>,
    /// Agents by their runs.
    agents: BTreeMap<String, String>,
    /// The sent artifacts, without the answer.
    artifacts: BTreeSet<String>,
    answer: Answer,
    waiting: BTreeMap<String, Approval>,
    /// Whether it waits for an earlier turn of its session.
    is_queued: bool,
    /// Whether a call was withdrawn, and the client does not know it: the task may end with the call.
    has_withdrawn: bool,
    /// The number of remarks so far.
    remarks: u64,
    is_ended: bool,
}

/// The sent part of the answer.
#[derive(Debug, Default)]
struct Answer {
    /// The text of the current or last reply.
    reply: String,
    /// Whether the next piece is the first one of another reply.
    begins: bool,
    /// Whether deltas of this reply were missed; its further deltas are then ignored.
    is_missed: bool,
}

impl Answer {
    /// Before the first delta of a reply, or before the first one that the client gets.
    fn next() -> Answer {
        Answer {
            begins: true,
            ..Answer::default()
        }
    }
}

impl Updates {
    /// Continues after a task that the client has, with its waiting calls.
    pub(super) fn new(task: &Task, waiting: Vec<Approval>) -> Updates {
        let artifacts = task.artifacts.iter().flatten();
        let waits_ahead = waiting.iter().any(|call| is_ahead(call, &task.id));
        Updates {
            is_queued: task.status.state == TaskState::Submitted || waits_ahead,
            has_withdrawn: false,
            task: task.id.clone(),
            context: task.context_id.clone(),
            state: task.status.state.clone(),
            lead: None,
            agents: BTreeMap::new(),
            artifacts: artifacts.map(|one| one.artifact_id.clone()).collect(),
            answer: Answer::next(),
            waiting: waiting
                .into_iter()
                .map(|one| (one.call.clone(), one))
                .collect(),
            remarks: 0,
            is_ended: task.status.state.is_terminal(),
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.state == TaskState::InputRequired
    }

    /// The events of the next update. `now` is its time.
    pub(super) fn take(&mut self, event: TurnEvent, now: &str) -> Vec<StreamResponse> {
        let resumed = self.has_withdrawn && goes_on(&event);
        let mut events: Vec<_> = resumed.then(|| self.resume(now)).into_iter().collect();
        events.extend(self.take_next(event, now));
        events
    }

    fn take_next(&mut self, event: TurnEvent, now: &str) -> Vec<StreamResponse> {
        match event {
            // The client has the newer task with its waiting calls.
            TurnEvent::State(state) => self.members(state.agents),
            TurnEvent::Accepted { agents, .. } => self.members(agents),
            TurnEvent::Runs { agents } => {
                let mut events: Vec<_> = self.working_once(now).into_iter().collect();
                events.extend(self.members(agents));
                events
            }
            TurnEvent::Counted { .. } | TurnEvent::Frozen { .. } => {
                self.working_once(now).into_iter().collect()
            }
            TurnEvent::Compacting {
                step, tightened, ..
            } => {
                let warning = tightened.map(|most| format!("; {}", fmt::tightened(most)));
                let warning = warning.unwrap_or_default();
                let text = format!("the conversation is compacted: {step}{warning}");
                vec![self.remark(text, now)]
            }
            TurnEvent::Progress { run, text } => {
                let agent = self.agents.get(&run);
                let text = match agent {
                    Some(agent) => format!("{agent}: {text}"),
                    None => text,
                };
                vec![self.remark(text, now)]
            }
            TurnEvent::Text { run, text } if self.is_lead(&run) => {
                self.text_delta(text).into_iter().collect()
            }
            TurnEvent::Missed => {
                (self.answer.begins, self.answer.is_missed) = (false, true);
                Vec::new()
            }
            TurnEvent::RunStepped { run } if self.is_lead(&run) => {
                self.answer.begins = true;
                Vec::new()
            }
            TurnEvent::RunRetried { agent, .. } => {
                if agent.run.as_deref().is_some_and(|run| self.is_lead(run)) {
                    self.answer = Answer::next();
                }
                self.members(vec![agent])
            }
            TurnEvent::Waiting { calls } => self.waits(calls),
            TurnEvent::Decided { call, decision, .. } => {
                let decided = self.decided(&call, &decision, now);
                decided.into_iter().collect()
            }
            TurnEvent::Ended(end) => self.end(*end),
            _ => Vec::new(),
        }
    }

    fn is_lead(&self, run: &str) -> bool {
        self.lead.as_deref() == Some(run)
    }

    fn ids(&self) -> Ids<'_> {
        Ids {
            task: &self.task,
            context: &self.context,
        }
    }

    /// Stores the runs and returns the events of finished ones.
    fn members(&mut self, members: Vec<Member>) -> Vec<StreamResponse> {
        let mut events = Vec::new();
        for member in members {
            let Some(run) = member.run.clone() else {
                continue;
            };
            if member.role == "lead" {
                self.lead = Some(run.clone());
            }
            let result = task::of_member(&member);
            self.agents.insert(run.clone(), member.agent);
            if let Some(result) = result
                && self.artifacts.insert(run)
            {
                events.push(self.artifact(result, false, true));
            }
        }
        events
    }

    fn artifact(&self, artifact: Artifact, append: bool, is_last: bool) -> StreamResponse {
        StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
            task_id: self.task.clone(),
            context_id: self.context.clone(),
            artifact,
            append: Some(append),
            last_chunk: Some(is_last),
            metadata: None,
        })
    }

    fn status(&mut self, state: TaskState, message: Option<Message>, at: &str) -> StreamResponse {
        self.state = state.clone();
        self.status_of(TaskStatus {
            state,
            message,
            timestamp: at.parse().ok(),
        })
    }

    fn status_of(&mut self, status: TaskStatus) -> StreamResponse {
        self.state = status.state.clone();
        StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
            task_id: self.task.clone(),
            context_id: self.context.clone(),
            status,
            metadata: None,
        })
    }

    /// The event for a task that began to work, once.
    fn working_once(&mut self, now: &str) -> Option<StreamResponse> {
        self.is_queued = false;
        let is_new = self.state == TaskState::Submitted;
        is_new.then(|| self.status(TaskState::Working, None, now))
    }

    /// A progress message.
    fn remark(&mut self, text: String, now: &str) -> StreamResponse {
        self.remarks += 1;
        let name = format!("remark.{}", self.remarks);
        let message = self.ids().remark(&name, text);
        let state = match self.is_waiting() {
            true => TaskState::InputRequired,
            false => TaskState::Working,
        };
        self.status(state, Some(message), now)
    }

    /// The next piece of the lead's reply.
    fn text_delta(&mut self, text: String) -> Option<StreamResponse> {
        let begins = std::mem::take(&mut self.answer.begins);
        if begins {
            self.answer = Answer::default();
        }
        if self.answer.is_missed {
            return None;
        }
        self.answer.reply.push_str(&text);
        let lead = self.lead.as_ref();
        let agent = lead.and_then(|lead| self.agents.get(lead)).cloned();
        Some(self.artifact(task::answer_of(agent, text), !begins, false))
    }

    fn waits(&mut self, calls: Vec<Approval>) -> Vec<StreamResponse> {
        let before = self.waiting.len();
        let each = calls.into_iter();
        self.waiting.extend(each.map(|one| (one.call.clone(), one)));
        if self.waiting.len() == before && self.is_waiting() {
            return Vec::new();
        }
        let asked = self.waiting.values().map(|one| one.requested_at.clone());
        let asked = asked.max().unwrap_or_default();
        vec![self.input_required(&asked)]
    }

    /// The question about all calls that wait.
    fn input_required(&mut self, at: &str) -> StreamResponse {
        let waiting: Vec<Approval> = self.waiting.values().cloned().collect();
        let message = task::question(&self.ids(), &waiting);
        self.status(TaskState::InputRequired, Some(message), at)
    }

    fn decided(&mut self, call: &str, decision: &str, now: &str) -> Option<StreamResponse> {
        let call = self.waiting.remove(call)?;
        // A call of the turn before a queued one does not end this task.
        let may_end = decision == WITHDRAWN && !is_ahead(&call, &self.task);
        self.has_withdrawn |= may_end;
        (!may_end).then(|| self.resume(now))
    }

    /// The state after a call that does not wait any more.
    fn resume(&mut self, now: &str) -> StreamResponse {
        self.has_withdrawn = false;
        match (self.waiting.is_empty(), self.is_queued) {
            (false, _) => self.input_required(now),
            (true, true) => self.status(TaskState::Submitted, None, now),
            (true, false) => self.status(TaskState::Working, None, now),
        }
    }

    fn end(&mut self, end: TurnEnd) -> Vec<StreamResponse> {
        self.is_ended = true;
        let mut events = self.members(end.agents);
        if let Some(answer) = task::answer(&end.turn) {
            let text = end.turn.answer.as_deref().unwrap_or_default();
            let is_told = !self.answer.is_missed && self.answer.reply == text;
            events.push(match is_told && !text.is_empty() {
                true => {
                    let mut last = task::answer_of(answer.name, String::new());
                    last.metadata = answer.metadata;
                    self.artifact(last, true, true)
                }
                false => self.artifact(answer, false, true),
            });
        }
        let status = task::status(&self.ids(), &end.turn, &[]);
        events.push(self.status_of(status));
        events
    }
}

/// Whether a call is of the turn before a queued task.
fn is_ahead(call: &Approval, task: &str) -> bool {
    !task.ends_with(&call.turn)
}

/// Whether a turn goes on with this event. It goes on without a delegate, and ends with its lead.
fn goes_on(event: &TurnEvent) -> bool {
    match event {
        TurnEvent::Runs { agents } => {
            let goes_on = |agent: &Member| agent.role != "lead" || agent.state == "running";
            agents.iter().any(goes_on)
        }
        TurnEvent::Decided { .. } | TurnEvent::Missed | TurnEvent::Ended(_) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests;
