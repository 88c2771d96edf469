//! The words of a question that no message has.

use std::collections::{HashMap, HashSet};

use super::expected::asks_for_kind;
use super::{
    ASKING_VERBS, GENERAL_WORDS, REQUESTS, SAYING, WRITING_VERBS, common_words, messages, words,
};
use crate::date::utc_date;
use crate::extractive::bm25::Query;
use crate::extractive::days::{has_word, is_date_word};
use crate::extractive::pool::Pool;
use crate::extractive::split::unit_texts;
use crate::extractive::terms::{self, Shape, Term, is_common_word, is_stop_word};

/// A shorter number often counts what is wanted: `the 10 largest risks`.
const LEAST_DIGITS: usize = 3;
const LEAST_LETTERS: usize = 3;
/// The maximum number of words, and of the bytes of each.
const MOST_WORDS: usize = 5;
const MOST_BYTES: usize = 60;
/// A word is common if so many messages have it, and this part of all.
const COMMON_LEAST: usize = 4;
const COMMON_PART: usize = 10;
/// Verbs that say nothing of a subject: `How many payments were made?`
const VERBS: &str = "happened happens made makes took takes taken gave gives given got gets went \
    goes gone came comes";
/// Words of a question about the form of its answer.
const FORMS: &str = "english german french spanish dutch portuguese italian chinese markdown";

/// The names, numbers and ids of a question that no message has, each once; other words if all that
/// messages have are common in the conversation. `query` has the terms that stand for words of the
/// question; `repeats`: whether a unit is the same question.
pub(super) fn missing_words(
    pool: &Pool<'_>,
    task: &str,
    query: &Query,
    repeats: &[bool],
) -> Vec<String> {
    let known = KnownWords::new(pool, task, query, repeats);
    let is_english = common_words(task).is_none();
    let names_day = messages::names_day(task);
    let mut specific: Vec<String> = Vec::new();
    let mut others: Vec<String> = Vec::new();
    for sentence in unit_texts(task) {
        // In a title all words begin like names.
        let mut starts = sentence.split_whitespace();
        let may_name = is_english && starts.any(|word| word.starts_with(char::is_lowercase));
        let mut begins = true;
        terms::words(sentence, &mut |word, shape| {
            let is_first = std::mem::replace(&mut begins, false);
            let lower = word.to_lowercase();
            // Two characters of a script without spaces are no word.
            let is_pair = word.starts_with(terms::unspaced);
            if is_pair || word.len() > MOST_BYTES || known.has(word, &lower) {
                return;
            }
            let is_specific = match shape.digit {
                // `#120` is the number of a message.
                true => {
                    let is_number = digits(word).len() >= LEAST_DIGITS && !names_day;
                    is_number && !task.contains(&format!("#{word}"))
                }
                false if word.contains(['_', '@']) => true,
                false => may_name && !is_first && is_name(&lower, shape),
            };
            let list = match is_specific {
                true => &mut specific,
                false if is_subject(&lower, shape) => &mut others,
                false => return,
            };
            if list.len() < MOST_WORDS && !list.iter().any(|listed| listed == word) {
                list.push(word.to_owned());
            }
        });
    }
    match specific.is_empty() && known.are_common {
        true => others,
        false => specific,
    }
}

/// The words of the messages, without those that ask the question.
struct KnownWords<'p, 'a> {
    pool: &'p Pool<'a>,
    terms: HashSet<Term>,
    /// The words of the question for which a message has a related one.
    related: HashSet<Term>,
    /// The digits of each word, and the years of the messages: 1,299 and 1299 are one number.
    numbers: HashSet<String>,
    speakers: HashSet<String>,
    /// Whether every word of the question that a message has is common in the conversation. If no message
    /// has any, whether the question is about what somebody said.
    are_common: bool,
}

impl<'p, 'a> KnownWords<'p, 'a> {
    fn new(pool: &'p Pool<'a>, task: &str, query: &Query, repeats: &[bool]) -> KnownWords<'p, 'a> {
        let mut terms: HashSet<Term> = HashSet::new();
        let mut speakers: HashSet<&str> = HashSet::new();
        // The last source with each word of the question, and their number.
        let mut times: HashMap<Term, (usize, usize)> = HashMap::new();
        let units = pool.units.iter().enumerate();
        let said = units.filter(|(at, _)| !repeats[*at]);
        let mut years: HashSet<i16> = HashSet::new();
        for (at, unit) in said {
            terms.extend(pool.terms(at));
            speakers.insert(unit.speaker);
            years.extend(unit.at.and_then(utc_date).map(|date| date.year()));
            for (word, _) in pool.terms(at).iter().filter_map(|term| query.get(term)) {
                let (last, sources) = times.entry(*word).or_insert((usize::MAX, 0));
                if std::mem::replace(last, unit.source) != unit.source {
                    *sources += 1;
                }
            }
        }
        let all = pool.vocabulary.words();
        let said = all.filter(|(_, term)| terms.contains(term));
        let mut numbers: HashSet<String> = said.map(|(word, _)| digits(word)).collect();
        numbers.extend(years.iter().map(i16::to_string));
        let common = COMMON_LEAST.max(pool.sources / COMMON_PART);
        let rarest = times.values().map(|(_, sources)| *sources).min();
        let is_about_saying = || words(task).any(|word| has_word(SAYING, &word));
        KnownWords {
            pool,
            terms,
            related: times.into_keys().collect(),
            numbers,
            speakers: speakers.into_iter().flat_map(words).collect(),
            are_common: rarest.map_or_else(is_about_saying, |rarest| rarest >= common),
        }
    }

    fn has(&self, word: &str, lower: &str) -> bool {
        let is_known = |term: Term| self.terms.contains(&term) || self.related.contains(&term);
        let digits = digits(word);
        self.pool.vocabulary.known(word).is_some_and(is_known)
            || self.speakers.contains(lower.trim_end_matches('s'))
            || self.speakers.contains(lower)
            || !digits.is_empty() && self.numbers.contains(&digits)
    }
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

/// Whether a word in small letters may be what a question is about.
fn is_subject(lower: &str, shape: Shape) -> bool {
    let lists = [
        GENERAL_WORDS,
        REQUESTS,
        SAYING,
        WRITING_VERBS,
        ASKING_VERBS,
        VERBS,
        FORMS,
    ];
    !shape.digit
        && lower.len() >= LEAST_LETTERS
        && !is_stop_word(lower)
        && !is_common_word(lower)
        && !is_date_word(lower)
        && !asks_for_kind(lower)
        && !lists.iter().any(|list| has_word(list, lower))
}

#[cfg(test)]
mod tests {
    use unisono_context::Timestamp;

    use super::*;
    use crate::extractive::Passage;
    use crate::extractive::fixture::{passages_of, pool_of};
    use crate::extractive::question::relevance;

    fn missing(passages: &[Passage<'_>], task: &str) -> Vec<String> {
        let found = relevance(&mut pool_of(passages), task, &HashSet::new());
        found.map(|found| found.missing).unwrap_or_default()
    }

    #[test]
    fn names_numbers_and_ids_may_be_missing_and_other_words_may_not() {
        let texts = [
            "The hall in Ghent costs 1,299 euros, room GR-55-9182.",
            "Sekou plays there, says Kreuzberger.",
        ];
        let mut passages = passages_of(texts);
        for passage in &mut passages {
            passage.at = Timestamp(1_736_121_600_000);
            passage.author = Some("Mira".into());
        }
        let rows: [(&str, &[&str]); 20] = rows! {
            ("Which hall had 1400 degrees?", &["1400"]),
            ("Which hall had 1400 degrees, 1400 or 1.500?", &["1400", "1.500"]),
            ("Where is the hall GR-55-9183?", &["GR-55-9183"]),
            ("Who reads the mail of tom@example.org?", &["tom@example.org"]),
            ("What did Xavier say about the hall?", &["Xavier"]),
            ("What did Mira say about the sauna?", &["sauna"]),
            ("Was hat Mira über die Sauna gesagt?", &["Sauna"]),
            ("Welcher Saal ist das, kostet er 1400 Euro?", &["1400"]),
            ("Which hall costs 1299 euros?", &[]),
            ("Which hall had a sauna?", &[]),
            ("What are the 10 best halls?", &[]),
            ("What did Sekou and Mira play in 2025?", &[]),
            ("What did Mira say?", &[]),
            ("What did Mira say about the hall?", &[]),
            ("What happened in the hall on 14 May 1999?", &[]),
            ("Who lives in Kreuzberg near the hall?", &[]),
            ("What Is The Price Of The Hall?", &[]),
            ("Reply in German: what does the hall cost?", &[]),
            ("Does #120 name the hall?", &[]),
            ("Welcher Saal ist das, und was kostet die Miete?", &[]),
        };
        for (task, expected) in rows {
            assert_eq!(missing(&passages, task), expected, "{task}");
        }
    }

    #[test]
    fn words_are_missing_beside_common_ones() {
        let mut texts = vec!["The ferry to Bergen was late."; 30];
        texts.extend(["We meet in the hall."; 6]);
        texts.push("The hall is cold.");
        let passages = passages_of(texts);
        let rows: [(&str, &[&str]); 5] = rows! {
            ("What happened in the hall, and who made it?", &[]),
            ("Which hall had a sauna and a stage?", &["sauna", "stage"]),
            ("Is the hall cold, with a sauna?", &[]),
            ("How many halls are there?", &[]),
            ("Tell me about the hall", &[]),
        };
        for (task, expected) in rows {
            assert_eq!(missing(&passages, task), expected, "{task}");
        }
    }

    #[test]
    fn a_question_that_was_asked_before_is_no_message_with_its_words() {
        let task = "Which hall had 1400 degrees?";
        let passages = passages_of(["The hall is cold.", task]);
        assert_eq!(missing(&passages, task), ["1400"]);
    }
}
