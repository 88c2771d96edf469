//! What a worker or the compactor is given: a value taken from the state, complete in itself.

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

/// Messages after the cutoff that a summariser is shown for context only.
const RECENT_SHOWN: usize = 6;

/// The most characters of a tool's result that are kept, whatever the model has room for.
const RESULT_MAX_CHARS: usize = 48_000;
/// What is kept of it at least.
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
    /// What it is to do.
    pub task: Arc<str>,
    /// What it is given of others' work: for a lead that of its delegates, in the order of the
    /// fan-out; for a stage of a pipeline that of the stages before it.
    pub results: Vec<DelegateResult>,
    /// The agents it may give tasks to by itself ([`crate::Input::Delegate`]).
    pub colleagues: Vec<Arc<Definition>>,
    /// The frozen context; none for an agent that gets the task only.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Digest the shared prompt bytes must have.
    pub prefix: Digest,
    /// What the frozen context leaves of its model's window, in its encoding: for its assignment
    /// (persona, task, results) and its own exchange ([`crate::run::tail`]). The longest output
    /// is reserved already.
    pub headroom: Tokens,
    /// The part of it that is reserved for results of other agents ([`crate::run::excerpts`]).
    pub results_reserve: Tokens,
    /// What system text, tools and the frozen context have of that, in the same tokens, at most.
    pub context: Tokens,
    /// How far its model's counts are off, where they are estimates.
    pub calibration: Option<Calibration>,
    /// Whether its model calls are to be reserved first ([`crate::Input::Reserve`]).
    pub bounded: bool,
    /// As [`Run::wrapped_up`].
    pub wrapped_up: Option<(usize, Arc<str>)>,
    /// Steps of earlier attempts that are not repeated.
    pub steps: Vec<Arc<Step>>,
    /// Tip of the branch the context was frozen at: what `recall` reads from.
    pub head: Option<MessageId>,
    /// The tools of every agent of the turn, sorted by name.
    pub tools: Arc<[ToolSpec]>,
    /// How many calls of tools one reply of its model may make; the others are answered unmade.
    pub call_cap: CallCap,
    /// Those of them that it was lent: whoever asked makes its calls of them.
    pub client_options: ClientOptions,
    /// Whether the turn has other open runs whose prompt begins with the same bytes and whose
    /// choice of tools is the same.
    pub has_peers: bool,
    /// Its place among the runs that were given their tasks together, from 0.
    pub sibling_index: u32,
}

/// A call of a tool that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolJob {
    /// Which.
    pub place: CallPlace,
    /// Its name, and the key under which a repetition is known.
    pub id: CallId,
    /// The tool, as the model names it.
    pub tool: Arc<str>,
    /// Arguments as JSON text.
    pub arguments: Arc<str>,
    /// What making it twice would do.
    pub contract: Contract,
    /// The most characters of what it comes back with that are kept.
    pub max_chars: usize,
}

/// What a delegate came back with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegateResult {
    /// The name of its call on the branch, under which the whole of it is read.
    pub name: Arc<str>,
    /// The delegate.
    pub agent: AgentId,
    /// What it was asked.
    pub task: Arc<str>,
    /// How its run ended.
    pub ending: Arc<Ending>,
}

/// A compaction step that fails this often is not asked for again.
pub(crate) const STEP_FAILURES_MAX: u32 = 3;

/// One step of a compaction.
#[derive(Clone, Debug)]
pub struct CompactionJob {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// Which step of the turn, from 1.
    pub step: u32,
    /// Failures of this step before.
    pub failures: u32,
    /// What to do.
    pub plan: Plan,
    /// Who asked for it.
    pub kind: Kind,
    /// The model whose conversation it is: the lead's.
    pub model: Arc<str>,
    /// The summaries that are read first, oldest first: those whose place a new one takes, or
    /// for one that is written anew those behind it.
    pub prior: Vec<Arc<Checkpoint>>,
    /// The messages to summarise, mask or cut, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// The topics that later steps summarise, which one request may be asked for together.
    pub ahead: Vec<UpcomingTopic>,
    /// What follows the cutoff, for context only.
    pub recent: Vec<Arc<Message>>,
    /// How those of the messages stand in the context that are masked or cut.
    pub alterations: Vec<Alteration>,
    /// The encodings in which the result must be counted: all there are, because a later turn's
    /// agents may count in another one than this turn's.
    pub encodings: Vec<Encoding>,
    /// How the person who asked wants the summary written.
    pub writing: SummaryOptions,
    /// The session's own settings, which may say who writes it.
    pub settings: Arc<Settings>,
    /// Whether requests for summaries are to be reserved first ([`crate::Input::Reserve`]).
    pub bounded: bool,
}

impl CompactionJob {
    /// Whether it is asked for again where it fails.
    pub fn has_another_try(&self) -> bool {
        self.failures + 1 < STEP_FAILURES_MAX
    }
}

impl State {
    /// the assignment of an open run; none while its turn's snapshot is not at hand.
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

    /// A call that is being made.
    pub(crate) fn tool_job(&self, place: CallPlace) -> Option<ToolJob> {
        let run = self.runs.get(&place.run)?;
        let turn = self.turns.get(&run.turn)?;
        let round = run.calls(place.round)?;
        let planned = &round.calls.get(place.index as usize)?.planned;
        let room = self.headroom_of(turn, run).0 / round.calls.len().max(1) as u64;
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        Some(ToolJob {
            place,
            id: ids::call(run.turn, place),
            tool: planned.tool.clone(),
            arguments: planned.arguments.clone(),
            contract: planned.contract,
            max_chars: room
                .saturating_mul(2)
                .clamp(RESULT_MIN_CHARS, RESULT_MAX_CHARS),
        })
    }

    fn has_peers(&self, turn: &Turn, run: &Run) -> bool {
        // With another choice of tools a provider may not find the same messages again.
        let choice = |run| {
            self.client_options(run)
                .map_or(&Choice::Free, |client_options| &client_options.choice)
        };
        let own = choice(run);
        let mut others = self.runs_of(turn).filter(|other| other.id != run.id);
        others.any(|other| other.is_open() && other.prefix == run.prefix && choice(other) == own)
    }

    /// What the first delegates came back with.
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

    /// The compaction step under way in a turn, with all it needs.
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

/// How a summary is to be written: as a person asks, and as hooks say besides.
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
    /// The checkpoints that a summary is made of besides messages: those whose place it takes, or,
    /// where it is written anew, those whose place its first text took.
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
    /// The id of the checkpoint this step makes.
    pub fn checkpoint_id(&self) -> CheckpointId {
        ids::checkpoint(self.turn, self.step)
    }
}

/// What the agent in that place of a team is to do: its own task, or the turn's input.
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

/// The id of the call of a lead's round on the branch. Models' own ids may be used twice.
pub fn round_call_id(round: u32, index: usize) -> String {
    format!("delegate_{round}_{}", index + 1)
}

/// The id of the call that stands for the `index`th delegate.
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

/// What a run's result says on the branch, and whether it is an error.
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
