//! Whether a turn fails because its own task does not fit.

use unisono_context::MessageId;
use unisono_context::budget::Budgets;
use unisono_context::compaction::Mode;
use unisono_context::message::{NewMessage, Role};
use unisono_runtime::clock;
use unisono_session::{Fact, State};

use super::super::{measure, note};
use super::Error;
use super::next_turn::decide_topics;
use super::simulation::SimulationInput;
use crate::ask::ContextInputs;
use unisono_config::setup::Setup;

/// Why no compaction makes room for this task at the end of a branch; none: it fits. Only the lead
/// counts, without the share for results: a turn fails only if nothing else helps.
pub(super) fn problem(
    setup: &Setup,
    by: &ContextInputs,
    (branch, task): (&str, &str),
    state: &State,
) -> Result<Option<String>, Error> {
    if task.trim().is_empty() {
        return Ok(None);
    }
    let mut state = state.clone();
    let input = MessageId::from_u128(clock::new_id());
    let fact = Fact::Appended {
        branch: Some(branch.into()),
        parent: state.tree().head(branch),
        message: NewMessage::text(input, Role::User, task, clock::now()),
    };
    note(&mut state, fact)?;
    let measured = measure(&mut state, Some(input), by)?;
    let budgets = Budgets::from(measured.shares.least_budget());
    decide_topics(&mut state, input, by, (setup, &budgets))?;
    let rests = state.checkpoints().rests(state.tree(), input);
    let outlook = SimulationInput {
        head: input,
        pending: true,
        budgets: &budgets,
        fallbacks: &[],
        policy: &by.policy,
        mode: if rests { Mode::Rest } else { Mode::Check },
        now: clock::now(),
    };
    let simulation = outlook.simulate(&state, true)?;
    Ok(simulation.stuck.map(|error| error.to_string()))
}
