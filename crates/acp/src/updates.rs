//! The session updates of a turn, made from the turn's events.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use unisono_api::approval::Approval;
use unisono_api::turn::{Compacted, Member};
use unisono_api::turn_event::{FrozenContext, TurnEnd, TurnEvent};

use crate::client::Error;
use crate::protocol::{
    Call, CallKind, CallStatus, Chunk, Cost, PlanEntry, PlanStatus, Priority, StopReason, Update,
};

/// The state of a turn that the client knows.
#[derive(Debug)]
pub(crate) struct Updates {
    turn: String,
    /// The run that answers.
    lead: Option<String>,
    /// The sent text of the current reply.
    reply: String,
    /// Whether text of it was missed.
    is_missed: bool,
    /// Whether the turn was joined and no live text has come yet: that text may be the middle of a
    /// reply.
    is_joining: bool,
    /// The number of earlier replies.
    replies: usize,
    /// Calls that the client knows.
    calls: BTreeSet<String>,
    /// Whether the client may know other calls, whose beginnings are not among these events.
    is_partial: bool,
    /// The state of each agent that the client knows, by place.
    members: BTreeMap<u64, String>,
    /// The agents and their tasks, by position.
    plan: BTreeMap<u64, PlanEntry>,
    context: Option<FrozenContext>,
    compactions: usize,
}

impl Updates {
    pub(crate) fn new(turn: &str) -> Updates {
        Updates {
            turn: turn.to_owned(),
            lead: None,
            reply: String::new(),
            is_missed: false,
            is_joining: false,
            replies: 0,
            calls: BTreeSet::new(),
            is_partial: false,
            members: BTreeMap::new(),
            plan: BTreeMap::new(),
            context: None,
            compactions: 0,
        }
    }

    /// The same for a turn that was begun before.
    pub(crate) fn joined(turn: &str) -> Updates {
        Updates {
            is_joining: true,
            ..Updates::new(turn)
        }
    }

    /// The session updates for the next event.
    pub(crate) fn take(&mut self, event: TurnEvent) -> Vec<Update> {
        match event {
            TurnEvent::State(state) => {
                self.is_partial = true;
                let mut all = self.agents(state.agents);
                all.extend(state.context.map(|context| self.frozen(context)));
                all.extend(self.waiting(state.waiting));
                all
            }
            TurnEvent::Accepted { agents, .. } | TurnEvent::Runs { agents } => self.agents(agents),
            TurnEvent::Compacting { step, .. } => vec![self.compacting(&step)],
            TurnEvent::Compacted { checkpoint } => self.compacted(checkpoint.preview, false),
            TurnEvent::StepFailed { reason, .. } => self.compacted(reason, true),
            TurnEvent::Frozen { context } => vec![self.frozen(context)],
            TurnEvent::Text { run, text } if self.is_lead(&run) => self.piece(text),
            TurnEvent::Missed => {
                self.is_missed = true;
                Vec::new()
            }
            TurnEvent::RunStepped { run } if self.is_lead(&run) => {
                self.end_reply();
                Vec::new()
            }
            TurnEvent::RunRetried { agent, .. } => {
                if agent.run.as_deref().is_some_and(|run| self.is_lead(run)) {
                    self.end_reply();
                }
                self.agents(vec![agent])
            }
            TurnEvent::Waiting { calls } => self.waiting(calls),
            TurnEvent::ToolStarted {
                call,
                tool,
                arguments,
                ..
            } => vec![self.called(call, tool, arguments, CallStatus::InProgress)],
            TurnEvent::ToolEnded {
                call,
                content,
                is_error,
                ..
            } if self.is_partial || self.calls.contains(&call) => {
                vec![ended(call, content, is_error)]
            }
            TurnEvent::Decided { call, decision, .. }
                if decision == "denied" || decision == "expired" =>
            {
                vec![ended(call, decision, true)]
            }
            _ => Vec::new(),
        }
    }

    fn is_lead(&self, run: &str) -> bool {
        self.lead.as_deref() == Some(run)
    }

    /// The changed agents, each as a call, and the plan if it changed.
    fn agents(&mut self, agents: Vec<Member>) -> Vec<Update> {
        let (mut all, mut is_changed) = (Vec::new(), false);
        for agent in agents {
            let entry = planned(&agent);
            is_changed |= self.plan.get(&agent.place) != Some(&entry);
            self.plan.insert(agent.place, entry);
            if agent.role == "lead" {
                self.lead = agent.run.or(self.lead.take());
            } else {
                all.extend(self.member(agent));
            }
        }
        // A single agent is not shown as a plan.
        if is_changed && self.plan.len() > 1 {
            let entries = self.plan.values().cloned().collect();
            all.push(Update::Plan { entries });
        }
        all
    }

    /// A delegate, if it changed.
    fn member(&mut self, agent: Member) -> Option<Update> {
        let before = self.members.insert(agent.place, agent.state.clone());
        if before.as_ref() == Some(&agent.state) {
            return None;
        }
        let status = match agent.state.as_str() {
            "waiting" => CallStatus::Pending,
            "running" => CallStatus::InProgress,
            "done" | "partial" => CallStatus::Completed,
            _ => CallStatus::Failed,
        };
        let error = agent
            .error
            .map(|error| format!("{}: {}", error.code, error.reason));
        let result = agent.text.or(error).map(Into::into);
        let call = Call {
            tool_call_id: format!("{}:{}", self.turn, agent.place),
            status: Some(status),
            content: result.into_iter().collect(),
            ..Call::default()
        };
        Some(match before {
            Some(_) => Update::CallChange(call),
            None => Update::Call(Call {
                title: Some(agent.agent),
                kind: Some(CallKind::Think),
                ..call
            }),
        })
    }

    fn compaction(&self) -> String {
        format!("{}:compaction:{}", self.turn, self.compactions)
    }

    fn compacting(&mut self, step: &str) -> Update {
        self.compactions += 1;
        Update::Call(Call {
            tool_call_id: self.compaction(),
            title: Some(format!("Compacting: {step}")),
            kind: Some(CallKind::Think),
            status: Some(CallStatus::InProgress),
            ..Call::default()
        })
    }

    fn compacted(&self, text: String, is_error: bool) -> Vec<Update> {
        if self.compactions == 0 {
            return Vec::new();
        }
        vec![ended(self.compaction(), text, is_error)]
    }

    fn frozen(&mut self, context: FrozenContext) -> Update {
        let used = used(&context, None);
        self.context = Some(context);
        used
    }

    /// The next piece of the lead's reply.
    fn piece(&mut self, text: String) -> Vec<Update> {
        self.is_missed |= std::mem::take(&mut self.is_joining);
        if self.is_missed || text.is_empty() {
            return Vec::new();
        }
        self.reply.push_str(&text);
        vec![Update::AgentMessageChunk(Chunk {
            content: text.into(),
            message_id: format!("{}:{}", self.turn, self.replies),
        })]
    }

    fn end_reply(&mut self) {
        self.reply.clear();
        self.is_missed = false;
        self.replies += 1;
    }

    /// Reports a call, or its new status.
    fn called(&mut self, id: String, tool: String, input: Value, status: CallStatus) -> Update {
        let call = Call {
            tool_call_id: id.clone(),
            status: Some(status),
            ..Call::default()
        };
        match self.calls.insert(id) {
            false => Update::CallChange(call),
            true => Update::Call(Call {
                title: Some(tool),
                kind: Some(CallKind::Other),
                raw_input: Some(input),
                ..call
            }),
        }
    }

    fn waiting(&mut self, calls: Vec<Approval>) -> Vec<Update> {
        let each = calls.into_iter();
        let updates =
            each.map(|call| self.called(call.call, call.tool, call.arguments, CallStatus::Pending));
        updates.collect()
    }

    /// Returns the last session updates and the answer to the prompt. `cost` is the cost of the session so far.
    pub(crate) fn end(
        &mut self,
        end: TurnEnd,
        cost: Option<f64>,
    ) -> (Vec<Update>, Result<StopReason, Error>) {
        let mut all = self.agents(end.agents);
        if let Some(context) = &self.context {
            all.push(used(context, cost));
        }
        let ended = match (end.turn.state.as_str(), end.turn.answer) {
            ("cancelled", _) => Ok(StopReason::Cancelled),
            ("compacted", None) => {
                (self.is_missed, self.is_joining) = (false, false);
                all.extend(self.piece(saved(end.turn.compacted)));
                Ok(StopReason::EndTurn)
            }
            (_, Some(answer)) => {
                all.extend(self.rest(&answer));
                Ok(StopReason::EndTurn)
            }
            (state, None) => Err(Error::internal(end.turn.error.map_or_else(
                || format!("the turn has no answer: it is {state}"),
                |error| format!("{}: {}", error.code, error.reason),
            ))),
        };
        (all, ended)
    }

    /// The part of the answer that was not streamed.
    fn rest(&mut self, answer: &str) -> Vec<Update> {
        (self.is_missed, self.is_joining) = (false, false);
        let rest = answer.strip_prefix(self.reply.as_str()).map(str::to_owned);
        let rest = rest.unwrap_or_else(|| {
            self.end_reply();
            answer.to_owned()
        });
        self.piece(rest)
    }
}

/// An agent in the plan.
fn planned(agent: &Member) -> PlanEntry {
    let name = &agent.agent;
    PlanEntry {
        content: match agent.role.as_str() {
            "lead" => format!("{name} answers"),
            _ => format!("{name} works for the answer"),
        },
        priority: Priority::Medium,
        status: match agent.state.as_str() {
            "waiting" => PlanStatus::Pending,
            "running" => PlanStatus::InProgress,
            _ => PlanStatus::Completed,
        },
    }
}

/// The occupancy of the context, and the cost of the session.
fn used(context: &FrozenContext, cost: Option<f64>) -> Update {
    Update::Usage {
        used: context.tokens,
        size: context.usable_tokens,
        cost: cost.map(|amount| Cost {
            amount,
            currency: "USD",
        }),
    }
}

/// The result of a requested compaction.
fn saved(compacted: Option<Compacted>) -> String {
    match compacted.and_then(|done| Some((done, done.tokens_after?))) {
        Some((done, after)) if after < done.tokens_before => {
            let (before, effect) = (done.tokens_before, done.text());
            format!("The context is compacted ({effect}): {after} tokens instead of {before}.")
        }
        _ => "Nothing was compacted: there is nothing to summarise.".to_owned(),
    }
}

fn ended(call: String, content: String, is_error: bool) -> Update {
    Update::CallChange(Call {
        tool_call_id: call,
        status: Some(match is_error {
            true => CallStatus::Failed,
            false => CallStatus::Completed,
        }),
        content: vec![content.into()],
        ..Call::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The calls and changes of calls for these events.
    fn calls(mut updates: Updates, events: &[Value]) -> Vec<String> {
        let mut all = Vec::new();
        for event in events {
            let event = serde_json::from_value(event.clone()).unwrap();
            all.extend(updates.take(event));
        }
        let name = |update: &Update| match update {
            Update::Call(call) => format!("call {}", call.tool_call_id),
            Update::CallChange(call) => format!("change {}", call.tool_call_id),
            other => panic!("{other:?}"),
        };
        all.iter().map(name).collect()
    }

    #[test]
    fn only_calls_that_the_client_knows_change() {
        let started = json!({"kind": "tool_started", "call": "c1", "run": "r", "tool": "look",
            "arguments": {}});
        let ended = |call: &str| {
            json!({"kind": "tool_ended", "call": call, "run": "r", "content": "blue",
                "is_error": false})
        };
        // Nobody was asked about c2, and it was not started: a rule decided about it.
        let mut events = vec![started, ended("c2"), ended("c1")];
        let known = ["call c1", "change c1"];
        assert_eq!(calls(Updates::new("t"), &events), known);
        assert_eq!(calls(Updates::joined("t"), &events), known);
        // A turn that is followed from its middle may have begun a call before.
        let state = json!({"kind": "state", "agents": [], "waiting": [], "changed_agents": []});
        events.insert(0, state);
        let of_part = calls(Updates::joined("t"), &events);
        assert_eq!(of_part, ["call c1", "change c2", "change c1"]);
    }
}
