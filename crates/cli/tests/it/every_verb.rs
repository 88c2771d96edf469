//! Every verb of the command line while a daemon has the store open.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::http::Daemon;
use crate::interrupted::Scene;
use crate::support::{Done, Going, HasAll as _, Place, example, heard, kill_if_alive, tell, words};

const REFERENCE: &str = include_str!("../../../../docs/src/reference/commands.md");
const EXTRACTIVE: &str = "[compaction]\nsummarisers = [\"extractive\"]\n";

/// The verbs of the command line: those that have no others below them.
fn verbs() -> BTreeSet<String> {
    let headings = REFERENCE.lines().filter_map(|line| {
        let name = line.strip_prefix('#')?.trim_start_matches('#').trim();
        name.strip_prefix("unisono ").map(str::to_owned)
    });
    let all: BTreeSet<String> = headings.collect();
    let above = |verb: &String| {
        all.iter()
            .any(|other| other.starts_with(&format!("{verb} ")))
    };
    all.iter().filter(|verb| !above(verb)).cloned().collect()
}

/// What a verb is called with, what it ends with, and what it says on either output.
struct Row(&'static str, Vec<&'static str>, i32, &'static str);

/// In an order in which each finds what it needs. `RUN`, `TURN`, `FILE`, `PROBED` and
/// `PROBES` are filled in.
fn rows() -> Vec<Row> {
    let row = Row;
    vec![
        row("import", vec!["FILE"], 0, "imported"),
        row(
            "run",
            vec!["FILE", "--agents", "risks", "--task", "Which dates?"],
            0,
            "risks",
        ),
        row(
            "delegate",
            vec![
                "latest",
                "risks",
                "facts=Which days?",
                "--task",
                "Which dates?",
            ],
            0,
            "## facts",
        ),
        row("chat", vec!["latest", "--agents", ""], 0, "daemon"),
        row("serve", vec!["--bind", "127.0.0.1:0"], 1, "use that one"),
        row("mcp", vec![], 0, "\"delegate\""),
        row("acp", vec![], 0, "\"loadSession\":true"),
        row("resume", vec![], 0, "nothing to resume"),
        row("export", vec!["latest"], 0, "unisono"),
        row("sessions list", vec![], 0, "PostgreSQL"),
        row("sessions show", vec!["latest"], 0, "3 ended"),
        row("sessions tree", vec!["latest"], 0, "main"),
        row(
            "sessions branch",
            vec!["latest", "what-if", "--at", "4"],
            0,
            "what-if",
        ),
        row(
            "sessions search",
            vec!["rollback", "--role", "user", "--role", "assistant"],
            0,
            "rollback",
        ),
        row("runs list", vec![], 0, "risks"),
        row("runs show", vec!["RUN"], 0, "risks"),
        row("runs cancel", vec!["RUN"], 2, "not open"),
        row("cluster list", vec![], 0, "one program uses it"),
        row(
            "cluster sessions",
            vec!["0000"],
            2,
            "no program of the cluster",
        ),
        row(
            "cluster drain",
            vec!["0000"],
            2,
            "no program of the cluster",
        ),
        row("tokens list", vec![], 0, "no tokens besides"),
        row(
            "tokens create",
            vec!["ada", "--owner", "ada"],
            0,
            "unisono_",
        ),
        row("tokens revoke", vec!["ada"], 0, "is revoked"),
        row("audit", vec!["--caller", "bob"], 0, "nothing is recorded"),
        row("schedules list", vec![], 0, "no schedules"),
        row("schedules run", vec!["daily"], 2, "does not exist"),
        row("schedules pause", vec!["daily"], 2, "does not exist"),
        row("schedules resume", vec!["daily"], 2, "does not exist"),
        row("approvals list", vec![], 0, "no call waits"),
        row("approvals approve", vec!["0000"], 2, "no call that waits"),
        row("approvals deny", vec!["0000"], 2, "no call that waits"),
        row(
            "approvals settle",
            vec!["0000", "--repeat"],
            2,
            "no call that waits",
        ),
        row("why", vec!["RUN"], 0, "risks"),
        row("replay", vec!["TURN"], 0, "checks hold"),
        row("context", vec!["latest"], 0, "snapshot"),
        row("history", vec!["latest", "1-2"], 0, "#1 user"),
        row("append", vec!["latest", "It rains."], 0, "appended #"),
        row("pin", vec!["latest", "3"], 0, "#3"),
        row("unpin", vec!["latest", "3"], 0, "nothing is pinned"),
        row("seal", vec!["latest"], 0, "sealed"),
        row(
            "compact",
            vec!["latest", "--keep", "6", "--yes"],
            0,
            "compacted",
        ),
        row("checkpoints list", vec!["latest"], 0, "extractive"),
        row("checkpoints show", vec!["latest", "1"], 0, "extractive"),
        row(
            "checkpoints edit",
            vec!["latest", "--text", "better.md"],
            0,
            "Nothing is decided.",
        ),
        row(
            "checkpoints regenerate",
            vec!["latest", "--yes"],
            0,
            "rewritten",
        ),
        row("checkpoints revert", vec!["latest", "--yes"], 0, "reverted"),
        row("agents list", vec![], 0, "risks"),
        row("agents show", vec!["risks"], 0, "risks"),
        row("agents check", vec![], 0, ""),
        row("agents import", vec!["others", "--dry-run"], 0, "reviewer"),
        row("models", vec![], 0, "extractive"),
        row("usage", vec![], 0, "risks"),
        row(
            "eval compaction",
            vec!["PROBED", "--probes", "PROBES"],
            0,
            "probes",
        ),
        row("config show", vec!["turn"], 0, "turn.lead"),
        row("agents reload", vec![], 0, "new: counts"),
        row(
            "config set",
            vec!["turn.agents", "counts"],
            0,
            "[\"counts\"]",
        ),
        row("config check", vec![], 0, ""),
        row("init", vec!["fresh"], 0, ""),
        row("doctor", vec![], 0, "were not checked"),
        row("vacuum", vec![], 0, "→"),
        row("store schema", vec![], 0, "CREATE TABLE"),
        row("completions", vec!["bash"], 0, "unisono"),
        row("man", vec![], 0, "unisono"),
        row(
            "sessions prune",
            vec!["--older-than", "30d", "--dry-run"],
            0,
            "would delete 0 sessions",
        ),
        row("sessions delete", vec!["latest", "--yes"], 0, "deleted"),
    ]
}

/// What a verb reads on standard input.
fn input(verb: &str) -> &'static str {
    match verb {
        "chat" => "Who decides?\n/context\n/branch aside 2\n/quit\n",
        "mcp" => concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
            "\n"
        ),
        "acp" => concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#,
            "\n"
        ),
        _ => "",
    }
}

#[test]
fn every_verb_can_be_used() {
    let rows = rows();
    let tried: BTreeSet<String> = rows.iter().map(|row| row.0.to_owned()).collect();
    assert_eq!(tried, verbs(), "a row for each verb, and for nothing else");
    // The daemon reads files only if it is told to.
    let config = format!("{EXTRACTIVE}\n[server]\nreload_seconds = 0\n");
    let place = Place::with_config(&config);
    place.write("better.md", "Nothing is decided.");
    place.talk();
    place.write(
        "others/.claude/agents/reviewer.md",
        "---\nname: reviewer\ndescription: Reviews\n---\nReview.\n",
    );
    let daemon = Daemon::start(&place);
    let (file, mut run, mut turn) = (example(), String::new(), String::new());
    let set = |name: &str| format!("{}/probes/{name}", file.rsplit_once('/').unwrap().0);
    let (probed, probes) = (
        set("clinic-scheduling.jsonl"),
        set("clinic-scheduling.probes.jsonl"),
    );
    let mut wrong = Vec::new();
    for Row(verb, args, code, says) in rows {
        let args = args.into_iter().map(|arg| match arg {
            "RUN" => run.as_str(),
            "TURN" => turn.as_str(),
            "FILE" => file.as_str(),
            "PROBED" => probed.as_str(),
            "PROBES" => probes.as_str(),
            arg => arg,
        });
        if verb == "agents reload" {
            place.write(
                "agents/counts.md",
                "---\ndescription: Counts\n---\nCount.\n",
            );
        }
        let args: Vec<&str> = verb.split(' ').chain(args).collect();
        let done = place.call_with(input(verb), &args);
        let said = done.stdout.contains(says) || done.stderr.contains(says);
        if done.code != Some(code) || !said {
            let shown = |text: &str| text.chars().take(600).collect::<String>();
            let (code, out, err) = (done.code, shown(&done.stdout), shown(&done.stderr));
            wrong.push(format!("{args:?}: {code:?}\n{out}\n{err}"));
        }
        if verb == "run" {
            let runs = place.json(&["runs", "list", "--agent", "risks"]);
            run = runs[0]["run"].as_str().unwrap().to_owned();
            turn = runs[0]["turn"].as_str().unwrap().to_owned();
        }
    }
    daemon.stop();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // It was the daemon that wrote: what it left is whole.
    place.call(&["doctor"]).expect(0).says(&[]);
    assert_eq!(place.json(&["sessions", "list"]), json!([]));
}

#[test]
fn a_setting_is_changed_with_a_daemon_and_without_one() {
    let place = Place::with_config(EXTRACTIVE);
    let daemon = Daemon::start(&place);
    let set = |args: &[&str]| place.json(&[&["config", "set"], args].concat());
    let changed = set(&["turn.agents", "risks,facts"]);
    assert_eq!(changed["value"], r#"["risks", "facts"]"#, "{changed}");
    place.talk();
    let run = ["run", "talk.json", "--task", "When?"];
    assert_eq!(place.json(&run)["runs"].as_array().unwrap().len(), 3);
    for (key, value, why) in rows! {
        ("server.bind", "127.0.0.1:1", "cannot be changed"),
        ("run.nothing", "1", "unknown key `run.nothing`"),
        ("turn.agnets", "1", "did you mean `turn.agents`"),
        ("turn.lead", "nobody", "turn.lead = \"nobody\": error: "),
        ("compaction.preset", "x", "compaction.preset = \"x\": error: "),
    } {
        let refused = place.refuses(&["config", "set", key, value], &[why]);
        assert!(!refused.stderr.contains("settings.toml"), "{refused:?}");
    }
    daemon.stop();
    // It is kept, and changed without a daemon as well.
    assert_eq!(place.json(&run)["runs"].as_array().unwrap().len(), 3);
    set(&["turn.agents", "--unset"]);
    assert_eq!(place.json(&run)["runs"].as_array().unwrap().len(), 5);
    let refused = place.call(&["config", "set", "server.bind", "127.0.0.1:1"]);
    refused.expect(2).says(&["cannot be changed"]);
    let unknown = place.call(&["config", "show", "nosuch"]);
    unknown
        .expect(2)
        .says(&["no key that is set starts with `nosuch`"]);
    let same = place.call(&["config", "show", "delegation", "--changed"]);
    same.expect(0).says(&["by default"]);
    // Settings count wherever they stand in the line.
    let places = words("--set compaction.preset=off config --set=log.level=debug show");
    let last = ["--changed", "--set", "turn.agents=risks"];
    let shown = place.call(&[&places[..], &last].concat()).expect(0).stdout;
    shown.has_all(&[
        "compaction.preset = \"off\"",
        "log.level = \"debug\"",
        "turn.agents = [\"risks\"]",
    ]);
    let nobody = place.call(&["agents", "reload"]);
    nobody.expect(3).says(&["no daemon has the store"]);
}

#[test]
fn flags_count_for_the_turn_that_a_daemon_takes() {
    let place = Place::with_config(EXTRACTIVE);
    let daemon = Daemon::start(&place);
    let file = example();
    let run = |more: &[&str]| -> Value {
        let args = ["run", &file, "--agents", "", "--task", "Which dates?"];
        place.json(&[&args[..], more].concat())
    };
    let plain = run(&[]);
    assert_eq!(plain["checkpoints"], json!([]), "{plain}");
    let early = run(&["--compact-above", "8k", "--model", "extractive"]);
    assert_eq!(early["checkpoints"].as_array().unwrap().len(), 1, "{early}");
    // The next one is as the daemon is set again.
    let usable = |report: &Value| report["usable_tokens"].as_u64();
    assert_eq!(usable(&plain), usable(&run(&[])));
    let unreachable = ["run", &file, "--model", "anthropic/claude-sonnet-4-5"];
    place
        .call(&unreachable)
        .expect(2)
        .says(&["anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"]);
    let by = |name: &str| ["compact", "latest", "--yes", "--summariser", name].map(str::to_owned);
    let by = |name| place.call(&by(name).each_ref().map(String::as_str));
    by("openai/gpt-4o")
        .expect(2)
        .says(&["openai/gpt-4o", "OPENAI_API_KEY"]);
    let dry = ["compact", "latest", "--dry-run", "--keep", "4"];
    let estimate = place.json(&dry);
    assert!(
        estimate["messages_to_summarise"].as_u64().unwrap() > 0,
        "{estimate}"
    );
    let made = place.json(&["compact", "latest", "--yes", "--keep", "4"]);
    assert_eq!(made["tokens_before"], estimate["tokens_before"]);
    assert!(
        made["tokens_after"].as_u64() <= estimate["estimated_tokens_after"].as_u64(),
        "{made} {estimate}"
    );
    daemon.stop();
}

#[test]
fn a_context_is_counted_with_the_settings_of_the_daemon_that_has_it() {
    let place = Place::with_config(EXTRACTIVE);
    place.json(&["import", &example()]);
    let own = ["context", "latest", "--set", "compaction.safety=0.5"];
    let usable = |reply: &Value| reply["usable_tokens"].as_u64().unwrap();
    let (here, otherwise) = (place.json(&["context", "latest"]), place.json(&own));
    assert!(usable(&otherwise) < usable(&here));
    let daemon = Daemon::start(&place);
    assert_eq!(place.json(&["context", "latest"]), here, "as without one");
    assert_eq!(
        usable(&place.json(&own)),
        usable(&otherwise),
        "flags count as they do for a turn"
    );
    let id = here["session"].as_str().unwrap();
    let reply = daemon.json(&format!("/v1/sessions/{id}/context"));
    assert_eq!(usable(&reply), usable(&here));
    let alone = daemon.get(&format!("/v1/sessions/{id}/context?lead=facts&agents="));
    assert!(alone.expect(200).json()["tools"].is_array());
    let unknown = daemon.get(&format!("/v1/sessions/{id}/context?agents=risks,nobody"));
    assert!(unknown.expect(422).problem("refused").contains("nobody"));
    let chat = place.call_with(
        "/context\n/quit\n",
        &["chat", "latest", "--set", "compaction.safety=0.5"],
    );
    let chat = chat.expect(0);
    let shown = place.stdout(&own);
    let bar = shown.lines().nth(1).unwrap();
    assert!(chat.stdout.contains(bar), "{chat:#?}");
    daemon.stop();
}

#[test]
fn a_verb_that_looks_prints_what_the_api_answers_with_a_daemon_and_without_one() {
    let place = Place::with_config(EXTRACTIVE);
    place.json(&["import", &example()]);
    place.json(&["compact", "--yes", "--keep", "20"]);
    place.json(&["pin", "latest", "3"]);
    place.json(&["seal", "latest"]);
    let own = ["compaction.trigger_tokens", "9000", "--session", "latest"];
    place.json(&[&["config", "set"][..], &own].concat());
    let listed = place.json(&["sessions", "list"]);
    let session = listed[0]["session"].as_str().unwrap();
    let at = |rest: &str| format!("/v1/sessions/{session}/{rest}");
    let rows: [(&[&str], String); 7] = [
        (&["context", "latest"], at("context")),
        (&["checkpoints", "list"], at("checkpoints")),
        (&["checkpoints", "show", "latest"], at("checkpoints/1")),
        (&["pin", "latest"], at("pins")),
        (
            &["config", "show", "compaction", "--session", "latest"],
            at("settings"),
        ),
        (&["agents", "list"], "/v1/agents".to_owned()),
        (&["models"], "/v1/models".to_owned()),
    ];
    let here: Vec<Value> = rows.iter().map(|(verb, _)| place.json(verb)).collect();
    let daemon = Daemon::start(&place);
    for ((verb, path), here) in rows.iter().zip(here) {
        let answer = daemon.get(path).expect(200).json();
        let mut answer = match &answer["items"] {
            Value::Null => answer,
            items => items.clone(),
        };
        if let (true, Some(all)) = (path.ends_with("settings"), answer.as_array_mut()) {
            all.retain(|one| one["key"].as_str().unwrap().starts_with("compaction"));
        }
        assert_eq!(here, answer, "{verb:?} and {path}");
        assert_eq!(place.json(verb), here, "{verb:?} beside a daemon");
    }
    daemon.stop();
}

/// A turn of which one agent waits for a word, and the process of that.
fn waiting(scene: &Scene) -> (Daemon, Going, String) {
    let daemon = Daemon::start(&scene.place);
    let (going, agent) = scene.run(&[]);
    (daemon, going, agent)
}

#[test]
fn whoever_stops_watching_comes_back_with_resume() {
    let scene = Scene::new();
    let (daemon, going, _) = waiting(&scene);
    going.signal("INT");
    let left = going.finish().expect(130);
    left.says(&["interrupted: the daemon continues it", "unisono resume"]);
    let mut back = Going::start(scene.place.command(&["resume", "--json"]));
    back.wait_for(&["resumed", "1 of 3 agents done before"]);
    tell(&scene.word, "teapot");
    let report = back.finish().expect(0).json();
    assert_eq!(report["state"], "answered", "{report}");
    assert_eq!(report["runs"][1]["text"], "The word is teapot.");
    assert_eq!(scene.marks(), 1);
    daemon.stop();
}

#[test]
fn a_run_is_cancelled_in_the_daemon_that_works_on_it() {
    let scene = Scene::new();
    let (daemon, going, _) = waiting(&scene);
    let runs = scene.place.json(&["runs", "list", "--agent", "waits"]);
    let run = runs[0]["run"].as_str().unwrap();
    let done = scene.place.json(&["runs", "cancel", run]);
    assert_eq!(done["cancelled"], json!([run]), "{done}");
    let report = going.finish().json();
    assert_eq!(report["runs"][1]["state"], "cancelled", "{report}");
    // A whole turn as well: deleting waits for that.
    let going = Going::start(scene.place.command(&words(
        "run --session latest --agents waits --task Again? --json",
    )));
    heard(&scene.started);
    let busy = scene.place.call(&["sessions", "delete", "latest", "--yes"]);
    busy.expect(2)
        .says(&["have not ended", "cancel them first"]);
    let open = scene.place.json(&["sessions", "show", "latest"]);
    let turn = open["open_turns"][0]
        .as_str()
        .unwrap_or_else(|| panic!("{open}"));
    let done = scene.place.json(&["runs", "cancel", turn]);
    assert_eq!(done["turn_ended"], true, "{done}");
    let done: Done = going.finish();
    assert_eq!(done.json()["state"], "cancelled", "{done:#?}");
    daemon.stop();
}

#[test]
fn a_daemon_that_is_killed_ends_what_follows_it_with_3() {
    let scene = Scene::new();
    let (daemon, going, agent) = waiting(&scene);
    daemon.kill();
    // It may outlive its daemon, and would wait for its word forever.
    kill_if_alive(&agent);
    going
        .finish()
        .expect(3)
        .says(&["cannot be reached", "whether it is still running"]);
}
