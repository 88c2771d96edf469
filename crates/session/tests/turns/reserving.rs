//! The needs of a run besides the context are reserved before the context is planned: a context
//! that needs no compaction fits its runs, and one that fits is answered (B5, S11).

use std::sync::Arc;

use proptest::prelude::*;
use unisono_context::message::{NewMessage, Role};
use unisono_context::policy::{Policy, Preset};
use unisono_context::{Timestamp, Tokens};
use unisono_session::agent::{Assignment, Definition, Team};
use unisono_session::assignment::RunAssignment;
use unisono_session::event::{DelegationLimits, Fact, Outcome};
use unisono_session::machine::{Import, NewTurn};
use unisono_session::reserve::{Role as Told, role_text};
use unisono_session::run::{DelegationStatus, Step};

use crate::rounds::{call, delegate};
use crate::shell::*;

/// The same as [`count`].
fn tokens(text: &str) -> u64 {
    text.len() as u64 / 4 + 1
}

/// The texts in a prompt besides the context, without results.
fn assignment_tokens(assignment: &RunAssignment) -> Tokens {
    let agent = &assignment.definition;
    let colleagues = assignment.colleagues.iter();
    let role = role_text(&Told {
        agent: agent.id.as_str(),
        description: &agent.description,
        instructions: &agent.instructions,
        allowed: &[],
        colleagues: &colleagues
            .map(|one| (one.id.as_str(), &*one.description))
            .collect::<Vec<_>>(),
        output_schema: None,
    });
    let task = if assignment.task.starts_with("what is left to do?") {
        0
    } else {
        tokens(&assignment.task)
    };
    Tokens(tokens(&role) + task) + agent.limits.per_message.times(2)
}

fn sized(name: &str, window: u64, persona: usize) -> Definition {
    let mut agent = agent(name);
    agent.limits.window = Tokens(window);
    agent.limits.max_output = Tokens(window / 6);
    agent.instructions = "do so. ".repeat(persona / 7).into();
    agent
}

/// Messages with these numbers of bytes.
fn history(sizes: &[usize]) -> Import {
    let mut import = conversation(sizes.len() as u64);
    for ((_, message), size) in import.messages.iter_mut().zip(sizes) {
        let text = "said ".repeat(size / 5);
        *message = NewMessage::text(message.id, message.role, text, message.at);
    }
    import
}

#[derive(Clone, Debug)]
struct Case {
    preset: Preset,
    window: u64,
    personas: Vec<usize>,
    tasks: Vec<Option<usize>>,
    history: Vec<usize>,
    results: u32,
    more: ExtraParts,
}

/// Further parts of a turn: bytes of its input, of the system text, of each pinned message (the
/// oldest ones), and of the persona of each available agent.
#[derive(Clone, Debug, Default)]
struct ExtraParts {
    input: usize,
    system: usize,
    pins: usize,
    available: Vec<usize>,
    rounds: u32,
}

fn case() -> impl Strategy<Value = Case> {
    let presets: Vec<Preset> = Preset::ALL
        .into_iter()
        .filter(|p| *p != Preset::Off)
        .collect();
    (
        proptest::sample::select(presets),
        prop_oneof![1_500u64..6_000, 6_000u64..40_000],
        proptest::collection::vec(0usize..3_000, 4),
        proptest::collection::vec(proptest::option::of(0usize..1_500), 0..4),
        prop_oneof![
            9 => proptest::collection::vec(prop_oneof![10usize..400, 400usize..6_000], 1..40),
            1 => proptest::collection::vec(10usize..1_000, 100..200),
        ],
        prop_oneof![Just(0u32), Just(10), Just(40)],
        more(),
    )
        .prop_map(
            |(preset, window, personas, tasks, history, results, more)| Case {
                preset,
                window,
                personas,
                tasks,
                history,
                results,
                more,
            },
        )
}

/// A history of about the size of its lead's window.
fn at_the_edge() -> impl Strategy<Value = Case> {
    (
        prop_oneof![
            Just(Preset::Off),
            proptest::sample::select(Preset::ALL.to_vec())
        ],
        1_500u64..8_000,
        proptest::collection::vec(0usize..600, 4),
        proptest::collection::vec(proptest::option::of(0usize..200), 1..4),
        prop_oneof![Just(0u32), Just(10)],
        600u64..800,
    )
        .prop_map(
            |(preset, window, personas, tasks, results, thousandths)| Case {
                preset,
                window,
                personas,
                tasks,
                history: vec![(window * thousandths / 1_000 / 5) as usize; 20],
                results,
                more: ExtraParts::default(),
            },
        )
}

fn more() -> impl Strategy<Value = ExtraParts> {
    (
        prop_oneof![Just(0usize), 0usize..2_000, 2_000usize..30_000],
        prop_oneof![Just(0usize), 0usize..6_000],
        prop_oneof![2 => Just(0usize), 1 => 1usize..4],
        proptest::collection::vec(0usize..2_000, 0..4),
        0u32..3,
    )
        .prop_map(|(input, system, pins, available, rounds)| ExtraParts {
            input,
            system,
            pins,
            available,
            rounds,
        })
}

impl Case {
    fn import(&self) -> Import {
        let mut import = history(&self.history);
        import.system = "be brief. ".repeat(self.more.system / 10 + 1).into();
        let oldest = import.messages.iter().take(self.more.pins);
        import.pinned = oldest.map(|(_, message)| message.id).collect();
        import
    }

    /// The maximum number of tokens of the required part and of the lead's own texts.
    fn needed(&self) -> u64 {
        let pinned = self.history.iter().take(self.more.pins);
        let pinned: u64 = pinned.map(|bytes| *bytes as u64 / 4 + 4).sum();
        let available = self.more.available.len() as u64 * 10;
        let more = (self.more.input + self.more.system) as u64 / 4;
        tokens(&self.lead().instructions) + pinned + available + more + 200
    }

    fn lead(&self) -> Definition {
        let mut lead = sized("lead", self.window, self.personas[0]);
        lead.tools = vec!["delegate".into()];
        lead
    }
}

fn taken(case: &Case, n: u64) -> NewTurn {
    let delegates = case.tasks.iter().zip(1..).map(|(task, at)| Assignment {
        agent: Arc::new(sized(&format!("d{at}"), case.window, case.personas[at])),
        task: task.map(|bytes| "a part ".repeat(bytes / 7 + 1).into()),
    });
    let available = case.more.available.iter().zip(1..);
    let available =
        available.map(|(persona, at)| Arc::new(sized(&format!("a{at}"), case.window, *persona)));
    NewTurn {
        policy: Policy::from_preset(case.preset),
        delegation: DelegationLimits {
            results: unisono_context::Ppm::percent(case.results),
            ..DelegationLimits::default()
        },
        work: answering(NewMessage::text(
            input(n).id,
            Role::User,
            format!("what is left to do?{}", " more".repeat(case.more.input / 5)),
            Timestamp(0),
        )),
        ..turn(
            n,
            Team {
                lead: Arc::new(case.lead()),
                delegates: delegates.collect(),
                available: available.collect(),
            },
        )
    }
}

/// The failure of a turn; none while it continues.
fn overflow(shell: &Shell) -> Option<String> {
    shell
        .journal
        .iter()
        .rev()
        .find_map(|event| match &event.fact {
            Fact::TurnEnded {
                outcome: Outcome::Failed { code, reason },
                ..
            } => Some(format!("{code}: {reason}")),
            _ => None,
        })
}

/// The lead delegates to each available agent, and each has headroom for its task.
fn takes_a_round(shell: &mut Shell, lead: &RunAssignment, round: u32) -> Result<(), TestCaseError> {
    let colleagues = lead.colleagues.iter();
    let calls: Vec<_> = colleagues
        .map(|agent| call(agent.id.as_str(), "look into it"))
        .collect();
    if calls.is_empty() {
        return Ok(());
    }
    delegate(shell, lead, round, &calls);
    for child in shell.dispatched() {
        let needs = assignment_tokens(&child);
        prop_assert!(
            needs <= child.headroom,
            "child: {needs} of {}",
            child.headroom
        );
        shell.finish(&child, "looked");
    }
    let status = shell.state().delegation_status(lead.run, round);
    let DelegationStatus::Ended(results) = status else {
        return Err(TestCaseError::fail("the round has not ended"));
    };
    shell.step(lead, Step::Tools(results));
    Ok(())
}

/// Three turns, each answered, or too small for its required part.
fn is_answered(case: &Case) -> Result<(), TestCaseError> {
    let mut shell = Shell::from_import(case.import());
    for n in 0..3 {
        let briefs = shell.dispatch(taken(case, n));
        if let Some(reason) = overflow(&shell) {
            let usable = case.window - case.window / 6 - case.window / 20;
            let needs = case.needed();
            // A tenth of the rest is more than the input and the smallest summary.
            prop_assert!(usable < needs + 400, "{reason}");
            return Ok(());
        }
        for assignment in &briefs {
            let needs = assignment_tokens(assignment);
            prop_assert!(
                needs <= assignment.headroom,
                "{}: {needs} of {}",
                assignment.definition.id,
                assignment.headroom
            );
            shell.finish(assignment, &"an answer ".repeat(case.history.len() * 4));
        }
        let lead = shell.dispatched();
        for assignment in &lead {
            let needs = assignment_tokens(assignment);
            prop_assert!(
                needs <= assignment.headroom,
                "lead: {needs} of {}",
                assignment.headroom
            );
            for round in 1..=case.more.rounds {
                takes_a_round(&mut shell, assignment, round)?;
            }
            shell.finish(assignment, "done");
        }
        let at = Timestamp(shell.now.0 + 1_000);
        shell.now = at;
        prop_assert!(overflow(&shell).is_none());
        prop_assert_eq!(shell.state().open_turns().count(), 0);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_turn_whose_personas_fit_is_answered(case in case()) {
        is_answered(&case)?;
    }
}

/// The maximum size of one note in place of all results, and of the fixed words of a prompt.
const RESULTS_NOTE: Tokens = Tokens(64);
const FIXED_WORDS: Tokens = Tokens(96);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_lead_whose_delegates_were_asked_has_room_for_a_note_about_them(case in at_the_edge()) {
        let mut shell = Shell::from_import(case.import());
        let mut asked = shell.dispatch(taken(&case, 0));
        // Delegates that are too small are refused.
        if asked.iter().any(|assignment| assignment.definition.id.as_str() != "lead") {
            for delegate in &asked {
                shell.finish(delegate, &"an answer ".repeat(400));
            }
            asked = shell.dispatched();
            prop_assert_eq!(asked.len(), 1, "{:?}", overflow(&shell));
        }
        for lead in asked {
            let needs = assignment_tokens(&lead) + FIXED_WORDS + RESULTS_NOTE;
            prop_assert!(needs <= lead.headroom, "{} of {}", needs, lead.headroom);
        }
    }
}

#[test]
fn a_refusal_under_off_has_the_usable_tokens_of_the_team() {
    let case = Case {
        preset: Preset::Off,
        window: 6_000,
        personas: vec![100; 4],
        tasks: vec![Some(40); 3],
        history: vec![1_200; 20],
        results: 10,
        more: ExtraParts::default(),
    };
    let mut shell = Shell::from_import(case.import());
    shell.accept(taken(&case, 0));
    assert!(shell.dispatched().is_empty(), "no delegate is asked");
    insta::assert_snapshot!(
        overflow(&shell).unwrap(),
        @"context_overflow: agent lead, model fake/model: context overflow: the pending input, pinned messages and what must stay need 6088 tokens, but only 4502 of a window of 6000 are left for them (4110 usable tokens, and 392 that are otherwise kept for delegates)"
    );
}

#[test]
fn a_context_just_below_usable_is_compacted_before_its_runs_lack_headroom() {
    let case = |bytes| Case {
        preset: Preset::Retention,
        window: 4_000,
        personas: vec![1_600, 0, 0, 0],
        tasks: Vec::new(),
        history: vec![bytes; 20],
        results: 10,
        more: ExtraParts::default(),
    };
    // 4,000 minus 666 of output and 200 of safety; the lead's own texts have about 400 tokens.
    let mut compacted = Vec::new();
    for bytes in (200..=700).step_by(10) {
        let mut shell = Shell::from_import(history(&[bytes; 20]));
        let assignment = shell.dispatch(taken(&case(bytes), 0)).remove(0);
        assert!(
            assignment_tokens(&assignment) <= assignment.headroom,
            "{bytes}"
        );
        let planned = shell.journal.iter();
        compacted.push(
            planned
                .filter(|e| matches!(e.fact, Fact::CompactionPlanned { .. }))
                .count(),
        );
    }
    assert_eq!(compacted.first(), Some(&0));
    assert!(compacted.last().is_some_and(|steps| *steps > 0));
}

/// Whether a turn with a pinned message of that many bytes and that many further messages is
/// answered.
fn is_answered_beside_pin(preset: Preset, pinned: usize, others: usize) -> bool {
    let mut history = vec![600; others + 1];
    history[0] = pinned;
    let case = Case {
        preset,
        window: 20_000,
        personas: vec![100; 4],
        tasks: Vec::new(),
        history,
        results: 10,
        more: ExtraParts {
            pins: 1,
            ..ExtraParts::default()
        },
    };
    let mut shell = Shell::from_import(case.import());
    shell.accept(taken(&case, 0));
    !shell.dispatched().is_empty()
}

#[test]
fn pins_that_leave_room_for_a_note_only_do_not_stop_a_long_conversation() {
    for preset in [
        Preset::Truncate,
        Preset::Checkpoint,
        Preset::Retention,
        Preset::Progressive,
        Preset::Tiered,
    ] {
        let (mut answered, mut refused) = (0, 0);
        for pinned in (57_000..64_000).step_by(400) {
            // 50 tokens more than the pinned message: a note about all others has at most 35.
            if is_answered_beside_pin(preset, pinned + 200, 0) {
                let long = is_answered_beside_pin(preset, pinned, 200);
                assert!(long, "{preset}: {pinned} bytes");
                answered += 1;
            } else {
                refused += 1;
            }
        }
        assert!(
            answered > 0 && refused > 0,
            "{preset}: {answered}, {refused}"
        );
    }
}

#[test]
fn a_role_is_counted_once_for_all_turns() {
    let case = Case {
        preset: Preset::Checkpoint,
        window: 20_000,
        personas: vec![500, 500, 500, 500],
        tasks: vec![None, Some(100)],
        history: vec![100; 4],
        results: 10,
        more: ExtraParts::default(),
    };
    let mut shell = Shell::with(4);
    for n in 0..3 {
        shell.accept(taken(&case, n));
        for assignment in shell.dispatched() {
            shell.finish(&assignment, "found");
        }
        for assignment in shell.dispatched() {
            shell.finish(&assignment, "done");
        }
    }
    let counted = shell.journal.iter();
    let counted = counted.filter(|event| matches!(event.fact, Fact::PreambleCounted { .. }));
    // System text and tools, three roles, one task.
    assert_eq!(counted.count(), 5);
}
