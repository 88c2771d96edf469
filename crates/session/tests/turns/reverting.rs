//! Reverting a checkpoint: refused with a reason, done once, and not compacted again afterwards.

use std::sync::Arc;

use unisono_context::call::Usage;
use unisono_context::checkpoint::{Checkpoint, RevertError, Writer};
use unisono_context::{Encoding, SnapshotId};
use unisono_session::event::{Outcome, Work};
use unisono_session::machine::{Import, NewTurn};
use unisono_session::usage::Ledger;
use unisono_session::{Fact, Input, Machine, Refusal, ids};

use crate::shell::*;

fn revert(n: u64, of: u64) -> NewTurn {
    let checkpoint = ids::checkpoint(turn_id(of), 1);
    NewTurn {
        work: Work::Revert { checkpoint },
        ..compacting(n, team(agent("lead"), []), 60)
    }
}

fn refused(shell: &mut Shell, turn: NewTurn) -> RevertError {
    match shell.feed(Input::Accept(Box::new(turn))) {
        Err(Refusal::NotActive(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// Answers a turn; returns its snapshot id.
fn answer(shell: &mut Shell, turn: NewTurn) -> SnapshotId {
    let briefs = shell.dispatch(turn);
    shell.finish(
        &briefs[0],
        "an answer that is long enough to be compacted later",
    );
    briefs[0].snapshot.as_ref().unwrap().id()
}

/// The current snapshot id of the branch.
fn now(shell: &Shell) -> SnapshotId {
    let state = shell.state();
    let view = state
        .view(state.tree().head("main").unwrap(), false)
        .unwrap();
    let preamble = unisono_context::snapshot::Preamble::new("", Vec::new());
    unisono_context::Snapshot::freeze(&view, preamble).id()
}

#[test]
fn a_revert_restores_the_context_and_the_next_turn_does_not_compact_it() {
    let mut shell = Shell::with(12);
    shell.begin(manual(0));
    shell.begin(revert(1, 0));
    let Outcome::Reverted { before, after } = shell.outcome(1) else {
        panic!("{}", shell.outcome(1));
    };
    assert!(before < after, "{before} {after}");
    let whole = now(&Shell::with(12));
    assert_eq!(now(&shell), whole);
    // Far above its trigger of 60 tokens, far below the usable tokens.
    answer(&mut shell, compacting(2, team(agent("lead"), []), 60));
    assert_eq!(shell.facts("compaction_planned").len(), 1);
    // A person may still compact; after that everything is as before.
    shell.begin(manual(3));
    answer(&mut shell, compacting(4, team(agent("lead"), []), 40));
    assert!(shell.facts("compaction_planned").len() > 2);
    let recovered = shell.recovered();
    assert!(
        recovered
            .state()
            .checkpoints()
            .is_retired(ids::checkpoint(turn_id(0), 1))
    );
}

#[test]
fn an_inactive_checkpoint_is_refused_with_the_reason() {
    let mut shell = Shell::with(12);
    shell.begin(manual(0));
    assert_eq!(refused(&mut shell, revert(1, 7)), RevertError::Unknown);
    let at = message_id(1);
    let branch = "short".into();
    shell.feed(Input::Fork { branch, at }).unwrap();
    let elsewhere = NewTurn {
        branch: "short".into(),
        ..revert(1, 0)
    };
    assert!(matches!(
        refused(&mut shell, elsewhere),
        RevertError::Elsewhere { number: 1, .. }
    ));
    answer(&mut shell, turn(2, team(agent("lead"), [])));
    shell.begin(manual(3));
    let why = refused(&mut shell, revert(4, 0));
    assert_eq!(why, RevertError::Superseded { number: 1, by: 2 });
    assert_eq!(
        why.to_string(),
        "checkpoint 1 was superseded by checkpoint 2: revert 2 first"
    );
    shell.begin(revert(5, 3));
    assert_eq!(
        refused(&mut shell, revert(6, 3)),
        RevertError::Retired { number: 2 }
    );
    shell.begin(revert(7, 0));
    assert!(matches!(shell.outcome(7), Outcome::Reverted { .. }));
}

#[test]
fn a_revert_that_does_not_fit_is_refused_with_the_numbers() {
    let mut shell = Shell::with(40);
    shell.begin(manual(0));
    let before = now(&shell);
    shell.begin(NewTurn {
        team: team(sized("small", 500, Encoding::O200kBase), []),
        ..revert(1, 0)
    });
    let (code, reason) = shell.failure(1);
    assert_eq!(code, "revert_overflow");
    assert!(
        reason.contains("without checkpoint 1 the context has"),
        "{reason}"
    );
    assert!(reason.contains("usable of a window of 500"), "{reason}");
    assert_eq!(now(&shell), before);
}

#[test]
fn a_revert_waits_for_the_turn_before_it_and_checks_again() {
    let mut shell = Shell::with(12);
    shell.begin(manual(0));
    let briefs = shell.dispatch(compacting(1, team(agent("lead"), []), 60));
    shell.begin(revert(2, 0));
    assert!(shell.state().ended_turn(turn_id(2)).is_none(), "it waits");
    shell.finish(&briefs[0], "an answer");
    shell.prepare();
    // The earlier turn may have compacted again: the outcome says which.
    match shell.outcome(2) {
        Outcome::Reverted { .. } => assert_eq!(shell.facts("compacted").len(), 1),
        Outcome::Failed { code, reason } => {
            assert_eq!(&**code, "not_active");
            assert!(reason.contains("superseded by checkpoint 2"), "{reason}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_crash_after_a_revert_does_not_repeat_it() {
    let mut shell = Shell::with(12);
    shell.begin(manual(0));
    shell.begin(revert(1, 0));
    let outcome = shell.outcome(1).clone();
    assert_eq!(
        shell.journal.pop().map(|event| event.fact.name()),
        Some("turn_ended")
    );
    let mut shell = shell.recovered();
    shell.prepare();
    assert_eq!(*shell.outcome(1), outcome);
    assert_eq!(shell.facts("reverted").len(), 1);
}

#[test]
fn an_imported_reverted_checkpoint_stays_reverted() {
    let mut shell = Shell::with(12);
    shell.begin(manual(0));
    let made: Vec<_> = shell.state().checkpoints().iter().cloned().collect();
    let import = Import {
        retired: vec![made[0].id],
        checkpoints: made,
        ..conversation(12)
    };
    let mut machine = Machine::new();
    let again = |machine: &mut Machine| {
        let input = Input::Import(import.clone());
        machine.handle(input, shell.now).unwrap().events
    };
    let events = again(&mut machine);
    assert!(matches!(
        events.last().unwrap().fact,
        Fact::Reverted { turn: None, .. }
    ));
    let head = machine.state().tree().head("main").unwrap();
    assert!(
        machine
            .state()
            .view(head, false)
            .unwrap()
            .active()
            .is_empty()
    );
    assert!(again(&mut machine).is_empty());
}

#[test]
fn an_imported_summary_is_no_usage_of_the_session() {
    let mut shell = Shell::with(12);
    shell.begin(manual(0));
    let made = shell.state().checkpoints().iter();
    let by_model = made.map(|made| {
        Arc::new(Checkpoint {
            writer: Writer::Model,
            cost_micros: None,
            ..(**made).clone()
        })
    });
    let import = Import {
        checkpoints: by_model.collect(),
        ..conversation(12)
    };
    let shell = Shell::from_import(import);
    assert!(!shell.facts("compacted").is_empty());
    let mut ledger = Ledger::default();
    shell.journal.iter().for_each(|event| ledger.take(event));
    assert_eq!((ledger.jobs(), ledger.total()), (0, Usage::NONE));
}
