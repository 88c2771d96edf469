//! Summaries that a person takes back.

use crate::pins::{GO_ON, place};
use crate::support::{Place, example, words};
use crate::terminal::Talking;

#[test]
fn a_revert_gives_back_the_same_bytes_and_the_next_run_leaves_them_alone() {
    let place = place();
    let before = place.json(&["context", "latest"]);
    place.call(&["compact", "--yes"]).expect(0);
    let shown = place.json(&["checkpoints", "show", "latest"]);
    let effect = &shown["revert"];
    assert_eq!(effect["checkpoints"], serde_json::json!([]));
    assert_eq!(effect["messages"], shown["messages"]);
    assert_eq!(effect["usable_tokens"], before["usable_tokens"]);
    let done = place.json(&["checkpoints", "revert", "latest", "--yes"]);
    assert_eq!(
        (&done["state"], &done["checkpoint"]),
        (&"reverted".into(), &1.into())
    );
    assert_eq!(done["tokens_after"], before["used_tokens"]);
    assert_eq!(
        place.json(&["context", "latest"])["snapshot"],
        before["snapshot"]
    );
    let listed = place.json(&["checkpoints", "list"]);
    assert_eq!(
        (&listed[0]["active"], &listed[0]["retired"]),
        (&false.into(), &true.into())
    );

    place.call(&GO_ON).expect(0);
    let listed = place.json(&["checkpoints", "list"]);
    assert_eq!(listed.as_array().unwrap().len(), 1);
    place
        .call(&["export", "latest", "--output", "all.jsonl"])
        .expect(0);
    let text = std::fs::read_to_string(place.path("all.jsonl")).unwrap();
    assert_eq!(text.matches("\"retired\":true").count(), 1);
}

#[test]
fn a_revert_that_cannot_be_says_why_and_what_to_do() {
    let place = place();
    let revert = |number: &str| place.call(&["checkpoints", "revert", "latest", number, "--yes"]);
    revert("1")
        .expect(2)
        .says(&["no checkpoint 1", "`unisono compact` makes one"]);
    place.call(&["compact", "--yes", "--keep", "20"]).expect(0);
    place.call(&["compact", "--yes"]).expect(0);
    revert("1").expect(2).says(&[
        "checkpoint 1 was superseded by checkpoint 2",
        "revert checkpoint 2 first",
    ]);
    place
        .call(&["sessions", "branch", "latest", "early", "--at", "3"])
        .expect(0);
    let early = words("checkpoints revert latest 2 --yes --branch early");
    place.refuses(&early, &["of another branch", "--branch main"]);
    let asked = ["checkpoints", "revert", "latest", "2"];
    place.refuses(&asked, &["there is no terminal", "--yes"]);
    let small = words("checkpoints revert latest 2 --yes --set compaction.safety=0.9999");
    let refused = place.call(&small);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    revert("2").expect(0);
    revert("2").expect(2).says(&["has already been reverted"]);
    revert("1").expect(0);
}

#[test]
fn a_summary_is_edited_and_written_anew_and_each_can_be_taken_back() {
    let place = place();
    place.call(&["compact", "--yes"]).expect(0);
    let shown = |number: &str| place.json(&["checkpoints", "show", "latest", number]);
    let text = |number: &str| {
        let args = ["checkpoints", "show", "latest", number, "--summary"];
        place.call(&args).expect(0).stdout
    };
    let first = text("1");
    // The summary is as long as it may be: a person leaves some of it out.
    let half = first.lines().take(first.lines().count() / 2);
    let kept = half.collect::<Vec<_>>().join("\n");
    let edited = format!("## Context\nA person wrote this.\n\n{kept}\n");
    let edit = ["checkpoints", "edit", "latest", "--text", "-", "--json"];
    let done = place.call_with(&edited, &edit).expect(0);
    let done = done.says(&["now a person's"]).json();
    assert_eq!(
        (&done["state"], &done["checkpoint"]),
        (&"compacted".into(), &2.into())
    );
    assert_eq!(shown("2")["model"], "person");
    assert_eq!(shown("2")["key_facts"], shown("1")["key_facts"]);
    assert!(text("2").contains("A person wrote this."));
    let same = place.call_with(&edited, &edit).expect(0).json();
    assert_eq!(same["state"], "nothing_to_do", "{same}");
    assert_eq!(same["no_change_reason"], "the text is the same");
    assert!(same["tokens_before"].is_u64(), "{same}");

    let anew = ["checkpoints", "regenerate", "latest", "--yes", "--json"];
    let done = place.call(&anew).expect(0).says(&["now of quotes"]).json();
    assert_eq!(done["checkpoint"], 3);
    assert_eq!(text("3"), first, "quotes are the same each time");
    // A revert of a rewritten summary returns to the older one, not to its messages.
    let effect = shown("3")["revert"].clone();
    assert_eq!(
        (&effect["checkpoints"], &effect["messages"]),
        (&serde_json::json!([2]), &0.into())
    );
    for number in ["3", "2", "1"] {
        let revert = ["checkpoints", "revert", "latest", "--yes", "--json"];
        let done = place.call(&revert).expect(0).json();
        assert_eq!(done["checkpoint"].to_string(), number);
    }
}

#[test]
fn an_edit_that_cannot_be_says_why() {
    let place = place();
    place.call(&["compact", "--yes"]).expect(0);
    let edit = ["checkpoints", "edit", "latest", "--text", "-"];
    let long = "word ".repeat(6_000);
    place
        .call_with(&long, &edit)
        .expect(1)
        .says(&["over its cap of 2048", "shorter"]);
    place
        .call_with(" \n", &edit)
        .expect(2)
        .says(&["the summary is empty"]);
    place
        .call(&["checkpoints", "edit", "latest"])
        .expect(2)
        .says(&["no terminal", "--text"]);
    let listed = place.json(&["checkpoints", "list"]);
    assert_eq!(listed.as_array().unwrap().len(), 1);
}

#[test]
fn a_text_from_an_editor_is_kept_if_it_is_refused() {
    let place = place();
    place.call(&["compact", "--yes"]).expect(0);
    place.write("its text", "word ".repeat(6_000));
    place.write("tmp/readme", "");
    let edit = |text: &str| {
        let mut command = place.command(&["checkpoints", "edit", "latest"]);
        command.env("VISUAL", format!("cp '{text}'"));
        command.env("TMPDIR", place.path("tmp"));
        Talking::at_a_terminal(command).all()
    };
    let kept = || {
        let files = std::fs::read_dir(place.path("tmp")).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        let mut paths = paths.filter(|path| path.extension().is_some_and(|end| end == "md"));
        paths.next()
    };
    let shown = edit("its text");
    let file = kept().unwrap();
    let hint = format!("--text {} hands it in again", file.display());
    assert!(shown.contains(&hint), "{shown}");
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("word "));
    std::fs::remove_file(&file).unwrap();
    place.write("its text", "## Context\nA person wrote this.\n");
    let shown = edit("its text");
    assert!(shown.contains("now a person's"), "{shown}");
    assert_eq!(kept(), None);
    let shown = edit("gone");
    assert!(shown.contains("nothing was changed"), "{shown}");
    assert_eq!(kept(), None);
}

#[test]
fn what_is_compacted_by_itself_is_said_unless_it_is_switched_off() {
    let place = place();
    let run = |flags: &[&str]| {
        let done = place.call(&[&GO_ON[..6], flags].concat()).expect(0);
        done.stderr
            .lines()
            .any(|line| line.starts_with("compacted "))
    };
    assert!(run(&["8k"]));
    assert!(!run(&["2k", "--set", "compaction.notice=off"]));
    let made = place.json(&["checkpoints", "list"]);
    assert!(made.as_array().unwrap().len() > 1, "{made}");
}

#[test]
fn a_revert_shows_the_same_usable_tokens_as_the_context() {
    // The share for results of delegates belongs to the limit of the next turn.
    let place = Place::with_config(
        "[turn]\nagents = [\"risks\"]\n[compaction]\nsummarisers = [\"extractive\"]\n",
    );
    place.call(&["import", &example()]).expect(0);
    place.call(&["compact", "--yes"]).expect(0);
    let context = place.json(&["context", "latest"]);
    let shown = place.json(&["checkpoints", "show", "latest"]);
    assert_eq!(shown["revert"]["usable_tokens"], context["usable_tokens"]);
}
