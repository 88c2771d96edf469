//! Tool calls: in order, once, and only with an approval if one is required.

use std::sync::Arc;

use unisono_context::{CallId, TurnId};
use unisono_session::assignment::{RunAssignment, ToolJob};
use unisono_session::event::Outcome;
use unisono_session::machine::NewCall;
use unisono_session::run::calls::{CallDecision, CallOutput, CallRoundStatus};
use unisono_session::run::{Reply, Step, ToolCall, ToolResult};
use unisono_session::tool::{ApprovalRule, Contract, ToolRules};
use unisono_session::turn::TIMED_OUT;
use unisono_session::{Effect, Fact, Input, Refusal};

use crate::shell::{Shell, agent, retried, team, turn, turn_id};

const HOUR: u64 = 3_600_000;

fn rules(approvals: &[&str]) -> Arc<ToolRules> {
    let contract = |(name, contract): (&str, Contract)| (name.into(), contract);
    let contracts = [
        ("files__read", Contract::Pure),
        ("files__put", Contract::Idempotent),
        ("files__send", Contract::AtMostOnce),
    ];
    let approvals = approvals
        .iter()
        .map(|text| ApprovalRule::parse(text).unwrap());
    Arc::new(ToolRules {
        contracts: contracts.into_iter().map(contract).collect(),
        approvals: approvals.collect(),
        approval_timeout_ms: Some(HOUR),
        hooks: Vec::new(),
    })
}

/// A lead whose model has called these tools, and its assignment.
fn calling(rules: Arc<ToolRules>, tools: &[&str]) -> (Shell, RunAssignment) {
    calling_within(None, rules, tools)
}

/// The same in a turn with a time limit.
fn calling_within(
    limit_ms: Option<u64>,
    rules: Arc<ToolRules>,
    tools: &[&str],
) -> (Shell, RunAssignment) {
    let mut shell = Shell::with(2);
    let mut accepted = turn(1, team(agent("lead"), []));
    accepted.rules = rules;
    accepted.caps.limit_ms = limit_ms;
    let assignment = shell.dispatch(accepted).remove(0);
    let calls = tools
        .iter()
        .enumerate()
        .map(|(n, tool)| ToolCall::new(format!("call-{n}"), *tool, "{}"));
    let reply = Reply {
        calls: calls.collect(),
        ..Reply::default()
    };
    shell.step(&assignment, Step::Model(reply));
    shell.feed(asked(&assignment, tools)).unwrap();
    (shell, assignment)
}

fn asked(assignment: &RunAssignment, tools: &[&str]) -> Input {
    let calls = tools.iter().enumerate().map(|(n, tool)| NewCall {
        call_id: format!("call-{n}").into(),
        tool: (*tool).into(),
        arguments: r#"{"path":"/etc/hosts"}"#.into(),
        fields: vec![("path".into(), "/etc/hosts".into())],
        permission: None,
    });
    Input::CallTools {
        run: assignment.run,
        attempt: assignment.attempt,
        round: 1,
        calls: calls.collect(),
    }
}

fn take_jobs(shell: &mut Shell) -> Vec<ToolJob> {
    shell.prepare();
    let mut jobs = Vec::new();
    for effect in std::mem::take(&mut shell.waiting) {
        match effect {
            Effect::CallTool(job) => jobs.push(*job),
            other => shell.waiting.push(other),
        }
    }
    jobs
}

fn tools(jobs: &[ToolJob]) -> Vec<&str> {
    jobs.iter().map(|job| &*job.tool).collect()
}

fn answer(shell: &mut Shell, job: &ToolJob, text: &str) {
    let output = CallOutput::text(text, false);
    let call = job.place;
    shell.feed(Input::ToolEnded { call, output }).unwrap();
}

fn decide(shell: &mut Shell, call: CallId, decision: CallDecision) -> Result<(), Refusal> {
    shell.feed(Input::Decide {
        call,
        decision,
        by: None,
    })
}

fn results(shell: &Shell, assignment: &RunAssignment) -> Vec<(String, bool)> {
    match shell.state().call_round_status(assignment.run, 1) {
        CallRoundStatus::Ended(results) => results
            .into_iter()
            .map(|result| (result.content.to_string(), result.is_error))
            .collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_with_effects_are_made_in_order_and_pure_ones_at_once() {
    let names = ["files__send", "files__read", "files__put", "files__read"];
    let (mut shell, assignment) = calling(rules(&[]), &names);
    let first = take_jobs(&mut shell);
    assert_eq!(tools(&first), ["files__send", "files__read", "files__read"]);
    assert_eq!(
        shell.state().call_round_status(assignment.run, 1),
        CallRoundStatus::InProgress { held: false }
    );
    answer(&mut shell, &first[1], "read");
    assert!(take_jobs(&mut shell).is_empty(), "the second effect waits");
    answer(&mut shell, &first[0], "sent");
    answer(&mut shell, &first[0], "sent again");
    let second = take_jobs(&mut shell);
    assert_eq!(tools(&second), ["files__put"]);
    answer(&mut shell, &second[0], "put");
    answer(&mut shell, &first[2], "read too");
    let expected = ["sent", "read", "put", "read too"];
    let expected: Vec<_> = expected.map(|text| (text.to_owned(), false)).into();
    assert_eq!(results(&shell, &assignment), expected);
    // A repetition of the round is recognised: no call is made twice.
    shell.feed(asked(&assignment, &names)).unwrap();
    assert!(take_jobs(&mut shell).is_empty());
}

#[test]
fn results_are_stored_once_in_the_journal() {
    let names = ["files__read", "files__send"];
    let tools_step = |texts: [&str; 2]| {
        let results = (0..)
            .zip(texts)
            .map(|(n, text)| ToolResult::new(format!("call-{n}"), text, false));
        Arc::new(Step::Tools(results.collect()))
    };
    // The result for the agent: as recorded, or cut.
    for (cut, name) in [(false, "tools_answered"), (true, "run_stepped")] {
        let (mut shell, assignment) = calling(rules(&[]), &names);
        for job in take_jobs(&mut shell) {
            answer(&mut shell, &job, &job.tool);
        }
        let step = tools_step(match cut {
            false => names,
            true => ["files__read", "files"],
        });
        shell.step(&assignment, step.clone());
        assert_eq!(shell.journal.last().unwrap().fact.name(), name);
        let trace = shell.trace();
        let shell = shell.recovered();
        let live = &shell.state().run(assignment.run).unwrap().steps;
        assert_eq!(live.last(), Some(&step));
        let past = &trace.run(assignment.run).unwrap().steps;
        assert_eq!(past.last().map(|(_, step)| step), Some(&step));
        assert_eq!((live.len(), past.len()), (2, 2));
    }
}

#[test]
fn the_intent_of_a_call_is_on_disk_before_it_is_made() {
    let (mut shell, _) = calling(rules(&[]), &["files__send"]);
    let job = take_jobs(&mut shell).remove(0);
    assert!(Effect::CallTool(Box::new(job)).needs_durable_intent());
    let names: Vec<_> = shell
        .journal
        .iter()
        .map(|event| event.fact.name())
        .collect();
    assert_eq!(names[names.len() - 2..], ["tools_called", "tool_started"]);
}

#[test]
fn an_interrupted_call_is_repeated_or_in_doubt_by_its_contract() {
    for (tool, repeated) in [
        ("files__read", true),
        ("files__put", true),
        ("files__send", false),
        ("files__unheard_of", false),
    ] {
        let (mut shell, assignment) = calling(rules(&[]), &[tool]);
        let job = take_jobs(&mut shell).remove(0);
        let mut shell = shell.recovered();
        let again = take_jobs(&mut shell);
        if repeated {
            assert_eq!(again, [job], "the same call under the same key");
            answer(&mut shell, &again[0], "done");
            assert_eq!(results(&shell, &assignment), [("done".to_owned(), false)]);
        } else {
            assert!(again.is_empty(), "{tool} is not made again");
            assert_eq!(shell.waiting_calls(), [job.id]);
            assert_eq!(
                shell.state().call_round_status(assignment.run, 1),
                CallRoundStatus::InProgress { held: true }
            );
            // It stays in doubt after every restart.
            let mut shell = shell.recovered();
            assert!(take_jobs(&mut shell).is_empty());
            assert_eq!(shell.waiting_calls(), [job.id]);
            assert_eq!(shell.facts("tool_in_doubt").len(), 1);
        }
    }
}

#[test]
fn a_person_settles_a_call_in_doubt() {
    let settled = |decision: CallDecision| {
        let (mut shell, assignment) = calling(rules(&[]), &["files__send", "files__put"]);
        let job = take_jobs(&mut shell).remove(0);
        let mut shell = shell.recovered();
        assert!(take_jobs(&mut shell).is_empty(), "what follows it waits");
        let wrong = decide(&mut shell, job.id, CallDecision::Approved).unwrap_err();
        let expected = "cannot be approved: it is in doubt; decide whether it was done, failed, or must be repeated";
        assert_eq!(wrong.to_string(), format!("call {} {expected}", job.id));
        decide(&mut shell, job.id, decision).unwrap();
        let next = take_jobs(&mut shell);
        (shell, assignment, job, next)
    };
    let (mut shell, assignment, job, next) = settled(CallDecision::Done {
        text: "sent".into(),
    });
    assert_eq!(tools(&next), ["files__put"]);
    answer(&mut shell, &next[0], "put");
    let expected = [("sent".to_owned(), false), ("put".to_owned(), false)];
    assert_eq!(results(&shell, &assignment), expected);
    let again = decide(&mut shell, job.id, CallDecision::Repeat);
    assert_eq!(again, Err(Refusal::AlreadyDecided(job.id)));

    let text = "the line was cut".into();
    let (mut shell, assignment, _, next) = settled(CallDecision::Failed { text });
    answer(&mut shell, &next[0], "put");
    assert_eq!(
        results(&shell, &assignment)[0],
        ("the line was cut".to_owned(), true)
    );

    let (mut shell, assignment, job, next) = settled(CallDecision::Repeat);
    assert_eq!(next, [job], "under the same key");
    answer(&mut shell, &next[0], "sent");
    let next = take_jobs(&mut shell);
    answer(&mut shell, &next[0], "put");
    assert_eq!(results(&shell, &assignment)[0], ("sent".to_owned(), false));
}

#[test]
fn a_call_waits_for_approval_across_restarts() {
    let (mut shell, assignment) = calling(rules(&["files__s*(path=/etc/*)"]), &["files__send"]);
    assert!(take_jobs(&mut shell).is_empty());
    assert_eq!(
        shell.state().call_round_status(assignment.run, 1),
        CallRoundStatus::InProgress { held: true }
    );
    let mut shell = shell.recovered();
    assert!(take_jobs(&mut shell).is_empty());
    let id = shell.waiting_calls()[0];
    let wrong = decide(&mut shell, id, CallDecision::Repeat).unwrap_err();
    insta::assert_snapshot!(
        wrong.to_string().replace(&id.to_string(), "<id>"),
        @"call <id> cannot be repeated: it waits for approval or denial"
    );
    decide(&mut shell, id, CallDecision::Approved).unwrap();
    assert_eq!(shell.waiting_calls(), []);
    let job = take_jobs(&mut shell).remove(0);
    assert_eq!(job.id, id);
    answer(&mut shell, &job, "sent");
    assert_eq!(results(&shell, &assignment), [("sent".to_owned(), false)]);
    let again = decide(&mut shell, id, CallDecision::Approved);
    assert_eq!(
        again,
        Err(Refusal::AlreadyDecided(id)),
        "the second one comes too late"
    );
    let unknown = CallId::from_u128(7);
    let refused = decide(&mut shell, unknown, CallDecision::Approved);
    assert_eq!(refused, Err(Refusal::UnknownCall(unknown)));
}

/// A decision about an inactive session starts nothing; the call is made when the session is
/// opened, and is not in doubt.
#[test]
fn a_call_approved_while_the_session_is_not_live_is_made_when_it_opens() {
    let (shell, _) = calling(rules(&["*"]), &["files__send"]);
    let mut shell = shell.recovered();
    let id = shell.waiting_calls()[0];
    decide(&mut shell, id, CallDecision::Approved).unwrap();
    assert_eq!(shell.facts("tool_started").len(), 0);
    let mut shell = shell.recovered();
    assert_eq!(take_jobs(&mut shell).remove(0).id, id);
    assert_eq!(shell.waiting_calls(), []);
}

#[test]
fn the_model_gets_the_reason_of_a_denial() {
    let (mut shell, assignment) =
        calling(rules(&["*"]), &["files__send", "files__put", "files__read"]);
    let [send, put, read] = shell.waiting_calls()[..] else {
        panic!("all three wait");
    };
    let reason = Some("write to the archive instead".into());
    decide(&mut shell, send, CallDecision::Denied { reason }).unwrap();
    decide(&mut shell, put, CallDecision::Denied { reason: None }).unwrap();
    decide(&mut shell, read, CallDecision::Expired).unwrap();
    assert!(take_jobs(&mut shell).is_empty());
    let results: Vec<String> = results(&shell, &assignment)
        .into_iter()
        .map(|(text, is_error)| format!("{is_error}: {text}"))
        .collect();
    insta::assert_snapshot!(results.join("\n"), @r"
    true: [denied: a person did not allow this call; it was not made. They said: write to the archive instead]
    true: [denied: a person did not allow this call; it was not made. Go on without it, or ask what is wanted instead]
    true: [denied: nobody allowed this call in time; it was not made]
    ");
}

#[test]
fn an_approval_timeout_is_a_denial() {
    let (mut shell, assignment) = calling(rules(&["*"]), &["files__send"]);
    let hour = HOUR as i64;
    assert_eq!(wakes(&shell), [hour]);
    shell.waiting.clear();
    shell.tick(hour - 1);
    assert_eq!(wakes(&shell), [1], "woken early, it waits on");
    // It returns after its time is over.
    shell.now = shell.now.plus_ms(6);
    let mut shell = shell.recovered();
    shell.prepare();
    assert_eq!(wakes(&shell), [-5]);
    shell.feed(Input::Tick).unwrap();
    assert!(results(&shell, &assignment)[0].0.contains("in time"));
}

#[test]
fn an_approval_after_its_time_is_a_denial() {
    for (late, made) in [(-1, 1), (0, 0)] {
        let (mut shell, assignment) = calling(rules(&["*"]), &["files__send"]);
        let id = shell.waiting_calls()[0];
        shell.now = shell.now.plus_ms(HOUR as i64 + late);
        decide(&mut shell, id, CallDecision::Approved).unwrap();
        assert_eq!(take_jobs(&mut shell).len(), made);
        if made == 0 {
            assert!(results(&shell, &assignment)[0].0.contains("in time"));
        }
        let again = decide(&mut shell, id, CallDecision::Approved);
        assert_eq!(again, Err(Refusal::AlreadyDecided(id)));
    }
}

#[test]
fn another_attempt_finds_the_existing_calls() {
    let mut shell = Shell::with(2);
    let mut accepted = turn(1, team(retried("lead"), []));
    accepted.rules = rules(&[]);
    let first = shell.dispatch(accepted).remove(0);
    shell.feed(asked(&first, &["files__send"])).unwrap();
    let job = take_jobs(&mut shell).remove(0);
    shell.fail(&first, unisono_session::run::RunCause::Panic);
    shell.tick(60_000);
    let second = shell.dispatched().remove(0);
    assert_eq!(second.attempt, 2);
    shell.feed(asked(&first, &["files__put"])).unwrap();
    shell.feed(asked(&second, &["files__send"])).unwrap();
    assert!(take_jobs(&mut shell).is_empty(), "it is being made still");
    answer(&mut shell, &job, "sent");
    assert_eq!(results(&shell, &second), [("sent".to_owned(), false)]);
}

#[test]
fn a_cancelled_turn_stops_its_calls_and_keeps_none_waiting() {
    let stops: [fn(TurnId, &RunAssignment) -> Input; 2] = [
        |turn, _| Input::Cancel { turn },
        |_, assignment| Input::CancelRun {
            run: assignment.run,
        },
    ];
    for stop in stops {
        let names = ["files__read", "files__send"];
        let (mut shell, assignment) = calling(rules(&["files__send"]), &names);
        let job = take_jobs(&mut shell).remove(0);
        shell.feed(stop(turn_id(1), &assignment)).unwrap();
        let cancelled = shell.waiting.iter().filter_map(|effect| match effect {
            Effect::CancelCall(place) => Some(*place),
            _ => None,
        });
        assert_eq!(cancelled.collect::<Vec<_>>(), [job.place]);
        assert_eq!(shell.waiting_calls(), []);
        answer(&mut shell, &job, "late");
        assert_eq!(shell.facts("tool_ended").len(), 0);
    }
}

#[test]
fn an_agent_that_ends_without_its_calls_stops_them() {
    let (mut shell, assignment) = calling(rules(&[]), &["files__read"]);
    let job = take_jobs(&mut shell).remove(0);
    shell.finish(&assignment, "done without it");
    let cancelled = shell.waiting.iter();
    let mut cancelled = cancelled
        .filter(|effect| matches!(effect, Effect::CancelCall(place) if *place == job.place));
    assert!(cancelled.next().is_some());
}

#[test]
fn a_turn_keeps_the_rules_it_was_accepted_with() {
    let (mut shell, assignment) = calling(rules(&[]), &["files__read"]);
    let job = take_jobs(&mut shell).remove(0);
    let mut next = turn(2, team(agent("lead"), []));
    next.rules = rules(&["*"]);
    shell.accept(next);
    assert_eq!(shell.facts("tool_rules_set").len(), 2);
    answer(&mut shell, &job, "read");
    let again = Input::CallTools {
        run: assignment.run,
        attempt: 1,
        round: 2,
        calls: vec![NewCall {
            call_id: "c".into(),
            tool: "files__send".into(),
            arguments: "{}".into(),
            fields: Vec::new(),
            permission: None,
        }],
    };
    shell.feed(again).unwrap();
    assert_eq!(take_jobs(&mut shell).len(), 1, "it waits for nobody");
    let facts = shell.facts("tools_called");
    let Fact::ToolsCalled { calls, .. } = facts[1] else {
        panic!("{facts:?}");
    };
    assert_eq!(calls[0].contract, Contract::AtMostOnce);
    // The same rules are not recorded again.
    let mut third = turn(3, team(agent("lead"), []));
    third.rules = rules(&["*"]);
    shell.accept(third);
    assert_eq!(shell.facts("tool_rules_set").len(), 2);
}

fn wakes(shell: &Shell) -> Vec<i64> {
    let wakes = shell.waiting.iter().filter_map(|effect| match effect {
        Effect::Wake(at) => Some(at.ms_since(shell.now)),
        _ => None,
    });
    wakes.collect()
}

fn timed_out(shell: &Shell) -> bool {
    matches!(shell.outcome(1), Outcome::Failed { code, .. } if &**code == TIMED_OUT)
}

#[test]
fn a_turn_ends_at_its_limit_which_restarts_after_a_restart() {
    let (mut shell, _) = calling_within(Some(5_000), rules(&[]), &["files__read"]);
    assert_eq!(wakes(&shell), [5_000]);
    shell.tick(4_999);
    assert!(shell.state().turn(turn_id(1)).is_some());
    // Nobody worked on it meanwhile.
    shell.now = shell.now.plus_ms(HOUR as i64);
    let mut shell = shell.recovered();
    assert_eq!(wakes(&shell), [5_000]);
    shell.tick(4_999);
    assert!(shell.state().turn(turn_id(1)).is_some());
    shell.tick(1);
    assert!(timed_out(&shell));
}

#[test]
fn time_spent_waiting_for_a_person_does_not_count() {
    let rules = rules(&["files__send"]);
    let (mut shell, _) = calling_within(Some(5_000), rules, &["files__send"]);
    shell.tick(HOUR as i64 / 2);
    let call = shell.waiting_calls()[0];
    decide(&mut shell, call, CallDecision::Approved).unwrap();
    shell.tick(4_999);
    assert!(shell.state().turn(turn_id(1)).is_some());
    shell.tick(1);
    assert!(timed_out(&shell));
}

fn task(shell: &mut Shell, job: &ToolJob, task: &str) {
    let (call, task) = (job.place, task.into());
    shell.feed(Input::ToolTask { call, task }).unwrap();
}

#[test]
fn a_task_of_the_server_is_polled_after_a_restart_whatever_the_contract() {
    for tool in ["files__send", "files__put", "files__read"] {
        let (mut shell, assignment) = calling(rules(&[]), &[tool]);
        let job = take_jobs(&mut shell).remove(0);
        assert_eq!(job.task, None);
        task(&mut shell, &job, "task-1");
        assert!(take_jobs(&mut shell).is_empty(), "it is polled already");
        let mut shell = shell.recovered();
        assert_eq!(shell.waiting_calls(), []);
        let again = take_jobs(&mut shell).remove(0);
        assert_eq!(again.task.as_deref(), Some("task-1"));
        assert_eq!(again.id, job.id);
        answer(&mut shell, &again, "done");
        assert_eq!(results(&shell, &assignment), [("done".to_owned(), false)]);
        // A task that comes too late changes nothing.
        task(&mut shell, &again, "task-2");
        assert_eq!(shell.facts("tool_task_started").len(), 1);
    }
}

#[test]
fn a_forgotten_task_leaves_its_call_in_doubt_and_a_repetition_has_none() {
    let (mut shell, assignment) = calling(rules(&[]), &["files__send"]);
    let job = take_jobs(&mut shell).remove(0);
    task(&mut shell, &job, "task-1");
    shell.feed(Input::ToolTaskLost { call: job.place }).unwrap();
    assert_eq!(shell.waiting_calls(), [job.id]);
    let mut shell = shell.recovered();
    assert_eq!(shell.waiting_calls(), [job.id]);
    decide(&mut shell, job.id, CallDecision::Repeat).unwrap();
    let again = take_jobs(&mut shell).remove(0);
    assert_eq!(again, job, "the tool is called again, under the same key");
    // Without a task the call would be in doubt after a crash.
    let mut shell = shell.recovered();
    assert_eq!(shell.waiting_calls(), [job.id]);
    decide(
        &mut shell,
        job.id,
        CallDecision::Failed { text: "no".into() },
    )
    .unwrap();
    assert_eq!(results(&shell, &assignment), [("no".to_owned(), true)]);
}
