//! Laying chosen units out as Markdown.
//!
//! Quotes of one message share a line; the speaker is written once for the lines under it, and
//! the days once for the whole summary, as the message each begins with.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use unisono_context::Ordinal;

use super::days::{DAYS, Days};
use super::pool::Pool;
use super::quote::quote;
use super::section::Section;

/// Begins the line that says which messages a summary covers, and their days.
pub(super) const RANGE: &str = "Messages ";

/// The messages a summary covers.
#[derive(Clone, Debug)]
pub(super) struct Coverage {
    pub(super) first: Option<Ordinal>,
    pub(super) last: Option<Ordinal>,
    pub(super) days: Days,
}

/// A rolling summary of the chosen units.
pub(super) fn rolling(pool: &Pool<'_>, chosen: &[usize], coverage: &Coverage) -> String {
    let lines = lines(pool, chosen);
    if lines.is_empty() {
        return String::new();
    }
    let mut text = legend(chosen.len(), coverage);
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
pub(super) fn paragraph(pool: &Pool<'_>, chosen: &[usize], coverage: &Coverage) -> String {
    let mut lines = lines(pool, chosen);
    lines.sort_by_key(|line| line.units[0]);
    let mut text = range(coverage);
    if let Some((first, last)) = coverage.days.ends() {
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

/// `Messages #1–#159. Days (UTC): 2026-03-02 #1, 03-03 #27.`
fn legend(units: usize, coverage: &Coverage) -> String {
    let range = range(coverage);
    if range.is_empty() {
        return range;
    }
    let days = match coverage.days.legend(units) {
        none if none.is_empty() => none,
        days => format!(" {DAYS}{days}."),
    };
    format!("{RANGE}{range}.{days}\n")
}

fn range(coverage: &Coverage) -> String {
    match (coverage.first, coverage.last) {
        (Some(first), Some(last)) if first != last => format!("{first}–{last}"),
        (Some(only), _) | (None, Some(only)) => only.to_string(),
        (None, None) => String::new(),
    }
}
