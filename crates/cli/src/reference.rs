//! Generates the reference pages of the book from the program. A test compares them with the
//! committed pages, and writes them if `UPDATE_REFERENCE` is set.

use std::fmt::Write as _;
use std::path::Path;

use clap::Command;
use serde_json::Value;
use unisono::follow::event_kinds;
use unisono_api::Code;
use unisono_config::settings::DEFAULTS;
use unisono_session::run::RunCause;

use crate::commands::help;

/// Columns of a help text.
const WIDTH: usize = 96;

fn commands() -> String {
    let mut out =
        "# Commands\n\nThe output of `unisono <command> --help`. The global options apply to \
                   every command; they are listed once.\n"
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
        "# Configuration\n\nEvery setting with its default. `unisono config show` shows the origin of each value,\n\
         `unisono config check` reports errors.\n\nAn unknown key causes a warning with file, line and \
         \"did you mean\", because other versions may have it.\n`unisono config check` treats it as an error \
         (exit 2); in `--set` and in a variable it is always an error.\n\n```toml\n{}\n```\n",
        DEFAULTS.trim_end()
    ) + VARIABLES
}

const VARIABLES: &str = "
## Environment variables

Besides `UNISONO__SECTION__KEY` for each setting. A name in a table of texts is as written:
`UNISONO__MCP__FILES__ENV__API_KEY` sets the variable `API_KEY` of the tool server `files`. The name of a
header has no case.

| variable | meaning |
|---|---|
| `ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, `GEMINI_API_KEY` or `GOOGLE_API_KEY`, `AZURE_OPENAI_API_KEY` | The API key of a provider without `api_key_file` and `api_key_env`. |
| `XDG_CONFIG_HOME`, `XDG_DATA_HOME` | The directories of your settings and of the store. |
| `UNISONO_LOG` | The level of the log, in place of `log.level`. |
| `NO_COLOR`, `TERM=dumb` | Output without colours; with `TERM=dumb` also without progress bars. |
| `VISUAL`, `EDITOR` | The editor of `unisono checkpoints edit`. |
| `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY` | The proxy of requests to providers, tool servers, agents and hooks at other machines. Other daemons, callbacks and attachments are reached without it. |
| `SSL_CERT_FILE` | A file with the trusted certificate authorities. It replaces the machine's list. |
| `PGPASSWORD`, `PGPASSFILE` | The password of the database without `store.password_file`. |
| `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_TRACES_HEADERS` | Headers for the receiver of traces (feature `otel`). |
";

fn api() -> String {
    let described: Value = serde_json::from_str(&unisono_server::http::description()).unwrap();
    let mut out = "# HTTP API\n\nThe complete description, with requests and responses, is at `/v1/openapi.json` of a daemon. Every route\n\
                   requires a token with at least the [scope](../how-to/people.md#tokens) beside it, except health, the pages about\n\
                   problems, and triggers, which have secrets of their own.\n\
                   An error is `application/problem+json`; [Errors](errors.md) explains its `code`. MCP is at `/mcp`,\n\
                   [A2A](../how-to/a2a.md) at `/a2a`.\n\n\
                   | route | scope | what it does |\n|---|---|---|\n"
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
            let scope = route["security"][0]["token"][0].as_str().unwrap_or("–");
            let text = text.replace('|', "\\|");
            let _ = writeln!(out, "| `{method} {path}` | {scope} | {text} |");
        }
    }
    out
}

/// The codes of errors of requests and of runs, read from the source.
fn errors() -> String {
    let mut out =
        "# Errors\n\n## Requests\n\nThe `code` of an error over HTTP, its status, and the remedy; `/problems/{code}` of a daemon shows the same.\n\
         With `--json`, an error of a command has one of these codes, or the code of its turn.\n\n\
         | code | status | meaning | what to do |\n|---|---|---|---|\n"
            .to_owned();
    for code in Code::ALL {
        let (name, status, title) = (code.name(), code.status(), code.title());
        let _ = writeln!(out, "| `{name}` | {status} | {title} | {} |", code.help());
    }
    out += TURN_ERRORS;
    let source = include_str!("../../session/src/run.rs");
    let (_, variants) = source.split_once("pub enum RunCause {\n").unwrap();
    let (variants, _) = variants.split_once("\n}\n").unwrap();
    let texts = variants
        .lines()
        .filter_map(|line| line.strip_prefix("    /// "));
    let texts: Vec<&str> = texts.collect();
    assert_eq!(texts.len(), RunCause::ALL.len());
    for (cause, text) in RunCause::ALL.into_iter().zip(texts) {
        let again = if cause.is_retryable() { "yes" } else { "no" };
        let _ = writeln!(out, "| `{}` | {text} | {again} |", cause.code());
    }
    out
}

const TURN_ERRORS: &str = "
## Turns

The `error.code` of a turn that failed:

| code | meaning |
|---|---|
| `lead_failed` | The run of the lead failed. The reason begins with the agent and the code of its run. |
| `delegate_failed` | The run of an agent with `on_failure = \"fail\"` failed. |
| `context_overflow` | The task, pinned messages and the system text alone do not fit the window of the lead's model. |
| `timeout` | It took longer than `turn.timeout_seconds`. |
| `budget_exceeded` | The time of a budget is over (`budget.turn.time`, `budget.session.time`). |
| `hook_denied` | A hook denied the task. |
| `compaction_failed` | A requested summary could not be written; the context is unchanged. |
| `edit_rejected` | The new text of a summary is not accepted, for example because it is too long. |
| `revert_overflow` | Without the checkpoint the context would not fit. |
| `not_active` | The checkpoint is not in the context of the branch. |
| `snapshot_mismatch` | The context that was rebuilt from the journal is not the recorded one. |
| `render_failed` | No prompt could be made from the context. |
| `uncounted` | The branch has no messages, or their tokens could not be counted. |

## Runs

The `error.code` of a run that failed, and whether another attempt follows, up to `retries` of its agent. A run with a
partial answer has the code `partial`.

| code | meaning | another attempt |
|---|---|---|
";

/// The kinds of events, as the code has them.
fn events() -> String {
    let mut out = "# Events\n\nThe events in the journal of a session: the name is the `event` of a server-sent event of\n\
                   `/v1/sessions/{session}/events`, and its `kind`. Each event is on disk before it is sent.\n\n\
                   | event | what happened |\n|---|---|\n"
        .to_owned();
    let mut names = std::collections::BTreeSet::new();
    for (name, text) in event_kinds() {
        assert!(names.insert(name), "{name} stands for two facts");
        let _ = writeln!(out, "| `{name}` | {text} |");
    }
    assert!(names.len() >= 40, "{names:?}");
    out + "\nThe stream also has these live events, which are not stored:\n\n\
           | event | meaning |\n|---|---|\n\
           | `text_delta` | the next piece of an agent's reply: the first at once, later ones every 80 ms together |\n\
           | `text_so_far` | the text so far, up to 64 KiB, of an agent's reply that began before the client connected, or of which the client missed pieces; it replaces what the client has of that reply. Without it, the next piece begins another reply |\n\
           | `progress` | a progress report of an agent or a compaction |\n\
           | `missed` | some live events were missed, because the client read too slowly; the `text_so_far` of each current reply follows |\n\
           | `agents` | the agent definitions were reloaded |\n\n"
        + &turn_events()
}

/// The updates of a turn, as the code has them.
fn turn_events() -> String {
    let source = include_str!("../../api/src/turn_event.rs");
    let (_, variants) = source.split_once("pub enum TurnEvent {\n").unwrap();
    let (variants, _) = variants.split_once("\n}\n").unwrap();
    let mut out = "The updates of a turn: the name is the `event` of a server-sent event of\n\
                   `/v1/sessions/{session}/turns/{turn}/events`, and its `kind`. `text`, `progress`,\n\
                   `compaction_progress`, `missed`, and `run_retried` for a pause between two requests of one attempt\n\
                   are not stored; the others follow from the events above and have their numbers.\n\n| event | meaning |\n|---|---|\n"
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
                // How a client treats unknown values.
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
        ("errors.md", errors()),
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
