//! Writes chosen units as Markdown.
//!
//! Quotes of one message share a line with its speaker. All days are listed once, and the quotes of
//! a day are below it, for as many days as fit.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use unisono_context::Ordinal;

use super::SummaryInput;
use super::days::{Days, MS_PER_DAY, QuotedDays, short_name};
use super::paragraph::{END, ends_sentence, escape_numbers};
use super::passage::PassageKind;
use super::pool::Pool;
use super::quote::{GAP, quote};
use super::section::Section;
use crate::date::utc_date;

/// A section with fewer lines gets no heading; its lines become key points.
const SECTION_LINES: usize = 8;

/// The messages a summary covers.
#[derive(Clone, Debug)]
pub(super) struct Coverage {
    pub(super) first: Option<Ordinal>,
    pub(super) last: Option<Ordinal>,
    pub(super) days: Days,
}

impl Coverage {
    pub(super) fn per_new_message(&self, input: &SummaryInput<'_>) -> f32 {
        let new = input.passages.iter().map(|passage| passage.ordinal).min();
        let (Some(first), Some(new), Some(last)) = (self.first, new, self.last) else {
            return 1.0;
        };
        let messages = |from: Ordinal| (last.0.saturating_sub(from.0) + 1) as f32;
        messages(first.min(new)) / messages(new)
    }
}

/// A rolling summary of the chosen units.
pub(super) fn rolling(pool: &Pool<'_>, chosen: &[usize], coverage: &Coverage, cap: u64) -> String {
    let mut lines = lines(pool, chosen);
    if lines.is_empty() {
        return String::new();
    }
    let day_of = |line: &Line| pool.units[line.units[0]].at.and_then(utc_date);
    let quoted = QuotedDays::new(lines.iter().map(day_of));
    let headings = coverage.days.headings(&quoted, cap);
    let heading = |line: &Line| day_of(line).filter(|day| headings.contains(day));
    // Quotes without a day come first, so that they are below no other day.
    lines.sort_by_key(|line| (line.section, heading(line)));
    let mut text = coverage.days.legend(&headings, &quoted, cap);
    let (mut section, mut day, mut year) = (None, None, None);
    // The speaker and the message at the end of the text.
    let (mut speaker, mut message) = (None, None);
    // The separator between a day and the list above it.
    let mut above = "";
    for line in &lines {
        if section != Some(line.section) {
            if !text.is_empty() {
                text.push('\n');
            }
            let _ = writeln!(text, "## {}", line.section.title());
            (section, day, year, speaker) = (Some(line.section), None, None, None);
            above = "";
        }
        let first = &pool.units[line.units[0]];
        let at = heading(line);
        if let Some(at) = at.filter(|_| at != day) {
            let _ = writeln!(text, "{above}{}:", short_name(at, &mut year));
            (day, speaker) = (Some(at), None);
        }
        above = "\n";
        let said_on = first.ordinal.filter(|_| first.kind == PassageKind::Text);
        let is_of_same = speaker == Some(first.speaker) && !first.speaker.is_empty();
        let continued = said_on.filter(|_| is_of_same && ends_sentence(text.trim_end()));
        if let Some(ordinal) = continued {
            text.truncate(text.trim_end().len());
            // A message may have several texts.
            let _ = match message.replace(ordinal) == continued {
                true => write!(text, "{GAP}"),
                false => write!(text, " {ordinal} "),
            };
        } else {
            (speaker, message) = (said_on.map(|_| first.speaker), said_on);
            let _ = match (first.speaker, first.ordinal) {
                ("", None) => write!(text, "- "),
                ("", Some(ordinal)) => write!(text, "- {ordinal} "),
                (speaker, None) => write!(text, "- {speaker}: "),
                (speaker, Some(ordinal)) => write!(text, "- {speaker} {ordinal} "),
            };
        }
        push_quote(pool, &line.units, &mut text);
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

/// Appends quotes. It escapes words in them that look like numbers of messages (`#12`).
fn push_quote(pool: &Pool<'_>, units: &[usize], text: &mut String) {
    let from = text.len();
    quote(pool, units, text);
    escape_numbers(text, from);
}

/// One paragraph of the chosen units, in order. Those without a speaker come first: behind a quote they
/// would be of its speaker.
pub(super) fn paragraph(pool: &Pool<'_>, chosen: &[usize], coverage: &Coverage) -> String {
    let mut lines = lines(pool, chosen);
    let has_speaker = |unit: usize| !pool.units[unit].speaker.is_empty();
    lines.sort_by_key(|line| (has_speaker(line.units[0]), line.units[0]));
    let mut text = range(coverage);
    let days = &coverage.days.known;
    let is_dated = |line: &Line| pool.units[line.units[0]].at.and_then(utc_date).is_some();
    // One day would be read as the day of all quotes.
    let may_be_named = days.len() > 1 || lines.iter().all(is_dated);
    if let (Some(first), Some(last), true) = (days.first(), days.last(), may_be_named) {
        let _ = write!(text, ", {first}");
        if last != first {
            let _ = write!(text, " to {last}");
        }
    }
    let (mut speaker, mut message) = (None, None);
    for line in &lines {
        let first = &pool.units[line.units[0]];
        let is_of_last = speaker == Some(first.speaker) && first.ordinal.is_some();
        if is_of_last && message == first.ordinal {
            text.push_str(GAP);
            push_quote(pool, &line.units, &mut text);
            continue;
        }
        match speaker {
            Some(_) if !ends_sentence(&text) => text.push(END),
            None if !text.is_empty() => text.push(':'),
            _ => {}
        }
        text.push_str(if text.is_empty() { "" } else { " " });
        if speaker != Some(first.speaker) && !first.speaker.is_empty() {
            let _ = write!(text, "{}: ", first.speaker);
        }
        (speaker, message) = (Some(first.speaker), first.ordinal);
        if let Some(ordinal) = first.ordinal {
            let _ = write!(text, "{ordinal} ");
        }
        push_quote(pool, &line.units, &mut text);
    }
    text
}

/// Quotes that share a line.
pub(super) struct Line {
    pub(super) section: Section,
    pub(super) units: Vec<usize>,
}

/// Groups units of one message to lines, ordered by section and time.
pub(super) fn lines(pool: &Pool<'_>, chosen: &[usize]) -> Vec<Line> {
    let mut by_source: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &unit in chosen {
        let line = by_source.entry(pool.units[unit].source);
        line.or_default().push(unit);
    }
    let line = |mut units: Vec<usize>| {
        units.sort_unstable();
        Line {
            section: common_section(pool, &units),
            units,
        }
    };
    let mut lines: Vec<Line> = by_source.into_values().map(line).collect();
    let mut counts: BTreeMap<Section, usize> = BTreeMap::new();
    for line in &lines {
        *counts.entry(line.section).or_default() += 1;
    }
    let small = |section: Section| counts.get(&section).is_some_and(|n| *n < SECTION_LINES);
    for line in lines.iter_mut().filter(|line| small(line.section)) {
        line.section = Section::KeyPoints;
    }
    lines.sort_by_key(|line| {
        let unit = &pool.units[line.units[0]];
        let day = unit.at.map(|at| at.0.div_euclid(MS_PER_DAY));
        (line.section, day, unit.ordinal, line.units[0])
    });
    lines
}

/// The section of most units, weighted by section.
fn common_section(pool: &Pool<'_>, units: &[usize]) -> Section {
    let mut votes: BTreeMap<Section, usize> = BTreeMap::new();
    for &unit in units {
        let section = Section::classify(&pool.units[unit], pool.sources);
        *votes.entry(section).or_default() += section.weight();
    }
    let votes = votes.into_iter();
    let most = votes.max_by_key(|&(section, votes)| (votes, section));
    most.map_or(Section::KeyPoints, |(section, _)| section)
}

fn range(coverage: &Coverage) -> String {
    match (coverage.first, coverage.last) {
        (Some(first), Some(last)) if first != last => format!("{first}–{last}"),
        (Some(only), _) | (None, Some(only)) => only.to_string(),
        (None, None) => String::new(),
    }
}
