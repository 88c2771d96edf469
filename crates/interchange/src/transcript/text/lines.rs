//! The lines of a text: paragraphs, code, and labels.

use super::line::{SpeakerLine, SpeakerStyle};
use super::time::DayOrder;

pub(super) struct Line<'t> {
    pub(super) text: &'t str,
    pub(super) begins: bool,
    pub(super) in_code: bool,
    /// Whether it begins a paragraph with a usual label, such as `Deadline`.
    pub(super) is_usual: bool,
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

    /// Whether it is a heading, a quotation, an element of a list, a row of a table, or a rule.
    pub(super) fn is_structure(&self) -> bool {
        let text = self.text.trim_start();
        let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_numbered = digits.len() < text.len() && digits.starts_with(['.', ')']);
        let is_marked = ["#", ">", "|", "- ", "* ", "+ ", "• "]
            .iter()
            .any(|mark| text.starts_with(mark));
        let is_rule = text.len() > 2 && text.trim_end().bytes().all(|c| b"-*_".contains(&c));
        self.start.is_none() && (is_numbered || is_marked || is_rule)
    }

    /// The text behind the label, or the whole line.
    pub(super) fn spoken_text(&self) -> &'t str {
        self.start.map_or(self.text.trim(), |start| start.text)
    }
}

/// The lines with their labels in a style. The last ` ``` ` begins no code if it is not closed.
pub(super) fn lines(text: &str, style: SpeakerStyle, order: DayOrder) -> Vec<Line<'_>> {
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

/// Begins and ends code, at the beginning of a line or of a message.
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
