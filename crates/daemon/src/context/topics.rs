//! Topics of a branch, and what tiers have, for those that only look.

use unisono_context::budget::Budget;
use unisono_context::checkpoint::Span;
use unisono_context::compaction::Loads;
use unisono_context::policy::Policy;
use unisono_context::topic::Topic;
use unisono_context::view::View;
use unisono_session::State;

/// The topics of a branch; none where nothing was ever decided about topics.
pub fn of_branch(state: &State, branch: &str) -> Vec<Topic> {
    let head = state.tree().head(branch);
    let head = head.filter(|_| !state.topics().is_empty());
    head.map_or_else(Vec::new, |head| {
        state.topics().of_branch(state.tree(), head)
    })
}

/// How a topic stands in the context: `verbatim`, `summarised`, or `in part`.
pub fn standing(view: &View<'_>, topic: Span) -> &'static str {
    let shared = |span: &Span| {
        let first = span.first.max(topic.first);
        let last = span.last.min(topic.last);
        if first <= last {
            Span::new(first, last).len()
        } else {
            0
        }
    };
    match view.uncovered().iter().map(shared).sum::<u32>() {
        0 => "summarised",
        all if all == topic.len() => "verbatim",
        _ => "in part",
    }
}

/// What a tier has, and what it may have, in tokens.
#[derive(Clone, Copy, Debug)]
pub struct TierLoad {
    /// Its name for people.
    pub name: &'static str,
    /// What it has.
    pub tokens: u64,
    /// What it may have.
    pub share: u64,
}

/// What each tier of a branch has; none where the policy has no tiers.
pub fn loads(view: &View<'_>, policy: &Policy, budget: &Budget) -> Vec<TierLoad> {
    let tiers = policy.tiers().zip(policy.trigger_amount(budget));
    let loads = tiers.zip(Loads::of(view, budget));
    loads.map_or_else(Vec::new, |((tiers, amount), loads)| {
        let [topic, topics, bulks] = tiers.shares(amount);
        let each = [
            ("current topic", loads.topic, topic),
            ("older topics", loads.topics, topics),
            ("bulks", loads.bulks, bulks),
        ];
        let each = each.map(|(name, load, share)| TierLoad {
            name,
            tokens: load.tokens.0,
            share: share.0,
        });
        each.into()
    })
}
