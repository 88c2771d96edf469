//! Permission for calls that an agent in another program makes itself.

use std::sync::Arc;

use unisono_context::CallId;
use unisono_session::assignment::RunAssignment;
use unisono_session::event::{HookPlace, HookReply};
use unisono_session::machine::{AttemptEnd, NewCall};
use unisono_session::run::RunCause;
use unisono_session::run::calls::{CallDecision, CallRoundStatus, CallStatus, Permission};
use unisono_session::tool::{ApprovalRule, HookEvent, HookFailurePolicy, HookRule, ToolRules};
use unisono_session::trace::{Activity, Trace, decisions, waited_ms};
use unisono_session::{Effect, Fact, Input, Outbox};

use crate::shell::{Shell, agent, team, turn, turn_id};

/// A run of an agent with one retry, in a turn with this approval rule.
fn run(rule: &str) -> (Shell, RunAssignment) {
    let mut shell = Shell::with(2);
    let mut lead = agent("lead");
    lead.retries = 1;
    let mut accepted = turn(1, team(lead, []));
    accepted.rules = rules(rule);
    let assignment = shell.dispatch(accepted).remove(0);
    (shell, assignment)
}

/// A run whose call waits for a hook, and then for a person.
fn asking_hook() -> (Shell, RunAssignment) {
    let mut shell = Shell::with(2);
    let mut accepted = turn(1, team(agent("lead"), []));
    accepted.rules = Arc::new(ToolRules {
        hooks: vec![HookRule {
            name: "guard".into(),
            events: vec![HookEvent::BeforeToolCall],
            tools: Vec::new(),
            on_failure: HookFailurePolicy::Ignore,
        }],
        ..(*rules("execute")).clone()
    });
    let assignment = shell.dispatch(accepted).remove(0);
    ask(&mut shell, &assignment, 1, Permission::Unlisted);
    (shell, assignment)
}

fn rules(rule: &str) -> Arc<ToolRules> {
    Arc::new(ToolRules {
        approvals: vec![ApprovalRule::parse(rule).unwrap()],
        approval_timeout_ms: Some(3_600_000),
        ..ToolRules::default()
    })
}

fn ask(shell: &mut Shell, assignment: &RunAssignment, round: u32, permission: Permission) {
    let call = NewCall {
        call_id: "c".into(),
        tool: "execute".into(),
        arguments: "{}".into(),
        fields: vec![("input.command".into(), "rm -r x".into())],
        permission: Some(permission),
    };
    let (run, attempt) = (assignment.run, assignment.attempt);
    let calls = vec![call];
    let asked = Input::CallTools {
        run,
        attempt,
        round,
        calls,
    };
    shell.feed(asked).unwrap();
}

fn waiting(shell: &Shell) -> Vec<CallId> {
    shell.state().waiting_calls().map(|call| call.id).collect()
}

/// Whether the call of a round was permitted; none: it waits.
fn answer(shell: &Shell, assignment: &RunAssignment, round: u32) -> Option<bool> {
    match shell.state().call_round_status(assignment.run, round) {
        CallRoundStatus::Ended(results) => Some(!results[0].is_error),
        CallRoundStatus::InProgress { held } => {
            assert!(held, "it waits for a person");
            None
        }
        CallRoundStatus::Unknown => panic!("no round {round}"),
    }
}

#[test]
fn the_definition_decides_unless_a_rule_asks_a_person() {
    use Permission::{Allowed, Denied, Unlisted};
    let asks = "execute(input.command=rm *)";
    for (rule, permission, expected) in [
        ("edit", Allowed, Some(true)),
        ("edit", Unlisted, Some(false)),
        ("edit", Denied, Some(false)),
        (asks, Allowed, None),
        (asks, Unlisted, None),
        ("*", Denied, Some(false)),
    ] {
        let (mut shell, assignment) = run(rule);
        ask(&mut shell, &assignment, 1, permission);
        let given = answer(&shell, &assignment, 1);
        assert_eq!(given, expected, "{rule} {permission:?}");
        let mut trace = Trace::default();
        shell.journal.iter().for_each(|event| trace.take(event));
        let decided = decisions(trace.run(assignment.run).unwrap());
        let decided: Vec<_> = decided.iter().map(|one| one.decision.name).collect();
        let name = |is_permitted| if is_permitted { "allowed" } else { "refused" };
        assert_eq!(decided, Vec::from_iter(expected.map(name)));
        assert_eq!(resumed(&shell), None, "nobody was waited for");
        // Nothing is called here: the agent makes the call itself.
        assert!(shell.facts("tool_started").is_empty());
        let calls = |effect: &Effect| matches!(effect, Effect::CallTool(_));
        assert!(!shell.waiting.iter().any(calls));
    }
}

#[test]
fn a_person_decides_and_the_journal_says_who() {
    let denied = CallDecision::Denied { reason: None };
    for (decision, permitted) in [(CallDecision::Approved, true), (denied, false)] {
        let (mut shell, assignment) = run("execute");
        ask(&mut shell, &assignment, 1, Permission::Unlisted);
        let decide = Input::Decide {
            call: waiting(&shell)[0],
            decision,
            by: Some("ada".into()),
        };
        assert_eq!(resumed(&shell), None);
        let asked = shell.journal.len() as u64;
        shell.feed(decide).unwrap();
        assert!(resumed(&shell) > Some(asked));
        assert_eq!(answer(&shell, &assignment, 1), Some(permitted));
        let [Fact::ToolDecided { by, .. }] = shell.facts("tool_decided")[..] else {
            panic!("one decision");
        };
        assert_eq!(by.as_deref(), Some("ada"));
    }
}

/// The event after which the turn went on, from its history.
fn resumed(shell: &Shell) -> Option<u64> {
    let mut trace = Trace::default();
    shell.journal.iter().for_each(|event| trace.take(event));
    let resumed = trace.turn(turn_id(1)).unwrap().resumed;
    resumed.map(|resumed| resumed.seq)
}

#[test]
fn a_permission_that_the_agent_needs_no_more_is_withdrawn() {
    let (mut shell, assignment) = run("execute");
    ask(&mut shell, &assignment, 1, Permission::Unlisted);
    ask(&mut shell, &assignment, 2, Permission::Unlisted);
    assert_eq!(resumed(&shell), None);
    let [first, second] = waiting(&shell)[..] else {
        panic!("two requests wait");
    };
    let withdraw = |attempt| Input::WithdrawPermissions {
        run: assignment.run,
        attempt,
        round: 1,
    };
    // Of another attempt, then of this one, and again.
    shell.feed(withdraw(assignment.attempt + 1)).unwrap();
    assert_eq!(waiting(&shell), [first, second]);
    shell.feed(withdraw(assignment.attempt)).unwrap();
    let events = shell.journal.len();
    assert_eq!(resumed(&shell), Some(events as u64));
    shell.feed(withdraw(assignment.attempt)).unwrap();
    assert_eq!(shell.journal.len(), events);
    assert_eq!(waiting(&shell), [second]);
    assert_eq!(answer(&shell, &assignment, 1), Some(false));
    let decide = Input::Decide {
        call: first,
        decision: CallDecision::Approved,
        by: None,
    };
    shell.feed(decide).unwrap_err();
}

#[test]
fn a_permission_is_withdrawn_with_the_program_that_asked() {
    // A crash.
    let (mut shell, assignment) = run("execute");
    ask(&mut shell, &assignment, 1, Permission::Unlisted);
    let mut shell = shell.recovered();
    assert!(waiting(&shell).is_empty());
    assert_eq!(answer(&shell, &assignment, 1), Some(false));
    // The next try of the same attempt asks anew.
    let assignment = shell.dispatched().remove(0);
    ask(&mut shell, &assignment, 501, Permission::Unlisted);
    assert_eq!(waiting(&shell).len(), 1);
    // Another attempt.
    shell.fail(&assignment, RunCause::Exit);
    assert!(waiting(&shell).is_empty());
    let call = &shell
        .state()
        .run(assignment.run)
        .unwrap()
        .calls(501)
        .unwrap()
        .calls[0];
    assert!(matches!(call.status, CallStatus::Ended(_)));
    // The end of the turn.
    let (mut shell, assignment) = run("execute");
    ask(&mut shell, &assignment, 1, Permission::Unlisted);
    shell.feed(Input::Cancel { turn: turn_id(1) }).unwrap();
    assert!(waiting(&shell).is_empty());
}

#[test]
fn the_limit_of_a_turn_begins_again_when_nobody_is_waited_for_any_more() {
    const LIMIT: u32 = 5_000;
    let ends: [fn(&RunAssignment) -> Input; 3] = [
        |of| Input::WithdrawPermissions {
            run: of.run,
            attempt: of.attempt,
            round: 1,
        },
        |of| Input::RunEnded {
            run: of.run,
            attempt: of.attempt,
            end: AttemptEnd::failed(RunCause::Exit, "it went wrong"),
        },
        |of| Input::CancelRun { run: of.run },
    ];
    for end in ends {
        let mut worker = agent("worker");
        worker.retries = 1;
        let mut accepted = turn(1, team(agent("lead"), [worker]));
        accepted.rules = rules("execute");
        accepted.caps.limit_ms = Some(LIMIT.into());
        let mut shell = Shell::with(2);
        let assignment = shell.dispatch(accepted).remove(0);
        ask(&mut shell, &assignment, 1, Permission::Unlisted);
        shell.now = shell.now.plus_ms(10 * i64::from(LIMIT));
        shell.feed(Input::Tick).unwrap();
        shell.waiting.clear();
        shell.feed(end(&assignment)).unwrap();
        assert!(shell.state().turn(turn_id(1)).is_some());
        let limit = shell.now.plus_ms(LIMIT.into());
        let wakes = |effect: &Effect| matches!(effect, Effect::Wake(at) if *at == limit);
        assert!(shell.waiting.iter().any(wakes));
        shell.now = limit;
        shell.feed(Input::Tick).unwrap();
        assert!(shell.state().turn(turn_id(1)).is_none());
    }
}

/// The place of the question to the hook.
fn asked_hook(shell: &Shell) -> HookPlace {
    let mut asked = shell.waiting.iter().filter_map(|effect| match effect {
        Effect::AskHook(job) => Some(job.place),
        _ => None,
    });
    asked.next().unwrap()
}

#[test]
fn a_call_waits_for_a_person_after_its_hook() {
    let (mut shell, assignment) = asking_hook();
    let waits_for = |shell: &Shell| shell.trace().run(assignment.run).unwrap().waits_for();
    assert_eq!(waits_for(&shell), None);
    shell.now = shell.now.plus_ms(400);
    let (place, reply) = (asked_hook(&shell), Ok(HookReply::default()));
    shell.feed(Input::HookAnswered { place, reply }).unwrap();
    assert_eq!(waits_for(&shell), Some(Activity::Person));
    shell.now = shell.now.plus_ms(1_000);
    let decide = Input::Decide {
        call: waiting(&shell)[0],
        decision: CallDecision::Approved,
        by: None,
    };
    shell.feed(decide).unwrap();
    assert_eq!(waits_for(&shell), None);
    assert_eq!(waited_ms(shell.trace().run(assignment.run).unwrap()), 1_000);
}

#[test]
fn a_call_that_a_hook_denies_waits_for_nobody() {
    let (mut shell, assignment) = asking_hook();
    let place = asked_hook(&shell);
    let reply = Ok(HookReply {
        deny: Some("not today".into()),
        ..HookReply::default()
    });
    shell.feed(Input::HookAnswered { place, reply }).unwrap();
    assert_eq!(answer(&shell, &assignment, 1), Some(false));
    let mut trace = Trace::default();
    shell.journal.iter().for_each(|event| trace.take(event));
    assert_eq!(trace.run(assignment.run).unwrap().waits_for(), None);
}

#[test]
fn a_hook_is_not_asked_about_a_call_that_ended_before_it_was_on_disk() {
    let (mut shell, _) = asking_hook();
    let asks = |effect: &mut Effect| matches!(effect, Effect::AskHook(_));
    let asked: Vec<Effect> = shell.waiting.extract_if(.., asks).collect();
    let mut outbox = Outbox::new(0);
    assert!(outbox.put(1, asked).is_empty());
    shell.feed(Input::Cancel { turn: turn_id(1) }).unwrap();
    let cancels = |effect: &mut Effect| matches!(effect, Effect::CancelHook(_));
    let cancelled: Vec<Effect> = shell.waiting.extract_if(.., cancels).collect();
    assert_eq!(cancelled.len(), 1);
    assert!(outbox.put(2, cancelled).is_empty());
    assert!(outbox.committed(2).is_empty());
}
