//! Effects of an agent's messages.

use serde_json::json;

use super::super::report::DiffSize;
use super::super::tests::program;
use super::*;
use crate::agent::fixture::sh;

fn turn(allow: &[ToolKind]) -> Turn {
    let mut acp = program(sh(""));
    acp.allow = allow.to_vec();
    acp.deny = vec![ToolKind::Delete];
    Turn::new("s".to_owned(), &acp)
}

/// The session's answer to a request for permission.
fn answer(is_error: bool) -> ToolResult {
    ToolResult::new("1", "[so]", is_error)
}

fn effects(turn: &mut Turn, message: Message) -> Vec<Effect> {
    turn.take(message).unwrap()
}

fn permission_request(turn: &mut Turn, message: Message) -> PermissionRequest {
    match turn.take(message).unwrap().remove(0) {
        Effect::Ask(request) => *request,
        other => panic!("{other:?}"),
    }
}

fn message(value: Value) -> Message {
    serde_json::from_value(value).unwrap()
}

fn update(update: Value) -> Message {
    message(json!({"method": "session/update", "params": {"sessionId": "s", "update": update}}))
}

fn said(text: &str) -> Message {
    update(json!({"sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": text}}))
}

fn call(id: &str, more: Value) -> Message {
    let mut all = json!({"sessionUpdate": "tool_call", "toolCallId": id});
    for (key, value) in more.as_object().unwrap() {
        all[key] = value.clone();
    }
    update(all)
}

fn asks(call: Value, options: &[&str]) -> Message {
    let options = options.iter();
    let options =
        options.map(|kind| json!({"optionId": format!("to {kind}"), "kind": kind, "name": kind}));
    message(
        json!({"id": 7, "method": "session/request_permission", "params":
        {"sessionId": "s", "toolCall": call, "options": options.collect::<Vec<_>>()}}),
    )
}

#[test]
fn the_answer_is_the_text_after_the_last_call() {
    let shown = |content: Value| {
        update(json!({"sessionUpdate": "agent_message_chunk", "content": content}))
    };
    let rows: [(Vec<Message>, &str); 6] = rows! {
        (vec![], ""),
        (vec![said("It is "), said("there.")], "It is there."),
        (vec![said("I look."), call("1", json!({})), said("Found.\n")], "Found."),
        (
            vec![
                said("I look."),
                call("1", json!({})),
                said("And again."),
                call("2", json!({})),
                said(" "),
            ],
            "I look.\n\nAnd again.",
        ),
        (
            vec![
                said("Yes."),
                update(
                    json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}),
                ),
                update(json!({"sessionUpdate": "new_some_day", "what": 1})),
                message(
                    json!({"method": "session/update", "params": {"sessionId": "other", "update":
                    {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "No."}}}}),
                ),
            ],
            "Yes.",
        ),
        (
            vec![
                said("See "),
                shown(json!({"type": "resource_link", "name": "plan", "uri": "file:///plan.md"})),
                said(" and:"),
                shown(json!({"type": "image", "data": "AAAA", "mimeType": "image/png"})),
                shown(json!({"type": "resource", "resource": {"uri": "file:///a", "text": "one"}})),
                shown(json!({"type": "resource", "resource": {"uri": "file:///b", "blob": "AA=="}})),
                shown(json!({"type": "scent"})),
                said("So."),
            ],
            "See [plan](file:///plan.md) and:\n\n[image: not kept]\n\none\n\n\
             [file file:///b: not kept]\n\nSo.",
        ),
    };
    for (messages, expected) in rows {
        let mut turn = turn(&[]);
        for message in messages {
            turn.take(message).unwrap();
        }
        assert_eq!(turn.answer(), expected);
    }
}

/// A warning of `claude-agent-acp` 0.101.0 has no id, unlike the messages of its model.
#[test]
fn a_message_with_another_id_begins_a_paragraph() {
    let mut turn = turn(&[]);
    for (text, id) in [
        ("Warning: slow.", None),
        ("", Some("m1")),
        ("It is ", Some("m1")),
        ("Friday.", Some("m1")),
        (" Still.", None),
        ("Bye.", Some("m2")),
    ] {
        let chunk = json!({"sessionUpdate": "agent_message_chunk", "messageId": id,
            "content": {"type": "text", "text": text}});
        turn.take(update(chunk)).unwrap();
    }
    let expected = "Warning: slow.\n\nIt is Friday. Still.\n\nBye.";
    assert_eq!(turn.answer(), expected);
}

/// Gemini CLI 0.61.0 sends no `tool_call`: it reports a call when it asks for permission, or when the
/// call has ended.
#[test]
fn the_answer_does_not_begin_before_a_call_that_is_not_announced() {
    let call = json!({"toolCallId": "write_file_0", "status": "pending",
        "title": "Writing to a.txt", "kind": "edit", "locations": [{"path": "/w/a.txt"}],
        "content": [{"type": "diff", "path": "/w/a.txt", "oldText": "", "newText": "hello\n",
            "_meta": {"kind": "add"}}]});
    let mut ended = call.clone();
    ended["sessionUpdate"] = "tool_call_update".into();
    ended["status"] = "completed".into();
    for messages in [
        vec![asks(call, &["allow_once"]), update(ended.clone())],
        vec![update(ended)],
    ] {
        let mut turn = turn(&[ToolKind::Edit]);
        turn.take(said("I begin with a tool.")).unwrap();
        for message in messages {
            turn.take(message).unwrap();
        }
        turn.take(said("Done.")).unwrap();
        assert_eq!(turn.answer(), "Done.");
        assert_eq!(turn.report().text, "I begin with a tool.");
    }
}

#[test]
fn a_call_is_journaled_once_when_it_has_ended() {
    let mut turn = turn(&[]);
    let read = json!({"title": "Read a.rs", "kind": "read"});
    let pending = Effect::Progress("Read a.rs (read): pending".to_owned());
    assert_eq!(effects(&mut turn, call("1", read)), [pending]);
    assert!(turn.has_acted());
    let ended =
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed"});
    let called = EndedCall {
        title: "Read a.rs".to_owned(),
        kind: "read".to_owned(),
        status: "completed".to_owned(),
        ..EndedCall::default()
    };
    let once = effects(&mut turn, update(ended.clone()));
    assert_eq!(once[1], Effect::Called(1, called));
    assert!(effects(&mut turn, update(ended)).is_empty());
    let odd = json!({"kind": "dance", "status": "failed"});
    let odd = effects(&mut turn, call("2", odd));
    let called = EndedCall {
        title: "a tool".to_owned(),
        kind: "other".to_owned(),
        status: "failed".to_owned(),
        ..EndedCall::default()
    };
    assert_eq!(odd[1], Effect::Called(2, called));
}

#[test]
fn the_answer_of_the_session_chooses_an_option() {
    let all = ["allow_always", "allow_once", "reject_once", "reject_always"];
    let rows: [(bool, &[&str], &str); 7] = [
        (true, &all, "allow_once"),
        (false, &all, "reject_once"),
        (true, &["allow_always", "reject_once"], "reject_once"),
        (true, &["reject_once"], "reject_once"),
        (false, &["allow_once", "reject_always"], "reject_always"),
        (false, &["allow_once"], "cancelled"),
        (true, &[], "cancelled"),
    ];
    for (is_permitted, options, decision) in rows {
        let mut turn = turn(&[]);
        let call = json!({"toolCallId": "1", "title": "So", "kind": "read"});
        let request = permission_request(&mut turn, asks(call, options));
        assert_eq!(turn.waiting[0].id, 7);
        let (progress, reply) = turn.decided(&request, &answer(!is_permitted));
        assert_eq!(progress, format!("So (read): {decision}"));
        let why = if is_permitted {
            "it offers no option that allows it once"
        } else {
            "so"
        };
        let rejected = (!decision.starts_with("allow")).then(|| format!("`So` (read): {why}"));
        assert_eq!(turn.rejected(), rejected.as_deref());
        assert_eq!((&reply["id"], turn.cancel()), (&json!(7), Vec::new()));
        let outcome = match decision {
            "cancelled" => json!({"outcome": "cancelled"}),
            kind => json!({"outcome": "selected", "optionId": format!("to {kind}")}),
        };
        assert_eq!(reply["result"]["outcome"], outcome);
    }
}

#[test]
fn requests_without_an_answer_are_cancelled_once() {
    let mut turn = turn(&[]);
    let call = json!({"toolCallId": "1", "kind": "read"});
    permission_request(&mut turn, asks(call, &["allow_once"]));
    assert_eq!(turn.cancel(), [protocol::chosen(&json!(7), None)]);
    assert!(turn.cancel().is_empty());
}

#[test]
fn a_request_that_the_agent_withdraws_is_answered_as_withdrawn_once() {
    let withdraws =
        |id: u32| message(json!({"method": "$/cancel_request", "params": {"requestId": id}}));
    for is_permitted in [false, true] {
        let mut turn = turn(&[]);
        let call = json!({"toolCallId": "1", "title": "So", "kind": "read"});
        let asked = asks(call, &["allow_once", "reject_once"]);
        let request = permission_request(&mut turn, asked);
        assert!(effects(&mut turn, withdraws(8)).is_empty());
        let withdrawn = effects(&mut turn, withdraws(7));
        assert_eq!(withdrawn, [Effect::Withdraw(1)]);
        assert!(effects(&mut turn, withdraws(7)).is_empty());
        let (progress, reply) = turn.decided(&request, &answer(!is_permitted));
        // A decision that came before counts.
        let (outcome, code) = match is_permitted {
            true => ("allow_once", Value::Null),
            false => ("withdrawn", json!(-32_800)),
        };
        assert_eq!(progress, format!("So (read): {outcome}"));
        assert_eq!(reply["error"]["code"], code);
        assert_eq!(turn.rejected(), None);
        assert!(effects(&mut turn, withdraws(7)).is_empty() && turn.cancel().is_empty());
    }
}

#[test]
fn the_kind_of_a_call_is_its_tool_for_the_rules() {
    use calls::Permission::{Allowed, Denied, Unlisted};
    for (kind, tool, permission) in [
        ("read", "read", Allowed),
        ("edit", "edit", Unlisted),
        ("delete", "delete", Denied),
        ("dance", "other", Unlisted),
    ] {
        let mut turn = turn(&[ToolKind::Read, ToolKind::Delete]);
        let call = json!({"toolCallId": "1", "title": "So", "kind": kind,
            "rawInput": {"command": "rm -r x"}, "locations": [{"path": "/etc/hosts", "line": 3}],
            "content": [{"type": "diff", "path": "/etc/passwd", "newText": ""}]});
        let NewCall {
            call_id,
            tool: named,
            arguments,
            fields,
            permission: given,
        } = permission_request(&mut turn, asks(call, &["allow_once"])).call;
        assert_eq!((&*call_id, &*named, given), ("1", tool, Some(permission)));
        assert_eq!(
            serde_json::from_str::<Value>(&arguments).unwrap(),
            json!({"title": "So", "path": ["/etc/hosts", "/etc/passwd"],
                "input": {"command": "rm -r x"}})
        );
        let fields = fields.iter().map(|(name, value)| format!("{name}={value}"));
        assert_eq!(
            fields.collect::<Vec<_>>(),
            [
                "input.command=rm -r x",
                "path=/etc/hosts",
                "path=/etc/passwd",
                "title=So"
            ]
        );
    }
}

#[test]
fn a_permission_for_a_known_call_has_its_kind_and_its_input() {
    let mut turn = turn(&[ToolKind::Execute]);
    let known = json!({"title": "make", "kind": "execute", "rawInput": {"command": "make"}});
    turn.take(call("1", known)).unwrap();
    let request = permission_request(&mut turn, asks(json!({"toolCallId": "1"}), &["allow_once"]));
    let input = ("input.command".into(), "make".into());
    assert_eq!(
        (&*request.call.tool, &request.call.fields[0]),
        ("execute", &input)
    );
    // Rules see the whole of a large input, the journal its beginning.
    let large = json!({"toolCallId": "2", "kind": "execute",
        "rawInput": {"command": format!("{}rm", "x".repeat(100_000))}});
    let large = permission_request(&mut turn, asks(large, &[])).call;
    assert!(large.fields[0].1.ends_with("rm") && large.arguments.len() < 40_000);
}

#[test]
fn rules_see_all_that_an_agent_told_before_it_asked_for_permission() {
    let mut turn = turn(&[ToolKind::Edit]);
    let command = format!("git push{}", " ".repeat(10_000));
    let told = json!({"kind": "edit", "rawInput": {"command": command},
        "locations": [{"path": "/etc/hosts", "line": 3}],
        "content": [{"type": "diff", "path": "/etc/passwd", "newText": ""}]});
    turn.take(call("1", told)).unwrap();
    let asked = json!({"toolCallId": "1", "locations": [{"path": "/tmp/a"}]});
    let fields = permission_request(&mut turn, asks(asked, &["allow_once"]));
    let fields = fields.call.fields.into_iter();
    let fields: Vec<String> = fields
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let input = format!("input.command={command}");
    let expected = [
        &*input,
        "path=/etc/hosts",
        "path=/etc/passwd",
        "path=/tmp/a",
    ];
    assert_eq!(fields[..4], expected);
}

#[test]
fn calls_and_decisions_are_bounded() {
    let mut turn = turn(&[ToolKind::Read]);
    let (mut called, mut decided) = (0, 0);
    for n in 0..3_000 {
        let id = n.to_string();
        let done = json!({"title": "x".repeat(1_000), "status": "completed"});
        let done = effects(&mut turn, call(&id, done)).into_iter();
        called += done
            .filter(|effect| matches!(effect, Effect::Called(..)))
            .count();
        let asked = json!({"toolCallId": id, "kind": "read"});
        let effects = effects(&mut turn, asks(asked, &["allow_once", "reject_once"]));
        let asked = effects.iter();
        decided += asked
            .filter(|effect| matches!(effect, Effect::Ask(..)))
            .count();
        if n >= 500 {
            let Effect::Reply(reply) = effects.last().unwrap() else {
                panic!("{effects:?}");
            };
            assert_eq!(reply["result"]["outcome"]["optionId"], "to reject_once");
        }
    }
    assert_eq!((called, decided), (500, 500));
    assert!(turn.calls.len() <= TRACKED);
    let mut calls = turn.calls.values();
    assert!(calls.all(|call| call.title.len() <= TITLE_CHARS));
    let piece = "x".repeat(1024 * 1024);
    for _ in 0..4 {
        turn.take(said(&piece)).ok();
    }
    let too_long = turn.take(said(&piece)).unwrap_err();
    assert!(too_long.contains("4194304 bytes"));
}

#[test]
fn other_requests_are_refused_and_invalid_ones_are_errors() {
    let mut turn = turn(&[]);
    let request =
        json!({"id": "a", "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}});
    let effects = turn.take(message(request)).unwrap();
    let [Effect::Reply(reply)] = &effects[..] else {
        panic!("{effects:?}");
    };
    assert_eq!(
        (&reply["id"], &reply["error"]["code"]),
        (&json!("a"), &json!(-32601))
    );
    let garbled = json!({"id": 2, "method": "session/request_permission", "params": [1]});
    let effects = turn.take(message(garbled)).unwrap();
    assert!(matches!(&effects[..], [Effect::Reply(reply)] if reply["error"]["code"] == -32602));
    let new = message(json!({"method": "new/thing"}));
    assert!(turn.take(new).unwrap().is_empty());
    let wrong = turn.take(update(json!({"sessionUpdate": "agent_message_chunk"})));
    assert!(wrong.unwrap_err().contains("sent an invalid update"));
    // An invalid update that is only shown is ignored.
    let plan = turn.take(update(json!({"sessionUpdate": "plan", "entries": null})));
    assert!(plan.unwrap().is_empty());
    let long = call(&"x".repeat(2_000), json!({"status": "completed"}));
    assert!(turn.take(long).unwrap().is_empty());
    assert!(turn.calls.is_empty() && turn.has_acted());
}

#[test]
fn a_plan_reports_its_progress() {
    let entry = |content: &str, status: &str| json!({"content": content, "status": status, "priority": "medium"});
    let entries = [
        entry("look", "completed"),
        entry("mend", "in_progress"),
        entry("test", "pending"),
    ];
    let plan = update(json!({"sessionUpdate": "plan", "entries": entries}));
    let progress = Effect::Progress("plan, 1 of 3 done: mend".to_owned());
    assert_eq!(effects(&mut turn(&[]), plan), [progress]);
}

#[test]
fn all_reports_are_kept_within_bounds() {
    let mut turn = turn(&[]);
    let thought = |text: &str| {
        update(json!({"sessionUpdate": "agent_thought_chunk",
            "content": {"type": "text", "text": text}}))
    };
    let long = "ä".repeat(100_000);
    let input = json!({"command": "ls", "more": long});
    let messages = [
        said("I look."),
        thought("Hm. "),
        thought(&long),
        call(
            "1",
            json!({"title": "List", "kind": "execute", "rawInput": input}),
        ),
        call("2", json!({"title": "Edit", "kind": "edit"})),
        update(
            json!({"sessionUpdate": "plan", "entries": [{"content": "Old", "status": "pending"}]}),
        ),
        update(json!({"sessionUpdate": "plan", "entries": [
            {"content": "Look", "priority": "high", "status": "completed"}]})),
        update(
            json!({"sessionUpdate": "usage_update", "used": 1200, "size": 200_000,
            "cost": {"amount": 0.25, "currency": "USD"}}),
        ),
    ];
    for message in messages {
        turn.take(message).unwrap();
    }
    let change = json!({"sessionUpdate": "tool_call_update", "toolCallId": "2",
        "status": "completed", "locations": [{"path": "/w/a.rs", "line": 3}, {"path": "/w/b.rs"}],
        "content": [{"type": "diff", "path": "/w/a.rs", "oldText": "one", "newText": "three"},
            {"type": "terminal", "terminalId": "t"}, {"type": "content"},
            {"type": "content", "content": {"type": "text", "text": "2 lines changed"}}]});
    let [_, Effect::Called(1, called)] = &turn.take(update(change)).unwrap()[..] else {
        panic!("the call is journaled");
    };
    assert_eq!(called.output, "2 lines changed");
    assert_eq!(called.locations, ["/w/a.rs:3", "/w/b.rs"]);
    let size = DiffSize {
        path: "/w/a.rs".to_owned(),
        before: Some(3),
        after: 5,
    };
    assert_eq!(called.diffs, [size]);
    turn.take(said("Done.")).unwrap();

    let raw = json!({"sessionUpdate": "tool_call_update", "toolCallId": "1",
        "rawOutput": {"stdout": "x".repeat(9_000)}});
    turn.take(update(raw)).unwrap();
    let report = turn.report();
    assert_eq!(turn.answer(), "Done.");
    assert_eq!(report.text, "I look.");
    assert_eq!(report.plan.len(), 1);
    assert_eq!(report.plan[0].content, "Look");
    let usage = report.usage.as_ref().unwrap();
    assert_eq!(
        (usage.used, usage.cost.as_ref().unwrap().amount),
        (1200, 0.25)
    );
    assert!(report.thoughts.starts_with("Hm. ä") && report.thoughts.len() <= 32_000);
    assert_eq!(report.open_calls.len(), 1);
    let input = &report.open_calls[0].input;
    assert!(input.starts_with(r#"{"command":"ls""#) && input.chars().count() == 4_000);
    let output = &report.open_calls[0].output;
    assert!(output.starts_with(r#"{"stdout":"xx"#) && output.chars().count() == 4_000);
    // Records from before these fields are read.
    let old = r#"{"title":"Read","kind":"read","status":"completed"}"#;
    let old: EndedCall = serde_json::from_str(old).unwrap();
    assert_eq!((old.input.as_str(), old.diffs.len()), ("", 0));
}
