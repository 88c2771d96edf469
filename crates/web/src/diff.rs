//! The differences of two requests, by lines.
//!
//! A request is mostly one line of JSON: a line here also ends after `
//! ` in a string, and after a member of an object. Differences begin and end at words, and
//! omissions are counted.

mod words;

use std::time::Duration;

use maud::{Markup, html};
use similar::{Algorithm, ChangeTag, capture_diff_slices_deadline};

use crate::parts::{counted, number};

/// Maximum compared bytes of each text, from the first difference on.
const COMPARED: usize = 256 * 1024;
/// The time limit for finding the shortest difference.
const PATIENCE: Duration = Duration::from_millis(200);
/// Equal lines that are shown before and after a change.
const AROUND: usize = 2;
/// Maximum shown lines, and bytes of all of them.
const LINES: usize = 400;
const BYTES: usize = 8 * 1024;
/// Maximum shown characters of a line.
const WIDTH: usize = 1_500;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Row {
    /// Both have it.
    Same(String),
    /// Only the first one has it.
    Own(String),
    /// Only the second one has it.
    Theirs(String),
    /// Lines that both have, and their bytes.
    Skipped { lines: usize, bytes: usize },
}

impl Row {
    fn shown_bytes(&self) -> usize {
        match self {
            Row::Same(line) | Row::Own(line) | Row::Theirs(line) => {
                line.chars().take(WIDTH).map(char::len_utf8).sum()
            }
            Row::Skipped { .. } => 0,
        }
    }
}

/// A difference, with the size of its omissions.
#[derive(Debug, PartialEq, Eq)]
struct Difference {
    rows: Vec<Row>,
    /// Omitted lines.
    more: usize,
    /// Bytes of both texts that were not compared.
    uncompared: usize,
}

/// The difference of the requests of two agents, named `own` and `theirs`.
pub(crate) fn show((own, a): (&str, &str), (theirs, b): (&str, &str)) -> Markup {
    html! {
        p class="quiet" { span class="sign" { "−" } " only " (own) " was sent it, "
            span class="sign" { "+" } " only " (theirs) " was" }
        (table((own, a), (theirs, b)))
    }
}

/// The difference of two texts, named `own` and `theirs`.
pub(crate) fn texts((own, a): (&str, &str), (theirs, b): (&str, &str)) -> Markup {
    html! {
        p class="quiet" { span class="sign" { "−" } " only in " (own) ", "
            span class="sign" { "+" } " only in " (theirs) }
        (table((own, a), (theirs, b)))
    }
}

/// A difference as a list of lines. Different words of two paired lines are marked.
fn table((own, a): (&str, &str), (theirs, b): (&str, &str)) -> Markup {
    let difference = compare(a, b);
    let named = |sign: &str, of: &str| html! { span class="hidden" { "only " (of) ": " } span class="sign" aria-hidden="true" { (sign) } };
    let beside = partners(&difference.rows);
    let line = |at: usize, text: &str| match beside[at].map(|other| &difference.rows[other]) {
        Some(Row::Own(other) | Row::Theirs(other)) => words::marked(text, other),
        _ => cut(text),
    };
    html! {
        ul class="diff" {
            @for (at, row) in difference.rows.iter().enumerate() {
                @match row {
                    Row::Same(line) => li { span class="sign" aria-hidden="true" { " " } span { (cut(line)) } },
                    Row::Own(text) => li class="own" { (named("−", own)) del { (line(at, text)) } },
                    Row::Theirs(text) => li class="theirs" { (named("+", theirs)) ins { (line(at, text)) } },
                    Row::Skipped { lines, bytes } => li class="skipped quiet" {
                        "… " (counted(*lines as u64, "line")) ", " (counted(*bytes as u64, "byte")) ", the same in both" },
                }
            }
        }
        @if difference.more > 0 { p class="warn" { (counted(difference.more as u64, "more line")) " not shown." } }
        @if difference.uncompared > 0 {
            p class="warn" { "The last " (number(difference.uncompared as u64)) " bytes of the two were not compared." }
        }
    }
}

/// The counterpart of each line: removed lines are paired in order with the added lines after them.
fn partners(rows: &[Row]) -> Vec<Option<usize>> {
    let mut found = vec![None; rows.len()];
    let mut at = 0;
    while at < rows.len() {
        let own = rows[at..]
            .iter()
            .take_while(|row| matches!(row, Row::Own(_)))
            .count();
        let after = &rows[at + own..];
        let theirs = after
            .iter()
            .take_while(|row| matches!(row, Row::Theirs(_)))
            .count();
        for pair in 0..own.min(theirs) {
            found[at + pair] = Some(at + own + pair);
            found[at + own + pair] = Some(at + pair);
        }
        at += (own + theirs).max(1);
    }
    found
}

/// A line; a long one is cut at the end of a word, with the number of omitted characters.
fn cut(line: &str) -> Markup {
    let end = line.char_indices().nth(WIDTH).map(|(at, _)| at);
    let kept = end.map(|end| {
        let word = line[..end].rfind(char::is_whitespace).unwrap_or(end);
        if word == 0 { end } else { word }
    });
    html! {
        @match kept {
            None => (line.trim_end_matches('\n')),
            Some(kept) => { (&line[..kept]) " "
                em class="quiet" { "… " (counted((line.len() - kept) as u64, "more byte")) } },
        }
    }
}

fn compare(a: &str, b: &str) -> Difference {
    let (a_lines, b_lines) = (lines(a), lines(b));
    // The requests of siblings have a long common beginning.
    let same = a_lines.iter().zip(&b_lines);
    let same = same.take_while(|(a, b)| a == b).count();
    let begin = same.saturating_sub(AROUND);
    let before = &a_lines[..begin];
    let (a_lines, a_left) = bounded(&a_lines[begin..]);
    let (b_lines, b_left) = bounded(&b_lines[begin..]);
    let deadline = std::time::Instant::now().checked_add(PATIENCE);
    let ops = capture_diff_slices_deadline(Algorithm::Myers, a_lines, b_lines, deadline);
    let changes = ops.iter().flat_map(|op| op.iter_changes(a_lines, b_lines));
    let all: Vec<(ChangeTag, &str)> = changes
        .map(|change| (change.tag(), change.value()))
        .collect();
    let mut rows = Vec::new();
    if begin > 0 {
        rows.push(skipped(before));
    }
    let mut at = 0;
    while at < all.len() {
        let same = all[at..]
            .iter()
            .take_while(|(tag, _)| *tag == ChangeTag::Equal);
        let same = same.count();
        if same == 0 {
            let (tag, line) = all[at];
            rows.push(match tag {
                ChangeTag::Delete => Row::Own(line.to_owned()),
                _ => Row::Theirs(line.to_owned()),
            });
            at += 1;
            continue;
        }
        let lines: Vec<&str> = all[at..at + same].iter().map(|(_, line)| *line).collect();
        let (before, after) = (
            if at == 0 && begin == 0 { 0 } else { AROUND },
            if at + same == all.len() { 0 } else { AROUND },
        );
        unchanged(&lines, before, after, &mut rows);
        at += same;
    }
    let shown = fitting(&rows);
    let more = rows.len() - shown;
    rows.truncate(shown);
    Difference {
        rows,
        more,
        uncompared: a_left + b_left,
    }
}

/// The number of the first rows that are shown. The first line always is.
fn fitting(rows: &[Row]) -> usize {
    let mut bytes = 0;
    let fits = rows.iter().take(LINES).take_while(|row| {
        let is_first = bytes == 0;
        bytes += row.shown_bytes();
        is_first || bytes <= BYTES
    });
    fits.count()
}

/// Adds equal lines: the last lines before a change and the first lines after one.
fn unchanged(lines: &[&str], before: usize, after: usize, rows: &mut Vec<Row>) {
    let same = |line: &&str| Row::Same((*line).to_owned());
    if lines.len() <= before + after + 1 {
        rows.extend(lines.iter().map(same));
        return;
    }
    let (left_out, last) = lines.split_at(lines.len() - after);
    let (first, left_out) = left_out.split_at(before);
    rows.extend(first.iter().map(same));
    rows.push(skipped(left_out));
    rows.extend(last.iter().map(same));
}

fn skipped(lines: &[&str]) -> Row {
    Row::Skipped {
        lines: lines.len(),
        bytes: lines.iter().map(|line| line.len()).sum(),
    }
}

/// The first lines of a text within the limit, and the number of omitted bytes. The first line is
/// always included.
fn bounded<'l, 't>(lines: &'l [&'t str]) -> (&'l [&'t str], usize) {
    let mut bytes = 0;
    let fits = lines.iter().take_while(|line| {
        let fits = bytes == 0 || bytes + line.len() <= COMPARED;
        bytes += line.len();
        fits
    });
    let (kept, left) = lines.split_at(fits.count());
    (kept, left.iter().map(|line| line.len()).sum())
}

/// The lines of a request: they end at line breaks, at escaped line breaks of JSON, and after
/// members.
fn lines(text: &str) -> Vec<&str> {
    let (mut all, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (line, left) = rest.split_at(line_end(rest));
        all.push(line);
        rest = left;
    }
    all
}

fn line_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let ends = |at: usize| match bytes[at] {
        b'\n' => true,
        b'n' => at > 0 && bytes[at - 1] == b'\\' && (at < 2 || bytes[at - 2] != b'\\'),
        b',' => match at.checked_sub(1).map(|before| bytes[before]) {
            Some(b'}' | b']') => true,
            // A quote within a text is written with a backslash.
            Some(b'"') => at < 2 || bytes[at - 2] != b'\\',
            _ => false,
        },
        _ => false,
    };
    let found = (0..bytes.len()).find(|at| ends(*at));
    found.map_or(bytes.len(), |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_cut_into_lines_that_join_to_it() {
        let text = "{\"system\":\"Be brief.\\nAnswer \\\"no\\\", C:\\\\new.\",\"tools\":[{\"a\":1},{\"b\":2}],\"x\":3}\nend";
        let cut = lines(text);
        assert_eq!(cut.concat(), text);
        assert_eq!(
            cut,
            [
                "{\"system\":\"Be brief.\\n",
                "Answer \\\"no\\\", C:\\\\new.\",",
                "\"tools\":[{\"a\":1},",
                "{\"b\":2}],",
                "\"x\":3}\n",
                "end"
            ]
        );
    }

    #[test]
    fn whole_lines_differ_and_what_is_the_same_is_counted() {
        let same: String = (0..10).map(|at| format!("line {at}\n")).collect();
        let (a, b) = (format!("{same}mine\nend\n"), format!("{same}yours\nend\n"));
        let found = compare(&a, &b);
        assert_eq!(
            found.rows,
            [
                Row::Skipped {
                    lines: 8,
                    bytes: 56
                },
                Row::Same("line 8\n".to_owned()),
                Row::Same("line 9\n".to_owned()),
                Row::Own("mine\n".to_owned()),
                Row::Theirs("yours\n".to_owned()),
                Row::Same("end\n".to_owned()),
            ]
        );
        assert_eq!((found.more, found.uncompared), (0, 0));
        assert_eq!(
            compare("", ""),
            Difference {
                rows: vec![],
                more: 0,
                uncompared: 0
            }
        );
    }

    #[test]
    fn what_is_cut_is_said() {
        let many: String = (0..1_000).map(|at| format!("{at}\n")).collect();
        let found = compare(&many, "");
        assert_eq!((found.rows.len(), found.more), (LINES, 600));
        let long: String = (0..100).map(|at| format!("{at:0999}\n")).collect();
        let found = compare(&long, "");
        assert_eq!((found.rows.len(), found.more), (8, 92));
        let lines = format!("{}\n", "x".repeat(1023)).repeat(1_000);
        assert_eq!(compare(&lines, "").uncompared, lines.len() - COMPARED);
        // Equal text is skipped first, regardless of its length.
        let found = compare(&format!("{lines}mine"), &format!("{lines}yours"));
        assert_eq!(found.uncompared, 0);
        assert!(found.rows.contains(&Row::Own("mine".to_owned())));
        let long = "word ".repeat(100_000);
        let shown = show(("a", &long), ("b", "other")).into_string();
        assert!(
            shown.contains("word</del>") || shown.contains("more bytes"),
            "{shown:.300}"
        );
        assert!(shown.len() < 20_000);
    }
}
