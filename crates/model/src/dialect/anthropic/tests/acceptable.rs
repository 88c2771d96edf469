//! Any conversation and any exchange is a request that the API accepts.

use super::*;

#[test]
fn arguments_and_names_are_made_acceptable() {
    let calls = vec![
        call("a", "a.b", " {\"x\":[1]}\n"),
        call("b", "", "[1]"),
        call("c", &"n".repeat(90), ""),
        call("d", "1st", "{\"x\":}"),
    ];
    let got = ["a", "b", "c", "d"].map(|id| result(id, "ok"));
    let chat = Chat::new(1).assistant(calls).results(got.to_vec());
    let read = read(&body(
        DIALECT,
        &about(&chat.freeze(), Group::Shared),
        &SENDING,
    ));
    let sent = read["messages"][1]["content"].as_array().unwrap();
    let sent: Vec<_> = sent.iter().map(|b| (&b["name"], &b["input"])).collect();
    assert_eq!(
        sent,
        [
            (&json!("a_b"), &json!({"x": [1]})),
            (&json!("_"), &json!({"invalid_arguments": "[1]"})),
            (&json!("n".repeat(64)), &json!({})),
            (&json!("_1st"), &json!({"invalid_arguments": "{\"x\":}"})),
        ]
    );
}

/// Asserts what the API demands of messages: roles alternate and begin with the user's, no block is
/// empty, results stand first and answer the calls of the message before, each once.
fn accepted(messages: &[Value]) {
    let mut asked: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        assert_eq!(
            message["role"],
            ["user", "assistant"][at % 2],
            "{messages:?}"
        );
        let blocks = message["content"].as_array().unwrap();
        assert!(!blocks.is_empty(), "{messages:?}");
        let of = |kind: &str, id: &str| -> Vec<&str> {
            let of_kind = blocks.iter().filter(|block| block["type"] == kind);
            of_kind.map(|block| block[id].as_str().unwrap()).collect()
        };
        let mut answered = of("tool_result", "tool_use_id");
        let first = blocks.iter().take_while(|b| b["type"] == "tool_result");
        assert_eq!(first.count(), answered.len(), "{messages:?}");
        answered.sort_unstable();
        asked.sort_unstable();
        assert_eq!(answered, asked, "{messages:?}");
        asked = of("tool_use", "id");
        for text in of("text", "text") {
            assert!(!text.trim().is_empty(), "{messages:?}");
        }
        for block in blocks.iter().filter(|block| block["type"] == "tool_use") {
            assert!(block["input"].is_object(), "{messages:?}");
        }
    }
    assert_eq!(messages.len() % 2, 1, "the last message is the user's");
    assert!(asked.is_empty(), "{messages:?}");
}

#[test]
fn an_exchange_is_accepted_whoever_replied() {
    let snapshot = everything(1).freeze();
    for verbatim in [THINKING, "[]", "nonsense", r#"[{"text":"gemini's"}]"#] {
        for ids in [
            ["toolu_1", "toolu_2"],
            ["g0", "g1"],
            ["same", "same"],
            ["", "é"],
        ] {
            let request = Request {
                exchange: exchange(verbatim, ids),
                ..about(&snapshot, Group::Shared)
            };
            let read = read(&body(DIALECT, &request, &SENDING));
            accepted(read["messages"].as_array().unwrap());
        }
    }
}

proptest! {
    #[test]
    fn any_conversation_is_accepted(said in said(), group in 0..3usize) {
        let group = [Group::Shared, own(), Group::TaskOnly][group].clone();
        let request = about(&chat(&said).freeze(), group);
        let read = read(&body(DIALECT, &request, &SENDING));
        accepted(read["messages"].as_array().unwrap());
        let body = read.to_string();
        prop_assert!(body.matches("cache_control").count() <= 4);
    }

    #[test]
    fn any_text_and_arguments_survive(text in any::<String>(), more in any::<String>()) {
        let chat = Chat::new(1)
            .user(vec![Part::text("first"), Part::text(&*text)])
            .assistant(vec![call("a", "f", &more)])
            .results(vec![result("a", &text)]);
        let read = read(&body(DIALECT, &about(&chat.freeze(), Group::Shared), &SENDING));
        let messages = &read["messages"];
        let content = &messages[2]["content"][0]["content"];
        if text.trim().is_empty() {
            prop_assert_eq!(content, &Value::Null);
        } else {
            prop_assert_eq!(&messages[0]["content"][1]["text"], &Value::from(&*text));
            prop_assert_eq!(content, &Value::from(labelled(3, &text)));
        }
        let input = &messages[1]["content"][0]["input"];
        let object = serde_json::from_str::<Value>(&more).ok().filter(Value::is_object);
        match object {
            Some(object) => prop_assert_eq!(input, &object),
            None if more.trim().is_empty() => {}
            None => prop_assert_eq!(input, &json!({"invalid_arguments": more})),
        }
    }
}
