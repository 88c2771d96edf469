//! Messages that are unusual, and valid.

use super::*;

#[test]
fn custom_tools_speech_and_reasoning_of_openai_messages() {
    let text = r#"[{"role":"user","content":"hi"},
{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"custom","custom":{"name":"patch","input":"*** Begin"}}]},
{"role":"tool","tool_call_id":"c","content":"done"},
{"role":"assistant","content":null,"reasoning_content":"Hm."},
{"role":"assistant","content":"ok","reasoning_content":"So.","reasoning":null},
{"role":"assistant","content":null,"audio":{"id":"a","data":"AA==","transcript":"Good day."}}]"#;
    let outline = outline_of(text.as_bytes(), None);
    for expected in [
        r#"ToolCall { id: "c", name: "patch", arguments: "{\"input\":\"*** Begin\"}" }"#,
        "4 after 3: 999999 assistant\n  Text(\"ok\")",
        "5 after 4: 1000000 assistant\n  Text(\"Good day.\")",
        "left behind 2 reasoning block\n",
        "left behind 1 spoken answer\n",
    ] {
        assert!(outline.contains(expected), "{expected}: {outline}");
    }
    let unknown = text.replace("\"custom\",", "\"hologram\",");
    let outline = outline_of(unknown.as_bytes(), None);
    assert!(
        outline.contains("unknown kind of tool call \"hologram\""),
        "{outline}"
    );
}

#[test]
fn a_message_of_reasoning_alone_is_left_behind() {
    let text = r#"{"messages":[{"role":"user","content":"hi"},
{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},{"type":"text","text":""}]},
{"role":"assistant","content":[{"type":"text","text":"ok"}]}]}"#;
    let outline = outline_of(text.as_bytes(), None);
    assert!(outline.starts_with("anthropic"), "{outline}");
    assert!(
        outline.contains("2 after 1: 1000000 assistant\n  Text(\"ok\")"),
        "{outline}"
    );
    assert!(
        outline.contains("left behind 1 reasoning block\n"),
        "{outline}"
    );
}

#[test]
fn turns_of_sharegpt_may_be_chat_messages() {
    let text = r#"[{"conversations":[{"role":"system","content":"Be kind."},
{"role":"user","content":"hi"},{"role":"assistant","content":"yo"}]}]"#;
    let outline = outline_of(text.as_bytes(), None);
    assert!(outline.contains("system \"Be kind.\""), "{outline}");
    assert!(outline.contains("assistant\n  Text(\"yo\")"), "{outline}");
}
