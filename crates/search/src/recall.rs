//! The search of an agent in its conversation: the messages that match its words best.

use unisono_context::Timestamp;

use crate::answer::RecallResult;
use crate::branch::Branch;
use crate::cancel::CancelFlag;
use crate::error::Result;
use crate::index::Index;
use crate::query::{Clause, Occurrence, Query, TooLarge, drop_common};
use crate::within::rank;

/// The best `limit` messages of a path.
pub(crate) fn recall(
    index: &Index,
    branch: &Branch,
    question: Query,
    limit: usize,
    wanted: &CancelFlag,
) -> Result<RecallResult> {
    let ranked = rank(index, branch, &question, limit, wanted)?;
    let clauses = question.clauses;
    let counted = clauses.iter().zip(&ranked.found);
    let nowhere = counted.filter(|(_, found)| **found == 0);
    let nowhere = nowhere.map(|(clause, _)| clause.text.clone()).collect();
    let stems = clauses.into_iter().flat_map(|clause| clause.stems);
    Ok(RecallResult {
        messages: ranked.messages,
        nowhere,
        stems: stems.collect(),
    })
}

/// The query of an agent's text: its phrases, its words except common ones, and the days that it
/// names. Filters and operators are for people; here they are plain text.
///
/// # Errors
///
/// The text is larger than a query may be.
pub(crate) fn question(text: &str) -> Result<Query, TooLarge> {
    let plain = text.replace([':', '?', '!', ',', ';', '(', ')'], " ");
    let parsed = Query::parse(&plain, Timestamp(0))?;
    let mut clauses: Vec<Clause> = Vec::new();
    for clause in parsed.clauses {
        if !clauses.iter().any(|known| known.stems == clause.stems) {
            clauses.push(Clause {
                need: Occurrence::Wanted,
                ..clause
            });
        }
    }
    drop_common(&mut clauses);
    // The words of days are last: they are left out if there are messages of the days.
    clauses.sort_by_key(|clause| clause.is_day);
    Ok(Query {
        clauses,
        mentions: parsed.mentions,
        ..Query::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_asked_by_its_words() {
        let texts = |text: &str| -> Vec<String> {
            let clauses = question(text).unwrap().clauses.into_iter();
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
        assert!(question(&"kestrel ".repeat(100_000)).is_err());
    }
}
