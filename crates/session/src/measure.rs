//! Decides when a provider counts a context: if its tokens are only estimated, and the error of the
//! estimate affects whether the context is compacted or fits.

use std::sync::Arc;

use unisono_context::budget::Budget;
use unisono_context::policy::Policy;
use unisono_context::view::View;
use unisono_context::{Encoding, Ppm, Snapshot, Tokens, TurnId};

use crate::agent::Definition;
use crate::event::{Calibration, Work};
use crate::state::State;
use crate::turn::{Phase, Turn};

/// The error of a provider's count: the texts of the agents beside the context add to it.
const MEASURED_BAND: Ppm = Ppm::percent(1);
/// Millionths in one.
const ONE: u128 = 1_000_000;

/// A context that its provider should count.
#[derive(Clone, Debug)]
pub struct MeasureRequest {
    /// The turn.
    pub turn: TurnId,
    /// The agent whose model counts.
    pub agent: Arc<Definition>,
    /// The context as a freeze would make it now.
    pub snapshot: Arc<Snapshot>,
    /// Its estimated size, system text and tools included.
    pub estimated: Tokens,
}

/// Whether the turn's branch, its preamble and the texts of its agents are counted in an encoding.
pub(crate) fn is_counted(state: &State, turn: &Turn, encoding: Encoding) -> bool {
    let branch = state.tree.head(&turn.accepted.branch).is_none_or(|head| {
        let node = state.tree.get(head);
        node.is_some_and(|n| {
            state
                .tree
                .prefix(head, n.message.ordinal, encoding)
                .is_some()
        })
    });
    branch
        && state
            .preamble_counts(&turn.preamble)
            .get(encoding)
            .is_some()
        && turn.needs().are_counted(encoding, &state.preambles)
}

/// The first agent that was not measured yet and for whose model the error of the estimate affects
/// a decision.
pub(crate) fn agent_to_measure(state: &State, turn: &Turn) -> Option<(Arc<Definition>, Tokens)> {
    let begins = turn.steps_planned == 0 && matches!(turn.phase, Phase::Preparing);
    let answers = matches!(turn.accepted.work, Work::Answer { .. });
    let calibrations = &turn.accepted.calibrations;
    if !begins || !answers || calibrations.len() == turn.measured.len() {
        return None;
    }
    let uncounted = |encoding| !is_counted(state, turn, encoding);
    if turn.encodings().into_iter().any(uncounted) {
        return None;
    }
    let view = state.view(state.tree.head(&turn.accepted.branch)?, true)?;
    let open = calibrations
        .iter()
        .filter(|known| !turn.measured.contains(&known.model));
    open.into_iter().find_map(|known| {
        let tightest = tightest(turn, &known.model)?;
        let tokens = undecided_estimate(state, turn, &view, tightest, known)?;
        Some((tightest.clone(), tokens))
    })
}

/// The agent with this model that gets the context and has the smallest usable window.
fn tightest<'t>(turn: &'t Turn, model: &str) -> Option<&'t Arc<Definition>> {
    let members = turn.members().filter(|agent| *agent.model == *model);
    members.min_by_key(|agent| agent.limits.window.minus(agent.limits.max_output))
}

/// The estimate of the context, if its error affects a decision.
fn undecided_estimate(
    state: &State,
    turn: &Turn,
    view: &View<'_>,
    agent: &Definition,
    known: &Calibration,
) -> Option<Tokens> {
    let preamble = state.preamble_counts(&turn.preamble);
    let fixed = preamble.get(agent.limits.encoding)?;
    let (needs, digest) = (turn.needs(), agent.digest());
    let assignment = needs.assignment_tokens(digest, &state.preambles)?;
    let full_budget = Budget::new(agent.limits, turn.accepted.safety, Tokens::ZERO);
    let budget = |usable: Tokens| {
        let usable = usable.minus(fixed.at_most + assignment);
        let results = needs.results(digest, usable);
        Budget {
            usable: usable.minus(results),
            ..full_budget
        }
    };
    let (low, high) = (
        budget(known.estimated(full_budget.usable)),
        budget(lower_bound(known, full_budget.usable)),
    );
    let policy = &turn.accepted.policy;
    let tokens = view.effective(&low)?.tokens;
    let decides = limit(policy, &low) < tokens && tokens <= limit(policy, &high);
    decides.then(|| tokens + fixed.tokens)
}

/// The size above which the context is compacted, or does not fit.
fn limit(policy: &Policy, budget: &Budget) -> Tokens {
    let trigger = policy.trigger_amount(budget).unwrap_or(budget.usable);
    trigger.min(budget.usable)
}

/// The minimum estimated size of this number of the provider's tokens, rounded up.
fn lower_bound(known: &Calibration, tokens: Tokens) -> Tokens {
    let share = ONE.saturating_sub(u128::from(known.band.0)).max(1);
    let per_token = u128::from(known.ratio.0.max(1)) * share;
    let estimated = (u128::from(tokens.0) * ONE * ONE).div_ceil(per_token);
    Tokens(u64::try_from(estimated).unwrap_or(u64::MAX))
}

/// The calibration of a model after its provider counted `reported` tokens for an estimate;
/// unchanged if the provider did not count.
pub(crate) fn updated_calibration(
    before: &Calibration,
    estimated: Tokens,
    reported: Option<Tokens>,
) -> Calibration {
    let Some(reported) = reported.filter(|tokens| *tokens > Tokens::ZERO) else {
        return before.clone();
    };
    let ratio = u128::from(reported.0) * ONE / u128::from(estimated.0.max(1));
    Calibration {
        model: before.model.clone(),
        ratio: Ppm(u32::try_from(ratio).unwrap_or(u32::MAX)),
        band: before.band.min(MEASURED_BAND),
    }
}

impl State {
    /// The context of the turn that a provider should count now.
    pub(crate) fn measure_request(&self, turn: TurnId) -> Option<MeasureRequest> {
        let open = self.turns.get(&turn)?;
        let (agent, estimated) = agent_to_measure(self, open)?;
        let view = self.view(self.tree.head(&open.accepted.branch)?, true)?;
        Some(MeasureRequest {
            turn,
            agent,
            snapshot: Arc::new(Snapshot::freeze(&view, open.preamble.clone())),
            estimated,
        })
    }
}

#[cfg(test)]
mod tests {
    //! Calibrations after a count.

    use super::*;

    fn known(ratio: u32, band: u32) -> Calibration {
        Calibration {
            model: "fake/model".into(),
            ratio: Ppm(ratio),
            band: Ppm(band),
        }
    }

    #[test]
    fn a_count_replaces_the_estimate() {
        let before = known(1_000_000, 200_000);
        let rows = [
            (1_000, Some(1_200), (1_200_000, 10_000)),
            (1_000, Some(800), (800_000, 10_000)),
            (1_000, Some(0), (1_000_000, 200_000)),
            (1_000, None, (1_000_000, 200_000)),
            (0, Some(u64::MAX), (u32::MAX, 10_000)),
        ];
        for (estimated, reported, (ratio, band)) in rows {
            let after = updated_calibration(&before, Tokens(estimated), reported.map(Tokens));
            assert_eq!(after, known(ratio, band), "{estimated} {reported:?}");
        }
        let narrow = known(900_000, 5_000);
        assert_eq!(
            updated_calibration(&narrow, Tokens(10), Some(Tokens(9))),
            narrow
        );
    }

    #[test]
    fn the_lower_bound_of_an_estimate_uses_the_whole_band() {
        let rows = [
            (1_000_000, 0, 1_000, 1_000),
            (1_000_000, 200_000, 1_000, 1_250),
            (1_250_000, 200_000, 1_000, 1_000),
            (1_000_000, 1_000_000, 1, 1_000_000),
            (1_000_000, 4_000_000, 1, 1_000_000),
        ];
        for (ratio, band, tokens, expected) in rows {
            let best = lower_bound(&known(ratio, band), Tokens(tokens));
            assert_eq!(best, Tokens(expected), "{ratio} {band}");
        }
    }
}
