//! Every other verb, on one session.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::http::Daemon;
use crate::support::{HasAll as _, Place, example, finish, heard};

fn imported() -> (Place, String) {
    let place = Place::new();
    let session = place.json(&["import", &example()])["session"]
        .as_str()
        .unwrap()
        .to_owned();
    (place, session)
}

#[test]
fn a_file_is_imported_once_unless_a_copy_is_wanted() {
    let (place, session) = imported();
    let again = place.json(&["import", &example()]);
    assert_eq!(
        (again["known"].as_bool(), again["session"].as_str()),
        (Some(true), Some(&*session))
    );
    let copy = place.json(&["import", &example(), "--copy"]);
    assert_ne!(copy["session"].as_str(), Some(&*session));
    assert_eq!(
        place.json(&["sessions", "list"]).as_array().unwrap().len(),
        2
    );
}

#[test]
fn an_export_comes_back_as_it_was() {
    let (place, _) = imported();
    place.json(&["compact", "--yes"]);
    let first = place.json(&["context"]);
    let text = place.call(&["export"]).expect(0).stdout;
    let same = place.call(&["export", "-o", "-"]).expect(0).stdout;
    assert!(same == text && !place.path("-").exists());
    // Standard output is a file here.
    let mut command = place.command(&["export", "-o", "/dev/stdout"]);
    let file = std::fs::File::create(place.path("redirected")).unwrap();
    assert!(command.stdout(file).status().unwrap().success());
    let pipe = place.fifo("pipe");
    let mut command = place.command(&["export", "-o", "pipe"]);
    let exporting = command.spawn().unwrap();
    let redirected = std::fs::read_to_string(place.path("redirected")).unwrap();
    assert!(heard(&pipe) == text.trim() && redirected == text);
    finish(exporting, &["export"]).expect(0);
    place.write("export.jsonl", &text);
    let id = first["session"].as_str().unwrap();
    let refused = place.call(&["import", "export.jsonl"]).expect(2);
    refused.says(&["is already in the store", "--copy"]);
    let refused = place.call(&["import", "export.jsonl", "--json"]).expect(2);
    refused.says(&["\"code\":\"conflict\""]);
    place.call(&["sessions", "delete", id, "--yes"]).expect(0);
    place.json(&["import", "export.jsonl"]);
    let second = place.json(&["context"]);
    assert_eq!(first["snapshot"], second["snapshot"]);
    assert_eq!(first["summaries"], second["summaries"]);

    let openai = place.stdout(&["export", "--format", "openai"]);
    place.write("openai.json", openai);
    place.json(&["import", "openai.json"]);
}

#[test]
fn the_whole_store_moves() {
    let (place, session) = imported();
    place.call(&["export", "--all", "backup.unisono"]).expect(0);
    let moved = place.json(&["import", "backup.unisono", "--store", "other"]);
    assert_eq!(moved["sessions"], 1);
    let shown = place.json(&["sessions", "show", "--store", "other"]);
    assert_eq!(shown["session"].as_str(), Some(&*session));
    place.fails(
        &["export", "--all", "backup.unisono"],
        &["backup.unisono", "remove it, or name another file"],
    );
    place.refuses(
        &["export", "--all", "-"],
        &["an archive is written to a file"],
    );
    assert!(!place.path("-").exists());
}

#[test]
fn a_name_that_is_not_utf_8_is_reported() {
    let (place, _) = imported();
    for (args, name, key) in [
        (&["export", "--json", "--all"][..], b"file\xff", "file"),
        (&["init", "--json"][..], b"home\xff", "directory"),
    ] {
        let mut command = place.command(args);
        let child = command.arg(OsStr::from_bytes(name)).spawn().unwrap();
        let report = finish(child, args).expect(0).json();
        let shown = String::from_utf8_lossy(name);
        assert_eq!(report[key].as_str(), Some(&*shown), "{report}");
    }
}

#[test]
fn the_whole_store_moves_beside_a_daemon() {
    let (place, session) = imported();
    let daemon = Daemon::start(&place);
    let wrote = place.json(&["export", "--all", "backup.unisono"]);
    assert_eq!(wrote["sessions"], 1, "{wrote}");
    place.fails(
        &["export", "--all", "backup.unisono"],
        &["backup.unisono", "remove it, or name another file"],
    );
    daemon.stop();
    let moved = place.json(&["import", "backup.unisono", "--store", "other"]);
    for count in ["sessions", "events"] {
        assert_eq!(moved[count], wrote[count], "{moved}");
    }
    let shown = place.json(&["sessions", "show", "--store", "other"]);
    assert_eq!(shown["session"].as_str(), Some(&*session));
}

#[test]
fn a_compaction_is_tried_asked_for_and_done() {
    let (place, _) = imported();
    let before = place.json(&["context"]);
    let estimate = place.json(&["compact", "--dry-run", "--keep", "20"]);
    assert_eq!(estimate["total_messages"], 159);
    assert_eq!(estimate["tokens_before"], before["used_tokens"]);
    assert_eq!(estimate["estimated_cost_usd"], 0.0);
    assert_eq!(
        place.json(&["context"])["snapshot"],
        before["snapshot"],
        "a dry run did something"
    );

    place.refuses(&["compact", "--keep", "20"], &["--yes"]);
    let done = place.json(&["compact", "--keep", "20", "--yes"]);
    assert_eq!(done["state"], "compacted");
    assert_eq!(done["messages"], estimate["messages_to_summarise"]);
    // At most what was estimated, and not much less: quotes fill the room they are given.
    let (most, after) = (&estimate["estimated_tokens_after"], &done["tokens_after"]);
    let (most, after) = (most.as_u64().unwrap(), after.as_u64().unwrap());
    assert!((most - 100..=most).contains(&after), "{after} of {most}");
    assert!(done["preview"].as_str().unwrap().chars().count() <= 200);

    let after = place.json(&["context"]);
    assert_eq!(after["used_tokens"], done["tokens_after"]);
    assert_eq!(after["summaries"][0]["checkpoint"], 1);
    let listed = place.json(&["checkpoints", "list"]);
    assert_eq!(
        (listed[0]["kind"].as_str(), listed[0]["active"].as_bool()),
        (Some("manual"), Some(true))
    );
    let shown = place.json(&["checkpoints", "show", "latest", "1"]);
    assert_eq!(shown["block"], after["summaries"][0]["text"]);
    place
        .call(&["checkpoints", "show", "latest", "7"])
        .expect(2)
        .says(&["no checkpoint 7"]);
}

#[test]
fn the_context_adds_up() {
    let (place, _) = imported();
    let context = place.json(&["context"]);
    let messages = context["messages"].as_array().unwrap();
    let sum: u64 = messages
        .iter()
        .map(|message| message["tokens"].as_u64().unwrap())
        .sum();
    assert_eq!(context["used_tokens"].as_u64(), Some(sum));
    let text = place.call(&["context"]).expect(0).stdout;
    text.has_all(&["of 105,", "read_message, recall"]);
    let coloured = place.stdout(&["context", "--color", "always"]);
    assert!(coloured.contains("\x1b[32m"));
}

#[test]
fn a_branch_leaves_at_a_message_and_is_worked_on() {
    let (place, session) = imported();
    let made = place.json(&["sessions", "branch", "latest", "what-if", "--at", "12"]);
    assert_eq!(made["messages"], 12);
    place.refuses(&["sessions", "branch", "latest", "what-if"], &["--move"]);
    place
        .call(&["sessions", "branch", "latest", "first", "--at", "1"])
        .expect(0);
    let shown = place.call(&["sessions", "show"]).expect(0).stdout;
    shown.has_all(&["first (1 message)", "what-if (12 messages)"]);
    place
        .call(&["sessions", "branch", "latest", "x", "--at", "999"])
        .expect(2)
        .says(&["#999", "#159"]);
    for name in ["", "a\u{1b}[31m", &"x".repeat(201)] {
        place
            .call(&["sessions", "branch", "latest", name, "--at", "12"])
            .expect(2)
            .says(&["is not a valid branch name"]);
    }
    place
        .call(&["context", "--branch", "nope"])
        .expect(2)
        .says(&["no branch `nope`", "what-if"]);
    let run = [
        "run",
        "--session",
        &session,
        "--branch",
        "what-if",
        "--agents",
        "",
        "--task",
        "Who?",
    ];
    place.json(&run);
    let shown = place.json(&["sessions", "show"]);
    assert_eq!(shown["branches"].as_array().unwrap().len(), 3);
    let tree = place.call(&["sessions", "tree"]).expect(0).stdout;
    tree.has_all(&["← main", "← what-if"]);
    assert_eq!(
        place.json(&["sessions", "tree"])["messages"]
            .as_array()
            .unwrap()
            .len(),
        161
    );
}

#[test]
fn a_session_is_deleted_after_a_yes() {
    let (place, _) = imported();
    // The audit log and the tokens are no sessions.
    assert_eq!(place.json(&["vacuum"])["sessions"], 1);
    place.refuses(&["sessions", "delete", "latest"], &["--yes"]);
    assert_eq!(
        place.json(&["sessions", "delete", "latest", "--yes"])["deleted"],
        true
    );
    place.says(&["sessions", "list"], &["no sessions yet"]);
    assert!(place.json(&["vacuum"])["after_bytes"].is_u64());
    let shown = place.call(&["vacuum"]).expect(0).stdout;
    assert!(shown.contains(", 0 sessions"), "{shown}");
}

#[test]
fn the_store_is_checked() {
    let (place, _) = imported();
    let checkup = place.json(&["doctor"]);
    assert_eq!(
        (checkup["sessions"].as_u64(), &checkup["findings"]),
        (Some(1), &serde_json::json!([]))
    );
    place.call(&["doctor", "--repair"]).expect(0);
}

#[test]
fn agents_and_models_are_shown() {
    let place = Place::new();
    let agents = place.json(&["agents", "list"]);
    assert_eq!(agents.as_array().unwrap().len(), 6);
    let shown = place.json(&["agents", "show", "risks"]);
    assert!(!shown["instructions"].as_str().unwrap().is_empty());
    place.call(&["agents", "check"]).expect(0);
    assert!(place.json(&["models", "gpt-4o"]).as_array().unwrap().len() >= 2);
    for shell in ["bash", "zsh", "fish"] {
        assert!(place.stdout(&["completions", shell]).contains("unisono"));
    }
}
