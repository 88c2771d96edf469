//! The units that compete for room: from the messages and from an earlier summary.

use std::ops::Deref;

use unisono_context::{Ordinal, Role, Timestamp};

use super::cues::{Cues, Demand};
use super::passage::{Passage, PassageKind};
use super::question::common_words;
use super::section::Section;
use super::split::{Block, split};
use super::telegraphic::DroppedWords;
use super::terms::{Class, Term, Vocabulary};

/// A unit that can be quoted.
#[derive(Clone, Debug)]
pub(super) struct Unit<'a> {
    pub(super) text: &'a str,
    /// Units of one source are from one text and can share a line.
    pub(super) source: usize,
    /// Its position among the units of its source.
    pub(super) place: usize,
    /// Whether it begins a line of its source.
    pub(super) starts_line: bool,
    /// Whether it continues a sentence that is too long for one unit.
    pub(super) continues: bool,
    /// What it has in common with the other units of its source.
    common: Source<'a>,
    pub(super) block: Block,
    pub(super) cues: Cues,
    /// What it or its message asks for.
    pub(super) demand: Demand,
    /// Estimated tokens.
    pub(super) tokens: f32,
    terms: (u32, u32),
}

impl<'a> Deref for Unit<'a> {
    type Target = Source<'a>;

    fn deref(&self) -> &Source<'a> {
        &self.common
    }
}

impl Unit<'_> {
    /// Whether the speaker has a name, as people who talk to each other have.
    pub(super) fn is_named(&self) -> bool {
        self.speaker != self.role.name()
    }
}

/// The common properties of the units of a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    /// The message; `None` for a line of an earlier summary without a number.
    pub(super) ordinal: Option<Ordinal>,
    pub(super) at: Option<Timestamp>,
    pub(super) role: Role,
    pub(super) speaker: &'a str,
    pub(super) kind: PassageKind,
    /// Whether it is a line of an earlier summary, and its section there.
    pub(super) prior: bool,
    pub(super) section: Option<Section>,
    /// Whether it is the line of a tool result's outcome.
    pub(super) is_outcome: bool,
    /// Whether it is of a call that failed. It is never quoted.
    pub(super) is_failed_call: bool,
}

impl<'a> Source<'a> {
    fn of_passage(passage: &'a Passage<'_>) -> Source<'a> {
        Source {
            ordinal: Some(passage.ordinal),
            at: Some(passage.at),
            role: passage.role,
            speaker: passage.speaker(),
            kind: passage.kind,
            prior: false,
            section: None,
            is_outcome: false,
            is_failed_call: false,
        }
    }
}

/// Sentences of a message with at most so many units have what any of them asks for.
const SHORT_MESSAGE: usize = 8;
/// The bytes of a conversation from which its language is detected.
const SAMPLE_BYTES: usize = 20_000;

/// All units with their terms.
pub(super) struct Pool<'a> {
    pub(super) units: Vec<Unit<'a>>,
    pub(super) vocabulary: Vocabulary,
    pub(super) sources: usize,
    /// The words that quotes drop, if any.
    pub(super) dropped_words: Option<DroppedWords>,
    terms: Vec<Term>,
}

impl<'a> Pool<'a> {
    pub(super) fn new() -> Pool<'a> {
        Pool {
            units: Vec::new(),
            vocabulary: Vocabulary::new(),
            sources: 0,
            dropped_words: None,
            terms: Vec::new(),
        }
    }

    /// Adds the units of a passage, whose text may have been redacted. The words of a failed call
    /// count, but it is not quoted.
    pub(super) fn add_passage(
        &mut self,
        passage: &'a Passage<'_>,
        text: &'a str,
        is_failed_call: bool,
    ) {
        let source = Source {
            is_failed_call,
            ..Source::of_passage(passage)
        };
        self.add(source, &[[text]]);
    }

    /// Adds the line of a tool result's outcome.
    pub(super) fn add_outcome(&mut self, passage: &'a Passage<'_>, line: &'a str) {
        let source = Source {
            is_outcome: true,
            ..Source::of_passage(passage)
        };
        self.add(source, &[[line]]);
    }

    /// Adds a source: pieces of text that are not adjacent, each as texts of adjacent lines.
    pub(super) fn add<S: AsRef<[&'a str]>>(&mut self, source: Source<'a>, stretches: &[S]) {
        let (mut place, first) = (0, self.units.len());
        for stretch in stretches {
            for &lines in stretch.as_ref() {
                self.add_lines(source, lines, &mut place);
            }
            place += 1;
        }
        self.share_demands(first);
        self.sources += 1;
    }

    /// Adds the units of a text from a place on.
    fn add_lines(&mut self, source: Source<'a>, lines: &'a str, place: &mut usize) {
        let mut end = 0;
        for span in split(lines) {
            let between = &lines[end..span.range.start];
            // Text without content is not a unit, but it separates its neighbours.
            *place += usize::from(!span.starts_line && !between.trim().is_empty());
            end = span.range.end;
            let text = &lines[span.range];
            let (terms, of_words) = self.read(text);
            self.units.push(Unit {
                text,
                source: self.sources,
                place: *place,
                starts_line: span.starts_line,
                continues: span.continues,
                common: source,
                block: span.block,
                cues: Cues::detect(text).with(of_words),
                demand: match source.kind {
                    PassageKind::Text => Demand::detect(text),
                    _ => Demand::None,
                },
                tokens: estimate_tokens(text),
                terms,
            });
            *place += 1;
        }
    }

    /// Gives all units of the last source, if it is short, what one of them asks for.
    fn share_demands(&mut self, first: usize) {
        let added = &mut self.units[first..];
        if added.len() > SHORT_MESSAGE {
            return;
        }
        let most = added.iter().map(|unit| unit.demand).max();
        let most = most.unwrap_or_default();
        added.iter_mut().for_each(|unit| unit.demand = most);
    }

    /// Stores the distinct terms of a text, sorted. Returns their place and the cues of the words.
    fn read(&mut self, text: &str) -> ((u32, u32), Cues) {
        let mut terms = Vec::new();
        let cues = self.vocabulary.read(text, &mut terms);
        terms.sort_unstable();
        terms.dedup();
        let from = self.terms.len() as u32;
        self.terms.extend(terms);
        ((from, self.terms.len() as u32), cues)
    }

    /// The distinct terms of a unit, sorted.
    pub(super) fn terms(&self, unit: usize) -> &[Term] {
        let (from, to) = self.units[unit].terms;
        &self.terms[from as usize..to as usize]
    }

    /// Whether a unit has a term of that class.
    pub(super) fn has_class(&self, unit: usize, class: Class) -> bool {
        let mut terms = self.terms(unit).iter();
        terms.any(|&term| self.vocabulary.class(term) == class)
    }

    /// The names, numbers and ids of a unit.
    pub(super) fn specific_terms(&self, unit: usize) -> impl Iterator<Item = Term> {
        let terms = self.terms(unit).iter().copied();
        terms.filter(move |&term| {
            let class = self.vocabulary.class(term);
            matches!(class, Class::Name | Class::Number | Class::Identifier)
        })
    }

    /// The common words of the language of most texts; `None` for English.
    pub(super) fn common_words(&self) -> Option<&'static str> {
        common_words(&self.sample())
    }

    /// The words that telegraphic quotes drop in the language of most texts. Without a `the`, that may be a
    /// language without a list, in which `a` is no article.
    pub(super) fn droppable_words(&self) -> DroppedWords {
        let sample = self.sample().to_lowercase();
        let common = common_words(&sample);
        let mut words = sample.split(|c: char| !c.is_alphanumeric());
        match common.is_some() || words.any(|word| word == "the") {
            true => DroppedWords::of_language(common),
            false => DroppedWords::default(),
        }
    }

    /// The beginning of the texts.
    fn sample(&self) -> String {
        let mut sample = String::new();
        for unit in &self.units {
            if sample.len() > SAMPLE_BYTES {
                break;
            }
            sample.extend([unit.text, " "]);
        }
        sample
    }

    /// The distinct terms of a text, sorted.
    pub(super) fn terms_of(&mut self, text: &str) -> Vec<Term> {
        let mut terms = Vec::new();
        self.vocabulary.look_up(text, &mut terms);
        terms.sort_unstable();
        terms.dedup();
        terms
    }

    /// The distinct terms of a text that are in the pool, sorted.
    pub(super) fn known(&mut self, text: &str) -> Vec<Term> {
        let known = self.vocabulary.len() as Term;
        let mut terms = self.terms_of(text);
        terms.retain(|&term| term < known);
        terms
    }
}

/// A rough estimate of the tokens of a text, for comparing units. The final text is counted
/// exactly.
pub(super) fn estimate_tokens(text: &str) -> f32 {
    let (mut tokens, mut letters, mut digits) = (0.0_f32, 0_u32, 0_u32);
    let mut wide = 0_u32;
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => letters += 1,
            b'0'..=b'9' => digits += 1,
            0x80.. => wide += 1,
            _ => {
                tokens += word_tokens(letters, digits);
                (letters, digits) = (0, 0);
                tokens += if byte == b' ' { 0.0 } else { 0.8 };
            }
        }
    }
    tokens + word_tokens(letters, digits) + wide as f32 * 0.35
}

fn word_tokens(letters: u32, digits: u32) -> f32 {
    let letters = if letters == 0 {
        0.0
    } else {
        0.85 + letters.saturating_sub(4) as f32 * 0.08
    };
    letters + digits.div_ceil(3) as f32
}
