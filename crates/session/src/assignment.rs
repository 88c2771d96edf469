//! The inputs of workers and of the compactor: self-contained values taken from the state.

mod compaction;
mod hooks;

use std::sync::Arc;

use unisono_context::call::{Choice, ClientOptions};
use unisono_context::snapshot::ToolSpec;
use unisono_context::{
    AgentId, CallId, Digest, MessageId, RunId, SessionId, Snapshot, Tokens, TurnId,
};

use crate::agent::{ContextMode, Definition};
use crate::event::{Calibration, RunRole};
use crate::ids;
use crate::run::calls::{CallCap, CallPlace};
use crate::run::{Ending, Run, Step};
use crate::state::State;
use crate::tool::Contract;
use crate::turn::Turn;

pub(crate) use compaction::STEP_FAILURES_MAX;
pub use compaction::{AHEAD, CompactionJob};
pub(crate) use hooks::hook_of_call;
pub use hooks::{HookJob, HookSubject};

/// The maximum number of characters of a tool result that are kept, whatever the headroom of the
/// model.
const RESULT_MAX_CHARS: usize = 48_000;
/// The minimum number of characters of a tool result that are kept.
const RESULT_MIN_CHARS: usize = 1_000;

/// One attempt of a run.
#[derive(Clone, Debug)]
pub struct RunAssignment {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The run.
    pub run: RunId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Its place in the turn.
    pub role: RunRole,
    /// The agent as it was recorded.
    pub definition: Arc<Definition>,
    /// Digest of its definition.
    pub definition_digest: Digest,
    /// The task.
    pub task: Arc<str>,
    /// The results that it gets: for a lead, those of its delegates in the order of the fan-out;
    /// for a stage of a pipeline, those of the stages before it.
    pub results: Vec<DelegateResult>,
    /// The agents to which it may delegate by itself ([`crate::Input::Delegate`]).
    pub colleagues: Vec<Arc<Definition>>,
    /// The frozen context; none if the agent gets only the task.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Required digest of the shared prompt bytes.
    pub prefix: Digest,
    /// The part of its model's window that the frozen context leaves, in its encoding: for its
    /// assignment (persona, task, results) and its own exchange ([`crate::run::tail`]). The longest
    /// output is already reserved.
    pub headroom: Tokens,
    /// The part of it that is reserved for results of other agents ([`crate::run::excerpts`]).
    pub results_reserve: Tokens,
    /// Upper bound of the tokens of system text, tools and frozen context, in the same encoding.
    pub context: Tokens,
    /// The error of its model's token counts, if they are estimates.
    pub calibration: Option<Calibration>,
    /// Whether its model calls must be reserved first ([`crate::Input::Reserve`]).
    pub bounded: bool,
    /// As [`crate::event::AcceptedTurn::shared_headroom`].
    pub shared_headroom: bool,
    /// As [`Run::wrapped_up`].
    pub wrapped_up: Option<(usize, Arc<str>)>,
    /// Steps of earlier attempts. They are not repeated.
    pub steps: Vec<Arc<Step>>,
    /// The head of the branch when the context was frozen. `recall` reads from it.
    pub head: Option<MessageId>,
    /// The tools of every agent of the turn, sorted by name.
    pub tools: Arc<[ToolSpec]>,
    /// The maximum number of tool calls that one reply of its model may make; the others are
    /// answered without being made.
    pub call_cap: CallCap,
    /// The client tools among them: the client makes the calls of these tools.
    pub client_options: ClientOptions,
    /// Whether the turn has other open runs with the same prefix and the same choice of tools.
    pub has_peers: bool,
    /// Its position among the runs that got their tasks together, from 0.
    pub sibling_index: u32,
}

/// A tool call to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolJob {
    /// Its position in the session.
    pub place: CallPlace,
    /// Its id, which is also the key under which a repetition is recognised.
    pub id: CallId,
    /// The tool, as the model names it.
    pub tool: Arc<str>,
    /// Arguments as JSON text.
    pub arguments: Arc<str>,
    /// The effect of making it twice.
    pub contract: Contract,
    /// The task of the server that is polled. None: the tool is called.
    pub task: Option<Arc<str>>,
    /// The maximum number of characters of its result that are kept.
    pub max_chars: usize,
}

/// The result of a delegate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegateResult {
    /// The id of its call on the branch, under which the complete result is read.
    pub name: Arc<str>,
    /// The delegate.
    pub agent: AgentId,
    /// Its task.
    pub task: Arc<str>,
    /// How its run ended.
    pub ending: Arc<Ending>,
}

impl State {
    /// The assignment of an open run; none while its turn's snapshot is not available.
    pub fn assignment(&self, run: RunId) -> Option<RunAssignment> {
        let run = self.runs.get(&run)?;
        let turn = self.turns.get(&run.turn)?;
        let definition = self.definitions.get(&run.definition)?;
        let snapshot = turn.snapshot.0.as_ref()?;
        let results = match run.role {
            RunRole::Delegate { index } if turn.is_pipeline() => self.delegate_results(turn, index),
            RunRole::Delegate { .. } | RunRole::Child { .. } => Vec::new(),
            RunRole::Lead => self.delegate_results(turn, u32::MAX),
        };
        let mut calibrations = turn.accepted.calibrations.iter();
        Some(RunAssignment {
            session: self.id?,
            turn: run.turn,
            run: run.id,
            attempt: run.attempt,
            role: run.role,
            task: self.task_of(turn, run),
            results,
            colleagues: self.colleagues(run),
            head: Some(snapshot.manifest().head),
            snapshot: (definition.context == ContextMode::Snapshot).then(|| snapshot.clone()),
            prefix: run.prefix,
            headroom: self.headroom_of(turn, run),
            results_reserve: self.results_reserve(turn, run.definition, definition),
            context: self.context_of(turn, run, definition),
            calibration: calibrations
                .find(|of| of.model == definition.model)
                .cloned(),
            bounded: self.is_bounded(run.id),
            shared_headroom: turn.accepted.shared_headroom,
            wrapped_up: run.wrapped_up.clone(),
            steps: run.steps.clone(),
            definition: definition.clone(),
            definition_digest: run.definition,
            tools: turn.preamble.tools().clone(),
            call_cap: turn.call_cap,
            client_options: self.client_options(run).cloned().unwrap_or_default(),
            has_peers: self.has_peers(turn, run),
            sibling_index: match run.role {
                RunRole::Lead => 0,
                RunRole::Delegate { index } | RunRole::Child { index, .. } => index,
            },
        })
    }

    pub(crate) fn tool_job(&self, place: CallPlace) -> Option<ToolJob> {
        let run = self.runs.get(&place.run)?;
        let turn = self.turns.get(&run.turn)?;
        let round = run.calls(place.round)?;
        let call = round.calls.get(place.index as usize)?;
        let planned = &call.planned;
        let room = self.headroom_of(turn, run).0 / round.calls.len().max(1) as u64;
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        Some(ToolJob {
            place,
            id: ids::call(run.turn, place),
            tool: planned.tool.clone(),
            arguments: planned.arguments.clone(),
            contract: planned.contract,
            task: call.task.clone(),
            max_chars: room
                .saturating_mul(2)
                .clamp(RESULT_MIN_CHARS, RESULT_MAX_CHARS),
        })
    }

    fn has_peers(&self, turn: &Turn, run: &Run) -> bool {
        // With another choice of tools a provider may not find the same messages in its cache.
        let choice = |run| {
            self.client_options(run)
                .map_or(&Choice::Free, |client_options| &client_options.choice)
        };
        let own = choice(run);
        let mut others = self.runs_of(turn).filter(|other| other.id != run.id);
        others.any(|other| other.is_open() && other.prefix == run.prefix && choice(other) == own)
    }

    fn delegate_results(&self, turn: &Turn, first: u32) -> Vec<DelegateResult> {
        let first = turn.fan_out.iter().take(first as usize);
        let fan_out = first.enumerate();
        let ended = fan_out.filter_map(|(index, run)| {
            let run = self.runs.get(run)?;
            Some(DelegateResult {
                name: call_id(index).into(),
                agent: run.agent.clone(),
                task: task_of(turn, run.role),
                ending: run.ending.clone()?,
            })
        });
        ended.collect()
    }

    fn headroom_of(&self, turn: &Turn, run: &Run) -> Tokens {
        let rooms = turn.headrooms.0.as_ref();
        let room = rooms.and_then(|rooms| rooms.get(&run.definition));
        room.and_then(|room| room.clone().ok()).unwrap_or_default()
    }

    fn context_of(&self, turn: &Turn, run: &Run, agent: &Definition) -> Tokens {
        let usable = turn.budget(agent, Tokens::ZERO).usable;
        usable.minus(self.headroom_of(turn, run))
    }

    fn task_of(&self, turn: &Turn, run: &Run) -> Arc<str> {
        let RunRole::Child {
            parent,
            round,
            index,
        } = run.role
        else {
            return task_of(turn, run.role);
        };
        let round = self
            .runs
            .get(&parent)
            .and_then(|parent| parent.round(round));
        let call = round.and_then(|round| round.calls.get(index as usize));
        call.map(|call| call.task.clone()).unwrap_or_default()
    }
}

/// The task of the agent with this role: its own task, or the turn's input.
pub(crate) fn task_of(turn: &Turn, role: RunRole) -> Arc<str> {
    let own = match role {
        RunRole::Lead | RunRole::Child { .. } => None,
        RunRole::Delegate { index } => turn
            .team
            .delegates
            .get(index as usize)
            .and_then(|delegate| delegate.task.clone()),
    };
    own.or_else(|| turn.accepted.work.input_text())
        .unwrap_or_default()
}

/// The id of a call of a lead's round on the branch. A model may use its own ids twice.
pub fn round_call_id(round: u32, index: usize) -> String {
    format!("delegate_{round}_{}", index + 1)
}

/// The id of the call of the `index`th delegate.
pub(crate) fn call_id(index: usize) -> String {
    format!("delegate_{}", index + 1)
}

/// The arguments of a `delegate` call, as JSON. Without a task the agent works on the turn's input.
pub(crate) fn delegate_arguments(agent: &AgentId, task: Option<&str>) -> String {
    let agent = json_string(agent.as_str());
    match task {
        Some(task) => format!(r#"{{"agent":{agent},"task":{}}}"#, json_string(task)),
        None => format!(r#"{{"agent":{agent}}}"#),
    }
}

/// A JSON string literal (RFC 8259, section 7).
fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
