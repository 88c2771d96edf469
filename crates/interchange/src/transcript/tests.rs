//! Examples of each format, written for these tests, and the results of reading them.

use std::path::{Path, PathBuf};

use insta::{Settings, assert_snapshot};

use super::*;

mod above;
mod captions;
mod chatgpt;
mod dropped;
mod messages;
mod messenger;
mod messengers;
mod sessions;
mod slack;
mod speakers;
mod telegram;
mod texts;
mod whatsapp;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/transcript/testdata")
}

/// Options for a file of this format; none: it is detected.
fn talk(format: Option<Format>) -> Options {
    Options {
        name: "talk".to_owned(),
        format,
        ..Options::default()
    }
}

fn read_as(bytes: &[u8], options: &Options) -> Result<Parsed, Error> {
    let mut next = 0;
    let mut ids = || {
        next += 1;
        next
    };
    let stamps = Stamps {
        ids: &mut ids,
        now: Some(Timestamp(1_000_000)),
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
    for (what, count) in &parsed.dropped_content {
        out += &format!("left behind {count} {what}\n");
    }
    out
}

/// The messages of a text, each with its author or role before it, and with `/` between lines; none if
/// the text is not read.
fn authored(text: &str, format: Option<Format>) -> Vec<String> {
    let Ok(parsed) = read_as(text.as_bytes(), &talk(format)) else {
        return Vec::new();
    };
    let messages = parsed.import.messages.iter().map(|(_, message)| {
        let author = message.author.as_ref().map(ToString::to_string);
        let author = author.unwrap_or_else(|| message.role.to_string());
        let parts = message.parts.iter();
        let texts: Vec<_> = parts
            .map(unisono_context::message::Part::countable_text)
            .collect();
        format!("{author}: {}", texts.join("|").replace('\n', "/"))
    });
    messages.collect()
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
    match read_as(bytes, &talk(format)) {
        Ok(parsed) => outline(&parsed),
        Err(error) => format!("error: {error}\n"),
    }
}

#[track_caller]
fn assert_contains(outline: &str, expected: &str) {
    assert!(outline.contains(expected), "{outline}");
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
    for (text, expected) in rows! {
        (format!("{call}\n{{\"role\":\"model\",\"content\":\"x\"}}"), "talk:2:9: unknown role"),
        (
            format!("{call}\n{{\"role\":\"user\",\"content\":[]}}"),
            "talk:2:1: the message has no content",
        ),
        (format!("{call}\n{{\"role\":\"user\"}}"), "`content` is missing"),
        (
            format!(
                "{call}\n{{\"role\":\"user\",\"content\":[{{\"type\":\"image\",\"source\":7}}]}}"
            ),
            "an object was expected",
        ),
        (format!("{call}\n{}", &call[..40]), "was it cut off"),
        (format!("{{\"messages\":[{call}],\"system\":7}}"), "text was expected"),
    } {
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
        let options = Options {
            name: "long".to_owned(),
            most,
            ..Options::default()
        };
        let read = read_as(line.repeat(messages).as_bytes(), &options);
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
    let table = rows! {
        ("cut off", whole[..whole.len() - 9].to_owned()),
        ("missing parent", chat(&[node("a", "\"z\"", &says("x"))], "a")),
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
        ("its own parent", chat(&[node("a", "\"a\"", &says("x"))], "a")),
        ("unknown current node", whole.replace("\"current_node\":\"a\"", "\"current_node\":\"q\"")),
        ("deleted", chat(&[node("a", "null", "null")], "a")),
        ("empty", chat(&[], "a")),
        ("unknown content",
         chat(&[node("a", "null", &says("x")), node("b", "\"a\"", unknown)], "b")),
        ("no author", chat(&[node("a", "null", &no_author)], "a")),
        ("mapping of a list", r#"[{"mapping":[]}]"#.to_owned()),
        ("no messages of Claude", claude("")),
        ("unknown sender", claude(r#"{"uuid":"a","sender":"dog","text":"x"}"#)),
        ("no id", claude(r#"{"sender":"human","text":"x"}"#)),
        ("two", format!("{},{}", &whole[..whole.len() - 1], &whole[1..])),
    };
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
            [(1, 8, "Sourdough at altitude"), (2, 0, "Nothing")]
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
fn an_empty_conversation_before_others_is_one_of_several() {
    let shell = r#"{"title":"Nothing","id":"e"}"#;
    let one = r#"{"title":"One","id":"o","mapping":{}}"#;
    let options = Options::default();
    for (text, count) in [
        (format!("[{shell},{one}]"), 2),
        (format!("[{shell},{shell},{one},{one}]"), 4),
        (format!("{shell}\n{one}\n"), 2),
    ] {
        let several = read_as(text.as_bytes(), &options).unwrap_err();
        let said = several.to_string();
        assert!(said.contains(&format!("{count} conversations")), "{said}");
        assert!(!list(text.as_bytes(), &options).unwrap().is_empty());
        let named = Options {
            format: Some(Format::ChatGpt),
            skip_bad: true,
            ..options.clone()
        };
        assert!(matches!(
            read_as(text.as_bytes(), &named),
            Err(Error::Several { conversations, .. }) if conversations == count
        ));
    }
    let alone = read_as(format!("[{shell}]").as_bytes(), &options).unwrap_err();
    assert!(alone.to_string().contains("keys title, id"), "{alone}");
}

#[test]
fn problems_of_coding_sessions_are_reported() {
    let claude = |rest: &str| format!(r#"{{"type":"user","sessionId":"s","uuid":"a"{rest}}}"#);
    let line = claude(r#","parentUuid":null,"message":{"role":"user","content":"x"}"#);
    let codex = |kind: &str, payload: &str| format!(r#"{{"type":"{kind}","payload":{payload}}}"#);
    let table = rows! {
        ("claude-code: no message", claude("")),
        ("claude-code: unknown parent, no time", line.replace("null", "\"q\"")),
        ("claude-code: its own parent", line.replace("null", "\"a\"")),
        ("claude-code: cut off", format!("{line}\n{}", &line[..30])),
        ("claude-code: nothing said", claude("").replace("user", "system")),
        ("codex: no role", codex("response_item", r#"{"type":"message","content":[]}"#)),
        ("codex: null", codex("response_item", "null")),
        ("codex: nothing said", codex("session_meta", "{}")),
        ("gemini-cli: no name", r#"[{"role":"model","parts":[{"functionCall":{}}]}]"#.to_owned()),
        ("gemini-cli: null", r#"[{"role":"user","parts":[{"text":"x"}]},null]"#.to_owned()),
    };
    assert_outlines("bad-sessions", &table);
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
        ("You said", Role::User, None),
        ("ChatGPT said", Role::Assistant, None),
        ("Ada said", Role::User, Some("Ada said")),
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
fn a_person_who_speaks_once_is_a_speaker_if_all_lines_have_one() {
    let speakers = |text: &str| {
        let outline = outline_of(text.as_bytes(), None);
        outline.matches("Carol").count()
    };
    let talk = "Alice: Shall we buy the press?\nBob: It costs 5,000 EUR.\nAlice: I say yes.\n\
        Bob: Me too.\nDr. Carol Weiss: I object.\nAlice: Noted.\n";
    let outline = outline_of(talk.as_bytes(), None);
    assert!(outline.contains("user Dr. Carol Weiss"), "{outline}");
    // Within a longer text it is a word with a colon.
    let letter = "Alice: Here is the list.\nIt has two\nparts of which\nCarol: is one.\n\
        Bob: Thanks.\nAlice: And\nmore.\nBob: Good.\n";
    assert_eq!(speakers(letter), 2);
    let outline = outline_of(letter.as_bytes(), None);
    assert!(outline.contains("nCarol: is one."), "{outline}");
    assert_contains(&outline, "warning 4:1: `Carol:` occurs once");
}

#[test]
fn the_text_of_a_document_stands_behind_it() {
    let document =
        |source: &str| format!(r#"{{"type":"document","title":"Plan","source":{source}}}"#);
    let text = document(r#"{"type":"text","media_type":"text/plain","data":"We ship."}"#);
    let blocks = document(r#"{"type":"content","content":[{"type":"text","text":"On Friday."}]}"#);
    let text = format!(
        r#"[{{"role":"user","content":[{text},{blocks},{{"type":"text","text":"When?"}}]}},
        {{"role":"assistant","content":[{{"type":"tool_use","id":"a","name":"read","input":{{}}}}]}},
        {{"role":"user","content":[{{"type":"tool_result","tool_use_id":"a","content":[{text}]}}]}}]"#
    );
    let outline = outline_of(text.as_bytes(), None);
    for said in [
        r#"Text("We ship.")"#,
        r#"Text("On Friday.")"#,
        r"bytes]\nWe ship.",
    ] {
        assert!(outline.contains(said), "{said}: {outline}");
    }
}

#[test]
fn messages_of_other_chats_are_no_bad_lines() {
    let telegram = r#"{"name":"Ada","messages":[{"id":1,"type":"message","from":"Ada","text":"hi"},{"id":2,"type":"service"}]}"#;
    let outline = outline_of(telegram.as_bytes(), None);
    assert_contains(&outline, "no message in it has a `role`");
    let one = r#"{"messages":[{"role":"user","content":"x"},{"content":"y"}]}"#;
    let outline = outline_of(one.as_bytes(), None);
    assert!(outline.contains("1:44: `role` is missing"), "{outline}");
    let second = format!("[null,{}]", one.replace("},", "},\n"));
    let outline = outline_of(second.as_bytes(), None);
    assert!(outline.contains("2:1: `role` is missing"), "{outline}");
    // The lines before each of them are not counted again.
    let many = "{},".repeat(100_000);
    let many = format!(r#"[null,{{"messages":[{many}{{}}]}}]"#);
    let outline = outline_of(many.as_bytes(), None);
    assert_contains(&outline, "no message in it has a `role`");
}

#[test]
fn messages_in_a_circle_are_reported_and_so_are_conversations_of_them() {
    let node = |id: &str, parent: &str| {
        let message = format!(
            r#"{{"author":{{"role":"user"}},"content":{{"content_type":"text","parts":["{id}"]}}}}"#
        );
        format!(r#""{id}":{{"id":"{id}","parent":{parent},"message":{message}}}"#)
    };
    let circle = [
        node("a", r#""b""#),
        node("b", r#""a""#),
        node("c", r#""b""#),
    ]
    .join(",");
    let of = |nodes: &str| format!(r#"{{"title":"t","mapping":{{{nodes}}},"current_node":"b"}}"#);
    let beside = of(&format!("{},{circle}", node("d", "null")));
    let outline = outline_of(beside.as_bytes(), None);
    assert_eq!(
        outline.matches("is its own predecessor").count(),
        3,
        "{outline}"
    );
    let file = format!("[{beside},{},{}]", of(&circle), of(""));
    let listed = several::list(file.as_bytes(), &Options::default()).unwrap();
    let listed = listed.iter().map(|one| (one.messages, one.is_bad));
    assert_eq!(
        listed.collect::<Vec<_>>(),
        [(1, false), (0, true), (0, false)]
    );
}

#[test]
fn a_conversation_without_messages_names_the_first_bad_line() {
    let bad = |line| LineError {
        line,
        column: 1,
        reason: "no role".to_owned(),
    };
    assert_eq!(left_out(&[]), "");
    assert_eq!(left_out(&[bad(3)]), " besides a bad line at 3:1: no role");
    let two = " besides 2 bad lines, the first at 3:1: no role";
    assert_eq!(left_out(&[bad(3), bad(4)]), two);
}

#[test]
fn a_session_of_claude_code_has_no_title_of_another_one() {
    let said = r#"{"type":"user","sessionId":"s","uuid":"u1","parentUuid":null,"message":{"content":"Hi"}}"#;
    let summary = |title: &str, end: &str| {
        format!(r#"{{"type":"summary","summary":"{title}","leafUuid":"{end}"}}"#)
    };
    let title = |kind: &str, key: &str, title: &str| {
        format!(r#"{{"type":"{kind}","{key}":"{title}","sessionId":"s"}}"#)
    };
    let (own, other) = (summary("Own", "u1"), summary("Other", "x9"));
    let made = title("ai-title", "aiTitle", "Made");
    let given = title("custom-title", "customTitle", "Given");
    for (lines, expected) in [
        ([own.as_str(), other.as_str(), said], "Own"),
        ([other.as_str(), other.as_str(), said], "talk"),
        ([own.as_str(), said, made.as_str()], "Made"),
        ([said, given.as_str(), made.as_str()], "Given"),
    ] {
        let outline = outline_of(lines.join("\n").as_bytes(), None);
        let begins = format!("claude-code {expected:?}\n");
        assert!(outline.starts_with(&begins), "{outline}");
    }
}
