//! Conversations that are read, picked out, shown without harm, and let go.

use serde_json::{Value, json};

use crate::http::Daemon;
use crate::interrupted::Scene;
use crate::support::{HasAll as _, Place, kill_if_alive};

fn session(daemon: &Daemon, title: &str, labels: &Value, texts: &[&str]) -> String {
    let messages: Vec<Value> = texts
        .iter()
        .map(|text| json!({"role": "user", "content": text}))
        .collect();
    let new = json!({"title": title, "labels": labels, "messages": messages});
    daemon.session(&new)
}

fn titles(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap().iter();
    list.map(|one| one["title"].as_str().unwrap()).collect()
}

#[test]
fn the_page_of_the_sessions_stays_small_with_long_and_many_labels() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let mut labels = json!({"big": "x".repeat(100_000), "team": "shop"});
    for number in 0..40 {
        labels[format!("key{number:02}")] = json!("y".repeat(1_000));
    }
    session(&daemon, "One", &labels, &["Hello."]);
    let path = format!("work-{}", "harbour-".repeat(12));
    let two = json!({"team": "shop", "cwd": path, "=odd": "1"});
    session(&daemon, "Two", &two, &["Hello."]);
    let page = daemon.get("/").expect(200).text();
    assert!(page.len() < 30_000, "{}", page.len());
    let linked = format!("<a class=\"tag\" href=\"/?label=cwd%3D{path}\">");
    assert!(page.contains(&linked), "{page}");
    page.has_all(&[
        "<span class=\"tag\">big=xxx",
        "<span class=\"tag\">=odd=1</span>",
        "and 34 more",
        "<a class=\"tag\" href=\"/?label=team%3Dshop\">team=shop</a>",
    ]);
    daemon.stop();
}

#[test]
fn listed_sessions_fit_all_conditions_and_no_page_hides_further_ones() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    for (title, team) in [("One", "shop"), ("Two", "press"), ("Three", "shop")] {
        session(&daemon, title, &json!({"team": team}), &["Hello."]);
    }
    let of = |query: &str| {
        let path = format!("/v1/sessions?{query}");
        daemon.get(&path).expect(200).json()
    };
    // Every id begins with 0, and no turn is open.
    let table: [(&str, &[&str]); 7] = rows! {
        ("id=0", &["Three", "Two", "One"]),
        ("id=0&by_change=true", &["Three", "Two", "One"]),
        ("id=0&label=team%3Dshop", &["Three", "One"]),
        ("id=latest&label=team%3Dpress", &[]),
        ("label=team&open=true", &[]),
        ("id=0&open=true", &[]),
        ("by_change=true&open=true", &[]),
    };
    for (query, expected) in table {
        assert_eq!(titles(&of(query)["items"]), expected, "{query}");
    }
    for order in ["", "&by_change=true"] {
        let first = of(&format!("id=0&limit=2{order}"));
        assert_eq!(titles(&first["items"]), ["Three", "Two"]);
        let next = first["next"].as_str().unwrap();
        let rest = of(&format!("id=0&limit=2{order}&cursor={next}"));
        assert_eq!(titles(&rest["items"]), ["One"]);
        assert_eq!(rest["next"], Value::Null);
    }
    daemon.stop();
}

#[test]
fn sessions_are_picked_out_by_their_labels() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    for (title, labels) in [
        ("One", json!({"team": "shop", "channel": "1"})),
        ("Two", json!({"team": "press"})),
        ("Three", json!({"team": "shop"})),
        ("Four", json!({})),
        ("Five", json!({"in=out": "a=b", " ": "blank"})),
    ] {
        session(&daemon, title, &labels, &["Hello."]);
    }
    let of = |query: &str| daemon.json(&format!("/v1/sessions?{query}"));
    assert_eq!(titles(&of("label=team%3Dshop")["items"]), ["Three", "One"]);
    assert_eq!(titles(&of("label=team")["items"]), ["Three", "Two", "One"]);
    let first = of("label=team&limit=2");
    assert_eq!(titles(&first["items"]), ["Three", "Two"]);
    let next = first["next"].as_str().unwrap();
    let rest = of(&format!("label=team&limit=2&cursor={next}"));
    assert_eq!(titles(&rest["items"]), ["One"]);
    assert_eq!(rest["next"], Value::Null);
    daemon.get("/v1/sessions?label=%3D1").expect(400);
    // A name with a `=`: its link, the API and the command line find it.
    let page = daemon.get("/").expect(200).text();
    let link = "/?label=in%3Dout%3Da%3Db";
    assert!(page.contains(&format!("href=\"{link}\"")), "{page}");
    let page = daemon.get(link).expect(200).text();
    page.has_all(&["Five</a>"]);
    page.has_none(&["One</a>"]);
    assert_eq!(titles(&of(&link[2..])["items"]), ["Five"]);
    assert_eq!(titles(&of("label=in%3Dout")["items"]), Vec::<&str>::new());
    let page = daemon.get("/?label=team%3Dnobody").expect(200).text();
    let sentence = "No session has the label <code>team=nobody</code>.";
    assert!(page.contains(sentence), "{page}");
    assert!(page.contains("<a href=\"/\">Show all sessions</a>"));
    let page = daemon.get("/?label=team&after=50").expect(200).text();
    assert!(page.contains("There are no older sessions."), "{page}");

    let list = |labels: &[&str]| {
        let flags = labels.iter().flat_map(|label| ["--label", label]);
        place.json(
            &["sessions", "list"]
                .into_iter()
                .chain(flags)
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(titles(&list(&["team=shop"])), ["Three", "One"]);
    assert_eq!(titles(&list(&["team", "channel=1"])), ["One"]);
    assert_eq!(titles(&list(&["in=out=a=b"])), ["Five"]);
    assert_eq!(titles(&list(&["owner"])), Vec::<&str>::new());
    daemon.stop();
    assert_eq!(titles(&list(&["team=press"])), ["Two"]);
}

#[test]
fn a_label_without_a_name_is_refused_wherever_it_comes_from() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let labels = json!({"": "x"});
    let new = json!({"labels": labels});
    let refused = daemon.post("/v1/sessions", &new).expect(422);
    let detail = refused.problem("refused");
    assert!(detail.contains("a label has no name"), "{detail}");
    let id = session(&daemon, "One", &json!({}), &["Hello."]);
    daemon.stop();
    let exported = place.call(&["export", &id]).expect(0).stdout;
    let (head, rest) = exported.split_once('\n').unwrap();
    let mut head: Value = serde_json::from_str(head).unwrap();
    head["labels"] = labels;
    head["id"] = json!("0192aaaa-0000-7000-8000-000000000001");
    place.write("unnamed.jsonl", format!("{head}\n{rest}"));
    place.refuses(&["import", "unnamed.jsonl"], &["a label has no name"]);
}

#[test]
fn a_conversation_is_read_by_range_and_role() {
    let place = Place::new();
    place.write(
        "talk.jsonl",
        concat!(
            r#"{"role":"user","content":"How many herons are left?"}"#,
            "\n",
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"stock","arguments":"{\"item\":\"heron\"}"}}]}"#,
            "\n",
            r#"{"role":"tool","tool_call_id":"c1","content":"12"}"#,
            "\n",
            r#"{"role":"assistant","content":"Twelve."}"#,
            "\n"
        ),
    );
    place.call(&["import", "talk.jsonl"]).expect(0);
    let all = place.call(&["history", "latest"]).expect(0).stdout;
    for says in [
        "#1 user",
        "How many herons",
        "→ stock {\"item\":\"heron\"}  [c1]",
        "← [c1] gave:\n  12",
        "#4 assistant",
    ] {
        assert!(all.contains(says), "{says:?} in {all}");
    }
    let of = |args: &[&str]| -> Vec<u64> {
        let found = place.json(&[&["history", "latest"], args].concat());
        let found = found["messages"].as_array().unwrap().clone();
        let ordinals = found.iter().map(|one| one["ordinal"].as_u64().unwrap());
        ordinals.collect()
    };
    assert_eq!(of(&["#2-#3"]), [2, 3]);
    assert_eq!(of(&["-2"]), [3, 4]);
    assert_eq!(of(&["2-", "--role", "assistant"]), [2, 4]);
    let refused = place.call(&["history", "latest", "9"]);
    refused
        .expect(2)
        .says(&["no message #9", "the last message is #4"]);
    place.call(&["history", "latest", "4-2"]).expect(2);
}

/// What steers a terminal or reorders what it shows.
const EVIL: &str = "a\u{1b}[31mred\u{9b}2J\u{202e}gnp.exe\u{2066}z";

#[test]
fn nothing_that_steers_reaches_a_terminal_a_page_or_a_file() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let id = session(&daemon, EVIL, &json!({"team": EVIL}), &["Hello."]);
    let path = format!("/v1/sessions/{id}/messages");
    let parts = json!([
        {"type": "text", "text": EVIL},
        {"type": "tool_call", "id": EVIL, "name": EVIL, "arguments": json!({"a": EVIL}).to_string()},
        {"type": "attachment", "filename": EVIL, "mime": EVIL, "size_bytes": 1},
    ]);
    let evil = json!({"role": "assistant", "parts": parts});
    daemon.post(&path, &evil).expect(201);
    let task = json!({"task": EVIL, "agents": []});
    let turn = daemon.posted(&format!("/v1/sessions/{id}/turns"), &task);
    // Programs receive all of it.
    let messages = daemon.get(&path).expect(200).json();
    assert_eq!(messages["items"][1]["parts"], parts);

    let harmful = |c: char| {
        matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            || (c.is_control() && !matches!(c, '\n' | '\t'))
    };
    let turn = turn["turn"].as_str().unwrap();
    for args in [
        vec!["sessions", "list"],
        vec!["sessions", "show", &id],
        vec!["sessions", "tree", &id],
        vec!["sessions", "search", "red"],
        vec!["history", &id],
        vec!["context", &id],
        vec!["export", &id],
        vec!["export", &id, "--format", "openai"],
        vec!["history", &id, "--json"],
        vec!["replay", turn],
        vec!["runs", "list"],
        vec!["pin", &id, "2"],
        vec!["history", EVIL],
    ] {
        let done = place.call(&[&args[..], &["--color", "always"]].concat());
        for text in [&done.stdout, &done.stderr] {
            // Our own colours are no harm.
            let mut plain = text.clone();
            for code in ["0", "1", "2", "31", "32", "33", "36", "38;5;208"] {
                plain = plain.replace(&format!("\u{1b}[{code}m"), "");
            }
            assert!(!plain.contains(harmful), "{args:?}: {text:?}");
        }
    }
    daemon.stop();

    // A copy of the export is the same conversation.
    let exported = place.call(&["export", &id]).expect(0).stdout;
    place.write("evil.jsonl", &exported);
    let copy = place.call(&["import", "evil.jsonl", "--copy"]).expect(0);
    let of = |id: &str| place.json(&["history", id])["messages"].clone();
    let (first, second) = (of(&id), of(copy.stdout.trim()));
    for (first, second) in first
        .as_array()
        .unwrap()
        .iter()
        .zip(second.as_array().unwrap())
    {
        assert_eq!(first["parts"], second["parts"]);
    }
}

#[test]
fn a_label_forges_no_row_of_its_session() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let labels = json!({"q": "a\nturns        9 ended", "r\r\ns": "b\u{1b}[31m\tc"});
    let id = session(&daemon, "One", &labels, &["Hello."]);
    let shown = place.call(&["sessions", "show", &id]).expect(0).stdout;
    assert!(shown.contains("q=a turns 9 ended  r s=b[31m c"), "{shown}");
    let turns = shown.lines().filter(|line| line.starts_with("turns"));
    assert_eq!(turns.collect::<Vec<_>>(), ["turns        0 ended, 0 open"]);
    daemon.stop();
}

#[test]
fn what_did_not_change_for_long_is_deleted_on_request() {
    let scene = Scene::new();
    let place = &scene.place;
    let (going, agent) = scene.run(&[]);
    going.kill();
    kill_if_alive(&agent);
    place.write(
        "other.jsonl",
        "{\"role\":\"user\",\"content\":\"A purple heron.\"}\n",
    );
    place.call(&["import", "other.jsonl"]).expect(0);

    let prune =
        |args: &[&str]| place.json(&[&["sessions", "prune", "--older-than"], args].concat());
    // Nothing is a day old.
    let none = prune(&["1d", "--yes"]);
    assert_eq!(none["sessions"], json!([]));
    let dry = prune(&["0m", "--dry-run"]);
    assert_eq!(titles(&dry["sessions"]), ["other"], "{dry}");
    assert_eq!((&dry["dry_run"], &dry["open"]), (&json!(true), &json!(1)));
    assert_eq!(
        place.json(&["sessions", "list"]).as_array().unwrap().len(),
        2
    );
    let other = prune(&["0m", "--label", "team", "--yes"]);
    assert_eq!(other["sessions"], json!([]));
    place.refuses(&["sessions", "prune", "--older-than", "0m"], &["--yes"]);
    let gone = prune(&["0m", "--yes"]);
    assert_eq!(titles(&gone["sessions"]), ["other"]);
    // The one whose turn is open stays, and goes on.
    assert_eq!(
        place.json(&["sessions", "list"]).as_array().unwrap().len(),
        1
    );
    let found = place.json(&["sessions", "search", "heron"]);
    assert_eq!(found["hits"], json!([]));
    scene.resume().expect(0);
    let refused = place.call(&["sessions", "prune", "--older-than", "soon"]);
    refused.expect(2).says(&["--older-than soon"]);
}

#[test]
fn a_key_of_another_program_leads_to_the_one_with_its_meaning() {
    let place = Place::new();
    for (key, value, meant) in [
        ("max_turns", "5", "max_model_calls"),
        ("maxTurns", "5", "max_model_calls"),
        ("system_prompt", "Be brief.", "instructions"),
        ("disallowedTools", "[skill]", "deny_tools"),
    ] {
        let text = format!("---\ndescription: reviews\n{key}: {value}\n---\nReview it.\n");
        place.write("agents/reviewer.md", text);
        let checked = place.call(&["agents", "check"]).expect(2);
        for says in [
            format!("unknown key `{key}`"),
            format!("did you mean `{meant}`?"),
        ] {
            assert!(checked.stdout.contains(&says), "{}", checked.stdout);
        }
    }
}

#[test]
fn what_a_person_types_wrong_is_an_error_that_says_what_may_be_meant() {
    let place = Place::new();
    let set = ["sessions", "list", "--set", "compaction.prest=off"];
    place.refuses(&set, &["unknown key `prest`", "did you mean `preset`"]);
    let mut command = place.command(&["sessions", "list"]);
    command.env("UNISONO__TURN__AGNETS", "risks");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    said.has_all(&["UNISONO__TURN__AGNETS", "`agents`"]);
}
