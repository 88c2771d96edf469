//! What the frozen context leaves of an agent's window.

use std::collections::BTreeMap;

use unisono_context::budget::Budget;
use unisono_context::snapshot::Manifest;
use unisono_context::{Digest, Encoding, Tokens, TurnId};

use crate::agent::{ContextMode, Definition};
use crate::state::State;
use crate::turn::{Phase, Turn};

/// What the context costs, by encoding and by what is added to each message.
type Costs = BTreeMap<(Encoding, Tokens), Option<Tokens>>;

impl State {
    /// The room of each agent of a turn whose context is frozen, by definition digest.
    pub(crate) fn rooms(&self, id: TurnId) -> BTreeMap<Digest, Tokens> {
        let Some(turn) = self.turns.get(&id) else {
            return BTreeMap::new();
        };
        let Phase::Frozen { manifest, .. } = &turn.phase else {
            return BTreeMap::new();
        };
        let mut costs = Costs::new();
        let mut room = |agent: &Definition| self.room(turn, manifest, agent, &mut costs);
        let agents = turn.distinct_definitions().into_iter();
        agents
            .map(|(digest, agent)| (digest, room(&agent)))
            .collect()
    }

    fn room(
        &self,
        turn: &Turn,
        manifest: &Manifest,
        agent: &Definition,
        costs: &mut Costs,
    ) -> Tokens {
        if agent.context == ContextMode::TaskOnly {
            return turn.budget(agent, Tokens::ZERO).usable;
        }
        let preamble = self.preamble_counts(&turn.preamble);
        let fixed = preamble.get(agent.limits.encoding).unwrap_or_default();
        let budget = turn.budget(agent, fixed.at_most);
        let cost = costs
            .entry((budget.encoding, budget.per_message))
            .or_insert_with(|| self.frozen_cost(manifest, &budget));
        // All is counted before it is frozen; what is not leaves no room.
        budget.usable.minus(cost.unwrap_or(budget.usable))
    }

    /// What the context costs as it was frozen, whatever was compacted elsewhere since.
    fn frozen_cost(&self, manifest: &Manifest, budget: &Budget) -> Option<Tokens> {
        let encoding = budget.encoding;
        let mut cost = Tokens::ZERO;
        for id in &manifest.checkpoints {
            let checkpoint = self.checkpoints.get(*id)?;
            cost += checkpoint.counts.get(encoding)?.at_most;
        }
        for span in &manifest.spans {
            let range = span.first..=span.last;
            cost += self.tree.cost(manifest.head, range, encoding)?.at_most;
        }
        for (ordinal, form) in &manifest.altered {
            let node = self.tree.at(manifest.head, *ordinal)?;
            let whole = node.counts.get(encoding)?;
            let mut ever = self.alterations.ever(*ordinal, node.message.id);
            let as_frozen = ever.find(|known| known.form == *form);
            if let Some(counted) = as_frozen.and_then(|known| known.counts.get(encoding)) {
                cost = cost.minus(whole.at_most) + counted.at_most;
            }
        }
        let messages: u64 = manifest
            .spans
            .iter()
            .map(|span| u64::from(span.len()))
            .sum();
        let blocks = messages + manifest.checkpoints.len() as u64;
        Some(cost + budget.per_message.times(blocks))
    }
}
