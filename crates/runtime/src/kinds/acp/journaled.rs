//! The prompts to a coding agent in a run's journal.
//!
//! Each try has a number, from 1, and these steps: `place` (its working directory, before it is
//! created), `prompt` (before it is sent), ended calls, `report` (what else it reported), and at most
//! one of `answer`, `over` (the agent reports that it did nothing) and `failed`.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use unisono_session::run::{Step, named_result};
use unisono_session::tool::Contract;

use super::worktree::Worktree;

/// The working directory of a try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) directory: String,
    /// The worktree that contains it.
    pub(super) worktree: Option<Worktree>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Prompt {
    /// The snapshot in the prompt; none: only the task.
    pub(super) snapshot: Option<String>,
    /// The part shared with the turn's other agents: `text`, never a provider's cache.
    pub(super) shares: String,
    /// The mode of the agent's session; none: it has no modes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AgentAnswer {
    pub(super) text: String,
    /// The reason why it is not complete; none: it is complete.
    pub(super) partial: Option<String>,
    /// The first call for which it did not get permission, with its kind and the reason.
    #[serde(default)]
    pub(super) rejected: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextAction {
    /// End with this answer.
    Answered(AgentAnswer),
    /// Fail: the agent may have done a part of the task in this try.
    Doubt {
        place: Option<Place>,
        /// The reason of the failure, if it is known.
        failed: Option<String>,
    },
    /// Prompt the agent in the try with this number.
    Prompt(u32),
}

pub(super) fn step_name(what: &str, number: u32) -> String {
    format!("acp.{what}.{number}")
}

/// The name of one of several steps of a try.
pub(super) fn indexed_step_name(what: &str, number: u32, index: u32) -> String {
    format!("acp.{what}.{number}.{index}")
}

pub(super) fn next_action(steps: &[Arc<Step>], contract: Contract) -> NextAction {
    let tries = tries(steps);
    let mut numbers = 1..=tries;
    if let Some(answered) = numbers.find_map(|number| result(steps, &step_name("answer", number))) {
        return NextAction::Answered(answered);
    }
    let is_open = |number: &u32| {
        let has = |what| named_result(steps, &step_name(what, *number)).is_some();
        has("prompt") && !has("over")
    };
    match (1..=tries).rev().find(is_open) {
        Some(number) if contract == Contract::AtMostOnce => NextAction::Doubt {
            place: result(steps, &step_name("place", number)),
            failed: result(steps, &step_name("failed", number)),
        },
        _ => NextAction::Prompt(tries + 1),
    }
}

/// The working directories of all tries.
pub(super) fn places(steps: &[Arc<Step>]) -> Vec<Place> {
    let numbers = 1..=tries(steps);
    numbers
        .filter_map(|number| result(steps, &step_name("place", number)))
        .collect()
}

/// Whether the agent may have got a prompt.
pub(crate) fn is_prompt_begun(steps: &[Arc<Step>]) -> bool {
    let mut numbers = 1..=tries(steps);
    numbers.any(|number| named_result(steps, &step_name("prompt", number)).is_some())
}

fn tries(steps: &[Arc<Step>]) -> u32 {
    let mut tries = 0;
    while named_result(steps, &step_name("place", tries + 1)).is_some() {
        tries += 1;
    }
    tries
}

fn result<T: DeserializeOwned>(steps: &[Arc<Step>], wanted: &str) -> Option<T> {
    serde_json::from_str(named_result(steps, wanted)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_determine_the_next_try() {
        let place = r#"{"directory":"/w","worktree":null}"#;
        let at = Some(Place {
            directory: "/w".into(),
            worktree: None,
        });
        let begun = [("acp.place.1", place), ("acp.prompt.1", "{}")];
        let doubt = |failed: Option<&str>| NextAction::Doubt {
            place: at.clone(),
            failed: failed.map(str::to_owned),
        };
        let answered = NextAction::Answered(AgentAnswer {
            text: "so".into(),
            partial: None,
            rejected: None,
        });
        let more = |name, result| [begun[0], begun[1], (name, result)].to_vec();
        let rows = rows! {
            (vec![], NextAction::Prompt(1), NextAction::Prompt(1)),
            (vec![begun[0]], NextAction::Prompt(2), NextAction::Prompt(2)),
            (begun.to_vec(), doubt(None), NextAction::Prompt(2)),
            (more("acp.failed.1", "\"why\""), doubt(Some("why")), NextAction::Prompt(2)),
            (more("acp.over.1", "\"no\""), NextAction::Prompt(2), NextAction::Prompt(2)),
        };
        let steps = |rows: &[(&str, &str)]| -> Vec<Arc<Step>> {
            let named = |(name, result): &(&str, &str)| Step::named(*name, *result);
            rows.iter().map(named).map(Arc::new).collect()
        };
        for (names, once, again) in rows {
            let steps = steps(&names);
            assert_eq!(next_action(&steps, Contract::AtMostOnce), once, "{names:?}");
            assert_eq!(
                next_action(&steps, Contract::Idempotent),
                again,
                "{names:?}"
            );
        }
        let done = steps(&more("acp.answer.1", r#"{"text":"so","partial":null}"#));
        assert_eq!(next_action(&done, Contract::AtMostOnce), answered);
        assert_eq!(places(&done).len(), 1);
    }
}
