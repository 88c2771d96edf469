//! A cost before a reply is recorded while its call is in progress, and charged exactly once.

use unisono_context::{Cost, RunId, Tokens};
use unisono_session::agent::Team;
use unisono_session::budget::{Amount, ReservationRequest, Verdict};
use unisono_session::event::{Fact, LateOutput};
use unisono_session::machine::{AttemptEnd, CallEnd, NewTurn};
use unisono_session::run::{AuxiliaryUsage, Reply, RunCause, Step, ToolCall, Usage};
use unisono_session::usage::Ledger;
use unisono_session::{Definition, Input};

use crate::shell::*;

fn used(tokens: u64) -> Usage {
    Usage {
        cost: Some(Cost::from_micro_dollars(tokens)),
        ..Usage::free(Tokens(tokens), Tokens::ZERO)
    }
}

fn amount(tokens: u64) -> Amount {
    Amount::from_usage(&used(tokens))
}

/// A turn with a budget of 10,000 tokens.
fn capped(team: Team) -> NewTurn {
    let mut accepted = turn(0, team);
    accepted.caps.turn.tokens = Some(Tokens(10_000));
    accepted
}

/// A lead in such a turn; a call of 1,000 is reserved.
fn asking(lead: Definition) -> (Shell, RunId) {
    let mut shell = Shell::with(4);
    let run = shell.dispatch(capped(team(lead, [])))[0].run;
    reserve(&mut shell, run, 1, reservation(1, amount(1_000)));
    assert_eq!(account(&shell), (Amount::ZERO, amount(1_000)));
    (shell, run)
}

fn reserve(shell: &mut Shell, run: RunId, attempt: u32, ask: ReservationRequest) {
    shell.feed(Input::Reserve { run, attempt, ask }).unwrap();
}

/// Ends the first call of the first attempt.
fn settle(shell: &mut Shell, run: RunId, end: CallEnd) {
    let (attempt, call) = (1, 1);
    let settled = Input::Settle {
        run,
        attempt,
        call,
        end,
    };
    shell.feed(settled).unwrap();
}

/// The reply of the first attempt.
fn reply(shell: &mut Shell, run: RunId, reply: Reply) {
    let (attempt, step) = (1, Step::Model(reply).into());
    let stepped = Input::RunStepped { run, attempt, step };
    shell.feed(stepped).unwrap();
}

/// The spent and the reserved amounts of the session.
fn account(shell: &Shell) -> (Amount, Amount) {
    let account = shell.state().budget().session();
    (account.spent, account.open)
}

fn total(shell: &Shell) -> Usage {
    let mut ledger = Ledger::default();
    shell.journal.iter().for_each(|event| ledger.take(event));
    ledger.total()
}

fn prepay(shell: &mut Shell, run: RunId, attempt: u32, tokens: u64) {
    let spent = AuxiliaryUsage {
        usage: used(tokens),
        fallback: None,
    };
    let call = Some(1);
    let paid = Input::Spent {
        run,
        attempt,
        call,
        spent,
    };
    shell.feed(paid).unwrap();
}

#[test]
fn a_prepaid_cost_is_charged_at_once_and_the_rest_stays_reserved() {
    let (mut shell, run) = asking(agent("lead"));
    prepay(&mut shell, run, 1, 300);
    assert_eq!(account(&shell), (amount(300), amount(700)));
    assert_eq!(total(&shell), used(300));
    // After a crash: the usage of the call in progress will never be known.
    let mut shell = shell.recovered();
    assert_eq!(account(&shell), (amount(1_000), Amount::ZERO));
    assert_eq!(total(&shell), used(300));
    let assignment = shell.dispatched().remove(0);
    assert!(matches!(&*assignment.steps[0], Step::Spent(spent) if spent.usage == used(300)));
}

#[test]
fn a_reply_releases_the_rest_and_the_ending_charges_nothing_twice() {
    let (mut shell, run) = asking(agent("lead"));
    prepay(&mut shell, run, 1, 300);
    let said = Reply {
        calls: vec![ToolCall::new("1", "recall", "{}")],
        usage: used(500),
        ..Reply::default()
    };
    reply(&mut shell, run, said);
    assert_eq!(account(&shell), (amount(800), Amount::ZERO));
    let (attempt, end) = (1, finished("done", Vec::new(), used(300 + 500 + 40)));
    shell.feed(Input::RunEnded { run, attempt, end }).unwrap();
    assert_eq!(account(&shell), (amount(840), Amount::ZERO));
    assert_eq!(total(&shell), used(840));
}

#[test]
fn a_request_that_fails_later_keeps_its_prepaid_cost() {
    for (end, spent) in [(CallEnd::Unsent, 300), (CallEnd::Lost, 1_000)] {
        let (mut shell, run) = asking(agent("lead"));
        prepay(&mut shell, run, 1, 300);
        settle(&mut shell, run, end);
        assert_eq!(account(&shell), (amount(spent), Amount::ZERO));
        let (attempt, end) = (1, AttemptEnd::failed(RunCause::Rejected, "no"));
        shell.feed(Input::RunEnded { run, attempt, end }).unwrap();
        assert_eq!(account(&shell).0, amount(spent));
        assert_eq!(total(&shell), used(300));
    }
}

#[test]
fn calls_of_unknown_usage_count_as_their_worst_cases() {
    let unknown = Usage {
        cost: None,
        ..Usage::NONE
    };
    let (mut shell, run) = asking(agent("lead"));
    settle(&mut shell, run, CallEnd::Used(unknown));
    assert_eq!(account(&shell), (amount(1_000), Amount::ZERO));
    let (mut shell, run) = asking(agent("lead"));
    let (attempt, end) = (1, finished("done", Vec::new(), unknown));
    shell.feed(Input::RunEnded { run, attempt, end }).unwrap();
    assert_eq!(account(&shell), (amount(1_000), Amount::ZERO));
}

#[test]
fn a_run_cancelled_before_its_reply_keeps_its_prepaid_cost() {
    let (mut shell, run) = asking(agent("lead"));
    prepay(&mut shell, run, 1, 300);
    shell.feed(Input::Cancel { turn: turn_id(0) }).unwrap();
    // The result of the request after it is unknown: it may have cost the rest.
    assert_eq!(account(&shell), (amount(1_000), Amount::ZERO));
    assert_eq!(total(&shell), used(300));
}

#[test]
fn the_late_usage_of_a_cancelled_run_replaces_its_worst_case() {
    let (mut shell, run) = asking(agent("lead"));
    shell.feed(Input::Cancel { turn: turn_id(0) }).unwrap();
    prepay(&mut shell, run, 1, 300);
    assert_eq!(shell.facts("run_stepped").len(), 0);
    let [
        Fact::LateOutputReceived {
            late: LateOutput::Spent(_),
            ..
        },
    ] = shell.facts("late_output_received")[..]
    else {
        panic!("{:?}", shell.facts("late_output_received"));
    };
    assert_eq!(account(&shell), (amount(1_000), Amount::ZERO));
    assert_eq!(total(&shell), used(300));
    let said = Reply {
        usage: used(400),
        ..Reply::default()
    };
    reply(&mut shell, run, said);
    assert_eq!(account(&shell), (amount(700), Amount::ZERO));
    assert_eq!(total(&shell), used(700));
}

#[test]
fn the_late_usage_of_a_run_whose_time_was_up_is_counted_beside_its_worst_case() {
    for replied in [0, 500] {
        let mut shell = Shell::with(4);
        let mut accepted = capped(team(agent("lead"), []));
        accepted.caps.run.time_ms = Some(1_000);
        let run = shell.dispatch(accepted)[0].run;
        if replied > 0 {
            let said = Reply {
                text: "so far".into(),
                calls: vec![ToolCall::new("1", "recall", "{}")],
                usage: used(replied),
                ..Reply::default()
            };
            reply(&mut shell, run, said);
        }
        reserve(&mut shell, run, 1, reservation(1, amount(1_000)));
        shell.now = shell.now.plus_ms(1_000);
        shell.feed(Input::Tick).unwrap();
        prepay(&mut shell, run, 1, 300);
        assert_eq!(shell.facts("late_output_received").len(), 1);
        assert_eq!(total(&shell), used(replied + 300));
        let trace = shell.trace();
        let trace = trace.run(run).unwrap();
        assert_eq!(trace.usage(), used(replied + 300));
        assert_eq!(trace.charge.amount(), amount(replied + 1_000));
        assert_eq!(account(&shell).0, amount(replied + 1_000));
    }
}

#[test]
fn costs_of_an_ended_attempt_are_ignored() {
    let (mut shell, run) = asking(retried("lead"));
    prepay(&mut shell, run, 1, 300);
    let (attempt, end) = (1, AttemptEnd::failed(RunCause::Unavailable, "gone"));
    shell.feed(Input::RunEnded { run, attempt, end }).unwrap();
    assert_eq!(account(&shell), (amount(1_000), Amount::ZERO));
    let before = shell.journal.len();
    prepay(&mut shell, run, 1, 300);
    assert_eq!(shell.journal.len(), before);
    // The next attempt pays for itself, with its own reserved call.
    reserve(&mut shell, run, 2, reservation(1, amount(1_000)));
    prepay(&mut shell, run, 2, 200);
    assert_eq!(account(&shell), (amount(1_200), amount(800)));
    assert_eq!(total(&shell), used(500));
}

#[test]
fn a_repeated_last_call_has_the_same_reason() {
    let (mut shell, run) = asking(agent("lead"));
    let ask = |tokens| ReservationRequest {
        last: Some((Tokens(4_000), Some(amount(4_000).cost))),
        ..reservation(2, amount(tokens))
    };
    let why = |shell: &Shell| shell.state().run(run).unwrap().wrapped_up.clone();
    settle(&mut shell, run, CallEnd::Used(used(1_000)));
    // 9,000 are left: the call fits, and the last one after it does not.
    reserve(&mut shell, run, 1, ask(6_000));
    let said = why(&shell).expect("it is the last one");
    assert!(said.1.contains("9000 left"), "{}", said.1);
    // Its reservation is charged as lost, so less is left.
    let mut shell = shell.recovered();
    assert_eq!(account(&shell), (amount(7_000), Amount::ZERO));
    let attempt = shell.dispatched()[0].attempt;
    reserve(&mut shell, run, attempt, ask(2_900));
    assert_eq!(why(&shell), Some(said));
}

#[test]
fn nobody_waits_for_the_release_of_the_smallest_amount() {
    let ask = |most: Amount, last: Option<u64>| ReservationRequest {
        last: last.map(|last| (Tokens(last), Some(amount(last).cost))),
        ..reservation(1, most)
    };
    for (reserved, waits) in [(Amount::LEAST, false), (amount(1_000), true)] {
        let mut shell = Shell::with(4);
        let delegates = ["slow", "patient", "other"].map(agent);
        let begun = shell.dispatch(capped(team(agent("lead"), delegates)));
        let [slow, patient, other] = [0, 1, 2].map(|at: usize| begun[at].run);
        reserve(&mut shell, slow, 1, ask(reserved, None));
        reserve(&mut shell, patient, 1, ask(amount(1_000), Some(3_000)));
        // It keeps the amount of its last call, and waits for its next one.
        settle(&mut shell, patient, CallEnd::Unsent);
        let next = ask(amount(6_000), Some(2_000));
        let of = (other, 1);
        let verdict = shell
            .state()
            .afford(of, &next, |run| run == patient, shell.now);
        match verdict {
            Some(Verdict::Waits(_)) => assert!(waits, "the call is the last one"),
            Some(Verdict::Granted(granted)) => {
                assert_eq!((waits, granted.wrap_up.is_some()), (false, true));
            }
            refused => panic!("{refused:?}"),
        }
    }
}
