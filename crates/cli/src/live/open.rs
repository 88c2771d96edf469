//! Open turns and what their agents are at, as a journal has it: nobody may be working on them.

use serde_json::{Value, json};
use unisono::follow::members;
use unisono_api::turn_event::Member;
use unisono_session::State;
use unisono_session::event::Work;
use unisono_session::turn::Turn;

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
        let names = members.iter().map(|m| m.agent.chars().count());
        let width = names.max().unwrap_or(0);
        for member in members.iter().filter(|m| m.parent.is_none()) {
            below(&mut out, &members, member, width, 2);
        }
    }
    out
}

fn below(out: &mut String, members: &[Member], member: &Member, width: usize, depth: usize) {
    let indent = "  ".repeat(depth);
    let (agent, state) = (&member.agent, &member.state);
    *out += &format!("{indent}{agent:<width$}  {state}\n");
    let given = |m: &&Member| m.parent.is_some() && m.parent == member.run;
    for child in members.iter().filter(given) {
        below(out, members, child, width, depth + 1);
    }
}

/// The same as a list.
pub(crate) fn list(state: &State) -> Vec<Value> {
    let runs = state.open_turns().flat_map(|turn| {
        let members = at_work(state, turn);
        let one = |m: &Member| {
            json!({
                "turn": turn.accepted.id.to_string(),
                "branch": &*turn.accepted.branch,
                "agent": m.agent,
                "role": m.role,
                "state": m.state,
                "run": m.run,
                "parent_run": m.parent,
            })
        };
        members.iter().map(one).collect::<Vec<_>>()
    });
    runs.collect()
}

/// What is done to summaries on request has no agents.
fn at_work(state: &State, turn: &Turn) -> Vec<Member> {
    match turn.accepted.work {
        Work::Answer { .. } => members(state, turn),
        _ => Vec::new(),
    }
}
