//! Fan-out, results, retries, cancellation, and the effects of a restart on them: T4 to T7.

use std::sync::Arc;

use unisono_context::Timestamp;
use unisono_session::agent::{ContextMode, Definition, OnFailure};
use unisono_session::assignment::RunAssignment;
use unisono_session::event::{LateOutput, Outcome};
use unisono_session::machine::AttemptEnd;
use unisono_session::run::{Ending, Reply, RunCause, Step, Usage};
use unisono_session::{Effect, Fact, Input, Outbox};

use crate::shell::*;

fn fan_out(agents: usize) -> Shell {
    let mut shell = Shell::with(2);
    let delegates = (0..agents).map(|n| agent(&format!("agent-{n}")));
    shell.accept(turn(0, team(agent("lead"), delegates)));
    shell
}

#[test]
fn results_come_in_the_order_of_the_fan_out() {
    let mut shell = fan_out(3);
    let briefs = shell.dispatched();
    let names: Vec<&str> = briefs.iter().map(|b| b.definition.id.as_str()).collect();
    assert_eq!(names, ["agent-0", "agent-1", "agent-2"], "started in order");
    for index in [2, 0, 1] {
        shell.finish(&briefs[index], &format!("result {index}"));
    }
    let lead = shell.dispatched().remove(0);
    assert_eq!(result_texts(&shell), ["result 0", "result 1", "result 2"]);
    let results = lead.results.iter().map(|result| match &*result.ending {
        Ending::Finished { text, .. } => text.to_string(),
        other => panic!("{other:?}"),
    });
    assert!(results.eq(result_texts(&shell)));
    shell.finish(&lead, "the answer");
    assert_eq!(*shell.outcome(0), Outcome::Answered);
    let answer = shell.state().ended_turn(turn_id(0)).unwrap().answer;
    assert_eq!(answer, shell.state().tree().head("main"));
}

#[test]
fn an_end_is_batched_until_no_awaited_sibling_is_left() {
    let mut shell = fan_out(3);
    let briefs = shell.dispatched();
    let gathers = |shell: &mut Shell, assignment: &RunAssignment, end: AttemptEnd| {
        let (run, attempt) = (assignment.run, assignment.attempt);
        let ended = Input::RunEnded { run, attempt, end };
        let reaction = shell.machine.handle(ended, shell.now).unwrap();
        let gathers = reaction.can_be_batched(shell.state());
        shell.absorb(reaction);
        gathers
    };
    let failed = || AttemptEnd::failed(RunCause::BadInput, "it went wrong");
    assert!(gathers(&mut shell, &briefs[0], failed()));
    assert!(!gathers(&mut shell, &briefs[0], failed()), "late: no event");
    assert!(gathers(&mut shell, &briefs[1], failed()));
    assert!(
        !gathers(&mut shell, &briefs[2], failed()),
        "the lead is next"
    );
    let lead = shell.dispatched().remove(0);
    assert!(!gathers(&mut shell, &lead, failed()), "the turn has ended");
}

#[test]
fn a_failed_delegate_ends_the_turn_only_if_its_definition_says_so() {
    for (on_failure, goes_on) in [(OnFailure::Continue, true), (OnFailure::Fail, false)] {
        let mut shell = Shell::with(2);
        let first = Definition {
            on_failure,
            ..agent("first")
        };
        let briefs = shell.dispatch(turn(0, team(agent("lead"), [first, agent("second")])));
        shell.fail(&briefs[0], RunCause::BadInput);
        if goes_on {
            shell.finish(&briefs[1], "result");
            let lead = shell.dispatched().remove(0);
            assert_eq!(lead.results.len(), 2, "the lead is told of it");
            assert_eq!(
                result_texts(&shell),
                ["[failed: bad_input: it went wrong]", "result"]
            );
        } else {
            assert_eq!(shell.failure(0).0, "delegate_failed");
            assert_eq!(shell.cancelled(), [briefs[1].run], "only what still worked");
        }
    }
}

#[test]
fn a_lead_that_fails_ends_the_turn() {
    let mut shell = fan_out(0);
    let lead = shell.dispatched().remove(0);
    shell.fail(&lead, RunCause::Model);
    assert_eq!(shell.failure(0).0, "lead_failed");
}

#[test]
fn another_attempt_waits_and_an_early_tick_requests_a_new_wake() {
    let mut shell = Shell::with(2);
    let first = shell.dispatch(turn(0, team(retried("lead"), []))).remove(0);
    let step = Step::named("look", "1");
    for _ in 0..2 {
        shell.step(&first, step.clone());
    }
    assert_eq!(
        shell.facts("run_stepped").len(),
        1,
        "a named step is recorded once"
    );
    shell.fail(&first, RunCause::Panic);
    let [Effect::Wake(at)] = shell.waiting[..] else {
        panic!("{:?}", shell.waiting);
    };
    assert!(at > shell.now && at <= shell.now.plus_ms(500));
    shell.feed(Input::Tick).unwrap();
    assert!(matches!(shell.waiting[..], [_, Effect::Wake(again)] if again == at));
    shell.now = at;
    shell.feed(Input::Tick).unwrap();
    let second = shell.dispatched().remove(0);
    assert_eq!((second.run, second.attempt), (first.run, 2));
    assert_eq!(second.steps, [step.into()]);
    shell.finish(&first, "late");
    assert!(
        shell.state().turn(turn_id(0)).is_some(),
        "a late answer changes nothing"
    );
    shell.fail(&second, RunCause::Panic);
    assert_eq!(shell.failure(0).0, "lead_failed");
}

#[test]
fn an_input_its_context_and_its_runs_can_be_written_together() {
    let mut shell = Shell::with(2);
    let mut next = Input::Accept(Box::new(turn(0, team(agent("lead"), []))));
    let mut computed = 0;
    let opened = loop {
        let reaction = shell.machine.handle(next, shell.now).unwrap();
        next = match &reaction.effects[..] {
            [Effect::Count(request)] => count(request),
            [Effect::Render(request)] => render(request),
            _ => break reaction,
        };
        assert!(reaction.starts_computation(), "{reaction:?}");
        computed += 1;
    };
    assert_eq!(computed, 2, "counted and rendered");
    assert!(matches!(opened.effects[..], [Effect::Dispatch(_)]));
    assert!(
        !opened.starts_computation(),
        "what starts a run waits for nothing"
    );
}

#[test]
fn a_provider_in_a_cool_down_is_awaited() {
    let minutes = |n: u64| n * 60_000;
    // The requested wait, the time limit of an attempt, and the wait before the backoff.
    for (wait_ms, timeout_ms, waited) in [
        (Some(7_000), minutes(1), 7_000),
        (Some(minutes(5)), minutes(1), minutes(1)),
        (Some(minutes(5)), minutes(10), minutes(2)),
        (None, minutes(1), 0),
    ] {
        let mut shell = Shell::with(2);
        let lead = Definition {
            timeout_ms,
            ..retried("lead")
        };
        let first = shell.dispatch(turn(0, team(lead, []))).remove(0);
        let end = AttemptEnd::Failed {
            cause: RunCause::Unavailable,
            reason: "the circuit is open".into(),
            wait_ms,
            text: None,
        };
        shell.end(&first, end);
        let [Effect::Wake(at)] = shell.waiting[..] else {
            panic!("{:?}", shell.waiting);
        };
        let earliest = shell.now.plus_ms(waited as i64);
        assert!(at >= earliest && at <= earliest.plus_ms(500), "{wait_ms:?}");
        shell.now = at;
        shell.feed(Input::Tick).unwrap();
        assert_eq!(shell.dispatched()[0].attempt, 2, "{wait_ms:?}");
    }
}

#[test]
fn what_was_said_in_the_last_attempt_is_kept_with_its_failure() {
    let mut shell = Shell::with(2);
    shell.accept(turn(0, team(retried("lead"), [])));
    for said in ["The move", "The move is on"] {
        let attempt = shell.dispatched().remove(0);
        let end = AttemptEnd::Failed {
            cause: RunCause::Unavailable,
            reason: "the stream broke".into(),
            wait_ms: None,
            text: Some(said.into()),
        };
        shell.end(&attempt, end);
        if let [Effect::Wake(at)] = shell.waiting[..] {
            shell.now = at;
            shell.feed(Input::Tick).unwrap();
        }
    }
    let [Fact::RunEnded { ending, .. }] = shell.facts("run_ended")[..] else {
        panic!("it ends once");
    };
    let Ending::Failed { text, .. } = &**ending else {
        panic!("{ending:?}");
    };
    assert_eq!(text.as_deref(), Some("The move is on"));
}

#[test]
fn each_cause_has_its_policy_and_every_run_ends_in_a_recorded_state() {
    // Whether an attempt with this failure is followed by another one, after a pause.
    let table = [
        (RunCause::Panic, true),
        (RunCause::Timeout, true),
        (RunCause::Stuck, true),
        (RunCause::Exit, true),
        (RunCause::BadOutput, true),
        (RunCause::Model, true),
        (RunCause::Busy, true),
        (RunCause::Unavailable, true),
        (RunCause::Spawn, false),
        (RunCause::BadInput, false),
        (RunCause::SnapshotMismatch, false),
        (RunCause::Rejected, false),
        (RunCause::Overflow, false),
        (RunCause::Refused, false),
        (RunCause::Budget, false),
    ];
    assert!(
        RunCause::ALL
            .iter()
            .all(|of| table.iter().any(|row| row.0 == *of))
    );
    for (cause, again) in table {
        let mut shell = Shell::with(2);
        let first = shell.dispatch(turn(0, team(retried("lead"), []))).remove(0);
        shell.fail(&first, cause);
        let code = cause.code();
        if again {
            let [Effect::Wake(at)] = shell.waiting[..] else {
                panic!("{code}: {:?}", shell.waiting);
            };
            let pause = at.ms_since(shell.now);
            assert!((0..=500).contains(&pause), "{code}: {pause} ms");
            shell.now = at;
            shell.feed(Input::Tick).unwrap();
            let second = shell.dispatched().remove(0);
            assert_eq!((second.run, second.attempt), (first.run, 2), "{code}");
            shell.fail(&second, cause);
        }
        assert_eq!(
            shell.facts("run_retried").len(),
            usize::from(again),
            "{code}"
        );
        let [Fact::RunEnded { ending, .. }] = shell.facts("run_ended")[..] else {
            panic!("{code}: it ends once");
        };
        let recorded = matches!(&**ending, Ending::Failed { cause: of, .. } if *of == cause);
        assert!(recorded, "{code}: {ending:?}");
        assert!(shell.state().turn(turn_id(0)).is_none(), "{code}");
        assert_eq!(shell.failure(0).0, "lead_failed");
    }
}

#[test]
fn a_clock_set_back_neither_stops_nor_stalls_a_run() {
    let mut shell = fan_out(2);
    let briefs = shell.dispatched();
    shell.now = Timestamp(-1_000_000);
    shell.finish(&briefs[1], "result");
    shell.feed(Input::Tick).unwrap();
    assert!(shell.waiting.is_empty(), "{:?}", shell.waiting);
    let mut shell = shell.recovered();
    assert_eq!(shell.dispatched()[0].run, briefs[0].run);

    let mut shell = Shell::with(2);
    let first = shell.dispatch(turn(0, team(retried("lead"), []))).remove(0);
    shell.fail(&first, RunCause::Panic);
    shell.tick(-3_600_000);
    assert_eq!(
        shell.dispatched()[0].attempt,
        2,
        "an hour is not waited for"
    );
}

#[test]
fn cancelling_ends_every_run_and_notifies_its_worker() {
    let mut shell = fan_out(3);
    let briefs = shell.dispatched();
    shell.finish(&briefs[1], "result 1");
    shell.feed(Input::Cancel { turn: turn_id(0) }).unwrap();
    assert_eq!(*shell.outcome(0), Outcome::Cancelled);
    let mut cancelled = shell.cancelled();
    cancelled.sort();
    let mut open = [briefs[0].run, briefs[2].run];
    open.sort();
    assert_eq!(cancelled, open);
    assert_eq!(shell.facts("run_ended").len(), 3);
    assert_eq!(
        result_texts(&shell),
        ["[cancelled]", "result 1", "[cancelled]"]
    );
}

#[test]
fn late_output_of_a_cancelled_run_is_kept_once_and_not_delivered() {
    let mut shell = fan_out(2);
    let briefs = shell.dispatched();
    shell.feed(Input::Cancel { turn: turn_id(0) }).unwrap();
    let before = result_texts(&shell);
    let (run, attempt) = (briefs[0].run, briefs[0].attempt);
    let reply = Reply {
        text: "nearly there".into(),
        ..Reply::default()
    };
    let step = |step: Step| Input::RunStepped {
        run,
        attempt,
        step: step.into(),
    };
    shell.feed(step(Step::Model(reply.clone()))).unwrap();
    let (name, result): (Arc<str>, Arc<str>) = ("report".into(), "{}".into());
    let report = Step::named(name.clone(), result.clone());
    shell.feed(step(report)).unwrap();
    shell.feed(step(Step::Tools(Vec::new()))).unwrap();
    for _ in 0..2 {
        shell.finish(&briefs[0], "late");
        shell.fail(&briefs[1], RunCause::Timeout);
        shell.finish(&briefs[1], "later than its end");
    }
    let late = shell.facts("late_output_received");
    let of = |late| Fact::LateOutputReceived { run, attempt, late };
    let answer = LateOutput::Answer {
        text: "late".into(),
        partial: None,
        usage: Usage::default(),
    };
    let report = LateOutput::Named { name, result };
    let all = [LateOutput::Reply(reply), report, answer].map(of);
    assert_eq!(late, all.iter().collect::<Vec<_>>());
    assert_eq!(result_texts(&shell), before);
    assert_eq!(*shell.outcome(0), Outcome::Cancelled);
    assert_eq!(shell.facts("run_ended").len(), 2);
    let shell = shell.recovered();
    assert_eq!(*shell.outcome(0), Outcome::Cancelled, "it folds");
}

#[test]
fn the_beginning_of_a_reply_is_kept_if_its_run_is_cancelled() {
    let mut shell = fan_out(2);
    let briefs = shell.dispatched();
    shell.feed(Input::Cancel { turn: turn_id(0) }).unwrap();
    for (brief, said) in [(&briefs[0], Some("The move is")), (&briefs[1], None)] {
        let end = || AttemptEnd::Failed {
            cause: RunCause::Timeout,
            reason: "cancelled".into(),
            wait_ms: None,
            text: said.map(Into::into),
        };
        shell.end(brief, end());
        shell.end(brief, end());
    }
    let late = LateOutput::Incomplete {
        text: "The move is".into(),
    };
    let (run, attempt) = (briefs[0].run, briefs[0].attempt);
    let kept = Fact::LateOutputReceived { run, attempt, late };
    assert_eq!(shell.facts("late_output_received"), [&kept]);
    assert_eq!(
        *shell.recovered().outcome(0),
        Outcome::Cancelled,
        "it folds"
    );
}

#[test]
fn a_fan_out_cancelled_while_it_is_opened_leaves_no_call_unanswered() {
    let mut shell = fan_out(3);
    shell.prepare();
    let opened = shell.first("run_opened");
    shell.journal.truncate(opened + 1);
    let mut shell = shell.recovered();
    shell.feed(Input::Cancel { turn: turn_id(0) }).unwrap();
    assert_eq!(result_texts(&shell), ["[cancelled]"; 3]);
    shell.accept(turn(1, team(agent("lead"), [agent("a")])));
    assert_eq!(shell.dispatched().len(), 1);
}

#[test]
fn a_missing_prompt_fails_the_turn_once() {
    for prefixes in [Ok(Default::default()), Err("an attachment is lost".into())] {
        let mut shell = fan_out(3);
        while let Some(effect) = shell.waiting.pop() {
            let input = match effect {
                Effect::Count(request) => count(&request),
                Effect::Render(request) => Input::Rendered {
                    turn: request.turn,
                    prefixes: prefixes.clone(),
                },
                other => panic!("{other:?}"),
            };
            shell.feed(input).unwrap();
        }
        assert_eq!(shell.failure(0).0, "render_failed");
        assert!(shell.facts("run_opened").is_empty());
    }
}

#[test]
fn an_agent_that_gets_the_task_only_sees_no_snapshot() {
    let mut shell = Shell::with(2);
    let loner = Definition {
        context: ContextMode::TaskOnly,
        ..agent("loner")
    };
    let briefs = shell.dispatch(turn(0, team(agent("lead"), [loner, agent("other")])));
    assert!(briefs[0].snapshot.is_none() && briefs[1].snapshot.is_some());
    assert_eq!(&*briefs[0].task, "what is left to do?");
    let opened = shell
        .facts("run_opened")
        .into_iter()
        .map(|fact| match fact {
            Fact::RunOpened { run } => run.snapshot.is_some(),
            _ => false,
        });
    assert!(opened.eq([false, true]));
}

#[test]
fn each_definition_is_rendered_once() {
    let mut shell = Shell::with(2);
    let same = || agent("same");
    shell.accept(turn(0, team(same(), [same(), agent("other"), same()])));
    let Some(Effect::Count(request)) = shell.waiting.pop() else {
        panic!("nothing to count");
    };
    shell.feed(count(&request)).unwrap();
    let Some(Effect::Render(request)) = shell.waiting.pop() else {
        panic!("nothing to render");
    };
    let names = request.definitions.iter().map(|(_, d)| d.id.as_str());
    assert!(names.eq(["same", "other"]));
}

#[test]
fn a_snapshot_that_cannot_be_rebuilt_fails_its_turn_and_no_other() {
    let mut shell = fan_out(2);
    let briefs = shell.dispatched();
    shell.accept(turn(1, team(agent("lead"), [])));
    for event in &mut shell.journal {
        if let Fact::Frozen { manifest, .. } = &mut event.fact {
            manifest.spans[0].first = manifest.spans[0].first.next();
        }
    }
    let mut shell = shell.recovered();
    assert_eq!(shell.failure(0).0, "snapshot_mismatch");
    let cancelled = |fact: &&Fact| matches!(fact, Fact::RunEnded { ending, .. } if **ending == Ending::Cancelled);
    assert_eq!(
        shell
            .facts("run_ended")
            .iter()
            .copied()
            .filter(cancelled)
            .count(),
        briefs.len()
    );
    let next = shell.dispatched();
    assert_eq!(next[0].turn, turn_id(1), "the branch goes on");
}

#[test]
fn a_thousand_delegates_are_supported() {
    let mut shell = fan_out(1_000);
    let briefs: Vec<RunAssignment> = shell.dispatched();
    assert_eq!(briefs.len(), 1_000);
    for assignment in briefs.iter().rev() {
        shell.finish(assignment, "result");
    }
    let lead = shell.dispatched().remove(0);
    assert_eq!(lead.results.len(), 1_000);
    shell.finish(&lead, "the answer");
    let shell = shell.recovered();
    assert_eq!(*shell.outcome(0), Outcome::Answered);
    assert_eq!(result_texts(&shell).len(), 1_000);
}

#[test]
fn the_outbox_holds_effects_until_their_intent_is_durable() {
    let mut shell = fan_out(2);
    shell.prepare();
    let (first, second) = match &shell.waiting[..] {
        [Effect::Dispatch(first), Effect::Dispatch(second)] => (first.run, second.run),
        other => panic!("{other:?}"),
    };
    let mut outbox = Outbox::new(10);
    let wake = Effect::Wake(Timestamp(5));
    let mut effects = std::mem::take(&mut shell.waiting);
    effects.push(wake);
    let now = outbox.put(12, effects);
    assert!(
        matches!(now[..], [Effect::Wake(_)]),
        "what only computes may go"
    );
    assert!(outbox.committed(11).is_empty());
    assert!(outbox.put(13, vec![Effect::CancelRun(first)]).is_empty());
    let ready = outbox.committed(12);
    assert!(matches!(&ready[..], [Effect::Dispatch(assignment)] if assignment.run == second));
    let cancelled = outbox.put(13, vec![Effect::CancelRun(second)]);
    assert!(
        matches!(cancelled[..], [Effect::CancelRun(_)]),
        "it was started"
    );
    assert_eq!(outbox.durable(), 12);
    assert_eq!(outbox.put(12, ready).len(), 1, "nothing to wait for");
}
