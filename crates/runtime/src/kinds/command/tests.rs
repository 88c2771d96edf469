//! Program agents, with real programs.

use unisono_session::agent::{AgentKind, ContextMode, PrefixMode};

use super::*;
use crate::agent::fixture::{Attempt, run_in_time, sh};

fn attempt(command: &Command) -> Attempt {
    Attempt::new(
        AgentKind::Command(command.clone()),
        &["where is the \"key\"?", "under\nthe mat"],
    )
}

async fn run_in(attempt: &Attempt, command: Command) -> Result<Answer, Failure> {
    run_in_time(&CommandAgent::new(command), attempt).await
}

async fn run(script: &str) -> Result<Answer, Failure> {
    run_in(&attempt(&sh(script)), sh(script)).await
}

#[tokio::test]
async fn a_program_reads_one_json_document() {
    for (context, prefix) in [
        (ContextMode::Snapshot, PrefixMode::Shared),
        (ContextMode::Snapshot, PrefixMode::Own),
        (ContextMode::TaskOnly, PrefixMode::Shared),
    ] {
        // The answer is plain text: a JSON document would be parsed as an answer object.
        let script = "echo got; cat";
        let mut attempt = attempt(&sh(script));
        (attempt.definition.context, attempt.definition.prefix) = (context, prefix);
        let answer = run_in(&attempt, sh(script)).await.unwrap();
        let json = answer.text.strip_prefix("got\n").unwrap();
        let read: Value = serde_json::from_str(json).unwrap();
        assert_eq!(read["unisono"], 1);
        assert_eq!(read["task"], "list the risks");
        assert_eq!(read["agent"]["id"], "risks");
        assert_eq!(read["agent"]["instructions"], "Name every risk.");
        assert_eq!(read["attempt"], 1);
        let messages = read["context"]["messages"].as_array().map(Vec::len);
        assert_eq!(messages, (context == ContextMode::Snapshot).then_some(2));
    }
}

#[tokio::test]
async fn answers_are_text_or_json() {
    for (script, text, partial) in rows! {
        ("echo ' plain text '", "plain text", None),
        (r#"echo '{"text":"done"}'"#, "done", None),
        (r#"echo '{"text":"half","partial":"no network","cost":3}'"#, "half", Some("no network")),
        (r#"echo '{"text":"all","partial":null}'"#, "all", None),
        (r#"printf '{"text":"cut \\ud83d"}'"#, "cut", None),
        ("echo '{braces} in prose'", "{braces} in prose", None),
        ("echo '[1,2]'", "[1,2]", None),
        // A byte order mark is not a part of an answer.
        (r#"printf '\357\273\277{"text":"half","partial":"cut"}\r\n'"#, "half", Some("cut")),
        (r"printf '\357\273\277plain\n'", "plain", None),
    } {
        let answer = run(script).await.unwrap();
        assert_eq!(
            (&*answer.text, answer.partial.as_deref()),
            (text, partial),
            "{script}"
        );
    }
}

#[tokio::test]
async fn an_invalid_answer_is_shown() {
    for (script, says) in rows! {
        ("true", "its output is empty"),
        (r"printf '\357\273\277\n'", "its output is empty"),
        ("echo ' '; echo why >&2", "its output is empty; its standard error ends: why"),
        ("printf 'ab\\377c'", "its output is not UTF-8 from byte 2 on: \"ab\u{fffd}c\""),
        ("printf 'a\\0b'", "its output is binary: \"a\\0b\""),
        (r#"echo '{"answer":"x"}'"#, "its JSON output has no `text`: "),
        (r#"echo '{"text":" "}'"#, "its JSON output has no `text`: "),
        (r#"echo '{}'"#, "its JSON output has no `text`: "),
        (r#"echo '{"text":7}'"#, "`text` of its JSON output is not a string: "),
        (r#"echo '{"text":"x","partial":true}'"#, "`partial` of its JSON output is not a string"),
        (r#"echo '{"text":"cut'"#, "its output is not valid JSON (EOF while parsing"),
    } {
        let failure = run(script).await.unwrap_err();
        assert_eq!(failure.cause, RunCause::BadOutput, "{script}");
        let expected = format!("`sh` gave no answer: {says}");
        assert!(failure.reason.starts_with(&expected), "{script}: {failure}");
    }
}

#[tokio::test]
async fn a_failing_program_reports_its_end() {
    let failure = run("echo no such table >&2; echo half an answer; exit 3")
        .await
        .unwrap_err();
    assert_eq!(failure.cause, RunCause::Exit);
    let said = "`sh` ended with exit status: 3; its standard error ends: no such table";
    assert_eq!(&*failure.reason, said);
    let failure = run("kill -9 $$").await.unwrap_err();
    assert_eq!(failure.cause, RunCause::Exit);
    assert_eq!(&*failure.reason, "`sh` ended with signal: 9 (SIGKILL)");
}

#[tokio::test]
async fn excessive_output_names_the_cap() {
    let failure = run("yes").await.unwrap_err();
    assert_eq!(failure.cause, RunCause::BadOutput);
    let text = &failure.reason;
    assert!(text.contains("more than 4194304 bytes"), "{failure}");
}

#[tokio::test]
async fn a_missing_program_is_not_retried() {
    let mut command = sh("");
    command.program = "no-such-program".into();
    let failure = run_in(&attempt(&command), command).await.unwrap_err();
    assert_eq!(failure.cause, RunCause::Spawn);
    assert!(!failure.cause.is_retryable());
    assert!(failure.reason.contains("`no-such-program`"), "{failure}");
}

#[test]
fn a_program_for_which_the_machine_has_no_room_is_retried() {
    for (errno, cause) in [
        (Errno::AGAIN, RunCause::Busy),
        (Errno::MFILE, RunCause::Busy),
        (Errno::NOENT, RunCause::Spawn),
        (Errno::ACCESS, RunCause::Spawn),
    ] {
        let failed = failure(Error::Spawn {
            program: "counts".into(),
            cwd: None,
            source: errno.into(),
        });
        assert_eq!(failed.cause, cause, "{failed}");
        assert_eq!(failed.cause.is_retryable(), cause == RunCause::Busy);
    }
}

#[tokio::test]
async fn bytes_other_than_the_recorded_ones_are_never_sent() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("started");
    let command = sh(&format!("touch '{}'; echo answer", file.display()));
    let mut attempt = attempt(&command);
    attempt.tamper = true;
    let failure = run_in(&attempt, command).await.unwrap_err();
    assert_eq!(failure.cause, RunCause::SnapshotMismatch);
    assert!(!file.exists());
}
