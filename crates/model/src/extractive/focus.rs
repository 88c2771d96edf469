//! What an agent looks for, according to its instructions and its task.

use unisono_context::Role;

use super::cues::Cues;
use super::days::has_word;
use super::passage::PassageKind;
use super::pool::Pool;
use super::section::is_recent;
use super::terms::{Class, Term};
use super::weights::relevance as weights;

/// A category to look for.
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

/// The heading, the cues and the keywords of each focus, these separated by bars.
const KNOWN: [(Focus, &str, Cues, &str); 8] = rows! {
    (Focus::Decisions, "Decisions", Cues::DECISION,
        "decision|decide|agreed|agreement|outcome|chosen|chose"),
    (Focus::Constraints, "Constraints", Cues::CONSTRAINT,
        "constraint|requirement|rule|limit|policy|policies|must"),
    (Focus::Risks, "Risks and problems", Cues::RISK,
        "risk|danger|concern|problem|incident|threat|go wrong|failure"),
    (Focus::Questions, "Open questions", Cues::OPEN.with(Cues::QUESTION),
        "open question|question|unresolved|unclear|unknown|open point"),
    (Focus::Actions, "Actions and owners", Cues::PENDING,
        "action|task|todo|to do|next step|owner|who does|pending|plan"),
    (Focus::Facts, "Facts and figures", Cues::DATE,
        "fact|number|figure|name|date|detail|data|evidence"),
    (Focus::Causes, "Causes", Cues::CAUSE, "why|cause|reason|explain"),
    (Focus::Wishes, "What was wanted", Cues::GOAL, "want|wish|request|goal|purpose|asked for"),
};

impl Focus {
    /// The focuses of a text, the most frequent first.
    pub(super) fn detect(text: &str) -> Vec<Focus> {
        let text = text.to_lowercase();
        let found = KNOWN.iter().map(|(focus, .., words)| {
            let times = words.split('|').map(|word| mentions(&text, word));
            (times.sum::<usize>(), *focus)
        });
        let mut found: Vec<_> = found.filter(|(times, _)| *times > 0).collect();
        found.sort_by_key(|(times, _)| std::cmp::Reverse(*times));
        found.into_iter().map(|(_, focus)| focus).collect()
    }

    /// The terms of the keywords of all focuses: they say what to look for, not the subject.
    pub(super) fn terms(pool: &mut Pool<'_>) -> Vec<Term> {
        let words = KNOWN.iter().flat_map(|(.., words)| words.split('|'));
        words.flat_map(|word| pool.terms_of(word)).collect()
    }

    pub(super) fn title(self) -> &'static str {
        let mut known = KNOWN.iter().filter(|known| known.0 == self);
        known.next().map_or("", |known| known.1)
    }

    /// How well a unit matches, from 0 to 1.
    pub(super) fn serves(self, pool: &Pool<'_>, index: usize) -> f32 {
        let unit = &pool.units[index];
        if self == Focus::Facts {
            let specific = pool.specific_terms(index).count();
            return (specific as f32 / weights::FULL_FACT).min(1.0);
        }
        let is_of = |known: &(Focus, _, Cues, _)| known.0 == self && unit.cues.intersects(known.2);
        // Tool output reports; it does not decide, promise or ask.
        let spoken = unit.kind == PassageKind::Text || matches!(self, Focus::Risks | Focus::Causes);
        if !KNOWN.iter().any(is_of) || !spoken {
            return 0.0;
        }
        let assistant = unit.role == Role::Assistant;
        match self {
            Focus::Decisions if assistant => weights::PROPOSED,
            Focus::Wishes if assistant => 0.0,
            Focus::Questions if is_recent(unit, pool.sources) => 1.0,
            Focus::Questions if unit.cues.intersects(Cues::OPEN) => weights::OLD_OPEN_POINT,
            Focus::Questions => weights::OLD_QUESTION,
            Focus::Actions => {
                let is_promised = unit.cues.intersects(Cues::PROMISE);
                let owned = is_promised || pool.has_class(index, Class::Name);
                let share = |has: bool, share: f32| if has { share } else { 0.0 };
                weights::ACTION
                    + share(owned, weights::OWNER)
                    + share(unit.cues.intersects(Cues::DATE), weights::DUE)
            }
            _ => 1.0,
        }
    }
}

/// The endings of a keyword in other forms.
const ENDINGS: &str = "s es d ed ing ned ning y ation ations ous ship";

/// The number of forms of a word in a text: `plans` and `planning` of `plan`, but not `planet`.
fn mentions(text: &str, word: &str) -> usize {
    let starts = |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric());
    let ends = |at: usize| {
        let rest = text[at + word.len()..].split(|c: char| !c.is_alphanumeric());
        let ending = rest.into_iter().next().unwrap_or_default();
        ending.is_empty() || has_word(ENDINGS, ending)
    };
    text.match_indices(word)
        .filter(|(at, _)| starts(*at) && ends(*at))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_persona_determines_the_focus() {
        let persona = "You find risks: what can go wrong, which problems were seen. Risk first.";
        assert_eq!(Focus::detect(persona), [Focus::Risks]);
        let both = Focus::detect("List decisions. Name the owner of each decision.");
        assert_eq!(both, [Focus::Decisions, Focus::Actions, Focus::Facts]);
        assert!(Focus::detect("Say hello.").is_empty());
        let others = "Does the plane to the factory land, and how to download its database?";
        assert!(Focus::detect(others).is_empty());
    }
}
