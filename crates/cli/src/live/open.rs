//! Open turns and what their agents are at, as a journal has it: nobody may be working on them.

use serde_json::{Value, json};
use unisono_context::RunId;
use unisono_session::State;
use unisono_session::event::{RunRole, Work};
use unisono_session::turn::Turn;

use super::member::{Watched, members};
use crate::output::Paint;

/// A line for each open turn and, below it, for each of its agents; delegates below whoever gave
/// them their task.
pub(crate) fn lines(state: &State, paint: Paint) -> String {
    let mut out = String::new();
    for turn in state.open_turns() {
        let (id, branch) = (turn.accepted.id, &turn.accepted.branch);
        let open = format_args!("open on {branch}: `unisono resume` continues it");
        out += &format!("  {id}  {}\n", paint.yellow(open));
        let members = at_work(state, turn);
        let names = members.iter().map(|m| m.agent.as_str().chars().count());
        let width = names.max().unwrap_or(0);
        for member in members.iter().filter(|m| parent(m).is_none()) {
            below(&mut out, &members, member, width, 2);
        }
    }
    out
}

fn below(out: &mut String, members: &[Watched], member: &Watched, width: usize, depth: usize) {
    let indent = "  ".repeat(depth);
    let (agent, state) = (member.agent.as_str(), member.status.word());
    *out += &format!("{indent}{agent:<width$}  {state}\n");
    let given = |m: &&Watched| parent(m).is_some_and(|run| member.run == Some(run));
    for child in members.iter().filter(given) {
        below(out, members, child, width, depth + 1);
    }
}

/// The same as a list.
pub(crate) fn list(state: &State) -> Vec<Value> {
    let runs = state.open_turns().flat_map(|turn| {
        let members = at_work(state, turn);
        let one = |m: &Watched| {
            json!({
                "turn": turn.accepted.id.to_string(),
                "branch": &*turn.accepted.branch,
                "agent": m.agent.to_string(),
                "role": m.role_word(),
                "state": m.status.word(),
                "run": m.run.map(|id| id.to_string()),
                "parent_run": parent(m).map(|id| id.to_string()),
            })
        };
        members.iter().map(one).collect::<Vec<_>>()
    });
    runs.collect()
}

/// What is done to summaries on request has no agents.
fn at_work(state: &State, turn: &Turn) -> Vec<Watched> {
    match turn.accepted.work {
        Work::Answer { .. } => members(state, turn),
        _ => Vec::new(),
    }
}

fn parent(member: &Watched) -> Option<RunId> {
    match member.role {
        RunRole::Child { parent, .. } => Some(parent),
        RunRole::Lead | RunRole::Delegate { .. } => None,
    }
}
