//! The names, numbers and ids of a question that no message has.

use std::collections::HashSet;

use super::{common_words, messages, words};
use crate::date::utc_date;
use crate::extractive::bm25::Query;
use crate::extractive::days::{has_word, is_date_word};
use crate::extractive::pool::Pool;
use crate::extractive::split::split;
use crate::extractive::terms::{self, Shape, Term, is_stop_word};

/// A shorter number often counts what is wanted: `the 10 largest risks`.
const LEAST_DIGITS: usize = 3;
const LEAST_LETTERS: usize = 3;
/// The maximum number of words, and of the bytes of each.
const MOST_WORDS: usize = 5;
const MOST_BYTES: usize = 60;
/// Words of a question about the form of its answer.
const FORMS: &str = "english german french spanish dutch portuguese italian chinese markdown";

/// Each one once, as the question writes it. Terms of the conversation are below `spoken`; `query` has
/// those that are related to words of the question.
pub(super) fn missing_words(
    pool: &Pool<'_>,
    task: &str,
    spoken: Term,
    query: &Query,
) -> Vec<String> {
    let is_english = common_words(task).is_none();
    let names_day = messages::names_day(task);
    let numbers = known_numbers(pool, spoken);
    let speakers: HashSet<&str> = pool.units.iter().map(|unit| unit.speaker).collect();
    let speakers: HashSet<String> = speakers.into_iter().flat_map(words).collect();
    let related: HashSet<Term> = query.values().map(|(word, _)| *word).collect();
    let is_known = |word: &str| {
        let term = pool.vocabulary.known(word);
        term.is_some_and(|term| term < spoken || related.contains(&term))
    };
    let mut missing: Vec<String> = Vec::new();
    for sentence in split(task) {
        let sentence = &task[sentence.range];
        // In a title all words begin like names.
        let mut starts = sentence.split_whitespace();
        let may_name = is_english && starts.any(|word| word.starts_with(char::is_lowercase));
        let mut begins = true;
        terms::words(sentence, &mut |word, shape| {
            let is_first = std::mem::replace(&mut begins, false);
            let lower = word.to_lowercase();
            let is_missing = match shape.digit {
                true => {
                    let digits = digits(word);
                    let is_number = digits.len() >= LEAST_DIGITS && !names_day;
                    // `#120` is the number of a message.
                    is_number && !numbers.contains(&digits) && !task.contains(&format!("#{word}"))
                }
                false if word.contains(['_', '@']) => true,
                false => may_name && !is_first && is_name(&lower, shape),
            };
            let is_new = !missing.iter().any(|known| known == word);
            if is_missing
                && is_new
                && !is_known(word)
                && !speakers.contains(&lower)
                && word.len() <= MOST_BYTES
                && missing.len() < MOST_WORDS
            {
                missing.push(word.to_owned());
            }
        });
    }
    missing
}

/// The digits of each word of the conversation, and the years of its messages: 1,299 and 1299 are one
/// number.
fn known_numbers(pool: &Pool<'_>, spoken: Term) -> HashSet<String> {
    let spoken = pool.vocabulary.words().filter(|(_, term)| *term < spoken);
    let mut numbers: HashSet<String> = spoken.map(|(word, _)| digits(word)).collect();
    let dates = pool.units.iter().filter_map(|unit| utc_date(unit.at?));
    let years: HashSet<i16> = dates.map(|date| date.year()).collect();
    numbers.extend(years.iter().map(i16::to_string));
    numbers
}

fn digits(word: &str) -> String {
    word.chars().filter(char::is_ascii_digit).collect()
}

/// Whether a word within a sentence, `lower` in small letters, is a name.
fn is_name(lower: &str, shape: Shape) -> bool {
    shape.capital
        && !shape.mixed
        && !shape.joined
        && lower.len() >= LEAST_LETTERS
        && !is_stop_word(lower)
        && !is_date_word(lower)
        && !has_word(FORMS, lower)
}

#[cfg(test)]
mod tests {
    use unisono_context::Timestamp;

    use super::*;
    use crate::extractive::fixture::{passages_of, pool_of};
    use crate::extractive::question::relevance;

    fn missing(task: &str) -> Vec<String> {
        let texts = [
            "The hall in Ghent costs 1,299 euros, room GR-55-9182.",
            "Sekou plays there, says Kreuzberger.",
        ];
        let mut passages = passages_of(texts);
        for passage in &mut passages {
            passage.at = Timestamp(1_736_121_600_000);
            passage.author = Some("Mira".into());
        }
        let mut pool = pool_of(&passages);
        let found = relevance(&mut pool, task, &HashSet::new());
        found.map(|found| found.missing).unwrap_or_default()
    }

    #[test]
    fn names_numbers_and_ids_may_be_missing() {
        let rows: [(&str, &[&str]); 6] = [
            ("Which hall had 1400 degrees?", &["1400"]),
            (
                "Which hall had 1400 degrees, 1400 or 1.500?",
                &["1400", "1.500"],
            ),
            ("Where is the hall GR-55-9183?", &["GR-55-9183"]),
            (
                "Who reads the mail of tom@example.org?",
                &["tom@example.org"],
            ),
            ("What did Xavier say about the hall?", &["Xavier"]),
            ("Welcher Saal ist das, kostet er 1400 Euro?", &["1400"]),
        ];
        for (task, expected) in rows {
            assert_eq!(missing(task), expected, "{task}");
        }
    }

    #[test]
    fn other_words_are_not_missing() {
        for task in [
            "Which hall costs 1299 euros?",
            "Which hall had a sauna?",
            "What are the 10 best halls?",
            "What did Sekou and Mira play in 2025?",
            "What happened in the hall on 14 May 1999?",
            "Who lives in Kreuzberg near the hall?",
            "What Is The Price Of The Hall?",
            "Reply in German: what does the hall cost?",
            "Does #120 name the hall?",
            "Welcher Saal ist das, und was kostet die Miete?",
        ] {
            assert!(missing(task).is_empty(), "{task}: {:?}", missing(task));
        }
    }
}
