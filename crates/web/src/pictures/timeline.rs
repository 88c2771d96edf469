//! A turn as a timeline: a lane for what came before its agents worked, and one for each run.

use jiff::Timestamp;
use maud::{Markup, html};
use unisono_api::approval::Approval;
use unisono_api::run::{Done, RunDetail, RunStep};
use unisono_api::turn::Turn;

use super::{attribute, scaled};
use crate::parts::{length, many};

/// A stretch of a lane, in milliseconds from the turn's beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stretch {
    /// `queued`, `preparing`, `model`, `tools` or `waiting`.
    kind: &'static str,
    from: u64,
    to: u64,
}

/// A lane.
#[derive(Debug, PartialEq, Eq)]
struct Lane {
    name: String,
    stretches: Vec<Stretch>,
}

/// What stretches are, for people.
const KINDS: [(&str, &str); 6] = [
    ("queued", "queued"),
    ("preparing", "compacting, freezing"),
    ("model", "the agent and its model"),
    ("tools", "tools, or a person who decided"),
    ("you", "waits for you"),
    ("waiting", "waits for those it gave tasks to"),
];

/// A turn with its runs, as far as they have come by `now`.
pub(crate) fn timeline(
    turn: &Turn,
    runs: &[RunDetail],
    calls: &[Approval],
    now: Timestamp,
) -> Markup {
    let Some(began) = instant(&turn.accepted) else {
        return html! {};
    };
    let clock = Clock {
        began,
        end: turn.ended.as_deref().and_then(instant).unwrap_or(now),
    };
    let whole = clock.since(clock.end).max(1);
    let lanes = lanes(turn, runs, calls, &clock);
    let frozen = turn.frozen.as_deref().and_then(instant);
    let frozen = frozen.map(|at| scaled(clock.since(at) as f64, whole as f64));
    html! {
        div class="timeline" {
            ol class="lanes" {
                @for lane in &lanes { li {
                    span class="name" { (lane.name) }
                    (drawn(lane, whole, frozen))
                    span class="number quiet" { (length(spent(lane))) }
                } }
            }
            ul class="legend quiet" {
                @for (kind, says) in KINDS {
                    @if lanes.iter().any(|lane| lane.stretches.iter().any(|stretch| stretch.kind == kind)) {
                        li { span class={ "swatch " (kind) } {} (says) }
                    }
                }
                @if frozen.is_some() { li { span class="swatch frozen" {} "the snapshot, for " (many(turn.snapshot_agents.into(), "agent")) } }
                li { "in all " (length(whole)) }
            }
            (table(&lanes))
        }
    }
}

fn drawn(lane: &Lane, whole: u64, frozen: Option<f64>) -> Markup {
    html! {
        svg viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            rect class="ground" x="0" y="9" width="1000" height="2" {}
            @for stretch in &lane.stretches {
                @let from = scaled(stretch.from as f64, whole as f64);
                @let to = scaled(stretch.to as f64, whole as f64);
                rect class=(stretch.kind) x=(attribute(from)) y="3" width=(attribute((to - from).max(3.0))) height="14" {
                    title { (named(stretch.kind)) ", " (length(stretch.to - stretch.from)) }
                }
            }
            @if let Some(x) = frozen { rect class="frozen" x=(attribute(x)) y="0" width="2" height="20" {} }
        }
    }
}

fn table(lanes: &[Lane]) -> Markup {
    html! {
        details { summary { "As a table" }
            div class="scroll" tabindex="0" role="group" aria-label="Times of the turn" { table {
                thead { tr { th scope="col" { "Who" } th scope="col" { "What" }
                    th scope="col" class="number" { "From" } th scope="col" class="number" { "For" } } }
                tbody { @for lane in lanes { @for stretch in &lane.stretches { tr {
                    td { (lane.name) } td { (named(stretch.kind)) }
                    td class="number" { (length(stretch.from)) }
                    td class="number" { (length(stretch.to - stretch.from)) }
                } } } }
            } }
        }
    }
}

fn named(kind: &str) -> &'static str {
    let found = KINDS.iter().find(|(name, _)| *name == kind);
    found.map_or("", |(_, says)| says)
}

fn spent(lane: &Lane) -> u64 {
    lane.stretches
        .iter()
        .map(|stretch| stretch.to - stretch.from)
        .sum()
}

struct Clock {
    began: Timestamp,
    end: Timestamp,
}

impl Clock {
    fn since(&self, at: Timestamp) -> u64 {
        let ms = at.duration_since(self.began).as_millis();
        u64::try_from(ms).unwrap_or(0)
    }

    /// An instant of the turn in milliseconds; the end where there is none.
    fn place(&self, at: Option<&str>) -> u64 {
        self.since(at.and_then(instant).unwrap_or(self.end))
    }

    fn stretch(&self, kind: &'static str, from: u64, to: u64) -> Option<Stretch> {
        (to > from).then_some(Stretch { kind, from, to })
    }
}

fn instant(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

fn lanes(turn: &Turn, runs: &[RunDetail], calls: &[Approval], clock: &Clock) -> Vec<Lane> {
    let started = clock.place(turn.started.as_deref());
    let ready = clock.place(turn.frozen.as_deref());
    let before = [
        clock.stretch("queued", 0, started),
        clock.stretch("preparing", started, ready),
    ];
    let before: Vec<Stretch> = before.into_iter().flatten().collect();
    let mut lanes = Vec::new();
    if !before.is_empty() {
        lanes.push(Lane {
            name: "before".to_owned(),
            stretches: before,
        });
    }
    lanes.extend(runs.iter().map(|run| {
        let call = calls.iter().find(|call| call.run == run.run.run);
        lane(run, call, clock)
    }));
    lanes
}

fn lane(detail: &RunDetail, waits: Option<&Approval>, clock: &Clock) -> Lane {
    let run = &detail.run;
    let mut from = clock.place(Some(&run.opened));
    let end = clock.place(run.ended.as_deref());
    let mut stretches = Vec::new();
    let mut next = "model";
    for step in &detail.steps {
        let to = clock.place(Some(&step.at)).min(end);
        stretches.extend(clock.stretch(next, from, to));
        (from, next) = (to.max(from), follows(step));
    }
    let rest = if run.state == "waiting" {
        "waiting"
    } else {
        next
    };
    if let Some(call) = waits {
        let asked = clock.place(Some(&call.asked)).clamp(from, end);
        stretches.extend(clock.stretch(rest, from, asked));
        stretches.extend(clock.stretch("you", asked, end));
    } else {
        stretches.extend(clock.stretch(rest, from, end));
    }
    Lane {
        name: run.agent.clone(),
        stretches,
    }
}

/// What goes on after a step.
fn follows(step: &RunStep) -> &'static str {
    match &step.done {
        Done::Model { calls, .. } if calls.iter().any(|call| call.name == "delegate") => "waiting",
        Done::Model { calls, .. } if !calls.is_empty() => "tools",
        _ => "model",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(ms: u64) -> String {
        format!("2026-03-06T10:00:{:02}.{:03}Z", ms / 1_000, ms % 1_000)
    }

    fn turn(ended: Option<u64>) -> Turn {
        serde_json::from_value(json!({
            "session": "s", "turn": "t", "branch": "main", "task": "x", "state": "working",
            "error": null, "answer": null, "snapshot": null, "snapshot_agents": 2,
            "checkpoints": [], "runs": [], "cost_usd": null, "accepted": at(0),
            "started": at(100), "frozen": at(300), "ended": ended.map(at),
        }))
        .unwrap()
    }

    fn run(state: &str, ended: Option<u64>, steps: serde_json::Value) -> RunDetail {
        serde_json::from_value(json!({
            "session": "s", "turn": "t", "run": "r", "agent": "<b>", "model": null,
            "role": "lead", "stage": null, "parent": null, "task": null, "state": state,
            "attempt": 1, "snapshot": null, "prefix": "", "text": null, "error": null,
            "usage": {"input_tokens": 0, "output_tokens": 0, "cache_expected_tokens": 0,
                      "cache_read_tokens": 0, "cache_write_tokens": 0, "cost_usd": null},
            "opened": at(300), "ended": ended.map(at), "duration_ms": null,
            "definition": "", "steps": steps, "attempts": [],
        }))
        .unwrap()
    }

    fn clock(end: u64) -> Clock {
        Clock {
            began: instant(&at(0)).unwrap(),
            end: instant(&at(end)).unwrap(),
        }
    }

    #[test]
    fn a_run_is_its_model_then_its_tools_then_its_model() {
        let model = |ms, calls| {
            json!({"event": 1, "at": at(ms), "kind": "model", "text": "", "calls": calls,
            "fallback": null, "input_tokens": 1, "output_tokens": 1, "cost_usd": null})
        };
        let call = json!([{"id": "c", "name": "mail", "arguments": "{}"}]);
        let tools = json!({"event": 2, "at": at(2_000), "kind": "tools", "results": []});
        let steps = json!([model(500, call), tools, model(2_500, json!([]))]);
        let lane = lane(&run("done", Some(2_500), steps), None, &clock(3_000));
        let found: Vec<_> = lane
            .stretches
            .iter()
            .map(|s| (s.kind, s.from, s.to))
            .collect();
        assert_eq!(
            found,
            [
                ("model", 300, 500),
                ("tools", 500, 2_000),
                ("model", 2_000, 2_500)
            ]
        );
    }

    #[test]
    fn what_goes_on_reaches_to_now_and_what_came_before_has_a_lane() {
        let runs = [
            run("running", None, json!([])),
            run("waiting", None, json!([])),
        ];
        let lanes = lanes(&turn(None), &runs, &[], &clock(1_000));
        let found = lanes.iter().flat_map(|lane| &lane.stretches);
        let found: Vec<_> = found.map(|s| (s.kind, s.from, s.to)).collect();
        assert_eq!(
            found,
            [
                ("queued", 0, 100),
                ("preparing", 100, 300),
                ("model", 300, 1_000),
                ("waiting", 300, 1_000)
            ]
        );
    }

    #[test]
    fn a_call_that_waits_for_a_person_is_told_from_when_it_was_asked_for() {
        let call: Approval = serde_json::from_value(json!({
            "call": "c", "waits_for": "approval", "session": "s", "turn": "t", "run": "r",
            "agent": "a", "tool": "mail", "arguments": {}, "contract": "at_most_once",
            "rule": null, "asked": at(700), "until": null,
        }))
        .unwrap();
        let lane = lane(&run("running", None, json!([])), Some(&call), &clock(1_000));
        let found = lane.stretches.iter().map(|s| (s.kind, s.from, s.to));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [("model", 300, 700), ("you", 700, 1_000)]
        );
    }

    #[test]
    fn a_clock_that_went_back_draws_nothing_beyond_the_edges() {
        let shown = timeline(
            &turn(Some(200)),
            &[run("done", Some(100), json!([]))],
            &[],
            instant(&at(9)).unwrap(),
        );
        let shown = shown.into_string();
        assert!(
            !shown.contains("x=\"-") && !shown.contains("<b>"),
            "{shown}"
        );
        let mut odd = turn(None);
        odd.accepted = "never".to_owned();
        assert_eq!(
            timeline(&odd, &[], &[], Timestamp::UNIX_EPOCH).into_string(),
            ""
        );
    }
}
