//! Reading an earlier summary back, so that its lines can compete with new messages.

use jiff::civil::Date;
use unisono_context::{Ordinal, Role};

use super::days::{DAYS, Days, TO};
use super::paragraph;
use super::passage::Kind;
use super::pool::{Pool, Source};
use super::quote::{GAP, LINE_BREAK};
use super::render::RANGE;
use super::section::Section;

/// How the block of a summary begins in a context.
const MARKING: &str = "[summary of ";

/// The length of a day without its year: `03-27`.
const MONTH_AND_DAY: usize = "03-27".len();

/// Adds the lines of a summary to a pool and returns the first message it covers and its days, as
/// far as it says so.
pub(super) fn add<'a>(pool: &mut Pool<'a>, summary: &'a str) -> (Option<Ordinal>, Days) {
    let (mut first, mut days) = (None, Days::default());
    let mut section = None;
    let mut speaker = "";
    for line in summary
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        if let Some(title) = line
            .strip_prefix('#')
            .map(|rest| rest.trim_start_matches('#'))
            && title.starts_with(' ')
        {
            (section, speaker) = (Section::from_title(title), "");
        } else if line.starts_with(MARKING) {
            // What marks a text as a summary says nothing itself.
        } else if let Some(legend) = line.strip_prefix(RANGE) {
            (first, days) = parse_legend(legend);
        } else if let Some(name) = line.strip_suffix(':').filter(|name| is_name(name)) {
            speaker = name;
        } else if let Some(read) = paragraph::parse(line) {
            speaker = "";
            for quote in read.quotes {
                speaker = quote.speaker.unwrap_or(speaker);
                add_quote(
                    pool,
                    (quote.number, quote.text),
                    speaker,
                    section,
                    &read.days,
                );
            }
            first = first.or(Some(read.first));
            days.starts.extend(read.days.starts);
            days.listed &= read.days.listed;
        } else {
            let item = line.strip_prefix("- ").unwrap_or(line);
            add_quote(pool, reference(item), speaker, section, &days);
        }
    }
    (first, days)
}

fn add_quote<'a>(
    pool: &mut Pool<'a>,
    (number, quote): (Option<Ordinal>, &'a str),
    speaker: &'a str,
    section: Option<Section>,
    days: &Days,
) {
    let role = Role::from_name(speaker).unwrap_or(Role::Assistant);
    let kind = if role == Role::Tool {
        Kind::ToolResult
    } else {
        Kind::Text
    };
    let source = Source {
        ordinal: number,
        at: number.and_then(|n| days.at(n)),
        role,
        speaker,
        kind,
        prior: true,
        section,
    };
    let stretches: Vec<&str> = quote
        .split(GAP)
        .flat_map(|part| part.split(LINE_BREAK))
        .collect();
    pool.add(source, &stretches);
}

/// A quote and its message: `#12 the quote`, or a key fact's `the quote (#12)`.
fn reference(item: &str) -> (Option<Ordinal>, &str) {
    if let Some((head, quote)) = item.split_once(' ')
        && let Some(number) = ordinal(head)
    {
        return (Some(number), quote);
    }
    if let Some((quote, tail)) = item.rsplit_once(" (")
        && let Some(number) = tail.strip_suffix(')').and_then(ordinal)
    {
        return (Some(number), quote);
    }
    (None, item)
}

/// `#12` → 12, with nothing but the digits after the sign.
pub(super) fn ordinal(text: &str) -> Option<Ordinal> {
    text.trim().strip_prefix('#')?.parse().ok().map(Ordinal)
}

pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// `#1–#159. Days (UTC): 2026-03-02 #1, 03-03 #27.`: the first message, and from which message
/// each day begins.
fn parse_legend(text: &str) -> (Option<Ordinal>, Days) {
    let (range, days) = text.split_once(". ").unwrap_or((text, ""));
    let mut ends = range.trim_end_matches('.').split('–').map(ordinal);
    let first = ends.next().flatten();
    let last = ends.next().flatten().or(first);
    let days = days
        .strip_prefix(DAYS)
        .unwrap_or_default()
        .trim_end_matches('.');
    let starts = match days.split_once(TO) {
        Some((from, to)) => [(first, from), (last, to)]
            .into_iter()
            .filter_map(|(message, day)| Some((message?, day.parse().ok()?)))
            .collect(),
        None => parse_list(first, days),
    };
    let listed = !days.contains(TO);
    (first, Days { starts, listed })
}

fn parse_list(first: Option<Ordinal>, days: &str) -> Vec<(Ordinal, Date)> {
    let mut list: Vec<(Ordinal, Date)> = Vec::new();
    for entry in days.split(", ") {
        let (day, from) = match entry.split_once(' ') {
            Some((day, from)) => (day, ordinal(from)),
            None => (entry, first),
        };
        let year = list.last().map_or(0, |(_, date)| date.year());
        let full = if day.len() == MONTH_AND_DAY {
            format!("{year:04}-{day}")
        } else {
            day.to_owned()
        };
        if let (Some(from), Ok(date)) = (from, full.parse()) {
            list.push((from, date));
        }
    }
    list
}
