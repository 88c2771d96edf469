//! What an agent looks for, read from its instructions and its task.

use unisono_context::Role;

use super::cues::Cues;
use super::passage::Kind;
use super::pool::Pool;
use super::section::is_recent;
use super::terms::{Class, Term};
use super::weights::relevance as weights;

/// Something to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    Decisions,
    Constraints,
    Risks,
    Questions,
    Actions,
    Facts,
    Causes,
    Wishes,
}

/// Words that ask for a focus, its heading, and the cues of what it wants.
const KNOWN: [(Focus, &[&str], &str, Cues); 8] = [
    (
        Focus::Decisions,
        &[
            "decision",
            "decide",
            "agreed",
            "agreement",
            "outcome",
            "chosen",
            "chose",
        ],
        "Decisions",
        Cues::DECISION,
    ),
    (
        Focus::Constraints,
        &[
            "constraint",
            "requirement",
            "rule",
            "limit",
            "policy",
            "policies",
            "must",
        ],
        "Constraints",
        Cues::CONSTRAINT,
    ),
    (
        Focus::Risks,
        &[
            "risk", "danger", "concern", "problem", "incident", "threat", "go wrong", "failure",
        ],
        "Risks and problems",
        Cues::RISK,
    ),
    (
        Focus::Questions,
        &[
            "open question",
            "question",
            "unresolved",
            "unclear",
            "unknown",
            "open point",
        ],
        "Open questions",
        Cues::OPEN.with(Cues::QUESTION),
    ),
    (
        Focus::Actions,
        &[
            "action",
            "task",
            "todo",
            "to do",
            "next step",
            "owner",
            "who does",
            "pending",
            "plan",
        ],
        "Actions and owners",
        Cues::PENDING,
    ),
    (
        Focus::Facts,
        &[
            "fact", "number", "figure", "name", "date", "detail", "data", "evidence",
        ],
        "Facts and figures",
        Cues::DATE,
    ),
    (
        Focus::Causes,
        &["why", "cause", "reason", "explain"],
        "Causes",
        Cues::CAUSE,
    ),
    (
        Focus::Wishes,
        &["want", "wish", "request", "goal", "purpose", "asked for"],
        "What was wanted",
        Cues::GOAL,
    ),
];

impl Focus {
    /// What a text asks for, most asked for first.
    pub(super) fn of(text: &str) -> Vec<Focus> {
        let text = text.to_lowercase();
        let mut found: Vec<(usize, Focus)> = KNOWN
            .iter()
            .map(|(focus, words, ..)| {
                (words.iter().map(|word| mentions(&text, word)).sum(), *focus)
            })
            .filter(|(times, _)| *times > 0)
            .collect();
        found.sort_by_key(|(times, _)| std::cmp::Reverse(*times));
        found.into_iter().map(|(_, focus)| focus).collect()
    }

    /// The words by which it is asked for: they say what to look for, not what it is about.
    pub(super) fn words() -> impl Iterator<Item = &'static str> {
        KNOWN
            .iter()
            .flat_map(|(_, words, ..)| words.iter().copied())
    }

    /// Its heading.
    pub(super) fn title(self) -> &'static str {
        KNOWN
            .iter()
            .find(|known| known.0 == self)
            .map_or("", |known| known.2)
    }

    /// How well a unit serves it, from 0 to 1.
    pub(super) fn serves(self, pool: &Pool<'_>, index: usize) -> f32 {
        let unit = &pool.units[index];
        let specific = || {
            pool.terms(index).iter().filter(|&&term| {
                let class = pool.vocabulary.class(term);
                matches!(class, Class::Number | Class::Name | Class::Identifier)
            })
        };
        if self == Focus::Facts {
            return (specific().count() as f32 / weights::FULL_FACT).min(1.0);
        }
        let cued = KNOWN
            .iter()
            .any(|known| known.0 == self && unit.cues.any(known.3));
        // Tools report; they neither decide nor promise, and ask for nothing.
        let spoken = unit.kind == Kind::Text || matches!(self, Focus::Risks | Focus::Causes);
        if !cued || !spoken {
            return 0.0;
        }
        let assistant = unit.role == Role::Assistant;
        match self {
            Focus::Decisions if assistant => weights::PROPOSED,
            Focus::Wishes if assistant => 0.0,
            Focus::Questions if is_recent(unit, pool.sources) => 1.0,
            Focus::Questions if unit.cues.any(Cues::OPEN) => weights::OLD_OPEN_POINT,
            Focus::Questions => weights::OLD_QUESTION,
            Focus::Actions => {
                let of_term = |&term: &Term| pool.vocabulary.class(term) == Class::Name;
                let owned = unit.cues.any(Cues::PROMISE) || specific().any(of_term);
                let share = |has: bool, share: f32| if has { share } else { 0.0 };
                weights::ACTION
                    + share(owned, weights::OWNER)
                    + share(unit.cues.any(Cues::DATE), weights::DUE)
            }
            _ => 1.0,
        }
    }
}

/// How often a word begins in a text.
fn mentions(text: &str, word: &str) -> usize {
    let starts = |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric());
    text.match_indices(word)
        .filter(|(at, _)| starts(*at))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_persona_decides_what_is_looked_for() {
        let persona = "You find risks: what can go wrong, which problems were seen. Risk first.";
        assert_eq!(Focus::of(persona), [Focus::Risks]);
        let both = Focus::of("List decisions. Name the owner of each decision.");
        assert_eq!(both, [Focus::Decisions, Focus::Actions, Focus::Facts]);
        assert!(Focus::of("Say hello.").is_empty());
    }
}
