//! The book's reference pages, made from the program itself: a test compares them with those that
//! are committed, and writes them where `UPDATE_REFERENCE` is set.

use std::fmt::Write as _;
use std::path::Path;

use clap::Command;
use serde_json::Value;
use unisono_config::settings::DEFAULTS;

use crate::help;

/// Columns of a help text.
const WIDTH: usize = 96;

fn commands() -> String {
    let mut out =
        "# Commands\n\nWhat `unisono <command> --help` says. The global options hold for \
                   every command; they stand here once.\n"
            .to_owned();
    let mut root = help::command().term_width(WIDTH);
    root.build();
    command(&root, "unisono", 2, &mut out);
    out
}

fn command(command: &Command, path: &str, depth: usize, out: &mut String) {
    let help = command
        .clone()
        .term_width(WIDTH)
        .render_long_help()
        .to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(
        out,
        "\n{} {path}\n\n```text\n{}\n```\n",
        "#".repeat(depth),
        lines.join("\n").trim()
    );
    let shared = |arg: clap::Arg| {
        let shared = arg.is_global_set() || arg.get_id() == "help";
        arg.hide(shared)
    };
    for below in command
        .get_subcommands()
        .filter(|c| c.get_name() != "help" && !c.is_hide_set())
    {
        self::command(
            &below.clone().mut_args(shared),
            &format!("{path} {}", below.get_name()),
            (depth + 1).min(4),
            out,
        );
    }
}

fn configuration() -> String {
    format!(
        "# Configuration\n\nEvery setting with its default. `unisono config show` says where each value came from,\n\
         `unisono config check` what is wrong.\n\nA key that does not exist is a warning with file, \
         line and \"did you mean\": other versions may have\nit. `unisono config check` makes it an error \
         (exit 2), as it is at once in `--set` and in a variable.\n\n```toml\n{}\n```\n",
        DEFAULTS.trim_end()
    )
}

fn api() -> String {
    let described: Value = serde_json::from_str(&unisono_server::http::description()).unwrap();
    let mut out = "# HTTP API\n\nEvery route. The whole description, with requests and responses, is at \
                   `/v1/openapi.json`\nof a daemon. Every route but health and the pages about problems wants the token.\n\n\
                   | route | what it does |\n|---|---|\n"
        .to_owned();
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, route) in methods
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, r)| r.is_object())
        {
            let text = ["summary", "description"]
                .into_iter()
                .find_map(|key| route[key].as_str());
            let text = text
                .unwrap_or_default()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            let method = method.to_uppercase();
            let _ = writeln!(out, "| `{method} {path}` | {} |", text.replace('|', "\\|"));
        }
    }
    out
}

/// The kinds of events, as the code has them.
fn events() -> String {
    let source = include_str!("../../session/src/event/kinds.rs");
    let mut out = "# Events\n\nWhat happens in a session, as its journal has it: the `event` of a server-sent event of\n\
                   `/v1/sessions/{session}/events`, and its `kind`. All of them are on disk before they are told.\n\n\
                   | event | what happened |\n|---|---|\n"
        .to_owned();
    let mut names = std::collections::BTreeSet::new();
    for kind in source.split("Fact::").skip(1) {
        let mut texts = kind.split('"').skip(1).step_by(2);
        let (name, text) = (texts.next().unwrap(), texts.next().unwrap());
        assert!(names.insert(name), "{name} stands for two facts");
        let _ = writeln!(out, "| `{name}` | {text} |");
    }
    assert!(names.len() >= 40, "{names:?}");
    out + "\nThese come between them, and are not kept:\n\n\
           | event | what it tells |\n|---|---|\n\
           | `piece` | a piece of an agent's reply, as its model writes it |\n\
           | `progress` | what an agent or a compaction is doing |\n\
           | `missed` | some of these were missed, because the client read slowly |\n\
           | `agents` | the agents were read again |\n\n"
        + &turn_events()
}

/// The updates of a turn, as the code has them.
fn turn_events() -> String {
    let source = include_str!("../../api/src/turn_event.rs");
    let (_, variants) = source.split_once("pub enum TurnEvent {\n").unwrap();
    let (variants, _) = variants.split_once("\n}\n").unwrap();
    let mut out = "How a turn goes on: the `event` of a server-sent event of\n\
                   `/v1/sessions/{session}/turns/{turn}/events`, and its `kind`. `text`, `progress`,\n\
                   `compaction_progress` and `missed` are not kept; the others follow from events above and have\n\
                   their number.\n\n| event | what it tells |\n|---|---|\n"
        .to_owned();
    let mut text = Vec::new();
    for line in variants
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
    {
        match line.strip_prefix("/// ") {
            Some(more) => text.push(more),
            None if line.starts_with(char::is_uppercase) => {
                let name = line.split([' ', '(', ',']).next().unwrap();
                // What a client makes of those that it does not know.
                if name != "Unknown" {
                    let _ = writeln!(out, "| `{}` | {} |", snake_case(name), text.join(" "));
                }
                text.clear();
            }
            None => {}
        }
    }
    out
}

fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[test]
fn the_reference_is_what_the_program_says() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference");
    for (name, text) in [
        ("commands.md", commands()),
        ("configuration.md", configuration()),
        ("api.md", api()),
        ("events.md", events()),
    ] {
        let page = book.join(name);
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            std::fs::write(&page, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&page).unwrap_or_default();
        let first = committed
            .lines()
            .zip(text.lines())
            .find(|(old, new)| old != new);
        assert!(
            committed == text,
            "{name} is not up to date, first at {first:?}: run this test with UPDATE_REFERENCE=1"
        );
    }
}
