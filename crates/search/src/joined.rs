//! Words that join two words of a query: a query for `Lieferung Kosten` finds `Lieferkosten` and
//! `Lieferungskosten`, one for `data base` finds `database`.
//!
//! Only joins of two words of the query are looked up, each as one term. A compound with another
//! word, such as `Kosten` in `Portokosten`, would need the ends of all words in the index.

use std::collections::BTreeSet;

use tantivy::{Searcher, Term};

use crate::index::Fields;
use crate::query::{Clause, Occurrence};
use crate::words::words;

/// The weight of a joined word, beside a word of the query itself.
pub(crate) const WEIGHT: f32 = 0.5;
/// The minimum number of characters of a word that is joined: shorter ones are parts of many words.
const SHORTEST: usize = 4;
/// The minimum number of characters of a word without its ending.
const SHORTEST_ROOT: usize = 3;
/// The maximum number of words that are joined with each other.
const MAX_WORDS: usize = 8;

/// Gives each clause the words that join it with another one, before or behind it.
pub(crate) fn join(clauses: &mut [Clause]) {
    let single = clauses.iter().enumerate();
    let single = single.filter_map(|(at, clause)| Some((at, plain_word(clause)?)));
    let single: Vec<(usize, String)> = single.take(MAX_WORDS).collect();
    for (first_at, first) in &single {
        for (last_at, last) in single.iter().filter(|(at, _)| at != first_at) {
            let joined = compounds(first, last);
            for at in [*first_at, *last_at] {
                if let Some(clause) = clauses.get_mut(at) {
                    clause.joined.extend_from_slice(&joined);
                }
            }
        }
    }
    for clause in clauses {
        clause.joined.sort_unstable();
        clause.joined.dedup();
    }
}

/// Keeps the joined words that a message has. Each word joins two clauses, and is looked up once.
pub(crate) fn keep_known(
    clauses: &mut [Clause],
    fields: Fields,
    searcher: &Searcher,
) -> tantivy::Result<()> {
    let joined = clauses
        .iter()
        .flat_map(|clause| clause.joined.iter().cloned());
    let joined: BTreeSet<String> = joined.collect();
    let mut known = BTreeSet::new();
    for stem in joined {
        let term = Term::from_field_text(fields.text, &stem);
        if searcher.doc_freq(&term)? > 0 {
            known.insert(stem);
        }
    }
    for clause in clauses {
        clause.joined.retain(|stem| known.contains(stem));
    }
    Ok(())
}

/// The word of a clause in lower case, if it is one long word and no part of a date.
fn plain_word(clause: &Clause) -> Option<String> {
    let word = clause.text.trim_matches(|c: char| !c.is_alphanumeric());
    let is_long = word.chars().count() >= SHORTEST && word.chars().all(char::is_alphabetic);
    let is_single = clause.need == Occurrence::Wanted && clause.stems.len() == 1;
    let is_date = clause.is_day || clause.period.is_some();
    (is_long && is_single && !is_date).then(|| word.to_lowercase())
}

/// The words that begin with one word and end with another, in the form of the index. German joins
/// them with an `s` or `n`, or without the ending of the first one: `Kundendienst`, `Schulhof`.
fn compounds(first: &str, last: &str) -> Vec<String> {
    let mut starts = vec![first.to_owned(), format!("{first}s")];
    for ending in ["ung", "ungen", "e"] {
        let root = first.strip_suffix(ending);
        let root = root.filter(|root| root.chars().count() >= SHORTEST_ROOT);
        starts.extend(root.map(str::to_owned));
        if ending == "ungen" {
            starts.extend(root.map(|root| format!("{root}ungs")));
        }
    }
    if first.ends_with('e') {
        starts.push(format!("{first}n"));
    }
    let joined: Vec<String> = starts
        .iter()
        .map(|start| format!("{start}{last}"))
        .collect();
    let joined = words(&joined.join(" ")).into_iter();
    joined.map(|word| word.stem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_words_are_joined_as_german_and_english_do() {
        for (first, last, joined) in [
            ("lieferung", "kosten", "lieferkosten"),
            ("lieferung", "kosten", "lieferungskosten"),
            ("lieferungen", "kosten", "lieferkosten"),
            ("lieferungen", "kosten", "lieferungskosten"),
            ("kunde", "dienst", "kundendienst"),
            ("schule", "garten", "schulgarten"),
            ("haus", "meister", "hausmeister"),
            ("data", "base", "database"),
        ] {
            let stem = words(joined).remove(0).stem;
            assert!(compounds(first, last).contains(&stem), "{joined}");
        }
        assert_eq!(compounds("jung", "mann").len(), 2, "`j` is no root");
    }

    #[test]
    fn each_word_has_its_joins_and_their_number_is_bounded() {
        let clauses = |text: &str| crate::recall::question(text).unwrap().clauses;
        let two = clauses("Lieferung und Kosten am 3. Mai");
        let has = |at: usize, joined: &str| two[at].joined.contains(&joined.to_owned());
        assert!(has(0, "lieferkosten") && two[0].text == "Lieferung");
        let kosten = two.iter().position(|one| one.text == "Kosten").unwrap();
        assert!(has(kosten, "lieferkosten") && has(kosten, "kostenlieferung"));
        let others = two.iter().filter(|one| one.joined.is_empty());
        assert!(others.count() == two.len() - 2, "{two:?}");
        assert!(
            clauses("Lieferung 123 bis")
                .iter()
                .all(|one| one.joined.is_empty())
        );
        let many: String = ('a'..='t').map(|c| format!("{c}wort ")).collect();
        let many = clauses(&many);
        let most = many.iter().map(|one| one.joined.len()).max();
        assert_eq!((many.len(), most), (20, Some(28)));
    }
}
