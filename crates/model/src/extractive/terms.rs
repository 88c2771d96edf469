//! Words, numbers, names and identifiers of a text, as small integers.
//!
//! English words are reduced to stems (Porter's Snowball stemmer); scripts without spaces give
//! pairs of characters. Each distinct word is stemmed once.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use rust_stemmers::{Algorithm, Stemmer};

/// A distinct stem, name, number or identifier.
pub(super) type Term = u32;

/// What a term is.
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
    /// A path, a ticket, a column: what people copy and paste.
    Identifier,
}

/// All terms seen so far.
pub(super) struct Vocabulary {
    stemmer: Stemmer,
    surfaces: HashMap<Box<str>, Term, BuildHasherDefault<Fnv>>,
    stems: HashMap<Box<str>, Term, BuildHasherDefault<Fnv>>,
    terms: Vec<Info>,
    buffer: String,
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
            surfaces: HashMap::default(),
            stems: HashMap::default(),
            terms: Vec::new(),
            buffer: String::new(),
        }
    }

    /// How many terms there are.
    pub(super) fn len(&self) -> usize {
        self.terms.len()
    }

    /// What a term is, judged by every place it was seen in.
    pub(super) fn class(&self, term: Term) -> Class {
        let info = &self.terms[term as usize];
        match info.class {
            Class::Word if info.capital > 0 && info.capital >= info.small => Class::Name,
            class => class,
        }
    }

    /// Appends the terms of a text, in order, stop words left out.
    pub(super) fn read(&mut self, text: &str, out: &mut Vec<Term>) {
        let mut first = true;
        words(text, &mut |word, shape| {
            let term = self.intern(word, shape);
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
    }

    /// Appends the terms of a text that is not part of the conversation.
    pub(super) fn look_up(&mut self, text: &str, out: &mut Vec<Term>) {
        words(text, &mut |word, shape| {
            let term = self.intern(word, shape);
            if self.terms[term as usize].class != Class::Stop {
                out.push(term);
            }
        });
    }

    fn intern(&mut self, word: &str, shape: Shape) -> Term {
        self.buffer.clear();
        if word.is_ascii() {
            self.buffer.push_str(word);
            self.buffer.make_ascii_lowercase();
        } else {
            self.buffer
                .extend(word.chars().flat_map(char::to_lowercase));
        }
        if let Some(&term) = self.surfaces.get(self.buffer.as_str()) {
            return term;
        }
        let lower = self.buffer.as_str();
        let class = class_of(lower, shape);
        let stem = match class {
            Class::Word if lower.is_ascii() && lower.len() <= 24 => self.stemmer.stem(lower),
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
        self.surfaces.insert(lower.into(), term);
        term
    }
}

/// What a word looks like.
#[derive(Clone, Copy, Default)]
pub(super) struct Shape {
    digit: bool,
    letter: bool,
    /// Contains one of `_ / @ . :` between letters or digits.
    joined: bool,
    /// An upper-case letter after a lower-case one, or two at the start.
    mixed: bool,
    capital: bool,
}

fn class_of(lower: &str, shape: Shape) -> Class {
    if shape.digit && (!shape.letter || lower.starts_with(|c: char| c.is_ascii_digit())) {
        Class::Number
    } else if shape.digit || shape.joined || (shape.mixed && lower.len() > 1) {
        Class::Identifier
    } else if STOP_WORDS.binary_search(&lower).is_ok() || lower.len() == 1 {
        Class::Stop
    } else {
        Class::Word
    }
}

/// Calls `found` with each word of a text.
fn words(text: &str, found: &mut impl FnMut(&str, Shape)) {
    let mut rest = text;
    while let Some(start) = rest.find(char::is_alphanumeric) {
        rest = &rest[start..];
        if rest.starts_with(unspaced) {
            let end = rest.find(|c| !unspaced(c)).unwrap_or(rest.len());
            pairs(&rest[..end], found);
            rest = &rest[end..];
            continue;
        }
        let end = word_end(rest);
        let word = &rest[..end];
        rest = &rest[end..];
        let shape = shape(word);
        if shape.digit || shape.joined || !word.contains(['-', '\'', '’']) {
            found(word, shape);
        } else {
            let parts = word.split(['-', '\'', '’']).filter(|part| part.len() > 1);
            parts.for_each(|part| found(part, self::shape(part)));
        }
    }
}

fn word_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut end = 0;
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
            end += 1;
        } else {
            match text[end..].chars().next() {
                Some(c) if c.is_alphanumeric() && !unspaced(c) => end += c.len_utf8(),
                _ => break,
            }
        }
    }
    end
}

fn shape(word: &str) -> Shape {
    let mut shape = Shape {
        capital: word.starts_with(char::is_uppercase),
        ..Shape::default()
    };
    let mut previous_small = false;
    for (index, c) in word.chars().enumerate() {
        shape.digit |= c.is_ascii_digit();
        shape.letter |= c.is_alphabetic();
        shape.joined |= matches!(c, '_' | '/' | '@' | '.');
        let upper = c.is_uppercase();
        shape.mixed |= upper && (previous_small || index == 1);
        previous_small = c.is_lowercase();
    }
    shape.joined &= shape.letter;
    shape
}

/// Scripts that are written without spaces between words.
fn unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}' | '\u{e00}'..='\u{eff}')
}

/// Every pair of neighbouring characters; a single character is a word.
fn pairs(run: &str, found: &mut impl FnMut(&str, Shape)) {
    let shape = Shape {
        letter: true,
        ..Shape::default()
    };
    let starts: Vec<usize> = run
        .char_indices()
        .map(|(at, _)| at)
        .chain([run.len()])
        .collect();
    if starts.len() == 2 {
        found(run, shape);
    }
    starts
        .windows(3)
        .for_each(|w| found(&run[w[0]..w[2]], shape));
}

/// The FNV-1a hash: fast on short keys, the same on every run.
#[derive(Clone, Copy)]
pub(super) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// English function words and conversational filler, sorted.
const STOP_WORDS: [&str; 200] = [
    "a",
    "about",
    "above",
    "after",
    "again",
    "all",
    "also",
    "although",
    "am",
    "an",
    "and",
    "any",
    "anyway",
    "are",
    "aren",
    "as",
    "at",
    "be",
    "because",
    "been",
    "before",
    "being",
    "both",
    "but",
    "by",
    "can",
    "cannot",
    "could",
    "couldn",
    "d",
    "did",
    "didn",
    "do",
    "does",
    "doesn",
    "doing",
    "don",
    "done",
    "down",
    "during",
    "each",
    "either",
    "else",
    "even",
    "ever",
    "few",
    "for",
    "from",
    "further",
    "get",
    "gets",
    "getting",
    "go",
    "goes",
    "going",
    "gonna",
    "got",
    "had",
    "hadn",
    "has",
    "hasn",
    "have",
    "haven",
    "having",
    "he",
    "hello",
    "her",
    "here",
    "hers",
    "hey",
    "hi",
    "him",
    "his",
    "how",
    "however",
    "i",
    "if",
    "im",
    "in",
    "into",
    "is",
    "isn",
    "it",
    "its",
    "itself",
    "just",
    "know",
    "let",
    "lets",
    "like",
    "ll",
    "look",
    "m",
    "make",
    "may",
    "maybe",
    "me",
    "might",
    "more",
    "most",
    "much",
    "my",
    "myself",
    "nice",
    "nor",
    "now",
    "of",
    "off",
    "oh",
    "ok",
    "okay",
    "on",
    "once",
    "one",
    "onto",
    "or",
    "other",
    "our",
    "ours",
    "out",
    "over",
    "own",
    "please",
    "quite",
    "rather",
    "re",
    "really",
    "right",
    "s",
    "same",
    "see",
    "she",
    "should",
    "shouldn",
    "so",
    "some",
    "something",
    "still",
    "such",
    "sure",
    "t",
    "than",
    "thank",
    "thanks",
    "that",
    "the",
    "their",
    "theirs",
    "them",
    "then",
    "there",
    "these",
    "they",
    "thing",
    "things",
    "think",
    "this",
    "those",
    "though",
    "through",
    "thus",
    "to",
    "too",
    "under",
    "until",
    "up",
    "upon",
    "us",
    "ve",
    "very",
    "want",
    "was",
    "wasn",
    "way",
    "we",
    "well",
    "were",
    "what",
    "when",
    "where",
    "whether",
    "which",
    "while",
    "who",
    "whom",
    "whose",
    "why",
    "will",
    "with",
    "within",
    "won",
    "would",
    "wouldn",
    "yeah",
    "yes",
    "yet",
    "you",
    "your",
    "yours",
    "yourself",
];
