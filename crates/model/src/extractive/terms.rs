//! The words, numbers, names and identifiers of a text as small integers.
//!
//! English words are reduced to stems (Porter's Snowball stemmer); scripts without spaces give
//! pairs of characters. Each distinct word is stemmed once.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::OnceLock;

use rust_stemmers::{Algorithm, Stemmer};

use super::cues::Cues;

/// A distinct stem, name, number or identifier.
pub(super) type Term = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Carries no content: `the`, `of`.
    Stop,
    /// An ordinary word.
    Word,
    /// A proper name.
    Name,
    /// An amount, a time, a version.
    Number,
    /// A path, a ticket number, a column name.
    Identifier,
}

/// The cues of single words. A word that ends like `walked` is a verb in the past tense, too.
const MARKING: [(Cues, &str); 6] = rows! {
    (Cues::FIRST, "i i'm i've i'd i'll my me mine we we're we've our us"),
    (Cues::PAST, "\
        was were went had got did made took found lost bought told gave met came saw felt began \
        broke chose fell grew heard held kept knew left ran said sent sold spent spoke taught \
        thought understood won wrote became built ate"),
    (Cues::TIME, "\
        yesterday ago last tonight monday tuesday wednesday thursday friday saturday sunday \
        january february march april june july august september october november december tomorrow \
        today weekend next week month year since until"),
    (Cues::STATUS, STATUSES),
    (Cues::NOW, NOW),
    (Cues::NOT, NOT),
};
/// Words of a statement about how something is now.
pub(super) const NOW: &str = "now jetzt nun inzwischen mittlerweile";
/// Words that deny what follows them.
pub(super) const NOT: &str = "not nicht";
/// Of two different conditions of one thing the newer is valid.
pub(super) const STATUSES: &str = "open closed paid unpaid pending confirmed cancelled canceled \
    approved rejected delayed shipped delivered returned broken repaired fixed finished free \
    booked available unavailable online offline empty full offen geschlossen bezahlt unbezahlt \
    bestätigt storniert genehmigt abgelehnt verspätet geliefert kaputt repariert fertig gebucht";

/// All terms seen so far.
pub(super) struct Vocabulary {
    stemmer: Stemmer,
    surfaces: FoldedMap<Box<str>, (Term, Cues)>,
    stems: FoldedMap<Box<str>, Term>,
    terms: Vec<Info>,
}

#[derive(Clone, Copy)]
struct Info {
    class: Class,
    /// Times it was capitalised inside a sentence.
    capital: u32,
    /// Times it was not capitalised.
    small: u32,
}

impl Vocabulary {
    pub(super) fn new() -> Vocabulary {
        Vocabulary {
            stemmer: Stemmer::create(Algorithm::English),
            surfaces: FoldedMap::default(),
            stems: FoldedMap::default(),
            terms: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.terms.len()
    }

    /// The class of a term according to all its occurrences.
    pub(super) fn class(&self, term: Term) -> Class {
        let info = &self.terms[term as usize];
        match info.class {
            Class::Word if info.capital > 0 && info.capital >= info.small => Class::Name,
            class => class,
        }
    }

    /// The term of a word that was seen before.
    pub(super) fn known(&self, word: &str) -> Option<Term> {
        let known = self.surfaces.get(&*in_small_letters(word));
        known.map(|(term, _)| *term)
    }

    /// All words in lower case, in any order, with their terms.
    pub(super) fn words(&self) -> impl Iterator<Item = (&str, Term)> {
        let words = self.surfaces.iter();
        words.map(|(word, (term, _))| (&**word, *term))
    }

    /// Appends the terms of a text in order, without stop words. Returns the cues of its words.
    pub(super) fn read(&mut self, text: &str, out: &mut Vec<Term>) -> Cues {
        let mut first = true;
        let mut all = Cues::NONE;
        words(text, &mut |word, shape| {
            let (term, cues) = self.intern(word, shape);
            all = all.with(cues);
            let info = &mut self.terms[term as usize];
            match shape.capital {
                true if !first => info.capital += 1,
                false => info.small += 1,
                true => {}
            }
            first = false;
            if info.class != Class::Stop {
                out.push(term);
            }
        });
        all
    }

    /// Appends the terms of a text that is not part of the conversation.
    pub(super) fn look_up(&mut self, text: &str, out: &mut Vec<Term>) {
        words(text, &mut |word, shape| {
            let (term, _) = self.intern(word, shape);
            if self.terms[term as usize].class != Class::Stop {
                out.push(term);
            }
        });
    }

    fn intern(&mut self, word: &str, shape: Shape) -> (Term, Cues) {
        let lower = &*in_small_letters(word);
        if let Some(&known) = self.surfaces.get(lower) {
            return known;
        }
        let class = class_of(lower, shape);
        let stem = match class {
            Class::Word if lower.is_ascii() && lower.len() <= 24 && may_be_inflected(lower) => {
                self.stemmer.stem(lower)
            }
            _ => lower.into(),
        };
        let next = self.terms.len() as Term;
        let term = *self.stems.entry(stem.as_ref().into()).or_insert(next);
        if term == next {
            self.terms.push(Info {
                class,
                capital: 0,
                small: 0,
            });
        }
        let is_regular = lower.len() > 4 && lower.ends_with("ed") && !lower.ends_with("eed");
        let of_end = if is_regular { Cues::PAST } else { Cues::NONE };
        let cues = of_end.with(cues_of_word(lower));
        self.surfaces.insert(lower.into(), (term, cues));
        (term, cues)
    }
}

/// A word in lower case; as it is if it has ASCII characters only, none of them upper-case.
pub(super) fn in_small_letters(word: &str) -> Cow<'_, str> {
    let is_small = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    match word.bytes().all(is_small) {
        true => Cow::Borrowed(word),
        false => Cow::Owned(word.to_lowercase()),
    }
}

/// Whether a word has an ending that the stemmer may remove; others are not changed by it.
fn may_be_inflected(lower: &str) -> bool {
    let endings = "ed ing al ful ll er or nt ism ic ion s y e i '";
    endings.split(' ').any(|ending| lower.ends_with(ending))
}

/// The cues of a word in the lists of [`MARKING`].
fn cues_of_word(lower: &str) -> Cues {
    static CUES: OnceLock<FoldedMap<&str, Cues>> = OnceLock::new();
    let read = || {
        let mut all: FoldedMap<&str, Cues> = FoldedMap::default();
        for (cue, list) in MARKING {
            for word in list.split_whitespace() {
                let cues = all.entry(word).or_insert(Cues::NONE);
                *cues = cues.with(cue);
            }
        }
        all
    };
    let known = CUES.get_or_init(read).get(lower);
    known.copied().unwrap_or(Cues::NONE)
}

fn class_of(lower: &str, shape: Shape) -> Class {
    if shape.digit && (!shape.letter || lower.starts_with(|c: char| c.is_ascii_digit())) {
        Class::Number
    } else if shape.digit || shape.joined || (shape.mixed && lower.len() > 1) {
        Class::Identifier
    } else if lower.len() == 1 || is_stop_word(lower) {
        Class::Stop
    } else {
        Class::Word
    }
}

/// Whether a word is common in English.
pub(super) fn is_stop_word(lower: &str) -> bool {
    static WORDS: OnceLock<FoldedSet<&str>> = OnceLock::new();
    let read = || {
        let english = common_word_lists().take(1);
        english.flat_map(|list| list.split(' ')).collect()
    };
    WORDS.get_or_init(read).contains(lower)
}

/// Whether a word is common in another language than English.
pub(super) fn is_common_word(lower: &str) -> bool {
    static WORDS: OnceLock<FoldedSet<&str>> = OnceLock::new();
    let read = || {
        let others = common_word_lists().skip(1);
        others.flat_map(|list| list.split(' ')).collect()
    };
    WORDS.get_or_init(read).contains(lower)
}

/// The common words of each language, first of English.
pub(super) fn common_word_lists() -> impl Iterator<Item = &'static str> {
    let lines = include_str!("common_words.txt").lines();
    lines.filter(|line| !line.starts_with('#'))
}

/// A hash for short keys: eight bytes at a time, multiplied and folded (like `wyhash`, by W. Yi).
/// It is the same in every run; nothing depends on the order of a map.
#[derive(Clone, Copy, Default)]
pub(super) struct Folded(u64);

pub(super) type FoldedSet<K> = HashSet<K, BuildHasherDefault<Folded>>;

pub(super) type FoldedMap<K, V> = HashMap<K, V, BuildHasherDefault<Folded>>;

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        const SALT: u64 = 0xa076_1d64_78bd_642f;
        const PRIME: u64 = 0xe703_7ed1_a0b4_28db;
        let mut fold = |word: u64, length: usize| {
            let product = u128::from(self.0 ^ word ^ SALT) * u128::from(PRIME ^ length as u64);
            self.0 = (product as u64) ^ (product >> 64) as u64;
        };
        let (words, rest) = bytes.as_chunks::<8>();
        words
            .iter()
            .for_each(|word| fold(u64::from_le_bytes(*word), 8));
        if !rest.is_empty() {
            fold(short_word(rest), rest.len());
        }
    }
}

/// At most seven bytes as a number, without a copy of a length that is known only when it runs.
fn short_word(bytes: &[u8]) -> u64 {
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>(), bytes) {
        (Some(first), Some(last), _) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
        }
        (.., &[one]) => u64::from(one),
        (.., &[one, two]) => u64::from(u16::from_le_bytes([one, two])),
        (.., &[one, two, three]) => u64::from(u32::from_le_bytes([one, two, three, 0])),
        _ => 0,
    }
}

#[derive(Clone, Copy, Default)]
pub(super) struct Shape {
    pub(super) digit: bool,
    pub(super) letter: bool,
    /// Contains one of `_ / @ . :` between letters or digits.
    pub(super) joined: bool,
    /// An upper-case letter after a lower-case one, or two at the start.
    pub(super) mixed: bool,
    pub(super) capital: bool,
}

/// Calls `found` with each word of a text.
pub(super) fn words<'t>(text: &'t str, found: &mut impl FnMut(&'t str, Shape)) {
    let mut at = 0;
    while let Some(start) = next_word(text, at) {
        let rest = &text[start..];
        if rest.starts_with(unspaced) {
            let end = rest.find(|c| !unspaced(c)).unwrap_or(rest.len());
            pairs(&rest[..end], found);
            at = start + end;
            continue;
        }
        let (end, parted) = word_end(rest);
        let word = &rest[..end];
        at = start + end;
        let shape = shape(word);
        if shape.digit || shape.joined || !parted {
            found(word, shape);
        } else {
            let parts = word.split(['-', '\'', '’']).filter(|part| !part.is_empty());
            parts.for_each(|part| found(part, self::shape(part)));
        }
    }
}

/// The place of the first letter or digit from a place on.
fn next_word(text: &str, mut at: usize) -> Option<usize> {
    loop {
        let byte = *text.as_bytes().get(at)?;
        if byte.is_ascii_alphanumeric() {
            return Some(at);
        }
        let length = match text[at..].chars().next() {
            Some(c) if !byte.is_ascii() && c.is_alphanumeric() => return Some(at),
            Some(c) => c.len_utf8(),
            None => return None,
        };
        at += length;
    }
}

/// The length of the word at the beginning of a text, and whether it has hyphens or apostrophes.
fn word_end(text: &str) -> (usize, bool) {
    let bytes = text.as_bytes();
    let (mut end, mut parted) = (0, false);
    while let Some(&byte) = bytes.get(end) {
        if byte.is_ascii_alphanumeric() {
            end += 1;
        } else if byte < 0x80 {
            let next = bytes.get(end + 1).is_some_and(u8::is_ascii_alphanumeric);
            let digits = next && bytes[end + 1].is_ascii_digit();
            let joins = match byte {
                b'_' => true,
                b'-' | b'/' | b'.' | b'@' | b'\'' => next,
                b':' | b',' => digits && end > 0 && bytes[end - 1].is_ascii_digit(),
                _ => false,
            };
            if !joins {
                break;
            }
            parted |= matches!(byte, b'-' | b'\'');
            end += 1;
        } else {
            match text[end..].chars().next() {
                Some(c) if c.is_alphanumeric() && !unspaced(c) => end += c.len_utf8(),
                _ => break,
            }
        }
    }
    (end, parted)
}

fn shape(word: &str) -> Shape {
    let mut shape = Shape {
        capital: word.starts_with(char::is_uppercase),
        ..Shape::default()
    };
    // Most words have small ASCII letters only, but for the first one.
    let mut others = word.bytes().skip(usize::from(shape.capital));
    if others.all(|byte| byte.is_ascii_lowercase()) {
        shape.letter = !word.is_empty();
        return shape;
    }
    let mut previous_small = false;
    for (index, c) in word.chars().enumerate() {
        shape.digit |= c.is_ascii_digit();
        shape.letter |= c.is_alphabetic();
        shape.joined |= matches!(c, '_' | '/' | '@' | '.');
        shape.mixed |= c.is_uppercase() && (previous_small || index == 1);
        previous_small = c.is_lowercase();
    }
    shape.joined &= shape.letter;
    shape
}

/// Whether a character belongs to a script without spaces between words.
pub(super) fn unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}' | '\u{e00}'..='\u{eff}')
}

/// Every pair of neighbouring characters; a single character is a word.
fn pairs<'t>(run: &'t str, found: &mut impl FnMut(&'t str, Shape)) {
    let shape = Shape {
        letter: true,
        ..Shape::default()
    };
    let starts = run.char_indices().map(|(at, _)| at);
    let starts: Vec<usize> = starts.chain([run.len()]).collect();
    if starts.len() == 2 {
        found(run, shape);
    }
    starts
        .windows(3)
        .for_each(|w| found(&run[w[0]..w[2]], shape));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_that_are_not_stemmed_are_their_own_stems(
            start in "[a-z]{1,12}",
            ending in "(b|d|nd|g|ng|l|el|il|ol|r|ar|ir|t|at|st|m|um|c|oc|n|an|en|in|tion|a|o|u|k|p|w|x|z)?",
        ) {
            let word = format!("{start}{ending}");
            if !may_be_inflected(&word) {
                let stemmer = Stemmer::create(Algorithm::English);
                prop_assert_eq!(stemmer.stem(&word), word.as_str());
            }
        }
    }
}
