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

/// A session of Codex with the contents of messages of the user and lines between them.
fn codex(lines: &[(&str, &str)]) -> String {
    let lines = lines.iter().map(|(kind, payload)| {
        let payload = match *kind {
            "user" => format!(r#"{{"type":"message","role":"user","content":[{payload}]}}"#),
            "assistant" => format!(
                r#"{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"{payload}"}}]}}"#
            ),
            _ => (*payload).to_owned(),
        };
        let kind = match *kind {
            "event" => "event_msg",
            _ => "response_item",
        };
        format!(r#"{{"type":"{kind}","payload":{payload}}}"#)
    });
    let lines: Vec<String> = lines.collect();
    outline_of(lines.join("\n").as_bytes(), None)
}

#[test]
fn turns_that_codex_took_back_are_a_branch() {
    let said = |text: &str| format!(r#"{{"type":"input_text","text":"{text}"}}"#);
    let (one, two, three, four) = (said("One"), said("Two"), said("Three"), said("Four"));
    let back = |turns: u32| format!(r#"{{"type":"thread_rolled_back","num_turns":{turns}}}"#);
    let (back_two, back_nine) = (back(2), back(9));
    let mut lines = vec![
        ("user", one.as_str()),
        ("assistant", "First."),
        ("user", two.as_str()),
        ("assistant", "Second."),
        ("user", three.as_str()),
        ("event", back_two.as_str()),
    ];
    let outline = codex(&lines);
    let ends = "branch main 2\nbranch branch-2 5\n";
    assert!(outline.ends_with(ends), "{outline}");
    lines.push(("user", four.as_str()));
    lines.push(("assistant", "Fourth."));
    let outline = codex(&lines);
    assert!(outline.contains("\n6 after 2: "), "{outline}");
    let ends = "branch main 7\nbranch branch-2 5\n";
    assert!(outline.ends_with(ends), "{outline}");
    lines.push(("event", back_nine.as_str()));
    lines.push(("user", one.as_str()));
    let outline = codex(&lines);
    assert!(outline.contains("\n8 after -: "), "{outline}");
    let ends = "branch main 8\nbranch branch-2 5\nbranch branch-3 7\n";
    assert!(outline.ends_with(ends), "{outline}");
}

#[test]
fn what_codex_and_its_editors_write_is_not_said_by_the_user() {
    let said = |text: &str| format!(r#"{{"type":"input_text","text":"{text}"}}"#);
    let image = r#"{"type":"input_image","image_url":"data:image/png;base64,AAAA"}"#;
    let rules = "# AGENTS.md instructions for /srv\\n\\n<INSTRUCTIONS>x</INSTRUCTIONS>\\n";
    let rules = format!("{rules}<environment_context>y</environment_context>");
    let editor = "# Context from my IDE setup:\\n\\n## Open tabs:\\n- a.rs\\n\\n";
    let editor = format!("{editor}## My request for Codex:\\nFix it\\n");
    let page = "<in-app-browser-context>page</in-app-browser-context>\\n\\nYes";
    let named = ["<image name=[Image #1]>", "", "</image>", "And [Image #1]?"];
    for (texts, expected, notes) in [
        (vec!["<turn_aborted>\\nOh.\\n</turn_aborted>"], vec![], 1),
        (vec![&*rules], vec![], 2),
        (vec![page], vec!["Yes"], 1),
        (vec![&*editor], vec!["Fix it"], 1),
        (vec!["<skill> is a tag?"], vec!["<skill> is a tag?"], 0),
        (named.to_vec(), vec!["And [Image #1]?"], 0),
    ] {
        let pieces = texts.iter().map(|text| match text.is_empty() {
            true => image.to_owned(),
            false => said(text),
        });
        let pieces: Vec<String> = pieces.collect();
        let outline = codex(&[("user", &pieces.join(",")), ("assistant", "Done.")]);
        let found = outline
            .lines()
            .filter_map(|line| line.strip_prefix("  Text(\"")?.strip_suffix("\")"))
            .collect::<Vec<_>>();
        let expected: Vec<&str> = expected.into_iter().chain(["Done."]).collect();
        assert_eq!(found, expected, "{outline}");
        let counted = outline.contains(&format!("left behind {notes} context text\n"));
        assert_eq!(counted, notes > 0, "{outline}");
    }
}

#[test]
fn an_image_in_a_result_of_codex_is_a_note() {
    let call = r#"{"type":"function_call","name":"view","arguments":"{}","call_id":"c"}"#;
    let result = r#"{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"Seen"},{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}"#;
    let outline = codex(&[("call", call), ("result", result)]);
    let expected = r#"content: "Seen\n[attachment image image/png 3 bytes]""#;
    assert!(outline.contains(expected), "{outline}");
}

#[test]
fn an_update_between_two_states_of_a_message_of_gemini_cli_does_not_repeat_it() {
    let context = r#"{"id":"0","type":"user","content":[{"text":"<session_context>\nToday.\n</session_context>"}]}"#;
    let reply = |more: &str| format!(r#"{{"id":"b","type":"gemini","content":"I look."{more}}}"#);
    let call = r#","toolCalls":[{"id":"l","name":"look","args":{},"result":"frost"}]"#;
    let lines = [
        r#"{"sessionId":"s","projectHash":"p","kind":"main"}"#.to_owned(),
        context.to_owned(),
        r#"{"id":"a","type":"user","content":"Prune now?"}"#.to_owned(),
        reply(""),
        r#"{"$set":{"lastUpdated":"2026-02-01T07:00:02.000Z"}}"#.to_owned(),
        reply(r#","tokens":{"input":40,"output":3}"#),
        reply(&format!(r#","tokens":{{"input":40,"output":3}}{call}"#)),
        r#"{"id":"c","type":"user","content":"And then?"}"#.to_owned(),
        r#"{"$rewindTo":"c"}"#.to_owned(),
    ];
    let outline = outline_of(lines.join("\n").as_bytes(), None);
    assert_eq!(outline.matches("I look.").count(), 1, "{outline}");
    for expected in [
        "1 after -: 999997 user\n  Text(\"Prune now?\")\n2 after 1: 999998 assistant used 40 3\n",
        "4 after 3: 1000000 user\n  Text(\"And then?\")\nbranch main 3\nbranch branch-2 4\n",
        "left behind 1 context text\n",
    ] {
        assert!(outline.contains(expected), "{expected}: {outline}");
    }
}

#[test]
fn a_session_of_gemini_cli_that_continues_a_checkpoint_has_its_messages() {
    let said = |id: &str, text: &str| {
        format!(r#"{{"id":"{id}","type":"user","content":[{{"text":"{text}"}}]}}"#)
    };
    let call = r#"{"id":"b","type":"gemini","content":[{"functionCall":{"id":"x","name":"look","args":{}}}],"toolCalls":[{"id":"l","name":"look","args":{},"result":"frost"}]}"#;
    let context = said("0", "<session_context>x</session_context>");
    let set =
        |messages: &[String]| format!(r#"{{"$set":{{"messages":[{}]}}}}"#, messages.join(","));
    let before = [context.clone(), said("a", "Prune now?"), call.to_owned()];
    let header = r#"{"sessionId":"s","projectHash":"p","kind":"main"}"#.to_owned();
    let lines = [
        header,
        set(std::slice::from_ref(&context)),
        set(&before),
        said("c", "And then?"),
        set(&[said("d", "A summary.")]),
    ];
    let outline = outline_of(lines.join("\n").as_bytes(), None);
    assert_eq!(outline.matches("ToolCall").count(), 1, "{outline}");
    assert!(!outline.contains("A summary."), "{outline}");
    let expected = "4 after 3: 1000000 user\n  Text(\"And then?\")\n";
    assert!(outline.contains(expected), "{outline}");
    assert_contains(&outline, "left behind 1 context text\n");
}

#[test]
fn a_result_of_gemini_cli_is_that_of_its_call_with_all_of_its_parts() {
    let response = |id: &str, rest: &str| {
        format!(r#"{{"functionResponse":{{"id":"{id}","response":{{"output":"{id}"}}{rest}}}}}"#)
    };
    let image = r#"{"inlineData":{"mimeType":"image/png","data":"AAAA"}}"#;
    let all = [
        response("one", ""),
        response("two", &format!(r#","parts":[{image}]"#)),
        image.to_owned(),
        response("three", ""),
    ];
    let all = all.join(",");
    let call = |id: &str, result: &str| {
        format!(
            r#"{{"id":"{id}","name":"look","args":{{}},"status":"success","result":[{result}]}}"#
        )
    };
    let calls = [
        call("one", &all),
        call("two", &all),
        call("four", r#"{"text":"plain"}"#),
        call("five", r#"{"lines":["other"]}"#),
    ];
    let calls = calls.join(",");
    let message = format!(r#"{{"id":"a","type":"gemini","content":"","toolCalls":[{calls}]}}"#);
    let outline = outline_of(format!(r#"{{"messages":[{message}]}}"#).as_bytes(), None);
    let results: Vec<&str> = outline
        .lines()
        .filter_map(|line| line.split_once("content: "))
        .map(|(_, result)| result)
        .collect();
    let [one, two, four, five] = results.as_slice() else {
        panic!("{outline}");
    };
    assert!(one.starts_with("\"one\","), "{outline}");
    assert!(two.starts_with("\"two\\n"), "{outline}");
    assert_eq!(two.matches("image/png").count(), 2, "{outline}");
    assert!(four.starts_with("\"plain\","), "{outline}");
    assert!(five.contains("other"), "{outline}");
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
        said(
            9,
            "This session is being continued from a previous conversation. Summary: x",
        ),
        said(
            8,
            "<task-notification>\\n<status>completed</status>\\n</task-notification>\\nRead it.",
        ),
    ];
    let outline = outline_of(lines.join("\n").as_bytes(), None);
    let texts = outline.lines().filter(|line| line.contains("Text("));
    assert_eq!(texts.count(), 4, "{outline}");
    for expected in [
        "assistant used 7 90\n  Text(\"I look.\")",
        "assistant\n  Text(\"It is done.\")",
        "left behind 1 command\n",
        "left behind 1 command output\n",
        "left behind 1 compaction summary\n",
        "left behind 1 interruption\n",
        "left behind 1 program note\n",
    ] {
        assert!(outline.contains(expected), "{expected}: {outline}");
    }
}

#[test]
fn what_claude_code_adds_to_a_message_is_left_behind() {
    let reminder = r"<system-reminder>\nBe nice.\n</system-reminder>";
    let between = format!(r"{reminder}\n{reminder}\nNext.\n{reminder}\n");
    let question = r"Is <system-reminder> a tag, as in <system-reminder>x</system-reminder>";
    let open = "<system-reminder> is what?";
    let opened = "<ide_opened_file>The user opened a.rs.</ide_opened_file>";
    let selected = r"<ide_selection>x</ide_selection>\n<ide_opened_file>y</ide_opened_file>\nNext.";
    let command = r"<command-message>review</command-message>\n<command-name>/review</command-name>\n<command-args>the last commit</command-args>";
    let bare = r"<command-message>orient</command-message>\n<command-name>/orient</command-name>";
    for (texts, expected, notes) in rows! {
        (vec![reminder, "Next. "], vec!["Next. "], 1),
        (vec!["Next.", reminder, reminder], vec!["Next."], 2),
        (vec!["[Request interrupted by user]", "Why?"], vec!["Why?"], 0),
        (vec![between.as_str()], vec!["Next."], 3),
        (vec![question], vec![question], 0),
        (vec![open], vec![open], 0),
        (vec![reminder], vec![], 1),
        (vec![opened, "Next."], vec!["Next."], 1),
        (vec![selected], vec!["Next."], 2),
        (vec![command], vec!["/review the last commit"], 0),
        (vec![bare], vec!["/orient"], 0),
    } {
        let blocks = texts
            .iter()
            .map(|text| format!(r#"{{"type":"text","text":"{text}"}}"#));
        let blocks: Vec<String> = blocks.collect();
        let lines = [
            r#"{"type":"user","sessionId":"s","message":{"content":"First."}}"#.to_owned(),
            format!(
                r#"{{"type":"user","sessionId":"s","message":{{"content":[{}]}}}}"#,
                blocks.join(",")
            ),
        ];
        let outline = outline_of(lines.join("\n").as_bytes(), None);
        let said = outline
            .lines()
            .filter_map(|line| line.strip_prefix("  Text("));
        let said: Vec<String> = said.map(|text| format!("({text}")).collect();
        let expected = ["First."].into_iter().chain(expected);
        let expected: Vec<String> = expected.map(|text| format!("({text:?})")).collect();
        assert_eq!(said, expected, "{outline}");
        let counted = outline.contains(&format!("left behind {notes} program note\n"));
        assert_eq!(counted, notes > 0, "{outline}");
    }
}

#[test]
fn a_sub_agent_before_the_first_message_of_claude_code_is_left_behind() {
    let line = |kind: &str, n: u32, is_side: bool, text: &str| {
        format!(
            r#"{{"type":"{kind}","sessionId":"s","uuid":"u{n}","parentUuid":null,"isSidechain":{is_side},"message":{{"content":"{text}"}}}}"#
        )
    };
    let title = r#"{"type":"summary","summary":"Locks","leafUuid":"u4"}"#.to_owned();
    let warm = [
        line("user", 1, true, "Warmup"),
        line("assistant", 2, true, "I am ready."),
    ];
    let main = [
        line("user", 3, false, "Open the lock."),
        line("assistant", 4, false, "It is open."),
    ];
    let alone = outline_of(warm.join("\n").as_bytes(), None);
    assert!(alone.contains("Warmup"), "{alone}");
    let lines = [vec![title], warm.to_vec(), main.to_vec()].concat();
    let outline = outline_of(lines.join("\n").as_bytes(), None);
    assert_eq!(outline.matches("Text(").count(), 2, "{outline}");
    for expected in [
        "claude-code \"Locks\"\n",
        "after -: 999999 user\n  Text(\"Open the lock.\")\n",
        "left behind 2 sub-agent message\n",
    ] {
        assert!(outline.contains(expected), "{expected}: {outline}");
    }
}

#[test]
fn what_is_typed_while_claude_code_works_is_said_by_the_user() {
    let line = |kind: &str, n: u32, rest: &str| {
        let parent = n - 1;
        format!(
            r#"{{"type":"{kind}","sessionId":"s","uuid":"u{n}","parentUuid":"u{parent}",{rest}}}"#
        )
    };
    let said = |kind: &str, n: u32, block: &str| {
        line(kind, n, &format!(r#""message":{{"content":[{block}]}}"#))
    };
    let text = |text: &str| format!(r#"{{"type":"text","text":"{text}"}}"#);
    let queued = |n: u32, rest: &str| {
        let attachment = format!(r#""attachment":{{"type":"queued_command",{rest}}}"#);
        line("attachment", n, &attachment)
    };
    let call = r#"{"type":"tool_use","id":"t","name":"Read","input":{}}"#;
    let result = r#"{"type":"tool_result","tool_use_id":"t","content":"x"}"#;
    let lines = [
        said("user", 1, &text("Refactor it")),
        said("assistant", 2, call),
        queued(3, r#""prompt":"Keep the old API!","commandMode":"prompt""#),
        said("user", 4, result),
        queued(5, &format!(r#""prompt":[{}]"#, text("And the tests."))),
        said("assistant", 6, &text("I keep both.")),
        queued(7, r#""prompt":"ls","commandMode":"bash""#),
        queued(8, r#""prompt":"done","commandMode":"task-notification""#),
        queued(9, r#""prompt":"note","isMeta":true"#),
        line(
            "attachment",
            10,
            r#""attachment":{"type":"todo","prompt":"x"}"#,
        ),
        said("user", 11, &text("Thanks")),
    ];
    let outline = outline_of(lines.join("\n").as_bytes(), None);
    assert!(!outline.contains("branch"), "{outline}");
    for expected in [
        "3 after 2: 999996 user\n  Text(\"Keep the old API!\")\n4 after 3: ",
        " tool\n  ToolResult { call_id: \"t\"",
        " user\n  Text(\"And the tests.\")\n6 after 5: ",
        "7 after 6: 1000000 user\n  Text(\"Thanks\")\n",
        "left behind 1 \"attachment\" line\n",
        "left behind 1 command\n",
        "left behind 2 program note\n",
    ] {
        assert!(outline.contains(expected), "{expected}: {outline}");
    }
}

#[test]
fn a_text_that_the_model_took_from_the_queue_stands_behind_the_results() {
    let line = |kind: &str, n: u32, rest: &str| {
        format!(r#"{{"type":"{kind}","sessionId":"s","uuid":"u{n}","parentUuid":"u0",{rest}}}"#)
    };
    let message = |kind: &str, n: u32, content: &str| {
        line(kind, n, &format!(r#""message":{{"content":{content}}}"#))
    };
    let queue = |operation: &str, rest: &str| {
        format!(r#"{{"type":"queue-operation","sessionId":"s","operation":"{operation}"{rest}}}"#)
    };
    let text = |text: &str| format!(r#","content":"{text}""#);
    let call = r#"[{"type":"tool_use","id":"t","name":"n","input":{}}]"#;
    let result = r#"[{"type":"tool_result","tool_use_id":"t","content":"done"}]"#;
    let lines = |first: &[String], removed: &str, after: &[String]| {
        let mut lines = first.to_vec();
        lines.extend([
            message("user", 1, r#""Fix it""#),
            message("assistant", 2, call),
            queue(
                "enqueue",
                &text("<task-notification>done</task-notification>"),
            ),
            queue("enqueue", &text("Check again")),
            queue("remove", removed),
        ]);
        lines.push(message("user", 3, result));
        lines.extend_from_slice(after);
        lines.push(message(
            "assistant",
            4,
            r#"[{"type":"text","text":"I do."}]"#,
        ));
        outline_of(lines.join("\n").as_bytes(), None)
    };
    let said = "3 after 2: 999998 tool\n  ToolResult { call_id: \"t\", content: \"done\", is_error: false }\n4 after 3: 999999 user\n  Text(\"Check again\")\n";
    let absorbed = format!(r#","reason":"absorbed_mid_turn"{}"#, text("Check again"));
    let queued = r#""attachment":{"type":"queued_command","prompt":"Check again"}"#;
    let attachment = [line("attachment", 5, queued)];
    let blocks = r#"[{"type":"text","text":"Check again"}]"#;
    let blocks = format!(r#""attachment":{{"type":"queued_command","prompt":{blocks}}}"#);
    let blocks = [line("attachment", 5, &blocks)];
    for outline in [
        lines(&[], "", &[]),
        lines(&[], &absorbed, &[]),
        lines(&[], "", &attachment),
        lines(&[], &absorbed, &attachment),
        lines(&[], "", &blocks),
    ] {
        assert!(outline.contains(said), "{outline}");
        assert_eq!(outline.matches("Check again").count(), 1, "{outline}");
        assert!(!outline.contains("unsent"), "{outline}");
    }
    let other = [line("attachment", 6, r#""attachment":{"type":"todo"}"#)];
    for outline in [
        lines(&other, "", &[]),
        lines(&[], r#","reason":"agent_stopped""#, &[]),
        lines(&[], &text("/mcp"), &[]),
    ] {
        assert!(
            !outline.contains("Check again") && !outline.contains("/mcp"),
            "{outline}"
        );
        assert!(outline.contains("left behind 1 unsent text\n"), "{outline}");
    }
}

#[test]
fn citations_of_claude_are_counted() {
    let claude = r#"[{"name":"T","chat_messages":[{"uuid":"a","sender":"assistant","content":[
        {"type":"text","text":"At 7.","citations":[{"uuid":"c"},{"uuid":"d"}]}]}]}]"#;
    let outline = outline_of(claude.as_bytes(), None);
    assert!(outline.contains("left behind 2 citation\n"), "{outline}");
}
