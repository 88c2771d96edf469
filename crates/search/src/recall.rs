//! The search of an agent in its conversation: the messages that match its words best.

use unisono_context::Timestamp;

use crate::answer::RecallResult;
use crate::branch::Branch;
use crate::cancel::CancelFlag;
use crate::error::Result;
use crate::guarded::guarded;
use crate::index::Index;
use crate::joined::{join, keep_known};
use crate::query::{Clause, Occurrence, Query, TooLarge, drop_common};
use crate::within::rank;

/// The best `limit` messages of a path.
pub(crate) fn recall(
    index: &Index,
    branch: &Branch,
    mut question: Query,
    limit: usize,
    wanted: &CancelFlag,
) -> Result<RecallResult> {
    let (fields, searcher) = (index.fields, index.searcher());
    guarded("read", || {
        keep_known(&mut question.clauses, fields, &searcher)
    })?;
    let ranked = rank(index, branch, &question, limit, wanted)?;
    let clauses = question.clauses;
    let counted = clauses.iter().zip(&ranked.found);
    let nowhere = counted.filter(|(_, found)| **found == 0);
    let nowhere = nowhere.map(|(clause, _)| clause.text.clone()).collect();
    let stems = clauses
        .into_iter()
        .flat_map(|clause| clause.stems.into_iter().chain(clause.joined));
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
/// The text is larger than a query may be.
pub(crate) fn question(text: &str) -> Result<Query, TooLarge> {
    let parsed = Query::parse(&plain(text), Timestamp(0))?;
    let mut clauses: Vec<Clause> = Vec::new();
    for clause in parsed.clauses.into_iter().flat_map(Clause::into_parts) {
        if !clauses.iter().any(|known| known.stems == clause.stems) {
            clauses.push(Clause {
                need: Occurrence::Wanted,
                ..clause
            });
        }
    }
    drop_common(&mut clauses);
    join(&mut clauses);
    // The words of days are last: they are left out if there are messages of the days.
    clauses.sort_by_key(|clause| clause.is_day);
    Ok(Query {
        clauses,
        mentions: parsed.mentions,
        ..Query::default()
    })
}

/// The text with spaces for punctuation, except within numbers: `1,250.00`, `12:30`.
fn plain(text: &str) -> String {
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let mut plain = String::with_capacity(text.len());
    let (mut before, mut chars) = (None, text.chars().peekable());
    while let Some(c) = chars.next() {
        let is_within = is_digit(before) && is_digit(chars.peek().copied());
        plain.push(match c {
            ':' | ',' if is_within => c,
            ':' | '?' | '!' | ',' | ';' | '(' | ')' => ' ',
            _ => c,
        });
        before = Some(c);
    }
    plain
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
        assert_eq!(
            texts("Was it €1,250.00 at 12:30, in foo_bar.rs:120?"),
            ["€1,250.00", "12:30", "foo_bar.rs", "120"]
        );
        assert_eq!(
            texts("What's Tom's knee like? It's Tom’s."),
            ["Tom", "knee", "like"]
        );
        assert_eq!(
            texts("我们什么ORD-7 会议"),
            ["我们", "们什", "什么", "ORD-7", "会议"]
        );
        assert_eq!(texts("?!"), [""; 0]);
        assert!(question(&"kestrel ".repeat(100_000)).is_err());
    }
}
