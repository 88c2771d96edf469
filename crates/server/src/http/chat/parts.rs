//! The parts of an answer, made from the updates of its turn.

use std::collections::BTreeSet;

use unisono_api::approval::Approval;
use unisono_api::chat::{Metadata, Part};
use unisono_api::turn::{Member, Turn};
use unisono_api::turn_event::{TurnEnd, TurnEvent};

use super::request::IN_DOUBT;

/// The reason of a question about a call whose outcome is unknown.
const MAY_HAVE_BEEN_MADE: &str = "nobody knows whether this call was made before a crash; \
                                  an approval makes it again";

/// An answer and its sent part.
#[derive(Debug)]
pub(super) struct Parts {
    metadata: Metadata,
    /// The run that answers.
    lead: Option<String>,
    /// The sent part of the current reply.
    reply: String,
    /// The sent text of a recorded reply, until another text or step comes.
    recorded: String,
    /// Whether deltas were missed.
    is_missed: bool,
    /// The number of the open text, and the number of texts so far.
    text: Option<usize>,
    texts: usize,
    is_in_step: bool,
    /// Whether the open step has calls.
    has_calls: bool,
    /// Calls that the chat knows.
    calls: BTreeSet<String>,
    /// Questions that have just been answered.
    answered: BTreeSet<String>,
    /// Whether the caller may decide about calls.
    may_approve: bool,
    is_ended: bool,
}

impl Parts {
    /// `answered` are questions whose calls the chat already knows; they have just been answered.
    /// `may_approve`: whether the caller may decide about calls.
    pub(super) fn new(
        turn: &Turn,
        answered: impl IntoIterator<Item = String>,
        may_approve: bool,
    ) -> Parts {
        let answered: BTreeSet<String> = answered.into_iter().collect();
        let call = |question: &String| {
            let call = question.strip_prefix(IN_DOUBT);
            call.unwrap_or(question).to_owned()
        };
        Parts {
            metadata: Metadata {
                session: turn.session.clone(),
                turn: turn.turn.clone(),
                branch: turn.branch.clone(),
                usage: None,
            },
            lead: None,
            reply: String::new(),
            recorded: String::new(),
            is_missed: false,
            text: None,
            texts: 0,
            is_in_step: false,
            has_calls: false,
            calls: answered.iter().map(call).collect(),
            answered,
            may_approve,
            is_ended: false,
        }
    }

    pub(super) fn begin(&self) -> Part {
        Part::Start {
            message_id: self.metadata.turn.clone(),
            message_metadata: self.metadata.clone(),
        }
    }

    /// Whether the stream has ended: the turn has ended, or waits for a person.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// The parts of calls that waited, and were decided before: their results follow.
    pub(super) fn waited(&mut self, calls: Vec<Approval>) -> Vec<Part> {
        let mut parts = Vec::new();
        for call in calls {
            parts.extend(self.called(call.call, call.tool, call.arguments));
        }
        parts
    }

    /// The parts of the next update.
    pub(super) fn take(&mut self, event: TurnEvent) -> Vec<Part> {
        match event {
            TurnEvent::State(mut state) => {
                let answered = &self.answered;
                let is_open = |call: &Approval| !answered.contains(&question_about(call));
                state.waiting.retain(is_open);
                let context = state.context.map(context);
                let mut parts: Vec<Part> = context.into_iter().collect();
                parts.extend(self.members(state.agents));
                parts.extend(self.waiting(state.waiting));
                parts
            }
            TurnEvent::Accepted { agents, .. } | TurnEvent::Runs { agents } => self.members(agents),
            TurnEvent::Frozen { context: frozen } => vec![context(frozen)],
            TurnEvent::Compacted { checkpoint } => vec![Part::Checkpoint {
                id: checkpoint.number.to_string(),
                data: checkpoint,
            }],
            TurnEvent::Text { run, text } if self.is_lead(&run) => self.text_delta(text),
            TurnEvent::Missed => {
                self.is_missed = true;
                Vec::new()
            }
            TurnEvent::RunStepped { run } if self.is_lead(&run) => {
                self.recorded = std::mem::take(&mut self.reply);
                self.end_step()
            }
            TurnEvent::RunRetried { agent, .. } => self.retried(agent),
            TurnEvent::ToolStarted {
                call,
                run,
                tool,
                arguments,
            } if self.is_lead(&run) => self.called(call, tool, arguments),
            TurnEvent::ToolEnded {
                call,
                content,
                is_error,
                ..
            } if self.calls.contains(&call) => vec![output(call, content, is_error)],
            TurnEvent::Decided { call, decision, .. }
                if self.calls.contains(&call)
                    && ["denied", "expired", "withdrawn"].contains(&decision.as_str()) =>
            {
                vec![Part::ToolOutputDenied { tool_call_id: call }]
            }
            TurnEvent::Waiting { calls } => self.waiting(calls),
            TurnEvent::Ended(end) => self.end(*end),
            _ => Vec::new(),
        }
    }

    fn is_lead(&self, run: &str) -> bool {
        self.lead.as_deref() == Some(run)
    }

    fn members(&mut self, agents: Vec<Member>) -> Vec<Part> {
        let known = agents.into_iter().filter_map(|agent| {
            let id = agent.run.clone()?;
            if agent.role == "lead" {
                self.lead = Some(id.clone());
            }
            Some(Part::Agent { id, data: agent })
        });
        known.collect()
    }

    /// The next piece of the lead's reply.
    fn text_delta(&mut self, text: String) -> Vec<Part> {
        if self.is_missed || text.is_empty() {
            return Vec::new();
        }
        // A step that is reset loses its calls: the text of the next reply is another step.
        let mut parts = match self.has_calls && self.text.is_none() {
            true => self.end_step(),
            false => Vec::new(),
        };
        self.recorded.clear();
        self.reply.push_str(&text);
        parts.extend(self.begin_step());
        let id = match self.text {
            Some(open) => open.to_string(),
            None => {
                self.texts += 1;
                self.text = Some(self.texts);
                let id = self.texts.to_string();
                parts.push(Part::TextStart { id: id.clone() });
                id
            }
        };
        parts.push(Part::TextDelta { id, delta: text });
        parts
    }

    fn begin_step(&mut self) -> Vec<Part> {
        let begins = !std::mem::replace(&mut self.is_in_step, true);
        begins.then_some(Part::StartStep).into_iter().collect()
    }

    fn end_text(&mut self) -> Option<Part> {
        self.reply.clear();
        self.is_missed = false;
        let id = self.text.take()?.to_string();
        Some(Part::TextEnd { id })
    }

    fn end_step(&mut self) -> Vec<Part> {
        let mut parts: Vec<Part> = self.end_text().into_iter().collect();
        self.has_calls = false;
        if std::mem::replace(&mut self.is_in_step, false) {
            parts.push(Part::FinishStep);
        }
        parts
    }

    /// Another attempt starts: the text of the last step of the earlier one is void. Its calls remain.
    fn retried(&mut self, agent: Member) -> Vec<Part> {
        let is_lead = agent.run.as_deref().is_some_and(|run| self.is_lead(run));
        let mut parts = Vec::new();
        if is_lead && self.is_in_step {
            parts.extend(self.end_text());
            if !self.has_calls {
                parts.push(Part::ResetStep);
            }
        }
        parts.extend(self.members(vec![agent]));
        parts
    }

    /// Reports a call to the chat, once.
    fn called(&mut self, call: String, tool: String, input: serde_json::Value) -> Vec<Part> {
        if !self.calls.insert(call.clone()) {
            return Vec::new();
        }
        let mut parts = self.begin_step();
        self.has_calls = true;
        parts.push(Part::ToolInputAvailable {
            tool_call_id: call,
            tool_name: tool,
            input,
            dynamic: true,
        });
        parts
    }

    /// Calls that wait: the answer ends here until the caller has decided about them. For a caller who
    /// may not, it goes on as soon as somebody else has.
    fn waiting(&mut self, calls: Vec<Approval>) -> Vec<Part> {
        if calls.is_empty() {
            return Vec::new();
        }
        let mut parts = Vec::new();
        for call in calls {
            let approval_id = question_about(&call);
            let reason = match is_in_doubt(&call) {
                true => Some(MAY_HAVE_BEEN_MADE.to_owned()),
                false => call.rule,
            };
            parts.extend(self.called(call.call.clone(), call.tool, call.arguments));
            if self.may_approve {
                parts.push(Part::ToolApprovalRequest {
                    approval_id,
                    tool_call_id: call.call,
                    reason,
                });
            }
        }
        if !self.may_approve {
            return parts;
        }
        parts.extend(self.end_step());
        parts.push(self.finish("tool-calls"));
        parts
    }

    fn finish(&mut self, reason: &str) -> Part {
        self.is_ended = true;
        Part::Finish {
            finish_reason: reason.to_owned(),
            message_metadata: self.metadata.clone(),
        }
    }

    fn end(&mut self, end: TurnEnd) -> Vec<Part> {
        self.is_ended = true;
        let mut parts = self.members(end.agents);
        self.metadata.usage = Some(end.turn.usage);
        let turn = end.turn;
        let is_cut = turn.is_cut_off();
        match (turn.state.as_str(), turn.answer) {
            ("cancelled", _) => {
                parts.extend(self.end_step());
                parts.push(Part::Abort {
                    reason: "the turn was cancelled".to_owned(),
                });
            }
            (_, Some(answer)) => {
                parts.extend(self.rest(&answer));
                parts.extend(self.end_step());
                parts.push(self.finish(match is_cut {
                    true => "length",
                    false => "stop",
                }));
            }
            (state, None) => {
                let why = turn.error.map_or_else(
                    || format!("the turn has no answer: it is {state}"),
                    |error| format!("{}: {}", error.code, error.reason),
                );
                parts.extend(self.end_step());
                parts.push(Part::Error { error_text: why });
            }
        }
        parts
    }

    fn rest(&mut self, answer: &str) -> Vec<Part> {
        // The last reply can be a step of its own, such as that of a fallback.
        if self.reply.is_empty() && self.recorded == answer {
            return Vec::new();
        }
        if let Some(rest) = answer.strip_prefix(self.reply.as_str()) {
            self.is_missed = false;
            return self.text_delta(rest.to_owned());
        }
        let mut parts: Vec<Part> = self.end_text().into_iter().collect();
        parts.push(Part::ResetStep);
        parts.extend(self.text_delta(answer.to_owned()));
        parts
    }
}

/// Whether the outcome of a waiting call is unknown.
pub(super) fn is_in_doubt(call: &Approval) -> bool {
    call.kind == "in_doubt"
}

/// The id of the question about a waiting call.
fn question_about(call: &Approval) -> String {
    match is_in_doubt(call) {
        true => format!("{IN_DOUBT}{}", call.call),
        false => call.call.clone(),
    }
}

fn context(frozen: unisono_api::turn_event::FrozenContext) -> Part {
    Part::Context {
        id: "context".to_owned(),
        data: frozen,
    }
}

fn output(call: String, content: String, is_error: bool) -> Part {
    match is_error {
        false => Part::ToolOutputAvailable {
            tool_call_id: call,
            output: content,
            dynamic: true,
        },
        true => Part::ToolOutputError {
            tool_call_id: call,
            error_text: content,
            dynamic: true,
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use unisono_session::run::CUT_OFF;

    use super::*;

    fn turn(state: &str, answer: Option<&str>) -> Value {
        json!({"session": "s", "turn": "t", "branch": "main", "task": "?", "state": state,
            "error": {"code": "timeout", "reason": "no answer in 5 s"}, "answer": answer, "snapshot": null,
            "snapshot_agents": 1, "checkpoints": [], "runs": [], "cost_usd": null,
            "accepted_at": "2026-05-07T00:00:00Z", "ended_at": null})
    }

    fn agent(run: &str, role: &str) -> Value {
        json!({"place": 0, "run": run, "agent": "a", "role": role, "stage": null, "parent": null,
            "state": "running", "attempt": 1, "text": null, "error": null, "usage": null,
            "duration_ms": null})
    }

    fn usage() -> Value {
        json!({"input_tokens": 7, "output_tokens": 2, "cache_expected_tokens": 0,
            "cache_read_tokens": 0, "cache_write_tokens": 0, "cost_usd": null})
    }

    /// The parts of these updates, shortly: `+1 text`, `reset`.
    fn parts(updates: &[Value]) -> Vec<String> {
        let turn = serde_json::from_value(turn("working", None)).unwrap();
        let mut parts = Parts::new(&turn, [], true);
        let mut all = vec![parts.begin()];
        for update in updates {
            all.extend(parts.take(serde_json::from_value(update.clone()).unwrap()));
        }
        let lines = all.iter().filter_map(|part| {
            Some(match part {
                Part::TextStart { id } => format!("text {id}"),
                Part::TextDelta { id, delta } => format!("+{id} {delta}"),
                Part::TextEnd { id } => format!("end {id}"),
                Part::StartStep => "step".to_owned(),
                Part::ResetStep => "reset".to_owned(),
                Part::FinishStep => "stepped".to_owned(),
                Part::Finish { finish_reason, .. } => format!("finish {finish_reason}"),
                Part::Abort { .. } => "abort".to_owned(),
                Part::Error { error_text } => format!("error {error_text}"),
                Part::ToolInputAvailable { tool_name, .. } => format!("call {tool_name}"),
                Part::ToolOutputAvailable { output, .. } => format!("result {output}"),
                _ => return None,
            })
        });
        let lines = lines.collect();
        assert!(parts.is_ended());
        lines
    }

    fn ended(state: &str, answer: Option<&str>) -> Value {
        json!({"kind": "ended", "turn": turn(state, answer), "agents": [], "answer_message": 2,
            "tokens_before": null, "tokens_after": null, "usage": usage(), "budgets": []})
    }

    #[test]
    fn an_answer_that_was_cut_off_ends_by_its_length() {
        let lead = json!({"run": "lead", "agent": "a", "model": null, "role": "lead", "stage": null,
            "parent": null, "task": null, "state": "partial", "attempt": 1, "snapshot": null,
            "prefix": "", "text": "It is", "error": {"code": "partial", "reason": CUT_OFF},
            "usage": usage(), "opened_at": "2026-05-07T00:00:00Z", "duration_ms": 1});
        let mut cut = ended("answered", Some("It is"));
        cut["turn"]["runs"] = json!([lead]);
        assert_eq!(parts(&[cut]).last().unwrap(), "finish length");
    }

    #[test]
    fn approvals_are_offered_to_those_who_may_decide() {
        let begun = json!({"kind": "runs", "agents": [agent("lead", "lead")]});
        let call = json!({"call": "c", "kind": "approval", "session": "s", "turn": "t", "run": "lead",
            "agent": "a", "tool": "look", "arguments": {}, "contract": "pure", "rule": null,
            "requested_at": "2026-05-07T00:00:00Z", "expires_at": null});
        let waits = json!({"kind": "waiting", "calls": [call]});
        let came = json!({"kind": "tool_ended", "call": "c", "run": "lead", "content": "blue",
            "is_error": false});
        for may_approve in [true, false] {
            let turn = serde_json::from_value(turn("working", None)).unwrap();
            let mut parts = Parts::new(&turn, [], may_approve);
            let mut take =
                |update: &Value| parts.take(serde_json::from_value(update.clone()).unwrap());
            take(&begun);
            let asked = take(&waits);
            let came = take(&came);
            let is_call = |part: &Part| matches!(part, Part::ToolInputAvailable { .. });
            let is_offer = |part: &Part| matches!(part, Part::ToolApprovalRequest { .. });
            assert!(asked.iter().any(is_call));
            assert_eq!(asked.iter().any(is_offer), may_approve);
            assert!(matches!(came[..], [Part::ToolOutputAvailable { .. }]));
            assert_eq!(parts.is_ended(), may_approve);
        }
    }

    #[test]
    fn a_call_that_may_have_been_made_is_another_question() {
        let waits = |kind: &str| {
            json!([{"call": "c", "kind": kind, "session": "s", "turn": "t", "run": "lead",
                "agent": "a", "tool": "look", "arguments": {}, "contract": "at_most_once",
                "rule": "look", "requested_at": "2026-05-07T00:00:00Z", "expires_at": null}])
        };
        let asked = |answered: &[&str], kind: &str| {
            let turn = serde_json::from_value(turn("working", None)).unwrap();
            let answered = answered.iter().map(|id| (*id).to_owned());
            let mut parts = Parts::new(&turn, answered, true);
            let state = json!({"kind": "state", "agents": [], "no_delegation_reason": null,
                "context": null, "tokens_before": null, "waiting": waits(kind),
                "changed_agents": []});
            let made = parts.take(serde_json::from_value(state).unwrap());
            made.into_iter().find_map(|part| match part {
                Part::ToolApprovalRequest {
                    approval_id,
                    reason,
                    ..
                } => Some((approval_id, reason.unwrap())),
                _ => None,
            })
        };
        let question = |id: &str, reason: &str| Some((id.to_owned(), reason.to_owned()));
        let first = question("c", "look");
        let second = question("in-doubt:c", MAY_HAVE_BEEN_MADE);
        type Question = Option<(String, String)>;
        let rows: [(&[&str], &str, &Question); 5] = rows! {
            (&[], "approval", &first),
            (&["c"], "approval", &None),
            (&[], "in_doubt", &second),
            (&["c"], "in_doubt", &second),
            (&["in-doubt:c"], "in_doubt", &None),
        };
        for (answered, kind, expected) in rows {
            assert_eq!(&asked(answered, kind), expected, "{answered:?} {kind}");
        }
    }

    #[test]
    fn a_decision_about_a_call_that_the_chat_does_not_know_is_no_part() {
        let turn = serde_json::from_value(turn("working", None)).unwrap();
        let mut parts = Parts::new(&turn, ["known".to_owned()], true);
        for (call, expected) in [("known", 1), ("other", 0)] {
            let decided = json!({"kind": "decided", "call": call, "decision": "denied"});
            let made = parts.take(serde_json::from_value(decided).unwrap());
            assert_eq!(made.len(), expected, "{call}");
        }
    }

    #[test]
    fn an_answer_is_whole_whatever_was_missed_or_tried_again() {
        let begun =
            json!({"kind": "runs", "agents": [agent("other", "delegate"), agent("lead", "lead")]});
        let other = json!({"kind": "text", "run": "other", "text": "No."});
        let says = |text: &str| json!({"kind": "text", "run": "lead", "text": text});
        let answered = |text| ended("answered", Some(text));
        let called = json!({"kind": "tool_started", "call": "c", "run": "lead", "tool": "look",
            "arguments": {}});
        let came = json!({"kind": "tool_ended", "call": "c", "run": "lead", "content": "blue",
            "is_error": false});
        let stepped = json!({"kind": "run_stepped", "run": "lead"});
        let retried =
            json!({"kind": "run_retried", "agent": agent("lead", "lead"), "reason": "cut"});
        let missed = json!({"kind": "missed"});
        let rows: [(&[Value], &str); 11] = rows! {
            (&[begun.clone(), other, says("It "), says("is."), answered("It is.")],
             "step|text 1|+1 It |+1 is.|end 1|stepped|finish stop"),
            (&[answered("It is.")], "step|text 1|+1 It is.|end 1|stepped|finish stop"),
            (&[begun.clone(), says("It "), missed.clone(), says("!"), answered("It is so!")],
             "step|text 1|+1 It |+1 is so!|end 1|stepped|finish stop"),
            (&[begun.clone(), says("It w"), retried.clone(), says("It is."), answered("It is.")],
             "step|text 1|+1 It w|end 1|reset|text 2|+2 It is.|end 2|stepped|finish stop"),
            (&[begun.clone(), says("It was."), answered("It is.")],
             "step|text 1|+1 It was.|end 1|reset|text 2|+2 It is.|end 2|stepped|finish stop"),
            // A fallback's last reply is recorded before the end of its run.
            (&[begun.clone(), says("It is."), stepped.clone(), answered("It is.")],
             "step|text 1|+1 It is.|end 1|stepped|finish stop"),
            (&[begun.clone(), says("It is."), stepped.clone(), stepped.clone(), answered("It is.")],
             "step|text 1|+1 It is.|end 1|stepped|step|text 2|+2 It is.|end 2|stepped|finish stop"),
            (&[begun.clone(), says("I look."), stepped, called.clone(), came.clone(), says("Blue."),
               answered("Blue.")],
             "step|text 1|+1 I look.|end 1|stepped|step|call look|result blue|stepped|step|text 2|+2 Blue.|end 2|stepped|finish stop"),
            (&[begun.clone(), called, retried.clone(), came, says("Bl"), retried.clone(),
               answered("Blue.")],
             "step|call look|result blue|stepped|step|text 1|+1 Bl|end 1|reset|text 2|+2 Blue.|end 2|stepped|finish stop"),
            (&[begun.clone(), says("It"), ended("cancelled", None)], "step|text 1|+1 It|end 1|stepped|abort"),
            (&[begun, ended("failed", None)], "error timeout: no answer in 5 s"),
        };
        for (updates, expected) in rows {
            assert_eq!(parts(updates).join("|"), expected);
        }
    }
}
