//! Examples of each format, our own, and what is read of them.

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

/// All that is known of a conversation, for a golden file.
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

fn told(bytes: &[u8], format: Option<Format>) -> String {
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
                let told = told(&bytes, None);
                assert!(told.starts_with(format.name()), "{name}: {told}");
                assert_snapshot!(format!("{format}-{}", name.replace('.', "-")), told);
                // A mark at its beginning and line breaks of Windows change nothing of it.
                let text = String::from_utf8(bytes).unwrap().replace('\n', "\r\n");
                let windows = format!("\u{feff}{text}");
                assert_eq!(self::told(windows.as_bytes(), None), told, "{name}");
            }
        }
    });
}

#[test]
fn what_is_bad_of_anthropics_messages_is_told() {
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
        let told = told(text.as_bytes(), None);
        assert!(told.contains(expected), "{text}: {told}");
    }
    let plain = r#"[{"role":"user","content":"hi"}]"#;
    let as_own = told(plain.as_bytes(), Some(Format::Anthropic));
    assert!(as_own.starts_with("anthropic"), "{as_own}");
    let not = told(call.as_bytes(), Some(Format::OpenAi));
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
