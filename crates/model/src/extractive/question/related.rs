//! Words of the conversation that are related to a word of the question: `Kündigungsfrist` to
//! `Frist`, `printer` to `printing`.

use rust_stemmers::{Algorithm, Stemmer};

use crate::extractive::pool::Pool;
use crate::extractive::terms::Term;

/// The letters of a stem with which another word begins, with which it ends (a compound word), and that
/// two words have in common at the beginning.
const START: usize = 4;
const END: usize = 5;
const COMMON: usize = 6;

/// The terms that are related to each word of a question, with that word.
pub(super) fn terms(pool: &mut Pool<'_>, task: &str, language: Algorithm) -> Vec<(Term, Term)> {
    let stemmer = Stemmer::create(language);
    let words = super::words(task).filter(|word| word.len() >= START);
    let asked: Vec<(Term, String)> = words
        .filter_map(|word| Some((*pool.terms_of(&word).first()?, stemmer.stem(&word).into())))
        .collect();
    let mut related = Vec::new();
    for (word, term) in pool.vocabulary.words() {
        let stem = stemmer.stem(word);
        let found = asked.iter().filter(|(_, asked)| is_related(asked, &stem));
        related.extend(found.map(|(asked, _)| (term, *asked)));
    }
    related.sort_unstable();
    related
}

/// Whether the shorter stem is the beginning or the end of the other, or both begin alike.
fn is_related(one: &str, other: &str) -> bool {
    let is_shorter = one.len() <= other.len();
    let (short, long) = if is_shorter {
        (one, other)
    } else {
        (other, one)
    };
    let alike = short.bytes().zip(long.bytes()).take_while(|(a, b)| a == b);
    let common = alike.count();
    common >= COMMON
        || common == short.len() && common >= START
        || short.len() >= END && long.ends_with(short)
}
