//! The limits of a context, and the part of an agent's window that a frozen context leaves. An
//! agent other than the lead that is too small for the context is refused by name. It does not
//! influence compaction, so that the other agents keep their context.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::attachment::FileRules;
use unisono_context::budget::{Budget, Budgets};
use unisono_context::compaction;
use unisono_context::snapshot::Manifest;
use unisono_context::tree::MessagesCost;
use unisono_context::view::View;
use unisono_context::{Digest, Encoding, Tokens, TurnId};

use crate::agent::{ContextMode, Definition};
use crate::reserve::TeamNeeds;
use crate::state::State;
use crate::turn::{Phase, Turn};

/// Whether a share for the results of delegates is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultsShare {
    Reserved,
    /// Results get the tokens that the context leaves: at least enough for one note in place of all.
    Remainder,
}

/// The cost of the context, by encoding, by the overhead of each message, and by the way in which
/// attachments are read.
type Costs = BTreeMap<(Encoding, Tokens, FileRules), Option<Tokens>>;

impl State {
    /// The budgets that a turn's context must fit: the lead's, and those of all agents that get the
    /// context and can hold its required part. None while something is not counted.
    pub fn required_budgets(&self, turn: &Turn, view: &View<'_>) -> Option<Budgets> {
        self.budgets_for(turn, view, ResultsShare::Reserved)
    }

    /// The same, with or without the share for results.
    pub(crate) fn budgets_for(
        &self,
        turn: &Turn,
        view: &View<'_>,
        results: ResultsShare,
    ) -> Option<Budgets> {
        let (policy, mode) = (&turn.accepted.policy, turn.mode());
        let holds = |budget: &Budget| {
            let holds = compaction::holds(view, budget, policy, mode, turn.started_at);
            // The planner reports missing counts.
            holds.unwrap_or(true)
        };
        let needs = turn.needs();
        let mut members = turn.distinct_members();
        let (lead, definition) = members.next()?;
        let lead = self.member_budget(turn, needs, (lead, &definition), results)?;
        let mut others = Vec::new();
        for (digest, agent) in members {
            let least = (digest, &*agent);
            if holds(&self.member_budget(turn, needs, least, ResultsShare::Remainder)?) {
                others.push(self.member_budget(turn, needs, least, results)?);
            }
        }
        Some(Budgets::new(lead, others))
    }

    /// The lead's budget alone, without the share for results: a context that does not fit it
    /// cannot be answered.
    pub fn least_budget(&self, turn: &Turn) -> Option<Budgets> {
        let lead = (turn.accepted.lead, &*turn.team.lead);
        let budget = self.member_budget(turn, turn.needs(), lead, ResultsShare::Remainder)?;
        Some(Budgets::from(budget))
    }

    fn member_budget(
        &self,
        turn: &Turn,
        needs: &TeamNeeds,
        (digest, agent): (Digest, &Definition),
        results: ResultsShare,
    ) -> Option<Budget> {
        let mut budget = self.budget_beside_assignment(turn, needs, (digest, agent))?;
        let results = match results {
            ResultsShare::Reserved => needs.results(digest, budget.usable),
            ResultsShare::Remainder => needs.results_note(digest),
        };
        budget.usable = budget.usable.minus(results);
        Some(budget)
    }

    /// The budget that the role and the task of an agent leave.
    fn budget_beside_assignment(
        &self,
        turn: &Turn,
        needs: &TeamNeeds,
        (digest, agent): (Digest, &Definition),
    ) -> Option<Budget> {
        let preamble = self.preamble_counts(&turn.preamble);
        let fixed = preamble.get(agent.limits.encoding)?.at_most;
        let assignment = needs.assignment_tokens(digest, &self.preambles)?;
        Some(turn.budget(agent, fixed + assignment))
    }

    /// The minimum part of an agent's headroom for results of other agents.
    pub(crate) fn results_reserve(
        &self,
        turn: &Turn,
        digest: Digest,
        agent: &Definition,
    ) -> Tokens {
        let needs = turn.needs();
        let budget = self.budget_beside_assignment(turn, needs, (digest, agent));
        budget.map_or(Tokens::ZERO, |budget| needs.results(digest, budget.usable))
    }

    /// The number of agents that get the frozen context of a turn at the same time: its lead and
    /// its fan-out, without agents that are too small.
    pub fn sharing_agents(&self, turn: &Turn) -> usize {
        let rooms = self.headrooms(turn.accepted.id);
        let holds = |digest: &Digest| rooms.get(digest).is_some_and(Result::is_ok);
        let delegates = turn.team.delegates.iter().map(|delegate| &delegate.agent);
        let digests = turn.accepted.delegates.iter().map(|(digest, _)| digest);
        let lead = (&turn.team.lead, &turn.accepted.lead);
        let members = std::iter::once(lead).chain(delegates.zip(digests));
        let sharing = members
            .filter(|(agent, digest)| agent.context == ContextMode::Snapshot && holds(digest));
        sharing.count()
    }

    /// The headroom of each agent of a turn with a frozen context, by definition digest, or the
    /// reason why it is too small for that context.
    pub(crate) fn headrooms(&self, id: TurnId) -> BTreeMap<Digest, Result<Tokens, Arc<str>>> {
        let Some(turn) = self.turns.get(&id) else {
            return BTreeMap::new();
        };
        let Phase::Frozen { manifest, .. } = &turn.phase else {
            return BTreeMap::new();
        };
        let mut costs = Costs::new();
        let needs = turn.needs();
        let mut room = |digest: Digest, agent: &Definition| {
            let assignment = needs.assignment_tokens(digest, &self.preambles);
            let assignment = assignment.map(|tokens| tokens + needs.results_note(digest));
            self.headroom(turn, manifest, (agent, assignment), &mut costs)
        };
        let agents = turn.distinct_definitions().into_iter();
        agents
            .map(|(digest, agent)| (digest, room(digest, &agent)))
            .collect()
    }

    fn headroom(
        &self,
        turn: &Turn,
        manifest: &Manifest,
        (agent, assignment): (&Definition, Option<Tokens>),
        costs: &mut Costs,
    ) -> Result<Tokens, Arc<str>> {
        if agent.context == ContextMode::TaskOnly {
            return Ok(turn.budget(agent, Tokens::ZERO).usable);
        }
        let preamble = self.preamble_counts(&turn.preamble);
        let fixed = preamble.get(agent.limits.encoding).unwrap_or_default();
        let budget = turn.budget(agent, fixed.at_most);
        let cost = costs
            .entry((budget.encoding, budget.per_message, budget.files))
            .or_insert_with(|| self.frozen_cost(manifest, &budget));
        // Everything is counted before the freeze; without a count there is no headroom.
        let needed = cost.unwrap_or(budget.usable);
        let left = budget.usable.minus(needed);
        if needed > budget.usable || left < assignment.unwrap_or_default() {
            let usable = budget.usable.minus(assignment.unwrap_or_default());
            return Err(too_small(agent, &Budget { usable, ..budget }, needed));
        }
        Ok(left)
    }

    /// The cost of the context as it was frozen, regardless of later compactions.
    fn frozen_cost(&self, manifest: &Manifest, budget: &Budget) -> Option<Tokens> {
        let encoding = budget.encoding;
        let mut cost = Tokens::ZERO;
        for id in &manifest.checkpoints {
            let checkpoint = self.checkpoints.get(*id)?;
            cost += checkpoint.counts.get(encoding)?.at_most;
        }
        let mut messages = MessagesCost::default();
        for span in &manifest.spans {
            let range = span.first..=span.last;
            messages += self.tree.messages_cost(manifest.head, range, encoding)?;
        }
        for (ordinal, form) in &manifest.altered {
            let node = self.tree.node_at(manifest.head, *ordinal)?;
            let mut ever = self.alterations.ever(*ordinal, node.message.id);
            if let Some(as_frozen) = ever.find(|known| known.form == *form) {
                // While it is not counted, the message counts in full.
                let _ = as_frozen.shorten(&mut messages, node, encoding);
            }
        }
        cost += messages.under(budget).at_most;
        let verbatim: u64 = manifest
            .spans
            .iter()
            .map(|span| u64::from(span.len()))
            .sum();
        let blocks = verbatim + manifest.checkpoints.len() as u64;
        Some(cost + budget.per_message.times(blocks))
    }
}

fn too_small(agent: &Definition, budget: &Budget, needed: Tokens) -> Arc<str> {
    let Budget { usable, window, .. } = budget;
    let model = &agent.model;
    format!(
        "the context has {needed} tokens for it, and {usable} of the {window} of model {model} are \
         left for the context: give it a model with a larger window, or `context = \"task_only\"`"
    )
    .into()
}
