//! The relevance of units to a question: its words in the unit, in its message, and in the
//! neighbouring messages.

mod days;

use std::collections::{BTreeMap, HashSet};

use unisono_context::Ordinal;

use super::bm25;
use super::cues::Cues;
use super::focus::Focus;
use super::pool::{Pool, Unit};
use super::readability::readability;
use super::score;
use super::split::split;
use super::terms::{Term, is_stop_word};
use super::weights::question as weights;

/// Words that ask.
const INTERROGATIVES: [&str; 8] = [
    "who", "whom", "what", "when", "where", "which", "why", "how",
];

/// Words of tasks about the conversation as a whole ("What happened last week?"). They name no
/// subject.
const GENERAL_WORDS: &str = "summary sum overview status update news new happen discuss discussed talk \
    topic open last week month today yesterday far remain left conversation chat zusammen \
    zusammenfassen zusammenfassung überblick passiert geschehen geschah woche letzte letzten monat heute \
    gestern stand neues neu besprochen beredet offen offene offenen entschieden beschlossen risiken \
    probleme aufgaben gespräch";

/// Verbs of tasks that want a text rather than an answer. They name no subject.
const WRITING_VERBS: &str = "write draft prepare compose create summarise summarize recap schreib \
    schreibe schreiben entwirf entwerfen verfasse erstelle erstellen fass fasse";

/// Words of questions that only an earlier question explains, besides common words and
/// interrogatives.
const FOLLOW_UP_WORDS: &str = "exactly precisely then that else mean genau sonst denn macht meinst";

/// Words that request an answer.
const REQUESTS: &str = "tell say show explain list know remind please";

/// Other verbs with which a sentence begins that asks.
const ASKING_VERBS: &str = "sum give find check compare name describe count help gib nenne zeig zeige \
    sag sage liste erkläre prüfe finde zähle beschreibe vergleiche";

/// The common words of the question's language, which say nothing of its subject; `None` for English.
/// The language is the one with the most common words in the question: at least two, and at least as
/// many as English has.
fn common_words(task: &str) -> Option<&'static str> {
    let words: Vec<String> = words(task).collect();
    let times = |list: &str| {
        let has = |word: &&String| has_word(list, word);
        words.iter().filter(has).count()
    };
    let english = words.iter().filter(|word| is_stop_word(word)).count();
    let most = common_word_lists().max_by_key(|list| times(list))?;
    let found = times(most);
    (found >= 2 && found >= english).then_some(most)
}

/// The common words of other languages than English, one language an item.
fn common_word_lists() -> impl Iterator<Item = &'static str> {
    let lines = include_str!("question/common_words.txt").lines();
    lines.filter(|line| !line.starts_with('#'))
}

/// The relevance of each unit to the task; `None` if the task is not a question ([`is_question`]).
/// `asked` has the units that gave the task before: only their neighbours are relevant.
pub(super) fn relevance(
    pool: &mut Pool<'_>,
    task: &str,
    asked: &HashSet<usize>,
) -> Option<Vec<f32>> {
    let focus_terms = focus_terms(pool);
    if !has_own_words(pool, task, &focus_terms) {
        return None;
    }
    let weight = |term| match focus_terms.contains(&term) {
        true => weights::FOCUS_WORD,
        false => 1.0,
    };
    let mut known = pool.known(task);
    let requests = pool.known(REQUESTS);
    let repeats: Vec<bool> = (0..pool.units.len())
        .map(|unit| is_repeated(pool, unit, &known, &requests))
        .collect();
    if let Some(common) = common_words(task) {
        let common = pool.known(common);
        known.retain(|term| !common.contains(term));
    }
    let known = known.into_iter();
    let query: Vec<(Term, f32)> = known.map(|term| (term, weight(term))).collect();
    let own_words = bm25::of_sources(pool, &query);
    let on_day = days::sources_on_named_days(pool, task);
    let of_day = weights::DAY * rarity(pool.sources, on_day.len());
    let by_author = said_by(pool, task);
    let each = own_words.iter().zip(&by_author).enumerate();
    let messages: Vec<f32> = each
        .map(|(source, (own, by))| match on_day.contains(&source) {
            true => own + by + of_day,
            false => own + by,
        })
        .collect();
    let units = bm25::of_units(pool, &query);
    let most = units.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    let talk = Talk::new(pool);
    // All messages of a day are relevant; the best of them come first.
    let worth = match on_day.is_empty() {
        true => Vec::new(),
        false => score::weigh(pool, &[], 1.0).units,
    };
    let best = worth.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    let worth_of = |unit: usize| match on_day.contains(&pool.units[unit].source) {
        true => (worth[unit] / best).max(0.0).sqrt(),
        false => 1.0,
    };
    let each = pool.units.iter().zip(&units).enumerate();
    let each = each.map(|(index, (unit, own))| {
        let beside = talk.beside(unit.source, &messages);
        let message = messages[unit.source] + beside.relevance;
        let decides = unit.cues.intersects(Cues::DECISION.with(Cues::CHANGE));
        let replies =
            beside.is_answer || beside.follows && (decides || by_author[unit.source] > 0.0);
        // In a reply without words of the question no unit is better than another.
        let own = match own_words[unit.source] > 0.0 {
            false if replies || on_day.contains(&unit.source) => 1.0,
            _ => 1.0 - weights::UNIT_SHARE + weights::UNIT_SHARE * own / most,
        };
        let asks = match unit.cues {
            _ if repeats[index] || asked.contains(&index) => 0.0,
            cues if cues.intersects(Cues::OFFER) => 0.0,
            cues if cues.intersects(Cues::QUESTION) => weights::ASKS_ITSELF,
            _ => 1.0,
        };
        message * own * asks * readability(pool, index).sqrt() * worth_of(index)
    });
    Some(each.collect())
}

/// The order of the sources, and which of them ask something.
struct Talk {
    ordinals: Vec<Option<Ordinal>>,
    asks: Vec<bool>,
}

impl Talk {
    fn new(pool: &Pool<'_>) -> Talk {
        let mut talk = Talk {
            ordinals: vec![None; pool.sources],
            asks: vec![false; pool.sources],
        };
        for unit in &pool.units {
            talk.ordinals[unit.source] = unit.ordinal;
            talk.asks[unit.source] |= unit.cues.intersects(Cues::QUESTION);
        }
        talk
    }

    /// What a message has of the relevance of the messages beside it: more if it answers a question.
    fn beside(&self, source: usize, messages: &[f32]) -> Beside {
        let relevance = |at: Option<usize>| {
            let at = at?;
            let (this, other) = (self.ordinals[source]?, (*self.ordinals.get(at)?)?);
            (this.0.abs_diff(other.0) <= 1).then_some((messages[at], self.asks[at]))
        };
        let (before, asks) = relevance(source.checked_sub(1)).unwrap_or_default();
        let (after, _) = relevance(Some(source + 1)).unwrap_or_default();
        let is_answer = asks && before > 0.0 && !self.asks[source];
        let share = match is_answer {
            true => weights::ANSWER,
            false => weights::NEIGHBOUR,
        };
        Beside {
            relevance: (share * before).max(weights::NEIGHBOUR * after),
            follows: before > 0.0,
            is_answer,
        }
    }
}

/// What a message has of the messages beside it.
struct Beside {
    relevance: f32,
    /// Whether the message before it is relevant.
    follows: bool,
    /// Whether the message before it is a relevant question, and this one is not a question.
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
fn rarity(all: usize, n: usize) -> f32 {
    let (all, n) = (all as f32, n as f32);
    ((all - n + 0.5) / (n + 0.5) + 1.0).ln()
}

/// Whether a unit is the same question, asked earlier: it has the words of the question and at most
/// one other, or words that request an answer.
fn is_repeated(pool: &Pool<'_>, unit: usize, question: &[Term], requests: &[Term]) -> bool {
    let Unit { text, cues, .. } = &pool.units[unit];
    let is_new = |term: &&Term| !question.contains(term);
    let mut others = pool.terms(unit).iter().filter(is_new);
    if cues.intersects(Cues::QUESTION) {
        return others.count() <= 1;
    }
    let asks = |word: &str| {
        INTERROGATIVES
            .iter()
            .any(|one| word.eq_ignore_ascii_case(one))
    };
    text.split_whitespace().any(asks) && others.all(|term| requests.contains(term))
}

/// The sentences of a task that state something: they neither ask nor request anything.
pub(super) fn statements(task: &str) -> Vec<&str> {
    let asks = |sentence: &str| {
        let begins_so = |word: String| {
            INTERROGATIVES.contains(&word.as_str())
                || [WRITING_VERBS, REQUESTS, ASKING_VERBS]
                    .iter()
                    .any(|list| has_word(list, &word))
        };
        sentence.ends_with('?') || words(sentence).next().is_some_and(begins_so)
    };
    let sentences = split(task).into_iter().map(|span| &task[span.range]);
    sentences.filter(|sentence| !asks(sentence)).collect()
}

/// See [`super::is_question`].
pub(super) fn is_question(task: &str) -> bool {
    let mut pool = Pool::new();
    let focus_terms = focus_terms(&mut pool);
    has_own_words(&mut pool, task, &focus_terms)
}

/// See [`super::is_follow_up`].
pub(super) fn is_follow_up(task: &str) -> bool {
    let mut others = words(task).filter(|word| {
        !is_stop_word(word)
            && !INTERROGATIVES.contains(&word.as_str())
            && !has_word(FOLLOW_UP_WORDS, word)
            && !common_word_lists().any(|list| has_word(list, word))
    });
    let asks = |word: String| INTERROGATIVES.contains(&word.as_str());
    others.next().is_none() && (task.contains('?') || words(task).any(asks))
}

/// Whether a task asks for a text, such as `Draft a reply to Anna`.
pub(super) fn is_writing_task(task: &str) -> bool {
    words(task).any(|word| has_word(WRITING_VERBS, &word))
}

/// The words of a text in lower case.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

fn has_word(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|one| one == word)
}

/// Whether a task has words of a subject, and at most half of them are keywords of a focus.
fn has_own_words(pool: &mut Pool<'_>, task: &str, focus_terms: &[Term]) -> bool {
    let mut general = pool.terms_of(GENERAL_WORDS);
    general.extend(pool.terms_of(WRITING_VERBS));
    let common = common_words(task)
        .map(|words| pool.terms_of(words))
        .unwrap_or_default();
    let mut words = pool.terms_of(task);
    words.retain(|term| {
        focus_terms.contains(term) || !general.contains(term) && !common.contains(term)
    });
    let of_focus = words
        .iter()
        .filter(|term| focus_terms.contains(term))
        .count();
    words.len() > of_focus && words.len() >= 2 * of_focus
}

/// The terms of the focus keywords: they say little about the subject of a question.
fn focus_terms(pool: &mut Pool<'_>) -> Vec<Term> {
    Focus::words()
        .flat_map(|word| pool.terms_of(word))
        .collect()
}
