//! Runs whose time is up.

use unisono_session::Fact;
use unisono_session::agent::OnFailure;
use unisono_session::event::Outcome;
use unisono_session::machine::NewTurn;

use crate::rounds::*;
use crate::shell::*;

/// A turn whose runs have a second each.
fn limited(mut turn: NewTurn) -> NewTurn {
    turn.caps.run.time_ms = Some(1_000);
    turn
}

#[test]
fn a_lead_and_its_delegate_may_run_out_of_time_together() {
    for restarts in [false, true] {
        let team = with(team(agent("lead"), []), agents(&["facts"]));
        let (mut shell, lead) = started(limited(turn(0, team)));
        delegate(&mut shell, &lead, 1, &[call("facts", "list them")]);
        assert_eq!(shell.dispatched().len(), 1);
        if restarts {
            shell.now = shell.now.plus_ms(2_000);
            shell = shell.recovered();
        } else {
            shell.tick(2_000);
        }
        assert_eq!(*shell.outcome(0), Outcome::Answered);
        let ends = shell.journal.iter().map(|event| &event.fact);
        let ends = ends.filter(|fact| matches!(fact, Fact::RunEnded { .. }));
        assert_eq!(ends.count(), 2);
    }
}

#[test]
fn a_delegate_out_of_time_fails_its_turn_only_if_its_definition_says_so() {
    for (on_failure, fails) in [(OnFailure::Continue, false), (OnFailure::Fail, true)] {
        let mut facts = agent("facts");
        facts.on_failure = on_failure;
        let mut shell = Shell::with(2);
        shell.dispatch(limited(turn(0, team(agent("lead"), [facts]))));
        shell.tick(2_000);
        let reason = "agent facts failed: budget_exceeded: the run's time of 1 s is used up";
        match fails {
            true => assert_eq!(shell.failure(0), ("delegate_failed", reason)),
            false => assert_eq!(shell.dispatched().len(), 1, "the lead works"),
        }
    }
}
