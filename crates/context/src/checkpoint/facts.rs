//! Key facts: what is carried verbatim from checkpoint to checkpoint.

use std::sync::Arc;

use crate::ids::Ordinal;
use crate::tokens::Tokens;

/// The most facts a checkpoint carries.
pub const FACTS_MAX: usize = 50;
/// The most tokens its facts may have together.
pub const FACT_TOKENS_MAX: Tokens = Tokens(1_000);

/// Something carried verbatim from checkpoint to checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyFact {
    /// The fact, quoted.
    pub text: Arc<str>,
    /// The message it was quoted from.
    pub ordinal: Ordinal,
}

impl KeyFact {
    /// The facts of a new checkpoint: those carried so far and the new ones, by position. Of two
    /// that say the same the newer stays, and one that is part of a newer one is dropped. Where
    /// they are too many, or have too many tokens by `count`, the newest stay.
    pub fn carried(
        old: &[KeyFact],
        new: &[KeyFact],
        count: impl Fn(&str) -> Tokens,
    ) -> Vec<KeyFact> {
        let mut facts: Vec<&KeyFact> = old.iter().chain(new).collect();
        facts.sort_by_key(|fact| fact.ordinal);
        let mut kept: Vec<(String, &KeyFact)> = Vec::new();
        let mut tokens = Tokens::ZERO;
        for fact in facts.into_iter().rev() {
            let plain = normalised(&fact.text);
            let said = plain.is_empty() || kept.iter().any(|(newer, _)| newer.contains(&plain));
            let with_it = tokens + count(&fact.text);
            if !said && kept.len() < FACTS_MAX && with_it <= FACT_TOKENS_MAX {
                tokens = with_it;
                kept.push((plain, fact));
            }
        }
        kept.into_iter()
            .rev()
            .map(|(_, fact)| fact.clone())
            .collect()
    }
}

/// Lower case, single spaces, no full stop: how two quotes of one fact are told to be the same.
/// Framed by spaces, so that only whole words are found in a longer one.
fn normalised(text: &str) -> String {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower
        .trim_end_matches(['.', ' ', '\n'])
        .split_whitespace()
        .collect();
    if words.is_empty() {
        return String::new();
    }
    format!(" {} ", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(text: &str, ordinal: u32) -> KeyFact {
        KeyFact {
            text: text.into(),
            ordinal: Ordinal(ordinal),
        }
    }

    fn carried(old: &[KeyFact], new: &[KeyFact]) -> Vec<(String, u32)> {
        let bytes = |text: &str| Tokens(text.len() as u64);
        let facts = KeyFact::carried(old, new, bytes);
        facts
            .iter()
            .map(|f| (f.text.to_string(), f.ordinal.0))
            .collect()
    }

    #[test]
    fn a_repeated_fact_is_carried_once_from_its_newest_place() {
        let old = [fact("The port is 8080.", 3), fact("Use Rust", 4)];
        let new = [fact("the port  is 8080", 9), fact("", 10)];
        let expected = [("Use Rust".into(), 4), ("the port  is 8080".into(), 9)];
        assert_eq!(carried(&old, &new), expected);
    }

    #[test]
    fn a_fact_that_a_newer_one_contains_is_dropped() {
        let old = [fact("use rust", 1), fact("use rus", 2)];
        let new = [fact("We use Rust, not Go: use Rust for all", 5)];
        let expected = [
            ("use rus".into(), 2),
            ("We use Rust, not Go: use Rust for all".into(), 5),
        ];
        assert_eq!(carried(&old, &new), expected);
    }

    #[test]
    fn the_newest_stay_where_they_are_too_many() {
        let many: Vec<KeyFact> = (1..=60).map(|n| fact(&format!("fact {n} !"), n)).collect();
        let kept = carried(&many, &[]);
        assert_eq!(kept.len(), FACTS_MAX);
        assert_eq!(kept[0].1, 11);
        let long: Vec<KeyFact> = (1..=9)
            .map(|n| fact(&n.to_string().repeat(300), n))
            .collect();
        let places: Vec<u32> = carried(&long, &[]).iter().map(|f| f.1).collect();
        assert_eq!(places, [7, 8, 9]);
    }
}
