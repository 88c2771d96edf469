//! Replays of a turn with concurrent agents: the journal gives the same requests and the same
//! answer for every order of their ends.

use std::collections::BTreeMap;

use unisono_context::TurnId;
use unisono_session::event::Event;
use unisono_session::run::tail::Headroom;
use unisono_session::run::{Ending, RunBounds, retrace};
use unisono_session::{Fact, Replay};

use crate::rng::Rng;
use crate::scenario::Scenario;
use crate::world::{Order, World};

/// Random schedules of each scenario.
const SCHEDULES: u64 = 1_000;

/// The parts of a turn's requests, run by run, and its answer.
#[derive(Debug, PartialEq)]
struct Rebuilt {
    runs: BTreeMap<u128, String>,
    answer: Option<String>,
}

fn journal(scenario: &Scenario, seed: u64) -> Vec<Event> {
    let mut world = World::new(scenario.clone(), Rng::new(seed), Order::Random);
    world.run();
    world.journal.events().to_vec()
}

fn turn_of(events: &[Event]) -> TurnId {
    let mut accepted = events.iter().filter_map(|event| match &event.fact {
        Fact::TurnAccepted { turn } => Some(turn.id),
        _ => None,
    });
    accepted.next().unwrap()
}

fn rebuilt(events: &[Event]) -> Rebuilt {
    let mut replay = Replay::new(turn_of(events));
    for event in events {
        if !replay.take(event).unwrap() {
            break;
        }
    }
    assert_eq!(replay.snapshot_error(), None);
    let bounds = RunBounds {
        max_model_calls: 9,
        room: Headroom::UNBOUNDED,
    };
    let runs = replay.runs().map(|run| {
        let assignment = replay.assignment(run.id).unwrap();
        let retraced = retrace(&assignment.steps, &[], bounds);
        assert_eq!(retraced.divergence, None, "{:?}", assignment.steps);
        let given = format!(
            "{:?} {:?} {} {:?} {:?} {} {} {:?} {:?} {:?}",
            assignment.role,
            assignment.snapshot.map(|snapshot| snapshot.id()),
            assignment.definition.digest(),
            assignment.task,
            assignment.results,
            assignment.sibling_index,
            assignment.headroom,
            assignment
                .colleagues
                .iter()
                .map(|agent| agent.digest())
                .collect::<Vec<_>>(),
            assignment.steps,
            retraced.calls,
        );
        // The duration is part of no request.
        (run.id.as_u128(), without_times(&given))
    });
    let lead = replay.runs().last().and_then(|run| run.ending.as_deref());
    Rebuilt {
        runs: runs.collect(),
        answer: lead.map(|ending| match ending {
            Ending::Finished { text, .. } => text.to_string(),
            other => without_times(&format!("{other:?}")),
        }),
    }
}

fn without_times(text: &str) -> String {
    let mut pieces = text.split("duration_ms: ");
    let first = pieces.next().unwrap_or_default().to_owned();
    let rest = pieces.map(|piece| piece.trim_start_matches(|c: char| c.is_ascii_digit()));
    rest.fold(first, |text, piece| text + piece)
}

#[test]
fn every_schedule_of_a_turn_is_replayed_to_the_same_requests_and_answer() {
    let scenarios = [
        // The schedule determines the cost of a summary, so turns with a compaction differ.
        Scenario::fan_out(8, 0, false),
        Scenario::fan_out(3, 10, false),
        Scenario::rounds(1),
        Scenario::rounds(2),
    ];
    let mut orders = 0;
    for (n, scenario) in scenarios.iter().enumerate() {
        let first = journal(scenario, 0);
        let expected = rebuilt(&first);
        assert!(
            expected.runs.len() > 1 && expected.answer.is_some(),
            "scenario {n}"
        );
        for seed in 1..SCHEDULES {
            let events = journal(scenario, seed);
            assert_eq!(rebuilt(&events), expected, "scenario {n}, seed {seed}");
            let names = |events: &[Event]| -> Vec<String> {
                events.iter().map(|event| event.fact.to_string()).collect()
            };
            orders += usize::from(names(&events) != names(&first));
        }
    }
    // Some scenarios have only one order: a lead that delegates one task at a time.
    assert!(orders > 1_500, "{orders} other orders");
}
