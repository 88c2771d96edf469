//! Sessions of coding agents.

use super::*;

#[test]
fn a_call_of_gemini_cli_that_was_not_carried_out_says_so() {
    let call = |rest: &str| {
        let call =
            format!(r#"{{"id":"c","name":"shell","args":{{"command":"rm -rf /srv"}}{rest}}}"#);
        let message = format!(r#"{{"id":"a","type":"gemini","content":"","toolCalls":[{call}]}}"#);
        outline_of(format!(r#"{{"messages":[{message}]}}"#).as_bytes(), None)
    };
    for (rest, expected) in [
        (
            r#","status":"cancelled""#,
            r#"content: "[no result; the status of the call: cancelled]", is_error: true"#,
        ),
        (
            r#","status":"error","result":[],"resultDisplay":"no such file""#,
            r#"content: "[no result; the status of the call: error]\nno such file", is_error: true"#,
        ),
        (
            r#","status":"executing","result":null"#,
            r#"content: "[no result; the status of the call: executing]", is_error: true"#,
        ),
    ] {
        let outline = call(rest);
        assert!(outline.contains(expected), "{outline}");
    }
    for rest in ["", r#","status":"success""#] {
        let outline = call(rest);
        assert!(!outline.contains("ToolResult"), "{outline}");
    }
}

#[test]
fn equal_unknown_keys_are_one_warning_that_names_the_right_key() {
    let line = r#"{"type":"message","role":"user","created_at":"2025-05-07","parts":[{"type":"text","text":"x"}]}"#;
    let lines = [line; 188].join("\n");
    let text = format!("{{\"type\":\"session\",\"unisono\":1,\"time\":1}}\n{lines}\n");
    let warnings = read_as(text.as_bytes(), &Options::default()).unwrap();
    let warnings = warnings.warnings.iter().map(LineError::to_string);
    assert_eq!(
        warnings.collect::<Vec<_>>(),
        [
            "1:38: unknown key `time` is not kept; did you mean `title`?",
            "2:46: unknown key `created_at` is not kept; the time of a message is `at` (188 times)",
        ]
    );
}
