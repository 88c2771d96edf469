//! The relevance of whole messages to a question: their words, their speaker, their day, and the
//! messages beside them.

use std::collections::{BTreeMap, HashSet};

use unisono_context::Ordinal;

use super::days;
use super::weights;
use crate::extractive::cues::Cues;
use crate::extractive::passage::PassageKind;
use crate::extractive::pool::{Pool, Unit};
use crate::extractive::terms::Term;
use crate::extractive::{bm25, score};

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

/// The relevance of a message to the question.
pub(super) struct MessageRelevance {
    pub(super) value: f32,
    /// Whether all units of the message have this relevance: it has no words of the question, and
    /// replies to a relevant message, or is of a named day.
    pub(super) is_same_for_all_units: bool,
}

impl Messages {
    /// `by_kind`: what each unit gains by the kinds of its facts.
    pub(super) fn new(
        pool: &mut Pool<'_>,
        task: &str,
        query: &[(Term, f32)],
        by_kind: &[f32],
    ) -> Messages {
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
        let mut worth = match on_day.is_empty() {
            true => Vec::new(),
            false => score::weigh(pool, &[], 1.0).units,
        };
        let best = worth.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
        worth.iter_mut().for_each(|worth| *worth /= best);
        Messages {
            own_words,
            by_author,
            on_day,
            relevance,
            worth,
            talk: Talk::new(pool),
        }
    }

    /// The relevance of the message of a unit.
    pub(super) fn relevance(&self, unit: &Unit<'_>) -> MessageRelevance {
        let source = unit.source;
        let beside = self.talk.of_neighbours(source, &self.relevance);
        let decides = unit.cues.intersects(Cues::DECISION.with(Cues::CHANGE));
        let replies =
            beside.is_answer || beside.follows && (decides || self.by_author[source] > 0.0);
        MessageRelevance {
            value: self.relevance[source] + beside.relevance,
            is_same_for_all_units: self.own_words[source] <= 0.0
                && (replies || self.on_day.contains(&source)),
        }
    }

    /// The factor of a unit by its day: the best units of the named days come first. 1 if the question
    /// names no day.
    pub(super) fn day_factor(&self, unit: &Unit<'_>, index: usize) -> f32 {
        match self.on_day.contains(&unit.source) {
            true => self.worth[index].max(0.0).sqrt(),
            false if self.on_day.is_empty() => 1.0,
            false => weights::ANOTHER_DAY,
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

    /// The relevance that a message gets from the messages beside it: more if it answers a question
    /// or a proposal.
    fn of_neighbours(&self, source: usize, messages: &[f32]) -> OfNeighbours {
        let relevance = |at: Option<usize>| {
            let at = at?;
            let (this, other) = (self.ordinals[source]?, (*self.ordinals.get(at)?)?);
            (this.0.abs_diff(other.0) <= 1).then_some((messages[at], self.asks[at]))
        };
        let (before, asks) = relevance(source.checked_sub(1)).unwrap_or_default();
        let (after, _) = relevance(Some(source + 1)).unwrap_or_default();
        let replies = source.checked_sub(1).is_some_and(|at| self.proposes[at]);
        let is_answer = (asks && !self.asks[source] || replies) && before > 0.0;
        let share = match is_answer {
            true => weights::ANSWER,
            false => weights::NEIGHBOUR,
        };
        OfNeighbours {
            relevance: (share * before).max(weights::NEIGHBOUR * after),
            follows: before > 0.0,
            is_answer,
        }
    }
}

/// The relevance that a message gets from the messages beside it.
struct OfNeighbours {
    relevance: f32,
    /// Whether the message before it is relevant.
    follows: bool,
    /// Whether the message before it is a relevant question, and this one is not a question; or a
    /// relevant proposal of somebody else.
    is_answer: bool,
}

/// What each source gains if the question names its speaker: a question about a person is answered
/// by that person rather than in messages to them.
fn said_by(pool: &mut Pool<'_>, task: &str) -> Vec<f32> {
    let mut speakers: Vec<Option<&str>> = vec![None; pool.sources];
    for unit in &pool.units {
        let named = unit.speaker != unit.role.name() && !unit.speaker.is_empty();
        speakers[unit.source] = named.then_some(unit.speaker);
    }
    // In a fixed order, because the vocabulary numbers new terms in the order of their appearance.
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for speaker in speakers.iter().flatten() {
        *times.entry(speaker).or_default() += 1;
    }
    let words = pool.terms_of(task);
    let sources = pool.sources;
    let mut gain = |speaker: &str, n: usize| {
        let is_named = pool
            .terms_of(speaker)
            .iter()
            .any(|term| words.contains(term));
        match is_named {
            true => weights::SPEAKER * rarity(sources, n),
            false => 0.0,
        }
    };
    let gains: BTreeMap<&str, f32> = times
        .into_iter()
        .map(|(name, n)| (name, gain(name, n)))
        .collect();
    let of = |speaker: &Option<&str>| {
        speaker
            .and_then(|name| gains.get(name).copied())
            .unwrap_or(0.0)
    };
    speakers.iter().map(of).collect()
}

/// The weight of something that `n` of all sources have: the inverse document frequency of BM25.
pub(super) fn rarity(all: usize, n: usize) -> f32 {
    let (all, n) = (all as f32, n as f32);
    ((all - n + 0.5) / (n + 0.5) + 1.0).ln()
}
