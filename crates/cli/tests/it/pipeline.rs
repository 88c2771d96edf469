//! Agents that work one after the other: without a key, and on a provider that speaks the real
//! wire format on loopback, whole, cancelled, stopped in the middle, and where a stage fails.

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, FakeProvider, Gate, Script, block_on};

use crate::delegation::text;
use crate::http::Daemon;
use crate::serve_page::Browser;
use crate::support::{Going, HasAll as _, Place, example, is_of};

/// `article`: outline, draft, review; nothing of its own.
fn place(config: &str) -> Place {
    let place = Place::with_config(config);
    for stage in ["outline", "draft", "review"] {
        let file = format!("---\ndescription: Makes the {stage}\n---\nWrite the {stage}.\n");
        place.write(&format!("agents/{stage}.md"), file);
    }
    let article = "---\ndescription: Writes an article\npipeline: [outline, draft, review]\n---\n";
    place.write("agents/article.md", article);
    place
}

/// The same, with a draft that fails.
fn broken(config: &str, on_failure: &str) -> Place {
    let place = place(config);
    let draft = format!(
        "---\ndescription: Fails\nkind: command\ncommand: \"false\"\nretries: 0\n\
         on_failure: {on_failure}\n---\n"
    );
    place.write("agents/draft.md", draft);
    place
}

fn on(provider: &FakeProvider) -> Place {
    place(&format!(
        "[turn]\nlead = \"article\"\n[providers.openai-compatible]\n\
         base_url = \"{}/v1\"\nattempts = 1\n[models]\ndefault = \"openai-compatible/qwen3\"\n\
         [compaction]\nsummarisers = [\"extractive\"]\n",
        provider.url()
    ))
}

/// Each stage says what it made; the draft waits for the gate, if there is one.
fn script(gate: Option<Gate>) -> Script {
    Script::by(move |request| {
        let stages = ["outline", "draft", "review"];
        let stage = stages.iter().find(|stage| is_of(stage, request));
        let stage = stage.expect("only stages ask a model");
        let act = Act::answer(Answer::text(format!("This is the {stage}.")));
        match &gate {
            Some(gate) if *stage == "draft" => act.hold(gate),
            _ => act,
        }
    })
}

fn agents(runs: &Value) -> Vec<(&str, &str)> {
    let runs = runs.as_array().unwrap().iter();
    runs.map(|run| {
        (
            run["agent"].as_str().unwrap(),
            run["state"].as_str().unwrap(),
        )
    })
    .collect()
}

#[test]
fn without_a_key_each_stage_reads_what_came_before_it() {
    let place = place("");
    let args = ["run", &example(), "--lead", "article", "--json"];
    let report = place.call(&args).expect(0).json();
    let runs = &report["runs"];
    let done = ["outline", "draft", "review", "article"].map(|agent| (agent, "done"));
    assert_eq!(agents(runs), done);
    assert_eq!(runs[2]["stage"], 3);
    assert_eq!(report["answer"], runs[2]["text"], "the last stage's result");
    assert_eq!(report["snapshot_agents"], 4, "one context for all");

    let listed = place.json(&["runs", "list"]);
    let mut draft = listed.as_array().unwrap().iter();
    let draft = draft.rfind(|run| run["agent"] == "draft").unwrap();
    assert_eq!((&draft["stage"], &draft["index"]), (&json!(2), &json!(1)));
    let draft = draft["run"].as_str().unwrap();
    let shown = place.call(&["runs", "show", draft]).expect(0);
    assert!(shown.stdout.contains("(stage 2)"), "{}", shown.stdout);
    let why = place.call(&["why", draft]).expect(0).stdout;
    assert!(why.contains(r#""results":[{"agent":"outline""#), "{why}");
    place.call(&["replay", "latest"]).expect(0);

    let shown = place.call(&["agents", "show", "article"]).expect(0).stdout;
    shown.has_all(&["outline, then draft, then review"]);
    let others = ["run", &example(), "--lead", "article", "--agents", "risks"];
    place.refuses(&others, &["agent `article` works through its pipeline"]);
}

#[test]
fn all_stages_are_sent_the_same_bytes_before_their_own() {
    let provider = FakeProvider::play_on_thread(script(None));
    let place = on(&provider);
    let args = ["run", &example(), "--json"];
    let report = Going::start(place.command(&args)).finish().expect(0).json();
    assert_eq!(report["answer"], "This is the review.");

    let requests = block_on(provider.wait_for(3));
    assert_eq!(
        requests.len(),
        3,
        "nobody asks a model for the pipeline itself"
    );
    let bodies: Vec<String> = requests.iter().map(text).collect();
    let role = bodies[0].find("# Your role").expect("its own part");
    for later in &bodies[1..] {
        assert_eq!(
            later[..role],
            bodies[0][..role],
            "the prefix that is shared"
        );
        let handed = later
            .find("This is the outline.")
            .expect("what came before");
        assert!(role < handed, "behind what is shared");
    }
    assert!(!bodies[0].contains("# Result of"));
    assert!(!bodies[1].contains("This is the draft."));
    let (outline, draft) = ("# Result of outline", "# Result of draft");
    let at = |said| bodies[2].find(said).expect(said);
    assert!(at(outline) < at("This is the outline."));
    assert!(at("This is the outline.") < at(draft));
    assert!(at(draft) < at("This is the draft."));
}

#[test]
fn what_was_stopped_goes_on_with_the_stage_that_was_open() {
    let gate = Gate::new();
    let script = script(Some(gate.clone()));
    let provider = FakeProvider::play_on_thread(script);
    let place = on(&provider);
    let mut going = Going::start(place.command(&["run", &example()]));
    going.wait_for(&["draft", "running"]);
    block_on(provider.wait_for(2));
    going.signal("INT");
    going.finish().expect(130);

    gate.open();
    Going::start(place.command(&["resume"])).finish().expect(0);
    let requests = block_on(provider.wait_for(4));
    assert_eq!(requests.len(), 4, "the outline is not asked for again");
    assert_eq!(requests[1].body, requests[2].body, "sent again as it was");
    assert!(is_of("draft", &requests[1]) && is_of("review", &requests[3]));
    let runs = place.json(&["runs", "list"]);
    let done = agents(&runs)
        .iter()
        .filter(|(_, state)| *state == "done")
        .count();
    assert_eq!(done, 4, "{runs}");
}

#[test]
fn a_cancelled_turn_asks_no_further_stage() {
    let gate = Gate::new();
    let script = script(Some(gate.clone()));
    let provider = FakeProvider::play_on_thread(script);
    let place = on(&provider);
    let imported = place.json(&["import", &example()]);
    let turns = format!(
        "/v1/sessions/{}/turns",
        imported["session"].as_str().unwrap()
    );
    let daemon = Daemon::start(&place);
    let asked = json!({"task": "An article.", "wait": false});
    let turn = daemon.post(&turns, &asked).expect(202).json();
    block_on(provider.wait_for(2));
    let path = format!("{turns}/{}", turn["turn"].as_str().unwrap());
    daemon
        .post(&format!("{path}/cancel"), &json!({}))
        .expect(200);
    let ended = daemon.get(&path).expect(200).json();
    assert_eq!(ended["state"], "cancelled");
    let stages = [("outline", "done"), ("draft", "cancelled")];
    assert_eq!(agents(&ended["runs"]), stages);
    assert_eq!(ended["runs"][1]["stage"], 2);
    gate.open();
    daemon.stop();
    assert_eq!(provider.request_count(), 2);
}

#[test]
fn a_stage_that_fails_is_missed_or_stops_the_pipeline() {
    let place = broken("", "continue");
    let args = ["run", &example(), "--lead", "article", "--json"];
    let report = place.call(&args).expect(4).json();
    let states = ["done", "failed", "done", "partial"];
    let reply = agents(&report["runs"]);
    assert!(
        reply.iter().map(|(_, state)| *state).eq(states),
        "{reply:?}"
    );
    assert_eq!(report["answer"], report["runs"][2]["text"]);
    let missing = report["runs"][3]["reason"].as_str().unwrap();
    assert!(
        missing.starts_with("stage 2, draft: exit_failure: "),
        "{missing}"
    );

    let place = broken("", "fail");
    let report = place.call(&args).expect(1).json();
    let reason = report["error"]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("agent draft failed: exit_failure: "),
        "{reason}"
    );
    let stopped = "; it was stage 2 of 3; stages without a result: review";
    assert!(reason.ends_with(stopped), "{reason}");
}

#[test]
fn the_page_asks_a_lead_with_a_pipeline_and_asks_it_again() {
    let place = broken("[turn]\nlead = \"article\"\n", "fail");
    let imported = place.json(&["import", &example()]);
    let page = format!("/sessions/{}", imported["session"].as_str().unwrap());
    let daemon = Daemon::start(&place);
    let browser = Browser::enter(&daemon);
    // The agents of the settings do not work with it.
    let shown = browser.get(&page).expect(200).text();
    let chips = shown.split("name=\"agent\"").skip(1);
    let chips: Vec<&str> = chips.filter_map(|chip| chip.split('>').next()).collect();
    assert!(!chips.is_empty(), "{shown}");
    let chosen = chips.iter().filter(|chip| chip.contains("checked"));
    assert_eq!(chosen.count(), 0, "{chips:?}");

    let turns = format!("/v1{page}/turns");
    let failed = json!({"task": "An article.", "wait": true});
    let failed = daemon.post(&turns, &failed).json();
    assert_eq!(failed["state"], "failed");
    let again = format!("{page}/turns/{}/again", failed["turn"].as_str().unwrap());
    browser.submit(&again, "").expect(303);
    let items = daemon.get(&turns).expect(200).json();
    let tasks = items["items"].as_array().unwrap().iter();
    assert!(tasks.map(|turn| &turn["task"]).eq(["An article."; 2]));
    daemon.stop();
}

#[test]
fn a_lead_that_did_not_begin_is_asked_again() {
    let place = broken("", "fail");
    let imported = place.json(&["import", &example()]);
    let page = format!("/sessions/{}", imported["session"].as_str().unwrap());
    let daemon = Daemon::start(&place);
    let turns = format!("/v1{page}/turns");
    let asked = json!({"task": "An article.", "lead": "article", "wait": true});
    let failed = daemon.post(&turns, &asked).json();
    assert_eq!(failed["state"], "failed");
    assert_eq!(failed["lead"], "article");
    let again = format!("{page}/turns/{}/again", failed["turn"].as_str().unwrap());
    Browser::enter(&daemon).submit(&again, "").expect(303);
    let listed = daemon.get(&turns).expect(200).json();
    let leads = listed["items"].as_array().unwrap().iter();
    assert!(leads.map(|turn| &turn["lead"]).eq(["article"; 2]));
    daemon.stop();
}
