//! Parses an earlier summary, so that its lines can compete with new messages.

use unisono_context::{Ordinal, Role, Timestamp};

use super::days::{DAYS, Days, parse_short};
use super::paragraph;
use super::passage::PassageKind;
use super::pool::{Pool, Source};
use super::quote::{GAP, LINE_BREAK};
use super::section::Section;
use crate::date::midnight;

/// The beginning of a summary's block in a context.
const MARKING: &str = "[summary of ";

/// Adds the lines of a summary to a pool; `last` is the last message it may quote. Returns the first
/// message it covers and its days, if known.
pub(super) fn add<'a>(
    pool: &mut Pool<'a>,
    summary: &'a str,
    last: Ordinal,
) -> (Option<Ordinal>, Days) {
    let (mut first, mut days) = (None, Days::default());
    let (mut section, mut day, mut year) = (None, None, None);
    let mut speaker = "";
    for line in summary
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let name = line.trim_matches(['#', ' ', ':']);
        if let Some(date) = parse_short(name, &mut year) {
            day = midnight(date);
            days.known.insert(date);
        } else if let Some(title) = line
            .strip_prefix('#')
            .map(|rest| rest.trim_start_matches('#'))
            && title.starts_with(' ')
        {
            (section, speaker, day, year) = (Section::from_title(title), "", None, None);
        } else if line.starts_with(MARKING) {
            // The marking of a summary has no content.
        } else if let Some(legend) = line.strip_prefix(DAYS) {
            let listed = Days::parse(legend);
            days.partial |= listed.partial;
            days.known.extend(listed.known);
        } else if let Some(name) = line.strip_suffix(':').filter(|name| is_name(name)) {
            speaker = name;
        } else if let Some(read) = paragraph::parse(line) {
            speaker = "";
            for quote in &read.quotes {
                speaker = quote.speaker.unwrap_or(speaker);
                let at = quote.number.and_then(|number| read.day_of(number));
                add_quote(pool, (quote.number, quote.text), speaker, section, at);
            }
            first = first.or(Some(read.first));
            days.partial |= read.days.partial;
            days.known.extend(read.days.known);
        } else {
            let item = line.strip_prefix("- ").unwrap_or(line);
            // The only day, if there is just one.
            let at = day.or_else(|| match days.known.len() {
                1 => midnight(*days.known.first()?),
                _ => None,
            });
            if let Some((name, numbered)) = numbered(item) {
                for quote in paragraph::quotes(numbered, last) {
                    add_quote(pool, (quote.number, quote.text), name, section, at);
                }
                continue;
            }
            let (name, quote) = named(item).unwrap_or((speaker, reference(item)));
            add_quote(pool, quote, name, section, at);
        }
    }
    (first, days)
}

/// Parses `Marta #12 the quote. #14 the next`, as written by [`super::render::rolling`].
fn numbered(item: &str) -> Option<(&str, &str)> {
    let (name, rest) = item.split_once(' ')?;
    ordinal(rest.split(' ').next()?)?;
    is_name(name).then_some((name, rest))
}

/// Parses `user: the quote`.
fn named(item: &str) -> Option<(&str, (Option<Ordinal>, &str))> {
    let (name, quote) = item.split_once(": ")?;
    Role::from_name(name)?;
    Some((name, (None, quote)))
}

fn add_quote<'a>(
    pool: &mut Pool<'a>,
    (number, quote): (Option<Ordinal>, &'a str),
    speaker: &'a str,
    section: Option<Section>,
    at: Option<Timestamp>,
) {
    let role = Role::from_name(speaker).unwrap_or(Role::Assistant);
    let kind = match role {
        Role::Tool => PassageKind::ToolResult,
        Role::Assistant if is_call(quote) => PassageKind::ToolCall,
        _ => PassageKind::Text,
    };
    let source = Source {
        ordinal: number,
        at,
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

/// Whether a quote begins with the names of a tool and an argument: `cancel_order: order_id: W-17`.
fn is_call(quote: &str) -> bool {
    let mut names = quote.split(": ");
    let mut is_next = || names.next().is_some_and(is_name);
    is_next() && is_next() && names.next().is_some()
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

/// Parses `#12`, with only digits after the sign.
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
