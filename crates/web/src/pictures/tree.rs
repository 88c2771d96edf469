//! Draws branches as lines, each from its fork to its last message.

use std::collections::HashMap;

use maud::{Markup, html};
use unisono_api::fmt;
use unisono_api::session::BranchSegment;

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
    let rows: HashMap<&str, usize> = drawn
        .iter()
        .enumerate()
        .map(|(row, one)| (one.last.as_str(), row))
        .collect();
    let y = |row: usize| row as f64 * ROW + ROW / 2.0;
    html! {
        @if drawn.len() > 1 {
            svg class="branches" viewBox={ "0 0 1000 " (attribute(drawn.len() as f64 * ROW)) } aria-hidden="true" focusable="false" {
                @for (row, one) in drawn.iter().enumerate() {
                    @if let Some(parent) = &one.parent {
                        // A parent on an earlier page is above the picture.
                        @let above = rows.get(parent.as_str()).map_or(0.0, |parent| y(*parent));
                        @let from = x(one.first_ordinal.saturating_sub(1));
                        path class="edge" d={ "M" (attribute(from)) " " (attribute(above))
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
        false => fmt::line(&one.branches.join(", "), 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::HasAll as _;

    fn stretch(parent: &str, first: u32, last: u32, branch: &str) -> BranchSegment {
        BranchSegment {
            depth: 0,
            parent: (!parent.is_empty()).then(|| parent.to_owned()),
            first: String::new(),
            last: branch.to_owned(),
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
            stretch("", 1, 4, "a"),
            stretch("a", 5, 9, "main"),
            stretch("a", 5, 6, "b"),
            stretch("b", 7, 7, "c"),
        ];
        let shown = lines(&all, &|_| None).into_string();
        assert_eq!(shown.matches("class=\"edge\"").count(), 3);
        assert_eq!(shown.matches("class=\"branch\"").count(), 4);
        // On a later page the parents are above the picture.
        let rest = lines(&all[1..], &|_| None).into_string();
        assert_eq!(rest.matches("class=\"edge\"").count(), 3);
        rest.has_all(&[&format!(
            "class=\"edge\" d=\"M{} 0 C",
            attribute(10.0 + scaled(4.0, 9.0) * 0.8)
        )]);
    }

    #[test]
    fn one_line_is_no_tree_names_are_text_and_many_are_bounded() {
        assert_eq!(lines(&[], &|_| None).into_string(), "");
        assert_eq!(
            lines(&[stretch("", 1, 9, "main")], &|_| None).into_string(),
            ""
        );
        let many: Vec<_> = (1..200).map(|at| stretch("", at, at, "<script>")).collect();
        let shown = lines(&many, &|_| None).into_string();
        assert!(
            !shown.contains("<script>") && shown.contains("139 more"),
            "{shown:.200}"
        );
    }
}
