//! Answers with quotes: first the best matches for the task's own words, then what the agent looks
//! for.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt::Write as _;

use unisono_context::{Role, Tokens, attachment};

use super::bm25::Query;
use super::corrections::{Correction, Strength, corrections};
use super::cues::Cues;
use super::fit::Fitted;
use super::focus::Focus;
use super::outcomes::failed_calls;
use super::passage::{Passage, PassageKind};
use super::pool::Pool;
use super::question::Relevance;
use super::quote::{quotable_text, quote};
use super::readability::{companion, is_readable};
use super::score::when;
use super::select::{Worth, choose};
use super::summary::quoted;
use super::weights::{self, relevance};
use super::{Answer, AnswerInput, bm25, prior, question, render, score};
use crate::date::utc_date;
use crate::redact::redact;

/// The answer if nothing is relevant.
const NOTHING: &str = "Nothing in the conversation speaks to this.";
/// Separates two sections.
const BETWEEN: &str = "\n\n";
/// The answer if no message has the words of the question, and the beginning of a note about some of
/// them.
pub(super) const UNKNOWN: &str = "No message has the words of this question.";
pub(super) const MISSING: &str = "No message has these words of the question: ";
/// The maximum number of quotes below that note.
const NEAREST: usize = 3;
/// The number of focuses of an agent that looks for everything.
const GENERALIST: usize = 5;
/// The number of best quotes for which corrections are searched, and the maximum number of these.
const CORRECTED: usize = 3;
const CORRECTIONS: usize = 2;
/// The maximum number of quotes; more would be a worse answer.
const MAX_QUOTES: usize = 14;

/// Answers a task with quotes from the conversation.
pub fn answer(input: &AnswerInput<'_>) -> Answer {
    let texts: Vec<Cow<'_, str>> = input.passages.iter().map(quotable_text).collect();
    let earlier: Vec<Cow<'_, str>> = input.summaries.iter().map(|s| redact(s.text)).collect();
    let mut pool = Pool::new();
    for (text, summary) in earlier.iter().zip(input.summaries) {
        prior::add(&mut pool, text, summary.last);
    }
    let unquoted = add_passages(&mut pool, input.passages, &texts, input.task);
    // A text such as a release note is written from all messages, not only from those with the words
    // of the task.
    let is_writing_task = question::is_writing_task(input.task);
    let mut found = question::relevance(&mut pool, input.task, &unquoted)
        .filter(|found| !is_writing_task || found.best() > 0.0);
    if let Some(found) = found.as_mut().filter(|_| is_writing_task) {
        found.missing.clear();
    }
    let focus = FocusList::new(input, found.is_some());
    let only_answer = focus.focuses.is_empty() && !is_writing_task;
    let room = match only_answer {
        true => input.cap.0,
        false => input.cap.0 / 2,
    };
    let first = found.as_ref();
    let mut sections =
        first.map_or_else(Vec::new, |found| first_sections(&pool, found, room, input));
    let is_unknown = sections.first().is_some_and(|one| one.units.is_empty());
    let is_unrelated = first.is_some_and(|found| found.best() <= 0.0);
    let mut requested = Focus::detect(input.task);
    // The cause of one thing is not the cause of another.
    requested.retain(|focus| !is_unrelated || *focus != Focus::Causes);
    if found.is_some() && (only_answer || is_unknown && requested.is_empty()) {
        return joined(&pool, sections, input);
    }
    let mut worth = worth(&mut pool, input, &focus);
    if let Some(found) = found.filter(|_| !is_writing_task) {
        exclude_unrelated(&mut worth, &found, |unit| focus.score(&pool, unit));
    }
    let best = worth.units.iter().copied().fold(0.0, f32::max);
    let quoted = sections.iter().flat_map(|one| one.units.iter().copied());
    let quoted: Vec<usize> = quoted.collect();
    for (unit, worth) in worth.units.iter_mut().enumerate() {
        let is_quoted = |&known: &usize| is_repetition(&pool, known, unit);
        if unquoted.contains(&unit) || quoted.iter().any(is_quoted) {
            *worth = 0.0;
        }
    }
    let between = (input.count)(BETWEEN);
    let taken: u64 = sections.iter().map(|one| one.tokens + between).sum();
    let room = input.cap.0.saturating_sub(taken);
    let mut chosen = choose(&pool, &worth, weights::ANSWER, room as f32);
    chosen.retain(|&unit| worth.units[unit] >= relevance::OF_THE_BEST * best);
    chosen.truncate(MAX_QUOTES);
    sections.extend(section(&pool, (chosen, None), focus.title, room, input));
    joined(&pool, sections, input)
}

/// Excludes the units that do not bear on the question. If no unit does, the agent's focus alone
/// decides: those with a score stay.
fn exclude_unrelated(worth: &mut Worth, found: &Relevance, score: impl Fn(usize) -> f32) {
    let best = found.best();
    let least = weights::question::BEARING * best;
    for (unit, worth) in worth.units.iter_mut().enumerate() {
        let stays = match best > 0.0 {
            true => found.units[unit] >= least,
            false => score(unit) > 0.0,
        };
        if !stays {
            *worth = 0.0;
        }
    }
}

/// Adds the passages. Returns the units of the pool that are not quoted: the question itself, calls that
/// failed, and notes of attachments.
fn add_passages<'p>(
    pool: &mut Pool<'p>,
    passages: &'p [Passage<'_>],
    texts: &'p [Cow<'_, str>],
    task: &str,
) -> HashSet<usize> {
    let mut unquoted = HashSet::new();
    let failed = failed_calls(passages);
    for ((passage, text), is_failed) in passages.iter().zip(texts).zip(failed) {
        let first = pool.units.len();
        pool.add_passage(passage, text, is_failed);
        let added = first..pool.units.len();
        if is_failed || passage.kind == PassageKind::Attachment {
            unquoted.extend(added.clone());
        }
        // The task may have been given before. Only its statements can be part of the answer.
        if passage.role == Role::User && text.trim() == task.trim() {
            let statements = question::statements(text);
            unquoted.extend(added.filter(|&unit| !statements.contains(&pool.units[unit].text)));
        }
    }
    // Summaries and found messages have notes in their text.
    let notes = pool.units.iter().enumerate();
    let notes = notes.filter(|(_, unit)| attachment::is_note(unit.text));
    unquoted.extend(notes.map(|(at, _)| at));
    unquoted
}

/// The quotes that answer the question best, or a note that no message has its words; nothing if
/// neither fits. If no message has some of them, a note says so above the nearest quotes.
fn first_sections(
    pool: &Pool<'_>,
    found: &Relevance,
    room: u64,
    input: &AnswerInput<'_>,
) -> Vec<Fitted> {
    let cap = room.min(weights::question::TOKENS);
    if found.best() <= 0.0 {
        return note(UNKNOWN.to_owned(), input).into_iter().collect();
    }
    if found.missing.is_empty() {
        let chosen = best_quotes(pool, found, usize::MAX, cap);
        let answer = section(pool, chosen, "Answer", cap, input);
        return answer.into_iter().collect();
    }
    let text = format!("{MISSING}{}.", found.missing.join(", "));
    let Some(note) = note(text, input) else {
        return Vec::new();
    };
    let left = cap.saturating_sub(note.tokens + (input.count)(BETWEEN));
    let chosen = best_quotes(pool, found, NEAREST, left);
    let nearest = section(pool, chosen, "Nearest messages", left, input);
    std::iter::once(note).chain(nearest).collect()
}

/// A section without quotes, if it fits.
fn note(text: String, input: &AnswerInput<'_>) -> Option<Fitted> {
    let tokens = (input.count)(&text);
    (tokens <= input.cap.0).then(|| Fitted {
        text,
        tokens,
        units: Vec::new(),
    })
}

/// At most so many of the most relevant units in so many tokens, with the statements that correct them,
/// and the unit that stands first.
fn best_quotes(
    pool: &Pool<'_>,
    found: &Relevance,
    most: usize,
    cap: u64,
) -> (Vec<usize>, Option<usize>) {
    let (least, found) = (found.best() * weights::question::OF_THE_BEST, &found.units);
    let answers = |&unit: &usize| found[unit] > least;
    let mut order: Vec<usize> = (0..found.len()).filter(answers).collect();
    order.sort_by(|&one, &other| found[other].total_cmp(&found[one]));
    let mut room = cap as f32;
    let mut chosen: Vec<usize> = Vec::new();
    for unit in order {
        if chosen.len() >= most {
            break;
        }
        if chosen.iter().any(|&known| is_repetition(pool, known, unit)) {
            continue;
        }
        room -= pool.units[unit].tokens;
        if room <= 0.0 {
            break;
        }
        chosen.push(unit);
    }
    // They may have no word of the question.
    let mut corrections = corrections(pool, &chosen[..chosen.len().min(CORRECTED)]);
    corrections.sort_unstable_by_key(|one| Reverse(one.by));
    corrections.truncate(CORRECTIONS);
    let leading = chosen.first().map(|&best| {
        let replaces = |one: &&Correction| one.of == best && one.strength >= Strength::Differs;
        corrections.iter().find(replaces).map_or(best, |one| one.by)
    });
    // The last quotes are dropped if there is too little room.
    let after = chosen.len().min(CORRECTED);
    let mut by: Vec<usize> = corrections.iter().map(|one| one.by).collect();
    by.retain(|unit| !chosen.contains(unit));
    by.dedup();
    chosen.splice(after..after, by);
    (chosen, leading)
}

/// Whether another unit has the same words, or all of them in the same message, or is the same quote:
/// the message and its summary may both be in the pool, and the summary has the date after `yesterday`.
fn is_repetition(pool: &Pool<'_>, known: usize, unit: usize) -> bool {
    let (terms, others) = (pool.terms(unit), pool.terms(known));
    let of_one = pool.units[known].ordinal == pool.units[unit].ordinal;
    let is_covered = || terms.iter().all(|term| others.contains(term));
    let quote_of = |unit: usize| {
        let mut text = String::new();
        quote(pool, &[unit], &mut text);
        text
    };
    let is_same = || quote_of(known) == quote_of(unit);
    !terms.is_empty() && terms == others || of_one && (is_covered() || is_same())
}

/// The sections as one answer; without the last ones if they do not fit the cap.
fn joined(pool: &Pool<'_>, mut sections: Vec<Fitted>, input: &AnswerInput<'_>) -> Answer {
    loop {
        let texts: Vec<&str> = sections.iter().map(|section| &*section.text).collect();
        let text = match texts[..] {
            [] => NOTHING.to_owned(),
            _ => texts.join(BETWEEN),
        };
        let tokens = (input.count)(&text);
        if tokens <= input.cap.0 {
            let units: Vec<usize> = sections.into_iter().flat_map(|one| one.units).collect();
            return Answer {
                text,
                tokens: Tokens(tokens),
                quotes: quoted(pool, &units),
            };
        }
        if sections.pop().is_none() {
            return Answer::default();
        }
    }
}

/// What to look for: first the agent's main focus, then the focuses of the task.
struct FocusList {
    focuses: Vec<Focus>,
    /// The heading of what matches.
    title: &'static str,
}

impl FocusList {
    /// An agent that looks for everything looks only for what the task names, or for the answer to a
    /// question.
    fn new(input: &AnswerInput<'_>, is_question: bool) -> FocusList {
        let mut focuses = Focus::detect(input.persona);
        let mut asked = Focus::detect(input.task);
        if (is_question || !asked.is_empty()) && focuses.len() >= GENERALIST {
            focuses.clear();
        }
        let leading = if focuses.is_empty() { &asked } else { &focuses };
        let title = match leading[..] {
            [main, ..] if leading.len() < GENERALIST => main.title(),
            _ => "What was said",
        };
        asked.retain(|focus| !focuses.contains(focus));
        // The first focus in an agent's instructions is its main one.
        focuses.truncate(if asked.is_empty() { focuses.len() } else { 1 });
        focuses.extend(asked);
        FocusList { focuses, title }
    }

    /// How well a unit matches.
    fn score(&self, pool: &Pool<'_>, unit: usize) -> f32 {
        let [first, others @ ..] = &self.focuses[..] else {
            return 0.0;
        };
        let others = others.iter().map(|focus| focus.serves(pool, unit));
        relevance::FIRST_FOCUS * first.serves(pool, unit)
            + relevance::OTHER_FOCUS * others.fold(0.0, f32::max)
    }
}

/// The weighted terms of the task and of the agent's instructions.
fn query(pool: &mut Pool<'_>, input: &AnswerInput<'_>) -> Query {
    let focus_terms = Focus::terms(pool);
    let persona = pool.known(input.persona).into_iter();
    let persona = persona.map(|term| (term, (term, relevance::PERSONA)));
    let task = pool.known(input.task).into_iter();
    let task = task.map(|term| (term, (term, relevance::TASK)));
    let mut query: Query = persona.chain(task).collect();
    query.retain(|term, _| !focus_terms.contains(term));
    query
}

/// Combines relevance to the task, match with the focus, and general worth.
fn worth(pool: &mut Pool<'_>, input: &AnswerInput<'_>, focus: &FocusList) -> Worth {
    let query = query(pool, input);
    let like = bm25::normalised(bm25::of_units(pool, &query));
    let Worth { units, terms } = score::weigh(pool, &[], 1.0);
    let general = bm25::normalised(units);
    let worth_of = |unit: usize| {
        let served = focus.score(pool, unit);
        let sought =
            focus.focuses.is_empty() || served > 0.0 || like[unit] >= relevance::UNFOCUSED_MIN;
        if general[unit] <= 0.0 || !sought {
            return 0.0;
        }
        let cues = pool.units[unit].cues;
        let change = when(cues.intersects(Cues::CHANGE), relevance::CHANGE);
        let is_aside =
            cues.intersects(Cues::QUESTION) && !focus.focuses.contains(&Focus::Questions);
        let aside = when(is_aside, relevance::UNASKED_QUESTION);
        let wanted = relevance::LIKENESS * like[unit] + served * change + relevance::BASE;
        let clear = when(!is_readable(pool, unit), relevance::UNREADABLE);
        wanted * (relevance::WORTH_BASE + general[unit].sqrt()) * aside * clear
    };
    let units = (0..pool.units.len()).map(worth_of).collect();
    Worth { units, terms }
}

/// As many of the quotes as fit, `None` if none fits. The last quotes are dropped first. The leading
/// quote, if any, stands before the others.
fn section(
    pool: &Pool<'_>,
    (mut chosen, leading): (Vec<usize>, Option<usize>),
    title: &str,
    room: u64,
    input: &AnswerInput<'_>,
) -> Option<Fitted> {
    while !chosen.is_empty() {
        let text = lay_out(pool, &chosen, leading, title);
        let tokens = (input.count)(&text);
        if tokens <= room {
            return Some(Fitted {
                text,
                tokens,
                units: chosen,
            });
        }
        chosen.pop();
    }
    None
}

/// A heading, then the leading quote, then the others in chronological order, by day. Quotes without a
/// known day come first, without a date above them.
fn lay_out(pool: &Pool<'_>, chosen: &[usize], leading: Option<usize>, title: &str) -> String {
    // Adds the units without which a quote is not understandable.
    let companions = chosen.iter().filter_map(|&unit| companion(pool, unit));
    let mut units: Vec<usize> = chosen.iter().copied().chain(companions).collect();
    units.sort_unstable();
    units.dedup();
    let mut lines = render::lines(pool, &units);
    let day_of = |line: &render::Line| pool.units[line.units[0]].at.and_then(utc_date);
    let leads = |line: &render::Line| leading.is_some_and(|unit| line.units.contains(&unit));
    lines.sort_by_key(|line| {
        let first = line.units[0];
        (!leads(line), day_of(line), pool.units[first].ordinal, first)
    });
    // The day of the leading quote is beside it if it would stand above quotes without a day.
    let is_dated = |line: &render::Line| leads(line) || day_of(line).is_some();
    let has_heading = lines.iter().all(is_dated);
    let mut text = format!("## {title}\n");
    let mut day = None;
    for line in &lines {
        let first = &pool.units[line.units[0]];
        let at = day_of(line);
        if let Some(date) = at.filter(|_| at != day && (has_heading || !leads(line))) {
            let _ = write!(text, "\n**{date}**\n");
            day = at;
        }
        text.push_str("- ");
        if let Some(ordinal) = first.ordinal {
            let _ = write!(text, "{ordinal} ");
        }
        if !first.speaker.is_empty() {
            let _ = write!(text, "{}: ", first.speaker.replace('\u{a0}', " "));
        }
        let marks = match first.role {
            Role::Tool => ("`", "`"),
            _ => ("“", "”"),
        };
        text.push_str(marks.0);
        quote(pool, &line.units, &mut text);
        text.push_str(marks.1);
        if let Some(date) = at.filter(|_| at != day) {
            let _ = write!(text, " ({date})");
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}
