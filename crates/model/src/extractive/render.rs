//! Laying chosen units out as Markdown.
//!
//! Quotes of one message share a line; the speaker is written once for the lines under it, and
//! the days once for the whole summary, as the message each begins with.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use unisono_context::{Ordinal, Timestamp};

use super::pool::{Pool, Unit};
use super::section::Section;

/// Begins the line that says which messages a summary covers, and its list of days.
pub(super) const RANGE: &str = "Messages ";
pub(super) const DAYS: &str = "Days (UTC): ";
/// Between quotes of one message that are not next to each other.
pub(super) const GAP: &str = " … ";
/// Between quotes that were on two lines.
pub(super) const LINE_BREAK: &str = " / ";

/// More days than this are not listed one by one.
const MAX_DAYS: usize = 20;

/// The messages a summary covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coverage {
    pub(super) first: Option<Ordinal>,
    pub(super) last: Option<Ordinal>,
}

/// A rolling summary of the chosen units.
pub(super) fn rolling(pool: &Pool<'_>, chosen: &[usize], coverage: Coverage) -> String {
    let lines = lines(pool, chosen);
    if lines.is_empty() {
        return String::new();
    }
    let mut text = legend(pool, chosen, coverage);
    let (mut section, mut speaker) = (None, "");
    for line in &lines {
        if section != Some(line.section) {
            if !text.is_empty() {
                text.push('\n');
            }
            let _ = writeln!(text, "## {}", line.section.title());
            (section, speaker) = (Some(line.section), "");
        }
        let first = &pool.units[line.units[0]];
        if speaker != first.speaker {
            let _ = writeln!(text, "{}:", first.speaker);
            speaker = first.speaker;
        }
        text.push_str("- ");
        if let Some(ordinal) = first.ordinal {
            let _ = write!(text, "{ordinal} ");
        }
        quote(pool, &line.units, &mut text);
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

/// One paragraph of the chosen units, in order.
pub(super) fn paragraph(pool: &Pool<'_>, chosen: &[usize], coverage: Coverage) -> String {
    let mut lines = lines(pool, chosen);
    lines.sort_by_key(|line| line.units[0]);
    let mut text = range(coverage);
    let days = days(pool, chosen);
    if let (Some((_, first)), Some((_, last))) = (days.first(), days.last()) {
        let _ = write!(text, ", {first}");
        if last != first {
            let _ = write!(text, " to {last}");
        }
    }
    let mut speaker = None;
    for line in &lines {
        let first = &pool.units[line.units[0]];
        text.push_str(if text.is_empty() || speaker.is_some() {
            ""
        } else {
            ":"
        });
        if !text.is_empty() {
            text.push(' ');
        }
        if speaker != Some(first.speaker) && !first.speaker.is_empty() {
            let _ = write!(text, "{}: ", first.speaker);
        }
        speaker = Some(first.speaker);
        if let Some(ordinal) = first.ordinal {
            let _ = write!(text, "{ordinal} ");
        }
        quote(pool, &line.units, &mut text);
    }
    text
}

/// Quotes that share a line.
pub(super) struct Line {
    pub(super) section: Section,
    pub(super) units: Vec<usize>,
}

/// Groups units of one message to lines, ordered by section, speaker and time.
pub(super) fn lines(pool: &Pool<'_>, chosen: &[usize]) -> Vec<Line> {
    let mut by_source: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &unit in chosen {
        by_source
            .entry(pool.units[unit].source)
            .or_default()
            .push(unit);
    }
    let line = |mut units: Vec<usize>| {
        units.sort_unstable();
        Line {
            section: common_section(pool, &units),
            units,
        }
    };
    let mut lines: Vec<Line> = by_source.into_values().map(line).collect();
    lines.sort_by_key(|line| {
        let unit = &pool.units[line.units[0]];
        (line.section, unit.role, unit.speaker, line.units[0])
    });
    lines
}

/// The section that most of the units, and above all the telling ones, belong to.
fn common_section(pool: &Pool<'_>, units: &[usize]) -> Section {
    let mut votes: BTreeMap<Section, usize> = BTreeMap::new();
    for &unit in units {
        let section = Section::of(&pool.units[unit], pool.sources);
        *votes.entry(section).or_default() += section.weight();
    }
    let most = votes
        .into_iter()
        .max_by_key(|&(section, votes)| (votes, section));
    most.map_or(Section::KeyPoints, |(section, _)| section)
}

/// Writes units in a line: neighbours joined as they were, gaps shown, white space single.
pub(super) fn quote(pool: &Pool<'_>, units: &[usize], out: &mut String) {
    let mut previous: Option<&Unit<'_>> = None;
    for &index in units {
        let unit = &pool.units[index];
        if let Some(previous) = previous {
            let next = previous.place + 1 == unit.place;
            let within_line = if unit.starts_line { LINE_BREAK } else { " " };
            out.push_str(if next { within_line } else { GAP });
        }
        push_normalised(unit.text, out);
        previous = Some(unit);
    }
}

/// Appends a text with every run of white space as one space.
pub(super) fn push_normalised(text: &str, out: &mut String) {
    for (index, word) in text.split_whitespace().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        out.push_str(word);
    }
}

/// `Messages #1–#159. Days (UTC): 2026-03-02 #1, 03-03 #27.`
fn legend(pool: &Pool<'_>, chosen: &[usize], coverage: Coverage) -> String {
    let range = range(coverage);
    if range.is_empty() {
        return range;
    }
    let mut text = format!("{RANGE}{range}.");
    let mut days = days(pool, chosen);
    if days.len() > MAX_DAYS {
        days.dedup_by_key(|(_, date)| (date.year(), date.month()));
    }
    let mut year = None;
    for (index, (from, date)) in days.iter().enumerate() {
        text.push_str(if index == 0 { " " } else { ", " });
        text.push_str(if index == 0 { DAYS } else { "" });
        if year == Some(date.year()) {
            let _ = write!(text, "{:02}-{:02}", date.month(), date.day());
        } else {
            let _ = write!(text, "{date}");
        }
        year = Some(date.year());
        if days.len() > 1 {
            let _ = write!(text, " {from}");
        }
    }
    text.push_str(if days.is_empty() { "\n" } else { ".\n" });
    text
}

fn range(coverage: Coverage) -> String {
    match (coverage.first, coverage.last) {
        (Some(first), Some(last)) if first != last => format!("{first}–{last}"),
        (Some(only), _) | (None, Some(only)) => only.to_string(),
        (None, None) => String::new(),
    }
}

/// The days of the quoted messages, each with its first quoted message.
fn days(pool: &Pool<'_>, chosen: &[usize]) -> Vec<(Ordinal, Date)> {
    let units = chosen.iter().map(|&unit| &pool.units[unit]);
    let mut days: Vec<(Ordinal, Date)> = units
        .filter_map(|unit| Some((unit.ordinal?, day(unit.at?)?)))
        .collect();
    days.sort_unstable();
    days.dedup_by_key(|(_, date)| *date);
    days
}

/// The day of an instant, UTC.
pub(super) fn day(at: Timestamp) -> Option<Date> {
    let instant = jiff::Timestamp::from_millisecond(at.0).ok()?;
    Some(instant.to_zoned(TimeZone::UTC).date())
}
