//! Agents that delegate while they work: opened, refused, shown and cancelled runs, and the effect
//! of a restart.

use std::sync::Arc;

use unisono_session::agent::{ContextMode, Definition, OnFailure};
use unisono_session::assignment::RunAssignment;
use unisono_session::event::{DelegationLimits, Outcome, RunRole};
use unisono_session::machine::NewTurn;
use unisono_session::run::tail::Headroom;
use unisono_session::run::{self, DelegationStatus, Ending, NextAction, RunBounds, RunCause, Step};
use unisono_session::{Effect, Fact, Input, ids};

use crate::rounds::*;
use crate::shell::*;

#[test]
fn a_lead_delegates_in_rounds_and_answers_with_the_results() {
    let (mut shell, lead) = started_lead(agents(&["facts", "risks"]));
    let names: Vec<&str> = lead
        .colleagues
        .iter()
        .map(|agent| agent.id.as_str())
        .collect();
    assert_eq!(names, ["facts", "risks"]);
    assert_eq!(
        shell.state().delegation_status(lead.run, 1),
        DelegationStatus::Unknown
    );

    let calls = [call("risks", "weigh \"it\""), call("facts", "list them")];
    delegate(&mut shell, &lead, 1, &calls);
    let children = shell.dispatched();
    assert_eq!(
        children[0].role,
        RunRole::Child {
            parent: lead.run,
            round: 1,
            index: 0
        }
    );
    assert_eq!(children[0].run, ids::child(turn_id(0), lead.run, 1, 0));
    assert_eq!(&*children[1].task, "list them");
    let same = |child: &RunAssignment| {
        Arc::ptr_eq(
            child.snapshot.as_ref().unwrap(),
            lead.snapshot.as_ref().unwrap(),
        )
    };
    assert!(children.iter().all(same), "the snapshot the lead sees");
    assert!(
        children.iter().all(|child| child.colleagues.is_empty()),
        "one level"
    );
    shell.finish(&children[1], "the facts");
    assert_eq!(
        shell.state().delegation_status(lead.run, 1),
        DelegationStatus::InProgress
    );
    shell.finish(&children[0], "the risks");
    let expected = [
        ("the risks".to_owned(), false),
        ("the facts".to_owned(), false),
    ];
    assert_eq!(
        results(&shell, lead.run, 1),
        expected,
        "in the order of the calls"
    );
    let DelegationStatus::Ended(results_of_round) = shell.state().delegation_status(lead.run, 1)
    else {
        panic!("it has ended");
    };
    assert_eq!(
        &*results_of_round[0].call_id, "call-risks",
        "under the model's own ids"
    );
    shell.step(&lead, Step::Tools(results_of_round));

    delegate(&mut shell, &lead, 2, &[call("facts", "check the risks")]);
    let again = shell.dispatched().remove(0);
    shell.fail(&again, RunCause::BadInput);
    shell.finish(&lead, "the answer");
    assert_eq!(*shell.outcome(0), Outcome::Answered);
    insta::assert_snapshot!(shown(&shell, 7).join("\n"), @r#"
    user: what is left to do?
    assistant: round 1
    assistant: delegate_1_1 delegate {"agent":"risks","task":"weigh \"it\""}
    assistant: delegate_1_2 delegate {"agent":"facts","task":"list them"}
    tool: delegate_1_1 the risks false
    tool: delegate_1_2 the facts false
    assistant: round 2
    assistant: delegate_2_1 delegate {"agent":"facts","task":"check the risks"}
    tool: delegate_2_1 [failed: bad_input: it went wrong] true
    assistant: the answer
    "#);
    let after = shell.state().tree().len();
    let shell = shell.recovered();
    assert_eq!(shell.state().tree().len(), after);
}

/// A turn of a lead that may delegate to these agents, down to this level.
fn delegating(depth: u32, available: &[&str]) -> NewTurn {
    NewTurn {
        delegation: DelegationLimits {
            depth,
            ..Default::default()
        },
        ..turn(0, with(team(agent("lead"), []), agents(available)))
    }
}

/// The messages of a fan-out of two: one with its own task, one without.
fn fanned_out() -> Shell {
    let mut fan_out = team(agent("lead"), [agent("facts"), agent("risks")]);
    fan_out.delegates[1].task = Some("weigh them".into());
    let mut shell = Shell::with(2);
    shell.accept(turn(0, fan_out));
    for assignment in shell.dispatched() {
        shell.finish(&assignment, "found");
    }
    shell
}

#[test]
fn a_fan_out_call_has_a_task_only_if_it_differs_from_the_input() {
    let shell = fanned_out();
    insta::assert_snapshot!(shown(&shell, 4).join("\n"), @r#"
    user: what is left to do?
    assistant: delegate_1 delegate {"agent":"facts"}
    assistant: delegate_2 delegate {"agent":"risks","task":"weigh them"}
    tool: delegate_1 found false
    tool: delegate_2 found false
    "#);
}

#[test]
fn a_fan_out_call_with_the_input_as_its_task_names_only_the_agent() {
    let mut fan_out = team(agent("lead"), [agent("facts"), agent("risks")]);
    fan_out.delegates[0].task = Some("what is left to do?".into());
    fan_out.delegates[1].task = Some(" what is left to do?\n".into());
    let mut shell = Shell::with(2);
    shell.accept(turn(0, fan_out));
    for assignment in shell.dispatched() {
        assert_eq!(&*assignment.task, "what is left to do?");
        shell.finish(&assignment, "found");
    }
    insta::assert_snapshot!(shown(&shell, 4).join("\n"), @r#"
    user: what is left to do?
    assistant: delegate_1 delegate {"agent":"facts"}
    assistant: delegate_2 delegate {"agent":"risks"}
    tool: delegate_1 found false
    tool: delegate_2 found false
    "#);
}

#[test]
fn an_old_turn_keeps_the_input_in_its_calls() {
    let mut shell = fanned_out();
    for event in &mut shell.journal {
        if let Fact::TurnAccepted { turn } = &mut event.fact {
            turn.short_calls = false;
        }
    }
    let shell = shell.recovered();
    insta::assert_snapshot!(shown(&shell, 4).join("\n"), @r#"
    user: what is left to do?
    assistant: delegate_1 delegate {"agent":"facts","task":"what is left to do?"}
    assistant: delegate_2 delegate {"agent":"risks","task":"weigh them"}
    tool: delegate_1 found false
    tool: delegate_2 found false
    "#);
}

#[test]
fn refused_tasks_are_reported_to_the_model() {
    let accepted = NewTurn {
        delegation: DelegationLimits {
            live_runs: 3,
            ..DelegationLimits::default()
        },
        ..turn(
            0,
            with(team(agent("lead"), []), agents(&["facts", "risks", "lead"])),
        )
    };
    let (mut shell, lead) = started(accepted);
    let calls = [
        call("fact", "list them"),
        call("facts", " \n"),
        call("lead", "think"),
        call("facts", "list them"),
        call("risks", "weigh them"),
        call("risks", "weigh them again"),
    ];
    delegate(&mut shell, &lead, 1, &calls);
    let children = shell.dispatched();
    assert_eq!(children.len(), 2);
    for child in &children {
        shell.finish(child, "done");
    }
    let results_of_round: Vec<String> = results(&shell, lead.run, 1)
        .into_iter()
        .map(|(text, _)| text)
        .collect();
    insta::assert_snapshot!(results_of_round.join("\n"), @r"
    [refused: there is no agent `fact` to delegate to; there are: facts, risks]
    [refused: the task is empty: say what agent facts is to do]
    [refused: agent lead waits for the result of this task; give the task to another one]
    done
    done
    [refused: 3 runs are at work in this turn, and no more may be; try again later]
    ");
    let errors: Vec<bool> = results(&shell, lead.run, 1)
        .iter()
        .map(|(_, error)| *error)
        .collect();
    assert_eq!(errors, [true, true, true, false, false, true]);

    delegate(&mut shell, &lead, 2, &[call("ghost", "appear")]);
    assert_eq!(results(&shell, lead.run, 2).len(), 1, "nothing to wait for");
    assert!(shell.dispatched().is_empty());
    let shell = shell.recovered();
    assert_eq!(
        results(&shell, lead.run, 1)[5].0,
        results_of_round[5],
        "the verdict stays"
    );
}

#[test]
fn levels_below_the_lead_are_bounded() {
    let available = ["facts", "risks"];
    let of = |depth| NewTurn {
        team: with(team(agent("lead"), [agent("first")]), agents(&available)),
        ..delegating(depth, &available)
    };
    let (mut shell, lead) = started(delegating(0, &available));
    assert!(lead.colleagues.is_empty());
    delegate(&mut shell, &lead, 1, &[call("facts", "list them")]);
    let nobody = "[refused: agent lead may not delegate: in this turn nobody may]";
    assert_eq!(results(&shell, lead.run, 1)[0].0, nobody);

    let (mut shell, delegate_of_config) = started(of(1));
    delegate(
        &mut shell,
        &delegate_of_config,
        1,
        &[call("facts", "list them")],
    );
    let deep = "[refused: agent first may not delegate: only down to level 1 below the lead is that allowed]";
    assert_eq!(results(&shell, delegate_of_config.run, 1)[0].0, deep);

    let (mut shell, first) = started(of(2));
    delegate(&mut shell, &first, 1, &[call("facts", "list them")]);
    let facts = shell.dispatched().remove(0);
    assert!(facts.colleagues.is_empty());
    shell.finish(&facts, "the facts");
    shell.finish(&first, "first");
    let lead = shell.dispatched().remove(0);
    assert_eq!(lead.results.len(), 1, "only the fan-out's");
    delegate(&mut shell, &lead, 1, &[call("facts", "list them")]);
    let facts = shell.dispatched().remove(0);
    let names: Vec<&str> = facts
        .colleagues
        .iter()
        .map(|agent| agent.id.as_str())
        .collect();
    assert_eq!(names, ["risks"], "not itself");
    delegate(
        &mut shell,
        &facts,
        1,
        &[call("facts", "again"), call("risks", "weigh them")],
    );
    let risks = shell.dispatched().remove(0);
    shell.finish(&risks, "the risks");
    let results_of_round = results(&shell, facts.run, 1);
    assert_eq!(
        results_of_round[0].0,
        "[refused: agent facts waits for the result of this task; give the task to another one]"
    );
    assert_eq!(results_of_round[1].0, "the risks");
    let calls = shown(&shell, 1);
    assert!(
        calls.len() == 2 && calls[1].contains("\"list them\""),
        "only the lead's own are on the branch: {calls:?}"
    );
}

#[test]
fn a_run_cannot_delegate_to_its_waiting_ancestors() {
    let available = ["facts", "risks", "lead", "dates"];
    let (mut shell, lead) = started(delegating(4, &available));
    delegate(&mut shell, &lead, 1, &[call("facts", "list them")]);
    let facts = shell.dispatched().remove(0);
    delegate(&mut shell, &facts, 1, &[call("risks", "weigh them")]);
    let risks = shell.dispatched().remove(0);
    let names = risks.colleagues.iter().map(|agent| agent.id.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["dates"]);
    // Both would close a circle: one that leads to its origin, and a smaller one.
    let calls = [
        call("lead", "what now?"),
        call("facts", "which?"),
        call("dates", "when?"),
    ];
    delegate(&mut shell, &risks, 1, &calls);
    let dates = shell.dispatched();
    assert_eq!(dates.len(), 1);
    shell.finish(&dates[0], "on Friday");
    let results_of_round = results(&shell, risks.run, 1);
    let waits = |agent: &str| {
        format!(
            "[refused: agent {agent} waits for the result of this task; give the task to another \
             one]"
        )
    };
    let expected = [waits("lead"), waits("facts"), "on Friday".to_owned()];
    assert_eq!(
        results_of_round
            .iter()
            .map(|(text, _)| text)
            .collect::<Vec<_>>(),
        expected.iter().collect::<Vec<_>>()
    );
    for assignment in [&risks, &facts, &lead] {
        shell.finish(assignment, "done");
    }
    assert_eq!(*shell.outcome(0), Outcome::Answered);
}

#[test]
fn a_failed_child_ends_the_turn_only_if_its_definition_says_so() {
    for (on_failure, goes_on) in [(OnFailure::Continue, true), (OnFailure::Fail, false)] {
        let facts = Definition {
            on_failure,
            ..agent("facts")
        };
        let (mut shell, lead) = started_lead([facts, agent("risks")]);
        delegate(
            &mut shell,
            &lead,
            1,
            &[call("facts", "list"), call("risks", "weigh")],
        );
        let children = shell.dispatched();
        shell.fail(&children[0], RunCause::Exit);
        if goes_on {
            shell.finish(&children[1], "the risks");
            let results_of_round = results(&shell, lead.run, 1);
            assert_eq!(
                results_of_round[0],
                ("[failed: exit_failure: it went wrong]".to_owned(), true)
            );
        } else {
            let reason = "agent facts failed: exit_failure: it went wrong";
            assert_eq!(shell.failure(0), ("delegate_failed", reason));
            let mut cancelled = shell.cancelled();
            cancelled.sort();
            let mut expected = [lead.run, children[1].run];
            expected.sort();
            assert_eq!(cancelled, expected);
        }
    }
}

#[test]
fn a_child_is_retried_according_to_its_definition() {
    let (mut shell, lead) = started_lead([retried("facts")]);
    delegate(&mut shell, &lead, 1, &[call("facts", "list")]);
    let first = shell.dispatched().remove(0);
    shell.fail(&first, RunCause::Timeout);
    assert_eq!(
        shell.state().delegation_status(lead.run, 1),
        DelegationStatus::InProgress
    );
    shell.tick(30_000);
    let second = shell.dispatched().remove(0);
    assert_eq!((second.run, second.attempt), (first.run, 2));
    assert_eq!(&*second.task, "list");
    shell.finish(&second, "the facts");
    assert_eq!(results(&shell, lead.run, 1)[0].0, "the facts");
}

#[test]
fn another_attempt_of_the_lead_finds_its_existing_children() {
    let team = with(team(retried("lead"), []), agents(&["facts", "risks"]));
    let (mut shell, first) = started(turn(0, team));
    let calls = [call("facts", "list"), call("risks", "weigh")];
    delegate(&mut shell, &first, 1, &calls);
    let children = shell.dispatched();
    shell.finish(&children[0], "the facts");
    shell.fail(&first, RunCause::Panic);
    assert!(shell.cancelled().is_empty(), "they go on");
    shell.tick(30_000);
    let second = shell.dispatched().remove(0);
    let bounds = RunBounds {
        max_model_calls: 4,
        room: Headroom::UNBOUNDED,
    };
    let NextAction::CallTools(reply) = run::next_action(&second.steps, &[], bounds) else {
        panic!("the reply is recorded");
    };
    assert_eq!(reply.calls.len(), 2);
    let events = shell.journal.len();
    ask(&mut shell, &second, 1, &calls);
    ask(&mut shell, &first, 2, &calls);
    assert_eq!(
        shell.journal.len(),
        events,
        "the same round, and a late worker"
    );
    shell.finish(&children[1], "the risks");
    assert_eq!(results(&shell, second.run, 1)[1].0, "the risks");
}

#[test]
fn the_end_of_a_run_cancels_its_descendants() {
    let deep = || {
        let (mut shell, lead) = started(delegating(2, &["facts", "risks"]));
        delegate(&mut shell, &lead, 1, &[call("facts", "list")]);
        let child = shell.dispatched().remove(0);
        delegate(&mut shell, &child, 1, &[call("risks", "weigh")]);
        let grandchild = shell.dispatched().remove(0);
        (shell, lead, child, grandchild)
    };
    type End = fn(&mut Shell, &RunAssignment);
    let cases: [(&str, End); 3] = [
        ("the lead finishes", |shell, lead| {
            shell.finish(lead, "the answer")
        }),
        ("the lead fails", |shell, lead| {
            shell.fail(lead, RunCause::BadInput)
        }),
        ("the turn is cancelled", |shell, _| {
            shell.feed(Input::Cancel { turn: turn_id(0) }).unwrap();
        }),
    ];
    for (name, end) in cases {
        let (mut shell, lead, child, grandchild) = deep();
        end(&mut shell, &lead);
        assert!(shell.state().ended_turn(turn_id(0)).is_some(), "{name}");
        for run in [&child, &grandchild] {
            assert_eq!(ended_as(&shell, run.run), Ending::Cancelled, "{name}");
            assert!(shell.cancelled().contains(&run.run), "{name}");
        }
        let last = shown(&shell, 2);
        assert!(
            last.iter()
                .any(|line| line == "tool: delegate_1_1 [cancelled] true"),
            "{name}: {last:?}"
        );
    }
    let (mut shell, lead, child, grandchild) = deep();
    shell.finish(&child, "the facts, as far as they go");
    assert_eq!(ended_as(&shell, grandchild.run), Ending::Cancelled);
    assert_eq!(
        results(&shell, lead.run, 1)[0].0,
        "the facts, as far as they go"
    );
    assert_eq!(shell.cancelled(), [grandchild.run]);
    let results_of_round = shown(&shell, 2);
    shell.finish(&grandchild, "late");
    assert_eq!(
        shell.facts("late_output_received").len(),
        1,
        "a late answer is kept"
    );
    assert_eq!(shown(&shell, 2), results_of_round, "and changes nothing");
}

#[test]
fn a_restart_at_any_event_ends_with_the_same_branch() {
    let play = |mut shell: Shell| {
        // Every worker does the same after every restart.
        while let Some(at) = {
            shell.prepare();
            shell
                .waiting
                .iter()
                .position(|effect| matches!(effect, Effect::Dispatch(_)))
        } {
            let Effect::Dispatch(assignment) = shell.waiting.remove(at) else {
                unreachable!();
            };
            match assignment.role {
                RunRole::Child { index, .. } => shell.finish(&assignment, &format!("part {index}")),
                _ => {
                    let calls = [
                        call("facts", "list"),
                        call("ghost", "appear"),
                        call("risks", "weigh"),
                    ];
                    if assignment.steps.is_empty() {
                        delegate(&mut shell, &assignment, 1, &calls);
                    } else {
                        ask(&mut shell, &assignment, 1, &calls);
                    }
                    if shell.state().delegation_status(assignment.run, 1)
                        == DelegationStatus::InProgress
                    {
                        shell.waiting.push(Effect::Dispatch(assignment));
                    } else {
                        shell.finish(&assignment, "the answer");
                    }
                }
            }
        }
        shell
    };
    let mut shell = Shell::with(2);
    shell.accept(turn(
        0,
        with(team(agent("lead"), []), agents(&["facts", "risks"])),
    ));
    let whole = play(shell);
    assert_eq!(*whole.outcome(0), Outcome::Answered);
    let messages = |shell: &Shell| -> Vec<_> {
        shell
            .state()
            .tree()
            .iter()
            .map(|node| (node.message.id, node.message.parts.clone()))
            .collect()
    };
    let accepted = whole.first("turn_accepted");
    for kept in accepted + 1..=whole.journal.len() {
        let mut cut = Shell::with(0);
        cut.journal = whole.journal[..kept].to_vec();
        cut.now = whole.now;
        let again = play(cut.recovered());
        assert_eq!(messages(&again), messages(&whole), "cut at {kept}");
        let opened = |shell: &Shell| shell.facts("run_opened").len();
        assert_eq!(opened(&again), opened(&whole), "cut at {kept}");
    }
}

#[test]
fn an_agent_that_gets_the_task_only_sees_no_snapshot() {
    let loner = Definition {
        context: ContextMode::TaskOnly,
        ..agent("loner")
    };
    let (mut shell, lead) = started_lead([loner]);
    delegate(&mut shell, &lead, 1, &[call("loner", "think")]);
    let child = shell.dispatched().remove(0);
    assert!(child.snapshot.is_none());
    assert_eq!(&*child.task, "think");
}
