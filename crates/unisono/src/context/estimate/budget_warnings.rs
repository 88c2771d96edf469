//! Warnings about budgets that have less left than an estimate needs.

use unisono_api::turn::RunEstimate;
use unisono_context::{Cost, Tokens};
use unisono_session::State;
use unisono_session::agent::Team;
use unisono_session::budget::{Amount, BudgetStatus, Caps, Level, Resource};

use crate::ask;
use crate::fmt;
use unisono_config::setup::Setup;

#[derive(Clone, Copy, Debug)]
pub(crate) struct MaximumUse {
    /// Tokens, in and out.
    pub(crate) tokens: u64,
    /// Dollars; none if a price is unknown.
    pub(crate) cost_usd: Option<f64>,
}

impl MaximumUse {
    pub(crate) fn of_summary(tokens: Tokens, cost: Option<Cost>) -> MaximumUse {
        MaximumUse {
            tokens: tokens.0,
            cost_usd: cost.map(|cost| cost.micro_dollars() as f64 / 1e6),
        }
    }

    pub(crate) fn of_runs(runs: &[RunEstimate]) -> MaximumUse {
        let each = runs.iter().map(MaximumUse::of_run);
        let none = MaximumUse {
            tokens: 0,
            cost_usd: Some(0.0),
        };
        each.fold(none, |sum, run| MaximumUse {
            tokens: sum.tokens + run.tokens,
            cost_usd: sum.cost_usd.zip(run.cost_usd).map(|(a, b)| a + b),
        })
    }

    fn of_run(run: &RunEstimate) -> MaximumUse {
        MaximumUse {
            tokens: run.input_tokens + run.max_output_tokens,
            cost_usd: run.max_cost_usd,
        }
    }
}

/// The warning about a budget that has less left than needed; `whose` is its agent or its owner.
pub(crate) fn warning(
    status: &BudgetStatus,
    whose: Option<&str>,
    needed: MaximumUse,
) -> Option<String> {
    let left = status.in_units(status.remaining());
    let (left, needed) = match status.resource {
        Resource::Tokens if left < needed.tokens as f64 => (
            format!("{} tokens", fmt::number(left as u64)),
            format!("{} tokens", fmt::number(needed.tokens)),
        ),
        Resource::Cost if needed.cost_usd.is_some_and(|cost| left < cost) => (
            fmt::dollars(left),
            fmt::dollars(needed.cost_usd.unwrap_or_default()),
        ),
        Resource::Tokens | Resource::Cost | Resource::Time => return None,
    };
    let level = status.level.name();
    let whose = whose.map_or_else(String::new, |whose| format!(" ({whose})"));
    Some(format!(
        "the {level}'s budget{whose} has {left} left, and this may need {needed}"
    ))
}

/// Warnings about the budgets of the runs, the turn and the session.
pub(crate) fn of_session(
    (setup, team): (&Setup, &Team),
    state: &State,
    runs: &[RunEstimate],
    needed: MaximumUse,
) -> Vec<String> {
    let caps = ask::caps(setup, team);
    let fresh = |caps: Caps, level| caps.left(level, Amount::ZERO, Amount::ZERO, 0);
    let mut warnings = Vec::new();
    for (agent, run) in team.definitions().filter_map(|agent| {
        let run = runs.iter().find(|run| run.agent == agent.id.as_str())?;
        Some((agent, run))
    }) {
        for status in fresh(caps.for_run(agent.digest()), Level::Run) {
            warnings.extend(warning(&status, Some(&run.agent), MaximumUse::of_run(run)));
        }
    }
    let account = state.budget().session();
    let reserved = account.open + account.kept;
    let turn = fresh(caps.turn, Level::Turn);
    let session = caps
        .session
        .left(Level::Session, account.spent, reserved, 0);
    let both = turn.chain(session);
    warnings.extend(both.filter_map(|status| warning(&status, None, needed)));
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_with_less_left_than_needed_is_named() {
        let caps = Caps {
            tokens: Some(Tokens(10_000)),
            cost: Some(Cost::from_micro_dollars(50_000)),
            time_ms: Some(1),
        };
        let spent = Amount {
            tokens: Tokens(7_000),
            cost: Cost::from_micro_dollars(10_000),
        };
        let warnings = |tokens, cost_usd| -> Vec<String> {
            let needed = MaximumUse { tokens, cost_usd };
            let all = caps.left(Level::Owner, spent, Amount::ZERO, 0);
            all.filter_map(|status| warning(&status, Some("ada"), needed))
                .collect()
        };
        assert_eq!(warnings(3_000, Some(0.04)), Vec::<String>::new());
        assert_eq!(
            warnings(3_001, Some(0.05)),
            [
                "the owner's budget (ada) has $0.0400 left, and this may need $0.0500",
                "the owner's budget (ada) has 3,000 tokens left, and this may need 3,001 tokens",
            ]
        );
        assert_eq!(warnings(1, None), Vec::<String>::new());
    }
}
