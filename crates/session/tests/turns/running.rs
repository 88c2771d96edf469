//! Fan-out, results, retries, cancellation and what a restart does to them: T4 to T7.

use unisono_context::Timestamp;
use unisono_context::message::Part;
use unisono_session::agent::{ContextMode, Definition, OnFailure};
use unisono_session::assignment::RunAssignment;
use unisono_session::event::{Late, Outcome};
use unisono_session::machine::AttemptEnd;
use unisono_session::run::{Cause, Ending, Reply, Step, Usage};
use unisono_session::{Effect, Fact, Input, Outbox};

use crate::shell::*;

fn fan_out(agents: usize) -> Shell {
    let mut shell = Shell::with(2);
    let delegates = (0..agents).map(|n| agent(&format!("agent-{n}")));
    shell.accept(turn(0, team(agent("lead"), delegates)));
    shell
}

/// The texts of the results that the branch holds.
fn delivered(shell: &Shell) -> Vec<String> {
    let nodes = shell.state().tree().iter();
    let parts = nodes.flat_map(|node| node.message.parts.clone());
    let results = parts.filter_map(|part| match part {
        Part::ToolResult { content, .. } => Some(content.to_string()),
        _ => None,
    });
    results.collect()
}

fn failed_with(shell: &Shell, expected: &str) {
    match shell.outcome(0) {
        Outcome::Failed { code, .. } => assert_eq!(&**code, expected),
        other => panic!("{other}"),
    }
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
    assert_eq!(delivered(&shell), ["result 0", "result 1", "result 2"]);
    let told = lead.results.iter().map(|result| match &*result.ending {
        Ending::Finished { text, .. } => text.to_string(),
        other => panic!("{other:?}"),
    });
    assert!(told.eq(delivered(&shell)));
    shell.finish(&lead, "the answer");
    assert_eq!(*shell.outcome(0), Outcome::Answered);
    let answer = shell.state().ended(turn_id(0)).unwrap().answer;
    assert_eq!(answer, shell.state().tree().head("main"));
}

#[test]
fn an_end_gathers_until_nobody_is_left_who_is_waited_for_with_it() {
    let mut shell = fan_out(3);
    let briefs = shell.dispatched();
    let gathers = |shell: &mut Shell, assignment: &RunAssignment, end: AttemptEnd| {
        let (run, attempt) = (assignment.run, assignment.attempt);
        let ended = Input::RunEnded { run, attempt, end };
        let reaction = shell.machine.handle(ended, shell.now).unwrap();
        let gathers = reaction.gathers(shell.state());
        shell.absorb(reaction);
        gathers
    };
    let failed = || AttemptEnd::failed(Cause::BadInput, "it went wrong");
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
fn a_delegate_that_fails_ends_the_turn_only_where_it_is_to() {
    for (on_failure, goes_on) in [(OnFailure::Continue, true), (OnFailure::Fail, false)] {
        let mut shell = Shell::with(2);
        let first = Definition {
            on_failure,
            ..agent("first")
        };
        shell.accept(turn(0, team(agent("lead"), [first, agent("second")])));
        let briefs = shell.dispatched();
        shell.fail(&briefs[0], Cause::BadInput);
        if goes_on {
            shell.finish(&briefs[1], "result");
            let lead = shell.dispatched().remove(0);
            assert_eq!(lead.results.len(), 2, "the lead is told of it");
            assert_eq!(
                delivered(&shell),
                ["[failed: bad_input: it went wrong]", "result"]
            );
        } else {
            failed_with(&shell, "delegate_failed");
            assert_eq!(shell.cancelled(), [briefs[1].run], "only what still worked");
        }
    }
}

#[test]
fn a_lead_that_fails_ends_the_turn() {
    let mut shell = fan_out(0);
    let lead = shell.dispatched().remove(0);
    shell.fail(&lead, Cause::Model);
    failed_with(&shell, "lead_failed");
}

#[test]
fn another_attempt_waits_and_an_early_tick_asks_again() {
    let mut shell = Shell::with(2);
    let lead = Definition {
        retries: 1,
        ..agent("lead")
    };
    shell.accept(turn(0, team(lead, [])));
    let first = shell.dispatched().remove(0);
    let step = Step::Named {
        name: "look".into(),
        result: "1".into(),
    };
    for _ in 0..2 {
        let (run, attempt) = (first.run, first.attempt);
        let step = step.clone().into();
        shell
            .feed(Input::RunStepped { run, attempt, step })
            .unwrap();
    }
    assert_eq!(
        shell.facts("run_stepped").len(),
        1,
        "a named step is recorded once"
    );
    shell.fail(&first, Cause::Panic);
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
    shell.fail(&second, Cause::Panic);
    failed_with(&shell, "lead_failed");
}

#[test]
fn an_input_its_context_and_its_runs_can_go_to_the_disk_at_once() {
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
        assert!(reaction.computes(), "{reaction:?}");
        computed += 1;
    };
    assert_eq!(computed, 2, "counted and rendered");
    assert!(matches!(opened.effects[..], [Effect::Dispatch(_)]));
    assert!(!opened.computes(), "what starts a run waits for nothing");
}

#[test]
fn a_provider_that_is_left_alone_is_waited_for() {
    let minutes = |n: u64| n * 60_000;
    // What is to be waited, how long an attempt may take, and what is waited before the backoff.
    for (wait_ms, timeout_ms, waited) in [
        (Some(7_000), minutes(1), 7_000),
        (Some(minutes(5)), minutes(1), minutes(1)),
        (Some(minutes(5)), minutes(10), minutes(2)),
        (None, minutes(1), 0),
    ] {
        let mut shell = Shell::with(2);
        let lead = Definition {
            retries: 1,
            timeout_ms,
            ..agent("lead")
        };
        shell.accept(turn(0, team(lead, [])));
        let first = shell.dispatched().remove(0);
        let end = AttemptEnd::Failed {
            cause: Cause::Unavailable,
            reason: "the circuit is open".into(),
            wait_ms,
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
fn each_cause_has_its_policy_and_every_run_ends_in_a_recorded_state() {
    // Whether an attempt that failed so is followed by another one, after a pause.
    let table = [
        (Cause::Panic, true),
        (Cause::Timeout, true),
        (Cause::Stuck, true),
        (Cause::Exit, true),
        (Cause::BadOutput, true),
        (Cause::Model, true),
        (Cause::Busy, true),
        (Cause::Unavailable, true),
        (Cause::Spawn, false),
        (Cause::BadInput, false),
        (Cause::SnapshotMismatch, false),
        (Cause::Rejected, false),
        (Cause::Overflow, false),
        (Cause::Refused, false),
        (Cause::Budget, false),
    ];
    assert!(
        Cause::ALL
            .iter()
            .all(|of| table.iter().any(|row| row.0 == *of))
    );
    for (cause, again) in table {
        let mut shell = Shell::with(2);
        let lead = Definition {
            retries: 1,
            ..agent("lead")
        };
        shell.accept(turn(0, team(lead, [])));
        let first = shell.dispatched().remove(0);
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
        failed_with(&shell, "lead_failed");
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
    let lead = Definition {
        retries: 1,
        ..agent("lead")
    };
    shell.accept(turn(0, team(lead, [])));
    let first = shell.dispatched().remove(0);
    shell.fail(&first, Cause::Panic);
    shell.now = shell.now.plus_ms(-3_600_000);
    shell.feed(Input::Tick).unwrap();
    assert_eq!(
        shell.dispatched()[0].attempt,
        2,
        "an hour is not waited for"
    );
}

#[test]
fn cancelling_ends_every_run_and_tells_its_worker() {
    let mut shell = fan_out(3);
    let briefs = shell.dispatched();
    shell.finish(&briefs[1], "result 1");
    shell.feed(Input::Cancel { turn: turn_id(0) }).unwrap();
    assert_eq!(*shell.outcome(0), Outcome::Cancelled);
    let mut told = shell.cancelled();
    told.sort();
    let mut open = [briefs[0].run, briefs[2].run];
    open.sort();
    assert_eq!(told, open);
    assert_eq!(shell.facts("run_ended").len(), 3);
    assert_eq!(
        delivered(&shell),
        ["[cancelled]", "result 1", "[cancelled]"]
    );
}

#[test]
fn what_comes_late_of_a_cancelled_run_is_kept_once_and_delivered_to_nobody() {
    let mut shell = fan_out(2);
    let briefs = shell.dispatched();
    shell.feed(Input::Cancel { turn: turn_id(0) }).unwrap();
    let before = delivered(&shell);
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
    shell.feed(step(Step::Tools(Vec::new()))).unwrap();
    for _ in 0..2 {
        shell.finish(&briefs[0], "late");
        shell.fail(&briefs[1], Cause::Timeout);
        shell.finish(&briefs[1], "later than its end");
    }
    let late = shell.facts("came_late");
    let of = |late| Fact::CameLate { run, attempt, late };
    let answer = Late::Answer {
        text: "late".into(),
        partial: None,
        usage: Usage::default(),
    };
    assert_eq!(late, [&of(Late::Reply(reply)), &of(answer)]);
    assert_eq!(delivered(&shell), before);
    assert_eq!(*shell.outcome(0), Outcome::Cancelled);
    assert_eq!(shell.facts("run_ended").len(), 2);
    let shell = shell.recovered();
    assert_eq!(*shell.outcome(0), Outcome::Cancelled, "it folds");
}

#[test]
fn a_fan_out_cancelled_while_it_is_opened_leaves_no_call_unanswered() {
    let mut shell = fan_out(3);
    shell.prepare();
    let opened = shell
        .journal
        .iter()
        .position(|e| e.fact.name() == "run_opened")
        .unwrap();
    shell.journal.truncate(opened + 1);
    let mut shell = shell.recovered();
    shell.feed(Input::Cancel { turn: turn_id(0) }).unwrap();
    assert_eq!(delivered(&shell), ["[cancelled]"; 3]);
    shell.accept(turn(1, team(agent("lead"), [agent("a")])));
    assert_eq!(shell.dispatched().len(), 1);
}

#[test]
fn a_prompt_that_was_not_rendered_fails_the_turn_once() {
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
        failed_with(&shell, "render_failed");
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
    shell.accept(turn(0, team(agent("lead"), [loner, agent("other")])));
    let briefs = shell.dispatched();
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
    failed_with(&shell, "snapshot_mismatch");
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
fn a_thousand_delegates_are_fine() {
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
    assert_eq!(delivered(&shell).len(), 1_000);
}

#[test]
fn the_outbox_holds_back_what_needs_its_intent_on_disk() {
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
