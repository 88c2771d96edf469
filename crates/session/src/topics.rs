//! Topic ends: decided before a context is frozen, for the messages since the last decision.
//!
//! A message opens the next topic if it begins with a phrase for that, comes after a silence, makes
//! the topic too large, or follows a topic that a person ended. The first reason that applies is
//! recorded. A topic has at least two messages, and no unit is divided.

use std::sync::Arc;

use unisono_context::budget::{Budget, Budgets};
use unisono_context::compaction::Loads;
use unisono_context::message::{Part, Role};
use unisono_context::policy::{Policy, Tiers};
use unisono_context::topic::{EndedBy, TopicEnd, Topics};
use unisono_context::tree::Node;
use unisono_context::view::View;
use unisono_context::{Ordinal, Timestamp, Tokens};

use crate::state::State;

impl State {
    /// The topic ends in the undecided messages; none if all are decided, or the policy does not
    /// use topics. The cost depends on the number of these messages.
    pub fn undecided_topics(
        &self,
        view: &View<'_>,
        policy: &Policy,
        budgets: &Budgets,
        phrases: &[Arc<str>],
    ) -> Option<Vec<TopicEnd>> {
        let tiers = policy.tiers()?;
        let open = !self.topics.is_decided(view.head());
        open.then(|| {
            let rules = TopicRules {
                topics: &self.topics,
                phrases,
                tiers,
                policy,
                budgets,
            };
            decide(view, &rules)
        })
    }
}

struct TopicRules<'r> {
    topics: &'r Topics,
    phrases: &'r [Arc<str>],
    tiers: &'r Tiers,
    policy: &'r Policy,
    budgets: &'r Budgets,
}

/// The topic ends between the last decided message and the head of the view, oldest first. The cost
/// depends on the number of messages in between.
fn decide(view: &View<'_>, rules: &TopicRules<'_>) -> Vec<TopicEnd> {
    let (tree, head) = (view.tree(), view.head());
    let path = tree.path(head);
    let mut nodes: Vec<&Node> = path
        .take_while(|node| !rules.topics.is_decided(node.message.id))
        .collect();
    nodes.reverse();
    let Some(oldest) = nodes.first().map(|node| node.ordinal()) else {
        return Vec::new();
    };
    let mut before = tree.node_at(head, Ordinal(oldest.0.saturating_sub(1)));
    let mut topic = CurrentTopic::starting_after(view, rules, before);
    let units = units(&nodes);
    let mut ends = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        if let (Some(last), Some(before)) = (units[index], before)
            && node.ordinal().0 > topic.start.0 + 1
            && let Some(by) = end_reason(view, rules, &topic, before, node, last)
        {
            let opener = node.ordinal();
            ends.push(TopicEnd { opener, by });
            topic = CurrentTopic {
                start: opener,
                saved: Vec::new(),
            };
        }
        before = Some(node);
    }
    ends
}

struct CurrentTopic {
    start: Ordinal,
    /// Per budget, the tokens that cuts and summaries saved in it.
    saved: Vec<Tokens>,
}

impl CurrentTopic {
    fn starting_after(
        view: &View<'_>,
        rules: &TopicRules<'_>,
        last: Option<&Node>,
    ) -> CurrentTopic {
        let tree = view.tree();
        let start = last.map_or(Ordinal::FIRST, |last| {
            rules.topics.start(tree, last.message.id)
        });
        let saved = rules.budgets.iter().map(|budget| {
            let standing = Loads::since(view, start, budget).map(|count| count.tokens);
            full_tokens(view, start, view.len(), budget).minus(standing.unwrap_or_default())
        });
        CurrentTopic {
            start,
            saved: saved.collect(),
        }
    }
}

/// The full size of the messages of a range, with the dialect's overhead.
fn full_tokens(view: &View<'_>, first: Ordinal, last: Ordinal, budget: &Budget) -> Tokens {
    let cost = view.tree().cost_under(view.head(), first..=last, budget);
    let messages = u64::from((last.0 + 1).saturating_sub(first.0));
    cost.unwrap_or_default().tokens + budget.per_message.times(messages)
}

/// For each message with which a unit begins, the last message of the unit.
fn units(nodes: &[&Node]) -> Vec<Option<Ordinal>> {
    let mut units = vec![None; nodes.len()];
    let mut first = Ordinal(u32::MAX);
    let mut end = None;
    for (index, node) in nodes.iter().enumerate().rev() {
        first = first.min(node.unit_start);
        let last = *end.get_or_insert(node.ordinal());
        if first == node.ordinal() {
            units[index] = Some(last);
            end = None;
        }
    }
    units
}

/// Whether a message was written more than `most` milliseconds after the one before it; false if
/// the time of one is unknown.
fn is_later(at: Timestamp, before: Timestamp, most: i64) -> bool {
    at.is_known() && before.is_known() && at.ms_since(before) > most
}

/// The strongest reason for a topic end before a message whose unit ends with `last`.
fn end_reason(
    view: &View<'_>,
    rules: &TopicRules<'_>,
    topic: &CurrentTopic,
    before: &Node,
    node: &Node,
    last: Ordinal,
) -> Option<EndedBy> {
    let ends = rules.tiers.ends;
    let holds = |reason: &EndedBy| match reason {
        EndedBy::Phrase => node.role() == Role::User && begins_with_phrase(node, rules.phrases),
        EndedBy::Silence => ends
            .silence_ms
            .is_some_and(|most| is_later(node.message.at, before.message.at, most)),
        EndedBy::Share => rules.budgets.iter().enumerate().any(|(index, budget)| {
            let share = rules.policy.trigger_amount(budget);
            let share = share.map(|amount| rules.tiers.topic.share_of(amount));
            let saved = topic.saved.get(index).copied().unwrap_or_default();
            let tokens = full_tokens(view, topic.start, last, budget).minus(saved);
            let most = ends
                .over
                .zip(share)
                .map(|(part, share)| part.share_of(share));
            most.is_some_and(|most| tokens > most)
        }),
        EndedBy::Person => rules.topics.is_sealed(before.message.id),
    };
    EndedBy::ALL.into_iter().find(holds)
}

/// Whether a message begins with one of the phrases, ignoring case, quotes and spaces.
fn begins_with_phrase(node: &Node, phrases: &[Arc<str>]) -> bool {
    let text = node.message.parts.iter().find_map(|part| match part {
        Part::Text(text) => Some(text),
        _ => None,
    });
    text.is_some_and(|text| phrases.iter().any(|phrase| begins_with(text, phrase)))
}

fn begins_with(text: &str, phrase: &str) -> bool {
    let mut characters = normalised(text);
    let mut wanted = normalised(phrase).peekable();
    if wanted.peek().is_none() {
        return false;
    }
    let mut last = ' ';
    for c in wanted {
        if characters.next() != Some(c) {
            return false;
        }
        last = c;
    }
    // Only at the end of a word: "moving on" does not match "moving onwards".
    let next = characters.next();
    !last.is_alphanumeric() || !next.is_some_and(|c| c.is_alphanumeric() || c == '\'')
}

/// Lower case, straight apostrophes, single spaces, from the first letter on.
fn normalised(text: &str) -> impl Iterator<Item = char> + '_ {
    let text = text.trim_start_matches(|c: char| !c.is_alphanumeric());
    let mut space = false;
    text.chars()
        .filter_map(move |c| {
            let again = space && c.is_whitespace();
            space = c.is_whitespace();
            match c {
                _ if again => None,
                _ if space => Some(' '),
                '’' | '‘' => Some('\''),
                c => Some(c),
            }
        })
        .flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::begins_with;

    #[test]
    fn phrases_are_found_at_the_start_as_people_write_them() {
        let rows = [
            ("new topic", "new topic", true),
            ("New topic: the budget", "new topic", true),
            ("  \"NEW   TOPIC\" please", "new topic", true),
            ("Let’s move on.", "let's move on", true),
            ("let's move\non to the next", "let's move on", true),
            ("Moving on, what about tea?", "moving on", true),
            ("moving onwards", "moving on", false),
            ("new topics are fine", "new topic", false),
            ("let's move on's", "let's move on", false),
            ("a new topic", "new topic", false),
            ("new", "new topic", false),
            ("", "new topic", false),
            ("anything", "", false),
            ("anything", "?!", false),
            ("Neues Thema: Öl", "neues thema", true),
            ("ÜBRIGENS, noch etwas", "übrigens", true),
            ("话题：新的", "话题", true),
        ];
        for (text, phrase, expected) in rows {
            assert_eq!(begins_with(text, phrase), expected, "{text:?} {phrase:?}");
        }
    }
}
