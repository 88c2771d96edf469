//! Topics of a branch, and the sizes of tiers, for display.

use unisono_api::context::TierLoad;
use unisono_api::topic as api;
use unisono_context::Ordinal;
use unisono_context::budget::Budget;
use unisono_context::checkpoint::Span;
use unisono_context::compaction::Loads;
use unisono_context::policy::Policy;
use unisono_context::topic::{Topic, title};
use unisono_context::view::View;
use unisono_session::State;

use super::tip;
use crate::values::{instant, known_instant};

/// The topics of a branch; empty if topics were never decided.
pub fn of_branch(state: &State, branch: &str) -> Vec<Topic> {
    let head = state.tree().head(branch);
    let head = head.filter(|_| !state.topics().is_empty());
    head.map_or_else(Vec::new, |head| {
        state.topics().of_branch(state.tree(), head)
    })
}

/// The topics of a branch in the types of the API, oldest first; none if the branch does not exist.
pub fn to_api(state: &State, branch: &str) -> Option<Vec<api::Topic>> {
    let Some(head) = tip(state, branch)? else {
        return Some(Vec::new());
    };
    let view = state.view(head, false)?;
    let said = |at: Ordinal| {
        let node = state.tree().node_at(head, at);
        node.and_then(|node| known_instant(node.message.at))
    };
    let each = of_branch(state, branch).into_iter();
    let each = each.map(|topic| api::Topic {
        first: topic.span.first.0,
        last: topic.span.last.0,
        messages: topic.span.len(),
        title: title(state.tree(), head, topic.span),
        started_at: said(topic.span.first),
        last_at: said(topic.span.last),
        sealed_at: topic.sealed_at.map(instant),
        summary: summary(&view, topic.span),
        ended_by: topic.ended_by.map(|by| by.name().to_owned()),
        status: status(&view, topic.span).to_owned(),
    });
    Some(each.collect())
}

/// The number of the active checkpoint that covers most of a topic, the newest of equals.
fn summary(view: &View<'_>, topic: Span) -> Option<u32> {
    let active = view.active().iter().map(|checkpoint| {
        let shared = checkpoint.covers.iter().map(|span| shared(*span, topic));
        (shared.sum::<u32>(), checkpoint.number)
    });
    let (shared, number) = active.max()?;
    (shared > 0).then_some(number)
}

/// Number of messages in both ranges.
fn shared(span: Span, topic: Span) -> u32 {
    let (first, last) = (span.first.max(topic.first), span.last.min(topic.last));
    if first <= last {
        Span::new(first, last).len()
    } else {
        0
    }
}

/// The state of a topic in the context: `verbatim`, `summarised`, or `partly_summarised`.
fn status(view: &View<'_>, topic: Span) -> &'static str {
    let verbatim = view.uncovered().iter().map(|span| shared(*span, topic));
    match verbatim.sum::<u32>() {
        0 => "summarised",
        all if all == topic.len() => "verbatim",
        _ => "partly_summarised",
    }
}

/// The size of each tier of a branch; none if the policy has no tiers.
pub fn loads(view: &View<'_>, policy: &Policy, budget: &Budget) -> Vec<TierLoad> {
    let tiers = policy.tiers().zip(policy.trigger_amount(budget));
    let loads = tiers.zip(Loads::of_view(view, budget));
    loads.map_or_else(Vec::new, |((tiers, amount), loads)| {
        let [topic, topics, bulks] = loads.limits(tiers, amount);
        let each = [
            ("current topic", loads.topic, topic),
            ("older topics", loads.topics, topics),
            ("bulks", loads.bulks, bulks),
        ];
        let each = each.map(|(name, load, limit)| TierLoad {
            name: name.to_owned(),
            tokens: load.tokens.0,
            limit_tokens: limit.0,
        });
        each.into()
    })
}
