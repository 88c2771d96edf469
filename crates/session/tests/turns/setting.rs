//! A session's overrides: recorded once, kept through a restart, imported with a conversation.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::Timestamp;
use unisono_session::machine::{Import, NewTurn};
use unisono_session::{Input, Machine, Refusal};

use crate::shell::*;

const NOW: Timestamp = Timestamp(1_000);

type Settings = BTreeMap<Arc<str>, Arc<str>>;

type Changes<'c> = &'c [(&'c str, Option<&'c str>)];
type Pairs<'p> = &'p [(&'p str, &'p str)];

fn set(changes: Changes<'_>) -> Input {
    let changes = changes.iter();
    let changes = changes.map(|(key, value)| ((*key).into(), value.map(Into::into)));
    Input::Set {
        changes: changes.collect(),
    }
}

fn settings(pairs: Pairs<'_>) -> Settings {
    let pairs = pairs.iter();
    pairs.map(|(key, v)| ((*key).into(), (*v).into())).collect()
}

#[test]
fn a_change_is_recorded_with_all_overrides() {
    const PRESET: &str = "compaction.preset";
    const LEAD: &str = "turn.lead";
    let mut shell = Shell::with(2);
    let rows: [(Changes<'_>, Pairs<'_>, usize); 5] = [
        (&[(PRESET, Some("off"))], &[(PRESET, "off")], 1),
        (&[(PRESET, Some("off"))], &[(PRESET, "off")], 1),
        (
            &[(LEAD, Some("facts"))],
            &[(PRESET, "off"), (LEAD, "facts")],
            2,
        ),
        (&[(PRESET, None), ("nothing", None)], &[(LEAD, "facts")], 3),
        (&[(LEAD, None)], &[], 4),
    ];
    for (changes, expected, events) in rows {
        shell.feed(set(changes)).unwrap();
        assert_eq!(
            **shell.state().settings(),
            settings(expected),
            "{changes:?}"
        );
        assert_eq!(shell.facts("settings_set").len(), events, "{changes:?}");
    }
    let refused = Machine::default().handle(set(&[(LEAD, Some("facts"))]), NOW);
    assert_eq!(refused.unwrap_err(), Refusal::NotCreated);
}

#[test]
fn a_step_has_the_overrides_of_the_start_of_its_turn() {
    let mut shell = Shell::with(12);
    shell
        .feed(set(&[("compaction.prompt", Some("code"))]))
        .unwrap();
    shell.feed(Input::Accept(Box::new(manual(1)))).unwrap();
    shell
        .feed(set(&[("compaction.prompt", Some("handoff"))]))
        .unwrap();
    let expected = settings(&[("compaction.prompt", "code")]);
    let mut shell = shell.recovered();
    assert_eq!(*shell.job().settings, expected);
}

#[test]
fn a_queued_turn_has_the_instructions_of_its_acceptance() {
    let mut shell = Shell::with(2);
    let texts = [(0, "Use metres."), (1, "Use feet."), (2, "Use yards.")];
    for (n, text) in texts {
        shell.accept(NewTurn {
            instructions: text.into(),
            ..turn(n, team(agent("lead"), []))
        });
    }
    let mut shell = shell.recovered();
    for (_, text) in texts {
        let assignment = shell.dispatched().remove(0);
        let snapshot = assignment.snapshot.clone().unwrap();
        let system = snapshot.preamble().system();
        assert!(system.ends_with(text), "{system}");
        shell.finish(&assignment, "done");
    }
}

#[test]
fn imported_overrides_are_recorded_once_even_after_a_crash() {
    let own = settings(&[("compaction.notice", "off")]);
    let import = Import {
        settings: own.clone(),
        ..conversation(3)
    };
    let mut whole = Machine::default();
    let events = whole.handle(Input::Import(import.clone()), NOW);
    let events = events.unwrap().events;
    assert_eq!(**whole.state().settings(), own);
    for kept in 1..=events.len() {
        let (mut again, _) = Machine::recover(&events[..kept], NOW).unwrap();
        again.handle(Input::Import(import.clone()), NOW).unwrap();
        assert_eq!(**again.state().settings(), own, "{kept} events were kept");
    }
    // Later changes stay.
    whole
        .handle(set(&[("compaction.notice", None)]), NOW)
        .unwrap();
    let again = whole.handle(Input::Import(import), NOW).unwrap();
    assert!(again.events.is_empty());
    assert!(whole.state().settings().is_empty());
}
