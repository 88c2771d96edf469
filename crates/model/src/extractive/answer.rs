//! Answers by quoting: what is relevant to the task and to what the agent looks for.

use std::borrow::Cow;
use std::fmt::Write as _;

use unisono_context::{Role, Tokens};

use super::cues::Cues;
use super::focus::Focus;
use super::pool::Pool;
use super::quote::quote;
use super::select::{Worth, choose};
use super::standing::{companion, standing};
use super::summary::quoted;
use super::terms::Term;
use super::weights::{self, relevance};
use super::{Answer, AnswerInput, bm25, prior, render, score};
use crate::date::utc_date;
use crate::redact::redact;

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
    let focus = Sought::of(input);
    let worth = worth(&mut pool, input, &focus);
    let mut chosen = choose(&pool, &worth, weights::ANSWER, input.cap.0 as f32);
    let best = chosen
        .iter()
        .map(|&unit| worth.units[unit])
        .fold(0.0, f32::max);
    chosen.retain(|&unit| worth.units[unit] >= relevance::OF_THE_BEST * best);
    chosen.truncate(MAX_QUOTES);
    fit(&pool, chosen, focus.0.first().copied(), input)
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
    let like = normalised(bm25::relevance(pool, &query));
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

/// Lays the quotes out, as many as the cap takes.
fn fit(
    pool: &Pool<'_>,
    mut chosen: Vec<usize>,
    focus: Option<Focus>,
    input: &AnswerInput<'_>,
) -> Answer {
    while !chosen.is_empty() {
        let text = lay_out(pool, &chosen, focus);
        let tokens = (input.count)(&text);
        if tokens <= input.cap.0 {
            return Answer {
                text,
                tokens: Tokens(tokens),
                quotes: quoted(pool, &chosen),
            };
        }
        chosen.pop();
    }
    let text = "Nothing in the conversation speaks to this.".to_owned();
    let tokens = (input.count)(&text);
    if tokens > input.cap.0 {
        return Answer::default();
    }
    Answer {
        text,
        tokens: Tokens(tokens),
        quotes: Vec::new(),
    }
}

/// A heading, then the quotes in the order they were said, by day. Those whose day is not known come
/// first: no date stands above them.
fn lay_out(pool: &Pool<'_>, chosen: &[usize], focus: Option<Focus>) -> String {
    // What makes a quote understandable comes with it.
    let companions = chosen.iter().filter_map(|&unit| companion(pool, unit));
    let mut units: Vec<usize> = chosen.iter().copied().chain(companions).collect();
    units.sort_unstable();
    units.dedup();
    let mut lines = render::lines(pool, &units);
    lines.sort_by_key(|line| (pool.units[line.units[0]].at.is_some(), line.units[0]));
    let mut text = format!("## {}\n", focus.map_or("What was said", Focus::title));
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
