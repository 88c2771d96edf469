//! Inputs that arrive while a branch is compacted or its agents work are journaled at once and come
//! next, in order of arrival.

use std::collections::VecDeque;

use proptest::prelude::*;
use unisono_context::{MessageId, Role};
use unisono_session::Effect;
use unisono_session::event::{Outcome, Work};
use unisono_session::machine::NewTurn;
use unisono_session::turn::Phase;

use crate::shell::*;

const TURNS: u64 = 5;

/// Turns that compact repeatedly, every other one with delegates.
fn turns() -> VecDeque<NewTurn> {
    let all = (0..TURNS).map(|n| {
        let delegates = if n % 2 == 0 {
            vec![agent("a"), agent("b")]
        } else {
            Vec::new()
        };
        compacting(n, team(agent("lead"), delegates), 120)
    });
    all.collect()
}

/// Carries out the effect at index `at`. An agent answers with its turn's id.
fn carry_out(shell: &mut Shell, at: usize) {
    let input = match shell.waiting.remove(at) {
        Effect::Count(request) => count(&request),
        Effect::Measure(request) => measured(&request, None),
        Effect::Compact(job) => compact(&job),
        Effect::Render(request) => render(&request),
        Effect::Dispatch(assignment) => {
            let text = format!("for {}", assignment.turn);
            return shell.finish(&assignment, &text);
        }
        other => panic!("{other:?}"),
    };
    shell.feed(input).unwrap();
}

/// The state of the branch when an input arrived.
fn phase(shell: &Shell) -> &'static str {
    match shell.state().active_turn("main").map(|turn| &turn.phase) {
        Some(Phase::Compacting(_)) => "compacting",
        Some(Phase::Frozen { .. }) => "working",
        _ => "other",
    }
}

fn input_of(turn: &NewTurn) -> MessageId {
    match &turn.work {
        Work::Answer { input, .. } => input.id,
        _ => panic!("it answers"),
    }
}

/// The inputs of `main` with their answers, in the order of the branch.
fn exchanges(shell: &Shell) -> Vec<(MessageId, String)> {
    let tree = shell.state().tree();
    let head = tree.head("main").unwrap();
    let last = tree.get(head).unwrap().ordinal();
    let nodes = tree.range(head, unisono_context::Ordinal(13)..=last);
    let mut found: Vec<(MessageId, String)> = Vec::new();
    for node in nodes {
        match node.role() {
            Role::User => found.push((node.message.id, String::new())),
            Role::Assistant => found.last_mut().unwrap().1 = node.message.countable_text(),
            Role::Tool | Role::System => {}
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arrivals_are_journaled_at_once_and_come_next_in_order(
        choices in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..60),
        restart in any::<prop::sample::Index>(),
    ) {
        let mut shell = Shell::with(12);
        let mut arriving = turns();
        let expected: Vec<(MessageId, String)> = arriving
            .iter()
            .map(|turn| (input_of(turn), format!("for {}", turn.id)))
            .collect();
        let restart = restart.index(choices.len() + 1);
        for (step, (arrives, at)) in choices.into_iter().enumerate() {
            if step == restart {
                shell = shell.recovered();
            }
            if let Some(turn) = arriving.pop_front_if(|_| arrives || shell.waiting.is_empty()) {
                let (before, was) = (shell.journal.len(), phase(&shell));
                shell.accept(turn);
                let journaled = shell.journal[before..].iter().map(|event| event.fact.name());
                prop_assert!(journaled.clone().any(|name| name == "turn_accepted"));
                if was != "other" {
                    // It changes nothing in progress.
                    prop_assert_eq!(journaled.filter(|n| *n != "defined").count(), 1);
                    prop_assert_eq!(phase(&shell), was);
                }
            } else if !shell.waiting.is_empty() {
                let at = at.index(shell.waiting.len());
                carry_out(&mut shell, at);
            }
        }
        arriving.into_iter().for_each(|turn| shell.accept(turn));
        while !shell.waiting.is_empty() {
            carry_out(&mut shell, 0);
        }
        prop_assert_eq!(exchanges(&shell), expected);
        for n in 0..TURNS {
            prop_assert_eq!(shell.outcome(n), &Outcome::Answered);
        }
        let folded = unisono_session::State::from_events(&shell.journal).unwrap();
        prop_assert_eq!(folded.tree().head("main"), shell.state().tree().head("main"));
    }
}

#[test]
fn an_input_waits_for_the_compaction_and_for_the_agents_it_meets() {
    let mut shell = Shell::with(12);
    let mut arriving = turns();
    shell.accept(arriving.pop_front().unwrap());
    for expected in ["compacting", "working"] {
        while phase(&shell) != expected {
            carry_out(&mut shell, 0);
        }
        shell.accept(arriving.pop_front().unwrap());
        assert_eq!(phase(&shell), expected);
        assert_eq!(shell.facts("turn_started").len(), 1);
    }
    while !shell.waiting.is_empty() {
        carry_out(&mut shell, 0);
    }
    let answers: Vec<String> = exchanges(&shell)
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    assert_eq!(answers, [0, 1, 2].map(|n| format!("for {}", turn_id(n))));
}
