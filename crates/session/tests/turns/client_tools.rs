//! Client tools: a call of one ends the run, and the next turn begins with its result.

use std::sync::Arc;

use unisono_context::call::{ClientOptions, ToolCall, Usage};
use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::snapshot::ToolSpec;
use unisono_session::event::{Outcome, Work};
use unisono_session::machine::NewTurn;
use unisono_session::run::Ending;
use unisono_session::{Input, Refusal};

use crate::shell::*;

fn call(id: &str, tool: &str) -> ToolCall {
    ToolCall::new(id, tool, "{}")
}

fn result(id: &str) -> Part {
    result_part(id, "12 degrees")
}

fn with_client_tools(n: u64, input: NewMessage) -> NewTurn {
    NewTurn {
        work: Work::Answer {
            input,
            client_options: ClientOptions {
                stop: Vec::new(),
                tools: vec!["weather".into()],
                ..ClientOptions::default()
            },
        },
        tools: vec![ToolSpec::new("weather", "", "{}")],
        ..turn(n, team(agent("lead"), []))
    }
}

fn results(n: u64, parts: Vec<Part>) -> NewMessage {
    NewMessage {
        role: Role::Tool,
        parts,
        ..input(n)
    }
}

/// A turn whose lead has called client tools, and one other tool.
fn shell_with_client_calls(text: &str) -> Shell {
    let mut shell = Shell::with(2);
    let lead = shell.dispatch(with_client_tools(0, input(0))).remove(0);
    assert!(lead.client_options.has("weather"));
    let calls = [("a", "weather"), ("x", "recall"), ("b", "weather")];
    let calls = calls.map(|(id, tool)| call(id, tool)).into();
    shell.end(&lead, finished(text, calls, Usage::default()));
    shell
}

fn newest(shell: &Shell) -> Vec<Part> {
    let tree = shell.state().tree();
    let head = tree.head("main").unwrap();
    tree.get(head).unwrap().message.parts.clone()
}

#[test]
fn client_tool_calls_are_the_answer_and_their_results_the_next_input() {
    for text in ["", "I look."] {
        let mut shell = shell_with_client_calls(text);
        assert_eq!(shell.outcome(0), &Outcome::Answered);
        let calls = newest(&shell);
        let said = usize::from(!text.is_empty());
        assert_eq!(calls.len(), said + 2, "an unknown tool has no owner");
        assert!(matches!(&calls[said], Part::ToolCall { id, .. } if **id == *"a"));

        let both = results(1, vec![result("b"), result("a")]);
        shell.accept(with_client_tools(1, both.clone()));
        assert_eq!(newest(&shell), both.parts);
        let lead = shell.dispatched().remove(0);
        assert!(
            lead.task
                .starts_with("The tools that you called have answered")
        );
        let last = lead.snapshot.as_ref().unwrap().entries().last().unwrap();
        assert_eq!(last.message().answers.len(), 2);
        let shell = shell.recovered();
        assert!(shell.state().turn(turn_id(1)).is_some());
    }
}

#[test]
fn a_run_ends_only_with_calls_of_client_tools() {
    let mut shell = Shell::with(2);
    let lead = shell.dispatch(turn(0, team(agent("lead"), []))).remove(0);
    let calls = vec![call("a", "weather")];
    shell.end(&lead, finished("done", calls, Usage::default()));
    let ended = shell.facts("run_ended");
    let unisono_session::Fact::RunEnded { ending, .. } = ended[0] else {
        panic!("{ended:?}");
    };
    assert!(matches!(&**ending, Ending::Finished { calls, .. } if calls.is_empty()));
    assert_eq!(newest(&shell), [Part::text("done")]);
}

#[test]
fn results_answer_the_newest_calls_once_and_never_queue() {
    let refused = |shell: &mut Shell, parts: Vec<Part>| {
        let turn = with_client_tools(1, results(1, parts));
        shell.feed(Input::Accept(Box::new(turn))).unwrap_err()
    };
    let mut shell = shell_with_client_calls("");
    assert_eq!(refused(&mut shell, vec![result("c")]), not_called("c"));
    let twice = vec![result("a"), result("a")];
    assert_eq!(refused(&mut shell, twice), not_called("a"));
    assert_eq!(
        refused(&mut shell, vec![]),
        Refusal::NotAnInput(input(1).id)
    );
    let mixed = vec![result("a"), Part::text("and more")];
    assert_eq!(refused(&mut shell, mixed), Refusal::NotAnInput(input(1).id));

    // One of two results may be missing; an open turn, or an answered call, refuses further
    // results.
    shell.accept(with_client_tools(2, results(2, vec![result("a")])));
    let busy = Refusal::BranchBusy("main".into());
    assert_eq!(refused(&mut shell, vec![result("b")]), busy);
    let lead = shell.dispatched().remove(0);
    shell.finish(&lead, "12 degrees.");
    assert_eq!(refused(&mut shell, vec![result("a")]), not_called("a"));
    let none = Arc::<str>::from("");
    for messages in [0, 2] {
        let mut fresh = Shell::with(messages);
        assert_eq!(refused(&mut fresh, vec![result(&none)]), not_called(""));
    }
}

#[test]
fn a_text_may_follow_results_in_one_input() {
    let mut shell = shell_with_client_calls("I look.");
    let said = NewMessage {
        parts: vec![result("a"), result("b"), Part::text("And in Basel?")],
        ..input(1)
    };
    for (parts, why) in [
        (vec![Part::text("And?"), result("a")], "results come first"),
        (vec![result("a"), Part::text(" ")], "nothing is said"),
        (vec![result("c"), Part::text("And?")], "nobody called that"),
    ] {
        let wrong = NewMessage { parts, ..input(1) };
        let refused = shell.feed(Input::Accept(Box::new(with_client_tools(1, wrong))));
        assert!(refused.is_err(), "{why}");
    }
    shell.accept(with_client_tools(1, said.clone()));
    let tree = shell.state().tree();
    let head = tree.head("main").unwrap();
    let [said_last, results] = [0, 1].map(|n| &tree.path(head).nth(n).unwrap().message);
    assert_eq!((said_last.id, said_last.role), (said.id, Role::User));
    assert_eq!(said_last.parts, [Part::text("And in Basel?")]);
    assert_eq!(
        (results.role, &results.parts[..]),
        (Role::Tool, &said.parts[..2])
    );
    let lead = shell.dispatched().remove(0);
    assert_eq!(&*lead.task, "And in Basel?");
    shell.finish(&lead, "Cold too.");
    assert_eq!(shell.outcome(1), &Outcome::Answered);
    assert_eq!(newest(&shell), [Part::text("Cold too.")]);
    assert_eq!(newest(&shell.recovered()), [Part::text("Cold too.")]);
}
