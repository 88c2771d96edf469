//! The inputs of workers and of the compactor: self-contained values taken from the state.

mod hooks;

use std::sync::Arc;

use unisono_context::alteration::Alteration;
use unisono_context::call::{Choice, ClientOptions};
use unisono_context::checkpoint::{Checkpoint, Kind};
use unisono_context::compaction::{Cover, Plan, Step as PlanStep};
use unisono_context::snapshot::ToolSpec;
use unisono_context::{
    AgentId, CallId, CheckpointId, Digest, Encoding, Message, MessageId, RunId, SessionId,
    Snapshot, Tokens, TurnId,
};

use crate::agent::{ContextMode, Definition};
use crate::event::{Calibration, RunRole, SummaryOptions, Work};
use crate::ids;
use crate::run::calls::CallPlace;
use crate::run::{Ending, Run, Step, excerpts};
use crate::state::{CallCap, Settings, State};
use crate::tool::Contract;
use crate::turn::Turn;
use crate::upcoming::UpcomingTopic;

pub(crate) use hooks::hook_of_call;
pub use hooks::{HookJob, HookSubject};

/// Messages after the cutoff that a summariser gets as context only.
const RECENT_SHOWN: usize = 6;

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

/// A compaction step that has failed this often is not retried.
pub(crate) const STEP_FAILURES_MAX: u32 = 3;

/// One step of a compaction.
#[derive(Clone, Debug)]
pub struct CompactionJob {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The number of the step in the turn, from 1.
    pub step: u32,
    /// Previous failures of this step.
    pub failures: u32,
    /// The planned step.
    pub plan: Plan,
    /// The origin of the request.
    pub kind: Kind,
    /// The model of the conversation: the lead's model.
    pub model: Arc<str>,
    /// The summaries that are read first, oldest first: those that a new summary replaces, or, for
    /// a regenerated summary, the ones before it.
    pub prior: Vec<Arc<Checkpoint>>,
    /// The messages to summarise, mask or cut, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// The topics that later steps summarise, which may be part of the same request.
    pub ahead: Vec<UpcomingTopic>,
    /// The messages after the cutoff, for context only.
    pub recent: Vec<Arc<Message>>,
    /// The masked and cut forms of these messages in the context.
    pub alterations: Vec<Alteration>,
    /// The encodings in which the result must be counted: all of them, because the agents of a
    /// later turn may use another encoding.
    pub encodings: Vec<Encoding>,
    /// The options of the person who requested the summary.
    pub writing: SummaryOptions,
    /// The session's overrides, which may name the summariser.
    pub settings: Arc<Settings>,
    /// Whether requests for summaries must be reserved first ([`crate::Input::Reserve`]).
    pub bounded: bool,
}

impl CompactionJob {
    /// Whether the step is retried if it fails.
    pub fn has_another_try(&self) -> bool {
        self.failures + 1 < STEP_FAILURES_MAX
    }
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

    /// The job of a call that has started.
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

    /// The results of the first delegates.
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

    /// The compaction step in progress in a turn, with everything that it needs.
    pub fn compaction_job(&self, turn: TurnId) -> Option<CompactionJob> {
        let plan = self.step_under_way(turn)?;
        let turn = self.turns.get(&turn)?;
        let head = self.tree.head(&turn.accepted.branch)?;
        let (mut prior, mut messages, mut recent) = (Vec::new(), Vec::new(), Vec::new());
        match &plan.step {
            PlanStep::Summarise { cover, .. }
            | PlanStep::Drop { cover }
            | PlanStep::Rewrite { cover, .. } => {
                match &plan.step {
                    PlanStep::Rewrite { prior: read, .. } => {
                        prior.extend(read.iter().filter_map(|id| self.checkpoints.get(*id)));
                    }
                    _ => prior.extend(self.prior_checkpoints(turn, cover)),
                }
                for span in &cover.fresh {
                    let nodes = self.tree.range(head, span.first..=span.last);
                    messages.extend(nodes.into_iter().map(|node| node.message.clone()));
                }
                let last = cover.cutoff.0.saturating_add(RECENT_SHOWN as u32);
                let end = self.tree.get(head)?.message.ordinal.0.min(last);
                let after = cover.cutoff.next()..=unisono_context::Ordinal(end);
                let nodes = self.tree.range(head, after);
                recent.extend(nodes.into_iter().map(|node| node.message.clone()));
            }
            PlanStep::Mask(targets) => {
                let nodes = targets
                    .iter()
                    .filter_map(|target| self.tree.get(target.message));
                messages.extend(nodes.map(|node| node.message.clone()));
            }
            PlanStep::Cut { message, .. } => {
                messages.push(self.tree.get(*message)?.message.clone())
            }
            PlanStep::Truncate { messages: long, .. } => {
                let nodes = long.iter().filter_map(|(id, _)| self.tree.get(*id));
                messages.extend(nodes.map(|node| node.message.clone()));
            }
        }
        let kind = match &turn.accepted.work {
            Work::Answer { .. } => Kind::Auto,
            _ => Kind::Manual,
        };
        let ahead = self.upcoming_topics(turn, plan);
        let later = ahead.iter().flat_map(|topic| &topic.messages);
        let shown = messages.iter().chain(&recent).chain(later);
        let altered = shown.filter_map(|said| self.alterations.get(said.ordinal, said.id));
        Some(CompactionJob {
            session: self.id?,
            turn: turn.accepted.id,
            step: turn.steps_planned,
            failures: turn.step_failures,
            plan: plan.clone(),
            kind,
            model: turn.team.lead.model.clone(),
            alterations: altered.cloned().collect(),
            prior: prior.into_iter().cloned().collect(),
            messages,
            recent,
            ahead,
            encodings: Encoding::ALL.to_vec(),
            writing: summary_options(turn),
            settings: turn.settings.clone(),
            bounded: self.is_bounded(ids::summaries(turn.accepted.id)),
        })
    }
}

/// The options of a summary: those of the person's request, plus the instructions of hooks.
fn summary_options(turn: &Turn) -> SummaryOptions {
    let options = turn.accepted.work.writing().cloned().unwrap_or_default();
    let texts = options.instructions.iter().chain(&turn.hook_instructions);
    let texts: Vec<&str> = texts.map(|text| &**text).collect();
    SummaryOptions {
        instructions: (!texts.is_empty()).then(|| texts.join("\n\n").into()),
        ..options
    }
}

impl State {
    /// The checkpoints that a summary reads in addition to messages: the ones that it replaces, or,
    /// for a regenerated summary, the ones that its first version replaced.
    fn prior_checkpoints(&self, turn: &Turn, cover: &Cover) -> Vec<&Arc<Checkpoint>> {
        let find = |ids: &[CheckpointId]| -> Vec<&Arc<Checkpoint>> {
            ids.iter()
                .filter_map(|id| self.checkpoints.get(*id))
                .collect()
        };
        let replaced = find(&cover.supersedes);
        match turn.accepted.work {
            Work::Regenerate { .. } => replaced
                .iter()
                .flat_map(|old| find(&self.checkpoints.origin(old).supersedes))
                .collect(),
            _ => replaced,
        }
    }
}

impl CompactionJob {
    /// The id of the checkpoint that this step makes.
    pub fn checkpoint_id(&self) -> CheckpointId {
        ids::checkpoint(self.turn, self.step)
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

/// The text of a run's result on the branch, and whether it is an error.
pub(crate) fn result_text(run: Option<&Run>) -> (Arc<str>, bool) {
    let Some(ending) = run.and_then(|run| run.ending.as_deref()) else {
        return ("[cancelled]".into(), true);
    };
    let (text, end) = excerpts::ending_text(ending);
    let failed = !matches!(ending, Ending::Finished { .. });
    match &*end {
        "" => (text, failed),
        end => (format!("{text}{end}").into(), failed),
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
