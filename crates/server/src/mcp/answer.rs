//! The results of tools, from turns.

use rmcp::model::InputRequiredResult;
use serde::Deserialize as _;
use serde_json::{Value, json};
use unisono::fmt;
use unisono_api::compaction::CompactionEffect;
use unisono_api::turn::{Run, Turn};
use unisono_context::TurnId;
use unisono_runtime::Handle;
use unisono_session::run::calls::WaitingCall;

use super::tools::{ASK, COMPACT, DELEGATE};
use super::turns::value;
use super::{Answer, AnswerResult, Outcome, tasks, waiting};

/// The note about an answer whose context was truncated.
const TIGHTENED: &str = "Less of the conversation was kept verbatim than the preset, or the request, \
    asks for: otherwise the context would not have fitted. `recall` finds the rest.";

/// The requested form of a turn's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Answer,
    /// The result of each agent, then the lead's answer.
    Findings,
    Compaction,
}

impl Form {
    fn of_tool(tool: &str, turn: &Turn) -> Form {
        match tool {
            ASK => Form::Answer,
            DELEGATE => Form::Findings,
            COMPACT => Form::Compaction,
            _ => Form::of_turn(turn),
        }
    }

    /// The form for a turn. A turn with delegates has findings, whether their tasks are their own or
    /// the common one; stages of a pipeline have no requested tasks.
    fn of_turn(turn: &Turn) -> Form {
        let delegated = |run: &Run| run.role == "delegate" && run.stage.is_none();
        let mut delegates = turn.runs.iter().filter(|run| delegated(run));
        match turn.task {
            None => Form::Compaction,
            Some(_) if delegates.next().is_some() => Form::Findings,
            Some(_) => Form::Answer,
        }
    }
}

/// The state of a turn when its client is answered.
pub(super) enum TurnProgress {
    Ended(Turn),
    /// Calls wait for a person whom the client cannot ask.
    Waits(Turn, String, Value),
    /// To a call that its client can ask a person about.
    Asks(InputRequiredResult),
    /// Not to its end in the time that its client waits.
    Task(Turn),
}

impl TurnProgress {
    pub(super) fn waiting(
        session: &Handle,
        (id, turn): (TurnId, Turn),
        waiting: &[WaitingCall],
    ) -> TurnProgress {
        if waiting.is_empty() {
            return TurnProgress::Ended(turn);
        }
        let text = waiting::describe(session.id(), id, waiting);
        TurnProgress::Waits(turn, text, waiting::structured(waiting))
    }

    pub(super) fn into_answer(self, tool: &str) -> AnswerResult {
        let (text, turn, waiting) = match self {
            TurnProgress::Asks(asks) => return Ok(Answer::Asks(asks)),
            TurnProgress::Task(turn) => return Ok(Answer::Task(tasks::created(&turn, tool))),
            TurnProgress::Waits(turn, text, waiting) => (text, turn, Some(waiting)),
            TurnProgress::Ended(turn) => (text(Form::of_tool(tool, &turn), &turn), turn, None),
        };
        let ended_well = matches!(turn.state.as_str(), "answered" | "compacted");
        let is_error = !ended_well && waiting.is_none();
        let tightened = turn.compacted.is_some_and(|all| all.tightened);
        let mut structured = json!({ "turn": value(&turn)? });
        if let Some(waiting) = waiting {
            structured["waiting"] = waiting;
        }
        Ok(Answer::Complete(Outcome {
            text,
            note: tightened.then_some(TIGHTENED),
            structured,
            is_error,
        }))
    }
}

fn text(form: Form, turn: &Turn) -> String {
    match form {
        Form::Findings => findings(turn),
        Form::Compaction => compaction(turn),
        Form::Answer => joined_results(turn),
    }
}

/// Gives the answer of `wait` about an ended turn the form of the tool that began the turn.
pub fn in_form_of(tool: &str, mut answer: Value) -> Value {
    let content = answer.pointer("/result/structuredContent");
    let ended = content.filter(|content| content.get("waiting").is_none());
    let turn = ended.and_then(|content| Turn::deserialize(content.get("turn")?).ok());
    if let Some(turn) = turn
        && let Some(shown) = answer.pointer_mut("/result/content/0/text")
    {
        *shown = text(Form::of_tool(tool, &turn), &turn).into();
    }
    answer
}

fn joined_results(turn: &Turn) -> String {
    turn.answer.clone().unwrap_or_else(|| without_answer(turn))
}

/// The results of the delegates and the answer.
fn findings(turn: &Turn) -> String {
    let mut text = String::new();
    for run in turn.runs.iter().filter(|run| run.role != "lead") {
        let found = run
            .text
            .clone()
            .unwrap_or_else(|| format!("({})", state(run)));
        text += &format!("## {}\n\n{}\n\n", run.agent, found.trim());
    }
    text + &format!("## Joined\n\n{}", joined_results(turn).trim())
}

fn compaction(turn: &Turn) -> String {
    if turn.state != "compacted" {
        return without_answer(turn);
    }
    let done = turn.compacted;
    let done = done.filter(|done| done.effect != CompactionEffect::Nothing);
    let mut text = match (turn.checkpoints.last(), &done) {
        (Some(checkpoint), _) => format!("compacted: checkpoint {checkpoint}"),
        (None, Some(done)) => done.text(),
        (None, None) => "nothing to summarise: all remaining messages must stay".to_owned(),
    };
    if let Some((before, after)) =
        done.and_then(|done| Some((done.tokens_before, done.tokens_after?)))
    {
        text += &format!(", {} → {} tokens", fmt::number(before), fmt::number(after));
        if let Some(ratio) = fmt::compression(before, after) {
            text += &format!(" ({ratio})");
        }
    }
    text
}

/// Why the turn has no answer, and the state of each run.
fn without_answer(turn: &Turn) -> String {
    let mut text = match &turn.error {
        Some(error) => format!("the turn failed ({}): {}", error.code, error.reason),
        None => format!("the turn was {}", turn.state),
    };
    for run in &turn.runs {
        text += &format!("\n- {} ({}): {}", run.agent, run.role, state(run));
    }
    text
}

/// The state of a run, with the reason if it stopped.
fn state(run: &Run) -> String {
    match &run.error {
        Some(error) => format!("{}, {}: {}", run.state, error.code, error.reason),
        None => run.state.clone(),
    }
}

#[cfg(test)]
mod tests {
    use unisono_api::usage::Amounts;

    use super::*;

    fn run(agent: &str, role: &str, task: Option<&str>, state: &str) -> Value {
        json!({
            "run": "r", "agent": agent, "role": role, "task": task, "state": state, "attempt": 1,
            "prefix": "", "text": (state == "done").then(|| format!("{agent} found it")),
            "error": (state == "failed").then(|| json!({"code": "timeout", "reason": "too slow"})),
            "usage": Amounts::default(), "opened_at": "",
        })
    }

    fn turn(state: &str, runs: &[Value]) -> Turn {
        let failed = json!({"code": "timeout", "reason": "it took longer than 2 s"});
        serde_json::from_value(json!({
            "session": "s", "turn": "t", "branch": "main", "task": "x", "state": state,
            "error": (state == "failed").then_some(failed),
            "answer": (state == "answered").then_some("All of it."),
            "snapshot_agents": 0, "checkpoints": [], "runs": runs, "accepted_at": "",
        }))
        .unwrap()
    }

    fn outcome_of(tool: &str, turn: Turn) -> Outcome {
        match TurnProgress::Ended(turn).into_answer(tool) {
            Ok(Answer::Complete(outcome)) => outcome,
            _ => panic!("no answer"),
        }
    }

    #[test]
    fn wait_has_the_findings_of_delegates_before_the_answer() {
        let plain = turn("answered", &[run("lead", "lead", None, "done")]);
        assert_eq!(outcome_of("wait", plain).text, "All of it.");
        let runs = [
            run("risks", "delegate", Some("Which?"), "done"),
            run("lead", "lead", None, "done"),
        ];
        let delegated = turn("answered", &runs);
        let findings = "## risks\n\nrisks found it\n\n## Joined\n\nAll of it.";
        assert_eq!(outcome_of("wait", delegated.clone()).text, findings);
        assert_eq!(outcome_of("delegate", delegated.clone()).text, findings);
        assert_eq!(outcome_of("ask", delegated).text, "All of it.");
        let mut compacted = turn("compacted", &[]);
        compacted.task = None;
        compacted.checkpoints = vec![3];
        assert_eq!(
            outcome_of("wait", compacted).text,
            "compacted: checkpoint 3"
        );
    }

    #[test]
    fn an_answer_of_wait_gets_the_form_of_the_tool_that_began_the_turn() {
        let runs = [run("risks", "delegate", Some("Which?"), "done")];
        let turn = value(&turn("answered", &runs)).unwrap();
        let answer = |structured: Value| {
            let content = json!([{"type": "text", "text": "as it was"}]);
            json!({"id": 7, "result": {"content": content, "structuredContent": structured}})
        };
        let shown = |tool: &str, structured: Value| {
            let formed = in_form_of(tool, answer(structured));
            let text = &formed["result"]["content"][0]["text"];
            text.as_str().unwrap().to_owned()
        };
        assert_eq!(shown("ask", json!({"turn": turn})), "All of it.");
        assert!(shown("delegate", json!({"turn": turn})).starts_with("## risks\n"));
        let waits = json!({"turn": turn, "waiting": []});
        assert_eq!(shown("ask", waits), "as it was");
        let error = json!({"id": 7, "error": {"code": -1}});
        assert_eq!(in_form_of("ask", error.clone()), error);
    }

    #[test]
    fn a_turn_without_an_answer_says_how_far_each_run_has_come() {
        let runs = [
            run("risks", "delegate", None, "done"),
            run("facts", "delegate", None, "failed"),
            run("lead", "lead", None, "cancelled"),
        ];
        let outcome = outcome_of("ask", turn("failed", &runs));
        assert!(outcome.is_error);
        assert_eq!(
            outcome.text,
            "the turn failed (timeout): it took longer than 2 s\n\
             - risks (delegate): done\n\
             - facts (delegate): failed, timeout: too slow\n\
             - lead (lead): cancelled"
        );
    }

    #[test]
    fn an_answer_says_that_less_was_kept_than_was_asked_for() {
        let mut turn = turn("answered", &[]);
        assert_eq!(outcome_of("ask", turn.clone()).note, None);
        turn.compacted = Some(unisono_api::turn::Compacted {
            tokens_before: 9,
            tokens_after: Some(3),
            compression_ratio: Some(3.0),
            tightened: true,
            effect: CompactionEffect::Masked,
            shortened: 12,
        });
        let mut masked = turn.clone();
        masked.state = "compacted".to_owned();
        let text = compaction(&masked);
        assert!(
            text.starts_with("masked 12 results, 9 → 3 tokens"),
            "{text}"
        );
        let note = outcome_of("ask", turn).note.unwrap();
        assert!(
            note.starts_with("Less of the conversation was kept"),
            "{note}"
        );
    }
}
