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
    assert_contains(&outline, "unknown kind of tool call \"hologram\"");
}

#[test]
fn a_message_of_reasoning_alone_is_left_behind() {
    let text = r#"{"messages":[{"role":"user","content":"hi"},
{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},{"type":"text","text":""}]},
{"role":"assistant","content":[{"type":"text","text":"ok"}]}]}"#;
    let outline = outline_of(text.as_bytes(), None);
    assert!(outline.starts_with("anthropic"), "{outline}");
    assert_contains(&outline, "2 after 1: 1000000 assistant\n  Text(\"ok\")");
    assert_contains(&outline, "left behind 1 reasoning block\n");
}

#[test]
fn turns_of_sharegpt_may_be_chat_messages() {
    let text = r#"[{"conversations":[{"role":"system","content":"Be kind."},
{"role":"user","content":"hi"},{"role":"assistant","content":"yo"}]}]"#;
    let outline = outline_of(text.as_bytes(), None);
    assert!(outline.contains("system \"Be kind.\""), "{outline}");
    assert!(outline.contains("assistant\n  Text(\"yo\")"), "{outline}");
}

#[test]
fn a_conversation_in_a_list_has_the_title_that_is_listed() {
    let sharegpt =
        |title: &str| format!(r#"{{{title}"conversations":[{{"from":"human","value":"hi"}}]}}"#);
    let openai = |title: &str| {
        format!(r#"{{"messages":[{{"role":"user","content":"hi","name":"Ada"}}]{title}}}"#)
    };
    let of_all = [
        (
            sharegpt(r#""id":"a","title" : "Trip to \"Rome\"","#),
            "Trip to \"Rome\"",
        ),
        (sharegpt(r#""name":"Other","title":"Caf\u00e9","#), "Café"),
        (sharegpt(r#""title":null,"name":"Other","#), "Other"),
        (openai(r#","id":"b","title":"Flat""#), "Flat"),
        (openai(r#","title":7,"name":["x"]"#), "many"),
    ];
    let texts = of_all.iter().map(|(text, _)| text.as_str());
    let texts: Vec<&str> = texts.collect();
    let options = Options {
        name: "many.json".to_owned(),
        ..Options::default()
    };
    for file in [format!("[{}]", texts.join(", ")), texts.join("\n")] {
        let listed = several::list(file.as_bytes(), &options).unwrap();
        assert_eq!(listed.len(), of_all.len());
        for (one, (_, title)) in listed.iter().zip(&of_all) {
            let text = one.text(&mut io::Cursor::new(&file)).unwrap();
            let parsed = read_as(&text, &options).unwrap();
            assert_eq!(&*parsed.import.title, *title);
            assert!(one.title.is_empty() || one.title == *title, "{one:?}");
        }
    }
    // The first element may follow something else.
    let after = format!("[1, {}]", texts[0]);
    let skipping = Options {
        skip_bad: true,
        ..options
    };
    let parsed = read_as(after.as_bytes(), &skipping).unwrap();
    assert_eq!(&*parsed.import.title, "Trip to \"Rome\"");
}

#[test]
fn a_value_that_is_nested_too_deeply_is_a_bad_line() {
    let nested = |levels: usize, begin: &str, end: &str| {
        let text = r#"{"type":"text","text":"[\"{"}"#;
        format!("{}{text}{}", begin.repeat(levels), end.repeat(levels))
    };
    let slack = |levels| {
        let blocks = nested(levels, r#"{"type":"rich_text","elements":["#, "]}");
        format!(r#"[{{"type":"message","ts":"1.1","text":"","blocks":[{blocks}]}}]"#)
    };
    let anthropic = |levels| {
        let begin = r#"{"type":"document","source":{"type":"content","content":["#;
        let documents = nested(levels, begin, "]}}");
        format!(r#"{{"messages":[{{"role":"user","content":[{documents}]}}]}}"#)
    };
    for file in [slack(50_000), anthropic(50_000), slack(64)] {
        let outline = outline_of(file.as_bytes(), None);
        let end = outline
            .char_indices()
            .nth(200)
            .map_or(outline.len(), |(at, _)| at);
        let shown = &outline[..end];
        assert_contains(shown, "it is nested in more than 128 levels");
    }
    let outline = outline_of(slack(60).as_bytes(), None);
    assert!(outline.contains("Text("), "{outline}");
    let flat = format!(r#"[{{"role":"user","content":"{}"}}]"#, "[{".repeat(500));
    assert!(outline_of(flat.as_bytes(), None).contains("Text("));
}

#[test]
fn messages_of_a_team_of_claude_code_are_those_of_its_agents() {
    let scout = r#"<teammate-message teammate_id=\"scout\" summary=\"B > A\">\nAt lock B.\n</teammate-message>"#;
    let smith = r#"<teammate-message teammate_id=\"smith\">{\"type\":\"idle_notification\"}</teammate-message>"#;
    let user = |n: u32, text: &str| {
        format!(
            r#"{{"type":"user","sessionId":"s","uuid":"u{n}","message":{{"content":"{text}"}}}}"#
        )
    };
    let sent = format!(r"Another Claude session sent a message:\n{scout}\n{smith}");
    let question = format!("What does {scout} mean?");
    let lines = [
        user(1, "Find it."),
        user(2, &sent),
        user(3, smith),
        user(4, &question),
    ];
    let lines = lines.join("\n");
    let said = authored(&lines, None);
    assert_eq!(said[..2], ["user: Find it.", "scout: At lock B."]);
    assert!(said.len() == 3 && said[2].starts_with("user: What does <"));
    let outline = outline_of(lines.as_bytes(), None);
    let notes = "left behind 2 program note\n";
    assert!(outline.contains(notes), "{outline}");
}

#[test]
fn a_message_that_claude_code_writes_again_is_read_once() {
    let line = |kind: &str, n: u32, parent: &str| {
        let block = format!(r#"{{"type":"text","text":"Part {n}."}}"#);
        format!(
            r#"{{"type":"{kind}","sessionId":"s","uuid":"u{n}","parentUuid":{parent},"message":{{"content":[{block}]}}}}"#
        )
    };
    let said = |n: u32| line("user", n, &format!(r#""u{}""#, n - 1));
    let reply = |n: u32| line("assistant", n, &format!(r#""u{}""#, n - 1));
    let first = [line("user", 1, "null"), reply(2), said(3), reply(4)];
    let next = [said(5), reply(6)];
    let once = [first.as_slice(), &next].concat();
    // After a compaction, with more to come; and a line again at once.
    let again = [&first[..3], &first[2..], &first, &next[..1], &next].concat();
    let [once, again] = [once, again].map(|lines| outline_of(lines.join("\n").as_bytes(), None));
    assert!(!once.contains("branch"), "{once}");
    assert_eq!(again, format!("{once}left behind 6 repeated message\n"));
    // A person who goes back after it begins a branch there.
    let back = [first.as_slice(), &first, &[line("user", 7, r#""u2""#)]].concat();
    let outline = outline_of(back.join("\n").as_bytes(), None);
    assert_contains(&outline, "5 after 2: ");
}

#[test]
fn halves_of_characters_are_replaced() {
    for (written, read) in [
        (r"a \ud83d", "a \u{fffd}"),
        (r"\udd11 b", "\u{fffd} b"),
        (r"\ud83d\ud83d\udd11", "\u{fffd}🔑"),
        (r"\uD83D\uDD11", "🔑"),
        (r"\\ud83d", r"\ud83d"),
        (r"\u00e9\n\ud83d", "é/\u{fffd}"),
    ] {
        let text = format!(r#"{{"messages":[{{"role":"user","content":"{written}"}}]}}"#);
        assert_eq!(
            authored(&text, None),
            [format!("user: {read}")],
            "{written}"
        );
    }
    let call = r#"{"type":"tool_use","id":"t","name":"ask","input":{"x":"\ud99c"}}"#;
    let result = r#"{"type":"tool_result","tool_use_id":"t","content":"cut \ud83d"}"#;
    let line = |kind: &str, block: &str| {
        format!(r#"{{"type":"{kind}","sessionId":"s","message":{{"content":[{block}]}}}}"#)
    };
    let lines = [line("assistant", call), line("user", result)];
    let outline = outline_of(lines.join("\n").as_bytes(), None);
    for expected in [
        r#"{\"x\":\"\\ufffd\"}"#,
        "cut \u{fffd}",
        "warning 1:1: half of a character, which a program cut, became U+FFFD (2 times)",
    ] {
        assert_contains(&outline, expected);
    }
}

#[test]
fn arguments_of_this_program_keep_halves_of_characters() {
    let lines = r#"{"type":"session","unisono":1}
{"type":"message","role":"assistant","parts":[{"type":"tool_call","id":"t","name":"ask","arguments":{"x":"\ud99c"}}]}"#;
    let outline = outline_of(lines.as_bytes(), None);
    assert_contains(&outline, r#"{\"x\":\"\\ud99c\"}"#);
    assert!(!outline.contains("warning"), "{outline}");
}

#[test]
fn a_conversation_with_half_of_a_character_has_one_digest() {
    let one = r#"{"title":"\ud83d","mapping":{"a":{"message":{"author":{"role":"user"},"content":{"parts":["x"]}}}}}"#;
    let file = format!("[{one},\n{one}]");
    let listed = list(file.as_bytes(), &Options::default()).unwrap();
    let mut ids = || 1;
    let stamps = Stamps {
        ids: &mut ids,
        now: None,
    };
    let (_, digest) = read_digested(one.as_bytes(), &Options::default(), stamps).unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[1].digest, digest);
}
