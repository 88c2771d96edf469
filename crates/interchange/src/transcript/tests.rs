//! Examples of each format, written for these tests, and the results of reading them.

use std::path::{Path, PathBuf};

use insta::{Settings, assert_snapshot};

use super::*;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/transcript/testdata")
}

fn read_as(bytes: &[u8], options: &Options) -> Result<Parsed, Error> {
    let mut next = 0;
    let mut ids = || {
        next += 1;
        next
    };
    let stamps = Stamps {
        ids: &mut ids,
        now: Timestamp(1_000_000),
    };
    read(bytes, options, stamps)
}

/// A complete conversation, for a golden file.
fn outline(parsed: &Parsed) -> String {
    let (import, mut out) = (&parsed.import, String::new());
    out += &format!("{} {:?}\n", parsed.format, import.title);
    if !import.system.is_empty() {
        out += &format!("system {:?}\n", import.system);
    }
    let number = |id: unisono_context::MessageId| id.as_u128().to_string();
    for (parent, message) in &import.messages {
        let after = parent.map_or("-".to_owned(), number);
        let author = message.author.as_ref().map(|author| format!(" {author}"));
        let used = message
            .usage
            .map(|used| format!(" used {} {}", used.input.0, used.output.0));
        out += &format!(
            "{} after {after}: {} {}{}{}\n",
            number(message.id),
            message.at.0,
            message.role,
            author.unwrap_or_default(),
            used.unwrap_or_default()
        );
        for part in &message.parts {
            out += &format!("  {part:?}\n");
        }
    }
    for (name, head) in &import.branches {
        out += &format!("branch {name} {}\n", number(*head));
    }
    for line in &parsed.warnings {
        out += &format!("warning {line}\n");
    }
    for line in &parsed.skipped {
        out += &format!("skipped {line}\n");
    }
    for (what, count) in &parsed.left_behind {
        out += &format!("left behind {count} {what}\n");
    }
    out
}

/// The result of reading each text, in one golden file.
fn assert_outlines(golden: &str, table: &[(&str, String)]) {
    let outlines: Vec<String> = table
        .iter()
        .map(|(what, text)| format!("## {what}\n{}", outline_of(text.as_bytes(), None)))
        .collect();
    goldens().bind(|| assert_snapshot!(golden, outlines.join("\n")));
}

fn outline_of(bytes: &[u8], format: Option<Format>) -> String {
    let options = Options {
        name: "talk".to_owned(),
        format,
        ..Options::default()
    };
    match read_as(bytes, &options) {
        Ok(parsed) => outline(&parsed),
        Err(error) => format!("error: {error}\n"),
    }
}

fn goldens() -> Settings {
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("testdata/goldens");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

#[test]
fn every_example_is_recognised_and_read() {
    goldens().bind(|| {
        for format in Format::ALL {
            let directory = examples().join(format.name());
            let Ok(files) = std::fs::read_dir(&directory) else {
                continue;
            };
            for file in files {
                let path = file.unwrap().path();
                let bytes = std::fs::read(&path).unwrap();
                let name = path.file_name().unwrap().to_string_lossy();
                let outline = outline_of(&bytes, None);
                assert!(outline.starts_with(format.name()), "{name}: {outline}");
                assert_snapshot!(format!("{format}-{}", name.replace('.', "-")), outline);
                // A byte order mark and Windows line breaks change nothing.
                let text = String::from_utf8(bytes).unwrap().replace('\n', "\r\n");
                let windows = format!("\u{feff}{text}");
                assert_eq!(outline_of(windows.as_bytes(), None), outline, "{name}");
            }
        }
    });
}

#[test]
fn problems_of_anthropic_messages_are_reported() {
    let call =
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{}}]}"#;
    for (text, expected) in [
        (
            format!("{call}\n{{\"role\":\"model\",\"content\":\"x\"}}"),
            "talk:2:9: unknown role",
        ),
        (
            format!("{call}\n{{\"role\":\"user\",\"content\":[]}}"),
            "talk:2:1: the message has no content",
        ),
        (
            format!("{call}\n{{\"role\":\"user\"}}"),
            "`content` is missing",
        ),
        (
            format!(
                "{call}\n{{\"role\":\"user\",\"content\":[{{\"type\":\"image\",\"source\":7}}]}}"
            ),
            "an object was expected",
        ),
        (format!("{call}\n{}", &call[..40]), "was it cut off"),
        (
            format!("{{\"messages\":[{call}],\"system\":7}}"),
            "text was expected",
        ),
    ] {
        let outline = outline_of(text.as_bytes(), None);
        assert!(outline.contains(expected), "{text}: {outline}");
    }
    let plain = r#"[{"role":"user","content":"hi"}]"#;
    let as_own = outline_of(plain.as_bytes(), Some(Format::Anthropic));
    assert!(as_own.starts_with("anthropic"), "{as_own}");
    let not = outline_of(call.as_bytes(), Some(Format::OpenAi));
    assert!(not.contains("unknown part type"), "{not}");
}

#[test]
fn a_conversation_of_too_many_messages_is_refused() {
    let line = "{\"role\": \"user\", \"content\": \"x\"}\n";
    let taken = |messages: usize, most: Option<usize>| {
        let mut next = 0;
        let mut ids = || {
            next += 1;
            next
        };
        let stamps = Stamps {
            ids: &mut ids,
            now: Timestamp(0),
        };
        let options = Options {
            name: "long".to_owned(),
            most,
            ..Options::default()
        };
        let read = read(line.repeat(messages).as_bytes(), &options, stamps);
        read.map(|parsed| parsed.import.messages.len())
    };
    assert_eq!(taken(3, Some(3)), Ok(3));
    assert_eq!(taken(4, None), Ok(4));
    let (name, most) = ("long".to_owned(), 3);
    assert_eq!(taken(9, Some(3)), Err(Error::TooMany { name, most }));
}

#[test]
fn problems_of_exports_are_reported() {
    let node = |id: &str, parent: &str, message: &str| {
        format!(r#""{id}":{{"id":"{id}","parent":{parent},"message":{message},"children":[]}}"#)
    };
    let says = |text: &str| {
        format!(
            r#"{{"author":{{"role":"user"}},"create_time":0,"content":{{"content_type":"text","parts":["{text}"]}}}}"#
        )
    };
    let chat = |nodes: &[String], current: &str| {
        let nodes = nodes.join(",\n");
        format!("[{{\"title\":\"T\",\n\"current_node\":\"{current}\",\"mapping\":{{{nodes}}}}}]")
    };
    let claude = |messages: &str| format!(r#"[{{"name":"T","chat_messages":[{messages}]}}]"#);
    let whole = chat(&[node("a", "null", &says("x"))], "a");
    let unknown = r#"{"author":{"role":"user"},"content":{"content_type":"hologram","beam":1}}"#;
    let no_author = says("x").replace("\"author\"", "\"writer\"");
    let table = [
        ("cut off", whole[..whole.len() - 9].to_owned()),
        (
            "missing parent",
            chat(&[node("a", "\"z\"", &says("x"))], "a"),
        ),
        (
            "circle",
            chat(
                &[
                    node("r", "null", &says("ok")),
                    node("a", "\"b\"", &says("x")),
                    node("b", "\"a\"", &says("y")),
                ],
                "b",
            ),
        ),
        (
            "its own parent",
            chat(&[node("a", "\"a\"", &says("x"))], "a"),
        ),
        (
            "unknown current node",
            whole.replace("\"current_node\":\"a\"", "\"current_node\":\"q\""),
        ),
        ("deleted", chat(&[node("a", "null", "null")], "a")),
        ("empty", chat(&[], "a")),
        (
            "unknown content",
            chat(
                &[node("a", "null", &says("x")), node("b", "\"a\"", unknown)],
                "b",
            ),
        ),
        ("no author", chat(&[node("a", "null", &no_author)], "a")),
        ("mapping of a list", r#"[{"mapping":[]}]"#.to_owned()),
        ("no messages of Claude", claude("")),
        (
            "unknown sender",
            claude(r#"{"uuid":"a","sender":"dog","text":"x"}"#),
        ),
        ("no id", claude(r#"{"sender":"human","text":"x"}"#)),
        (
            "two",
            format!("{},{}", &whole[..whole.len() - 1], &whole[1..]),
        ),
    ];
    assert_outlines("bad-exports", &table);
}

#[test]
fn each_conversation_of_a_file_has_its_position() {
    let one = std::fs::read_to_string(examples().join("chatgpt/branches.json")).unwrap();
    let one = one
        .trim()
        .trim_start_matches('[')
        .trim_end_matches(']')
        .trim();
    let empty = r#"{"title":"Nothing","id":"e","mapping":{}}"#;
    let options = Options {
        name: "conversations.json".to_owned(),
        ..Options::default()
    };
    for text in [
        format!("\u{feff}[{one},\r\n {empty}]\n"),
        format!("{}\n\n{empty}", one.replace('\n', " ")),
    ] {
        let found = list(text.as_bytes(), &options).unwrap();
        let outline: Vec<_> = found
            .iter()
            .map(|found| (found.number, found.messages, found.title.as_str()))
            .collect();
        assert_eq!(
            outline,
            [(1, 7, "Sourdough at altitude"), (2, 0, "Nothing")]
        );
        assert_eq!(found[0].at, Some(Timestamp(1_714_983_120_250)));
        assert!(found[0].matches("1") && found[0].matches("6638a0d0-0000-8000-8000-00000000000a"));
        let mut file = io::Cursor::new(text.as_bytes());
        let first = found[0].text(&mut file).unwrap();
        assert!(read_as(&first, &options).is_ok());
        assert_eq!(found[0].digest.0, *blake3::hash(&first).as_bytes());
        assert_eq!(found[1].text(&mut file).unwrap(), empty.as_bytes());
        let (line, column) = found[1].place;
        let lines: Vec<&str> = text.lines().collect();
        let column = column as usize - 1;
        assert!(lines[line as usize - 1][column..].starts_with(empty));
        assert!(matches!(
            read_as(text.as_bytes(), &options),
            Err(Error::Several {
                conversations: 2,
                ..
            })
        ));
    }
    let bad = format!("[{empty},{{\"mapping\"");
    assert!(matches!(
        list(bad.as_bytes(), &options),
        Err(Error::Bad { .. })
    ));
    let begins = Some((7, 3));
    let error = read_as(
        b"{\"mapping\":7}",
        &Options {
            begins,
            ..options.clone()
        },
    );
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains(":7:14: an object was expected")
    );
    for text in ["[{\"role\":\"user\",\"content\":\"x\"}]", "", "Dear all"] {
        assert_eq!(list(text.as_bytes(), &options), Ok(Vec::new()), "{text}");
    }
}

#[test]
fn problems_of_coding_sessions_are_reported() {
    let claude = |rest: &str| format!(r#"{{"type":"user","sessionId":"s","uuid":"a"{rest}}}"#);
    let line = claude(r#","parentUuid":null,"message":{"role":"user","content":"x"}"#);
    let codex = |kind: &str, payload: &str| format!(r#"{{"type":"{kind}","payload":{payload}}}"#);
    let table = [
        ("claude-code: no message", claude("")),
        (
            "claude-code: unknown parent, no time",
            line.replace("null", "\"q\""),
        ),
        ("claude-code: its own parent", line.replace("null", "\"a\"")),
        ("claude-code: cut off", format!("{line}\n{}", &line[..30])),
        (
            "claude-code: nothing said",
            claude("").replace("user", "system"),
        ),
        (
            "codex: no role",
            codex("response_item", r#"{"type":"message","content":[]}"#),
        ),
        ("codex: null", codex("response_item", "null")),
        ("codex: nothing said", codex("session_meta", "{}")),
        (
            "gemini-cli: no name",
            r#"[{"role":"model","parts":[{"functionCall":{}}]}]"#.to_owned(),
        ),
        (
            "gemini-cli: null",
            r#"[{"role":"user","parts":[{"text":"x"}]},null]"#.to_owned(),
        ),
    ];
    assert_outlines("bad-sessions", &table);
}

#[test]
fn a_text_is_a_conversation_only_if_clearly_one() {
    let other = [
        "Dear all,\nthis is a letter.\n",
        "name: x\nversion: 2\nname: y\n\nfeatures: none\n\nA text.\n\nMore of it.\n\nEnd.",
        "From: a\nTo: b\n\nSubject: c\n\nFrom: d\n",
        "Alice: I am alone.\nAlice: Still.\n",
        "# A page\n\nNote: this is prose.\n\nWarning: so is this.\n",
        "12:30 - lunch\n",
        "apiVersion: v1\nkind: Service\n---\napiVersion: v1\nkind: Pod\n",
    ];
    for text in other {
        let outline = outline_of(text.as_bytes(), None);
        assert!(
            outline.contains("not a conversation in a known format"),
            "{text}: {outline}"
        );
    }
    let forced = |text: &str| outline_of(text.as_bytes(), Some(Format::Text));
    assert!(forced("Alice: I am alone.\n").contains("user Alice"));
    assert!(forced("Dear all").contains("no line begins with a speaker"));
    assert!(forced("\n \n").contains("the file is empty"));
    assert!(outline_of(b"Alice: x\nBob: \xff\nAlice: y", None).contains("2:6: this is not UTF-8"));
    assert!(outline_of(b"PK\x03\x04\x00\xff", None).contains("zip archive, unpack it first"));
}

#[test]
fn stamps_are_parsed_in_several_notations() {
    for (stamp, at) in [
        ("[2024-05-07 10:32]", 1_715_077_920_000_i64),
        ("[07.05.24, 10:32:00]", 1_715_077_920_000),
        ("07/05/2024, 10:32 -", 1_715_077_920_000),
        ("5/7/24, 10:32 AM -", 1_715_077_920_000),
        ("5/17/24, 12:32\u{202f}PM -", 1_715_949_120_000),
        ("2024-05-07T10:32Z -", 1_715_077_920_000),
    ] {
        let text = format!("{stamp} Alice: x\n{stamp} Bob: y\n{stamp} Alice: z\n");
        let outline = outline_of(text.as_bytes(), None);
        assert!(
            outline.contains(&format!(" {at} user Alice")),
            "{stamp}: {outline}"
        );
    }
}

#[test]
fn speakers_are_models_or_people() {
    use unisono_context::Role;
    for (name, role, author) in [
        ("Claude 3.5 Sonnet", Role::Assistant, None),
        ("GPT-4", Role::Assistant, None),
        ("Claude Monet", Role::User, Some("Claude Monet")),
        ("You", Role::User, None),
        ("SYSTEM", Role::System, None),
        ("", Role::User, None),
    ] {
        let (is, named) = text::role_of(name);
        assert_eq!(
            (is, named.as_ref().map(|named| named.as_str())),
            (role, author),
            "{name}"
        );
    }
}

#[test]
fn days_of_a_channel_are_joined_in_order_of_time() {
    let day = |text: &str, ts: &str| {
        let message = format!(r#"[{{"type":"message","user":"U1","text":"{text}","ts":"{ts}"}}]"#);
        (format!("{text}.json"), message.into_bytes())
    };
    let users = br#"[{"id":"U1","profile":{"real_name":"Ada"}}]"#.to_vec();
    let files = [
        day("later", "1715070060.2"),
        day("first", "1715070060.1"),
        ("users.json".to_owned(), users),
    ];
    let outline = outline_of(&join_channel(&files).unwrap(), None);
    assert!(
        outline.contains("1 after -: 1715070060100 user Ada\n  Text(\"first\")"),
        "{outline}"
    );
    assert!(
        outline.contains("2 after 1: 1715070060200 user Ada\n  Text(\"later\")"),
        "{outline}"
    );
    for bad in ["{}", "[7]", "[{\"role\":\"user\"}]", "[", "\u{1}"] {
        let files = [("bad.json".to_owned(), bad.as_bytes().to_vec())];
        let error = join_channel(&files).unwrap_err().to_string();
        assert!(error.starts_with("bad.json: "), "{error}");
    }
}

#[test]
fn replies_of_a_thread_stand_together_and_name_the_message_that_they_answer() {
    let day = |messages: &[(&str, &str, &str, Option<&str>)]| {
        let one = |(user, text, ts, thread): &(&str, &str, &str, Option<&str>)| {
            let thread = thread.map_or_else(String::new, |ts| format!(r#","thread_ts":"{ts}""#));
            format!(r#"{{"type":"message","user":"{user}","text":"{text}","ts":"{ts}"{thread}}}"#)
        };
        let all: Vec<String> = messages.iter().map(one).collect();
        format!("[{}]", all.join(",")).into_bytes()
    };
    let users = br#"[{"id":"U1","profile":{"real_name":"Ada"}},
        {"id":"U2","profile":{"real_name":"Bo"}}]"#;
    let files = [
        (
            "2.json".to_owned(),
            day(&[
                ("U1", "It is done.", "1715150000.1", Some("1715070000.1")),
                ("U2", "An old one.", "1715150000.2", Some("1714000000.1")),
            ]),
        ),
        (
            "1.json".to_owned(),
            day(&[
                ("U1", "Who signs?", "1715070000.1", Some("1715070000.1")),
                ("U2", "Lunch is at 12.", "1715070010.1", None),
                ("U2", "I do.", "1715070020.1", Some("1715070000.1")),
            ]),
        ),
        ("users.json".to_owned(), users.to_vec()),
    ];
    let outline = outline_of(&join_channel(&files).unwrap(), None);
    let said: Vec<&str> = outline
        .lines()
        .filter(|line| line.contains("Text("))
        .collect();
    let expected = [
        "Text(\"Who signs?\")",
        "Text(\"[reply to #1 by Ada]\")",
        "Text(\"I do.\")",
        "Text(\"[reply to #1 by Ada]\")",
        "Text(\"It is done.\")",
        "Text(\"Lunch is at 12.\")",
        // Its first message is not in the files.
        "Text(\"An old one.\")",
    ];
    let trimmed: Vec<&str> = said.iter().map(|line| line.trim()).collect();
    assert_eq!(trimmed, expected, "{outline}");
    assert!(outline.contains("thread link"), "{outline}");
}
