//! A session in the types of the API.

use unisono_api::session::{Branch, EndedTurn, OpenRun, Preview, Session};
use unisono_api::turn::ErrorInfo as Failed;
use unisono_api::usage::Budget;
use unisono_context::{MessageId, Ordinal, TurnId};
use unisono_runtime::clock;
use unisono_session::event::{Outcome, Work};
use unisono_session::{State, state};

use super::plain;
use crate::context::topics;
use crate::follow::members;
use crate::values;

/// A session in the types of the API, without its losses in repairs.
pub(super) fn describe(id: &str, state: &State) -> Session {
    let tree = state.tree();
    let names = tree.branches();
    let branches = names.map(|(name, head)| branch(state, name, head));
    let ended = state.ended_turns().rev();
    let ended = ended.map(|(turn, ended)| ended_turn(state, turn, ended));
    let open = state.open_turns().map(|turn| turn.accepted.id.to_string());
    let at = |list: &str| format!("/v1/sessions/{id}/{list}");
    Session {
        session: id.to_owned(),
        title: state.title().to_owned(),
        system: state.system().to_string(),
        labels: plain(state.labels()),
        settings: plain(state.settings()),
        events: state.events(),
        messages: tree.len() as u64,
        branches: Preview::new(tree.branches().count(), branches, at("branches")),
        checkpoints: state.checkpoints().iter().len() as u64,
        open_turns: Preview::new(state.open_turns().count(), open, at("turns")),
        open_runs: open_runs(state),
        ended_turns: Preview::new(state.ended_turns().len(), ended, at("ended-turns")),
        budgets: budgets(state),
        lost: None,
    }
}

pub(in crate::service) fn ended_turn(
    state: &State,
    turn: TurnId,
    ended: &state::EndedTurn,
) -> EndedTurn {
    let sizes = match &ended.outcome {
        Outcome::Compacted { before, after } | Outcome::Reverted { before, after } => {
            Some((before.0, after.0))
        }
        _ => None,
    };
    EndedTurn {
        turn: turn.to_string(),
        state: ended.outcome.name().to_owned(),
        error: match &ended.outcome {
            Outcome::Failed { code, reason } => Some(Failed {
                code: code.to_string(),
                reason: reason.to_string(),
            }),
            _ => None,
        },
        answer_message: ended
            .answer
            .and_then(|id| state.tree().get(id))
            .map(|node| node.ordinal().0),
        tokens_before: sizes.map(|(before, _)| before),
        tokens_after: sizes.map(|(_, after)| after),
    }
}

/// The agents of open turns. Requested changes of summaries have no agents.
fn open_runs(state: &State) -> Vec<OpenRun> {
    let turns = state.open_turns();
    let answers = turns.filter(|turn| matches!(turn.accepted.work, Work::Answer { .. }));
    let runs = answers.flat_map(|turn| {
        let agents = members(state, turn).into_iter();
        agents.map(|agent| OpenRun {
            turn: turn.accepted.id.to_string(),
            branch: turn.accepted.branch.to_string(),
            agent,
        })
    });
    runs.collect()
}

/// Maximum open turns whose budgets are shown with the session.
const TURNS: usize = 20;

/// The state of the budgets of the oldest open turns that have begun, and of the session.
fn budgets(state: &State) -> Vec<Budget> {
    let now = clock::now();
    let begun = state.open_turns().filter(|turn| {
        let active = state.active_turn(&turn.accepted.branch);
        active.is_some_and(|active| active.accepted.id == turn.accepted.id)
    });
    let turns = begun.take(TURNS).map(|turn| turn.accepted.id);
    let of_turns = turns.flat_map(|turn| {
        let budgets = state.turn_budgets(turn, now).into_iter();
        budgets.map(move |budget| Budget {
            turn: Some(turn.to_string()),
            ..values::budget(&budget)
        })
    });
    let of_session = state.session_budgets(now);
    let of_session = of_session.iter().map(values::budget);
    of_turns.chain(of_session).collect()
}

pub(in crate::service) fn branch(state: &State, name: &str, head: MessageId) -> Branch {
    let tree = state.tree();
    let strands = tree.strands(head);
    let forked = strands.first().filter(|_| strands.len() > 1);
    let parent = forked.and_then(|(_, own)| tree.node_at(head, Ordinal(own.first.0 - 1)));
    Branch {
        name: name.to_owned(),
        head: head.to_string(),
        parent: parent.map(|node| node.message.id.to_string()),
        messages: tree.get(head).map_or(0, |node| node.ordinal().0),
        topics: u32::try_from(topics::of_branch(state, name).len()).unwrap_or(u32::MAX),
    }
}
