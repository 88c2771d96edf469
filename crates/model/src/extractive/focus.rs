//! What an agent looks for, read from its instructions and its task.

use super::cues::Cues;
use super::pool::Pool;
use super::terms::Class;

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
}

/// Words that ask for a focus, its heading, and the cues of what it wants.
const KNOWN: [(Focus, &[&str], &str, Cues); 7] = [
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
        let cued = KNOWN
            .iter()
            .any(|known| known.0 == self && unit.cues.any(known.3));
        if self != Focus::Facts {
            return f32::from(u8::from(cued));
        }
        let specific = pool.terms(index).iter().filter(|&&term| {
            let class = pool.vocabulary.class(term);
            matches!(class, Class::Number | Class::Name | Class::Identifier)
        });
        (specific.count() as f32 / 4.0).min(1.0)
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
