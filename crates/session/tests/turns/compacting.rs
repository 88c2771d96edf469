//! Counting, compacting, freezing: T1 to T3.

use unisono_context::checkpoint::{Body, Kind};
use unisono_context::compaction::ContextPart;
use unisono_context::message::Role;
use unisono_context::tokens::Counts;
use unisono_context::{Encoding, Tokens};
use unisono_session::agent::{ContextMode, Definition, OnFailure};
use unisono_session::event::{Outcome, RunRole, SummaryOptions, Work};
use unisono_session::machine::{NewTurn, StepResult};
use unisono_session::run::{Ending, Reply, RunCause, Step, ToolCall, ToolResult};
use unisono_session::{Effect, Fact, Input, ids};

use crate::rounds::*;
use crate::shell::*;

fn small(window: u64, encoding: Encoding) -> Definition {
    sized("small", window, encoding)
}

#[test]
fn an_overflow_fails_with_the_numbers_before_any_model_call() {
    let mut shell = Shell::with(6);
    let long = unisono_context::message::NewMessage::text(
        input(0).id,
        Role::User,
        "word ".repeat(2_000),
        shell.now,
    );
    shell.begin(NewTurn {
        work: answering(long),
        ..compacting(0, team(agent("lead"), [agent("a")]), 60)
    });
    let (code, reason) = shell.failure(0);
    assert_eq!(code, "context_overflow");
    for number in ["2504", "1626", "2000"] {
        assert!(reason.contains(number), "{number} in {reason}");
    }
    assert!(shell.waiting.is_empty(), "nothing was dispatched");
    assert!(shell.facts("compaction_planned").is_empty());
}

#[test]
fn the_smallest_agent_that_holds_the_required_part_determines_the_budget() {
    let tokens = |delegate: Definition| {
        let mut shell = Shell::with(20);
        shell.begin(compacting(0, team(agent("lead"), [delegate]), 10_000));
        let snapshot = shell.state().snapshot(turn_id(0)).unwrap();
        let said = snapshot.blocks().len() + snapshot.entries().len();
        (said, shell.facts("run_ended").len())
    };
    assert_eq!(tokens(agent("a")), (21, 0));
    let (said, refused) = tokens(small(300, Encoding::O200kBase));
    assert!(said < 21, "{said} fit it");
    assert_eq!(refused, 0);
    let too_small = small(160, Encoding::O200kBase);
    assert_eq!(tokens(too_small.clone()), (21, 1), "it has no say");
    let task_only = Definition {
        context: ContextMode::TaskOnly,
        ..too_small
    };
    assert_eq!(
        tokens(task_only),
        (21, 0),
        "one that does not get it has none"
    );
}

/// Without compaction, the context does not fit this agent.
fn too_small() -> Definition {
    small(300, Encoding::O200kBase)
}

#[test]
fn an_agent_that_is_too_small_is_refused_by_name_and_the_others_continue() {
    let mut shell = Shell::with(20);
    let briefs = shell.dispatch(turn(0, team(agent("lead"), [too_small(), agent("a")])));
    let names: Vec<&str> = briefs.iter().map(|b| b.definition.id.as_str()).collect();
    assert_eq!(names, ["a"]);
    let open = shell.state().turn(turn_id(0)).unwrap();
    assert_eq!(
        shell.state().sharing_agents(open),
        2,
        "the lead and one other"
    );
    let refused = shell.state().turn(turn_id(0)).unwrap().runs[0];
    assert_eq!(shell.state().run(refused).unwrap().snapshot, None);
    let Ending::Failed { cause, reason, .. } = ended_as(&shell, refused) else {
        panic!("it is refused");
    };
    assert_eq!(cause, RunCause::Overflow);
    insta::assert_snapshot!(reason, @r#"the context has 248 tokens for it, and 74 of the 300 of model fake/model are left for the context: give it a model with a larger window, or `context = "task_only"`"#);
    let mut shell = shell.recovered();
    let again = shell.dispatched();
    assert_eq!(again.len(), 1, "it stays refused");
    shell.finish(&again[0], "done");
    let lead = shell.dispatched().remove(0);
    let result = &lead.results[0];
    assert_eq!(result.agent.as_str(), "small");
    assert!(matches!(*result.ending, Ending::Failed { .. }));
    shell.finish(&lead, "the answer");
    assert_eq!(*shell.outcome(0), Outcome::Answered);
}

#[test]
fn the_turn_fails_with_an_agent_whose_failure_is_fatal_and_names_it() {
    let fatal = Definition {
        on_failure: OnFailure::Fail,
        ..too_small()
    };
    let mut shell = Shell::with(20);
    shell.accept(turn(
        0,
        team(agent("lead"), [agent("a"), fatal, agent("b")]),
    ));
    assert!(shell.dispatched().is_empty(), "nobody is asked");
    let (code, reason) = shell.failure(0);
    assert_eq!(code, "delegate_failed");
    assert!(reason.starts_with("agent small failed: context_overflow: the context has"));
    assert_eq!(shell.facts("run_opened").len(), 2, "none after it");
}

#[test]
fn an_agent_that_is_too_small_is_hidden_from_the_lead_and_refused_with_a_reason() {
    let mut shell = Shell::with(20);
    let team = with(team(agent("lead"), []), [too_small(), agent("facts")]);
    let lead = shell.dispatch(turn(0, team)).remove(0);
    let names: Vec<&str> = lead.colleagues.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(names, ["facts"]);
    delegate(&mut shell, &lead, 1, &[call("small", "list them")]);
    let (text, is_error) = results(&shell, lead.run, 1).remove(0);
    assert!(is_error);
    assert!(
        text.contains("agent small cannot be asked in this turn: the context has"),
        "{text}"
    );
}

#[test]
fn a_lead_that_is_too_small_fails_the_turn_by_name() {
    let mut shell = Shell::with(20);
    shell.begin(turn(0, team(too_small(), [agent("a")])));
    let (code, reason) = shell.failure(0);
    assert_eq!(code, "context_overflow");
    assert!(
        reason.starts_with("agent small, model fake/model: context overflow"),
        "{reason}"
    );
}

#[test]
fn two_encodings_are_counted_and_both_budgets_kept() {
    let mut shell = Shell::with(12);
    let other = small(400, Encoding::Cl100kBase);
    shell.accept(compacting(0, team(agent("lead"), [other]), 10_000));
    let counts = shell
        .waiting
        .iter()
        .filter(|e| matches!(e, Effect::Count(_)));
    assert_eq!(counts.count(), 2);
    shell.prepare();
    let turn = shell.state().turn(turn_id(0)).unwrap();
    let head = shell.state().snapshot(turn_id(0)).unwrap().manifest().head;
    let view = shell.state().view(head, true).unwrap();
    let budgets = shell.state().required_budgets(turn, &view).unwrap();
    assert_eq!(budgets.iter().count(), 2);
    for budget in budgets.iter() {
        assert!(view.effective(budget).unwrap().at_most <= budget.usable);
    }
}

#[test]
fn a_summary_without_a_count_in_some_encoding_never_blocks_a_later_turn() {
    let mut shell = Shell::with(12);
    shell.accept(compacting(0, team(agent("lead"), []), 60));
    let job = shell.job();
    assert_eq!(job.encodings, Encoding::ALL);
    shell.write(&job, summary(20, &[Encoding::O200kBase]));
    let lead = shell.dispatched().remove(0);
    shell.finish(&lead, "done");
    let other = small(2_000, Encoding::Cl100kBase);
    shell.accept(compacting(1, team(other, []), 10_000));
    assert_eq!(shell.dispatched().len(), 1);
    let checkpoint = shell.state().checkpoints().iter().next().unwrap();
    assert!(
        checkpoint
            .counts
            .get(Encoding::Cl100kBase)
            .unwrap()
            .is_approximate()
    );
}

#[test]
fn a_step_that_does_not_fit_its_plan_is_a_failure() {
    let mut shell = Shell::with(12);
    shell.accept(compacting(0, team(agent("lead"), []), 60));
    let job = shell.job();
    let blank = unisono_session::machine::WrittenSummary {
        body: Body::Summary(" ".into()),
        ..summary(5, &job.encodings)
    };
    let results = [
        (
            StepResult::Altered(Vec::new()),
            "the result does not fit the step",
        ),
        (StepResult::Written(blank), "the summary is empty"),
    ];
    for (result, expected) in results {
        let (turn, step) = (job.turn, job.step);
        shell.feed(Input::StepDone { turn, step, result }).unwrap();
        let Some(Fact::CompactionFailed { reason, .. }) = shell.journal.last().map(|e| &e.fact)
        else {
            panic!("not a failure");
        };
        assert_eq!(&**reason, expected);
    }
    let next = shell.job();
    assert_eq!(
        (next.step, next.failures),
        (1, 1),
        "asked for again each time"
    );
    assert_eq!(shell.job().failures, 2);
}

#[test]
fn an_automatic_compaction_that_keeps_failing_leaves_a_note_and_continues() {
    let mut shell = Shell::with(12);
    shell.accept(compacting(0, team(agent("lead"), []), 60));
    for failures in 0..3 {
        let job = shell.job();
        assert_eq!(job.failures, failures);
        shell.write(&job, summary(5_000, &job.encodings));
    }
    assert_eq!(shell.facts("compaction_failed").len(), 3);
    let checkpoint = shell.state().checkpoints().iter().next().unwrap();
    assert_eq!(checkpoint.body, Body::Tombstone);
    assert!(checkpoint.degraded);
    assert_eq!(shell.dispatched().len(), 1, "the turn goes on");
}

#[test]
fn a_failed_compaction_on_request_commits_nothing() {
    let mut shell = Shell::with(12);
    shell.accept(manual(0));
    for _ in 0..3 {
        let job = shell.job();
        assert_eq!(job.writing.instructions.as_deref(), Some("keep the names"));
        shell.fail_step(&job, "the model is down", true);
    }
    let failure = ("compaction_failed", "the model is down");
    assert_eq!(shell.failure(0), failure);
    assert!(shell.facts("compacted").is_empty() && shell.facts("altered").is_empty());
    assert!(shell.waiting.is_empty());
}

#[test]
fn a_step_that_cannot_succeed_is_not_retried() {
    let mut shell = Shell::with(12);
    shell.accept(manual(0));
    let job = shell.job();
    assert_eq!(job.kind, Kind::Manual);
    shell.fail_step(&job, "no key", false);
    assert_eq!(shell.failure(0), ("compaction_failed", "no key"));
    assert_eq!(shell.facts("compaction_failed").len(), 1);
    assert!(shell.facts("compacted").is_empty() && shell.waiting.is_empty());
}

#[test]
fn a_job_contains_the_model_and_the_alterations_of_its_conversation() {
    let mut shell = Shell::with(12);
    shell.accept(compacting(0, team(agent("lead"), []), 60));
    let job = shell.job();
    assert_eq!(job.kind, Kind::Auto);
    assert_eq!(job.model, agent("lead").model);
    assert!(job.alterations.is_empty());
}

#[test]
fn a_compaction_on_request_takes_a_short_conversation_too() {
    let mut shell = Shell::with(7);
    shell.begin(manual(0));
    let Outcome::Compacted { before, after } = *shell.outcome(0) else {
        panic!("{}", shell.outcome(0));
    };
    assert!(after < before, "{before} to {after}");
    let checkpoint = shell.state().checkpoints().iter().next().unwrap();
    assert_eq!(
        checkpoint.messages_included, 6,
        "all before the newest user message"
    );
    assert_eq!(checkpoint.kind, Kind::Manual);

    let mut shell = Shell::with(1);
    shell.begin(manual(0));
    assert!(matches!(shell.outcome(0), Outcome::Compacted { before, after } if before == after));
}

#[test]
fn cancelling_stops_the_compaction_and_its_late_result_changes_nothing() {
    let mut shell = Shell::with(12);
    shell.accept(compacting(0, team(agent("lead"), []), 60));
    let job = shell.job();
    shell.feed(Input::Cancel { turn: turn_id(0) }).unwrap();
    assert!(matches!(shell.waiting[..], [Effect::CancelCompaction(turn)] if turn == turn_id(0)));
    let events = shell.journal.len();
    shell.feed(compact(&job)).unwrap();
    assert_eq!(shell.journal.len(), events);
}

#[test]
fn missing_counts_are_requested_again() {
    let mut shell = Shell::with(12);
    shell.accept(turn(0, team(agent("lead"), [])));
    let Some(Effect::Count(mut request)) = shell.waiting.pop() else {
        panic!("nothing to count");
    };
    request.messages.truncate(5);
    shell.feed(count(&request)).unwrap();
    let Some(Effect::Count(rest)) = shell.waiting.last() else {
        panic!("nothing to count");
    };
    assert_eq!(rest.messages.len(), 8);
    assert!(rest.texts.is_empty());
    assert_eq!(shell.dispatched().len(), 1);
    let mut counts = shell.state().tree().iter().map(|node| node.counts);
    assert!(counts.all(|counts| counts != Counts::default()));
}

/// A turn whose agents call `compact`, the lead only if `asks`; returns the number of compactions
/// planned by its end.
fn turn_that_calls(shell: &mut Shell, n: u64, tools: &[&str], asks: bool) -> usize {
    let with_tools = |name: &str| Definition {
        tools: tools.iter().map(|tool| (*tool).into()).collect(),
        ..agent(name)
    };
    let team = team(with_tools("lead"), [with_tools("a")]);
    shell.accept(compacting(n, team, 100_000));
    while shell.state().ended_turn(turn_id(n)).is_none() {
        for run in shell.dispatched() {
            let reply = Reply {
                calls: vec![ToolCall::new("c", "compact", "{}")],
                ..Reply::default()
            };
            let is_lead = run.role == RunRole::Lead;
            if asks || !is_lead {
                let result = ToolResult::new("c", "asked", false);
                for step in [Step::Model(reply), Step::Tools(vec![result])] {
                    shell.step(&run, step);
                }
            }
            shell.finish(&run, "done");
        }
    }
    shell.facts("compaction_planned").len()
}

#[test]
fn a_requested_cut_reaches_all_large_messages() {
    // Each has nine tokens.
    let messages = 100;
    let mut shell = Shell::with(messages);
    let part = ContextPart::Large {
        over: Some(Tokens(8)),
    };
    let writing = SummaryOptions::default();
    shell.begin(NewTurn {
        work: Work::CompactPart { part, writing },
        ..manual(0)
    });
    let outcome = shell.outcome(0);
    assert!(matches!(outcome, Outcome::Compacted { .. }), "{outcome}");
    let cuts = shell.facts("compaction_planned").len();
    assert_eq!(cuts as u64, messages, "one step each");
}

#[test]
fn a_call_of_compact_that_was_not_made_requests_nothing() {
    let mut shell = Shell::with(20);
    for n in 0..2 {
        let lead = Definition {
            tools: vec!["compact".into()],
            ..agent("lead")
        };
        shell.accept(compacting(n, team(lead, []), 100_000));
        let run = shell.dispatched().remove(0);
        if n == 0 {
            let reply = Reply {
                calls: vec![ToolCall::new("c", "compact", "{}")],
                ..Reply::default()
            };
            let result = ToolResult::new("c", "[not made]", true);
            shell.step(&run, Step::Model(reply));
            shell.step(&run, Step::Tools(vec![result]));
        }
        shell.finish(&run, "done");
    }
    assert!(shell.facts("compaction_planned").is_empty());
}

#[test]
fn a_lead_requests_a_compaction_before_the_next_turn() {
    let mut shell = Shell::with(20);
    assert_eq!(turn_that_calls(&mut shell, 0, &["compact"], true), 0);
    let mut shell = shell.recovered();
    assert_eq!(
        turn_that_calls(&mut shell, 1, &["compact"], false),
        1,
        "once"
    );
    assert_eq!(turn_that_calls(&mut shell, 2, &["compact"], false), 1);
    // An agent without the tool requests nothing.
    assert_eq!(turn_that_calls(&mut shell, 3, &["recall"], true), 1);
    assert_eq!(turn_that_calls(&mut shell, 4, &["recall"], false), 1);
}

#[test]
fn an_edit_of_a_summary_leaves_a_requested_compaction() {
    let mut shell = Shell::with(20);
    shell.begin(manual(0));
    for n in 1..=5 {
        assert_eq!(turn_that_calls(&mut shell, n, &["compact"], n == 5), 1);
    }
    let work = Work::Edit {
        checkpoint: ids::checkpoint(turn_id(0), 1),
        text: "## Context\nin my words".into(),
        counts: summary(15, &Encoding::ALL).counts,
    };
    shell.begin(NewTurn {
        work,
        ..compacting(6, team(agent("lead"), []), 100_000)
    });
    assert_eq!(shell.outcome(6).name(), "compacted");
    assert_eq!(turn_that_calls(&mut shell, 7, &["compact"], false), 2);
}
