//! A provider is asked for its count only if the error of the estimate affects a decision.

use unisono_context::{Ppm, Tokens};
use unisono_session::event::{Calibration, Fact, Work};
use unisono_session::machine::NewTurn;
use unisono_session::measure::MeasureRequest;
use unisono_session::{Effect, Input, ids};

use crate::shell::{Shell, agent, compacting, count, manual, measured, message_id, team, turn_id};

/// More than any context here has.
const NEVER: u64 = 1_000_000;

fn known(ratio: f64, band: u32) -> Calibration {
    Calibration {
        model: agent("lead").model,
        ratio: Ppm((ratio * 1e6) as u32),
        band: Ppm(band),
    }
}

/// A turn with this trigger and this calibration of its model; everything is counted.
fn counted(known: Calibration, trigger: u64) -> Shell {
    counted_in(Shell::with(12), known, trigger)
}

fn counted_in(mut shell: Shell, known: Calibration, trigger: u64) -> Shell {
    shell.accept(NewTurn {
        calibrations: vec![known],
        ..compacting(0, team(agent("lead"), []), trigger)
    });
    loop {
        let at = |effect: &Effect| matches!(effect, Effect::Count(_));
        let Some(at) = shell.waiting.iter().position(at) else {
            return shell;
        };
        let Effect::Count(request) = shell.waiting.remove(at) else {
            unreachable!();
        };
        shell.feed(count(&request)).unwrap();
    }
}

fn asked(shell: &mut Shell) -> Option<MeasureRequest> {
    let at = |effect: &Effect| matches!(effect, Effect::Measure(_));
    let at = shell.waiting.iter().position(at)?;
    match shell.waiting.remove(at) {
        Effect::Measure(request) => Some(*request),
        _ => None,
    }
}

/// The ratio at which the estimate of the context equals the usable window: 1,800 tokens.
fn even() -> f64 {
    even_in(Shell::with(12))
}

fn even_in(shell: Shell) -> f64 {
    let shell = counted_in(shell, known(0.001, 0), NEVER);
    let state = shell.state();
    let turn = state.turn(turn_id(0)).unwrap();
    let budgets = state.least_budget(turn).unwrap();
    let budget = budgets.iter().next().unwrap();
    let view = state.view(state.tree().head("main").unwrap(), true);
    let context = view.unwrap().effective(budget).unwrap().tokens;
    let whole = turn.accepted.calibrations[0].estimated(Tokens(1_800));
    let reserved = whole.minus(budget.usable);
    1_800.0 / (context + reserved).0 as f64
}

#[test]
fn a_provider_counts_only_if_the_error_affects_a_decision() {
    let even = even();
    let rows = [
        (1.0, 200_000, NEVER, true),
        (0.9, 200_000, NEVER, true),
        (1.2, 200_000, NEVER, true),
        // It fits, or does not, whatever the error of the estimate.
        (0.7, 200_000, NEVER, false),
        (1.4, 200_000, NEVER, false),
        (0.9, 10_000, NEVER, false),
        // It is compacted in any case: its trigger is an absolute number.
        (1.0, 200_000, 10, false),
    ];
    for (ratio, band, trigger, expected) in rows {
        let mut shell = counted(known(even * ratio, band), trigger);
        let asked = asked(&mut shell);
        assert_eq!(asked.is_some(), expected, "{ratio} {band} {trigger}");
        let waits = shell.facts("frozen").len() + shell.facts("compaction_planned").len() == 0;
        assert_eq!(waits, expected);
    }
}

#[test]
fn the_count_of_the_provider_decides_and_is_recorded() {
    // According to the estimate it may not fit. The count is this percentage of the largest that
    // fits.
    for (hundredths, compacts) in [(Some(80), false), (Some(120), true), (None, true)] {
        let mut shell = counted(known(even(), 200_000), NEVER);
        let request = asked(&mut shell).unwrap();
        let whole = request.estimated.0 as f64 * even();
        let reported = hundredths.map(|part| (whole * f64::from(part)) as u64 / 100);
        shell.feed(measured(&request, reported)).unwrap();
        let planned = !shell.facts("compaction_planned").is_empty();
        assert_eq!(planned, compacts, "{hundredths:?}");
        let [Fact::Measured { calibration, .. }] = shell.facts("measured")[..] else {
            panic!("{:?}", shell.facts("measured"));
        };
        let band = if reported.is_some() { 10_000 } else { 200_000 };
        assert_eq!(calibration.band, Ppm(band));
        // It is measured once per model of a turn, and a repeated answer is ignored.
        assert!(asked(&mut shell).is_none());
        shell.feed(measured(&request, Some(7))).unwrap();
        assert_eq!(shell.facts("measured").len(), 1);
        shell.prepare();
        assert_eq!(shell.facts("frozen").len(), 1);
    }
}

#[test]
fn an_unanswered_count_is_requested_again_after_a_crash() {
    let mut shell = counted(known(even(), 200_000), NEVER).recovered();
    let request = asked(&mut shell).unwrap();
    assert!(request.estimated > Tokens::ZERO);
    shell.feed(Input::Cancel { turn: turn_id(0) }).unwrap();
    shell.feed(measured(&request, Some(9))).unwrap();
    assert!(shell.facts("measured").is_empty(), "it came too late");
}

/// Another branch with this head, and a turn on it.
fn elsewhere(shell: &mut Shell, at: unisono_context::MessageId, turn: NewTurn) {
    let branch = "other".into();
    shell.feed(Input::Fork { branch, at }).unwrap();
    shell.accept(NewTurn {
        branch: "other".into(),
        ..turn
    });
}

#[test]
fn a_count_during_a_compaction_is_kept_for_the_next_step() {
    let compacted = || {
        let mut shell = Shell::with(12);
        shell.begin(manual(7));
        shell
    };
    let even = even_in(compacted());
    let mut shell = counted_in(compacted(), known(even, 200_000), NEVER);
    let request = asked(&mut shell).unwrap();
    let reported = (request.estimated.0 as f64 * even * 0.9) as u64;
    let before = shell.facts("compaction_planned").len();
    // Another branch reverts the summary that both have: without a count it is certain that this
    // context is too large now.
    let checkpoint = ids::checkpoint(turn_id(7), 1);
    let work = Work::Revert { checkpoint };
    elsewhere(&mut shell, message_id(12), NewTurn { work, ..manual(8) });
    assert_eq!(shell.facts("reverted").len(), 1);
    assert_eq!(shell.facts("compaction_planned").len(), before + 1);
    shell.feed(measured(&request, Some(reported))).unwrap();
    assert_eq!(shell.facts("measured").len(), 1);
    let turn = shell.state().turn(turn_id(0)).unwrap();
    assert_eq!(turn.accepted.calibrations[0].band, Ppm(10_000));
    // A repeated answer is ignored.
    shell.feed(measured(&request, Some(7))).unwrap();
    assert_eq!(shell.facts("measured").len(), 1);
    let calibration = shell.dispatched()[0].calibration.clone().unwrap();
    assert_eq!(calibration.band, Ppm(10_000));
    let folded = shell.recovered();
    assert_eq!(folded.facts("measured").len(), 1);
}

#[test]
fn a_count_after_the_freeze_changes_no_assignment() {
    let before = known(even(), 200_000);
    let mut shell = counted(before.clone(), NEVER);
    let request = asked(&mut shell).unwrap();
    // Another branch summarises messages that both have: this context certainly fits now.
    elsewhere(&mut shell, message_id(12), manual(8));
    let assignment = shell.dispatched().remove(0);
    assert_eq!(shell.facts("frozen").len(), 1);
    shell
        .feed(measured(&request, Some(1_800 * 12 / 10)))
        .unwrap();
    assert!(shell.facts("measured").is_empty());
    assert_eq!(assignment.calibration.as_ref(), Some(&before));
    let again = shell.recovered().dispatched().remove(0);
    assert_eq!(again.calibration, assignment.calibration);
}
