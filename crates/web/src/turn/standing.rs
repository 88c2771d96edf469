//! How a turn stands, in one line that has the same height during and after the turn.

use maud::{Markup, html};
use unisono_api::turn::{ErrorInfo, Run, Turn};

use super::{LINE, REASON, again, answer, paused, trouble};
use crate::parts::counted;

/// The line: why the turn failed or its answer is incomplete, the pause of its lead, or how many of its
/// runs have ended. It unfolds to the whole reason, and to what the lead wrote of an answer.
pub(super) fn line(turn: &Turn, partial: Option<&Markup>) -> Markup {
    let mut leads = turn.runs.iter().filter(|run| run.role == "lead");
    let pause = leads.find_map(|lead| lead.pause.as_ref());
    html! {
        div class="standing" {
            @if let Some(error) = error(turn) {
                details id={ "why-" (turn.turn) } {
                    summary class="trouble" { (trouble(error, LINE)) }
                    p class="trouble" { (trouble(error, REASON)) }
                    @if let Some((lead, more)) = unmentioned_error(turn) {
                        p class="trouble" { (lead.agent) ": " (trouble(more, REASON)) }
                    }
                    @if let Some(partial) = partial { (partial) }
                }
                @if turn.error.is_some() { (again(turn)) }
            } @else if let Some(pause) = pause {
                span class="warn" { (paused(pause)) }
            } @else if let Some(partial) = partial {
                details id={ "why-" (turn.turn) } {
                    summary class="quiet" { (ended_runs(turn)) ", no answer" }
                    (partial)
                }
            } @else {
                span class="quiet" { (ended_runs(turn)) }
            }
        }
    }
}

/// The reason in the line: why the turn failed, or why its lead failed or is incomplete.
fn error(turn: &Turn) -> Option<&ErrorInfo> {
    turn.error.as_ref().or_else(|| lead(turn)?.error.as_ref())
}

/// Whether the line has a reason, or what the lead wrote of no answer.
pub(super) fn is_unanswered(turn: &Turn) -> bool {
    error(turn).is_some() || partial(turn).is_some()
}

/// What the lead wrote of a turn that ended without an answer.
pub(super) fn partial(turn: &Turn) -> Option<(&Run, &str)> {
    let lead = lead(turn)?;
    let text = text_of(lead).filter(|text| !text.is_empty())?;
    let is_unanswered = turn.ended_at.is_some() && answer(turn).is_none();
    is_unanswered.then_some((lead, text))
}

/// The answer of a run; without one, the last text of its model.
pub(super) fn text_of(run: &Run) -> Option<&str> {
    run.text.as_deref().or(run.last_text.as_deref())
}

fn lead(turn: &Turn) -> Option<&Run> {
    turn.runs.iter().find(|run| run.role == "lead")
}

/// The lead and its error, if the error of the turn does not contain it.
fn unmentioned_error(turn: &Turn) -> Option<(&Run, &ErrorInfo)> {
    let lead = lead(turn)?;
    let (of_turn, of_run) = turn.error.as_ref().zip(lead.error.as_ref())?;
    (!of_turn.reason.contains(&of_run.reason)).then_some((lead, of_run))
}

fn ended_runs(turn: &Turn) -> String {
    let ended = turn.runs.iter().filter(|run| run.ended_at.is_some());
    let all = counted(turn.runs.len() as u64, "run");
    format!("{} of {all} ended", ended.count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn run(role: &str, pause: &Value, ended: &Value) -> Value {
        let used = json!({
            "input_tokens": 0, "output_tokens": 0, "cache_expected_tokens": 0,
            "cache_read_tokens": 0, "cache_write_tokens": 0, "cost_usd": 0.0,
        });
        json!({
            "run": "r", "agent": "a", "model": null, "role": role, "stage": null, "parent": null,
            "task": null, "state": "running", "attempt": 1, "snapshot": null, "prefix": "",
            "text": null, "error": null, "usage": used, "opened_at": "", "ended_at": ended,
            "duration_ms": null, "pause": pause,
        })
    }

    fn turn(error: &Value, runs: &[Value]) -> Turn {
        serde_json::from_value(json!({
            "session": "s", "turn": "t", "branch": "main", "task": "x", "state": "working",
            "error": error, "answer": null, "snapshot": null, "snapshot_agents": 1,
            "checkpoints": [], "runs": runs, "cost_usd": 0.0, "accepted_at": "", "ended_at": null,
        }))
        .unwrap()
    }

    #[test]
    fn one_line_says_how_a_turn_stands() {
        let (none, ended) = (Value::Null, json!("2026-03-06T10:00:00Z"));
        let pause = json!({"until": "2026-03-06T10:00:05Z", "reason": "busy"});
        let delegate = run("delegate", &pause, &ended);
        let goes_on = turn(&none, &[delegate.clone(), run("lead", &none, &none)]);
        let pauses = turn(&none, &[delegate.clone(), run("lead", &pause, &none)]);
        let reason = format!("agent a failed: <b>{}", "x".repeat(300));
        let error = json!({"code": "lead_failed", "reason": reason});
        let failed = turn(&error, &[delegate]);
        for (turn, shows) in rows! {
            (&goes_on, "1 of 2 runs ended"),
            (&pauses, "10:00</time> UTC: busy"),
            (&failed, "<summary class=\"trouble\">lead_failed: agent a failed: &lt;b&gt;x"),
            (&failed, "Ask again"),
        } {
            let line = line(turn, None).into_string();
            assert!(line.contains(shows), "{shows}: {line}");
        }
        let line = line(&failed, None).into_string();
        let (summary, rest) = line.split_once("</summary>").unwrap();
        assert!(
            summary.ends_with('…') && rest.contains(&"x".repeat(300)),
            "{line}"
        );
    }

    #[test]
    fn the_error_of_a_lead_is_shown_once_and_in_the_line_of_the_turn() {
        let error = |reason: &str| json!({"code": "c", "reason": reason});
        let (none, ended) = (Value::Null, json!("2026-03-06T10:00:00Z"));
        let mut lead = run("lead", &none, &ended);
        lead["error"] = error("no such model");
        // The reason of the line is in its summary too; the other one only unfolds.
        for (of_turn, times) in [
            (error("agent a failed: c: no such model"), 2),
            (error("the turn took too long"), 1),
            (none, 2),
        ] {
            let turn = turn(&of_turn, std::slice::from_ref(&lead));
            let line = line(&turn, None).into_string();
            assert_eq!(line.matches("no such model").count(), times, "{line}");
            assert_eq!(line.contains("Ask again"), !of_turn.is_null(), "{line}");
        }
    }

    #[test]
    fn what_a_lead_wrote_of_no_answer_unfolds_from_the_line() {
        let (none, ended) = (Value::Null, json!("2026-03-06T10:00:00Z"));
        let mut lead = run("lead", &none, &ended);
        let failed = json!({"code": "c", "reason": "r"});
        for (field, error, ends, shown) in [
            ("text", &none, &none, false),
            ("text", &none, &ended, true),
            ("text", &failed, &ended, true),
            ("last_text", &failed, &ended, true),
        ] {
            lead["text"] = Value::Null;
            lead[field] = json!("Half of it");
            let mut turn = turn(error, std::slice::from_ref(&lead));
            turn.ended_at = ends.as_str().map(str::to_owned);
            let text = partial(&turn).map(|(_, text)| text);
            assert_eq!(text.is_some(), shown, "{error}");
            let text = text.map(|text| html! { p { (text) } });
            let line = line(&turn, text.as_ref()).into_string();
            let (folded, unfolded) = line.split_once("</summary>").unwrap_or((line.as_str(), ""));
            assert!(!folded.contains("Half"), "{line}");
            assert_eq!(unfolded.contains("Half of it"), shown, "{line}");
        }
    }
}
