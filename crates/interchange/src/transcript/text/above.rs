//! Speakers above their texts: `Anna Schmidt  10:32`, `[10:32] Anna Schmidt` or `Anna Schmidt` is
//! the whole line, and the text begins below it.

use std::collections::{BTreeMap, BTreeSet};

use super::line::{SpeakerLine, SpeakerStyle, is_display_name, is_name, sender};
use super::lines::{Line, lines};
use super::names::{Form, form_of};
use super::speakers::Speakers;
use super::time::{DayOrder, moment, moment_or_elapsed};
use super::{has_role, is_direction, is_emoji};

/// The maximum size of a line with a name and a time.
const HEADER_BYTES: usize = 120;
/// Words between a name and its time, as in `Anna — Today at 10:32`.
const LINKS: [&str; 6] = ["at", "gestern", "heute", "today", "um", "yesterday"];
/// The ends of notices of a program that records a meeting.
const NOTICES: [&str; 2] = [" started transcription", " stopped transcription"];

/// A line with only a name and a time, or a notice.
pub(super) fn timed(line: &str, order: DayOrder) -> Option<SpeakerLine<'_>> {
    let line = line.trim_matches(is_mark);
    if line.len() > HEADER_BYTES {
        return None;
    }
    if NOTICES.iter().any(|end| line.ends_with(end)) {
        return Some(SpeakerLine::untimed(None, line));
    }
    let (name, stamp) = name_and_time(line)?;
    let at = moment(stamp, order).flatten();
    Some(SpeakerLine {
        name: Some(name),
        at,
        clock: at.is_none().then_some(stamp),
        text: "",
    })
}

pub(super) fn alone(line: &str) -> Option<SpeakerLine<'_>> {
    let name = line.trim_matches(is_mark);
    // `Great 👍` is a text.
    if !is_name(name) || name.contains(is_emoji) {
        return None;
    }
    let form = form_of(name);
    // `Yes.` is a text, `J. R.` is a name.
    let is_one = form == Form::Person || form == Form::Name && !name.ends_with('.');
    is_one.then_some(SpeakerLine::untimed(Some(name), ""))
}

/// White space, and marks of headings and bold text.
fn is_mark(c: char) -> bool {
    c.is_whitespace() || is_direction(c) || matches!(c, '#' | '*' | '\u{feff}')
}

/// The name and the time of a line that has only these, in either order.
fn name_and_time(line: &str) -> Option<(&str, &str)> {
    if !line.contains(':') || time_of(line).is_some() {
        return None;
    }
    let spaces = || line.match_indices(char::is_whitespace).map(|(at, _)| at);
    // The longest time: `2024-05-07 10:32 AM`.
    let behind = spaces().find_map(|at| {
        let stamp = time_of(line.get(at..)?)?;
        Some((name_of(line.get(..at)?)?, stamp))
    });
    behind.or_else(|| {
        spaces().rev().find_map(|at| {
            let stamp = time_of(line.get(..at)?)?;
            Some((name_of(line.get(at..)?)?, stamp))
        })
    })
}

fn time_of(text: &str) -> Option<&str> {
    let text = text.trim_matches(is_mark);
    let inner = text.strip_prefix(['(', '[']);
    let inner = inner.and_then(|text| text.strip_suffix([')', ']']));
    let stamp = inner.unwrap_or(text).trim();
    // `[Yesterday 10:32]`, but not `Anna 10:32`.
    let is_begun = inner.is_some() || stamp.starts_with(|c: char| c.is_ascii_digit());
    (is_begun && is_time(stamp)).then_some(stamp)
}

fn is_time(stamp: &str) -> bool {
    moment_or_elapsed(stamp, DayOrder::Unknown).is_some()
}

/// The name beside a time, without signs and words between them.
fn name_of(text: &str) -> Option<&str> {
    let is_separator = |c: char| is_mark(c) || "-–—|·•,:".contains(c);
    let mut name = text.trim_matches(is_separator);
    while let Some((before, last)) = name.rsplit_once(char::is_whitespace) {
        if !LINKS.contains(&&*last.to_lowercase()) {
            break;
        }
        name = before.trim_end_matches(is_separator);
    }
    let inner = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let name = inner.or_else(|| sender(name)).unwrap_or(name);
    // Exports of Discord mark pinned messages.
    let name = name.strip_suffix(" (pinned)").unwrap_or(name);
    (is_display_name(name) && form_of(name) > Form::Usual).then_some(name)
}

/// Where the text of a name without a time begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// On the next line, in a text without empty lines.
    Dense,
    /// On the next line.
    Direct,
    /// Behind an empty line.
    Apart,
}

impl Layout {
    fn from_lines(lines: &[Line<'_>]) -> Layout {
        let end = lines.iter().rposition(|line| !line.is_blank());
        let lines = lines.get(..=end.unwrap_or_default()).unwrap_or_default();
        if !lines.iter().any(Line::is_blank) {
            return Layout::Dense;
        }
        let names = lines.iter().enumerate();
        let names = names.filter(|(_, line)| line.begins && line.name().is_some());
        let (mut direct, mut apart) = (0, 0);
        for (at, _) in names {
            match is_filled(lines, at + 1) {
                true => direct += 1,
                false => apart += 1,
            }
        }
        if apart > direct {
            Layout::Apart
        } else {
            Layout::Direct
        }
    }

    fn has_text_below(self, lines: &[Line<'_>], at: usize) -> bool {
        let begins = lines.get(at).is_some_and(|line| line.begins);
        let is_next = is_filled(lines, at + 1);
        match self {
            Layout::Dense => is_next,
            Layout::Direct => begins && is_next,
            Layout::Apart => begins && (is_next || is_filled(lines, at + 2)),
        }
    }
}

fn is_filled(lines: &[Line<'_>], at: usize) -> bool {
    lines.get(at).is_some_and(|line| !line.is_blank())
}

/// The speakers of a text with names above texts. `clear`: only if the text cannot be anything
/// else.
pub(super) fn speakers(text: &str, style: SpeakerStyle, clear: bool) -> Option<Speakers<'_>> {
    let is_timed = style == SpeakerStyle::TimedAbove;
    let order = day_order(text, is_timed);
    let mut lines = lines(text, style, order);
    let layout = if is_timed {
        Layout::Direct
    } else {
        lines = with_times_below(lines, order);
        let layout = Layout::from_lines(&lines);
        let places = (0..lines.len()).map(|at| layout.has_text_below(&lines, at));
        let places: Vec<bool> = places.collect();
        for (line, is_place) in lines.iter_mut().zip(places) {
            line.start = line.start.filter(|_| is_place);
        }
        layout
    };
    let is_dialogue = layout == Layout::Direct && {
        let (named, all) = share(&lines, layout);
        named * 3 >= all * 2
    };
    let names = chosen(&lines, is_timed || is_dialogue);
    keep(&mut lines, &names, is_timed);
    is_conversation(&lines, layout, is_timed, clear).then_some(Speakers {
        lines,
        doubts: Vec::new(),
    })
}

/// The order of day and month in the times beside or below names.
fn day_order(text: &str, is_timed: bool) -> DayOrder {
    let short = text.lines().filter(|line| line.len() <= HEADER_BYTES);
    let stamps = short.filter_map(|line| match is_timed {
        true => Some(name_and_time(line.trim_matches(is_mark))?.1),
        false => time_of(line),
    });
    DayOrder::of_times(stamps)
}

/// The lines without those that are only the time of the name above.
fn with_times_below(lines: Vec<Line<'_>>, order: DayOrder) -> Vec<Line<'_>> {
    let mut joined: Vec<Line<'_>> = Vec::with_capacity(lines.len());
    for line in lines {
        let short = Some(line.text).filter(|text| text.len() <= HEADER_BYTES);
        let stamp = short.and_then(time_of);
        let above = joined.last_mut().and_then(|above| above.start.as_mut());
        match (stamp, above) {
            (Some(stamp), Some(start)) if start.at.is_none() && start.clock.is_none() => {
                start.at = moment(stamp, order).flatten();
                start.clock = start.at.is_none().then_some(stamp);
            }
            _ => joined.push(line),
        }
    }
    joined
}

/// The number of names, and of paragraphs without those behind a name.
fn share(lines: &[Line<'_>], layout: Layout) -> (usize, usize) {
    let (mut named, mut all) = (0, 0);
    let mut is_behind = false;
    for line in lines.iter().filter(|line| !line.is_blank()) {
        let is_named = line.name().is_some();
        let is_paragraph = line.begins && !is_behind && !line.is_structure();
        named += usize::from(is_named);
        all += usize::from(is_named || is_paragraph);
        is_behind = is_named;
    }
    match layout {
        // One paragraph: every other line is a name if each text has one line.
        Layout::Dense => (named, lines.len() / 2),
        Layout::Direct | Layout::Apart => (named, all),
    }
}

/// The names in lower case. `is_once`: a name may occur once, above a text; so may one with a time.
/// Beside a date in brackets, any name may.
fn chosen(lines: &[Line<'_>], is_once: bool) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, (&str, bool, bool, usize)> = BTreeMap::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(start) = line.start else {
            continue;
        };
        let next = lines.iter().skip(at + 1).take(2);
        let mut next = next.filter(|line| !line.is_blank());
        let is_above_text = next.next().is_some_and(|next| next.start.is_none());
        let has_time = start.at.is_some() || start.clock.is_some();
        let is_header = line.begins && line.text.contains('[') && start.at.is_some();
        if let Some(name) = start.name.filter(|_| is_above_text || !is_once) {
            let first = (name, is_once || has_time, false, 0);
            let count = counts.entry(name.to_lowercase()).or_insert(first);
            count.2 |= is_header;
            count.3 += 1;
        }
    }
    counts.retain(|_, (name, is_once, is_header, times)| {
        let least = match form_of(name) {
            _ if has_role(name) || *is_header => 1,
            Form::Name | Form::Person if *is_once => 1,
            Form::Lower => LOWER_LINES,
            Form::Usual | Form::Phrase | Form::Name | Form::Person => 2,
        };
        *times >= least
    });
    counts.into_keys().collect()
}

/// The number of lines from which a name in lower case is a speaker.
const LOWER_LINES: usize = 3;

/// Keeps the notices and the lines of these names. A name directly behind another one is its text,
/// unless it has a time.
fn keep(lines: &mut [Line<'_>], names: &BTreeSet<String>, is_timed: bool) {
    let mut is_behind = false;
    for line in lines.iter_mut().filter(|line| !line.is_blank()) {
        let is_name = line
            .name()
            .is_some_and(|name| names.contains(&name.to_lowercase()));
        let is_named = is_name && (is_timed || !is_behind);
        let is_notice = line.start.is_some_and(|start| start.name.is_none());
        line.start = line.start.filter(|_| is_named || is_notice);
        is_behind = is_named;
    }
}

/// Whether names take turns; if `clear`, two of them, over most paragraphs.
fn is_conversation(lines: &[Line<'_>], layout: Layout, is_timed: bool, clear: bool) -> bool {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in lines.iter().filter_map(Line::name) {
        *counts.entry(name.to_lowercase()).or_default() += 1;
    }
    let again = counts
        .iter()
        .filter(|(name, times)| **times > 1 || has_role(name));
    let again: usize = again.map(|(_, times)| times).sum();
    if !clear {
        return again > 0;
    }
    let (named, all) = share(lines, layout);
    let is_most = is_timed || named * 2 >= all && again * 3 >= named * 2;
    counts.len() > 1 && again > 0 && is_most
}
