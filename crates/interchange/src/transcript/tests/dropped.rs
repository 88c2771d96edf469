//! What is not read is counted, in every format.

use super::*;

/// The items that are left behind of a file.
fn dropped(text: &str) -> Vec<String> {
    let outline = outline_of(text.as_bytes(), None);
    assert!(!outline.starts_with("error"), "{outline}");
    let lines = outline.lines();
    let dropped = lines.filter_map(|line| line.strip_prefix("left behind "));
    dropped.map(str::to_owned).collect()
}

fn openai(rest: &str) -> String {
    format!(r#"{{"messages":[{{"role":"assistant","content":"Yes."{rest}}}]}}"#)
}

fn chatgpt(content: &str) -> String {
    let message = format!(r#"{{"author":{{"role":"user"}},"content":{content}}}"#);
    format!(r#"{{"mapping":{{"a":{{"message":{message}}}}},"current_node":"a"}}"#)
}

/// The result of a program that ChatGPT ran.
fn drawn(made: &str) -> String {
    let result = format!(r#"{{"aggregate_result":{{"messages":[{made}]}}}}"#);
    let content = r#"{"content_type":"execution_output","text":"Done"}"#;
    let author = r#"{"role":"tool","name":"python"}"#;
    let message = format!(r#"{{"author":{author},"content":{content},"metadata":{result}}}"#);
    format!(r#"{{"mapping":{{"a":{{"message":{message}}}}},"current_node":"a"}}"#)
}

fn claude(rest: &str) -> String {
    let message = r#"{"uuid":"a","sender":"human","text":"Hi"}"#;
    format!(r#"{{"name":"x","chat_messages":[{message}]{rest}}}"#)
}

fn slack(blocks: &str) -> String {
    format!(r#"[{{"type":"message","ts":"1.0","user":"U1","text":"Hi","blocks":[{blocks}]}}]"#)
}

/// Lines of Codex: a message of the user, and one more.
fn codex(line: &str) -> String {
    let said = r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]}"#;
    format!("{{\"type\":\"response_item\",\"payload\":{said}}}\n{line}")
}

/// Lines of Claude Code: a message of the user, and one more.
fn claude_code(line: &str) -> String {
    let said = r#"{"type":"user","sessionId":"s","uuid":"a","message":{"content":"Hi"}}"#;
    format!("{said}\n{line}")
}

fn gemini(message: &str) -> String {
    let said = r#"{"id":"a","type":"user","content":"Hi"}"#;
    format!(r#"{{"messages":[{said},{message}]}}"#)
}

#[test]
fn content_of_unknown_types_is_counted() {
    let event = |kind: &str| {
        codex(&format!(
            r#"{{"type":"event_msg","payload":{{"type":"{kind}"}}}}"#
        ))
    };
    let rows = [
        (
            openai(r#","annotations":[{"type":"url_citation"}]"#),
            "1 citation",
        ),
        (
            openai(r#","reasoning_details":[{"text":"So."}]"#),
            "1 reasoning block",
        ),
        (
            chatgpt(r#"{"content_type":"text","parts":["Hi",7]}"#),
            "1 content piece",
        ),
        (
            chatgpt(
                r#"{"content_type":"multimodal_text","parts":["Hi",{"content_type":"hologram"}]}"#,
            ),
            r#"1 "hologram" content"#,
        ),
        (
            drawn(r#"{"message_type":"image","image_url":"file-service://f"}"#),
            "1 drawn image",
        ),
        (
            claude(r#","summary":"They greet.""#),
            "1 conversation summary",
        ),
        (
            claude_code(r#"{"type":"queue-operation","sessionId":"s","operation":"fold"}"#),
            r#"1 "fold" operation"#,
        ),
        (
            claude_code(r#"{"type":"weather","sessionId":"s","uuid":"b"}"#),
            r#"1 "weather" line"#,
        ),
        (event("error"), r#"1 "error" event"#),
        (
            codex(
                r#"{"type":"session_meta","payload":{"base_instructions":{"text":"Be brief."}}}"#,
            ),
            "1 program instruction",
        ),
        (
            codex(r#"{"type":"response_item","payload":{"type":"ghost_snapshot"}}"#),
            r#"1 "ghost_snapshot" item"#,
        ),
        (
            gemini(r#"{"id":"b","type":"gemini","content":[{"text":"Hi"},{"executableCode":{}}]}"#),
            r#"1 "executableCode" part"#,
        ),
        (
            gemini(r#"{"id":"b","type":"warning","content":"Hot"}"#),
            r#"1 "warning" message"#,
        ),
        (
            slack(r#"{"type":"section"},{"type":"image","image_url":"https://e.org/a.png"}"#),
            r#"1 "image" block"#,
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(dropped(&text), [expected], "{text}");
    }
    for kind in [
        "user_message",
        "token_count",
        "task_complete",
        "exec_command_end",
    ] {
        assert!(dropped(&event(kind)).is_empty(), "{kind} repeats an item");
    }
}

#[test]
fn content_in_a_second_place_is_read() {
    let image =
        r#","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]"#;
    let response = r#"{"output":"Cold"},"parts":[{"executableCode":{"code":"1"}}]"#;
    let call = format!(
        r#"{{"id":"c","name":"n","args":{{}},"result":[{{"functionResponse":{{"id":"c","response":{response}}}}}]}}"#
    );
    let called = format!(r#"{{"id":"b","type":"gemini","content":"","toolCalls":[{call}]}}"#);
    let here = r#"{"type":"text","text":"Look "},{"type":"broadcast","range":"here"}"#;
    let here = format!(r#"{{"type":"rich_text_section","elements":[{here}]}}"#);
    let here =
        format!(r#"[{{"type":"message","ts":"1.0","user":"U1","text":"","blocks":[{here}]}}]"#);
    let rows = [
        (here, r#"Text("Look @here")"#),
        (openai(image), "Attachment { filename: \"image\""),
        (
            chatgpt(r#"{"content_type":"text","text":"","parts":["Hello"]}"#),
            r#"Text("Hello")"#,
        ),
        (
            gemini(&called),
            r#"Cold\n{\"executableCode\":{\"code\":\"1\"}}"#,
        ),
    ];
    for (text, expected) in rows {
        let outline = outline_of(text.as_bytes(), None);
        assert!(outline.contains(expected), "{expected}: {outline}");
        assert!(dropped(&text).is_empty(), "{outline}");
    }
}

#[test]
fn the_group_chats_of_an_export_are_counted() {
    let rows = [
        (r#"{"chats":[{"id":"a"},{"id":"b"}]}"#, 2),
        ("\u{feff}{\"chats\": []}", 0),
        ("[]", 0),
        ("not JSON", 0),
    ];
    for (text, expected) in rows {
        assert_eq!(group_chats(text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn a_session_of_gemini_cli_may_begin_with_a_notice() {
    let line = |id: &str, kind: &str, text: &str| {
        let at = "2026-02-01T07:00:00.000Z";
        format!(r#"{{"id":"{id}","timestamp":"{at}","type":"{kind}","content":"{text}"}}"#)
    };
    for kind in ["info", "warning", "error"] {
        let messages = [line("n", kind, "Update!"), line("a", "user", "Prune now?")].join(",");
        let session = format!(r#"{{"sessionId":"s","projectHash":"p","messages":[{messages}]}}"#);
        let outline = outline_of(session.as_bytes(), None);
        assert!(outline.starts_with("gemini-cli"), "{outline}");
        assert!(outline.contains("Text(\"Prune now?\")"), "{outline}");
        assert_eq!(dropped(&session), [format!("1 \"{kind}\" message")]);
    }
}

#[test]
fn a_voice_note_in_an_export_of_claude_has_its_words() {
    let export = |note: &str| {
        format!(
            r#"[{{"name":"x","chat_messages":[{{"uuid":"a","sender":"human","text":"","content":[
                {{"type":"text","text":"Listen."}},{{"type":"voice_note"{note}}}]}}]}}]"#
        )
    };
    let spoken = outline_of(export(r#","text":"The tide is low.""#).as_bytes(), None);
    assert!(spoken.contains("Text(\"The tide is low.\")"), "{spoken}");
    assert_eq!(dropped(&export("")), ["1 voice note"]);
}
