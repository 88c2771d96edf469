//! Pins: recorded once, for whole units, kept through every compaction.

use unisono_context::message::{NewMessage, Role};
use unisono_context::{MessageId, Timestamp, tree};
use unisono_session::machine::Import;
use unisono_session::{Fact, Input, Machine, Refusal};

use crate::shell::*;

fn pin_on(branch: &str, message: MessageId) -> Input {
    Input::Pin {
        branch: branch.into(),
        messages: vec![message],
        pinned: true,
    }
}

/// The messages of the newest turn's snapshot.
fn frozen(shell: &Shell) -> Vec<u32> {
    let Some(Fact::Frozen { manifest, .. }) = shell.facts("frozen").pop() else {
        panic!("nothing was frozen");
    };
    let spans = manifest.spans.iter();
    spans.flat_map(|s| s.first.0..=s.last.0).collect()
}

#[test]
fn a_pin_is_recorded_once_and_removed_once() {
    let mut shell = Shell::with(6);
    for pinned in [true, true, false, false] {
        shell.feed(pin(message_id(2), pinned)).unwrap();
        assert_eq!(shell.state().pinned().contains(&message_id(2)), pinned);
    }
    assert_eq!(shell.facts("pinned").len(), 1);
    assert_eq!(shell.facts("unpinned").len(), 1);
}

#[test]
fn a_message_of_another_branch_is_refused() {
    let mut shell = Shell::with(6);
    let at = message_id(3);
    let branch = "short".into();
    shell.feed(Input::Fork { branch, at }).unwrap();
    let unknown = shell.feed(pin(message_id(99), true));
    let error = tree::Error::UnknownMessage(message_id(99));
    assert_eq!(unknown, Err(Refusal::Tree(error)));
    let elsewhere = shell.feed(pin_on("short", message_id(5)));
    assert!(matches!(elsewhere, Err(Refusal::NotOnBranch { .. })));
    let nowhere = shell.feed(pin_on("mian", message_id(5)));
    assert_eq!(nowhere, Err(Refusal::UnknownBranch("mian".into())));
    assert!(shell.state().pinned().is_empty());
}

#[test]
fn pins_hold_through_twenty_compactions_before_and_after_the_summary() {
    let mut shell = Shell::with(12);
    shell.feed(pin(message_id(2), true)).unwrap();
    for n in 0..20 {
        let briefs = shell.dispatch(compacting(n, team(agent("lead"), []), 60));
        shell.finish(
            &briefs[0],
            "a long answer, so that the next turn compacts again, surely",
        );
        let shown = frozen(&shell);
        assert!(shown.contains(&2), "{n}: {shown:?}");
        assert_eq!(shown.contains(&4), n > 5, "{n}: {shown:?}");
        if n == 5 {
            // Already replaced by a summary.
            shell.feed(pin(message_id(4), true)).unwrap();
        }
    }
    assert!(shell.facts("compacted").len() >= 20);
    let recovered = shell.recovered();
    let pinned = [message_id(2), message_id(4)];
    assert!(recovered.state().pinned().iter().eq(&pinned));
}

#[test]
fn a_pin_does_not_change_a_frozen_context() {
    let mut shell = Shell::with(12);
    let briefs = shell.dispatch(compacting(0, team(agent("lead"), []), 60));
    let before = briefs[0].snapshot.as_ref().unwrap().id();
    shell.feed(pin(message_id(1), true)).unwrap();
    let mut shell = shell.recovered();
    let briefs = shell.dispatched();
    assert_eq!(briefs[0].snapshot.as_ref().unwrap().id(), before);
    shell.finish(&briefs[0], "done");
    shell.accept(compacting(1, team(agent("lead"), []), 60));
    shell.dispatched();
    assert!(frozen(&shell).contains(&1));
}

#[test]
fn an_imported_pin_stays_removed_after_its_removal() {
    let call = NewMessage {
        parts: vec![call_part("c")],
        ..NewMessage::text(message_id(50), Role::Assistant, "", Timestamp(0))
    };
    let mut import = Import {
        pinned: vec![message_id(2)],
        ..conversation(4)
    };
    import.messages.push((Some(message_id(4)), call));
    let mut machine = Machine::new();
    let now = Timestamp(0);
    let again = |machine: &mut Machine| machine.handle(Input::Import(import.clone()), now);
    again(&mut machine).unwrap();
    assert!(machine.state().pinned().contains(&message_id(2)));
    machine.handle(pin(message_id(2), false), now).unwrap();
    let events = again(&mut machine).unwrap().events;
    assert!(events.is_empty(), "{events:?}");
    let unknown = Import {
        pinned: vec![message_id(77)],
        ..conversation(4)
    };
    let refused = Machine::new().handle(Input::Import(unknown), now);
    assert!(matches!(refused, Err(Refusal::Tree(_))));
}
