//! Draws a turn as a graph in which shared parts appear once.

use std::collections::BTreeMap;

use maud::{Markup, html};
use unisono_api::fmt;
use unisono_api::turn::{Run, Turn};

use crate::parts::{cached_tokens, digest, number};

/// Sizes, in the units of the drawing.
const ROW: usize = 48;
const BOX: usize = 40;
const WIDTH: usize = 160;
/// The distance between two columns.
const COLUMN: usize = 220;
/// Maximum drawn levels of delegation; deeper runs are drawn on the last one.
const LEVELS: usize = 4;
const MAX_RUNS: usize = 24;

/// Draws the groups of agents with a common prompt prefix, and who gets their results.
pub(crate) fn graph(turn: &Turn) -> Markup {
    let runs: Vec<&Run> = turn.runs.iter().take(MAX_RUNS).collect();
    let (leads, others): (Vec<&Run>, Vec<&Run>) = runs.iter().partition(|run| run.role == "lead");
    if others.is_empty() {
        return html! {};
    }
    let groups = groups(&others);
    let nodes = nodes(&groups, leads.first().copied());
    let height = others.len() * ROW;
    let end = nodes.values().map(|node| node.x + WIDTH).max();
    let leading = |prefix: &str| leads.iter().filter(|lead| lead.prefix == prefix).count();
    html! {
        div class="scroll fan-out" tabindex="0" role="group" aria-label="Fan-out" {
            svg class="fan" viewBox={ "0 0 " (end.unwrap_or(WIDTH)) " " (height) } aria-hidden="true" focusable="false" {
                @for (prefix, members) in &groups {
                    @let rows = members.iter().filter_map(|run| nodes.get(run.run.as_str())).map(|node| node.y);
                    @let y = (rows.clone().min().unwrap_or(0) + rows.max().unwrap_or(0)) / 2;
                    (rectangle(0, y, "prefix", &shared(prefix, members.len() + leading(prefix)), None))
                    @for run in members { @if let Some(node) = nodes.get(run.run.as_str()) {
                        (line(WIDTH, y, node.x, node.y))
                        @if let Some(to) = node.to { (line(node.x + WIDTH, node.y, to.0, to.1)) }
                    } }
                }
                @for node in nodes.values() {
                    (rectangle(node.x, node.y, &node.run.state, &node.run.agent, cache_read(node.run).as_deref()))
                }
            }
        }
        p class="quiet" { (description(&groups, &leads)) }
        (table(turn))
        @if turn.runs.len() > MAX_RUNS { p class="quiet" { (turn.runs.len() - MAX_RUNS) " more runs are not drawn." } }
    }
}

/// A run in the drawing.
struct Node<'r> {
    run: &'r Run,
    /// Its left edge.
    x: usize,
    /// Its middle.
    y: usize,
    /// The place of the run that gets its result.
    to: Option<(usize, usize)>,
}

/// Places the runs: a row for each run, a column for each level of delegation, the lead last.
fn nodes<'r>(
    groups: &[(String, Vec<&'r Run>)],
    lead: Option<&'r Run>,
) -> BTreeMap<&'r str, Node<'r>> {
    let others = || {
        groups
            .iter()
            .flat_map(|(_, members)| members.iter().copied())
    };
    let runs: BTreeMap<&str, &Run> = others().map(|run| (run.run.as_str(), run)).collect();
    let parent = |run: &Run| runs.get(run.parent.as_deref()?).copied();
    // A delegate of the lead has the level 1.
    let level = |run: &Run| {
        let above = std::iter::successors(parent(run), |run| parent(run));
        1 + above.take(LEVELS - 1).count()
    };
    let levels = others().map(level).max().unwrap_or(1);
    let x = |level: usize| (1 + levels - level) * COLUMN;
    let rows = others().enumerate();
    let placed: Vec<(&Run, usize, usize)> = rows
        .map(|(row, run)| (run, x(level(run)), row * ROW + ROW / 2))
        .collect();
    let lead = lead.map(|lead| (lead, x(0), placed.len() * ROW / 2));
    let place_of = |id: &str| {
        let mut places = placed.iter().chain(&lead);
        places.find(|(run, ..)| run.run == id)
    };
    let node = |(run, x, y): &(&'r Run, usize, usize)| {
        let parent = run.parent.as_deref().and_then(place_of);
        // A run with no parent in the drawing reports to the lead.
        let to = parent.or(lead.as_ref().filter(|(lead, ..)| lead.run != run.run));
        let to = to.map(|(_, x, y)| (*x, *y)).filter(|to| to.0 > *x);
        let (x, y) = (*x, *y);
        (run.run.as_str(), Node { run, x, y, to })
    };
    placed.iter().chain(&lead).map(node).collect()
}

/// The part of a run's input that was read from the provider's prompt cache.
fn cache_read(run: &Run) -> Option<String> {
    let (read, input) = (run.usage.cache_read_tokens, run.usage.input_tokens);
    (input > 0).then(|| format!("{} of {} cached", number(read), number(input)))
}

/// Maximum runs in the table.
const LISTED: usize = 100;

/// The same as a table.
fn table(turn: &Turn) -> Markup {
    html! {
        details id="fan-table" { summary { "As a table" }
            div class="scroll" tabindex="0" role="group" aria-label="Agents and their prompt prefixes, as a table" { table {
                thead { tr { th scope="col" { "Agent" } th scope="col" { "Role" } th scope="col" { "Prompt prefix" }
                    th scope="col" { "State" } th scope="col" class="number" { "In" } th scope="col" class="number" { "Cached" } } }
                tbody { @for run in turn.runs.iter().take(LISTED) { tr {
                    th scope="row" { a href={ "/sessions/" (turn.session) "/runs/" (run.run) } { (run.agent) } }
                    td { (run.role) }
                    td { (digest(&run.prefix)) }
                    td { (run.state) }
                    td class="number" { (number(run.usage.input_tokens)) }
                    (cached_tokens(&run.usage))
                } } }
            } }
        }
    }
}

/// Runs by the prefix of their prompt, in their order.
fn groups<'r>(runs: &[&'r Run]) -> Vec<(String, Vec<&'r Run>)> {
    let mut order: Vec<&str> = Vec::new();
    let mut by: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        let members = by.entry(&run.prefix).or_default();
        if members.is_empty() {
            order.push(&run.prefix);
        }
        members.push(run);
    }
    let grouped = order.into_iter();
    grouped
        .map(|prefix| (prefix.to_owned(), by.remove(prefix).unwrap_or_default()))
        .collect()
}

fn shared(prefix: &str, members: usize) -> String {
    let digest = prefix.get(..8).unwrap_or(prefix);
    match members {
        1 => format!("prefix {digest}"),
        n => format!("prefix {digest} ×{n}"),
    }
}

fn rectangle(x: usize, middle: usize, class: &str, name: &str, below: Option<&str>) -> Markup {
    let base = middle + if below.is_some() { 0 } else { 5 };
    html! {
        g class={ "node " (class) } {
            rect x=(x + 1) y=(middle - BOX / 2) width=(WIDTH - 2) height=(BOX) rx="5" {}
            text x=(x + 10) y=(base - 1) { (fmt::line(name, 20)) title { (name) } }
            @if let Some(below) = below { text class="read" x=(x + 10) y=(middle + 14) { (below) } }
        }
    }
}

fn line(x: usize, y: usize, to_x: usize, to_y: usize) -> Markup {
    let bend = (to_x - x) / 2;
    html! {
        path class="edge" d={ "M" (x) " " (y) " C" (x + bend) " " (y) " " (x + bend) " " (to_y) " " (to_x) " " (to_y) } {}
    }
}

/// The graph in words.
fn description(groups: &[(String, Vec<&Run>)], leads: &[&Run]) -> String {
    let each = groups.iter().map(|(prefix, members)| {
        let names: Vec<&str> = members.iter().map(|run| run.agent.as_str()).collect();
        let digest = prefix.get(..8).unwrap_or(prefix);
        match names.len() {
            1 => format!("{} has the prompt prefix {digest}", names[0]),
            _ => format!("{} share the prompt prefix {digest}", names.join(", ")),
        }
    });
    let each: Vec<String> = each.collect();
    let lead = leads.first();
    let lead = lead.map(|lead| {
        let same = groups.iter().any(|(prefix, _)| *prefix == lead.prefix);
        let prefix = if same {
            " has the same prefix, and"
        } else {
            ""
        };
        format!(" {}{prefix} gets their results.", lead.agent)
    });
    format!("{}.{}", each.join("; "), lead.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::HasAll as _;
    use serde_json::json;

    fn turn(runs: &[(&str, &str, &str)]) -> Turn {
        let run = |(agent, role, prefix): &(&str, &str, &str)| {
            json!({
                "run": agent, "agent": agent, "model": null, "role": role, "stage": null,
                "parent": null, "task": null, "state": "done", "attempt": 1, "snapshot": null,
                "prefix": prefix, "text": null, "error": null,
                "usage": {"input_tokens": 5_000, "output_tokens": 0, "cache_expected_tokens": 0,
                          "cache_read_tokens": 4_000, "cache_write_tokens": 0, "cost_usd": null},
                "opened_at": "", "ended_at": null, "duration_ms": null,
            })
        };
        serde_json::from_value(json!({
            "session": "s", "turn": "t", "branch": "main", "task": "x", "state": "working",
            "error": null, "answer": null, "snapshot": null, "snapshot_agents": 2,
            "checkpoints": [], "runs": runs.iter().map(run).collect::<Vec<_>>(),
            "cost_usd": null, "accepted_at": "", "ended_at": null,
        }))
        .unwrap()
    }

    #[test]
    fn a_shared_prefix_is_drawn_once() {
        let shown = graph(&turn(&[
            ("facts", "delegate", "aaaaaaaabbbb"),
            ("risks", "delegate", "aaaaaaaabbbb"),
            ("<svg>", "delegate", "cccccccc"),
            ("lead", "lead", "dddddddd"),
        ]))
        .into_string();
        assert_eq!(shown.matches("node prefix").count(), 2);
        assert!(shown.contains("prefix aaaaaaaa ×2"), "{shown}");
        shown.has_all(&["facts, risks share the prompt prefix aaaaaaaa; &lt;svg&gt; has"]);
        assert!(shown.contains("lead gets their results"), "{shown}");
        assert_eq!(shown.matches("4,000 of 5,000 cached").count(), 4);
        // The table has each run.
        assert_eq!(shown.matches("<th scope=\"row\">").count(), 4);
        assert!(!shown.contains("<svg>"), "{shown}");
    }

    #[test]
    fn a_nested_delegates_result_goes_to_its_parent() {
        let mut turn = turn(&[
            ("lead", "lead", "a"),
            ("facts", "delegate", "a"),
            ("figures", "delegate", "a"),
            ("sums", "delegate", "b"),
        ]);
        for (run, parent) in [(2, "facts"), (3, "figures")] {
            turn.runs[run].parent = Some(parent.to_owned());
        }
        let lead = turn.runs[0].clone();
        let others: Vec<&Run> = turn.runs[1..].iter().collect();
        let nodes = nodes(&groups(&others), Some(&lead));
        let place = |name: &str| (nodes[name].x, nodes[name].y);
        let to = |name: &str| nodes[name].to;
        assert_eq!(place("sums").0, COLUMN);
        assert_eq!(place("figures").0, 2 * COLUMN);
        assert_eq!(place("facts").0, 3 * COLUMN);
        assert_eq!(to("sums"), Some(place("figures")));
        assert_eq!(to("figures"), Some(place("facts")));
        assert_eq!(to("facts"), Some(place("lead")));
        assert_eq!(to("lead"), None);
        // A parent that is not drawn, and runs that name each other, are no reason to fail.
        turn.runs[1].parent = Some("sums".to_owned());
        turn.runs[2].parent = Some("nobody".to_owned());
        assert!(graph(&turn).into_string().contains("<svg"));
    }

    #[test]
    fn a_lead_alone_is_no_graph_and_many_runs_are_bounded() {
        assert_eq!(graph(&turn(&[("lead", "lead", "")])).into_string(), "");
        let many: Vec<_> = (0..100).map(|_| ("a", "delegate", "p")).collect();
        let shown = graph(&turn(&many)).into_string();
        assert!(shown.contains("76 more runs are not drawn"), "{shown}");
    }
}
