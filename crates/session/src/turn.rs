//! One open turn: what it is to do, and how far it has come.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::budget::{Budget, Budgets};
use unisono_context::compaction::{Mode, Plan};
use unisono_context::snapshot::{Manifest, Preamble};
use unisono_context::tokens::Counts;
use unisono_context::{Digest, Encoding, RunId, Snapshot, SnapshotId, Timestamp, Tokens};

use crate::agent::{ContextMode, Definition, Team};
use crate::event::{AcceptedTurn, Work};

/// Something that follows from the journal and is kept only so as not to work it out again.
/// Two states that differ in such a value are equal.
#[derive(Clone, Debug, Default)]
pub struct Cached<T>(pub Option<T>);

impl<T> PartialEq for Cached<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

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
    /// How far it has come.
    pub phase: Phase,
    /// Compaction steps planned so far.
    pub steps_planned: u32,
    /// Whether a checkpoint was committed.
    pub covered: bool,
    /// Failures of the step under way.
    pub step_failures: u32,
    /// Effective tokens when it was first planned.
    pub tokens_before: Option<Tokens>,
    /// Its runs in the order in which they were opened.
    pub runs: Vec<RunId>,
    /// Messages it appended itself.
    pub messages_appended: u32,
    /// The frozen context.
    pub snapshot: Cached<Arc<Snapshot>>,
    /// Prefix digests by definition digest, once rendered.
    pub prefixes: Cached<BTreeMap<Digest, Digest>>,
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

impl Turn {
    /// The definition of that digest among the team's.
    pub fn definition(&self, digest: Digest) -> Option<&Arc<Definition>> {
        let lead = (self.accepted.lead == digest).then_some(&self.team.lead);
        let at = self
            .accepted
            .delegates
            .iter()
            .position(|(known, _)| *known == digest);
        lead.or_else(|| at.map(|index| &self.team.delegates[index].agent))
    }

    /// The encodings in which the branch must be counted: those of every agent that gets it.
    pub fn encodings(&self) -> Vec<Encoding> {
        let mut encodings: Vec<Encoding> =
            self.members().map(|agent| agent.limits.encoding).collect();
        encodings.sort_unstable();
        encodings.dedup();
        encodings
    }

    /// The budgets of its agents, given what system text and tools cost; none while that is not
    /// counted.
    pub fn budgets(&self, preamble: Counts) -> Option<Budgets> {
        let budget = |agent: &Arc<Definition>| {
            let fixed = preamble.get(agent.limits.encoding)?.at_most;
            Some(Budget::new(agent.limits, self.accepted.safety, fixed))
        };
        let delegates: Option<Vec<Budget>> = self.members().skip(1).map(budget).collect();
        Some(Budgets::new(budget(&self.team.lead)?, delegates?))
    }

    /// Why the planner is asked next.
    pub fn mode(&self) -> Mode {
        match &self.accepted.work {
            Work::Answer { .. } if self.steps_planned == 0 => Mode::Check,
            Work::Answer { .. } => Mode::Continue,
            Work::Compact { keep, .. } => Mode::Manual { keep: *keep },
        }
    }

    /// The lead and every delegate that gets the snapshot.
    fn members(&self) -> impl Iterator<Item = &Arc<Definition>> {
        let delegates = self.team.delegates.iter().map(|d| &d.agent);
        let shared = delegates.filter(|agent| agent.context == ContextMode::Snapshot);
        std::iter::once(&self.team.lead).chain(shared)
    }
}
