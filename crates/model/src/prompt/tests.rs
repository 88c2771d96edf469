//! Tests of the rendered prompt.

use proptest::prelude::*;
use serde_json::Value;
use unisono_context::alteration::Form;
use unisono_context::{Part, Role, RunId, Tokens};

use super::*;
use crate::fixture::{Chat, call, failed, plan, result};

fn persona() -> Persona {
    Persona {
        agent: AgentId::new("risks"),
        description: "finds risks".into(),
        instructions: "Name every \"risk\".".into(),
    }
}

fn document(snapshot: Option<&Snapshot>, group: &Group, results: &[DelegateResult]) -> String {
    let persona = persona();
    let tail = Tail {
        persona: &persona,
        task: Some("list\nthe risks"),
        results,
        run: RunId::from_u128(7),
        attempt: 2,
    };
    let prefix = render(snapshot, group);
    let whole = [&prefix.bytes()[..], &tail.render(group)[..]].concat();
    String::from_utf8(whole).unwrap()
}

fn value(document: &str) -> Value {
    serde_json::from_str(document).unwrap_or_else(|error| panic!("{error}: {document}"))
}

/// Every kind of part, reused call ids, calls without a result, a result whose call was summarised,
/// masked and truncated messages.
fn everything(seed: u64) -> Chat {
    let twice = vec![
        Part::text("looking"),
        call("id", "search", r#"{"q":"key"}"#),
        call("id", "search", r#"{"q":"mat"}"#),
        call("lost", "open", "{}"),
    ];
    let failed = failed("id", "no such place");
    Chat::new(seed)
        .tool("search", r#"{"type":"object"}"#)
        .tool("open", "not a schema")
        .say(Role::User, "where is the key?")
        .assistant(vec![call("a", "search", "{}")])
        .results(vec![result("a", "under the mat")])
        .add(Role::Assistant, Some("finder"), twice)
        .results(vec![result("id", "in the door"), failed])
        .user(vec![Part::text("see \"plan\"\n"), plan()])
        .say(Role::Assistant, &"x".repeat(40))
        .alter(
            5,
            Form::Masked {
                tokens: Tokens(1_200),
            },
        )
        .alter(7, Form::Cut { target_chars: 20 })
        .summarise(2, "They looked for a key.")
}

#[test]
fn the_shared_rendering() {
    let snapshot = everything(1).freeze();
    let id = snapshot.id().to_string();
    let expected = [
        r#"{"unisono":1,"context":{"snapshot":"ID","system":"be brief","tools":["#,
        r#"{"name":"open","description":"does open","input_schema":"not a schema"},"#,
        r#"{"name":"search","description":"does search","input_schema":{"type":"object"}}],"#,
        r#""summaries":[{"from":1,"to":2,"text":"[summary of #1–#2]\nThey looked for a key."}],"#,
        r#""messages":[{"n":3,"role":"tool","parts":["#,
        r#"{"type":"text","text":"[tool result]\nunder the mat"}]},"#,
        r#"{"n":4,"role":"assistant","author":"finder","parts":["#,
        r#"{"type":"text","text":"looking"},"#,
        r#"{"type":"tool_call","id":"c4_0","name":"search","arguments":"{\"q\":\"key\"}"},"#,
        r#"{"type":"tool_call","id":"c4_1","name":"search","arguments":"{\"q\":\"mat\"}"},"#,
        r#"{"type":"tool_call","id":"c4_2","name":"open","arguments":"{}"},"#,
        r#"{"type":"tool_result","call":"c4_2","content":"[no result recorded]","is_error":true}]},"#,
        r#"{"n":5,"role":"tool","parts":["#,
        r#"{"type":"tool_result","call":"c4_0","content":"[tool result: 1200 tokens, recall #5]","is_error":false},"#,
        r#"{"type":"tool_result","call":"c4_1","content":"[tool result: 1200 tokens, recall #5]","is_error":true}]},"#,
        r#"{"n":6,"role":"user","parts":[{"type":"text","text":"see \"plan\"\n"},"#,
        r#"{"type":"attachment","filename":"plan.pdf","mime":"application/pdf","size_bytes":81234}]},"#,
        r#"{"n":7,"role":"assistant","parts":[{"type":"text","text":"xxxxx[...30...]xxxxx"}]}]}"#,
    ]
    .concat()
    .replace("ID", &id);
    let prefix = render(Some(&snapshot), &Group::Shared);
    assert_eq!(std::str::from_utf8(prefix.bytes()).unwrap(), expected);
    assert_eq!(prefix.digest(), Digest::of_bytes(expected.as_bytes()));
}

#[test]
fn the_tail_closes_the_document() {
    let delegated = |agent: &str, outcome| DelegateResult {
        agent: AgentId::new(agent),
        task: Some("look".into()),
        rest: None,
        outcome,
    };
    let results = [
        delegated("facts", DelegateOutcome::Complete("three".into())),
        delegated(
            "dates",
            DelegateOutcome::Partial {
                text: "two".into(),
                missing: "no \"calendar\"".into(),
            },
        ),
        delegated("costs", DelegateOutcome::Failed("timeout: 3 s".into())),
    ];
    let expected = [
        r#"{"unisono":1,"agent":{"id":"risks","description":"finds risks","#,
        r#""instructions":"Name every \"risk\"."},"task":"list\nthe risks","results":["#,
        r#"{"agent":"facts","task":"look","text":"three"},"#,
        r#"{"agent":"dates","task":"look","text":"two","partial":"no \"calendar\""},"#,
        r#"{"agent":"costs","task":"look","error":"timeout: 3 s"}],"#,
        r#""run":"00000000-0000-0000-0000-000000000007","attempt":2}"#,
    ]
    .concat();
    let snapshot = everything(1).freeze();
    assert_eq!(
        document(Some(&snapshot), &Group::TaskOnly, &results),
        expected
    );
    assert_eq!(document(None, &Group::Shared, &results), expected);
}

#[test]
fn every_group_makes_the_same_document() {
    let snapshot = everything(1).freeze();
    let shared = value(&document(Some(&snapshot), &Group::Shared, &[]));
    let own = document(Some(&snapshot), &Group::Own(persona()), &[]);
    assert!(
        own.starts_with(r#"{"unisono":1,"agent":{"id":"risks","#),
        "{own}"
    );
    assert_eq!(value(&own), shared);
    assert_eq!(
        own.matches("\"agent\":").count(),
        1,
        "no key is there twice"
    );
    let mut alone = shared;
    alone.as_object_mut().unwrap().remove("context");
    assert_eq!(
        value(&document(Some(&snapshot), &Group::TaskOnly, &[])),
        alone
    );
}

#[test]
fn the_buffer_is_allocated_once() {
    let text = "a line of ordinary prose, \"quoted\" once\n".repeat(200);
    let mut chat = Chat::new(1);
    for index in 0..40 {
        let role = [Role::User, Role::Assistant][index % 2];
        chat = chat.say(role, &text);
    }
    let bytes = native::render(Some(&chat.freeze()), &Group::Shared);
    assert!(
        bytes.capacity() < bytes.len() * 5 / 4,
        "{} of {}",
        bytes.len(),
        bytes.capacity()
    );
}

#[test]
fn a_hostile_schema_does_not_break_the_document() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(500), "]".repeat(500));
    for schema in [
        &deep, "{", "{}}", " {}", "{}\n", "{\"a\":}", "\"x\"", "null", "{\0}",
    ] {
        let snapshot = Chat::new(1)
            .tool("t", schema)
            .say(Role::User, "hi")
            .freeze();
        let read = value(&document(Some(&snapshot), &Group::Shared, &[]));
        assert_eq!(read["context"]["tools"][0]["input_schema"], *schema);
    }
}

/// One message: role, author, text, and its other content.
type Content = (bool, Option<String>, String, u8);

fn contents() -> impl Strategy<Value = Vec<Content>> {
    let text = prop_oneof![any::<String>(), "[\\x00-\\x1f\"\\\\a]{0,12}"];
    let one = (
        any::<bool>(),
        proptest::option::of("[a-z\"]{1,3}"),
        text,
        0..4u8,
    );
    proptest::collection::vec(one, 1..8)
}

/// The messages of the conversation; one that answers a call has the call before it.
fn chat(seed: u64, contents: &[Content]) -> Chat {
    let id = format!("{seed}");
    let add = |mut chat: Chat, (user, author, text, extra): &Content| {
        let role = if *user { Role::User } else { Role::Assistant };
        let parts = match extra {
            0 => vec![Part::text(&**text)],
            1 => vec![Part::text("x"), call(&id, text, "{}")],
            2 => {
                let asked = vec![call(&id, "f", text)];
                chat = chat.add(Role::Assistant, Some("caller"), asked);
                vec![result(&id, text)]
            }
            _ => vec![Part::attachment(
                &**text,
                "text/plain",
                text.len() as u64,
                None,
            )],
        };
        chat.add(role, author.as_deref(), parts)
    };
    let chat = Chat::new(seed)
        .system(&contents[0].2)
        .tool("t", &contents[0].2);
    contents.iter().fold(chat, add)
}

/// The rendering without the snapshot's id, which alone would distinguish two contexts.
fn content(snapshot: &Snapshot) -> String {
    let prefix = render(Some(snapshot), &Group::Shared);
    let text = std::str::from_utf8(prefix.bytes()).unwrap().to_owned();
    text.replacen(&snapshot.id().to_string(), "", 1)
}

proptest! {
    #[test]
    fn any_content_is_one_valid_document(contents in contents()) {
        let snapshot = chat(1, &contents).freeze();
        let read = value(&document(Some(&snapshot), &Group::Shared, &[]));
        let messages = read["context"]["messages"].as_array().unwrap();
        let messages: Vec<_> = messages.iter().filter(|m| m["author"] != "caller").collect();
        prop_assert_eq!(messages.len(), contents.len());
        for (message, (_, author, text, extra)) in messages.into_iter().zip(&contents) {
            prop_assert_eq!(message["author"].as_str(), author.as_deref());
            let parts = &message["parts"];
            let shown = match extra {
                0 => &parts[0]["text"],
                1 => &parts[1]["name"],
                2 => &parts[0]["content"],
                _ => &parts[0]["filename"],
            };
            prop_assert_eq!(shown.as_str(), Some(&**text));
        }
    }

    #[test]
    fn equal_snapshots_have_equal_bytes(contents in contents(), seed in 2..u64::MAX / 4) {
        let (one, other) = (chat(1, &contents).freeze(), chat(seed, &contents).freeze());
        prop_assert_eq!(one.id(), other.id());
        for group in [Group::Shared, Group::Own(persona())] {
            prop_assert_eq!(render(Some(&one), &group), render(Some(&other), &group));
        }
    }

    #[test]
    fn different_snapshots_have_different_bytes(
        contents in contents(), at in any::<prop::sample::Index>(), changed in contents(),
    ) {
        let mut altered = contents.clone();
        let at = at.index(altered.len());
        altered[at] = changed[0].clone();
        let (one, other) = (chat(1, &contents).freeze(), chat(1, &altered).freeze());
        prop_assert_eq!(one.id() == other.id(), content(&one) == content(&other));
    }
}
