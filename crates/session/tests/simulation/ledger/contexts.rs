//! Invariants of a context that is frozen, compacted or reverted.

use super::*;

/// The sorted ordinals of some ranges; an ordinal in several ranges occurs several times.
pub(super) fn ordinals(spans: &[Span]) -> Vec<u32> {
    let mut all: Vec<u32> = spans.iter().flat_map(|s| s.first.0..=s.last.0).collect();
    all.sort_unstable();
    all
}

/// A regenerated summary replaces the same messages and keeps the context within the target.
pub(super) fn repaired(state: &State, turn: TurnId, made: &Checkpoint) {
    let old = state.checkpoints().rewritten_by(made).unwrap();
    assert!(old.degraded && !made.degraded && old.cutoff == made.cutoff);
    let turn = state.turn(turn).unwrap();
    let head = state.tree().head(&turn.accepted.branch).unwrap();
    let view = state.view(head, true).unwrap();
    for budget in state.required_budgets(turn, &view).unwrap().iter() {
        let context = view.effective(budget).unwrap();
        assert!(context.tokens <= turn.accepted.policy.target_amount(budget));
        assert!(context.at_most <= budget.usable);
    }
}

pub(super) fn no_run_is_open(state: &State, turn: TurnId) {
    let turn = state.turn(turn).unwrap();
    assert!(turn.runs.is_empty(), "no compaction during a delegation");
    let branch = &turn.accepted.branch;
    let active = state.active_turn(branch).unwrap();
    assert_eq!(active.accepted.id, turn.accepted.id);
}

/// A task is delegated only within the limits, by an active run, and to none of its ancestors.
pub(super) fn may_be_given_to(state: &State, run: &OpenedRun, parent: RunId) {
    let turn = state.turn(run.turn).unwrap();
    let limits = turn.accepted.delegation;
    assert!(turn.open_runs <= limits.live_runs, "live runs");
    assert!(state.run(parent).unwrap().is_open(), "its parent works");
    let (mut depth, mut above) = (1, state.run(parent).unwrap());
    loop {
        assert_ne!(above.agent, run.agent, "not to who waits for it");
        above = match above.role {
            RunRole::Child { parent, .. } => state.run(parent).unwrap(),
            RunRole::Delegate { .. } => {
                depth += 1;
                break;
            }
            RunRole::Lead => break,
        };
        depth += 1;
    }
    assert!(depth <= limits.depth, "depth");
    let named = turn
        .team
        .available
        .iter()
        .any(|agent| agent.id == run.agent);
    assert!(named, "an available agent");
}

/// C5: a frozen context is within the usable tokens of the lead, and of all other agents that get
/// it.
pub(super) fn fits(state: &State, turn: TurnId) {
    let turn = state.turn(turn).unwrap();
    let head = state.tree().head(&turn.accepted.branch).unwrap();
    let view = state.view(head, true).unwrap();
    // The lead's texts beside the context fit as well.
    let lead = state.least_budget(turn).unwrap();
    for budget in lead.iter() {
        assert!(view.effective(budget).unwrap().at_most <= budget.usable);
    }
}

/// C11: a reverted context fits, and is not compacted again.
pub(super) fn reverted_fits(state: &State, turn: TurnId) {
    let turn = state.turn(turn).unwrap();
    let head = state.tree().head(&turn.accepted.branch).unwrap();
    let view = state.view(head, false).unwrap();
    let budgets = state.required_budgets(turn, &view).unwrap();
    for budget in budgets.iter() {
        assert!(view.effective(budget).unwrap().at_most <= budget.usable);
    }
}

/// C8: pinned messages are frozen verbatim.
pub(super) fn shows_pins(state: &State, turn: TurnId) {
    let turn = state.turn(turn).unwrap();
    let Phase::Frozen { manifest, .. } = &turn.phase else {
        panic!("just frozen");
    };
    for id in state.pinned() {
        let at = state.tree().get(*id).unwrap().ordinal();
        let there = state.tree().node_at(manifest.head, at);
        if there.is_some_and(|node| node.message.id == *id) {
            assert!(manifest.spans.iter().any(|span| span.contains(at)));
            assert!(manifest.altered.iter().all(|(altered, _)| *altered != at));
        }
    }
}
