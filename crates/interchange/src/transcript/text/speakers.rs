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
    /// Whether it begins a paragraph with a usual label, such as `Deadline`.
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

    /// Whether it is a heading, a quotation, an element of a list, or a row of a table.
    pub(super) fn is_structure(&self) -> bool {
        let text = self.text.trim_start();
        let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_numbered = digits.len() < text.len() && digits.starts_with(['.', ')']);
        let is_marked = ["#", ">", "|", "- ", "* ", "+ ", "• "]
            .iter()
            .any(|mark| text.starts_with(mark));
        self.start.is_none() && (is_numbered || is_marked)
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

/// The lines with their labels in a style. The last ` ``` ` begins no code if it is not closed.
fn lines(text: &str, style: SpeakerStyle, order: DayOrder) -> Vec<Line<'_>> {
    let start = |line| style.start(line, order);
    let unclosed = unclosed_fence(text, start);
    let (mut inside, mut is_after_blank) = (false, true);
    let lines = text.lines().enumerate().map(|(at, line)| {
        let is_after_code = inside;
        if unclosed != Some(at) {
            inside = is_inside(line, inside, start);
        }
        let is_fence = line.trim_start().starts_with(FENCE);
        let in_code = is_after_code || inside && is_fence;
        let is_blank = line.trim().is_empty();
        let begins = std::mem::replace(&mut is_after_blank, is_blank) && !is_blank && !in_code;
        Line {
            text: line,
            begins,
            in_code,
            is_usual: false,
            start: start(line).filter(|_| !in_code),
        }
    });
    lines.collect()
}

/// What begins and ends code, at the beginning of a line or of a message.
const FENCE: &str = "```";

/// The number of the line that begins code which does not end.
fn unclosed_fence<'t>(
    text: &'t str,
    start: impl Fn(&'t str) -> Option<SpeakerLine<'t>>,
) -> Option<usize> {
    let (mut inside, mut begun) = (false, None);
    for (at, line) in text.lines().enumerate() {
        let is_next_inside = is_inside(line, inside, &start);
        if is_next_inside && !inside {
            begun = Some(at);
        }
        inside = is_next_inside;
    }
    begun.filter(|_| inside)
}

/// Whether the next line is in code. A line with two fences has its code itself.
fn is_inside<'t>(
    line: &'t str,
    inside: bool,
    start: impl Fn(&'t str) -> Option<SpeakerLine<'t>>,
) -> bool {
    if line.matches(FENCE).count() != 1 {
        return inside;
    }
    if line.trim_start().starts_with(FENCE) {
        return !inside;
    }
    inside || start(line).is_some_and(|start| start.text.starts_with(FENCE))
}
