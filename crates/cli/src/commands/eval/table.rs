//! Measurements as tables, one for each size.

use unisono_model::retention::{self, Category, Score};

use super::report::{Report, RetainedRow, Row, Size};
use crate::show;

/// The tables, each under a line that says its size.
pub(super) fn tables(report: &Report) -> String {
    let mut text = format!(
        "{}: {} of {} tokens ({}), {}\n",
        report.conversation,
        show::many(report.messages as u64, "message"),
        show::number(report.tokens),
        report.encoding,
        show::many(report.whole.all.of as u64, "probe"),
    );
    for size in &report.sizes {
        text.push_str(&format!(
            "\n{}:1, at most {} tokens\n",
            size.ratio,
            show::number(size.tokens)
        ));
        let mut rows: Vec<Vec<String>> = size.rows.iter().map(|row| cells(size, row)).collect();
        rows.push(whole(report));
        let header = [
            "KEPT BY",
            "ALL",
            "FACTS",
            "DECISIONS",
            "CONSTRAINTS",
            "NAMES",
            "TASKS",
            "× TAIL",
            "TOKENS",
        ];
        text.push_str(&show::table(&header, &[1, 2, 3, 4, 5, 6, 7, 8], rows));
        text.push('\n');
    }
    text
}

fn cells(size: &Size, row: &Row) -> Vec<String> {
    let name = row.way.label();
    match &row.kept {
        Ok(kept) => kept_cells(name, size, kept),
        Err(_) => vec![name, "failed".to_owned()],
    }
}

/// The cells of a result. A `+` marks one that exceeds its size.
fn kept_cells(name: String, size: &Size, kept: &RetainedRow) -> Vec<String> {
    let times = size.times_tail(kept);
    let times = times.map_or_else(|| "–".to_owned(), |times| format!("{times:.2}"));
    let mark = if size.is_exceeded(kept) { "+" } else { "" };
    let mut cells = vec![name];
    cells.extend(shares(&kept.retained));
    cells.extend([times, format!("{}{mark}", show::number(kept.tokens))]);
    cells
}

fn whole(report: &Report) -> Vec<String> {
    let mut cells = vec!["the whole conversation".to_owned()];
    cells.extend(shares(&report.whole));
    cells.extend([String::new(), show::number(report.tokens)]);
    cells
}

fn shares(report: &retention::Report) -> Vec<String> {
    let of = |category| report.by_category.get(&category).copied();
    let categories = Category::ALL.into_iter().map(of);
    std::iter::once(Some(report.all))
        .chain(categories)
        .map(percent)
        .collect()
}

/// A percentage such as `51.5 %`; a dash without measurements.
pub(super) fn percent(score: Option<Score>) -> String {
    match score {
        Some(score) if score.of > 0 => format!("{:.1} %", score.share() * 100.0),
        _ => "–".to_owned(),
    }
}
