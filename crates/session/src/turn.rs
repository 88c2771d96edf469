//! One open turn: what it is to do, and how far it has come.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use unisono_context::budget::Budget;
use unisono_context::compaction::{Mode, Plan};
use unisono_context::snapshot::{Manifest, Preamble};
use unisono_context::tokens::Ppm;
use unisono_context::{AgentId, Digest, Encoding, RunId, Snapshot, SnapshotId, Timestamp, Tokens};

use crate::agent::{ContextMode, Definition, Team};
use crate::event::{AcceptedTurn, Calibration, HookPlace, RunRole, Work};
use crate::ids;
use crate::reserve::Needs;
use crate::state::{CallCap, Settings};
use crate::tool::ToolRules;

/// Something that follows from the journal and is kept only so as not to work it out again.
/// Two states that differ in such a value are equal.
#[derive(Clone, Debug, Default)]
pub struct Cached<T>(pub Option<T>);

impl<T> PartialEq for Cached<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// As [`Cached`], and worked out when it is first asked for.
#[derive(Clone, Debug)]
pub struct Lazy<T>(pub OnceLock<T>);

impl<T> Default for Lazy<T> {
    fn default() -> Lazy<T> {
        Lazy(OnceLock::new())
    }
}

impl<T> PartialEq for Lazy<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The code of a turn that took longer than its limit.
pub const TIMED_OUT: &str = "timeout";

/// A turn from its acceptance to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// What was accepted.
    pub accepted: AcceptedTurn,
    /// Its agents.
    pub team: Team,
    /// System text and tools as they were when it started.
    pub preamble: Preamble,
    /// When it started.
    pub started_at: Timestamp,
    /// Since when its limit counts: it started, or it was decided about one of its calls.
    pub counts_from: Timestamp,
    /// When it was taken up again after a restart; its limit counts anew from then on.
    pub resumed_at: Cached<Timestamp>,
    /// How far it has come.
    pub phase: Phase,
    /// Compaction steps planned so far.
    pub steps_planned: u32,
    /// The models whose providers were asked for a count of its context.
    pub measured: Vec<Arc<str>>,
    /// Whether a checkpoint was committed.
    pub covered: bool,
    /// Whether one of those steps is a repair: a turn makes no second attempt.
    pub repaired: bool,
    /// Failures of the step under way.
    pub step_failures: u32,
    /// Effective tokens when it was first planned.
    pub tokens_before: Option<Tokens>,
    /// The budget they were counted under.
    pub measured_by: Option<Budget>,
    /// Its runs in the order in which they were opened.
    pub runs: Vec<RunId>,
    /// The lead's.
    pub lead_run: Option<RunId>,
    /// Those of the fan-out, or of the lead's pipeline, in its order.
    pub fan_out: Vec<RunId>,
    /// How many of its runs have not ended.
    pub open_runs: u32,
    /// How many of the fan-out's have not.
    pub open_fan_out: u32,
    /// Tasks that agents gave to others and for which no run is opened yet.
    pub unopened: u32,
    /// Messages it appended itself.
    pub messages_appended: u32,
    /// The rules about its tools, and its hooks.
    pub rules: Arc<ToolRules>,
    /// Hooks that are to be asked about it, one after the other.
    pub hooks_due: Vec<HookPlace>,
    /// What hooks tell the summariser of the step under way.
    pub hook_instructions: Vec<Arc<str>>,
    /// How many calls of tools one reply may make.
    pub call_cap: CallCap,
    /// The session's own settings when it was accepted.
    pub settings: Arc<Settings>,
    /// The frozen context.
    pub snapshot: Cached<Arc<Snapshot>>,
    /// Prefix digests by definition digest, once rendered.
    pub prefixes: Cached<BTreeMap<Digest, Digest>>,
    /// What the frozen context leaves to each agent, by definition digest, once rendered; why it
    /// cannot be given to one that is too small.
    pub headrooms: Cached<BTreeMap<Digest, Result<Tokens, Arc<str>>>>,
    /// What its agents need besides the context, once somebody asks.
    pub needs: Lazy<Needs>,
}

/// How far a turn has come.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// Its branch is busy.
    Queued,
    /// Counting, planning.
    Preparing,
    /// A compaction step is being carried out.
    Compacting(Box<Plan>),
    /// The context is frozen; agents work.
    Frozen {
        /// What it is.
        snapshot: SnapshotId,
        /// What it is rebuilt from.
        manifest: Box<Manifest>,
        /// Whether the delegates' results were handed to the branch.
        delivered: bool,
    },
}

/// The budget of an agent, given the share of its window that stays free, what is known of models
/// whose tokens are estimated, and what its system text and tools cost. What an estimated model
/// leaves is told in estimated tokens. `fixed` has what else is reserved ([`crate::reserve`]).
pub fn budget(
    agent: &Definition,
    safety: Ppm,
    calibrations: &[Calibration],
    fixed: Tokens,
) -> Budget {
    let mut budget = Budget::new(agent.limits, safety, Tokens::ZERO);
    let mut calibrations = calibrations.iter();
    if let Some(known) = calibrations.find(|known| known.model == agent.model) {
        budget.usable = known.estimated(budget.usable);
    }
    budget.usable = budget.usable.minus(fixed);
    budget
}

impl Turn {
    /// Milliseconds since it began to work; none before that.
    pub(crate) fn elapsed_ms(&self, now: Timestamp) -> u64 {
        match self.phase {
            Phase::Queued => 0,
            _ => u64::try_from(now.ms_since(self.started_at)).unwrap_or(0),
        }
    }

    /// The agent in that place of the team, and the digest of its definition.
    pub fn agent(&self, role: RunRole) -> Option<(&Arc<Definition>, Digest)> {
        match role {
            RunRole::Lead => Some((&self.team.lead, self.accepted.lead)),
            RunRole::Delegate { index } => {
                let agent = &self.team.delegates.get(index as usize)?.agent;
                let (digest, _) = self.accepted.delegates.get(index as usize)?;
                Some((agent, *digest))
            }
            RunRole::Child { .. } => None,
        }
    }

    /// The run in that place, once it is opened.
    pub fn run(&self, role: RunRole) -> Option<RunId> {
        match role {
            RunRole::Lead => self.lead_run,
            RunRole::Delegate { index } => {
                let at = usize::try_from(index).ok()?;
                self.fan_out.get(at).copied()
            }
            RunRole::Child {
                parent,
                round,
                index,
            } => {
                let id = ids::child(self.accepted.id, parent, round, index);
                self.runs.contains(&id).then_some(id)
            }
        }
    }

    /// Whether its delegates work one after the other: they are the stages of its lead's pipeline.
    pub fn is_pipeline(&self) -> bool {
        !self.team.lead.pipeline.is_empty()
    }

    /// The available agent of that name, and the digest of its definition.
    pub fn available(&self, agent: &AgentId) -> Option<(&Arc<Definition>, Digest)> {
        let each = self.team.available.iter().zip(&self.accepted.available);
        let mut named = each.filter(|(known, _)| known.id == *agent);
        named
            .next()
            .map(|(definition, digest)| (definition, *digest))
    }

    /// The places of its team, in the order in which their runs are opened.
    pub fn roles(&self) -> impl Iterator<Item = RunRole> + use<> {
        let fan_out = 0..self.team.delegates.len() as u32;
        fan_out
            .map(|index| RunRole::Delegate { index })
            .chain([RunRole::Lead])
    }

    /// The definitions of its agents with their digests, the lead's first, each once.
    pub fn distinct_definitions(&self) -> Vec<(Digest, Arc<Definition>)> {
        let delegates = self.accepted.delegates.iter().map(|(digest, _)| digest);
        let digests = std::iter::once(&self.accepted.lead)
            .chain(delegates)
            .chain(&self.accepted.available);
        let mut seen = BTreeSet::new();
        let each = self.team.definitions().zip(digests);
        each.filter(|(_, digest)| seen.insert(**digest))
            .map(|(definition, digest)| (*digest, definition.clone()))
            .collect()
    }

    /// The encodings in which the branch must be counted: those of every agent that gets it.
    pub fn encodings(&self) -> Vec<Encoding> {
        let mut encodings: Vec<Encoding> =
            self.members().map(|agent| agent.limits.encoding).collect();
        encodings.sort_unstable();
        encodings.dedup();
        encodings
    }

    /// What its agents need besides the context.
    pub fn needs(&self) -> &Needs {
        self.needs.0.get_or_init(|| self.work_out_needs())
    }

    fn work_out_needs(&self) -> Needs {
        let delegates = self.accepted.delegates.iter().map(|(digest, _)| *digest);
        let digests = std::iter::once(self.accepted.lead)
            .chain(delegates)
            .chain(self.accepted.available.iter().copied());
        let (client_options, delegation) = (
            self.accepted.work.client_options(),
            self.accepted.delegation,
        );
        Needs::new(
            &self.team,
            digests,
            &self.preamble,
            client_options,
            delegation,
        )
    }

    /// The budget of one agent, given what its system text and tools cost.
    pub(crate) fn budget(&self, agent: &Definition, fixed: Tokens) -> Budget {
        let accepted = &self.accepted;
        budget(agent, accepted.safety, &accepted.calibrations, fixed)
    }

    /// Why an agent cannot be given the frozen context.
    pub(crate) fn too_small_reason(&self, definition: Digest) -> Option<Arc<str>> {
        let room = self.headrooms.0.as_ref()?.get(&definition)?;
        room.as_ref().err().cloned()
    }

    /// Why the planner is asked next.
    pub fn mode(&self) -> Mode {
        match &self.accepted.work {
            // A repair is no compaction that is under way.
            Work::Answer { .. } if self.steps_planned == u32::from(self.repaired) => Mode::Check,
            Work::Answer { .. } => Mode::Continue,
            Work::Compact { keep, .. } => Mode::Manual { keep: *keep },
            Work::CompactPart { part, .. } => Mode::Part(*part),
            Work::Restore { .. } | Work::Regenerate { .. } | Work::Edit { .. } => Mode::Rest,
        }
    }

    /// Their definitions with their digests, the lead's first, each once.
    pub(crate) fn distinct_members(&self) -> impl Iterator<Item = (Digest, Arc<Definition>)> {
        let all = self.distinct_definitions().into_iter().enumerate();
        let with_context =
            all.filter(|(at, (_, agent))| *at == 0 || agent.context == ContextMode::Snapshot);
        with_context.map(|(_, each)| each)
    }

    /// The lead and every agent it may delegate to that gets the snapshot.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Arc<Definition>> {
        let others = self.team.definitions().skip(1);
        let shared = others.filter(|agent| agent.context == ContextMode::Snapshot);
        std::iter::once(&self.team.lead).chain(shared)
    }
}
