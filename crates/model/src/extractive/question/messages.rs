//! The relevance of whole messages to a question: their words, their speaker, their day, and the
//! messages beside them.

use std::collections::{HashMap, HashSet};

use unisono_context::Ordinal;

use super::days;
use super::weights;
use crate::extractive::bm25::{self, Query};
use crate::extractive::cues::Cues;
use crate::extractive::passage::PassageKind;
use crate::extractive::pool::{Pool, Unit};
use crate::extractive::score;

/// What is known of each source with regard to a question.
pub(super) struct Messages {
    /// BM25 of its words, and the gain of its facts.
    own_words: Vec<f32>,
    /// What it gains by its speaker.
    by_author: Vec<f32>,
    /// The sources of the days that the question names.
    on_day: HashSet<usize>,
    /// All of these together.
    relevance: Vec<f32>,
    /// The worth of each unit in general, from 0 to 1, if the question names days.
    worth: Vec<f32>,
    talk: Talk,
}

impl Messages {
    /// `by_kind`: what each unit gains by the kinds of its facts.
    pub(super) fn new(pool: &mut Pool<'_>, task: &str, query: &Query, by_kind: &[f32]) -> Messages {
        let mut own_words = bm25::of_sources(pool, query);
        let mut most = vec![0.0_f32; pool.sources];
        for (unit, gain) in pool.units.iter().zip(by_kind) {
            most[unit.source] = most[unit.source].max(*gain);
        }
        own_words
            .iter_mut()
            .zip(most)
            .for_each(|(own, gain)| *own += gain);
        let by_author = said_by(pool, task);
        let on_day = days::sources_on_named_days(pool, task);
        let of_day = weights::DAY * rarity(pool.sources, on_day.len());
        let each = own_words.iter().zip(&by_author).enumerate();
        let relevance = each
            .map(|(source, (own, by))| match on_day.contains(&source) {
                true => own + by + of_day,
                false => own + by,
            })
            .collect();
        let worth = match on_day.is_empty() {
            true => Vec::new(),
            false => bm25::normalised(score::weigh(pool, &[], 1.0).units),
        };
        Messages {
            own_words,
            by_author,
            on_day,
            relevance,
            worth,
            talk: Talk::new(pool),
        }
    }

    /// The relevance of the message of a unit, and whether all its units have it: it has no words of
    /// the question, and replies to a relevant message, or is of a named day.
    pub(super) fn relevance(&self, unit: &Unit<'_>) -> (f32, bool) {
        let source = unit.source;
        let (beside, follows, is_answer) = self.talk.of_neighbours(source, &self.relevance);
        let decides = unit.cues.intersects(Cues::DECISION.with(Cues::CHANGE));
        let replies = is_answer || follows && (decides || self.by_author[source] > 0.0);
        let is_same = replies || self.on_day.contains(&source);
        let value = self.relevance[source] + beside;
        (value, is_same && self.own_words[source] <= 0.0)
    }

    /// The factor of a unit by its day: the best units of the named days come first. 1 if the question
    /// names no day.
    pub(super) fn day_factor(&self, unit: &Unit<'_>, index: usize) -> f32 {
        match self.on_day.contains(&unit.source) {
            true => self.worth[index].max(0.0).sqrt(),
            false => 1.0,
        }
    }
}

/// The order of the sources, and which of them end with a question, a call or a proposal to somebody
/// else.
struct Talk {
    ordinals: Vec<Option<Ordinal>>,
    asks: Vec<bool>,
    /// Whether the next source is the reply of somebody else to a proposal in this one.
    proposes: Vec<bool>,
}

impl Talk {
    fn new(pool: &Pool<'_>) -> Talk {
        let mut talk = Talk {
            ordinals: vec![None; pool.sources],
            asks: vec![false; pool.sources],
            proposes: vec![false; pool.sources],
        };
        let mut speakers = vec![""; pool.sources];
        for unit in &pool.units {
            talk.ordinals[unit.source] = unit.ordinal;
            talk.asks[unit.source] =
                unit.cues.intersects(Cues::QUESTION) || unit.kind == PassageKind::ToolCall;
            talk.proposes[unit.source] |= unit.cues.intersects(Cues::PROPOSAL);
            speakers[unit.source] = unit.speaker;
        }
        for (source, pair) in speakers.windows(2).enumerate() {
            talk.proposes[source] &= pair[0] != pair[1];
        }
        talk
    }

    /// The message before another.
    fn before(&self, source: usize) -> Option<usize> {
        let before = source.checked_sub(1)?;
        let (this, earlier) = (*self.ordinals.get(source)?, self.ordinals[before]?);
        (this?.0.abs_diff(earlier.0) <= 1).then_some(before)
    }

    /// The relevance that a message gets from the messages beside it; whether the one before it is
    /// relevant; and whether it answers that one, a question or a proposal of somebody else.
    fn of_neighbours(&self, source: usize, messages: &[f32]) -> (f32, bool, bool) {
        let relevance = |at: Option<usize>| at.map_or(0.0, |at| messages[at]);
        let before = self.before(source);
        let asks = before.is_some_and(|at| self.asks[at]);
        // A question is also about what was said before it.
        let earlier = relevance(before.filter(|_| asks).and_then(|at| self.before(at)));
        let before = relevance(before) + weights::NEIGHBOUR * earlier;
        let after = relevance(self.before(source + 1).map(|_| source + 1));
        let replies = source.checked_sub(1).is_some_and(|at| self.proposes[at]);
        let is_answer = (asks && !self.asks[source] || replies) && before > 0.0;
        let share = match is_answer {
            true => weights::ANSWER,
            false => weights::NEIGHBOUR,
        };
        let relevance = (share * before).max(weights::NEIGHBOUR * after);
        (relevance, before > 0.0, is_answer)
    }
}

/// What each source gains if the question names its speaker: a question about a person is answered
/// by that person rather than in messages to them.
fn said_by(pool: &Pool<'_>, task: &str) -> Vec<f32> {
    let asked: Vec<String> = super::words(task).collect();
    // Also the possessive of a German name: `Friedas`.
    let is = |asked: &String, name: &str| asked.trim_end_matches('s') == name.trim_end_matches('s');
    let is_named = |name: String| asked.iter().any(|asked| is(asked, &name));
    let mut speakers = vec![""; pool.sources];
    let people = pool
        .units
        .iter()
        .filter(|unit| unit.speaker != unit.role.name());
    people.for_each(|unit| speakers[unit.source] = unit.speaker);
    let mut times: HashMap<&str, usize> = HashMap::new();
    speakers
        .iter()
        .for_each(|speaker| *times.entry(speaker).or_default() += 1);
    let gain = |speaker: &&str| match super::words(speaker).any(is_named) {
        true => weights::SPEAKER * rarity(pool.sources, times[speaker]),
        false => 0.0,
    };
    speakers.iter().map(gain).collect()
}

/// The weight of something that `n` of all sources have: the inverse document frequency of BM25.
pub(super) fn rarity(all: usize, n: usize) -> f32 {
    let (all, n) = (all as f32, n as f32);
    ((all - n + 0.5) / (n + 0.5) + 1.0).ln()
}
