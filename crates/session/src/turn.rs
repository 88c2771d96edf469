//! An open turn: its definition and its progress.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use unisono_context::budget::Budget;
use unisono_context::compaction::{Mode, Plan};
use unisono_context::snapshot::{Manifest, Preamble};
use unisono_context::tokens::Ppm;
use unisono_context::{AgentId, Digest, Encoding, RunId, Snapshot, SnapshotId, Timestamp, Tokens};

use crate::agent::{ContextMode, Definition, Team};
use crate::event::{AcceptedTurn, Calibration, HookPlace, RunRole, Settings, Work};
use crate::ids;
use crate::reserve::TeamNeeds;
use crate::run::calls::CallCap;
use crate::tool::ToolRules;

/// A value that follows from the journal and is kept to avoid computing it again. Two states that
/// differ only in such values are equal.
#[derive(Clone, Debug, Default)]
pub struct Cached<T>(pub Option<T>);

impl<T> PartialEq for Cached<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Like [`Cached`], but computed at the first use.
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

/// The error code of a turn that exceeded its time limit.
pub const TIMED_OUT: &str = "timeout";

/// The maximum number of steps of a compaction. Each step shrinks the context; a step may be the cut
/// of one message, so a conversation of large messages takes many.
pub const COMPACTION_STEPS_MAX: u32 = 1_024;

/// A turn from its acceptance to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// The accepted turn.
    pub accepted: AcceptedTurn,
    /// The event that accepted it.
    pub accepted_event: u64,
    /// Its agents.
    pub team: Team,
    /// The project's instructions at its acceptance.
    pub instructions: Arc<str>,
    /// The phrases that end a topic, at its acceptance.
    pub phrases: Arc<[Arc<str>]>,
    /// System text and tools at its start.
    pub preamble: Preamble,
    /// The time of its start.
    pub started_at: Timestamp,
    /// The start of its time limit: its start, or the last end of a wait for a person.
    pub counts_from: Timestamp,
    /// The time at which it was resumed after a restart; its limit begins again then.
    pub resumed_at: Cached<Timestamp>,
    /// Its progress.
    pub phase: Phase,
    /// The number of compaction steps planned so far.
    pub steps_planned: u32,
    /// The models whose providers were asked to count its context.
    pub measured: Vec<Arc<str>>,
    /// Whether a checkpoint was committed.
    pub covered: bool,
    /// Whether one of its steps is a repair: a turn makes at most one.
    pub repaired: bool,
    /// Failures of the current step.
    pub step_failures: u32,
    /// Effective tokens at its first plan.
    pub tokens_before: Option<Tokens>,
    /// The budget of that count.
    pub measured_by: Option<Budget>,
    /// Its runs in the order in which they were opened.
    pub runs: Vec<RunId>,
    /// The run of its lead.
    pub lead_run: Option<RunId>,
    /// The runs of the fan-out, or of the lead's pipeline, in order.
    pub fan_out: Vec<RunId>,
    /// The number of its open runs.
    pub open_runs: u32,
    /// The number of open runs of the fan-out.
    pub open_fan_out: u32,
    /// Delegated tasks for which no run is opened yet.
    pub unopened: u32,
    /// The number of messages that it appended itself.
    pub messages_appended: u32,
    /// The rules about its tools, and its hooks.
    pub rules: Arc<ToolRules>,
    /// Hooks to ask about it, one after the other.
    pub hooks_due: Vec<HookPlace>,
    /// Instructions of hooks for the summariser of the current step.
    pub hook_instructions: Vec<Arc<str>>,
    /// The maximum number of tool calls of one reply.
    pub call_cap: CallCap,
    /// The session's overrides at its acceptance.
    pub settings: Arc<Settings>,
    /// The frozen context.
    pub snapshot: Cached<Arc<Snapshot>>,
    /// Prefix digests by definition digest, once rendered.
    pub prefixes: Cached<BTreeMap<Digest, Digest>>,
    /// The headroom of each agent beside the frozen context, by definition digest, once rendered,
    /// or the reason why the agent is too small for it.
    pub headrooms: Cached<BTreeMap<Digest, Result<Tokens, Arc<str>>>>,
    /// The needs of its agents besides the context, computed at the first use.
    pub needs: Lazy<TeamNeeds>,
}

/// The progress of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// Its branch is busy.
    Queued,
    /// Counting, planning.
    Preparing,
    /// A compaction step is in progress.
    Compacting(Box<Plan>),
    /// The context is frozen; agents work.
    Frozen {
        /// The id of the snapshot.
        snapshot: SnapshotId,
        /// The manifest from which it is rebuilt.
        manifest: Box<Manifest>,
        /// Whether the delegates' results are on the branch.
        delivered: bool,
    },
}

/// The budget of an agent, given the safety share of its window, the calibrations of models with
/// estimated tokens, and the size of system text and tools. The budget of an estimated model is in
/// estimated tokens. `fixed` contains the other reservations ([`crate::reserve`]).
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
    /// Milliseconds since its start; none before that.
    pub(crate) fn elapsed_ms(&self, now: Timestamp) -> u64 {
        match self.phase {
            Phase::Queued => 0,
            _ => u64::try_from(now.ms_since(self.started_at)).unwrap_or(0),
        }
    }

    /// The agent with this role in the team, and the digest of its definition.
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

    /// The run with this role, once it is opened.
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

    /// Whether its delegates are the stages of its lead's pipeline and work one after the other.
    pub fn is_pipeline(&self) -> bool {
        !self.team.lead.pipeline.is_empty()
    }

    /// The available agent with this name, and the digest of its definition.
    pub fn available(&self, agent: &AgentId) -> Option<(&Arc<Definition>, Digest)> {
        let each = self.team.available.iter().zip(&self.accepted.available);
        let mut named = each.filter(|(known, _)| known.id == *agent);
        named
            .next()
            .map(|(definition, digest)| (definition, *digest))
    }

    /// The roles of its team, in the order in which their runs are opened.
    pub fn roles(&self) -> impl Iterator<Item = RunRole> + use<> {
        let fan_out = 0..self.team.delegates.len() as u32;
        fan_out
            .map(|index| RunRole::Delegate { index })
            .chain([RunRole::Lead])
    }

    /// The definitions of its agents with their digests, the lead's first, without duplicates.
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

    /// The encodings in which the branch must be counted: those of all agents that get it.
    pub fn encodings(&self) -> Vec<Encoding> {
        let mut encodings: Vec<Encoding> =
            self.members().map(|agent| agent.limits.encoding).collect();
        encodings.sort_unstable();
        encodings.dedup();
        encodings
    }

    /// The needs of its agents besides the context.
    pub fn needs(&self) -> &TeamNeeds {
        self.needs.0.get_or_init(|| self.work_out_needs())
    }

    fn work_out_needs(&self) -> TeamNeeds {
        let delegates = self.accepted.delegates.iter().map(|(digest, _)| *digest);
        let digests = std::iter::once(self.accepted.lead)
            .chain(delegates)
            .chain(self.accepted.available.iter().copied());
        let (client_options, delegation) = (
            self.accepted.work.client_options(),
            self.accepted.delegation,
        );
        TeamNeeds::new(
            &self.team,
            digests,
            &self.preamble,
            client_options,
            delegation,
        )
    }

    /// The budget of one agent, given the size of its system text and tools.
    pub(crate) fn budget(&self, agent: &Definition, fixed: Tokens) -> Budget {
        let accepted = &self.accepted;
        budget(agent, accepted.safety, &accepted.calibrations, fixed)
    }

    /// The reason why an agent is too small for the frozen context.
    pub(crate) fn too_small_reason(&self, definition: Digest) -> Option<Arc<str>> {
        let room = self.headrooms.0.as_ref()?.get(&definition)?;
        room.as_ref().err().cloned()
    }

    /// The reason for the next plan.
    pub fn mode(&self) -> Mode {
        match &self.accepted.work {
            // A repair does not count as a compaction in progress.
            Work::Answer { .. } if self.steps_planned == u32::from(self.repaired) => Mode::Check,
            Work::Answer { .. } => Mode::Continue,
            Work::Compact { keep, .. } => Mode::Manual { keep: *keep },
            Work::CompactPart { part, .. } => Mode::Part(*part),
            Work::Revert { .. } | Work::Regenerate { .. } | Work::Edit { .. } => Mode::Rest,
        }
    }

    /// Their definitions with their digests, the lead's first, without duplicates.
    pub(crate) fn distinct_members(&self) -> impl Iterator<Item = (Digest, Arc<Definition>)> {
        let all = self.distinct_definitions().into_iter().enumerate();
        let with_context =
            all.filter(|(at, (_, agent))| *at == 0 || agent.context == ContextMode::Snapshot);
        with_context.map(|(_, each)| each)
    }

    /// The lead and every agent to which it may delegate, if they get the snapshot.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Arc<Definition>> {
        let others = self.team.definitions().skip(1);
        let shared = others.filter(|agent| agent.context == ContextMode::Snapshot);
        std::iter::once(&self.team.lead).chain(shared)
    }
}
