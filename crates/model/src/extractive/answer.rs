//! Answers by quoting: what is relevant to the task and to what the agent looks for.

use std::borrow::Cow;
use std::fmt::Write as _;

use unisono_context::{Role, Tokens};

use super::cues::Cues;
use super::focus::Focus;
use super::passage::Kind;
use super::pool::Pool;
use super::select::{Preference, Worth, choose};
use super::split::Block;
use super::summary::quoted;
use super::{Answer, AnswerInput, bm25, prior, render, score};
use crate::redact::redact;

const PREFERENCE: Preference = Preference {
    decay: 0.4,
    sibling: 0.8,
    line: 8.0,
    power: 0.5,
};

/// More quotes than this answer less well.
const MAX_QUOTES: usize = 14;
/// What the task's terms count beside the persona's.
const TASK: f32 = 1.0;
const PERSONA: f32 = 0.25;

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
    let mut focus = Focus::of(input.persona);
    focus.extend(
        Focus::of(input.task)
            .into_iter()
            .filter(|f| !Focus::of(input.persona).contains(f)),
    );
    let worth = worth(&mut pool, input, &focus);
    let mut chosen = choose(&pool, &worth, PREFERENCE, input.cap.0 as f32);
    chosen.truncate(MAX_QUOTES);
    fit(&pool, chosen, focus.first().copied(), input)
}

/// Relevance to the task, what the focus wants, and what is worth quoting anyway.
fn worth(pool: &mut Pool<'_>, input: &AnswerInput<'_>, focus: &[Focus]) -> Worth {
    let task = pool.known(input.task).into_iter().map(|term| (term, TASK));
    let mut query: Vec<_> = task.collect();
    query.extend(
        pool.known(input.persona)
            .into_iter()
            .map(|term| (term, PERSONA)),
    );
    let relevant = normalised(bm25::relevance(pool, &query));
    let Worth { units, terms } = score::weigh(pool, &[]);
    let general = normalised(units);
    let serves = |unit: usize| match focus {
        [] => 0.0,
        [first, rest @ ..] => {
            let others = rest
                .iter()
                .map(|f| f.serves(pool, unit))
                .fold(0.0, f32::max);
            first.serves(pool, unit) + 0.3 * others
        }
    };
    let units = (0..pool.units.len())
        .map(|unit| {
            if general[unit] <= 0.0 {
                return 0.0;
            }
            let change = if pool.units[unit].cues.any(Cues::CHANGE) {
                1.3
            } else {
                1.0
            };
            let wanted = 1.5 * relevant[unit] + 1.2 * serves(unit) * change;
            (wanted + 0.1) * (0.3 + general[unit].sqrt()) * readable(pool, unit)
        })
        .collect();
    Worth { units, terms }
}

/// Sentences read better in an answer than fragments and raw tool output.
fn readable(pool: &Pool<'_>, unit: usize) -> f32 {
    let unit = &pool.units[unit];
    let words = unit.text.split_whitespace().take(5).count();
    let short = if words < 4 { 0.4 } else { 1.0 };
    let said = if unit.kind == Kind::Text { 1.0 } else { 0.5 };
    let block = if matches!(unit.block, Block::Prose | Block::Item) {
        1.0
    } else {
        0.7
    };
    let filler = if unit.cues.any(Cues::FILLER) {
        0.6
    } else {
        1.0
    };
    short * said * block * filler
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

/// A heading, then the quotes in the order they were said, by day.
fn lay_out(pool: &Pool<'_>, chosen: &[usize], focus: Option<Focus>) -> String {
    let mut lines = render::lines(pool, chosen);
    lines.sort_by_key(|line| line.units[0]);
    let mut text = format!("## {}\n", focus.map_or("What was said", Focus::title));
    let mut day = None;
    for line in &lines {
        let first = &pool.units[line.units[0]];
        let at = first.at.and_then(render::day);
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
        render::quote(pool, &line.units, &mut text);
        text.push_str(marks.1);
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}
