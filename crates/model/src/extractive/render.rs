//! Laying chosen units out as Markdown.
//!
//! Quotes of one message share a line; the speaker is written once for the lines under it, and
//! the days once for the whole summary, as the message each begins with.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use unisono_context::{Ordinal, Timestamp};

use super::pool::Pool;
use super::quote::quote;
use super::section::Section;

/// Begins the line that says which messages a summary covers, and its list of days.
pub(super) const RANGE: &str = "Messages ";
pub(super) const DAYS: &str = "Days (UTC): ";
pub(super) const TO: &str = " to ";

/// Days are listed one by one when at least so many units are quoted of each on average.
const UNITS_PER_DAY: usize = 5;

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

/// `Messages #1–#159. Days (UTC): 2026-03-02 #1, 03-03 #27.`, or `2026-03-02 to 2026-03-12` where
/// the list would take too much of the room.
fn legend(pool: &Pool<'_>, chosen: &[usize], coverage: Coverage) -> String {
    let mut text = range(coverage);
    if text.is_empty() {
        return text;
    }
    text = format!("{RANGE}{text}.");
    let days = days(pool, chosen);
    let few = days.len() <= 2 || days.len() * UNITS_PER_DAY <= chosen.len();
    let _ = match days[..] {
        [] => write!(text, ""),
        [(_, only)] => write!(text, " {DAYS}{only}."),
        [(_, first), .., (_, last)] if !few => write!(text, " {DAYS}{first}{TO}{last}."),
        _ => write!(text, " {DAYS}{}.", day_list(&days)),
    };
    text.push('\n');
    text
}

/// Each day with the first message quoted of it; the year where it is new.
fn day_list(days: &[(Ordinal, Date)]) -> String {
    let mut year = None;
    let entries = days.iter().map(|(from, date)| {
        let same = year.replace(date.year()) == Some(date.year());
        let (month, day) = (date.month(), date.day());
        if same {
            format!("{month:02}-{day:02} {from}")
        } else {
            format!("{date} {from}")
        }
    });
    entries.collect::<Vec<_>>().join(", ")
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
