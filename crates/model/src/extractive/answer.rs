//! Answers by quoting: first what the task's own words find, then what the agent looks for.

use std::borrow::Cow;
use std::fmt::Write as _;

use unisono_context::{Ordinal, Role, Tokens};

use super::cues::Cues;
use super::focus::Focus;
use super::pool::Pool;
use super::quote::quote;
use super::select::{Worth, choose};
use super::standing::{companion, standing};
use super::summary::quoted;
use super::terms::Term;
use super::weights::{self, relevance};
use super::{Answer, AnswerInput, bm25, prior, question, render, score};
use crate::date::utc_date;
use crate::redact::redact;

/// What is said where no message has anything of what is asked.
const NOTHING: &str = "Nothing in the conversation speaks to this.";
/// Between two sections.
const BETWEEN: &str = "\n\n";
/// What is said first where the words of a question are in no message.
const UNKNOWN: &str = "No message has the words of this question.";
/// More quotes than this answer less well.
const MAX_QUOTES: usize = 14;

/// See [`super::answer`].
pub(super) fn answer(input: &AnswerInput<'_>) -> Answer {
    let texts: Vec<Cow<'_, str>> = input.passages.iter().map(|p| redact(&p.text)).collect();
    let earlier: Vec<Cow<'_, str>> = input.summaries.iter().map(|s| redact(s.text)).collect();
    let mut pool = Pool::new();
    for summary in &earlier {
        prior::add(&mut pool, summary);
    }
    for (passage, text) in input.passages.iter().zip(&texts) {
        pool.add_passage(passage, text);
    }
    let found = question::relevance(&mut pool, input.task);
    let focus = Sought::of(input);
    let room = match focus.0.is_empty() {
        true => input.cap.0,
        false => input.cap.0 / 2,
    };
    let first = found
        .as_ref()
        .and_then(|found| first(&pool, found, room, input));
    if found.is_some() && focus.0.is_empty() {
        return joined(first, None, input);
    }
    let mut worth = worth(&mut pool, input, &focus);
    let best = worth.units.iter().copied().fold(0.0, f32::max);
    let quoted = first.iter().flat_map(|first| &first.units);
    quoted.for_each(|&unit| worth.units[unit] = 0.0);
    let taken = first
        .as_ref()
        .map_or(0, |first| first.tokens + (input.count)(BETWEEN));
    let room = input.cap.0.saturating_sub(taken);
    let mut chosen = choose(&pool, &worth, weights::ANSWER, room as f32);
    chosen.retain(|&unit| worth.units[unit] >= relevance::OF_THE_BEST * best);
    chosen.truncate(MAX_QUOTES);
    let title = focus
        .0
        .first()
        .map_or("What was said", |focus| focus.title());
    let rest = section(&pool, chosen, title, room, input);
    joined(first, rest, input)
}

/// Quotes under a heading.
struct Section {
    text: String,
    tokens: u64,
    units: Vec<usize>,
    quotes: Vec<Ordinal>,
}

/// The quotes that answer the question best, or that no message has its words; none where the room
/// takes neither.
fn first(pool: &Pool<'_>, found: &[f32], room: u64, input: &AnswerInput<'_>) -> Option<Section> {
    let cap = room.min(weights::question::TOKENS);
    let best = found.iter().copied().fold(0.0, f32::max);
    let least = best * weights::question::OF_THE_BEST;
    let answers = |&unit: &usize| found[unit] > least;
    let mut order: Vec<usize> = (0..found.len()).filter(answers).collect();
    order.sort_by(|&one, &other| found[other].total_cmp(&found[one]));
    let mut room = cap as f32;
    let mut chosen: Vec<usize> = Vec::new();
    for unit in order {
        if chosen.iter().any(|&known| says(pool, known, unit)) {
            continue;
        }
        room -= pool.units[unit].tokens;
        if room <= 0.0 {
            break;
        }
        chosen.push(unit);
    }
    if best > 0.0 {
        return section(pool, chosen, "Answer", cap, input);
    }
    let tokens = (input.count)(UNKNOWN);
    (tokens <= input.cap.0).then(|| Section {
        text: UNKNOWN.to_owned(),
        tokens,
        units: Vec::new(),
        quotes: Vec::new(),
    })
}

/// Whether one unit of a message has all words of another: the message and its summary may both be in
/// the pool.
fn says(pool: &Pool<'_>, known: usize, unit: usize) -> bool {
    let of_one = pool.units[known].ordinal == pool.units[unit].ordinal;
    let has = |term| pool.terms(known).contains(term);
    of_one && pool.terms(unit).iter().all(has)
}

/// Both sections as one answer; the first alone where the cap does not take both.
fn joined(first: Option<Section>, rest: Option<Section>, input: &AnswerInput<'_>) -> Answer {
    let mut sections: Vec<Section> = first.into_iter().chain(rest).collect();
    let (text, tokens) = loop {
        let texts: Vec<&str> = sections.iter().map(|section| &*section.text).collect();
        let text = match texts[..] {
            [] => NOTHING.to_owned(),
            _ => texts.join(BETWEEN),
        };
        let tokens = (input.count)(&text);
        match (tokens <= input.cap.0, sections.pop()) {
            (true, last) => {
                sections.extend(last);
                break (text, tokens);
            }
            (false, Some(_)) => {}
            (false, None) => return Answer::default(),
        }
    };
    let mut quotes: Vec<Ordinal> = sections.into_iter().flat_map(|one| one.quotes).collect();
    quotes.sort_unstable();
    quotes.dedup();
    Answer {
        text,
        tokens: Tokens(tokens),
        quotes,
    }
}

/// What is looked for: first what the agent is there for, then what the task asks for.
struct Sought(Vec<Focus>);

impl Sought {
    fn of(input: &AnswerInput<'_>) -> Sought {
        let mut all = Focus::of(input.persona);
        let asked = Focus::of(input.task).into_iter();
        let asked: Vec<Focus> = asked.filter(|focus| !all.contains(focus)).collect();
        // Of what an agent's instructions mention, the first is what it is there for.
        all.truncate(if asked.is_empty() { all.len() } else { 1 });
        all.extend(asked);
        Sought(all)
    }

    /// How well a unit serves it.
    fn served_by(&self, pool: &Pool<'_>, unit: usize) -> f32 {
        let [first, others @ ..] = &self.0[..] else {
            return 0.0;
        };
        let others = others.iter().map(|focus| focus.serves(pool, unit));
        relevance::FIRST_FOCUS * first.serves(pool, unit)
            + relevance::OTHER_FOCUS * others.fold(0.0, f32::max)
    }

    /// Whether questions are welcome.
    fn asks_questions(&self) -> bool {
        self.0.contains(&Focus::Questions)
    }
}

/// What the task and the agent's instructions are about.
fn query(pool: &mut Pool<'_>, input: &AnswerInput<'_>) -> Vec<(Term, f32)> {
    let asking: Vec<Term> = Focus::words()
        .flat_map(|word| pool.terms_of(word))
        .collect();
    let task = pool.known(input.task).into_iter();
    let mut query: Vec<_> = task.map(|term| (term, relevance::TASK)).collect();
    let persona = pool.known(input.persona).into_iter();
    query.extend(persona.map(|term| (term, relevance::PERSONA)));
    query.retain(|(term, _)| !asking.contains(term));
    query
}

/// Relevance to the task, what the focus wants, and what is worth quoting anyway.
fn worth(pool: &mut Pool<'_>, input: &AnswerInput<'_>, focus: &Sought) -> Worth {
    let query = query(pool, input);
    let like = normalised(bm25::of_units(pool, &query));
    let Worth { units, terms } = score::weigh(pool, &[]);
    let general = normalised(units);
    let worth_of = |unit: usize| {
        let served = focus.served_by(pool, unit);
        let sought = focus.0.is_empty() || served > 0.0 || like[unit] >= relevance::UNSOUGHT_LEAST;
        if general[unit] <= 0.0 || !sought {
            return 0.0;
        }
        let cues = pool.units[unit].cues;
        let change = if cues.any(Cues::CHANGE) {
            relevance::CHANGE
        } else {
            1.0
        };
        let aside = if cues.any(Cues::QUESTION) && !focus.asks_questions() {
            relevance::ASIDE
        } else {
            1.0
        };
        let wanted = relevance::LIKENESS * like[unit] + served * change + relevance::BASE;
        wanted * (relevance::WORTH_BASE + general[unit].sqrt()) * aside * standing(pool, unit)
    };
    let units = (0..pool.units.len()).map(worth_of).collect();
    Worth { units, terms }
}

fn normalised(mut values: Vec<f32>) -> Vec<f32> {
    let most = values.iter().copied().fold(0.0, f32::max);
    if most > 0.0 {
        values.iter_mut().for_each(|value| *value /= most);
    }
    values
}

/// As many of the quotes as the room takes; none where it takes none. The last are the first to go.
fn section(
    pool: &Pool<'_>,
    mut chosen: Vec<usize>,
    title: &str,
    room: u64,
    input: &AnswerInput<'_>,
) -> Option<Section> {
    while !chosen.is_empty() {
        let text = lay_out(pool, &chosen, title);
        let tokens = (input.count)(&text);
        if tokens <= room {
            return Some(Section {
                text,
                tokens,
                quotes: quoted(pool, &chosen),
                units: chosen,
            });
        }
        chosen.pop();
    }
    None
}

/// A heading, then the quotes in the order they were said, by day. Those whose day is not known come
/// first: no date stands above them.
fn lay_out(pool: &Pool<'_>, chosen: &[usize], title: &str) -> String {
    // What makes a quote understandable comes with it.
    let companions = chosen.iter().filter_map(|&unit| companion(pool, unit));
    let mut units: Vec<usize> = chosen.iter().copied().chain(companions).collect();
    units.sort_unstable();
    units.dedup();
    let mut lines = render::lines(pool, &units);
    lines.sort_by_key(|line| (pool.units[line.units[0]].at.is_some(), line.units[0]));
    let mut text = format!("## {title}\n");
    let mut day = None;
    for line in &lines {
        let first = &pool.units[line.units[0]];
        let at = first.at.and_then(utc_date);
        if at.is_some() && at != day {
            let _ = write!(
                text,
                "\n**{}**\n",
                at.map(|d| d.to_string()).unwrap_or_default()
            );
            day = at;
        }
        text.push_str("- ");
        if let Some(ordinal) = first.ordinal {
            let _ = write!(text, "{ordinal} ");
        }
        if !first.speaker.is_empty() {
            let _ = write!(text, "{}: ", first.speaker);
        }
        let marks = if first.role == Role::Tool {
            ("`", "`")
        } else {
            ("“", "”")
        };
        text.push_str(marks.0);
        quote(pool, &line.units, &mut text);
        text.push_str(marks.1);
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}
