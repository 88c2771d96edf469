//! Numbers, times and texts as people read them, and ids and roles as JSON has them.

use std::borrow::Cow;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};
use jiff::Timestamp as Instant;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use unisono::fmt;
use unisono_api::harmless::for_terminal;
use unisono_api::usage::{Amounts, Budget};
use unisono_context::{Cost, Timestamp, Tokens};

use crate::terminal;

/// A text in a line is not cut to fewer characters.
const LEAST_ROOM: usize = 16;

pub(crate) use unisono::fmt::{cache, line, number};
pub(crate) use unisono_api::compaction::ratio;

/// Tokens with their thousands apart.
pub(crate) fn tokens(tokens: Tokens) -> String {
    number(tokens.0)
}

/// The cost of runs; none if a price is unknown.
pub(crate) fn cost_of(used: &Amounts) -> Option<Cost> {
    used.cost_usd.map(in_dollars)
}

/// Dollars; `?` if a price is unknown.
pub(crate) fn cost(cost: Option<Cost>) -> String {
    cost.map_or_else(|| "?".to_owned(), |cost| cost.to_string())
}

/// Dollars from the API; `?` if a price is unknown.
pub(crate) fn price(dollars: Option<f64>) -> String {
    cost(dollars.map(in_dollars))
}

pub(crate) fn in_dollars(dollars: f64) -> Cost {
    Cost::from_micro_dollars((dollars * 1e6).round() as u64)
}

pub(crate) fn budget_line(of: &Budget) -> String {
    let shown = |amount: f64| match of.resource.as_str() {
        "cost" => in_dollars(amount).to_string(),
        "time" => format!("{} s", amount as u64),
        what => format!("{} {what}", number(amount as u64)),
    };
    let mut line = format!(
        "{}: {} of {} used, {} left",
        of.name(),
        shown(of.spent),
        shown(of.cap),
        shown(of.remaining)
    );
    if of.reserved > 0.0 {
        line += &format!(", {} reserved", shown(of.reserved));
    }
    line
}

/// Dollars as a number; none if a price is unknown.
pub(crate) fn dollars(cost: Option<Cost>) -> Option<f64> {
    cost.map(|cost| cost.micro_dollars() as f64 / 1e6)
}

/// The compression ratio of a step in parentheses, with a space before; empty if nothing was saved.
pub(crate) fn compression(before: Tokens, after: Tokens) -> String {
    let ratio = fmt::compression(before.0, after.0);
    ratio.map_or_else(String::new, |ratio| format!(" ({ratio})"))
}

/// `1 message`, `2 messages`, `3 summaries`.
pub(crate) fn many(n: u64, what: &str) -> String {
    match what.strip_suffix('y') {
        _ if n == 1 => format!("1 {what}"),
        Some(stem) => format!("{} {stem}ies", number(n)),
        None => format!("{} {what}s", number(n)),
    }
}

/// `84 ms`, `1.2 s`, `3 min 20 s`.
pub(crate) fn time(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ if ms % 60_000 < 1_000 => format!("{} min", ms / 60_000),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
    }
}

/// A size in bytes: `84 B`, `1.2 KiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1_024.0;
    let mut unit = 0;
    while value >= 1_024.0 && unit + 1 < UNITS.len() {
        value /= 1_024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// RFC 3339, UTC, to the second.
pub(crate) fn instant(at: Timestamp) -> String {
    match Instant::from_millisecond(at.0) {
        Ok(at) => at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Err(_) => at.0.to_string(),
    }
}

/// An instant for people: `2026-03-02 09:14`.
pub(crate) fn date(at: Timestamp) -> String {
    match Instant::from_millisecond(at.0) {
        Ok(at) => at.strftime("%Y-%m-%d %H:%M").to_string(),
        Err(_) => at.0.to_string(),
    }
}

/// The minute of an instant as the API has it, for people.
pub(crate) fn minute(instant: &str) -> String {
    let minute = instant.get(..16).unwrap_or(instant);
    minute.replace('T', " ")
}

/// The second of an instant as the API has it, for people.
pub(crate) fn second(instant: &str) -> String {
    let second = instant.get(..19).unwrap_or(instant);
    second.replace('T', " ")
}

/// The start of an id. Ids of sessions begin with the time of their creation.
pub(crate) fn short_id(id: &str) -> String {
    id.chars().take(13).collect()
}

/// A text as one argument of a command in a shell.
pub(crate) fn argument(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Every line of a text after `indent`, without control characters.
pub(crate) fn indented(text: &str, indent: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = for_terminal(line);
        format!("{indent}{line}").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Wraps a text at the width of the terminal, with an indentation of `hang`; unchanged without a
/// terminal.
pub(crate) fn wrap(text: &str, hang: usize) -> String {
    match terminal::columns() {
        Some(columns) => wrapped(text, columns, hang),
        None => text.to_owned(),
    }
}

/// Wraps a text at a number of columns. Colours have no width.
fn wrapped(text: &str, columns: usize, hang: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut at = 0;
        for word in line.split_inclusive(' ') {
            let width = visible(word.trim_end());
            if at > hang && at + width > columns {
                out.truncate(out.trim_end_matches(' ').len());
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', hang));
                at = hang;
            }
            let is_painted = matches!(terminal::without_colours(word), Cow::Owned(_));
            if at + width > columns && !is_painted {
                at = cut(&mut out, word, at, (columns, hang));
            } else {
                out.push_str(word);
                at += visible(word);
            }
        }
    }
    out
}

/// Splits a word that is longer than a line, and returns the column of its end.
fn cut(out: &mut String, word: &str, mut at: usize, (columns, hang): (usize, usize)) -> usize {
    for letter in word.chars() {
        let width = letter.width().unwrap_or_default();
        if at > hang && letter != ' ' && at + width > columns {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', hang));
            at = hang;
        }
        out.push(letter);
        at += width;
    }
    at
}

/// The columns of a text, without colours.
fn visible(text: &str) -> usize {
    UnicodeWidthStr::width(&*terminal::without_colours(text))
}

/// The number of characters that fit in a line of the terminal after `taken` ones, at most `usual`;
/// `usual` without a terminal.
pub(crate) fn line_room(taken: usize, usual: usize) -> usize {
    let columns = terminal::columns().map(|columns| columns.saturating_sub(taken));
    columns.map_or(usual, |left| left.clamp(LEAST_ROOM, usual))
}

/// A table without borders. The columns in `right` are aligned to the right. On a terminal, cells are
/// wrapped to its width, if possible between words, except the first column, whose ids are copied by
/// people.
pub(crate) fn table(header: &[&str], right: &[usize], rows: Vec<Vec<String>>) -> String {
    table_within(terminal::columns(), header, right, rows)
}

/// A table whose `optional` columns are left out, in this order, until its words fit the terminal.
pub(crate) fn table_that_fits(
    header: &[&str],
    right: &[usize],
    rows: Vec<Vec<String>>,
    optional: &[usize],
) -> String {
    let Some(columns) = terminal::columns() else {
        return table(header, right, rows);
    };
    let least = least_widths(header, &rows);
    let mut width: usize = least.iter().sum();
    let mut dropped = Vec::new();
    for &column in optional {
        if width > columns {
            width -= least[column];
            dropped.push(column);
        }
    }
    let kept: Vec<usize> = (0..header.len()).filter(|n| !dropped.contains(n)).collect();
    let header: Vec<&str> = kept.iter().map(|&n| header[n]).collect();
    let is_right = |n: &usize| right.contains(&kept[*n]);
    let right: Vec<usize> = (0..kept.len()).filter(is_right).collect();
    let of_row = |row: Vec<String>| kept.iter().filter_map(|&n| row.get(n).cloned()).collect();
    table_within(
        Some(columns),
        &header,
        &right,
        rows.into_iter().map(of_row).collect(),
    )
}

fn table_within(
    columns: Option<usize>,
    header: &[&str],
    right: &[usize],
    rows: Vec<Vec<String>>,
) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    let least = least_widths(header, &rows);
    let fits = columns.is_some_and(|columns| least.iter().sum::<usize>() <= columns);
    if let Some(columns) = columns {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(narrow(columns));
    }
    table.set_header(header.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    for column in right {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for (column, least) in table.column_iter_mut().zip(least) {
        column.set_padding((0, 1));
        if fits {
            let least = Width::Fixed(narrow(least));
            column.set_constraint(ColumnConstraint::LowerBoundary(least));
        }
    }
    if let Some(ids) = table.column_mut(0) {
        ids.set_constraint(ColumnConstraint::ContentWidth);
    }
    let text = table.to_string();
    text.lines()
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .join("\n")
}

/// The least width of each column: its longest word, of the first column its longest cell, and the gap
/// after it.
fn least_widths(header: &[&str], rows: &[Vec<String>]) -> Vec<usize> {
    let longest = |index: usize, cell: &str| match index {
        0 => visible(cell),
        _ => cell.split_whitespace().map(visible).max().unwrap_or(0),
    };
    let mut widths: Vec<usize> = Vec::with_capacity(header.len());
    for (index, name) in header.iter().enumerate() {
        let cells = rows.iter().filter_map(|row| row.get(index));
        let cells = cells.map(|cell| longest(index, cell)).max().unwrap_or(0);
        widths.push(cells.max(longest(index, name)) + 1);
    }
    widths
}

fn narrow(width: usize) -> u16 {
    u16::try_from(width).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_goes_on_below_its_column() {
        let keeps = terminal::Paint(true).bold("keeps");
        let text = format!("step  summarise #1 to #12\nnext  {keeps} all");
        let folded = format!("step  summarise\n      #1 to #12\nnext  {keeps} all");
        assert_eq!(wrapped(&text, 16, 6), folded);
        assert_eq!(wrapped(&text, 80, 6), text);
        let bar = terminal::Paint(true).red("█".repeat(30));
        assert_eq!(wrapped(&bar, 16, 2), bar);
        // A word that fits in no line is cut.
        assert_eq!(wrapped("a 0123456789", 6, 1), "a\n 01234\n 56789");
    }

    #[test]
    fn a_table_is_wrapped_between_words_if_they_fit() {
        let header = ["MODEL", "WINDOW", "USED FOR"];
        let rows = || {
            vec![vec![
                "a-model".to_owned(),
                "1,000,000".to_owned(),
                "long talks with many people".to_owned(),
            ]]
        };
        let narrow = table_within(Some(32), &header, &[1], rows());
        assert!(narrow.lines().all(|line| line.len() <= 32), "{narrow}");
        assert!(narrow.contains("1,000,000"), "{narrow}");
        assert!(narrow.contains("people"), "{narrow}");
        // Words are broken only if they do not fit.
        let broken = table_within(Some(20), &header, &[1], rows());
        assert!(broken.lines().all(|line| line.len() <= 20), "{broken}");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(number(7), "7");
        assert_eq!(number(21_480), "21,480");
        assert_eq!(number(1_000_000), "1,000,000");
        assert_eq!(many(1, "summary"), "1 summary");
        assert_eq!(many(2, "summary"), "2 summaries");
        assert_eq!(time(84), "84 ms");
        assert_eq!(time(1_260), "1.2 s");
        assert_eq!(time(200_000), "3 min 20 s");
        assert_eq!(size(1_536), "1.5 KiB");
        assert_eq!(instant(Timestamp(0)), "1970-01-01T00:00:00Z");
    }
}
