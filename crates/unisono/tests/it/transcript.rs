//! What is read of each format, and what is told of bad input.

use unisono_context::Role;
use unisono_context::message::Part;
use unisono_interchange::transcript::{self, Error, Format, Options, Parsed, Stamps};

pub(crate) fn read(bytes: &[u8], options: &Options) -> Result<Parsed, Error> {
    let mut next = 0;
    let mut ids = || {
        next += 1;
        next
    };
    let stamps = Stamps {
        ids: &mut ids,
        now: None,
    };
    transcript::read(bytes, options, stamps)
}

fn named() -> Options {
    Options {
        name: "chat.jsonl".to_owned(),
        ..Options::default()
    }
}

/// The messages of a conversation, a line each.
fn outline(parsed: &Parsed) -> String {
    let import = &parsed.import;
    let mut lines = vec![format!(
        "{} {:?} system {:?}",
        parsed.format, import.title, import.system
    )];
    for (_, message) in &import.messages {
        let author = message
            .author
            .as_ref()
            .map_or(String::new(), |a| format!(" by {a}"));
        let parts: Vec<String> = message
            .parts
            .iter()
            .map(|part| format!("{part:?}"))
            .collect();
        lines.push(format!(
            "{} {}{author} {}",
            message.at.0,
            message.role,
            parts.join(" | ")
        ));
    }
    lines.extend(parsed.skipped.iter().map(|line| format!("skipped {line}")));
    lines.extend(parsed.warnings.iter().map(|line| format!("warning {line}")));
    lines.join("\n")
}

fn outline_or_error(text: &[u8]) -> String {
    match read(text, &named()) {
        Ok(parsed) => outline(&parsed),
        Err(error) => error.to_string(),
    }
}

const OPENAI: [&str; 6] = [
    r#"{"role":"developer","content":"Be brief."}"#,
    r#"{"role":"user","content":[{"type":"text","text":"What is in it?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNQcEgAAAFEAMELjZZCAAAAAElFTkSuQmCC"}},{"type":"file","file":{"filename":"a.pdf","file_data":"AAAAAAAA"}}]}"#,
    r#"{"role":"assistant","content":"","name":"helper","tool_calls":[{"id":"c","type":"function","function":{"name":"look","arguments":"{\"z\": 1.0, \"a\":2}"}},{"id":"c","type":"function","function":{"name":"look","arguments":"{not json"}}]}"#,
    r#"{"role":"tool","tool_call_id":"c","content":"one"}"#,
    r#"{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"two"}]}"#,
    r#"{"role":"assistant","content":null,"refusal":"No."}"#,
];

#[test]
fn openai_messages_in_every_wrapping() {
    let lines = OPENAI.join("\n");
    let array = format!("[\n{}\n]", OPENAI.join(",\n"));
    let object = format!("{{\"model\":\"x\",\"messages\":{array}}}");
    let outlines = [
        &lines,
        &array,
        &object,
        &lines.replace('\n', "\r\n"),
        &format!("\u{feff}{lines}\n\n"),
    ]
    .map(|text| outline_or_error(text.as_bytes()));
    insta::assert_snapshot!(outlines[0]);
    for outline in &outlines {
        assert_eq!(outline, &outlines[0]);
    }
}

#[test]
fn sharegpt_with_functions() {
    let text = r#"[{"id":"x","system":"S","conversations":[
        {"from":"system","value":"More"},
        {"from":"human","value":"Weather?"},
        {"from":"function_call","value":"{\"name\":\"w\",\"arguments\":{\"b\":1,\"a\":[2]}}"},
        {"from":"observation","value":"rain"},
        {"from":"gpt","value":"Rain."}]}]"#;
    insta::assert_snapshot!(outline_or_error(text.as_bytes()));
}

#[test]
fn the_authored_subset_keeps_arguments_as_they_were_written() {
    let text = concat!(
        "{\"type\":\"session\",\"unisono\":1,\"title\":\"T\",\"system\":\"S\",\"labels\":{\"owner\":\"a\"}}\n",
        "{\"type\":\"message\",\"role\":\"user\",\"at\":\"2026-03-02T09:14:00Z\",\"parts\":[{\"type\":\"text\",\"text\":\"hi\"},{\"type\":\"attachment\",\"filename\":\"f\",\"mime\":\"m\",\"size_bytes\":3}]}\n",
        "{\"type\":\"message\",\"role\":\"assistant\",\"parts\":[{\"type\":\"tool_call\",\"id\":\"1\",\"name\":\"n\",\"arguments\":{\"z\": 12345678901234567890123, \"a\": 1.10 }}],\"mood\":\"good\"}\n",
        "{\"type\":\"message\",\"role\":\"tool\",\"parts\":[{\"type\":\"tool_result\",\"call_id\":\"1\",\"content\":\"r\",\"is_error\":true}]}\n",
    );
    insta::assert_snapshot!(outline_or_error(text.as_bytes()));
}

#[test]
fn people_keep_their_names_in_openais_messages() {
    let text = r#"[{"role":"user","name":"Anna Müller","content":"Can we ship?"},{"role":"user","name":"bob","content":"No, Tuesday."},{"role":"user","name":" ","content":"?"},{"role":"user","name":"a\nb","content":"!"},{"role":"user","name":"a\u202eb","content":"."}]"#;
    let parsed = read(text.as_bytes(), &named()).unwrap();
    let authors: Vec<Option<&str>> = parsed
        .import
        .messages
        .iter()
        .map(|(_, message)| message.author.as_ref().map(|author| author.as_str()))
        .collect();
    assert_eq!(
        authors,
        [Some("Anna Müller"), Some("bob"), None, None, None]
    );
}

#[test]
fn the_shipped_example_is_read() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/orders-migration.jsonl"
    );
    let parsed = read(&std::fs::read(path).unwrap(), &named()).unwrap();
    assert_eq!(parsed.format, Format::Unisono);
    assert!(parsed.import.messages.len() >= 80);
    assert!(parsed.warnings.is_empty() && parsed.skipped.is_empty());
    let has = |wanted: fn(&Part) -> bool| {
        parsed
            .import
            .messages
            .iter()
            .any(|(_, m)| m.parts.iter().any(wanted))
    };
    assert!(has(|p| matches!(p, Part::ToolResult { .. })));
    assert!(has(|p| matches!(p, Part::Attachment { .. })));
}

#[test]
fn bad_input_is_told_with_line_column_and_reason() {
    let user = r#"{"role":"user","content":"hi"}"#;
    let session = r#"{"type":"session","unisono":1}"#;
    let message = |id: &str| {
        format!(
            r#"{{"type":"message","id":"{id}","role":"user","parts":[{{"type":"text","text":"x"}}]}}"#
        )
    };
    let id = "0192aaaa-0000-7000-8000-000000000001";
    let table: Vec<(&str, Vec<u8>)> = vec![
        ("empty", b"".to_vec()),
        ("blank", b" \n\t\r\n".to_vec()),
        ("only a mark", b"\xef\xbb\xbf".to_vec()),
        ("prose", b"Dear all,\n".to_vec()),
        ("other json", b"{\"a\":1,\"b\":2}".to_vec()),
        ("no object", b"[1,2]".to_vec()),
        ("empty list", b"[]".to_vec()),
        (
            "malformed line",
            format!("{user}\n{{\"role\":user}}\n{user}\n").into_bytes(),
        ),
        ("truncated", format!("{user}\n{}", &user[..20]).into_bytes()),
        (
            "trailing garbage",
            format!("{user}\n{user} and more\n").into_bytes(),
        ),
        ("broken array", format!("[{user},\n{user}").into_bytes()),
        ("garbage after array", format!("[{user}] x").into_bytes()),
        (
            "not utf-8",
            [user.as_bytes(), b"\n{\"role\":\"\xff\"}\n", user.as_bytes()].concat(),
        ),
        ("damaged utf-16", b"\xff\xfe{\0}".to_vec()),
        (
            "unknown role",
            format!("{user}\n{{\"role\":\"usr\",\"content\":\"x\"}}").into_bytes(),
        ),
        (
            "unknown part",
            b"{\"role\":\"user\",\"content\":[{\"type\":\"texte\",\"text\":\"x\"}]}".to_vec(),
        ),
        (
            "content of a number",
            format!("{user}\n{{\"role\":\"user\",\"content\":7}}").into_bytes(),
        ),
        (
            "no content",
            format!("{user}\n{{\"role\":\"assistant\",\"content\":null}}").into_bytes(),
        ),
        (
            "result without call",
            format!("{user}\n{{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"x\"}}")
                .into_bytes(),
        ),
        (
            "two conversations",
            b"{\"messages\":[]}\n{\"messages\":[]}".to_vec(),
        ),
        ("no message", b"{\"messages\":[]}".to_vec()),
        (
            "duplicate ids",
            format!("{session}\n{}\n{}", message(id), message(id)).into_bytes(),
        ),
        (
            "bad id",
            format!("{session}\n{}", message("7")).into_bytes(),
        ),
        ("no session", message(id).into_bytes()),
        (
            "second session",
            format!("{session}\n{session}\n{}", message(id)).into_bytes(),
        ),
        (
            "newer version",
            format!("{}\n{}", session.replace(":1}", ":2}"), message(id)).into_bytes(),
        ),
        (
            "unknown line",
            format!("{session}\n{{\"type\":\"mesage\"}}\n{}", message(id)).into_bytes(),
        ),
        (
            "unknown speaker",
            b"[{\"from\":\"humann\",\"value\":\"x\"}]".to_vec(),
        ),
        (
            "unknown head",
            format!(
                "{session}\n{}\n{{\"type\":\"branch\",\"name\":\"b\",\"head\":\"{}\"}}",
                message(id),
                id.replace('1', "2")
            )
            .into_bytes(),
        ),
    ];
    let reply: Vec<String> = table
        .iter()
        .map(|(what, text)| format!("## {what}\n{}\n", outline_or_error(text)))
        .collect();
    insta::assert_snapshot!(reply.join("\n"));
}

#[test]
fn bad_lines_can_be_left_out() {
    let text = [
        b"{\"role\":\"user\",\"content\":\"one\"}\n{\"role\":\"user\"\n{\"role\":\"\xff\"}\n" as &[u8],
        b"{\"role\":\"tool\",\"content\":\"x\",\"tool_call_id\":\"q\"}\n{\"role\":\"user\",\"content\":\"two\"}\n",
    ]
    .concat();
    let options = Options {
        skip_bad: true,
        ..named()
    };
    insta::assert_snapshot!(outline(&read(&text, &options).unwrap()));
    assert!(matches!(read(&text, &named()), Err(Error::Bad { lines, .. }) if lines.len() == 3));
}

#[test]
fn a_format_that_was_asked_for_must_be_it() {
    let options = |format| Options {
        format: Some(format),
        ..named()
    };
    let text = br#"{"role":"user","content":"hi"}"#;
    assert!(read(text, &options(Format::OpenAi)).is_ok());
    let error = read(text, &options(Format::ShareGpt))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("it looks like openai, not like sharegpt"),
        "{error}"
    );
}

#[test]
fn a_message_of_ten_megabytes_is_read_and_written() {
    let long = "word \\n \\\"x\\\" ".repeat(1_000_000);
    let text = format!("{{\"role\":\"user\",\"content\":\"{long}\"}}");
    assert!(text.len() > 10 << 20);
    let parsed = read(text.as_bytes(), &named()).unwrap();
    let Part::Text(content) = &parsed.import.messages[0].1.parts[0] else {
        panic!("no text");
    };
    assert!(content.len() > 8 << 20);
}

#[test]
fn deeply_nested_json_is_an_error_or_kept_and_never_a_crash() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    assert!(read(deep.as_bytes(), &named()).is_err());
    let inside = format!("{{\"role\":\"user\",\"content\":{deep}}}");
    assert!(read(inside.as_bytes(), &named()).is_err());
}

#[test]
fn a_large_file_may_be_bad_in_every_line() {
    let lines = "{\"role\":\"nobody\",\"content\":\"x\"}\n".repeat(100_000);
    let array = format!("[{}]", lines.trim_end().replace('\n', ","));
    for text in [&lines, &array] {
        match read(text.as_bytes(), &named()) {
            Err(Error::Bad { lines, .. }) => assert_eq!(lines.len(), 100_000),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn times_increase_and_fit_between_those_that_are_known() {
    let line = |at: &str| {
        format!(
            "{{\"type\":\"message\",\"role\":\"user\",{at}\"parts\":[{{\"type\":\"text\",\"text\":\"x\"}}]}}\n"
        )
    };
    let text = format!(
        "{{\"type\":\"session\",\"unisono\":1}}\n{}{}{}{}{}",
        line(""),
        line(""),
        line("\"at\":5000,"),
        line(""),
        line("\"at\":\"1970-01-01T00:00:09.5Z\",")
    );
    let at = |parsed: &Parsed| -> Vec<i64> {
        parsed.import.messages.iter().map(|(_, m)| m.at.0).collect()
    };
    assert_eq!(
        at(&read(text.as_bytes(), &named()).unwrap()),
        [4998, 4999, 5000, 5001, 9500]
    );
    let untimed = "{\"role\":\"user\",\"content\":\"x\"}\n".repeat(3);
    let parsed = read(untimed.as_bytes(), &named()).unwrap();
    assert_eq!(at(&parsed), [0; 3], "none is known");
    assert!(
        parsed
            .import
            .messages
            .iter()
            .all(|(_, m)| m.role == Role::User)
    );
}

#[test]
fn shortened_messages_must_be_there_and_once() {
    let id = "01900000-0000-7000-8000-000000000001";
    let session = r#"{"type":"session","unisono":1}"#;
    let message = format!(
        r#"{{"type":"message","id":"{id}","role":"user","parts":[{{"type":"text","text":"a long text"}}]}}"#
    );
    let cut = format!(r#"{{"type":"cut","message":"{id}","target_chars":4}}"#);
    let file = |lines: &[&str]| [&[session, &message], lines].concat().join("\n");
    let parsed = read(file(&[&cut]).as_bytes(), &named()).unwrap();
    assert_eq!(parsed.import.alterations.len(), 1);
    let other = id.replace('1', "2");
    for (lines, expected) in [
        (vec![cut.clone(), cut.clone()], "is shortened twice"),
        (vec![cut.replace(id, &other)], "does not exist"),
        (vec![cut.replace("cut", "masked")], "`tokens`"),
    ] {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let reply = outline_or_error(file(&lines).as_bytes());
        assert!(reply.contains(expected), "{reply}");
    }
}
