//! The lines of a text that begin a message.

use std::collections::BTreeMap;

use super::above;
use super::labels::Labels;
use super::line::{STYLES, SpeakerStyle, day_order, is_response};
use super::lines::{Line, lines};
use super::names::{Form, form_of};
use super::time::DayOrder;
use crate::transcript::source::Problem;

/// The lines of a text. Those that do not begin a message have no `start`.
pub(super) struct Speakers<'t> {
    pub(super) lines: Vec<Line<'t>>,
    /// Labels that may have been misread.
    pub(super) doubts: Vec<Problem<'t>>,
}

/// The speakers in the first style that matches. `clear`: only if the text cannot be anything else;
/// otherwise a later style counts if it has more than twice as many lines.
pub(super) fn speakers(text: &str, clear: bool) -> Option<Speakers<'_>> {
    let order = day_order(text);
    let mut found = STYLES
        .into_iter()
        .filter_map(|style| in_style(text, style, order, clear));
    if clear {
        return found.next();
    }
    let named = |all: &Speakers<'_>| {
        all.lines
            .iter()
            .filter(|line| line.name().is_some())
            .count()
    };
    found.reduce(|best, next| match named(&next) > 2 * named(&best) {
        true => next,
        false => best,
    })
}

fn in_style(text: &str, style: SpeakerStyle, order: DayOrder, clear: bool) -> Option<Speakers<'_>> {
    if matches!(style, SpeakerStyle::TimedAbove | SpeakerStyle::Above) {
        return above::speakers(text, style, clear);
    }
    let mut lines = lines(text, style, order);
    let is_labelled = !matches!(style, SpeakerStyle::Stamped | SpeakerStyle::Heading);
    let mut doubts = Vec::new();
    if style == SpeakerStyle::Heading {
        keep_response_headings(&mut lines);
    }
    if style == SpeakerStyle::Stamped {
        keep_undated_lines(&mut lines);
    }
    if style == SpeakerStyle::Plain {
        keep_links(&mut lines);
    }
    if is_labelled {
        let labels = Labels::find(&lines);
        let chosen = labels.chosen(clear);
        doubts = labels.doubts(&chosen);
        let starts = labels.starts(&chosen);
        for (line, is_start) in lines.iter_mut().zip(starts) {
            let name = line.name().filter(|_| line.begins);
            line.is_usual = name.is_some_and(|name| form_of(name) == Form::Usual);
            line.start = line.start.filter(|_| is_start);
        }
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in lines.iter().filter_map(Line::name) {
        *counts.entry(name.to_lowercase()).or_default() += 1;
    }
    let is_again = |(name, times): (&String, &usize)| *times > 1 || super::has_role(name);
    let paragraphs = lines.iter().filter(|line| line.begins);
    let begun = paragraphs
        .clone()
        .filter(|line| line.name().is_some())
        .count();
    let all = paragraphs
        .filter(|line| !line.is_usual && !line.is_structure())
        .count();
    let is_timed = style == SpeakerStyle::Timed;
    let most = !is_labelled || is_timed || begun > 0 && begun * 2 >= all;
    let is_one = match clear {
        true => counts.len() > 1 && counts.iter().any(is_again) && most,
        false => !counts.is_empty(),
    };
    is_one.then_some(Speakers { lines, doubts })
}

/// In a text without prompts, a heading `Response` is part of a message, such as one about HTTP.
fn keep_response_headings(lines: &mut [Line<'_>]) {
    let is_prompt = |name: &str| name.eq_ignore_ascii_case("prompt");
    if lines.iter().filter_map(Line::name).any(is_prompt) {
        return;
    }
    for line in lines.iter_mut().filter(|line| is_response(line.text)) {
        line.start = None;
    }
}

/// In a text whose times have dates, a line of a schedule such as `11:30 - Lunch: soup` is part of a
/// message, and so is a heading such as `=== Menu ===`.
fn keep_undated_lines(lines: &mut [Line<'_>]) {
    let first = lines.iter().find(|line| line.name().is_some());
    let first = first.and_then(|line| line.start);
    if first.is_none_or(|start| start.at.is_none()) {
        return;
    }
    for line in lines.iter_mut().filter(|line| !line.text.starts_with('[')) {
        let is_heading = line.text.starts_with("===");
        line.start = line
            .start
            .filter(|start| start.at.is_some() || start.clock.is_none() && !is_heading);
    }
}

/// In a text whose names have no brackets, `[Claude]: https://…` is a link of Markdown, or a note.
fn keep_links(lines: &mut [Line<'_>]) {
    let is_in_brackets = |line: &Line<'_>| line.text.trim_start().starts_with('[');
    let (mut names, mut others) = (0, 0);
    for line in lines.iter().filter(|line| line.name().is_some()) {
        match is_in_brackets(line) {
            true => names += usize::from(!line.spoken_text().starts_with("http")),
            false => others += 1,
        }
    }
    if names < others {
        for line in lines.iter_mut().filter(|line| is_in_brackets(line)) {
            line.start = None;
        }
    }
}
