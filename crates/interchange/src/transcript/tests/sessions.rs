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

#[test]
fn what_claude_code_writes_itself_is_not_said_by_the_user() {
    let line = |kind: &str, n: u32, message: &str| {
        format!(r#"{{"type":"{kind}","sessionId":"s","uuid":"u{n}","message":{message}}}"#)
    };
    let said = |n: u32, text: &str| {
        let message = format!(r#"{{"role":"user","content":[{{"type":"text","text":"{text}"}}]}}"#);
        line("user", n, &message)
    };
    let reply = |n: u32, text: &str, output: u32| {
        let usage = format!(r#"{{"input_tokens":7,"output_tokens":{output}}}"#);
        let block = format!(r#"{{"type":"text","text":"{text}"}}"#);
        let message = format!(r#"{{"id":"m","content":[{block}],"usage":{usage}}}"#);
        line("assistant", n, &message)
    };
    let lines = [
        said(1, "Fix it"),
        reply(2, "I look.", 1),
        reply(3, "It is done.", 90),
        said(4, "[Request interrupted by user for tool use]"),
        said(5, "<command-name>/compact</command-name>"),
        said(6, "<local-command-stdout>Compacted</local-command-stdout>"),
        said(7, "What does <command-name> mean?"),
    ];
    let outline = outline_of(lines.join("\n").as_bytes(), None);
    let texts = outline.lines().filter(|line| line.contains("Text("));
    assert_eq!(texts.count(), 4, "{outline}");
    for expected in [
        "assistant used 7 90\n  Text(\"I look.\")",
        "assistant\n  Text(\"It is done.\")",
        "left behind 1 command\n",
        "left behind 1 command output\n",
        "left behind 1 interruption\n",
    ] {
        assert!(outline.contains(expected), "{expected}: {outline}");
    }
}

#[test]
fn citations_and_prompts_of_images_are_counted() {
    let claude = r#"[{"name":"T","chat_messages":[{"uuid":"a","sender":"assistant","content":[
        {"type":"text","text":"At 7.","citations":[{"uuid":"c"},{"uuid":"d"}]}]}]}]"#;
    let outline = outline_of(claude.as_bytes(), None);
    assert!(outline.contains("left behind 2 citation\n"), "{outline}");
    let image = r#"{"content_type":"image_asset_pointer","asset_pointer":"file-service://f",
        "metadata":{"dalle":{"prompt":"a lighthouse"}}}"#;
    let message = format!(
        r#"{{"author":{{"role":"tool","name":"dalle.text2im"}},
        "content":{{"content_type":"multimodal_text","parts":[{image}]}}}}"#
    );
    let chatgpt = format!(r#"{{"mapping":{{"a":{{"message":{message}}}}},"current_node":"a"}}"#);
    let outline = outline_of(chatgpt.as_bytes(), None);
    assert!(
        outline.contains("left behind 1 image prompt\n"),
        "{outline}"
    );
}
