//! What an agent asks of its conversation: the messages that fit best, and how they were found.
//!
//! First all of its words are asked for together. When too few messages have them all, its rare
//! words are asked for, any of them: those that few messages have say most about what is meant.

use unisono_context::{Ordinal, Timestamp};

use crate::answer::Recalled;
use crate::branch::Branch;
use crate::cancel::Wanted;
use crate::error::Result;
use crate::index::Index;
use crate::query::{Clause, Need, Query, TooLarge};
use crate::within::{Hit, rank};
use crate::words::is_common;

/// An answer of fewer messages is thin.
const ENOUGH: usize = 3;
/// So many of the rarest words are asked for then.
const RARE: usize = 4;

/// The best `limit` messages of a path.
pub(crate) fn recall(
    index: &Index,
    branch: &Branch,
    clauses: Vec<Clause>,
    limit: usize,
    wanted: &Wanted,
) -> Result<Recalled> {
    let ranked = rank(index, branch, &clauses, wanted)?;
    let of = |hit: &Hit| hit.ordinal;
    let all = ranked
        .hits
        .iter()
        .filter(|hit| hit.clauses == clauses.len());
    let mut messages: Vec<Ordinal> = all.map(of).take(limit).collect();
    let with_all = messages.len();
    let mut known: Vec<(u64, &Clause)> = ranked.found.iter().copied().zip(&clauses).collect();
    let text = |clause: &Clause| clause.text.clone();
    let nowhere = known.iter().filter(|(found, _)| *found == 0);
    let nowhere = nowhere.map(|(_, clause)| text(clause)).collect();
    let mut again = Vec::new();
    if with_all < ENOUGH && clauses.len() > 1 {
        known.retain(|(found, _)| *found > 0);
        known.sort_by_key(|(found, _)| *found);
        known.truncate(RARE);
        again = known.iter().map(|(_, clause)| text(clause)).collect();
        let rare: Vec<Clause> = known
            .into_iter()
            .map(|(_, clause)| clause.clone())
            .collect();
        let others = rank(index, branch, &rare, wanted)?.hits;
        let others = others.iter().map(of).filter(|n| !messages.contains(n));
        let room = limit.saturating_sub(with_all);
        let others: Vec<Ordinal> = others.take(room).collect();
        messages.extend(others);
    }
    Ok(Recalled {
        messages,
        with_all,
        again,
        nowhere,
        stems: clauses
            .into_iter()
            .flat_map(|clause| clause.stems)
            .collect(),
    })
}

/// What an agent's text asks for: its phrases, and its words but the common ones. Filters and signs
/// are for people; here they are text.
///
/// # Errors
/// The text is larger than a query may be.
pub(crate) fn clauses(text: &str) -> Result<Vec<Clause>, TooLarge> {
    let plain = text.replace([':', '?', '!', ',', ';', '(', ')'], " ");
    let mut clauses: Vec<Clause> = Vec::new();
    for clause in Query::parse(&plain, Timestamp(0))?.clauses {
        if !clauses.iter().any(|known| known.stems == clause.stems) {
            clauses.push(Clause {
                need: Need::Wanted,
                ..clause
            });
        }
    }
    let common = |clause: &Clause| {
        let word = clause.text.trim_matches(|c: char| !c.is_alphanumeric());
        clause.stems.len() == 1 && is_common(&word.to_lowercase())
    };
    if !clauses.iter().all(common) {
        clauses.retain(|clause| !common(clause));
    }
    Ok(clauses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_asked_by_its_words() {
        let texts = |text: &str| -> Vec<String> {
            let clauses = clauses(text).unwrap().into_iter();
            clauses.map(|clause| clause.text).collect()
        };
        assert_eq!(
            texts("What did we decide about the Kestrel migration? The migrations!"),
            ["decide", "Kestrel", "migration"]
        );
        assert_eq!(texts("who is it"), ["who", "is", "it"]);
        assert_eq!(
            texts("role:user \"rate limit\""),
            ["role", "user", "rate limit"]
        );
        assert_eq!(texts("?!"), [""; 0]);
        assert!(clauses(&"kestrel ".repeat(100_000)).is_err());
    }
}
