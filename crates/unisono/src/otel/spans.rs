//! Committed events of sessions as spans: a turn, in it the runs of its agents, in each the calls
//! of its model and of tools. Names and attributes follow OpenTelemetry's conventions for
//! generative AI (1.41, in development); other attributes begin with `unisono.`.
//!
//! A turn is a trace: its id is the trace's id. A model call begins when its run could continue, so
//! it includes a wait for a permit. A request for a summary begins when its step was decided or the
//! previous request had ended. Spans interrupted by a restart are taken from the journal again
//! ([`Spans::recall`]): spans that had ended before were already sent.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use opentelemetry::Value;
use opentelemetry::trace::{SpanId, SpanKind};
use opentelemetry_sdk::trace::SpanData;
use unisono_context::call::{Reply, Stop, Usage};
use unisono_context::{Digest, RunId, SessionId, Timestamp, TurnId};
use unisono_session::agent::Definition;
use unisono_session::event::{AcceptedTurn, OpenedRun, Outcome, Work};
use unisono_session::run::calls::{CallOutput, CallPlace, PlannedCall};
use unisono_session::run::{AuxiliaryUsage, Ending, Step};
use unisono_session::{Event, Fact};

use super::span::{
    SpanAttributes, bare, run_span, span, span_id, text, texts, turn_span, well_known,
};
use crate::metrics::unrecorded_usage;

/// Maximum remembered definitions; above it, all are forgotten once.
const DEFINITIONS: usize = 4_096;
/// Ended turns of which a summary may still arrive.
const ENDED: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Spans {
    definitions: HashMap<Digest, Arc<Definition>>,
    turns: HashMap<TurnId, Turn>,
    runs: HashMap<RunId, Run>,
    /// The newest turns that ended after a compaction was decided, the oldest first, with the last
    /// time at which a summary could be requested.
    ended: VecDeque<(TurnId, Timestamp)>,
}

#[derive(Debug)]
struct Turn {
    since: Timestamp,
    branch: Arc<str>,
    operation: &'static str,
    runs: Vec<RunId>,
    /// The last time at which a summary could be requested.
    ready: Timestamp,
    /// Number of ended requests for summaries.
    summaries: u64,
    /// Whether a compaction was decided.
    compacts: bool,
}

#[derive(Debug)]
struct Run {
    opened: OpenedRun,
    definition: Option<Arc<Definition>>,
    since: Timestamp,
    /// The last time at which it could continue.
    ready: Timestamp,
    stepped: Usage,
    calls: u32,
    tools: HashMap<(u32, u32), Tool>,
}

#[derive(Debug)]
struct Tool {
    planned: PlannedCall,
    started: Option<Timestamp>,
}

impl Spans {
    /// Takes an event; returns the spans that end with it.
    pub(super) fn take(&mut self, session: SessionId, event: &Event) -> Vec<SpanData> {
        match &event.fact {
            Fact::Defined { definition } => self.defined(definition),
            Fact::TurnAccepted { turn } => self.turn_accepted(turn, event.at),
            Fact::CompactionPlanned { turn, .. } | Fact::CompactionFailed { turn, .. } => {
                self.compaction_stepped(*turn, event.at);
            }
            Fact::SummariserUsed { turn, model, usage } => {
                return vec![self.summarised(session, *turn, (model, usage), event.at)];
            }
            Fact::RunOpened { run } => self.run_opened(run, event.at),
            Fact::RunRetried { run, .. }
            | Fact::ToolsAnswered { run, .. }
            | Fact::Delegated { run, .. } => {
                self.ready(*run, event.at);
            }
            Fact::RunStepped { run, step } => match &**step {
                Step::Model(reply) => return self.replied(session, *run, reply, event.at),
                Step::Spent(spent) => return self.prewarmed(session, *run, spent, event.at),
                _ => {
                    self.ready(*run, event.at);
                }
            },
            Fact::ToolsCalled { run, round, calls } => self.tools_called(*run, *round, calls),
            Fact::ToolStarted { call } => {
                if let Some(tool) = self.tool(call) {
                    tool.started = Some(event.at);
                }
            }
            Fact::ToolEnded { call, output } => {
                return self.tool_ended(session, call, output, event.at);
            }
            Fact::RunEnded { run, ending } => {
                return self.run_ended(session, *run, ending, event.at);
            }
            Fact::TurnEnded { turn, outcome } => {
                return self.turn_ended(session, *turn, outcome, event.at);
            }
            _ => {}
        }
        Vec::new()
    }

    /// Continues with the open spans of another fold of all events of a session. Ended spans are
    /// not sent again.
    pub(super) fn recall(&mut self, left: Spans) {
        // Spans that are already followed continue.
        let cut = left.turns.into_iter();
        let cut: HashMap<_, _> = cut.filter(|(id, _)| !self.turns.contains_key(id)).collect();
        let runs = left.runs.into_iter();
        self.runs
            .extend(runs.filter(|(_, run)| cut.contains_key(&run.opened.turn)));
        self.turns.extend(cut);
    }

    fn defined(&mut self, definition: &Arc<Definition>) {
        if self.definitions.len() >= DEFINITIONS {
            self.definitions.clear();
        }
        let digest = definition.digest();
        self.definitions.insert(digest, definition.clone());
    }

    fn turn_accepted(&mut self, turn: &AcceptedTurn, at: Timestamp) {
        let operation = match turn.work {
            Work::Answer { .. } => "invoke_workflow",
            _ => "compact",
        };
        let open = Turn {
            since: at,
            branch: turn.branch.clone(),
            operation,
            runs: Vec::new(),
            ready: at,
            summaries: 0,
            compacts: false,
        };
        self.turns.insert(turn.id, open);
    }

    fn compaction_stepped(&mut self, turn: TurnId, at: Timestamp) {
        if let Some(turn) = self.turns.get_mut(&turn) {
            turn.ready = at;
            turn.compacts = true;
        }
    }

    /// A request for a summary of a turn's context has ended; the turn may have, too.
    fn summarised(
        &mut self,
        session: SessionId,
        id: TurnId,
        (model, usage): (&str, &Usage),
        at: Timestamp,
    ) -> SpanData {
        let (number, start) = match self.turns.get_mut(&id) {
            Some(turn) => {
                turn.summaries += 1;
                (turn.summaries, std::mem::replace(&mut turn.ready, at))
            }
            None => {
                let ended = self.ended.iter_mut().find(|(turn, _)| *turn == id);
                let ready = ended.map(|(_, ready)| std::mem::replace(ready, at));
                (0, ready.unwrap_or(at))
            }
        };
        let own = match number {
            // After its turn: at most one arrives at an instant.
            0 => span_id("late summary", id.as_u128(), [at.0 as u64, 0]),
            number => span_id("summary", id.as_u128(), [number, 0]),
        };
        let ids = (own, Some(turn_span(id)));
        let name = format!("chat {}", bare(model));
        let mut span = span(id, ids, name, SpanKind::Client, (start, at));
        span.put("gen_ai.operation.name", text("chat"));
        span.put("gen_ai.conversation.id", text(&session.to_string()));
        if let Some((provider, model)) = model.split_once('/') {
            span.put("gen_ai.provider.name", text(well_known(provider)));
            span.put("gen_ai.request.model", text(model));
        }
        span.put("unisono.purpose", text("summary"));
        span.used(usage);
        span
    }

    fn run_opened(&mut self, run: &OpenedRun, at: Timestamp) {
        if let Some(turn) = self.turns.get_mut(&run.turn) {
            turn.runs.push(run.id);
        }
        let open = Run {
            definition: self.definitions.get(&run.definition).cloned(),
            opened: run.clone(),
            since: at,
            ready: at,
            stepped: Usage::NONE,
            calls: 0,
            tools: HashMap::new(),
        };
        self.runs.insert(run.id, open);
    }

    fn tools_called(&mut self, run: RunId, round: u32, calls: &[PlannedCall]) {
        let Some(run) = self.runs.get_mut(&run) else {
            return;
        };
        for (index, planned) in (0..).zip(calls) {
            let planned = planned.clone();
            let tool = Tool {
                planned,
                started: None,
            };
            run.tools.insert((round, index), tool);
        }
    }

    fn ready(&mut self, run: RunId, at: Timestamp) {
        if let Some(run) = self.runs.get_mut(&run) {
            run.ready = at;
        }
    }

    fn tool(&mut self, call: &CallPlace) -> Option<&mut Tool> {
        let run = self.runs.get_mut(&call.run)?;
        run.tools.get_mut(&(call.round, call.index))
    }

    /// A request was made, with any outcome.
    fn request_made(
        &mut self,
        session: SessionId,
        run: RunId,
        usage: &Usage,
        at: Timestamp,
    ) -> Vec<SpanData> {
        let asked = self.runs.get_mut(&run).map(|run| {
            run.stepped = run.stepped + *usage;
            run.chat(session, usage, at)
        });
        asked.into_iter().collect()
    }

    fn prewarmed(
        &mut self,
        session: SessionId,
        run: RunId,
        spent: &AuxiliaryUsage,
        at: Timestamp,
    ) -> Vec<SpanData> {
        let mut spans = self.request_made(session, run, &spent.usage, at);
        if let (Some(span), Some(model)) = (spans.first_mut(), &spent.fallback) {
            span.put("gen_ai.response.model", text(bare(model)));
        }
        spans
    }

    fn replied(
        &mut self,
        session: SessionId,
        run: RunId,
        reply: &Reply,
        at: Timestamp,
    ) -> Vec<SpanData> {
        let mut spans = self.request_made(session, run, &reply.usage, at);
        let Some(span) = spans.first_mut() else {
            return spans;
        };
        if let Some(by) = &reply.fallback {
            span.put("gen_ai.response.model", text(bare(&by.model)));
        }
        if let Some(id) = &reply.request_id {
            span.put("gen_ai.response.id", text(id));
        }
        let reason = match reply.stop {
            Stop::Complete if reply.calls.is_empty() => "stop",
            Stop::Complete => "tool_calls",
            Stop::CutOff => "length",
            Stop::Refused => "content_filter",
        };
        span.put("gen_ai.response.finish_reasons", texts(reason));
        spans
    }

    fn tool_ended(
        &mut self,
        session: SessionId,
        call: &CallPlace,
        output: &CallOutput,
        at: Timestamp,
    ) -> Vec<SpanData> {
        let Some(run) = self.runs.get_mut(&call.run) else {
            return Vec::new();
        };
        let Some(Tool { planned, started }) = run.tools.remove(&(call.round, call.index)) else {
            return Vec::new();
        };
        let (round, index) = (u64::from(call.round), u64::from(call.index));
        let id = run.below("tool", [round, index]);
        let name = format!("execute_tool {}", planned.tool);
        let mut span = run.span(
            session,
            id,
            name,
            SpanKind::Client,
            (started.unwrap_or(at), at),
        );
        span.put("gen_ai.operation.name", text("execute_tool"));
        span.put("gen_ai.tool.name", text(&planned.tool));
        span.put("gen_ai.tool.call.id", text(&planned.call_id));
        span.put("gen_ai.tool.type", text("extension"));
        span.put("unisono.tool.contract", text(planned.contract.name()));
        if output.is_error {
            span.failed("tool_error");
        }
        vec![span]
    }

    fn run_ended(
        &mut self,
        session: SessionId,
        run: RunId,
        ending: &Ending,
        at: Timestamp,
    ) -> Vec<SpanData> {
        let Some(mut run) = self.runs.remove(&run) else {
            return Vec::new();
        };
        let unrecorded = match ending {
            Ending::Finished { usage, .. } => unrecorded_usage(usage, &run.stepped),
            Ending::Failed { .. } | Ending::Cancelled => None,
        };
        let call = unrecorded.map(|usage| run.chat(session, &usage, at));
        let whole = run.ended(session, ending, at);
        call.into_iter().chain([whole]).collect()
    }

    fn turn_ended(
        &mut self,
        session: SessionId,
        id: TurnId,
        outcome: &Outcome,
        at: Timestamp,
    ) -> Vec<SpanData> {
        let Some(turn) = self.turns.remove(&id) else {
            return Vec::new();
        };
        if turn.compacts {
            self.ended.push_back((id, turn.ready));
            if self.ended.len() > ENDED {
                self.ended.pop_front();
            }
        }
        let open = turn.runs.iter().filter_map(|run| self.runs.remove(run));
        let mut spans: Vec<SpanData> = open
            .map(|run| run.ended(session, &Ending::Cancelled, at))
            .collect();
        let (ids, name) = ((turn_span(id), None), format!("{} unisono", turn.operation));
        let mut span = span(id, ids, name, SpanKind::Internal, (turn.since, at));
        span.put("gen_ai.operation.name", text(turn.operation));
        span.put("gen_ai.conversation.id", text(&session.to_string()));
        span.put("unisono.turn.id", text(&id.to_string()));
        span.put("unisono.branch", text(&turn.branch));
        match outcome {
            Outcome::Failed { code, .. } => span.failed(code),
            Outcome::Cancelled => span.failed("cancelled"),
            Outcome::Answered | Outcome::Compacted { .. } | Outcome::Reverted { .. } => {}
        }
        spans.push(span);
        spans
    }
}

impl Run {
    /// A call of its model with that usage.
    fn chat(&mut self, session: SessionId, usage: &Usage, at: Timestamp) -> SpanData {
        self.calls += 1;
        let id = self.below("chat", [u64::from(self.calls), 0]);
        let asked = self.definition.as_ref().map(|d| d.model.clone());
        let model = asked.as_deref().map(bare).unwrap_or_default();
        let name = format!("chat {model}");
        let times = (self.ready, at);
        let mut span = self.span(
            session,
            id,
            name.trim_end().to_owned(),
            SpanKind::Client,
            times,
        );
        self.ready = at;
        span.put("gen_ai.operation.name", text("chat"));
        self.describe_model(&mut span);
        span.used(usage);
        span
    }

    /// The whole run.
    fn ended(&self, session: SessionId, ending: &Ending, at: Timestamp) -> SpanData {
        let OpenedRun { id, role, turn, .. } = self.opened;
        let name = format!("invoke_agent {}", self.opened.agent);
        let mut span = self.span(
            session,
            run_span(id),
            name,
            SpanKind::Internal,
            (self.since, at),
        );
        span.parent_span_id = role.parent().map_or_else(|| turn_span(turn), run_span);
        span.put("gen_ai.operation.name", text("invoke_agent"));
        self.describe_model(&mut span);
        if let Some(definition) = &self.definition {
            let description = &definition.description;
            span.put("gen_ai.agent.description", text(description));
        }
        if let Some(snapshot) = &self.opened.snapshot {
            span.put("unisono.snapshot.id", text(&snapshot.to_string()));
        }
        match ending {
            Ending::Finished { usage, partial, .. } => {
                span.used(usage);
                if partial.is_some() {
                    span.put("unisono.partial", Value::Bool(true));
                }
            }
            Ending::Failed { cause, .. } => span.failed(cause.code()),
            Ending::Cancelled => span.failed("cancelled"),
        }
        span
    }

    fn describe_model(&self, span: &mut SpanData) {
        let model = self.definition.as_ref().map(|d| &d.model);
        if let Some((provider, model)) = model.and_then(|model| model.split_once('/')) {
            span.put("gen_ai.provider.name", text(well_known(provider)));
            span.put("gen_ai.request.model", text(model));
        }
    }

    fn span(
        &self,
        session: SessionId,
        id: SpanId,
        name: String,
        kind: SpanKind,
        times: (Timestamp, Timestamp),
    ) -> SpanData {
        let OpenedRun { agent, turn, .. } = &self.opened;
        let ids = (id, Some(run_span(self.opened.id)));
        let mut span = span(*turn, ids, name, kind, times);
        span.put("gen_ai.conversation.id", text(&session.to_string()));
        span.put("gen_ai.agent.id", text(agent.as_str()));
        span.put("gen_ai.agent.name", text(agent.as_str()));
        span.put("unisono.run.id", text(&self.opened.id.to_string()));
        span
    }

    fn below(&self, what: &str, place: [u64; 2]) -> SpanId {
        span_id(what, self.opened.id.as_u128(), place)
    }
}

#[cfg(test)]
mod tests;
