//! A model regenerates degraded summaries: once per turn, after a pause that failures double, and
//! only if the context stays within its target.

use unisono_context::Timestamp;
use unisono_context::checkpoint::{Body, Kind, Writer};
use unisono_context::compaction::Step;
use unisono_context::policy::{ModelQuota, Policy};
use unisono_context::tokens::Tokens;
use unisono_session::assignment::CompactionJob;
use unisono_session::event::Outcome;
use unisono_session::machine::{NewTurn, WrittenSummary};
use unisono_session::{Fact, Input};

use crate::shell::*;

const MINUTE_MS: i64 = 60_000;

fn degraded(tokens: u64, job: &CompactionJob) -> WrittenSummary {
    WrittenSummary {
        writer: Writer::Deterministic,
        model: "extractive".into(),
        degraded: true,
        ..summary(tokens, &job.encodings)
    }
}

/// A turn whose context needs no compaction.
fn fitting_turn(n: u64) -> NewTurn {
    compacting(n, team(agent("lead"), []), 500)
}

fn answered(shell: &mut Shell) {
    let lead = shell.dispatched().remove(0);
    shell.finish(&lead, "done");
}

/// A session whose first turn was compacted without its summariser.
fn shell() -> Shell {
    let mut shell = Shell::with(12);
    shell.accept(compacting(0, team(agent("lead"), []), 120));
    let job = shell.job();
    let made = degraded(20, &job);
    shell.write(&job, made);
    answered(&mut shell);
    shell
}

/// The step of the newest plan, if it belongs to this turn.
fn planned(shell: &Shell, turn: u64) -> Option<&Step> {
    let plans = shell.facts("compaction_planned");
    plans.into_iter().rev().find_map(|fact| match fact {
        Fact::CompactionPlanned { turn: of, plan } if *of == turn_id(turn) => Some(&plan.step),
        _ => None,
    })
}

#[test]
fn a_later_turn_regenerates_a_degraded_summary() {
    let mut shell = shell();
    shell.accept(fitting_turn(1));
    let job = shell.job();
    let Step::Regenerate { cover, prior, cap } = &job.plan.step else {
        panic!("{}", job.plan);
    };
    let old = shell.state().checkpoints().iter().next().unwrap().clone();
    assert_eq!(
        (&cover.spans, &cover.supersedes[..]),
        (&old.covers, &[old.id][..])
    );
    assert_eq!((job.kind, prior.len()), (Kind::Auto, 0));
    let read: Vec<u32> = job.messages.iter().map(|said| said.ordinal.0).collect();
    let covered: Vec<u32> = (1..=old.cutoff.0).collect();
    assert_eq!(read, covered, "all that no model has read");
    assert!(*cap > Tokens(20) && *cap < Tokens(400), "{cap}");
    // Longer than the one it replaces, and within the target.
    let made = summary(cap.0, &job.encodings);
    shell.write(&job, made);
    answered(&mut shell);
    let checkpoints = shell.state().checkpoints();
    let new = checkpoints.iter().last().unwrap();
    assert_eq!(
        (new.covers.clone(), new.cutoff),
        (old.covers.clone(), old.cutoff)
    );
    assert_eq!(
        (new.number, new.writer, new.degraded),
        (2, Writer::Model, false)
    );
    assert_eq!(checkpoints.rewritten_by(new).map(|c| c.id), Some(old.id));
    assert_eq!(
        checkpoints.model_made_between(Timestamp(0), Timestamp(i64::MAX)),
        0,
        "it does not count"
    );
    let head = shell.state().tree().head("main").unwrap();
    let active = checkpoints.active(shell.state().tree(), head);
    assert_eq!(active.len(), 1);
    assert_eq!(active[0].id, new.id);

    shell.accept(fitting_turn(2));
    answered(&mut shell);
    assert!(planned(&shell, 2).is_none(), "it is as it should be");
}

#[test]
fn a_failed_repair_changes_nothing_and_doubles_the_pause() {
    let mut shell = shell();
    let mut turn = 1;
    for pause in [1, 2, 4] {
        shell.accept(fitting_turn(turn));
        let job = shell.job();
        assert!(matches!(job.plan.step, Step::Regenerate { .. }));
        shell.fail_step(&job, "the model is down", true);
        answered(&mut shell);
        assert_eq!(*shell.outcome(turn), Outcome::Answered, "the turn goes on");

        shell.now = shell.now.plus_ms(pause * MINUTE_MS - 1);
        shell.accept(fitting_turn(turn + 1));
        answered(&mut shell);
        assert!(planned(&shell, turn + 1).is_none(), "{pause} min");
        shell.now = shell.now.plus_ms(1);
        // Its pause is in the journal.
        shell = shell.recovered();
        turn += 2;
    }
    assert_eq!(shell.state().checkpoints().iter().count(), 1);
    let id = shell.state().checkpoints().iter().next().unwrap().id;
    let failed = shell.state().checkpoints().failed_repairs(id).unwrap();
    assert_eq!(failed.times, 3);
}

#[test]
fn an_unacceptable_text_is_a_failed_repair() {
    let blank = |job: &CompactionJob| WrittenSummary {
        body: Body::Summary(" ".into()),
        ..summary(5, &job.encodings)
    };
    let note = |job: &CompactionJob| WrittenSummary {
        body: Body::Tombstone,
        ..summary(5, &job.encodings)
    };
    let long = |job: &CompactionJob| summary(390, &job.encodings);
    let rows = [
        "the summary is empty",
        "the result does not fit the step",
        "the summary has 390 tokens, over its cap of ",
    ];
    for (row, expected) in rows.into_iter().enumerate() {
        let mut shell = shell();
        shell.accept(fitting_turn(1));
        let job = shell.job();
        let made = [blank(&job), note(&job), long(&job)][row].clone();
        shell.write(&job, made);
        let failed = shell.facts("compaction_failed");
        let Some(Fact::CompactionFailed { reason, .. }) = failed.last() else {
            panic!("not a failure");
        };
        assert!(reason.starts_with(expected), "{reason}");
        answered(&mut shell);
        assert_eq!(shell.state().checkpoints().iter().count(), 1);
    }
}

#[test]
fn an_interrupted_repair_is_requested_again() {
    let mut shell = shell();
    shell.accept(fitting_turn(1));
    let before = shell.job();
    let mut shell = shell.recovered();
    let job = shell.job();
    assert_eq!((job.step, &job.plan), (before.step, &before.plan));
    let made = summary(25, &job.encodings);
    shell.write(&job, made);
    answered(&mut shell);
    assert_eq!(shell.state().checkpoints().iter().count(), 2);
    let shell = shell.recovered();
    assert_eq!(shell.state().checkpoints().iter().count(), 2);
}

#[test]
fn no_repair_is_requested_without_a_summariser_or_headroom() {
    let none = Policy {
        quota: Some(ModelQuota::NONE),
        ..fitting_turn(1).policy
    };
    let crowded = Policy {
        trigger: Some(unisono_context::policy::Trigger::Tokens(Tokens(100))),
        target: unisono_context::Ppm::percent(70),
        ..compacting(1, team(agent("lead"), []), 120).policy
    };
    for policy in [none, crowded] {
        let mut shell = shell();
        shell.accept(NewTurn {
            policy,
            ..fitting_turn(1)
        });
        answered(&mut shell);
        let rewrites = matches!(planned(&shell, 1), Some(Step::Regenerate { .. }));
        assert!(!rewrites, "{policy:?}");
    }
}

#[test]
fn the_usage_of_a_summariser_is_recorded_after_the_end_of_its_turn() {
    let mut shell = shell();
    let events = shell.journal.len();
    let used = Input::SummariserUsed {
        turn: turn_id(0),
        model: "test/a".into(),
        usage: Default::default(),
    };
    shell.feed(used).unwrap();
    assert_eq!(shell.journal.len(), events + 1);
    assert_eq!(shell.facts("summariser_used").len(), 1);
    let mut ledger = unisono_session::usage::Ledger::default();
    shell.journal.iter().for_each(|event| ledger.take(event));
    let rows: Vec<_> = ledger
        .entries()
        .map(|(_, model, _)| model.to_owned())
        .collect();
    assert_eq!(rows, ["test/a"]);
}
