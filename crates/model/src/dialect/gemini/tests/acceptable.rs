//! Any conversation and any exchange is a request that the API accepts.

use super::*;

/// Asserts what the API demands of contents: roles alternate and begin with the user's, no text is
/// blank, responses stand first and answer the calls of the content before, each once.
fn accepted(contents: &[Value]) {
    let mut asked: Vec<String> = Vec::new();
    for (at, content) in contents.iter().enumerate() {
        assert_eq!(content["role"], ["user", "model"][at % 2], "{contents:?}");
        let parts = content["parts"].as_array().unwrap();
        assert!(!parts.is_empty(), "{contents:?}");
        let of = |kind: &str| -> Vec<String> {
            let of_kind = parts.iter().filter_map(|part| part.get(kind));
            let named = of_kind.map(|it| format!("{} {}", it["name"], it["id"]));
            named.collect()
        };
        let mut answered = of("functionResponse");
        let first = parts
            .iter()
            .take_while(|p| p.get("functionResponse").is_some());
        assert_eq!(first.count(), answered.len(), "{contents:?}");
        answered.sort_unstable();
        asked.sort_unstable();
        assert_eq!(answered, asked, "{contents:?}");
        asked = of("functionCall");
        for part in parts {
            let text = part.get("text").map(|text| text.as_str().unwrap());
            assert!(
                text.is_none_or(|text| !text.trim().is_empty()),
                "{contents:?}"
            );
            let args = part.get("functionCall").map(|call| &call["args"]);
            assert!(args.is_none_or(Value::is_object), "{contents:?}");
            let response = part.get("functionResponse").map(|it| &it["response"]);
            assert!(response.is_none_or(Value::is_object), "{contents:?}");
        }
    }
    assert_eq!(contents.len() % 2, 1, "the last content is the user's");
    assert!(asked.is_empty(), "{contents:?}");
}

#[test]
fn an_exchange_is_accepted_whoever_replied() {
    let snapshot = everything(1).freeze();
    let foreign = r#"[{"type":"text","text":"anthropic's"}]"#;
    for verbatim in [SIGNED, "[]", "nonsense", foreign] {
        for ids in [["fc-1", "g1"], ["same", "same"], ["", "é"]] {
            let request = Request {
                exchange: exchange(verbatim, ids),
                ..about(&snapshot, Group::Shared)
            };
            let read = read(&body(DIALECT, &request, &SENDING));
            accepted(read["contents"].as_array().unwrap());
        }
    }
}

proptest! {
    #[test]
    fn any_conversation_is_accepted(said in said(), group in 0..3usize) {
        let group = [Group::Shared, own(), Group::TaskOnly][group].clone();
        let request = about(&chat(&said).freeze(), group);
        let read = read(&body(DIALECT, &request, &SENDING));
        accepted(read["contents"].as_array().unwrap());
    }

    #[test]
    fn any_text_and_arguments_survive(text in any::<String>(), more in any::<String>()) {
        let chat = Chat::new(1)
            .user(vec![Part::text("first"), Part::text(&*text)])
            .assistant(vec![call("a", "f", &more)])
            .results(vec![result("a", &text)]);
        let read = read(&body(DIALECT, &about(&chat.freeze(), Group::Shared), &SENDING));
        let contents = &read["contents"];
        if !text.trim().is_empty() {
            prop_assert_eq!(&contents[0]["parts"][1]["text"], &Value::from(&*text));
        }
        let response = &contents[2]["parts"][0]["functionResponse"];
        prop_assert_eq!(&response["response"], &json!({"result": labelled(3, &text)}));
        let args = &contents[1]["parts"][0]["functionCall"]["args"];
        let object = serde_json::from_str::<Value>(&more).ok().filter(Value::is_object);
        match object {
            Some(object) => prop_assert_eq!(args, &object),
            None if more.trim().is_empty() => {}
            None => prop_assert_eq!(args, &json!({"invalid_arguments": more})),
        }
    }
}
