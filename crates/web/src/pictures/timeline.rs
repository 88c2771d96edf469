//! Draws a turn as a timeline: a lane for the work before its agents, and a lane for each run.

use jiff::Timestamp;
use maud::{Markup, html};
use unisono_api::run::decision_text;
use unisono_api::timeline::{Span, Timeline};

use super::{attribute, scaled};
use crate::parts::{counted, length};

/// A stretch of a lane, in milliseconds from the turn's beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stretch {
    kind: &'static str,
    from: u64,
    to: u64,
    /// The activity, in the words of the table.
    says: String,
}

#[derive(Debug, PartialEq, Eq)]
struct Lane {
    name: String,
    stretches: Vec<Stretch>,
    /// The time of the model's first text.
    first: Option<u64>,
}

/// The kinds of activities, for people.
const KINDS: [(&str, &str); 10] = [
    ("queue", "queued"),
    ("preparation", "counting, freezing"),
    ("compaction", "compacting"),
    ("cache", "waits for the provider's cache"),
    ("model", "the agent and its model"),
    ("tool", "tools"),
    ("person", "waits for a person's decision"),
    ("delegates", "waits for its delegates"),
    ("retry", "pause before another attempt"),
    ("other", "other"),
];

/// Draws the times of a turn whose snapshot was given to `agents` agents. The drawing has the same height
/// during and after the turn, and its legend the same items, so that they move nothing below them.
pub(crate) fn timeline(times: &Timeline, agents: u32) -> Markup {
    let Some(began) = instant(&times.accepted_at) else {
        return html! {};
    };
    let end = times.ended_at.as_deref().and_then(instant);
    let clock = Clock {
        began,
        end: end.or_else(|| instant(&times.now)).unwrap_or(began),
    };
    let whole = clock.since(clock.end).max(1);
    let mut lanes = lanes(times, &clock);
    let shown_runs = times.runs.iter().take(most_runs(times));
    let unread: u64 = shown_runs.map(|run| run.omitted_spans).sum();
    let left_out = leave_out(&mut lanes) + unread;
    let omitted = times.omitted_runs + times.runs.len().saturating_sub(most_runs(times)) as u64;
    let frozen = times.frozen_at.as_deref().and_then(instant);
    let frozen = frozen.map(|at| scaled(clock.since(at) as f64, whole as f64));
    let mut stretches = lanes.iter().flat_map(|lane| &lane.stretches);
    let has_other = stretches.any(|one| one.kind == "other");
    html! {
        div class="timeline" {
            div class="drawing" tabindex="0" role="group" aria-label="Timeline of the turn" { ol class="lanes" {
                @for lane in &lanes { li {
                    span class="name" { (lane.name) }
                    (drawn(lane, whole, frozen))
                    span class="number quiet" { (length(spent(lane))) }
                } }
            }
                @if omitted > 0 { p class="quiet" { (counted(omitted, "more run")) " not drawn." } }
                @if left_out > 0 { p class="quiet" { (counted(left_out, "more period")) " not drawn." } }
            }
            ul class="legend quiet" {
                @for (kind, says) in KINDS {
                    @if kind != "other" || has_other { li { span class={ "swatch " (kind) } {} (says) } }
                }
                li { span class="swatch first" {} "first words" }
                li { span class="swatch frozen" {} "the snapshot" }
                li class="all" { @if end.is_some() { "in all " } @else { "so far " } (length(whole))
                    @if agents > 0 { ", a snapshot for " (counted(agents.into(), "agent")) } }
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
                    title { (stretch.says) ", " (length(stretch.to - stretch.from)) }
                }
            }
            @if let Some(first) = lane.first {
                rect class="first" x=(attribute(scaled(first as f64, whole as f64))) y="1" width="3" height="18" { title { "first words" } }
            }
            @if let Some(x) = frozen { rect class="frozen" x=(attribute(x)) y="0" width="2" height="20" {} }
        }
    }
}

fn table(lanes: &[Lane]) -> Markup {
    html! {
        details id="times-table" { summary { "As a table" }
            div class="scroll" tabindex="0" role="group" aria-label="Times of the turn" { table {
                thead { tr { th scope="col" { "Who" } th scope="col" { "What" }
                    th scope="col" class="number" { "From" } th scope="col" class="number" { "For" } } }
                tbody { @for lane in lanes {
                    @for stretch in &lane.stretches { tr {
                        td { (lane.name) } td { (stretch.says) }
                        td class="number" { (length(stretch.from)) }
                        td class="number" { (length(stretch.to - stretch.from)) }
                    } }
                    @if let Some(first) = lane.first { tr {
                        td { (lane.name) } td { "first words" }
                        td class="number" { (length(first)) } td class="number" { "–" }
                    } }
                } }
            } }
        }
    }
}

fn spent(lane: &Lane) -> u64 {
    let ends = lane.stretches.iter().map(|one| one.to).max().unwrap_or(0);
    let begins = lane.stretches.iter().map(|one| one.from).min().unwrap_or(0);
    ends - begins.min(ends)
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

    /// A span of the turn; an open span reaches to the end. None if it takes no time.
    fn stretch(&self, span: &Span) -> Option<Stretch> {
        let end = self.since(self.end);
        let from = self.since(instant(&span.from)?).min(end);
        let to = span.to.as_deref().and_then(instant);
        let to = to.map_or(end, |to| self.since(to)).min(end);
        let known = KINDS.iter().find(|(kind, _)| *kind == span.kind);
        let (kind, says) = known.unwrap_or(&KINDS[KINDS.len() - 1]);
        let says = match (&span.tool, span.to.is_none() && span.kind == "person") {
            (Some(tool), true) => format!("{tool} waits for you"),
            (Some(tool), false) if span.kind == "person" => decision(tool, span),
            (Some(tool), false) => format!("tool {tool}"),
            (None, _) => (*says).to_owned(),
        };
        (to > from).then_some(Stretch {
            kind,
            from,
            to,
            says,
        })
    }
}

/// The decision about a waiting call.
fn decision(tool: &str, span: &Span) -> String {
    match &span.decision {
        Some(decision) => {
            let decided = decision_text(tool, decision, span.by.as_deref());
            format!("waited for a person: {decided}")
        }
        None => format!("{tool} waited for a person"),
    }
}

fn instant(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// Maximum drawn runs of a turn that goes on: its page is sent again with each change.
const OPEN_RUNS: usize = 24;

/// Maximum drawn runs of an ended turn, and stretches of all lanes together.
const RUNS: usize = 60;
const STRETCHES: usize = 400;

fn most_runs(times: &Timeline) -> usize {
    match times.ended_at {
        Some(_) => RUNS,
        None => OPEN_RUNS,
    }
}

/// Leaves out stretches of lanes that have more than their equal share; the number of those left out.
/// The last one of a lane stays: it has the end.
fn leave_out(lanes: &mut [Lane]) -> u64 {
    let share = (STRETCHES / lanes.len().max(1)).max(1);
    let mut left_out = 0;
    for lane in lanes {
        let many = lane.stretches.len();
        if many > share {
            lane.stretches.drain(share - 1..many - 1);
            left_out += (many - share) as u64;
        }
    }
    left_out
}

fn lanes(times: &Timeline, clock: &Clock) -> Vec<Lane> {
    let stretches = |spans: &[Span]| -> Vec<Stretch> {
        let all = spans.iter();
        all.filter_map(|span| clock.stretch(span)).collect()
    };
    let mut lanes = Vec::new();
    let before = stretches(&times.spans);
    // A lane that came later would move the others.
    if !before.is_empty() || times.ended_at.is_none() {
        lanes.push(Lane {
            name: "before".to_owned(),
            stretches: before,
            first: None,
        });
    }
    lanes.extend(times.runs.iter().take(most_runs(times)).map(|run| {
        Lane {
            name: run.agent.clone(),
            stretches: stretches(&run.spans),
            first: run
                .first_token_at
                .as_deref()
                .and_then(instant)
                .map(|at| clock.since(at)),
        }
    }));
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::HasAll as _;
    use serde_json::{Value, json};

    fn at(ms: u64) -> String {
        format!("2026-03-06T10:00:{:02}.{:03}Z", ms / 1_000, ms % 1_000)
    }

    fn span(kind: &str, from: u64, to: Option<u64>, tool: Option<&str>) -> Value {
        json!({"kind": kind, "from": at(from), "to": to.map(at), "tool": tool})
    }

    fn times(ended: Option<u64>, spans: &[Value]) -> Timeline {
        serde_json::from_value(json!({
            "session": "s", "turn": "t", "state": "working", "accepted_at": at(0), "started_at": at(100),
            "frozen_at": at(300), "ended_at": ended.map(at), "now": at(1_000),
            "spans": [span("queue", 0, Some(100), None), span("preparation", 100, Some(300), None)],
            "runs": [{
                "run": "r", "agent": "<b>", "role": "lead", "parent": null, "state": "running",
                "opened_at": at(300), "started_at": null, "first_token_at": at(400), "ended_at": null,
                "spans": spans, "omitted_spans": 0,
            }],
            "omitted_runs": 2,
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
    fn what_goes_on_reaches_to_now_and_says_what_it_waits_for() {
        let spans = [
            span("model", 300, Some(700), None),
            span("person", 700, None, Some("mail")),
        ];
        let lanes = lanes(&times(None, &spans), &clock(1_000));
        let found = lanes.iter().flat_map(|lane| &lane.stretches);
        let found: Vec<_> = found
            .map(|one| (one.kind, one.from, one.to, one.says.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("queue", 0, 100, "queued"),
                ("preparation", 100, 300, "counting, freezing"),
                ("model", 300, 700, "the agent and its model"),
                ("person", 700, 1_000, "mail waits for you"),
            ]
        );
        assert_eq!((lanes[1].first, spent(&lanes[1])), (Some(400), 700));
    }

    #[test]
    fn a_clock_that_went_back_draws_nothing_beyond_the_edges_and_names_are_text() {
        let spans = [
            span("model", 300, Some(100), None),
            span("new kind", 50, None, None),
        ];
        let shown = timeline(&times(Some(200), &spans), 1).into_string();
        assert!(
            !shown.contains("x=\"-") && !shown.contains("<b>"),
            "{shown}"
        );
        shown.has_all(&["2 more runs not drawn", "class=\"other\""]);
        let mut odd = times(None, &[]);
        odd.accepted_at = "never".to_owned();
        assert_eq!(timeline(&odd, 1).into_string(), "");
    }

    #[test]
    fn an_open_turn_has_the_legend_of_an_ended_one_and_fewer_runs() {
        let legend = |shown: &str| {
            let from = shown.find("<ul class=\"legend").unwrap();
            let to = shown.find("<li class=\"all").unwrap();
            shown[from..to].to_owned()
        };
        let spans = [span("model", 300, None, None)];
        let open = timeline(&times(None, &spans), 0).into_string();
        let ended = timeline(&times(Some(900), &spans), 2).into_string();
        assert_eq!(legend(&open), legend(&ended));
        assert!(open.contains("so far 1.0 s</li>"), "{open}");
        ended.has_all(&["in all 900 ms, a snapshot for 2 agents"]);
        // Its page is sent often while it goes on, so fewer of its runs are drawn.
        let mut wide = times(None, &spans);
        wide.runs = vec![wide.runs[0].clone(); OPEN_RUNS + 3];
        let drawn = |shown: &str| shown.matches("<svg").count();
        let open = timeline(&wide, 1).into_string();
        assert_eq!(drawn(&open), OPEN_RUNS + 1);
        assert!(open.contains("5 more runs not drawn"), "{open}");
        wide.ended_at = Some(at(900));
        assert_eq!(drawn(&timeline(&wide, 1).into_string()), OPEN_RUNS + 4);
    }

    #[test]
    fn a_turn_of_many_long_runs_is_a_small_picture_with_their_ends() {
        let spans: Vec<Value> = (0..300)
            .map(|at| span("model", 300 + at, Some(301 + at), None))
            .collect();
        let mut wide = times(Some(900), &spans);
        wide.runs = vec![wide.runs[0].clone(); 200];
        let clock = clock(900);
        let mut lanes = lanes(&wide, &clock);
        assert_eq!(lanes.len(), RUNS + 1);
        let drawn = |lanes: &[Lane]| -> u64 {
            let each = lanes.iter().map(|lane| lane.stretches.len() as u64);
            each.sum()
        };
        let all = drawn(&lanes);
        let left_out = leave_out(&mut lanes);
        assert_eq!(drawn(&lanes) + left_out, all);
        assert!(drawn(&lanes) <= STRETCHES as u64, "{}", drawn(&lanes));
        assert!(lanes[1..].iter().all(|lane| spent(lane) == 300));
        let shown = timeline(&wide, 1).into_string();
        assert!(shown.contains("more periods not drawn"), "{}", shown.len());
    }
}
