//! The tasks to which a message refers: their results stand below the text of the new task.

use a2a::{Message, Part};
use unisono::fmt;
use unisono_api::session::MAIN_BRANCH;
use unisono_api::turn::Turn;

use super::A2a;
use super::error::Error;
use super::parts::SEPARATOR;
use super::task;

/// The field of the message.
pub(super) const FIELD: &str = "message.referenceTaskIds";
/// Maximum number of tasks to which one message refers.
pub(super) const TASKS: usize = 16;
/// Maximum number of characters of all their results together.
const RESULT_CHARS: usize = 32_000;
/// Maximum number of characters of the text that names a task.
const NAME_CHARS: usize = 200;

pub(super) fn of_message(message: &Message) -> &[String] {
    message.reference_task_ids.as_deref().unwrap_or_default()
}

impl A2a {
    /// The text about the tasks to which a message in this session refers; empty if there are none.
    pub(super) async fn references(
        &self,
        message: &Message,
        session: &str,
    ) -> Result<String, Error> {
        let mut turns = Vec::new();
        for id in of_message(message) {
            let look = self.look_for(id).await;
            turns.push(
                look.map_err(|error| error.with_detail("field", FIELD))?
                    .turn,
            );
        }
        Ok(describe(&turns, session))
    }
}

/// Numbers the tasks and adds their results.
fn describe(turns: &[Turn], session: &str) -> String {
    let chars = RESULT_CHARS / turns.len().max(1);
    let each = turns.iter().zip(1..).map(|(turn, number)| {
        let name = fmt::line(turn.task.as_deref().unwrap_or_default(), NAME_CHARS);
        let is_above = turn.session == session && turn.branch == MAIN_BRANCH;
        let result = match is_above {
            true => "It stands above in this conversation.".to_owned(),
            false => result(turn, chars),
        };
        format!("[referenced task {number}: {name}]\n{result}")
    });
    each.collect::<Vec<String>>().join(SEPARATOR)
}

/// The answer of a task, then the results of its other agents, with at most this many characters.
fn result(turn: &Turn, chars: usize) -> String {
    let artifacts = task::artifacts(turn);
    let texts = artifacts.iter().map(|artifact| {
        let text: String = artifact.parts.iter().filter_map(Part::as_text).collect();
        match artifact.artifact_id == task::ANSWER {
            true => text,
            false => {
                let agent = artifact.name.as_deref().unwrap_or_default();
                format!("[result of {agent}]\n{text}")
            }
        }
    });
    let text = texts.collect::<Vec<String>>().join(SEPARATOR);
    if text.is_empty() {
        let reason = turn
            .error
            .as_ref()
            .map(|error| format!(": {}", error.reason));
        let reason = reason.unwrap_or_default();
        return format!("It has no result. Its state is {}{reason}.", turn.state);
    }
    let total = text.chars().count();
    if total <= chars {
        return text;
    }
    let shown: String = text.chars().take(chars).collect();
    format!("{shown}\n[characters 0 to {chars} of {total}; the rest is left out]")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn turn(more: Value) -> Turn {
        let mut turn = json!({"session": "s", "turn": "t", "branch": "main", "task": "Count.\nAll.",
            "state": "answered", "error": null, "answer": "Three.", "snapshot": null,
            "snapshot_agents": 0, "checkpoints": [], "runs": [], "cost_usd": null,
            "accepted_at": "2026-05-07T00:00:00Z", "ended_at": null});
        let fields = turn.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        from_value(turn).unwrap()
    }

    #[test]
    fn referenced_tasks_are_numbered_and_have_their_results() {
        let usage = json!({"input_tokens": 7, "output_tokens": 2, "cache_expected_tokens": 0,
            "cache_read_tokens": 0, "cache_write_tokens": 0, "cost_usd": null});
        let run = json!({"run": "r", "agent": "facts", "role": "delegate", "state": "done",
            "attempt": 1, "step_count": 0, "prefix": "p", "text": "One, two, three.",
            "error": null, "usage": usage, "opened_at": "2026-05-07T00:00:00Z"});
        let failed = json!({"answer": null, "state": "failed",
            "error": {"code": "timeout", "reason": "no answer in 5 s"}});
        let turns = [
            turn(json!({"runs": [run]})),
            turn(json!({"session": "own"})),
            turn(json!({"session": "own", "branch": "other"})),
            turn(failed),
            turn(json!({"answer": null, "state": "working"})),
        ];
        let expected = [
            "[referenced task 1: Count. All.]\nThree.\n\n[result of facts]\nOne, two, three.",
            "[referenced task 2: Count. All.]\nIt stands above in this conversation.",
            "[referenced task 3: Count. All.]\nThree.",
            "[referenced task 4: Count. All.]\nIt has no result. Its state is failed: no answer in \
             5 s.",
            "[referenced task 5: Count. All.]\nIt has no result. Its state is working.",
        ];
        assert_eq!(describe(&turns, "own"), expected.join("\n\n"));
        assert_eq!(describe(&[], "own"), "");
    }

    #[test]
    fn the_results_of_referenced_tasks_are_bounded_together() {
        let long = turn(json!({"answer": "é".repeat(RESULT_CHARS)}));
        let alone = describe(std::slice::from_ref(&long), "own");
        assert!(alone.ends_with('é'));
        let both = describe(&[long.clone(), long], "own");
        let half = RESULT_CHARS / 2;
        assert_eq!(both.matches('é').count(), RESULT_CHARS);
        let note = format!("[characters 0 to {half} of {RESULT_CHARS}; the rest is left out]");
        assert_eq!(both.matches(&note).count(), 2, "{note}");
    }
}
