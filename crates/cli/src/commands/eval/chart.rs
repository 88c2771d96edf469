//! Measurements as an SVG chart: a bar for every row of each size, and a cell for each category,
//! darker for more retained facts. It has no script, no style sheet and no font.

use std::fmt::Write as _;

use unisono_api::harmless::is_harmful;
use unisono_model::retention::Category;

use super::report::{EvaluatedMethod, Report, Row, Size};
use super::table::percent;
use crate::show;

const WIDTH: u32 = 920;
const MARGIN: u32 = 24;
const LINE: u32 = 24;
/// The position of the bars, and the length of a full one.
const BARS_AT: u32 = 250;
const BAR: u32 = 240;
/// The position of the cells, and the width of one.
const CELLS_AT: u32 = 566;
const CELL: u32 = 66;
/// Above the first panel, and above the rows of each.
const TITLE: u32 = 64;
const HEADING: u32 = 46;

pub(super) fn svg(report: &Report) -> String {
    let panel = |size: &Size| HEADING + LINE * size.rows.len() as u32 + MARGIN;
    let height = TITLE + report.sizes.iter().map(panel).sum::<u32>();
    let title = format!(
        "{}: facts kept of {} tokens, {} probes",
        report.conversation,
        show::number(report.tokens),
        report.whole.all.of
    );
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" font-family=\"sans-serif\" \
         font-size=\"13\" fill=\"#1f2933\">\n"
    );
    let shown = escaped(&title);
    let _ = writeln!(out, "<title>{shown}</title>");
    let _ = writeln!(
        out,
        "<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>"
    );
    text(
        &mut out,
        (MARGIN, 36),
        "font-size=\"17\" font-weight=\"bold\"",
        &title,
    );
    let mut top = TITLE;
    for size in &report.sizes {
        draw_panel(&mut out, size, top);
        top += panel(size);
    }
    out.push_str("</svg>\n");
    out
}

fn draw_panel(out: &mut String, size: &Size, top: u32) {
    let heading = format!(
        "{}:1, at most {} tokens",
        size.ratio,
        show::number(size.tokens)
    );
    text(out, (MARGIN, top + 16), "font-weight=\"bold\"", &heading);
    for (index, category) in (0..).zip(Category::ALL) {
        let x = CELLS_AT + CELL * index + CELL / 2;
        let style = "text-anchor=\"middle\" font-size=\"11\" fill=\"#52606d\"";
        text(out, (x, top + 34), style, category.name());
    }
    for (index, row) in (0..).zip(&size.rows) {
        draw_row(out, size, row, top + HEADING + LINE * index);
    }
}

fn draw_row(out: &mut String, size: &Size, row: &Row, top: u32) {
    let base = top + 14;
    let end = "text-anchor=\"end\"";
    text(out, (BARS_AT - 10, base), end, &row.way.label());
    let kept = match &row.kept {
        Ok(kept) => kept,
        Err(_) => return text(out, (BARS_AT, base), "fill=\"#b42318\"", "failed"),
    };
    let all = kept.retained.all;
    let length = (all.share() * f64::from(BAR)).round();
    let colour = colour(&row.way);
    let _ = writeln!(
        out,
        "<rect x=\"{BARS_AT}\" y=\"{top}\" width=\"{length}\" height=\"18\" fill=\"{colour}\"/>"
    );
    let after = BARS_AT + length as u32 + 6;
    let mut share = percent(Some(all));
    if size.is_exceeded(kept) {
        let _ = write!(share, " of {} tokens", show::number(kept.tokens));
    }
    text(out, (after, base), "", &share);
    for (index, category) in (0..).zip(Category::ALL) {
        let score = kept.retained.by_category.get(&category).copied();
        let share = score.map_or(0.0, |score| score.share());
        let x = CELLS_AT + CELL * index;
        let _ = writeln!(
            out,
            "<rect x=\"{}\" y=\"{top}\" width=\"{}\" height=\"20\" fill=\"#1d6fa5\" \
             fill-opacity=\"{:.2}\"/>",
            x + 1,
            CELL - 2,
            share * 0.6
        );
        let style = "text-anchor=\"middle\" font-size=\"11\"";
        text(out, (x + CELL / 2, base), style, &percent(score));
    }
}

const fn colour(way: &EvaluatedMethod) -> &'static str {
    match way {
        EvaluatedMethod::Summary { .. } => "#0b5394",
        EvaluatedMethod::Preset { .. } => "#5aa2d6",
        EvaluatedMethod::Baseline(_) => "#b8c2cc",
    }
}

fn text(out: &mut String, (x, y): (u32, u32), style: &str, said: &str) {
    let space = if style.is_empty() { "" } else { " " };
    let said = escaped(said);
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\"{space}{style}>{said}</text>");
}

/// Escapes the characters of XML syntax and removes those that XML does not allow.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if is_harmful(c) || c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
