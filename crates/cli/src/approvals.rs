//! Calls of tools that wait for a person: found in the store, worded, answered.

use serde_json::{Value, json};
use unisono_context::SessionId;
use unisono_runtime::clock;
use unisono_session::Machine;
use unisono_session::run::calls::{Decision, Status, Waiting};

use crate::host::Where;
use crate::problem::{Problem, Result};
use crate::sessions::{Sessions, is_meant, only, unfit};
use crate::show;
use crate::traces::end;

/// The most characters of a call's arguments that a line shows.
const ARGUMENTS_CHARS: usize = 100;

/// A call that waits, and the session it is of.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) session: SessionId,
    pub(crate) waiting: Waiting,
}

/// The calls that wait in one session, as they are once somebody works on it: one that was being
/// made when the program was killed is in doubt. Where a daemon works on it, they are as they are.
async fn of_session(store: &Where, sessions: &Sessions, id: SessionId) -> Result<Vec<Open>> {
    let open = |waiting| Open {
        session: id,
        waiting,
    };
    if store.is_there() {
        let state = sessions.state(id).await?;
        return Ok(state.waiting_calls().map(open).collect());
    }
    let mut events = Vec::new();
    sessions
        .read(id, |event| {
            events.push(event.clone());
            Ok(true)
        })
        .await?;
    let recovered = Machine::recover(&events, clock::now());
    let seq = events.len() as u64;
    let (machine, _) = recovered.map_err(|error| unfit(id, seq, &error))?;
    Ok(machine.state().waiting_calls().map(open).collect())
}

/// All that wait, of one session or of every one, the oldest first.
pub(crate) async fn open(store: &Where, session: Option<&str>) -> Result<Vec<Open>> {
    let sessions = store.sessions();
    let ids = match session {
        Some(name) => vec![sessions.find(name).await?],
        None => sessions.journal().unfinished().await?,
    };
    let mut all = Vec::new();
    for id in ids {
        all.extend(of_session(store, &sessions, id).await?);
    }
    all.sort_by_key(|open| (open.waiting.call.asked_at, open.waiting.place));
    Ok(all)
}

/// The call of that id, or of a start or end of one that no other has.
pub(crate) async fn find(store: &Where, name: &str) -> Result<Open> {
    let mut all = open(store, None).await?;
    all.retain(|open| is_meant(name, &open.waiting.id));
    only(name, "call that waits for a person", &all)
        .map_err(|problem| problem.hint("`unisono approvals list` shows those there are"))
}

/// The word for what it waits for.
pub(crate) fn waits_for(waiting: &Waiting) -> &'static str {
    match waiting.call.status {
        Status::InDoubt => "in_doubt",
        _ => "approval",
    }
}

/// The call in one line: the tool and its arguments.
pub(crate) fn line(waiting: &Waiting) -> String {
    let planned = &waiting.call.planned;
    let arguments: String = planned.arguments.chars().take(ARGUMENTS_CHARS).collect();
    let more = if arguments.len() < planned.arguments.len() {
        "…"
    } else {
        ""
    };
    format!("{} {arguments}{more}", planned.tool)
}

/// What a person can do about it from a command line.
pub(crate) fn how(waiting: &Waiting) -> String {
    let id = end(&waiting.id);
    match waiting.call.status {
        Status::InDoubt => {
            format!("unisono approvals settle {id} --done TEXT, --failed TEXT, or --repeat")
        }
        _ => format!("unisono approvals approve {id}, or deny {id} --reason TEXT"),
    }
}

/// What it is, for programs.
pub(crate) fn json(open: &Open) -> Value {
    let (waiting, planned) = (&open.waiting, &open.waiting.call.planned);
    let approval = planned.approval.as_ref();
    let arguments: Value = serde_json::from_str(&planned.arguments).unwrap_or_default();
    json!({
        "call": waiting.id.to_string(),
        "waits_for": waits_for(waiting),
        "session": open.session.to_string(),
        "turn": waiting.turn.to_string(),
        "run": waiting.place.run.to_string(),
        "agent": waiting.agent.as_str(),
        "tool": &*planned.tool,
        "arguments": arguments,
        "contract": planned.contract.name(),
        "rule": approval.map(|approval| &*approval.rule),
        "asked": show::instant(waiting.call.asked_at),
        "until": approval.and_then(|approval| approval.until).map(show::instant),
    })
}

/// What a person's line at a terminal means; none: it is asked again.
pub(crate) fn read(status: &Status, line: &str) -> Option<Decision> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let text = |otherwise: &str| match rest.trim() {
        "" => otherwise.into(),
        text => text.into(),
    };
    Some(match (status, word.to_lowercase().as_str()) {
        (Status::InDoubt, "d" | "done") => Decision::Done {
            text: text("it was done"),
        },
        (Status::InDoubt, "f" | "failed") => Decision::Failed {
            text: text("it failed"),
        },
        (Status::InDoubt, "r" | "repeat") => Decision::Repeat,
        (Status::Held, "y" | "yes") => Decision::Approved,
        (Status::Held, "n" | "no") => Decision::Denied {
            reason: Some(rest.trim())
                .filter(|reason| !reason.is_empty())
                .map(Into::into),
        },
        _ => return None,
    })
}

/// Why a decision was not taken.
pub(crate) fn not_taken(problem: Problem) -> Problem {
    match problem.hint {
        Some(_) => problem,
        None => problem.hint("`unisono approvals list` shows those that wait"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_at_the_terminal_is_a_decision_or_asked_again() {
        let read = |status, line| read(&status, line).map(|decision| format!("{decision:?}"));
        let cases = [
            (Status::Held, "y", Some("Approved")),
            (Status::Held, " Yes \n", Some("Approved")),
            (Status::Held, "n", Some("Denied { reason: None }")),
            (
                Status::Held,
                "no not on Friday",
                Some("Denied { reason: Some(\"not on Friday\") }"),
            ),
            (Status::Held, "", None),
            (Status::Held, "done", None),
            (Status::InDoubt, "r", Some("Repeat")),
            (
                Status::InDoubt,
                "done it is there",
                Some("Done { text: \"it is there\" }"),
            ),
            (Status::InDoubt, "f", Some("Failed { text: \"it failed\" }")),
            (Status::InDoubt, "y", None),
        ];
        for (status, line, expected) in cases {
            assert_eq!(read(status.clone(), line).as_deref(), expected, "{line:?}");
        }
    }
}
