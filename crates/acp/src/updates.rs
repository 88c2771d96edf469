//! The session updates of a turn, made from the turn's events.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use unisono_api::approval::Approval;
use unisono_api::fmt;
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
    /// The sent text of a recorded reply, until another text or step comes.
    recorded: String,
    /// Whether text of it was missed.
    is_missed: bool,
    /// Whether the turn was joined and no live text has come yet: that text may be the middle of a
    /// reply.
    is_joining: bool,
    /// The number of earlier replies.
    replies: usize,
    /// Calls that the client knows.
    calls: BTreeSet<String>,
    /// Calls of an earlier turn that this turn waits for. None: the client follows that turn as well.
    ahead: Option<BTreeSet<String>>,
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
            recorded: String::new(),
            is_missed: false,
            is_joining: false,
            replies: 0,
            calls: BTreeSet::new(),
            ahead: Some(BTreeSet::new()),
            is_partial: false,
            members: BTreeMap::new(),
            plan: BTreeMap::new(),
            context: None,
            compactions: 0,
        }
    }

    /// The same for a turn that was begun before. The client follows all open turns of its session.
    pub(crate) fn joined(turn: &str) -> Updates {
        Updates {
            is_joining: true,
            ahead: None,
            ..Updates::new(turn)
        }
    }

    /// Removes the waiting calls of an earlier turn that the client follows as well.
    pub(crate) fn remove_others(&self, event: &mut TurnEvent) {
        let calls = match event {
            _ if self.ahead.is_some() => return,
            TurnEvent::Waiting { calls } => calls,
            TurnEvent::State(state) => &mut state.waiting,
            _ => return,
        };
        calls.retain(|call| call.turn == self.turn);
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
            TurnEvent::Compacting {
                step, tightened, ..
            } => vec![self.compacting(&step, tightened)],
            TurnEvent::Compacted { checkpoint } => self.compacted(checkpoint.preview, false),
            TurnEvent::StepFailed { reason, .. } => self.compacted(reason, true),
            TurnEvent::Frozen { context } => vec![self.frozen(context)],
            TurnEvent::Text { run, text } if self.is_lead(&run) => self.text_delta(text),
            TurnEvent::Missed => {
                self.is_missed = true;
                Vec::new()
            }
            TurnEvent::RunStepped { run } if self.is_lead(&run) => {
                self.recorded = std::mem::take(&mut self.reply);
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
            // The events of its turn are not among these.
            TurnEvent::Decided { call, decision, .. } if self.is_ahead(&call) => {
                let is_error = decision != "approved";
                vec![ended(call, decision, is_error)]
            }
            TurnEvent::Decided { call, decision, .. }
                if ["denied", "expired", "withdrawn"].contains(&decision.as_str()) =>
            {
                vec![ended(call, decision, true)]
            }
            _ => Vec::new(),
        }
    }

    /// Whether a call is of the earlier turn that this turn waits for.
    fn is_ahead(&self, call: &str) -> bool {
        let ahead = self.ahead.as_ref();
        ahead.is_some_and(|ahead| ahead.contains(call))
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

    fn compacting(&mut self, step: &str, tightened: Option<u64>) -> Update {
        self.compactions += 1;
        let title = match tightened {
            Some(most) => format!("Compacting: {step}; {}", fmt::tightened(most)),
            None => format!("Compacting: {step}"),
        };
        Update::Call(Call {
            tool_call_id: self.compaction(),
            title: Some(title),
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
    fn text_delta(&mut self, text: String) -> Vec<Update> {
        self.is_missed |= std::mem::take(&mut self.is_joining);
        if self.is_missed || text.is_empty() {
            return Vec::new();
        }
        self.recorded.clear();
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
        if let Some(ahead) = &mut self.ahead {
            let other = calls.iter().filter(|call| call.turn != self.turn);
            ahead.extend(other.map(|call| call.call.clone()));
        }
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
        let reason = match (end.turn.is_cut_off(), end.turn.is_stopped()) {
            (true, _) => StopReason::MaxTokens,
            (false, true) => StopReason::MaxTurnRequests,
            (false, false) => StopReason::EndTurn,
        };
        let refusal = end.turn.refusal().map(str::to_owned);
        let ended = match (end.turn.state.as_str(), end.turn.answer, refusal) {
            ("cancelled", _, _) => Ok(StopReason::Cancelled),
            ("compacted", None, _) => {
                (self.is_missed, self.is_joining) = (false, false);
                all.extend(self.text_delta(saved(end.turn.compacted)));
                Ok(StopReason::EndTurn)
            }
            (_, Some(answer), _) => {
                all.extend(self.rest(&answer));
                Ok(reason)
            }
            ("failed", None, Some(refusal)) => {
                all.extend(self.rest(&refusal));
                Ok(StopReason::Refusal)
            }
            (state, None, _) => Err(Error::internal(end.turn.error.map_or_else(
                || format!("the turn has no answer: it is {state}"),
                |error| format!("{}: {}", error.code, error.reason),
            ))),
        };
        (all, ended)
    }

    /// The part of the answer that was not streamed.
    fn rest(&mut self, answer: &str) -> Vec<Update> {
        (self.is_missed, self.is_joining) = (false, false);
        // The last reply can be a step of its own, such as that of a fallback.
        if self.reply.is_empty() && self.recorded == answer {
            return Vec::new();
        }
        let rest = answer.strip_prefix(self.reply.as_str()).map(str::to_owned);
        let rest = rest.unwrap_or_else(|| {
            self.end_reply();
            answer.to_owned()
        });
        self.text_delta(rest)
    }
}

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
    use crate::protocol::Content;

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
    fn a_compaction_that_keeps_less_than_requested_says_so() {
        for (tightened, title) in [
            (json!(null), "Compacting: drop #1–#9"),
            (
                json!(8_000),
                "Compacting: drop #1–#9; less is kept than requested: otherwise the context would \
                 exceed 8,000 tokens",
            ),
        ] {
            let event = json!({"kind": "compacting", "step": "drop #1–#9", "tokens_before": 9_000,
                "tightened": tightened, "quota_reached": null});
            let event = serde_json::from_value(event).unwrap();
            match &Updates::new("t").take(event)[..] {
                [Update::Call(call)] => assert_eq!(call.title.as_deref(), Some(title)),
                other => panic!("{other:?}"),
            }
        }
    }

    /// The end of a turn with the answer `So.`; `reason`: why it is partial.
    fn ended_turn(reason: Option<&str>) -> TurnEnd {
        let usage = json!({"input_tokens": 7, "output_tokens": 2, "cache_expected_tokens": 0,
            "cache_read_tokens": 0, "cache_write_tokens": 0, "cost_usd": null});
        let error = reason.map(|reason| json!({"code": "partial", "reason": reason}));
        let lead = json!({"run": "r", "agent": "lead", "role": "lead", "state": "partial",
            "attempt": 1, "step_count": 0, "prefix": "p", "error": error, "usage": usage,
            "opened_at": ""});
        let turn = json!({"session": "s", "turn": "t", "branch": "main", "task": "Why?",
            "state": "answered", "error": null, "answer": "So.", "snapshot": null,
            "snapshot_agents": 0, "checkpoints": [], "runs": [lead], "cost_usd": null,
            "accepted_at": "", "ended_at": ""});
        let end = json!({"turn": turn, "agents": [], "answer_message": 2,
            "tokens_before": null, "tokens_after": null, "budgets": []});
        serde_json::from_value(end).unwrap()
    }

    #[test]
    fn an_answer_is_sent_once_also_if_its_reply_was_recorded_as_a_step() {
        let begun = json!({"kind": "runs", "agents": [{"place": 0, "run": "r", "agent": "lead",
            "role": "lead", "stage": null, "parent": null, "state": "running", "attempt": 1,
            "text": null, "error": null, "usage": null, "duration_ms": null}]});
        let says = |text: &str| json!({"kind": "text", "run": "r", "text": text});
        let stepped = json!({"kind": "run_stepped", "run": "r"});
        for (events, expected) in [
            (vec![says("So.")], "So."),
            (vec![says("So."), stepped.clone()], "So."),
            (
                vec![says("I look."), stepped.clone(), says("S")],
                "I look.So.",
            ),
            (vec![says("So"), stepped.clone(), stepped], "SoSo."),
        ] {
            let mut updates = Updates::new("t");
            let mut sent = Vec::new();
            for event in std::iter::once(&begun).chain(&events) {
                sent.extend(updates.take(serde_json::from_value(event.clone()).unwrap()));
            }
            sent.extend(updates.end(ended_turn(None), None).0);
            let texts = sent.iter().map(|update| match update {
                Update::AgentMessageChunk(Chunk {
                    content: Content::Text { text },
                    ..
                }) => text.as_str(),
                other => panic!("{other:?}"),
            });
            assert_eq!(texts.collect::<String>(), expected, "{events:?}");
        }
    }

    #[test]
    fn a_prompt_says_why_its_answer_is_incomplete() {
        let end = |reason: Option<&str>| Updates::new("t").end(ended_turn(reason), None).1;
        for (reason, expected) in [
            (None, StopReason::EndTurn),
            (
                Some("cut off at the model's output limit of 9 tokens"),
                StopReason::MaxTokens,
            ),
            (
                Some("stopped after 12 model calls"),
                StopReason::MaxTurnRequests,
            ),
            (
                Some("stopped: there was no room left for what the tools it called would answer"),
                StopReason::EndTurn,
            ),
        ] {
            assert_eq!(end(reason), Ok(expected), "{reason:?}");
        }
    }

    #[test]
    fn a_call_of_the_turn_before_is_shown_where_that_turn_is_not_followed() {
        let call = json!({"call": "c1", "kind": "approval", "session": "s", "turn": "before",
            "run": "r", "agent": "clerk", "tool": "send", "arguments": {},
            "contract": "at_most_once", "rule": null, "requested_at": "", "expires_at": null});
        let waiting = json!({"kind": "waiting", "calls": [call]});
        let decided = json!({"kind": "decided", "call": "c1", "decision": "approved"});
        let events = [waiting.clone(), decided];
        assert_eq!(calls(Updates::new("t"), &events), ["call c1", "change c1"]);
        let mut event: TurnEvent = serde_json::from_value(waiting).unwrap();
        Updates::new("t").remove_others(&mut event);
        assert!(matches!(&event, TurnEvent::Waiting { calls } if calls.len() == 1));
        Updates::joined("t").remove_others(&mut event);
        assert!(matches!(&event, TurnEvent::Waiting { calls } if calls.is_empty()));
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
