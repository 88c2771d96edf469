//! The lines of a text that begin a message.

use std::collections::BTreeMap;

use super::labels::Labels;
use super::line::{STYLES, SpeakerLine, SpeakerStyle};
use super::names::{Form, form_of};
use super::time::DayOrder;
use crate::transcript::source::Problem;

/// A line of a text.
pub(super) struct Line<'t> {
    pub(super) text: &'t str,
    /// Whether it begins a paragraph.
    pub(super) begins: bool,
    pub(super) in_code: bool,
    /// Whether its label is a usual one, such as `Deadline`.
    is_usual: bool,
    /// The label with which it begins, a notice, or nothing.
    pub(super) start: Option<SpeakerLine<'t>>,
}

impl<'t> Line<'t> {
    pub(super) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    pub(super) fn name(&self) -> Option<&'t str> {
        self.start.and_then(|start| start.name)
    }

    /// The text behind the label, or the whole line.
    pub(super) fn said(&self) -> &'t str {
        self.start.map_or(self.text.trim(), |start| start.text)
    }
}

/// The lines of a text. Those that do not begin a message have no `start`.
pub(super) struct Speakers<'t> {
    pub(super) lines: Vec<Line<'t>>,
    /// Labels that may have been misread.
    pub(super) doubts: Vec<Problem<'t>>,
}

/// The speakers in the first style that matches. `clear`: only if the text cannot be anything else;
/// otherwise a later style counts if it has more than twice as many lines.
pub(super) fn speakers(text: &str, clear: bool) -> Option<Speakers<'_>> {
    let order = DayOrder::of_text(text);
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
    let mut lines = lines(text, style, order);
    let is_labelled = !matches!(style, SpeakerStyle::Stamped | SpeakerStyle::Heading);
    let mut doubts = Vec::new();
    if is_labelled {
        let labels = Labels::of(&lines);
        let chosen = labels.chosen(clear);
        doubts = labels.doubts(&chosen);
        let starts = labels.starts(&chosen);
        for (line, is_start) in lines.iter_mut().zip(starts) {
            line.is_usual = line.name().is_some_and(|name| form_of(name) == Form::Usual);
            line.start = line.start.filter(|_| is_start);
        }
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in lines.iter().filter_map(Line::name) {
        *counts.entry(name.to_lowercase()).or_default() += 1;
    }
    let is_again = |(name, times): (&String, &usize)| *times > 1 || super::has_role(name);
    let paragraphs = lines
        .iter()
        .filter(|line| line.begins && !line.is_usual)
        .count();
    let begun = lines
        .iter()
        .filter(|line| line.begins && line.name().is_some());
    let is_timed = style == SpeakerStyle::Timed;
    let most = !is_labelled || is_timed || begun.count() * 2 >= paragraphs;
    let is_one = match clear {
        true => counts.len() > 1 && counts.iter().any(is_again) && most,
        false => !counts.is_empty(),
    };
    is_one.then_some(Speakers { lines, doubts })
}

/// The lines with their labels in a style. The last ` ``` ` begins no code if it is not closed.
fn lines(text: &str, style: SpeakerStyle, order: DayOrder) -> Vec<Line<'_>> {
    let is_fence = |line: &str| line.trim_start().starts_with("```");
    let fences = text.lines().filter(|line| is_fence(line)).count();
    let mut fences = fences - fences % 2;
    let (mut inside, mut is_after_blank) = (false, true);
    let lines = text.lines().map(|line| {
        let is_fence = fences > 0 && is_fence(line);
        fences -= usize::from(is_fence);
        inside ^= is_fence;
        let in_code = inside || is_fence;
        let is_blank = line.trim().is_empty();
        let begins = std::mem::replace(&mut is_after_blank, is_blank) && !is_blank && !inside;
        let start = (!in_code).then(|| style.start(line, order)).flatten();
        Line {
            text: line,
            begins,
            in_code,
            is_usual: false,
            start,
        }
    });
    lines.collect()
}
