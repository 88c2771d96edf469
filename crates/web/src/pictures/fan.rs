//! Draws a turn as a graph in which shared parts appear once.

use std::collections::BTreeMap;

use maud::{Markup, html};
use unisono_api::short;
use unisono_api::turn::{Run, Turn};

use crate::parts::{cached_tokens, digest, number};

/// Heights and places, in the units of the drawing.
const ROW: usize = 34;
const BOX: usize = 26;
const LEFT: usize = 150;
const MIDDLE: usize = 230;
const RIGHT: usize = 420;
/// Maximum drawn runs.
const MAX_RUNS: usize = 24;

/// Draws the groups of agents with a common prompt prefix, and the lead that gets their results.
pub(crate) fn graph(turn: &Turn) -> Markup {
    let runs: Vec<&Run> = turn.runs.iter().take(MAX_RUNS).collect();
    let (leads, others): (Vec<&Run>, Vec<&Run>) = runs.iter().partition(|run| run.role == "lead");
    if others.is_empty() {
        return html! {};
    }
    let groups = groups(&others);
    let height = others.len().max(groups.len()).max(1) * ROW;
    let mut row = 0;
    let placed: Vec<(usize, &(String, Vec<&Run>))> = groups
        .iter()
        .map(|group| {
            let first = row;
            row += group.1.len();
            (first, group)
        })
        .collect();
    let middle = |row: usize| row * ROW + ROW / 2;
    html! {
        div class="scroll" tabindex="0" role="group" aria-label="Fan-out" {
            svg class="fan" viewBox={ "0 0 620 " (height) } aria-hidden="true" focusable="false" {
                @for (first, (prefix, members)) in &placed {
                    @let at = (middle(*first) + middle(first + members.len() - 1)) / 2;
                    @let leading = leads.iter().filter(|lead| lead.prefix == *prefix).count();
                    (node(0, at, LEFT, "prefix", &shared(prefix, members.len() + leading)))
                    @for (index, run) in members.iter().enumerate() {
                        @let y = middle(first + index);
                        (line(LEFT, at, MIDDLE, y))
                        (node(MIDDLE, y, 140, &run.state, &run.agent))
                        @if let Some(_) = leads.first() { (line(MIDDLE + 140, y, RIGHT, height / 2)) }
                    }
                }
                @if let Some(lead) = leads.first() { (node(RIGHT, height / 2, 190, &lead.state, &lead.agent)) }
            }
        }
        p class="quiet" { (description(&groups, &leads)) }
        (table(turn))
        @if turn.runs.len() > MAX_RUNS { p class="quiet" { (turn.runs.len() - MAX_RUNS) " more runs are not drawn." } }
    }
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

fn node(x: usize, middle: usize, width: usize, class: &str, says: &str) -> Markup {
    html! {
        g class={ "node " (class) } {
            rect x=(x + 1) y=(middle - BOX / 2) width=(width - 2) height=(BOX) rx="5" {}
            text x=(x + 10) y=(middle + 5) { (short::line(says, 18)) title { (says) } }
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
    use serde_json::json;

    fn turn(runs: &[(&str, &str, &str)]) -> Turn {
        let run = |(agent, role, prefix): &(&str, &str, &str)| {
            json!({
                "run": agent, "agent": agent, "model": null, "role": role, "stage": null,
                "parent": null, "task": null, "state": "done", "attempt": 1, "snapshot": null,
                "prefix": prefix, "text": null, "error": null,
                "usage": {"input_tokens": 0, "output_tokens": 0, "cache_expected_tokens": 0,
                          "cache_read_tokens": 0, "cache_write_tokens": 0, "cost_usd": null},
                "opened": "", "ended": null, "duration_ms": null,
            })
        };
        serde_json::from_value(json!({
            "session": "s", "turn": "t", "branch": "main", "task": "x", "state": "working",
            "error": null, "answer": null, "snapshot": null, "snapshot_agents": 2,
            "checkpoints": [], "runs": runs.iter().map(run).collect::<Vec<_>>(),
            "cost_usd": null, "accepted": "", "ended": null,
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
        assert!(
            shown.contains("facts, risks share the prompt prefix aaaaaaaa; &lt;svg&gt; has"),
            "{shown}"
        );
        assert!(shown.contains("lead gets their results"), "{shown}");
        // The table has each run.
        assert_eq!(shown.matches("<th scope=\"row\">").count(), 4);
        assert!(!shown.contains("<svg>"), "{shown}");
    }

    #[test]
    fn a_lead_alone_is_no_graph_and_many_runs_are_bounded() {
        assert_eq!(graph(&turn(&[("lead", "lead", "")])).into_string(), "");
        let many: Vec<_> = (0..100).map(|_| ("a", "delegate", "p")).collect();
        let shown = graph(&turn(&many)).into_string();
        assert!(shown.contains("76 more runs are not drawn"), "{shown}");
    }
}
