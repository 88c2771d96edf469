//! The journal of a complete turn, one line per fact.

use unisono_session::agent::Definition;
use unisono_session::run::{Reply, RunCause, Step, ToolCall};
use unisono_session::{Effect, Input};

use crate::shell::*;

#[test]
fn the_journal_of_a_turn_with_three_delegates() {
    let mut shell = Shell::with(12);
    let stubborn = Definition {
        retries: 1,
        ..agent("risks")
    };
    let delegates = [agent("facts"), stubborn, agent("actions")];
    let briefs = shell.dispatch(compacting(0, team(agent("lead"), delegates), 120));
    let reply = Reply {
        text: "let me look".into(),
        calls: vec![ToolCall::new("1", "recall", "{}")],
        ..Reply::default()
    };
    shell.step(&briefs[0], Step::Model(reply));
    shell.finish(&briefs[2], "the actions");
    shell.fail(&briefs[1], RunCause::Timeout);
    shell.finish(&briefs[0], "the facts");
    let Some(Effect::Wake(at)) = shell.waiting.pop() else {
        panic!("no pause");
    };
    shell.now = at;
    shell.feed(Input::Tick).unwrap();
    let second = shell.dispatched().remove(0);
    shell.fail(&second, RunCause::BadInput);
    let lead = shell.dispatched().remove(0);
    shell.finish(&lead, "the answer");

    let lines: Vec<String> = shell.journal.iter().map(|e| e.fact.to_string()).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    created "a session"
    appended user message 00000001
    appended assistant message 00000002
    appended user message 00000003
    appended assistant message 00000004
    appended user message 00000005
    appended assistant message 00000006
    appended user message 00000007
    appended assistant message 00000008
    appended user message 00000009
    appended assistant message 0000000a
    appended user message 0000000b
    appended assistant message 0000000c
    branch_set main at message 0000000c
    defined agent lead as 08db3b25916d
    defined agent facts as 5fda8a5e14f4
    defined agent risks as 0e9f68a52321
    defined agent actions as de29d04af20a
    turn_accepted 00000000: answer on main with 3 delegates
    turn_started 00000000
    preamble_counted 5 tokens of o200k_base
    preamble_counted 6 tokens of o200k_base
    preamble_counted 6 tokens of o200k_base
    preamble_counted 6 tokens of o200k_base
    preamble_counted 3 tokens of o200k_base
    counted 13 messages: 113 tokens of o200k_base
    compaction_planned 00000000: summarise #1–#10 of 120 tokens in at most 61; 152 tokens, target 96
    compacted summary 1 stands for #1–#10: 120 tokens become 20
    frozen 00000000: snapshot 8d90ea0da946, 1 summaries and 3 messages
    run_opened 128c8cc4: delegate 1 facts
    run_opened 105b9339: delegate 2 risks
    run_opened a36c5717: delegate 3 actions
    run_stepped 128c8cc4: model reply with 1 tool calls
    run_ended a36c5717: finished
    run_retried 105b9339: attempt 2 after: it went wrong
    run_ended 128c8cc4: finished
    run_ended 105b9339: failed (bad_input): it went wrong
    run_opened f57c556b: lead lead
    run_ended f57c556b: finished
    turn_ended 00000000: answered
    "#);
}
