//! Summaries that are written ahead: planned after a turn, used by the next one if nothing changed.

use std::sync::Arc;

use unisono_context::checkpoint::{Body, Writer};
use unisono_context::message::{NewMessage, Role};
use unisono_context::{Digest, Encoding, Tokens};
use unisono_session::assignment::CompactionJob;
use unisono_session::budget::{Amount, ReservationRequest};
use unisono_session::event::{DropReason, Outcome, PreparationStatus, Work};
use unisono_session::machine::{NewTurn, WrittenSummary};
use unisono_session::run::Usage;
use unisono_session::tool::{HookEvent, HookFailurePolicy, HookRule, ToolRules};
use unisono_session::{Effect, Fact, Input, ids};

use crate::shell::*;

/// A turn at 248 tokens whose next one has 265, with a trigger of 255.
fn preparing(n: u64) -> NewTurn {
    NewTurn {
        prepare: Some(Digest([1; 32])),
        ..compacting(n, team(agent("lead"), []), 255)
    }
}

/// A session after a turn, near its trigger.
fn near() -> Shell {
    let mut shell = Shell::with(20);
    answer(&mut shell, preparing(0));
    shell
}

fn answer(shell: &mut Shell, turn: NewTurn) {
    let lead = shell.dispatch(turn).remove(0);
    shell.finish(&lead, "the answer of the lead");
}

/// Takes the job of the summary that is written ahead.
fn ahead(shell: &mut Shell) -> CompactionJob {
    let is_ahead = |effect: &Effect| matches!(effect, Effect::Compact(job) if job.is_ahead());
    let at = shell.waiting.iter().position(is_ahead).expect("a job");
    match shell.waiting.remove(at) {
        Effect::Compact(job) => *job,
        _ => unreachable!(),
    }
}

/// A session with a prepared summary.
fn prepared() -> Shell {
    let mut shell = near();
    let job = ahead(&mut shell);
    shell.write(&job, summary(20, &Encoding::ALL));
    shell
}

fn drops(shell: &Shell) -> Vec<DropReason> {
    let facts = shell.facts("preparation_dropped").into_iter();
    let reasons = facts.map(|fact| match fact {
        Fact::PreparationDropped { reason, .. } => reason.clone(),
        other => panic!("{other:?}"),
    });
    reasons.collect()
}

#[test]
fn the_next_turn_uses_a_summary_that_was_written_ahead() {
    let mut shell = near();
    let job = ahead(&mut shell);
    assert!(shell.state().has_work(), "the session stays in memory");
    let is_traced = |shell: &Shell| shell.trace().turn(turn_id(0)).unwrap().is_preparing;
    assert!(is_traced(&shell), "its usage will change");
    assert_eq!(job.turn, turn_id(0));
    let said: Vec<u32> = job.messages.iter().map(|said| said.ordinal.0).collect();
    // Three messages stay, the next input included.
    assert_eq!(said, (1..=20).collect::<Vec<u32>>());
    shell.write(&job, summary(20, &Encoding::ALL));
    assert!(!shell.state().has_work());
    assert!(!is_traced(&shell));

    answer(&mut shell, preparing(1));
    assert_eq!(*shell.outcome(1), Outcome::Answered);
    let planned = shell.facts("compaction_planned").len();
    assert_eq!(planned, 1, "its step is recorded as any other one");
    let [Fact::Compacted { turn, checkpoint }] = shell.facts("compacted")[..] else {
        panic!("one checkpoint");
    };
    assert_eq!(*turn, Some(turn_id(1)));
    assert_eq!(checkpoint.id, ids::prepared(turn_id(0)));
    assert_eq!(checkpoint.writer, Writer::Model);
    // 20 messages of 9 tokens, each with an overhead of 3.
    assert_eq!(checkpoint.original, Tokens(20 * (9 + 3)));
    assert!(shell.state().preparation("main").is_none(), "it is used");
    assert!(drops(&shell).is_empty());
}

#[test]
fn without_a_next_compaction_nothing_is_written_ahead() {
    let rows: [(&str, NewTurn); 4] = [
        (
            "far from the trigger",
            NewTurn {
                prepare: Some(Digest([1; 32])),
                ..compacting(0, team(agent("lead"), []), 1_000)
            },
        ),
        (
            "off",
            NewTurn {
                prepare: None,
                ..preparing(0)
            },
        ),
        (
            "no model writes it",
            NewTurn {
                policy: unisono_context::policy::Policy {
                    quota: Some(unisono_context::policy::ModelQuota::NONE),
                    ..preparing(0).policy
                },
                ..preparing(0)
            },
        ),
        (
            "a hook gives instructions",
            NewTurn {
                rules: Arc::new(ToolRules {
                    hooks: vec![HookRule {
                        name: "rules".into(),
                        events: vec![HookEvent::BeforeCompaction],
                        tools: Vec::new(),
                        on_failure: HookFailurePolicy::Ignore,
                    }],
                    ..ToolRules::default()
                }),
                ..preparing(0)
            },
        ),
    ];
    for (why, turn) in rows {
        let mut shell = Shell::with(20);
        answer(&mut shell, turn);
        assert!(shell.facts("preparation_planned").is_empty(), "{why}");
        assert!(!shell.state().has_work(), "{why}");
    }
}

#[test]
fn it_is_not_written_while_a_turn_of_the_branch_waits() {
    let mut shell = Shell::with(20);
    shell.accept(preparing(0));
    let lead = shell.dispatch(preparing(1)).remove(0);
    shell.finish(&lead, "the answer of the lead");
    assert!(shell.facts("preparation_planned").is_empty());
    let lead = shell.dispatched().remove(0);
    shell.finish(&lead, "the answer of the lead");
    assert_eq!(
        shell.facts("compacted").len(),
        1,
        "the turn did it by itself"
    );
}

#[test]
fn it_is_dropped_with_a_reason_if_something_changed_meanwhile() {
    type Change = fn(&mut Shell) -> NewTurn;
    let pin_in_range: Change = |shell| {
        shell.feed(pin(message_id(4), true)).unwrap();
        preparing(1)
    };
    let newer_pin: Change = |shell| {
        shell.feed(pin(input(0).id, true)).unwrap();
        preparing(1)
    };
    let summarisers: Change = |_| NewTurn {
        prepare: Some(Digest([2; 32])),
        ..preparing(1)
    };
    let own_settings: Change = |shell| {
        let changes = [("compaction.prompt".into(), Some("code".into()))].into();
        shell.feed(Input::Set { changes }).unwrap();
        preparing(1)
    };
    let policy: Change = |_| {
        let mut turn = preparing(1);
        turn.policy.target = unisono_context::Ppm::percent(70);
        turn
    };
    let room: Change = |_| {
        let long = "word ".repeat(900);
        let input = NewMessage::text(input(1).id, Role::User, long, Default::default());
        NewTurn {
            work: answering(input),
            ..preparing(1)
        }
    };
    let rows = [
        ("a pin in the range", pin_in_range, Some(DropReason::Range)),
        ("a pin after the range", newer_pin, None),
        ("other summarisers", summarisers, Some(DropReason::Settings)),
        ("own settings", own_settings, Some(DropReason::Settings)),
        ("another policy", policy, Some(DropReason::Settings)),
        ("a long input", room, Some(DropReason::Room)),
    ];
    for (what, change, expected) in rows {
        let mut shell = prepared();
        let next = change(&mut shell);
        answer(&mut shell, next);
        assert_eq!(*shell.outcome(1), Outcome::Answered, "{what}");
        assert_eq!(drops(&shell), Vec::from_iter(expected.clone()), "{what}");
        let made = shell.facts("compacted");
        assert_eq!(made.len(), 1, "{what}: the turn compacts in any case");
        let used = matches!(made[0], Fact::Compacted { checkpoint, .. }
            if checkpoint.id == ids::prepared(turn_id(0)));
        assert_eq!(used, expected.is_none(), "{what}");
    }
}

#[test]
fn an_edited_summary_or_a_requested_compaction_drops_it() {
    // The range contains the summary of an earlier compaction.
    let mut shell = Shell::with(20);
    shell.begin(manual(0));
    let made = shell.state().checkpoints().iter().next().unwrap().id;
    let low = |n| NewTurn {
        policy: compacting(n, team(agent("lead"), []), 60).policy,
        ..preparing(n)
    };
    answer(&mut shell, low(1));
    let job = ahead(&mut shell);
    assert_eq!(job.prior.len(), 1, "it reads the earlier summary");
    shell.write(&job, summary(15, &Encoding::ALL));
    shell.begin(NewTurn {
        work: Work::Edit {
            checkpoint: made,
            text: "## Context\nanother text".into(),
            counts: summary(15, &Encoding::ALL).counts,
        },
        ..low(2)
    });
    assert_eq!(shell.outcome(2).name(), "compacted");
    answer(&mut shell, low(3));
    assert_eq!(drops(&shell), [DropReason::Range]);

    let mut shell = prepared();
    shell.begin(manual(1));
    assert_eq!(drops(&shell), [DropReason::Replaced]);
    assert!(
        shell.state().preparation("main").is_none(),
        "a new one may follow"
    );
}

#[test]
fn a_turn_waits_for_the_summary_that_is_being_written() {
    let mut shell = near();
    let job = ahead(&mut shell);
    shell.begin(preparing(1));
    assert!(shell.facts("compaction_planned").is_empty(), "it waits");
    shell.write(&job, summary(20, &Encoding::ALL));
    let lead = shell.dispatched().remove(0);
    shell.finish(&lead, "done");
    assert_eq!(shell.facts("compacted").len(), 1);
    assert!(drops(&shell).is_empty());
}

#[test]
fn a_turn_compacts_by_itself_if_the_summary_is_not_written() {
    for (busy, stays) in [(false, true), (true, false)] {
        let mut shell = near();
        let job = ahead(&mut shell);
        shell.begin(preparing(1));
        let reason = "the model is out of reach";
        shell.fail_step(&job, reason, busy);
        let expected = match busy {
            true => DropReason::Busy,
            false => DropReason::Failed(reason.into()),
        };
        assert_eq!(drops(&shell), [expected]);
        assert_eq!(shell.state().preparation("main").is_some(), stays);
        let lead = shell.dispatched().remove(0);
        shell.finish(&lead, "done");
        assert_eq!(shell.facts("compacted").len(), 1);
    }
}

#[test]
fn an_unacceptable_summary_is_refused() {
    let good = || summary(20, &Encoding::ALL);
    let rows = [
        ("too long", summary(5_000, &Encoding::ALL)),
        (
            "empty",
            WrittenSummary {
                body: Body::Summary(" ".into()),
                ..good()
            },
        ),
        (
            "quotes",
            WrittenSummary {
                writer: Writer::Deterministic,
                ..good()
            },
        ),
    ];
    for (what, written) in rows {
        let mut shell = near();
        let job = ahead(&mut shell);
        shell.write(&job, written);
        assert!(
            matches!(drops(&shell)[..], [DropReason::Failed(_)]),
            "{what}: {:?}",
            drops(&shell)
        );
    }
}

#[test]
fn a_dropped_summary_is_not_written_again_before_the_next_checkpoint() {
    let mut shell = near();
    let job = ahead(&mut shell);
    shell.fail_step(&job, "refused", false);
    // This turn does not compact yet.
    let far = NewTurn {
        policy: compacting(1, team(agent("lead"), []), 1_000).policy,
        ..preparing(1)
    };
    answer(&mut shell, far);
    assert_eq!(shell.facts("preparation_planned").len(), 1);
    answer(&mut shell, preparing(2));
    assert_eq!(shell.facts("compacted").len(), 1);
    assert!(shell.state().preparation("main").is_none());
}

#[test]
fn a_crash_leads_to_one_more_request_and_a_record_of_the_lost_one() {
    // Killed while a model writes it.
    let mut shell = near().recovered();
    assert_eq!(drops(&shell), [DropReason::Interrupted]);
    let ahead = |effect: &Effect| matches!(effect, Effect::Compact(_));
    assert!(
        !shell.waiting.iter().any(ahead),
        "it is not requested again"
    );
    let again = shell.recovered();
    assert_eq!(drops(&again), [DropReason::Interrupted], "recorded once");
    shell = again;
    answer(&mut shell, preparing(1));
    assert_eq!(shell.facts("compacted").len(), 1, "the turn requests it");

    // Killed after it was written: at each event of the turn that uses it.
    let mut whole = prepared();
    answer(&mut whole, preparing(1));
    for cut in whole.first("summary_prepared") + 1..whole.journal.len() {
        let mut shell = Shell::with(1);
        shell.journal = whole.journal[..cut].to_vec();
        let mut shell = shell.recovered();
        if shell.state().turn(turn_id(1)).is_none()
            && shell.state().ended_turn(turn_id(1)).is_none()
        {
            shell.accept(preparing(1));
        }
        for lead in shell.dispatched() {
            shell.finish(&lead, "the answer of the lead");
        }
        assert_eq!(*shell.outcome(1), Outcome::Answered, "{cut}");
        let made = shell.facts("compacted");
        assert_eq!(made.len(), 1, "{cut}");
        assert!(drops(&shell).is_empty(), "{cut}");
    }
}

#[test]
fn its_calls_are_reserved_in_the_sessions_budget() {
    let capped = || {
        let mut turn = preparing(0);
        turn.caps.session.tokens = Some(Tokens(1_000));
        turn
    };
    let ask = |tokens| ReservationRequest {
        tokens: Tokens(tokens),
        cost: None,
        ..reservation(1, Amount::ZERO)
    };
    let mut shell = Shell::with(20);
    answer(&mut shell, capped());
    let job = ahead(&mut shell);
    assert!(job.bounded);
    let account = ids::summaries(job.turn);
    let reserve = |shell: &mut Shell, tokens| {
        let (run, attempt, ask) = (account, job.step, ask(tokens));
        shell.feed(Input::Reserve { run, attempt, ask }).unwrap();
        shell.state().budget().reserved(run, 1).is_some()
    };
    assert!(!reserve(&mut shell, 1_001), "more than the session has");
    assert!(reserve(&mut shell, 600));
    let used = |shell: &Shell| shell.state().session_use();
    assert_eq!(used(&shell).in_use.tokens, Tokens(600));
    shell
        .feed(Input::SummariserUsed {
            turn: job.turn,
            model: "fake".into(),
            usage: Usage::free(Tokens(300), Tokens(20)),
        })
        .unwrap();
    shell.write(&job, summary(20, &Encoding::ALL));
    assert_eq!(
        used(&shell).in_use.tokens,
        Tokens(320),
        "it is charged once"
    );
    let PreparationStatus::Ready(_) = shell.state().preparation("main").unwrap().status else {
        panic!("it is ready");
    };

    // A crash during the call: the worst case is charged.
    let mut shell = Shell::with(20);
    answer(&mut shell, capped());
    assert!(reserve(&mut shell, 600));
    let shell = shell.recovered();
    assert_eq!(used(&shell).in_use.tokens, Tokens(600));
    assert_eq!(used(&shell).spent.tokens, Tokens(600));
}
