//! Draws branches as lines, each from its fork to its last message.

use maud::{Markup, html};
use unisono_api::session::BranchSegment;
use unisono_api::short;

use super::{attribute, scaled};

const ROW: f64 = 26.0;
/// Maximum drawn stretches.
const MAX_BRANCHES: usize = 60;

/// Draws the branches of a session. `place` returns the link of a stretch.
pub(crate) fn lines(
    stretches: &[BranchSegment],
    place: &dyn Fn(&BranchSegment) -> Option<String>,
) -> Markup {
    let drawn = &stretches[..stretches.len().min(MAX_BRANCHES)];
    let longest = drawn.iter().map(|one| one.last_ordinal).max().unwrap_or(1);
    let x = |ordinal: u32| 10.0 + scaled(f64::from(ordinal), f64::from(longest)) * 0.8;
    let parents = parents(drawn);
    let y = |row: usize| row as f64 * ROW + ROW / 2.0;
    html! {
        @if drawn.len() > 1 {
            svg class="branches" viewBox={ "0 0 1000 " (attribute(drawn.len() as f64 * ROW)) } aria-hidden="true" focusable="false" {
                @for (row, one) in drawn.iter().enumerate() {
                    @if let Some(parent) = parents[row] {
                        @let from = x(drawn[parent].last_ordinal);
                        path class="edge" d={ "M" (attribute(from)) " " (attribute(y(parent)))
                            " C" (attribute(from)) " " (attribute(y(row))) " " (attribute(from)) " " (attribute(y(row)))
                            " " (attribute(x(one.first_ordinal))) " " (attribute(y(row))) } {}
                    }
                    path class="branch" d={ "M" (attribute(x(one.first_ordinal))) " " (attribute(y(row))) " H" (attribute(x(one.last_ordinal))) } {}
                    circle cx=(attribute(x(one.last_ordinal))) cy=(attribute(y(row))) r="5" {}
                    @let says = named(one);
                    @let text = html! { text x=(attribute(x(one.last_ordinal) + 10.0)) y=(attribute(y(row) + 4.0)) { (says) } };
                    @match place(one) { Some(to) => a href=(to) tabindex="-1" { (text) }, None => (text) }
                }
            }
            @if stretches.len() > MAX_BRANCHES { p class="quiet" { (stretches.len() - MAX_BRANCHES) " more are in the list alone." } }
        }
    }
}

fn named(one: &BranchSegment) -> String {
    match one.branches.is_empty() {
        true => format!("#{}", one.last_ordinal),
        false => short::line(&one.branches.join(", "), 30),
    }
}

/// The parent of each stretch: the newest previous one that is one fork higher and ends where it
/// begins.
fn parents(stretches: &[BranchSegment]) -> Vec<Option<usize>> {
    let mut found = Vec::new();
    for (at, one) in stretches.iter().enumerate() {
        let mut before = stretches[..at].iter();
        found.push(before.rposition(|other| {
            other.depth <= one.depth && other.last_ordinal + 1 == one.first_ordinal
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(depth: u32, first: u32, last: u32, branch: &str) -> BranchSegment {
        BranchSegment {
            depth,
            first: String::new(),
            last: String::new(),
            first_ordinal: first,
            last_ordinal: last,
            messages: 1,
            role: "user".to_owned(),
            text: String::new(),
            branches: vec![branch.to_owned()],
        }
    }

    #[test]
    fn a_branch_begins_where_it_forks_off() {
        let all = [
            stretch(0, 1, 4, "a"),
            stretch(1, 5, 9, "main"),
            stretch(1, 5, 6, "b"),
            stretch(2, 7, 7, "c"),
        ];
        assert_eq!(parents(&all), [None, Some(0), Some(0), Some(2)]);
        let shown = lines(&all, &|_| None).into_string();
        assert_eq!(shown.matches("class=\"edge\"").count(), 3);
        assert_eq!(shown.matches("class=\"branch\"").count(), 4);
    }

    #[test]
    fn one_line_is_no_tree_names_are_text_and_many_are_bounded() {
        assert_eq!(lines(&[], &|_| None).into_string(), "");
        assert_eq!(
            lines(&[stretch(0, 1, 9, "main")], &|_| None).into_string(),
            ""
        );
        let many: Vec<_> = (1..200).map(|at| stretch(0, at, at, "<script>")).collect();
        let shown = lines(&many, &|_| None).into_string();
        assert!(
            !shown.contains("<script>") && shown.contains("139 more"),
            "{shown:.200}"
        );
    }
}
