//! Cancelling one run, and the history in the journal.

use unisono_session::event::Outcome;
use unisono_session::run::{Ending, RunCause};
use unisono_session::trace::RunStatus;
use unisono_session::{Input, Refusal, Replay, ids};

use crate::rounds::*;
use crate::shell::*;

#[test]
fn a_cancelled_delegate_is_stopped_and_the_turn_goes_on_without_it() {
    let mut shell = Shell::with(4);
    let delegates = shell.dispatch(turn(0, team(agent("lead"), agents(&["facts", "risks"]))));
    let run = delegates[0].run;
    shell.feed(Input::CancelRun { run }).unwrap();
    assert_eq!(shell.cancelled(), [run], "whoever works on it is told");
    assert_eq!(
        shell.feed(Input::CancelRun { run }),
        Err(Refusal::UnknownRun(run)),
        "once"
    );
    shell.finish(&delegates[1], "the risks");
    let lead = shell.dispatched().remove(0);
    let endings: Vec<bool> = lead
        .results
        .iter()
        .map(|result| *result.ending == Ending::Cancelled)
        .collect();
    assert_eq!(endings, [true, false]);
    shell.finish(&lead, "the answer");
    assert_eq!(*shell.outcome(0), Outcome::Answered);
}

#[test]
fn cancelling_a_run_cancels_its_children_and_cancelling_the_lead_the_turn() {
    let (mut shell, lead) = started_lead(agents(&["facts", "risks"]));
    delegate(
        &mut shell,
        &lead,
        1,
        &[call("risks", "weigh"), call("facts", "list")],
    );
    let children = shell.dispatched();
    shell
        .feed(Input::CancelRun {
            run: children[0].run,
        })
        .unwrap();
    assert!(
        shell.state().turn(turn_id(0)).is_some(),
        "the lead waits for the other one"
    );
    let waiting = shell.trace();
    let status = |run| waiting.run(run).unwrap().status();
    let statuses = [lead.run, children[0].run, children[1].run].map(status);
    let expected = [RunStatus::Waiting, RunStatus::Cancelled, RunStatus::Running];
    assert_eq!(statuses, expected);
    shell.feed(Input::CancelRun { run: lead.run }).unwrap();
    let mut cancelled = shell.cancelled();
    cancelled.sort();
    let mut all = vec![lead.run, children[0].run, children[1].run];
    all.sort();
    assert_eq!(cancelled, all);
    assert_eq!(*shell.outcome(0), Outcome::Cancelled);
}

#[test]
fn a_trace_keeps_ended_turns_and_runs() {
    let mut shell = Shell::with(4);
    let delegates = shell.dispatch(turn(0, team(agent("lead"), agents(&["facts", "risks"]))));
    shell.finish(&delegates[0], "the facts");
    shell.fail(&delegates[1], RunCause::BadInput);
    let lead = shell.dispatched().remove(0);
    assert_eq!(
        shell.trace().run(lead.run).unwrap().status(),
        RunStatus::Running
    );
    shell.finish(&lead, "the answer");

    let trace = shell.trace();
    assert_eq!(trace.turns().count(), 1);
    let runs: Vec<(RunStatus, String)> = trace
        .runs()
        .map(|(id, run)| {
            (
                run.status(),
                trace.task(id).unwrap_or_default().to_string() + run.opened.1.agent.as_str(),
            )
        })
        .collect();
    let task = "what is left to do?";
    let expected = [
        (RunStatus::Done, "facts"),
        (RunStatus::Failed, "risks"),
        (RunStatus::Done, "lead"),
    ];
    assert_eq!(
        runs,
        expected.map(|(status, agent)| (status, format!("{task}{agent}")))
    );
    let traced = trace.turn(turn_id(0)).unwrap();
    let seqs = [
        Some(traced.accepted.0.seq),
        traced.started.map(|moment| moment.seq),
        traced.frozen.map(|(moment, _)| moment.seq),
        trace.run(lead.run).map(|run| run.opened.0.seq),
        traced.ended.as_ref().map(|(moment, _)| moment.seq),
    ];
    assert!(seqs.is_sorted() && seqs[0].is_some(), "{seqs:?}");
    let (last, fact) = (
        traced.ended.as_ref().unwrap().0.seq,
        shell.journal.last().unwrap(),
    );
    assert_eq!(
        (last, fact.fact.name()),
        (shell.journal.len() as u64, "turn_ended")
    );
}

#[test]
fn ended_turns_keep_the_order_of_their_acceptance_although_the_clock_was_set_back() {
    let mut shell = Shell::with(4);
    for n in [1, 0] {
        let lead = shell.dispatch(turn(n, team(agent("lead"), []))).remove(0);
        shell.finish(&lead, "the answer");
    }
    let ended = shell.state().ended_turns().map(|(id, _)| id);
    assert!(ended.eq([turn_id(1), turn_id(0)]));
    assert_eq!(*shell.outcome(0), Outcome::Answered);
}

#[test]
fn a_replay_gives_each_run_its_original_assignment() {
    let mut shell = Shell::with(4);
    let delegates = shell.dispatch(turn(0, team(agent("lead"), agents(&["facts", "risks"]))));
    shell.finish(&delegates[1], "the risks");
    shell.finish(&delegates[0], "the facts");
    let lead = shell.dispatched().remove(0);
    shell.finish(&lead, "the answer");
    // A later turn changes nothing.
    let later = shell.dispatch(turn(1, team(agent("lead"), []))).remove(0);
    shell.finish(&later, "more");

    let mut replay = Replay::new(turn_id(0));
    let more: Vec<bool> = shell
        .journal
        .iter()
        .map_while(|event| replay.take(event).ok().filter(|more| *more))
        .collect();
    assert_eq!(more.len() as u64, replay.events());
    assert_eq!(replay.outcome(), Some(&Outcome::Answered));
    assert_eq!(replay.snapshot_error(), None);
    for was in [&delegates[0], &delegates[1], &lead] {
        let now = replay.assignment(was.run).unwrap();
        assert_eq!(
            (
                now.task,
                now.results,
                now.sibling_index,
                now.headroom,
                now.prefix,
                now.role
            ),
            (
                was.task.clone(),
                was.results.clone(),
                was.sibling_index,
                was.headroom,
                was.prefix,
                was.role
            )
        );
        let id = |assignment: &unisono_session::assignment::RunAssignment| {
            assignment.snapshot.as_ref().map(|s| s.id())
        };
        assert_eq!(now.snapshot.map(|s| s.id()), id(was));
    }
    assert_eq!(
        replay.runs().map(|run| run.id).collect::<Vec<_>>(),
        (0..3).map(|n| ids::run(turn_id(0), n)).collect::<Vec<_>>()
    );
    assert!(Replay::new(turn_id(9)).turn().is_none());
}
