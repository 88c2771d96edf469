//! Messages that are appended without a turn: at once, after a turn, once per key.

use unisono_context::attachment::{Content, Extent};
use unisono_context::message::{NewMessage, Part, ReportedUsage, Role};
use unisono_context::{AgentId, MessageId, Timestamp, Tokens};
use unisono_session::append::AppendedPosition;
use unisono_session::machine::{Append, NewTurn};
use unisono_session::run::Usage;
use unisono_session::{Input, Refusal};

use crate::shell::*;

fn said(n: u64, role: Role, parts: Vec<Part>) -> NewMessage {
    NewMessage {
        author: Some(AgentId::from("Zoë")),
        ..NewMessage::new(message_id(500_000 + n), role, parts, Timestamp(7))
    }
}

fn text(n: u64, text: &str) -> NewMessage {
    said(n, Role::User, vec![Part::text(text)])
}

fn result(id: &str) -> Part {
    result_part(id, "")
}

fn posted(message: NewMessage) -> Input {
    append(message, None)
}

fn keyed(name: &str, request: &str, message: NewMessage) -> Input {
    append(message, Some(key(name, request)))
}

#[test]
fn an_appended_message_is_on_its_branch_at_once_and_starts_nothing() {
    let mut shell = Shell::with(2);
    shell.feed(posted(text(1, "We ship on Friday."))).unwrap();
    assert_eq!(shell.texts_after(2), ["We ship on Friday."]);
    assert!(shell.waiting.is_empty(), "{:?}", shell.waiting);
    // A repetition by a client that does not know whether the request arrived is the same message.
    shell.feed(posted(text(1, "We ship on Friday."))).unwrap();
    assert_eq!(shell.facts("posted").len(), 1);
    let other = shell.feed(posted(text(1, "another")));
    assert!(matches!(other, Err(Refusal::Tree(_))), "{other:?}");
    // An empty session gets its first message in this way.
    let mut shell = Shell::with(0);
    shell.feed(posted(text(1, "first"))).unwrap();
    let shell = shell.recovered();
    assert_eq!(shell.texts_after(0), ["first"]);
}

#[test]
fn while_a_turn_is_open_messages_wait_and_the_frozen_context_has_none() {
    let mut shell = Shell::with(2);
    shell.accept(turn(0, team(agent("lead"), [])));
    shell.feed(posted(text(1, "meanwhile"))).unwrap();
    shell.feed(posted(text(2, "and more"))).unwrap();
    let assignment = shell.dispatch(turn(1, team(agent("lead"), []))).remove(0);
    assert_eq!(shell.texts_after(2), ["what is left to do?"]);
    assert_eq!(shell.state().waiting_messages("main").len(), 2);
    let place = AppendedPosition::find(shell.state(), text(1, "").id, None);
    assert_eq!(place.ordinal, None);
    // A restart changes nothing.
    let mut shell = shell.recovered();
    assert_eq!(shell.state().waiting_messages("main").len(), 2);
    drop(shell.dispatched());
    shell.finish(&assignment, "all is done");
    let question = "what is left to do?";
    let expected = [question, "all is done", "meanwhile", "and more", question];
    assert_eq!(shell.texts_after(2), expected);
    assert!(shell.state().waiting_messages("main").is_empty());
    // The next turn's agents see them.
    let next = shell.dispatched().remove(0);
    let seen = next.snapshot.unwrap().manifest().head;
    assert_eq!(shell.state().tree().get(seen).unwrap().ordinal().0, 7);
}

#[test]
fn waiting_messages_are_appended_however_the_turn_ends() {
    let mut shell = Shell::with(2);
    shell.accept(turn(0, team(agent("lead"), [])));
    shell.feed(posted(text(1, "meanwhile"))).unwrap();
    let turn = turn_id(0);
    shell.feed(Input::Cancel { turn }).unwrap();
    assert_eq!(shell.texts_after(3), ["meanwhile"]);
    // A queued turn may be cancelled: the active one continues.
    shell.accept(compacting(1, team(agent("lead"), []), 10_000));
    shell.accept(super::shell::turn(2, team(agent("lead"), [])));
    shell.feed(posted(text(2, "later"))).unwrap();
    let turn = turn_id(2);
    shell.feed(Input::Cancel { turn }).unwrap();
    assert_eq!(shell.state().waiting_messages("main").len(), 1);
}

#[test]
fn attachments_of_messages_and_tasks_that_wait_count_for_the_session() {
    let photo = |n| {
        let content = Content::new((*b"GIF89a").into(), Extent::Pages(1));
        let part = Part::attachment("photo.gif", "image/gif", 1_000, Some(content));
        said(n, Role::User, vec![Part::text("See."), part])
    };
    let mut shell = Shell::with(2);
    shell.accept(turn(0, team(agent("lead"), [])));
    shell.feed(posted(photo(1))).unwrap();
    assert_eq!(shell.state().attached_bytes(), 1_000);
    shell.accept(NewTurn {
        work: answering(photo(2)),
        ..turn(1, team(agent("lead"), []))
    });
    assert_eq!(shell.state().attached_bytes(), 2_000);
    // They count once when they are appended.
    let turn = turn_id(0);
    shell.feed(Input::Cancel { turn }).unwrap();
    assert!(shell.state().waiting_messages("main").is_empty());
    assert_eq!(shell.state().attached_bytes(), 2_000);
    assert_eq!(shell.recovered().state().attached_bytes(), 2_000);
}

#[test]
fn a_key_identifies_one_message_and_no_turn() {
    let mut shell = Shell::with(2);
    shell.feed(keyed("a", "one", text(1, "one"))).unwrap();
    shell.feed(keyed("a", "one", text(2, "one"))).unwrap();
    assert_eq!(shell.texts_after(2), ["one"]);
    let Input::Append(again) = keyed("a", "one", text(2, "one")) else {
        panic!("not an append");
    };
    let place = AppendedPosition::find(shell.state(), again.message.id, again.key.as_ref());
    assert_eq!(place.message, text(1, "").id);
    let mut shell = shell.recovered();
    let reused = Err(Refusal::KeyReused("a".into()));
    assert_eq!(shell.feed(keyed("a", "two", text(3, "two"))), reused);
    let key = key("a", "one");
    let asked = Box::new(turn(0, team(agent("lead"), [])));
    assert_eq!(shell.feed(Input::AcceptKeyed { key, turn: asked }), reused);
    assert_eq!(shell.facts("posted").len(), 1);
}

#[test]
fn results_answer_calls_that_are_there() {
    let not_called = |id: &str| Err(not_called(id));
    for busy in [false, true] {
        let mut shell = Shell::with(2);
        if busy {
            shell.accept(turn(0, team(agent("lead"), [])));
        }
        let answer = |n, id: &str| posted(said(n, Role::Tool, vec![result(id)]));
        assert_eq!(shell.feed(answer(1, "c1")), not_called("c1"));
        let calls = vec![Part::text("I look"), call_part("c1"), call_part("c2")];
        shell.feed(posted(said(2, Role::Assistant, calls))).unwrap();
        shell.feed(answer(3, "c2")).unwrap();
        assert_eq!(shell.feed(answer(4, "c2")), not_called("c2"), "{busy}");
        shell.feed(answer(5, "c1")).unwrap();
        if busy {
            let turn = turn_id(0);
            shell.feed(Input::Cancel { turn }).unwrap();
        }
        let tree = shell.state().tree();
        let head = tree.head("main").unwrap();
        assert!(tree.unanswered(head).is_empty());
        assert_eq!(tree.get(head).unwrap().message.answers.len(), 1);
        let shell = shell.recovered();
        assert_eq!(shell.state().tree().head("main"), Some(head));
    }
}

#[test]
fn a_message_with_wrong_parts_for_its_role_is_refused() {
    let mut shell = Shell::with(2);
    let wrong = |role| Err(Refusal::WrongParts { role });
    for (role, part) in [
        (Role::User, call_part("c")),
        (Role::User, result("c")),
        (Role::System, call_part("c")),
        (Role::Tool, Part::text("a")),
        (Role::Assistant, result("c")),
    ] {
        let refused = shell.feed(posted(said(1, role, vec![part])));
        assert_eq!(refused, wrong(role));
    }
    for parts in [vec![], vec![Part::text(" \n")]] {
        let refused = shell.feed(posted(said(1, Role::User, parts)));
        assert_eq!(refused, Err(Refusal::EmptyMessage));
    }
    let elsewhere = shell.feed(Input::Append(Append {
        branch: "elsewhere".into(),
        message: text(1, "a"),
        key: None,
    }));
    assert_eq!(elsewhere, Err(Refusal::UnknownBranch("elsewhere".into())));
    // The id of a waiting input is in use.
    shell.accept(turn(0, team(agent("lead"), [])));
    shell.accept(turn(1, team(agent("lead"), [])));
    let id: MessageId = input(1).id;
    let taken = shell.feed(posted(NewMessage { id, ..text(1, "a") }));
    assert!(matches!(taken, Err(Refusal::Tree(_))), "{taken:?}");
    assert!(shell.facts("posted").is_empty());
}

#[test]
fn an_answer_has_the_usage_that_its_provider_reported() {
    let mut shell = Shell::with(2);
    shell.accept(turn(
        0,
        team(agent("lead"), [agent("risks"), agent("facts")]),
    ));
    let end = |input, output| {
        let usage = Usage {
            input: Tokens(input),
            output: Tokens(output),
            ..Usage::default()
        };
        finished("an answer", Vec::new(), usage)
    };
    let briefs = shell.dispatched();
    shell.end(&briefs[0], end(100, 10));
    // Nothing was reported for this one.
    shell.end(&briefs[1], end(0, 0));
    let lead = shell.dispatched().remove(0);
    shell.end(&lead, end(300, 30));
    let shell = shell.recovered();
    let tree = shell.state().tree();
    let path = tree.path(tree.head("main").unwrap());
    let usage: Vec<_> = path.map(|node| node.message.usage).take(5).collect();
    let reported = |input, output| {
        Some(ReportedUsage {
            input: Tokens(input),
            output: Tokens(output),
        })
    };
    let expected = [reported(300, 30), None, reported(100, 10), None, None];
    assert_eq!(usage, expected, "answer, results, calls, question");
}
