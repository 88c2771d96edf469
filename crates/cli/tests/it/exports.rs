//! Conversations of other programs: files of several, channels of days, and what is left behind.

use std::path::Path;

use serde_json::{Value, json};

use crate::http::Daemon;
use crate::support::{Done, HasAll as _, Place, example, finish, words};

/// A conversation of ChatGPT's with one question, and an answer behind hidden reasoning.
fn chat(id: &str, title: &str, words: &[&str]) -> Value {
    let mut mapping = json!({"root": {"id": "root", "message": null, "parent": null}});
    let mut parent = "root".to_owned();
    let thought = json!({"author": {"role": "assistant"}, "content": {"content_type": "thoughts", "thoughts": []}});
    for (n, word) in words.iter().enumerate() {
        let role = ["user", "assistant"][n % 2];
        let said = json!({"author": {"role": role}, "create_time": 1_700_000_000 + n,
            "content": {"content_type": "text", "parts": [word]}});
        for (node, message) in [(format!("t{n}"), thought.clone()), (format!("m{n}"), said)] {
            mapping[&node] = json!({"id": node, "message": message, "parent": parent});
            parent = node;
        }
    }
    json!({"title": title, "create_time": 1_700_000_000.5, "mapping": mapping,
        "current_node": parent, "conversation_id": id})
}

fn export() -> String {
    let all = [
        chat("c-1", "Harbour", &["Is it open?", "Yes."]),
        chat("c-2", "Nothing", &[]),
        chat("c-3", "Winter", &["Is it cold?", "No.", "Good."]),
    ];
    serde_json::to_string_pretty(&all).unwrap()
}

#[test]
fn a_file_of_several_conversations_is_listed_and_picked_from() {
    let place = Place::new();
    place.write("conversations.json", export());
    for verb in ["import", "run"] {
        let refused = place.call(&[verb, "conversations.json"]).expect(2);
        refused.says(&["has 3 conversations", "--list", "--pick", "--all"]);
    }
    let list = place.json(&["import", "conversations.json", "--list"]);
    assert_eq!(
        list[2],
        json!({"number": 3, "id": "c-3", "at": "2023-11-14T22:13:20Z", "messages": 3, "title": "Winter"})
    );
    let table = place
        .call(&["import", "conversations.json", "--list"])
        .expect(0);
    table.stdout.has_all(&["TITLE", "Harbour"]);
    assert_eq!(place.json(&["sessions", "list"]), json!([]));
    let pick = words("import conversations.json --pick 3 --pick c-1");
    let picked = place.says(&pick, &["left behind: 5 reasoning blocks"]);
    assert_eq!(picked.stdout.lines().count(), 2);
    picked.says(&[
        "conversation 1 \"Harbour\": imported, 2 messages",
        "conversation 3 \"Winter\": imported, 3 messages",
        "imported 2 conversations\n",
    ]);
    let pick_again = place.call(&pick).expect(0);
    pick_again.says(&[
        "conversation 1 \"Harbour\": was imported before",
        "imported 0 conversations, 2 were imported before",
    ]);
    let again = place.json(&pick);
    assert_eq!(
        (&again["imported"], &again["known"]),
        (&json!(0), &json!(2))
    );
    let again = &again["conversations"];
    assert_eq!(
        (&again[0]["number"], &again[1]["number"]),
        (&json!(1), &json!(3))
    );
    assert_eq!(
        (&again[0]["known"], &again[1]["messages"]),
        (&json!(true), &json!(3))
    );
    assert_eq!(again[1]["dropped_content"], json!({"reasoning block": 3}));
    let refused = place
        .call(&["import", "conversations.json", "--pick", "9"])
        .expect(2);
    refused.says(&["no conversation \"9\"", "--list"]);
    place
        .call(&["import", "conversations.json", "--pick", "2"])
        .expect(1)
        .says(&["no message"]);
    let all = place
        .call(&["import", "conversations.json", "--all", "--json"])
        .expect(0);
    let all = all.says(&["conversation 2 has no message"]).json();
    assert_eq!(all["left_out"], 1);
    let all = &all["conversations"];
    assert_eq!(all.as_array().unwrap().len(), 2);
    assert!(all[0]["known"] == true && all[1]["known"] == true, "{all}");
    assert_eq!(
        place.json(&["sessions", "list"]).as_array().unwrap().len(),
        2
    );
}

#[test]
fn an_export_of_one_conversation_is_that_of_a_later_export_too() {
    let place = Place::new();
    let one = chat("c-1", "Harbour", &["Is it open?", "Yes."]);
    place.write("one.json", serde_json::to_string(&[&one]).unwrap());
    let first = place.json(&["import", "one.json"]);
    assert_eq!(
        (&first["title"], &first["known"]),
        (&json!("Harbour"), &json!(false))
    );
    let two = [&one, &chat("c-4", "New", &["Well?"])];
    let bye = chat("c-5", "Late", &["Bye."]);
    place.write("two.json", serde_json::to_string(&two).unwrap());
    let all = &place.json(&["import", "two.json", "--all"])["conversations"];
    assert_eq!(
        (&all[0]["session"], &all[0]["known"]),
        (&first["session"], &json!(true))
    );
    assert_eq!(all[1]["known"], false);
    // The directory of an export counts as its file.
    place.write(
        "export/conversations.json",
        serde_json::to_string(&two).unwrap(),
    );
    let all = place.json(&["import", "export", "--all"]);
    assert_eq!((&all["imported"], &all["known"]), (&json!(0), &json!(2)));
    // The chats with several people are in a file of their own, which is not read.
    let chats = json!({"chats": [{"id": "g-1", "title": "Trip", "participants": ["a", "b"]}]});
    place.write("export/group_chats.json", chats.to_string());
    for file in ["export", "export/conversations.json"] {
        place
            .call(&["import", file, "--list"])
            .expect(0)
            .says(&["group_chats.json: left behind: 1 group chat"]);
    }
    // So do the parts of a large export.
    let parts = [
        ("000", json!([one])),
        ("001", json!([])),
        ("002", json!([two[1], bye])),
    ];
    for (number, part) in parts {
        place.write(
            &format!("parts/conversations-{number}.json"),
            part.to_string(),
        );
    }
    let list = place.json(&["import", "parts", "--list"]);
    assert_eq!(
        (&list[1]["id"], &list[2]["id"]),
        (&json!("c-4"), &json!("c-5"))
    );
    let all = place.json(&["import", "parts", "--all"]);
    assert_eq!((&all["imported"], &all["known"]), (&json!(1), &json!(2)));
    place.write("parts/conversations-001.json", "[{");
    place
        .call(&["import", "parts", "--all"])
        .expect(1)
        .says(&["conversations-001.json is not a list of conversations"]);
    // A file that is one conversation is number 1 of one.
    place.write("talk.txt", "Alice: Hello\nBob: Hi\nAlice: Bye\n");
    assert_eq!(
        place.json(&["import", "talk.txt", "--list"])[0]["messages"],
        3
    );
    assert_eq!(
        place.json(&["import", "talk.txt", "--pick", "1"])["messages"],
        3
    );
    place
        .call(&["import", "talk.txt", "--pick", "2"])
        .expect(2)
        .says(&["holds one conversation"]);
}

#[test]
fn bad_lines_of_a_picked_conversation_are_placed_in_the_file() {
    let place = Place::new();
    let good = chat("c-1", "Harbour", &["Is it open?"]).to_string();
    let bad = r#"{"title":"Bad","id":"b","mapping":{"a":{"parent":null,"message":{"content":{"content_type":"text","parts":["x"]}}}}}"#;
    place.write("some.json", format!("[{good},\n\n  {bad}]"));
    let refused = place
        .call(&["import", "some.json", "--pick", "b"])
        .expect(1);
    refused.says(&["some.json:3:67: `author` is missing"]);
}

#[test]
fn a_channel_of_slack_is_one_conversation() {
    let place = Place::new();
    let day = |user: &str, text: &str, ts: &str| {
        json!([{"type": "message", "user": user, "text": text, "ts": ts}]).to_string()
    };
    place.write(
        "slack/users.json",
        r#"[{"id": "U1", "profile": {"real_name": "Ada"}}]"#,
    );
    place.write(
        "slack/general/2024-05-08.json",
        day("U2", "later, <@U1>", "1715160000.1"),
    );
    place.write(
        "slack/general/2024-05-07.json",
        day("U1", "first", "1715073600.1"),
    );
    place.write("slack/general/notes.json", "{}");
    let made = place.json(&["import", "slack/general"]);
    assert_eq!(
        (&made["title"], &made["messages"]),
        (&json!("general"), &json!(2))
    );
    // A single day has the names, too.
    place
        .call(&["import", "slack/general/2024-05-07.json"])
        .expect(0);
    let one = place.call(&["history", "latest"]).expect(0).stdout;
    assert!(one.contains("Ada") && !one.contains("U1"), "{one}");
    place
        .call(&["sessions", "delete", "latest", "--yes"])
        .expect(0);
    let text = place.stdout(&["export", "latest", "--format", "openai"]);
    text.has_all(&["later, @Ada", r#""name":"Ada""#]);
    let files = words("import slack/general/2024-05-07.json slack/general/2024-05-08.json");
    assert_eq!(place.json(&files)["known"], true);
    let refused = place.call(&["import", "slack"]).expect(2);
    refused.says(&["no days of a channel", "one channel"]);
    let refused = place
        .call(&["import", "slack/general/notes.json", "slack/users.json"])
        .expect(1);
    refused.says(&[
        "notes.json",
        "only these are joined",
        "import others one by one",
    ]);
}

#[test]
fn run_reads_the_days_of_a_channel_as_import_does() {
    let place = Place::new();
    place.write(
        "slack/users.json",
        r#"[{"id": "U1", "profile": {"real_name": "Ada"}}]"#,
    );
    place.write(
        "slack/general/2024-05-07.json",
        r#"[{"type": "message", "user": "U1", "text": "We open on Friday.", "ts": "1715073600.1"}]"#,
    );
    for conversation in ["slack/general", "slack/general/2024-05-07.json"] {
        let made = place.json(&["import", conversation]);
        let ran = place.json(&["run", conversation, "--task", "When?", "--agents", "facts"]);
        assert_eq!(ran["session"], made["session"], "{conversation}");
    }
    let said = place.call(&["history", "latest"]).expect(0).stdout;
    assert!(said.contains("Ada") && !said.contains("U1"), "{said}");
}

#[test]
fn anthropics_messages_come_back_as_they_went() {
    let place = Place::new();
    let talk = json!({"system": "Be brief.", "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Look."}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {"b": 1, "a": 2}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": true},
            {"type": "text", "text": "And now?"}]}]});
    place.write("talk.json", talk.to_string());
    place.call(&["import", "talk.json"]).expect(0);
    let back = place
        .call(&["export", "latest", "--format", "anthropic"])
        .expect(0);
    assert_eq!(back.json(), talk);
    place
        .call(&["export", "latest", "--format", "chatgpt"])
        .expect(2);
}

#[test]
fn with_all_a_conversation_that_cannot_be_read_is_left_out() {
    let place = Place::new();
    let mut all: Vec<Value> = serde_json::from_str(&export()).unwrap();
    all[0]["mapping"]["m0"]["message"]["author"] = json!(7);
    place.write("conversations.json", json!(all).to_string());
    let ended = place
        .call(&["import", "conversations.json", "--all", "--json"])
        .expect(4);
    let kept = ended.json();
    assert_eq!(
        (&kept["imported"], &kept["left_out"]),
        (&json!(1), &json!(2))
    );
    let kept = &kept["conversations"];
    assert_eq!(kept.as_array().unwrap().len(), 1);
    assert_eq!(kept[0]["title"], "Winter");
    ended.says(&[
        "conversation 1 is left out: ",
        "conversations.json:1:121: an object was expected, not a number",
        "left out   1 conversation: not imported",
    ]);
}

#[test]
fn with_all_a_conversation_that_is_refused_is_left_out() {
    let place = Place::new();
    let long = "x".repeat(300 * 1024);
    let all = [
        chat("c-1", &long, &["Is it open?"]),
        chat("c-2", "Winter", &["Is it cold?"]),
    ];
    place.write("conversations.json", json!(all).to_string());
    let ended = place.call(&["import", "conversations.json", "--all", "--json"]);
    let ended = ended
        .expect(4)
        .says(&["conversation 1 is left out: the title"]);
    let kept = ended.json();
    assert_eq!(kept["left_out"], 1);
    assert_eq!(kept["conversations"][0]["title"], "Winter");
    place.refuses(
        &["import", "conversations.json", "--pick", "1"],
        &["the title"],
    );
}

#[test]
fn over_http_a_conversation_with_bad_lines_says_how_they_are_skipped() {
    let place = Place::new();
    let mut all: Vec<Value> = serde_json::from_str(&export()).unwrap();
    all[0]["mapping"]["m0"]["message"]["author"] = json!(7);
    let body = json!(all).to_string();
    let daemon = Daemon::start(&place);
    let post = |query: &str| {
        let path = format!("/v1/imports/conversations?name=conversations.json&picks=1{query}");
        let done = daemon.post_bytes(&path, "application/octet-stream", body.as_bytes());
        done.expect(200).json()["items"][0].clone()
    };
    let refused = post("");
    let error = refused["error"].as_str().unwrap();
    assert!(error.contains("`skip_bad=true`"), "{error}");
    assert!(refused["bad_lines"].as_u64() >= Some(1), "{refused}");
    assert_eq!(refused.get("session"), None, "{refused}");
    let kept = post("&skip_bad=true");
    assert!(kept["session"].is_string(), "{kept}");
    assert_eq!(kept.get("error"), None, "{kept}");
    daemon.stop();
}

#[test]
fn over_http_one_of_several_conversations_is_named() {
    let place = Place::new();
    place.write("conversations.json", export());
    let daemon = Daemon::start(&place);
    let body = export();
    let send = |path: &str| daemon.post_bytes(path, "application/octet-stream", body.as_bytes());
    let post = |query: &str| send(&format!("/v1/imports?name=conversations.json{query}"));
    let refused = post("").expect(422).json()["detail"].to_string();
    assert!(refused.contains("`pick` says which"), "{refused}");
    let made = post("&pick=c-3").expect(201).json();
    assert_eq!(
        (&made["title"], &made["messages"]),
        (&json!("Winter"), &json!(3))
    );
    assert_eq!(
        (
            &made["skipped_messages"],
            &made["dropped_content"]["reasoning block"]
        ),
        (&json!(0), &json!(3)),
        "{made}"
    );
    post("&pick=4").expect(422);
    let batch = |path: &str| send(&format!("/v1/imports/{path}name=conversations.json"));
    let listed = batch("dry-run?").expect(200).json()["items"].clone();
    let seen = |one: &Value| {
        (
            one["number"].clone(),
            one["title"].clone(),
            one["session"].clone(),
        )
    };
    assert_eq!(listed.as_array().map(Vec::len), Some(3), "{listed}");
    assert_eq!(
        seen(&listed[2]),
        (json!(3), json!("Winter"), made["session"].clone())
    );
    assert_eq!(listed[0].get("session"), None, "{listed}");
    batch("conversations?picks=1,9&").expect(422);
    let done = batch("conversations?picks=2,c-3&").expect(200).json()["items"].clone();
    assert_eq!(
        (&done[0]["known"], &done[1]["known"]),
        (&json!(false), &json!(true)),
        "{done}"
    );
    assert_eq!(done[1]["session"], made["session"]);
    let again = batch("conversations?picks=c-3&copy=true&")
        .expect(200)
        .json()["items"]
        .clone();
    assert_ne!(again[0]["session"], made["session"]);
    let all = &place.json(&["import", "conversations.json", "--all"])["conversations"];
    assert_eq!(
        (&all[0]["known"], &all[1]["known"]),
        (&json!(false), &json!(true))
    );
    daemon.stop();
}

#[test]
fn every_format_says_who_said_what() {
    let place = Place::new();
    place.write(
        "talk.txt",
        "Alice: Friday?\nBob: No, Tuesday.\nAlice: Fine.\n",
    );
    place.call(&["import", "talk.txt"]).expect(0);
    let export = |format| {
        place
            .call(&["export", "latest", "--format", format])
            .expect(0)
    };
    let blocks: Value = serde_json::from_str(&export("anthropic").stdout).unwrap();
    let says = |text| json!({"type": "text", "text": text});
    let said = ["Alice: Friday?", "Bob: No, Tuesday.", "Alice: Fine."];
    assert_eq!(blocks["messages"][0]["content"], json!(said.map(says)));
    let turns: Value = serde_json::from_str(&export("sharegpt").stdout).unwrap();
    let turn = |text| json!({"from": "human", "value": text});
    assert_eq!(turns["conversations"], json!(said.map(turn)));
    let lines = export("openai").stdout;
    let second: Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
    let expected = json!({"role": "user", "content": "No, Tuesday.", "name": "Bob"});
    assert_eq!(second, expected);
}

#[test]
fn a_conversation_without_times_gets_none() {
    let place = Place::new();
    let text = "Alice: It worked yesterday, I agreed to ship.\nBob: No, Tuesday.\nAlice: Fine.\n";
    place.write("talk.txt", text);
    let answer = place.json(&["run", "talk.txt", "--task", "What worked?"]);
    let answer = answer["answer"].as_str().unwrap();
    assert!(answer.contains("worked yesterday"), "{answer}");
    assert!(
        !answer.contains("(20") && !answer.contains("**20"),
        "{answer}"
    );
    let history = place.json(&["history", "latest"]);
    let at = |n: usize| &history["messages"][n]["at"];
    assert_eq!(at(0), &Value::Null);
    assert!(
        at(3).is_string(),
        "the task has the time of the run: {history}"
    );
    let shown = place.call(&["history", "latest", "1"]).expect(0).stdout;
    assert!(shown.starts_with("#1 Alice (user)\n"), "{shown}");
    // The own format keeps it so.
    let file = place.path("talk.jsonl").display().to_string();
    place.call(&["export", "latest", "-o", &file]).expect(0);
    place.call(&["import", &file, "--copy"]).expect(0);
    let again = place.json(&["history", "latest"]);
    assert_eq!(again["messages"][0]["at"], Value::Null);
    assert_eq!(&again["messages"][3]["at"], at(3));
    // It is neither before nor after a day.
    for query in ["worked before:2020-01-01", "worked after:2020-01-01"] {
        let found = place.json(&["sessions", "search", query]);
        let mut hits = found["hits"].as_array().unwrap().iter();
        assert!(hits.all(|hit| hit["at"].is_string()), "{query}: {found}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_a_full_disk_does_not_take_is_an_error() {
    let place = Place::new();
    place.write(
        "talk.txt",
        "Alice: Friday?\nBob: No, Tuesday.\nAlice: Fine.\n",
    );
    place.call(&["import", "talk.txt"]).expect(0);
    for args in [
        &["export", "latest"][..],
        &["history", "latest"],
        &["sessions", "list", "--json"],
    ] {
        let done = in_shell(&place, "exec \"$0\" \"$@\" > /dev/full", args).expect(1);
        done.says(&["cannot write to standard output"]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_export_that_does_not_fit_leaves_no_file() {
    let place = Place::new();
    let _daemon = Daemon::start(&place);
    place.call(&["import", &example()]).expect(0);
    // A limit of the system has the effect of a full disk, for this program only.
    let limited = "ulimit -f 8 && exec \"$0\" \"$@\"";
    for (args, file) in [
        (&["export", "latest", "-o", "talk.jsonl"][..], "talk.jsonl"),
        (&["export", "--all", "all.unisono"], "all.unisono"),
    ] {
        let refused = in_shell(&place, limited, args).expect(1);
        refused.says(&[&format!("cannot write {file}: ")]);
        assert!(!place.path(file).exists(), "{file}");
        let left = std::fs::read_dir(place.path(".")).unwrap();
        let mut names = left.map(|entry| entry.unwrap().file_name());
        assert!(!names.any(|name| name.to_string_lossy().starts_with(".unisono-export")));
        place.call(args).expect(0);
    }
}

/// Runs the program by a script of a shell.
#[cfg(target_os = "linux")]
fn in_shell(place: &Place, script: &str, args: &[&str]) -> Done {
    let own = env!("CARGO_BIN_EXE_unisono");
    let args = [&["-c", script, own], args].concat();
    let mut shell = place.command_of(Path::new("sh"), &args);
    finish(shell.spawn().unwrap(), &args)
}
