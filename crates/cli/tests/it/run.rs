//! The main job, and doing it again.

use std::collections::BTreeSet;

use unisono_context::MessageId;
use unisono_session::Fact;

use crate::support::{Place, example};

#[test]
fn one_command_compacts_freezes_and_answers() {
    let place = Place::new();
    let done = place
        .call(&["run", &example(), "--compact-above", "8k"])
        .expect(0)
        .says(&[
            "model      extractive",
            "imported   159 messages",
            "counted    160 new messages",
            "compacted ",
            "identical for 5 agents",
            "risks      done",
            "lead       done",
        ]);
    assert!(done.stdout.contains("## "), "{done:#?}");
    // No terminal, no colours, no spinners.
    assert!(
        !done.stderr.contains('\x1b') && !done.stdout.contains('\x1b'),
        "{done:#?}"
    );
}

#[test]
fn the_task_can_be_standard_input() {
    let place = Place::new();
    place.talk();
    let run = ["run", "talk.json", "--agents", "", "--task", "-"];
    place.call_with("When do we ship?\n", &run).expect(0);
    let said = place.json(&["history", "latest", "3"]);
    assert_eq!(said["messages"][0]["parts"][0]["text"], "When do we ship?");
    place
        .call_with("[]", &["run", "-", "--task", "-"])
        .expect(2)
        .says(&["cannot both be standard input"]);
}

#[test]
fn the_result_as_json_has_the_documented_keys() {
    let place = Place::new();
    let file = example();
    let args = [
        "run",
        &file,
        "--compact-above",
        "8k",
        "--agents",
        "risks,facts=only amounts",
    ];
    let report = place.json(&args);
    assert_eq!(report["state"], "answered");
    assert!(!report["answer"].as_str().unwrap().is_empty());
    assert_eq!(report["snapshot"].as_str().unwrap().len(), 64);
    assert_eq!(report["snapshot_agents"], 3);
    assert!(report["tokens_before"].as_u64() > report["tokens_after"].as_u64());
    assert_eq!(report["checkpoints"][0]["number"], 1);
    let states: Vec<_> = report["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| {
            (
                run["agent"].as_str().unwrap(),
                run["role"].as_str().unwrap(),
                run["state"].as_str().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("risks", "delegate", "done"),
        ("facts", "delegate", "done"),
        ("lead", "lead", "done"),
    ];
    assert_eq!(states, expected);
}

#[test]
fn the_same_file_again_continues_and_repeats_nothing() {
    let place = Place::new();
    let file = example();
    let run = ["run", &file, "--compact-above", "8k"];
    let first = place.json(&run);
    let again = [&run[..], &["--task", "And what is the budget?"]].concat();
    let second = place.call(&[&again[..], &["--json"]].concat()).expect(0);
    let second = second.says(&["continues  session", "checkpoint 1 stands for #1–"]);
    assert_eq!(first["session"], second.json()["session"]);
    assert!(!second.stderr.contains("imported"), "{second:#?}");

    let events = place.events(first["session"].as_str().unwrap());
    let mut counted: BTreeSet<MessageId> = BTreeSet::new();
    for event in &events {
        let Fact::Counted { counts, .. } = &event.fact else {
            continue;
        };
        assert!(
            counts.iter().all(|(id, _)| counted.insert(*id)),
            "a message was counted twice"
        );
    }
    let mut covered = 0;
    for event in &events {
        let Fact::Compacted { checkpoint, .. } = &event.fact else {
            continue;
        };
        // A later one takes the earlier one's place and adds to it; it never starts over.
        assert_eq!(
            checkpoint.supersedes.len(),
            usize::from(checkpoint.number > 1)
        );
        assert!(checkpoint.cutoff.0 > covered);
        covered = checkpoint.cutoff.0;
    }
    assert!(covered > 0);
}

#[test]
fn a_session_is_continued_by_a_start_of_its_id_and_from_standard_input() {
    let place = Place::new();
    let talk = r#"[{"role":"user","content":"We ship on Friday at 10:00."},{"role":"assistant","content":"Noted: Friday at 10:00."}]"#;
    let done = place.call_with(
        talk,
        &[
            "run",
            "-",
            "--agents",
            "",
            "--task",
            "When do we ship?",
            "--json",
        ],
    );
    let report = done.expect(0).says(&["for 1 agent"]).json();
    assert!(
        report["answer"].as_str().unwrap().contains("Friday"),
        "{report:#?}"
    );
    let session = report["session"].as_str().unwrap();
    let next = [
        "run",
        "--session",
        &session[..13],
        "--agents",
        "facts",
        "--task",
        "Which day?",
    ];
    let report = place.json(&next);
    assert_eq!(report["session"], session);
}

#[test]
fn the_command_line_is_refused_where_it_makes_no_sense() {
    let place = Place::new();
    let file = example();
    let table: [(&[&str], &[&str]); 9] = rows! {
        (&["run"], &["<FILE|--session <SESSION>>"]),
        (&["run", "nowhere.jsonl"], &["cannot read nowhere.jsonl: the file does not exist"]),
        (&["run", "config"], &["config has no days of a channel"]),
        (&["run", &file, "--session", "latest"], &["cannot be used with"]),
        (&["run", &file, "--task", " "], &["--task is empty"]),
        (&["run", &file, "--timeout", "soon"], &["30s, 2m or 1h"]),
        (&["run", "--session", "latest"], &["this store has no session yet"]),
        (&["sessions", "show", "abc"], &["no session `abc`", "hint: `unisono sessions list`"]),
        (&["runn"], &["unrecognized subcommand", "run"]),
    };
    for (args, words) in table {
        place.call(args).expect(2).says(words);
    }
}

#[test]
fn an_error_as_json_is_on_stderr() {
    let place = Place::new();
    let done = place.call(&["sessions", "show", "abc", "--json"]).expect(2);
    let error: serde_json::Value = serde_json::from_str(&done.stderr).unwrap();
    assert_eq!(error["error"]["code"], "not_found");
    assert_eq!(error["error"]["exit"], 2);
    assert_eq!(error["error"]["message"], "no session `abc` in this store");
    assert!(error["error"]["hint"].is_string());
    assert_eq!(done.stdout, "");
}

#[test]
fn the_readme_shows_what_it_says() {
    let readme = include_str!("../../../../README.md");
    let run = ["run", &example(), "--compact-above", "9000"];
    let done = Place::new().call(&run).expect(0);
    for word in ["counted ", "shortened ", "compacted ", "context "] {
        let line = |text: &str| {
            let line = text.lines().find(|line| line.starts_with(word));
            // How long it took is another matter.
            let line = line.and_then(|line| line.split(": checkpoint").next());
            line.map(str::to_owned)
        };
        let shown = line(readme);
        assert!(shown.is_some(), "{word}");
        assert_eq!(shown, line(&done.stderr));
    }
    // The day of the question is in the snapshot, so its id is another one tomorrow.
    let agents = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("snapshot "))?;
        Some(line.split_once(" identical ")?.1.to_owned())
    };
    assert!(agents(readme).is_some());
    assert_eq!(agents(readme), agents(&done.stderr));
}
