//! Turns that are accepted with preceding messages: all of it, or nothing.

use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::{Timestamp, tree};
use unisono_session::event::{RequestKey, Work};
use unisono_session::machine::PrecedingMessages;
use unisono_session::{Input, Refusal};

use crate::shell::*;

fn said(n: u64, role: Role, parts: Vec<Part>) -> NewMessage {
    NewMessage::new(message_id(700_000 + n), role, parts, Timestamp(7))
}

fn text(n: u64, role: Role, text: &str) -> NewMessage {
    said(n, role, vec![Part::text(text)])
}

fn calls(n: u64, ids: &[&str]) -> NewMessage {
    let calls = ids.iter().map(|id| call_part(id));
    said(n, Role::Assistant, calls.collect())
}

fn result(id: &str) -> Part {
    result_part(id, "r")
}

/// Turn `n` after these messages, which follow the current head of `main`.
fn behind(shell: &Shell, n: u64, messages: Vec<NewMessage>, key: Option<RequestKey>) -> Input {
    Input::AcceptAfter {
        preceding: PrecedingMessages {
            head: shell.state().tree().head("main"),
            messages,
        },
        key,
        turn: Box::new(turn(n, team(agent("lead"), []))),
    }
}

/// The same with the results of these calls as its input.
fn results(shell: &Shell, n: u64, messages: Vec<NewMessage>, ids: &[&str]) -> Input {
    let mut asked = behind(shell, n, messages, None);
    if let Input::AcceptAfter { turn, .. } = &mut asked
        && let Work::Answer { input, .. } = &mut turn.work
    {
        input.role = Role::Tool;
        input.parts = ids.iter().map(|id| result(id)).collect();
    }
    asked
}

#[test]
fn preceding_messages_are_appended_once_per_key() {
    for first in [0, 2] {
        let mut shell = Shell::with(first);
        let said = vec![text(1, Role::User, "a"), text(2, Role::Assistant, "b")];
        let asked = behind(&shell, 0, said, Some(key("k", "one")));
        shell.feed(asked.clone()).unwrap();
        // Repeated by a client that does not know whether the request arrived, with the same turn
        // or another one.
        shell.feed(asked.clone()).unwrap();
        let again = behind(
            &shell,
            1,
            vec![text(3, Role::User, "a")],
            Some(key("k", "one")),
        );
        shell.feed(again).unwrap();
        let other = behind(&shell, 2, Vec::new(), Some(key("k", "two")));
        assert_eq!(shell.feed(other), Err(Refusal::KeyReused("k".into())));
        shell.prepare();
        let mut shell = shell.recovered();
        shell.feed(asked).unwrap();
        let texts = shell.texts_after(usize::try_from(first).unwrap());
        assert_eq!(texts, ["a", "b", "what is left to do?"]);
        assert_eq!(shell.facts("posted").len(), 2);
        assert_eq!(shell.facts("turn_accepted").len(), 1);
        let assignment = shell.dispatched().remove(0);
        let seen = assignment.snapshot.unwrap().manifest().head;
        let seen = shell.state().tree().get(seen).unwrap().ordinal();
        assert_eq!(u64::from(seen.0), first + 3);
    }
}

#[test]
fn an_interrupted_input_is_completed() {
    let mut shell = Shell::with(2);
    let messages = vec![text(1, Role::User, "a"), text(2, Role::Assistant, "b")];
    let asked = behind(&shell, 0, messages.clone(), None);
    // Only the first of them reached the disk.
    shell.feed(append(messages[0].clone(), None)).unwrap();
    shell.feed(asked).unwrap();
    shell.prepare();
    assert_eq!(shell.texts_after(2), ["a", "b", "what is left to do?"]);
}

#[test]
fn a_refused_input_appends_nothing() {
    let mut shell = Shell::with(2);
    let before = shell.state().events();
    let not_called = |id: &str| Err(not_called(id));
    let new = |role| text(1, role, "a");
    let answered = said(2, Role::Tool, vec![result("c1")]);
    for (messages, refused) in [
        (vec![new(Role::User), answered.clone()], not_called("c1")),
        (
            vec![calls(1, &["c1"]), new(Role::User)],
            Err(tree::Error::DuplicateId(message_id(700_001)).into()),
        ),
        (
            vec![calls(3, &["c1"]), new(Role::User), answered.clone()],
            not_called("c1"),
        ),
        (
            vec![new(Role::User), text(3, Role::User, " ")],
            Err(Refusal::EmptyMessage),
        ),
        (
            vec![new(Role::Tool)],
            Err(Refusal::WrongParts { role: Role::Tool }),
        ),
    ] {
        let asked = behind(&shell, 0, messages, None);
        assert_eq!(shell.feed(asked), refused);
    }
    let asked = results(
        &shell,
        0,
        vec![calls(1, &["c1"]), answered.clone()],
        &["c1"],
    );
    assert_eq!(shell.feed(asked), not_called("c1"));
    // The turn is refused, so its messages are not appended.
    let mut asked = behind(&shell, 0, vec![new(Role::User)], None);
    if let Input::AcceptAfter { turn, .. } = &mut asked
        && let Work::Answer { input, .. } = &mut turn.work
    {
        input.parts = vec![Part::text(" ")];
    }
    assert_eq!(shell.feed(asked), Err(Refusal::EmptyTask));
    let mut moved = behind(&shell, 0, Vec::new(), None);
    if let Input::AcceptAfter { preceding, .. } = &mut moved {
        preceding.head = None;
    }
    assert_eq!(shell.feed(moved), Err(Refusal::BranchMoved("main".into())));
    assert_eq!(shell.state().events(), before);
    shell.accept(turn(7, team(agent("lead"), [])));
    let asked = behind(&shell, 0, Vec::new(), None);
    assert_eq!(shell.feed(asked), Err(Refusal::BranchBusy("main".into())));
}

#[test]
fn results_may_answer_calls_of_preceding_messages() {
    let mut shell = Shell::with(2);
    let said = vec![
        calls(1, &["c1", "c2"]),
        text(3, Role::Assistant, "Looking."),
        said(2, Role::Tool, vec![result("c2")]),
    ];
    let asked = results(&shell, 0, said, &["c1"]);
    shell.feed(asked).unwrap();
    shell.prepare();
    let tree = shell.state().tree();
    assert!(tree.unanswered(tree.head("main").unwrap()).is_empty());
    assert_eq!(shell.texts_after(2).len(), 4);
    let shell = shell.recovered();
    assert_eq!(shell.texts_after(2).len(), 4);
}
