//! Budgets of the real program, asked of a provider with real prices.

use std::time::Duration;

use serde_json::json;
use unisono_context::Cost;
use unisono_context::checkpoint::Writer;
use unisono_fake_provider::{
    Act, Answer, At, Ending, FakeProvider, Gate, Pace, Script, Usage, block_on,
};
use unisono_session::budget::Amount;
use unisono_session::{Event, Fact, State, ids};

use crate::http::Daemon;
use crate::support::{Done, Going, HasAll as _, Place, example};

const MODEL: &str = "openai/gpt-4o";

fn place(provider: &FakeProvider, more: &str) -> Place {
    let own = "attempts = 1\n[compaction]\nsummarisers = [\"extractive\"]\n";
    Place::with_openai(provider, &[own, more].concat())
}

fn answering() -> FakeProvider {
    let used = Usage::new(3_000, 7);
    FakeProvider::play_on_thread(Script::always(Answer::text("All is well.").usage(used)))
}

fn run(place: &Place, more: &[&str]) -> Done {
    let file = example();
    let args = [
        &["run", &file, "--agents", "risks,facts,actions", "--json"],
        more,
    ]
    .concat();
    place.keyed(&args)
}

/// What is spent and reserved after all events.
fn in_use(events: &[Event]) -> (Amount, Amount) {
    let state = State::from_events(events).unwrap();
    let account = state.budget().session();
    (account.spent, account.open + account.kept)
}

#[test]
fn a_budget_of_one_call_at_a_time_is_enough_for_all_of_them() {
    let provider = answering();
    let place = place(&provider, "");
    // A call may cost up to about $0.24, and as much again is kept for a last one.
    let done = run(&place, &["--model", MODEL, "--max-cost", "0.52"]).expect(0);
    let report = done.json();
    assert_eq!(report["state"], "answered");
    assert_eq!(provider.request_count(), 4);
    assert_eq!(
        provider.max_in_flight(),
        1,
        "two did not fit beside each other"
    );
    let (spent, reserved) = in_use(&place.events(report["session"].as_str().unwrap()));
    assert_eq!(reserved, Amount::ZERO);
    // 3,000 tokens at $2.50 and 7 at $10 a million, four times.
    assert_eq!(spent.cost, Cost::from_micro_dollars(4 * 7_570));
    let left = &report["budgets"][0];
    assert_eq!(
        (&left["level"], &left["resource"]),
        (&"turn".into(), &"cost".into())
    );
    assert_eq!(
        (&left["cap"], &left["reserved"]),
        (&0.52.into(), &0.0.into())
    );
    let amount = |name: &str| left[name].as_f64().unwrap();
    assert!((amount("spent") - 0.03028).abs() < 1e-9, "{left}");
    assert!((amount("remaining") - 0.48972).abs() < 1e-9, "{left}");
}

#[test]
fn a_budget_that_allows_no_call_ends_with_its_own_exit_code() {
    let provider = answering();
    let place = place(&provider, "[budget.turn]\nmax_cost_usd = 0.01\n");
    let done = run(&place, &["--model", MODEL]).expect(5);
    let done = done.says(&[
        "budget_exceeded",
        "the turn's budget of $0.01",
        "--max-cost",
    ]);
    let run = &done.json()["runs"][0];
    assert_eq!(run["cause"], "budget_exceeded");
    assert_eq!(provider.request_count(), 0);
    // Its request can be rebuilt, and nobody got it.
    let run = run["run"].as_str().unwrap();
    let why = place.call(&["why", run, "--json"]).expect(0).json();
    assert_eq!(why["requests"][0]["sent"], false, "{why}");
    let shown = place.call(&["why", run]).expect(0).stdout;
    assert!(shown.contains("was not sent"), "{shown}");
    let replayed = place.call(&["replay", "--json"]).expect(0).json();
    let requests = replayed["runs"].as_array().unwrap().iter();
    let mut requests = requests.flat_map(|run| run["requests"].as_array().unwrap());
    assert!(
        requests.all(|request| request["sent"] == false),
        "{replayed}"
    );
    let shown = place.call(&["replay"]).expect(0).stdout;
    assert!(shown.contains("not sent)"), "{shown}");
}

#[test]
fn an_agents_own_cap_and_unknown_prices_are_named() {
    let provider = answering();
    let own = "[agents.risks]\nmax_cost_usd = 0.05\n";
    let done = run(&place(&provider, own), &["--model", MODEL]).expect(5);
    done.stderr.has_all(&["the run's budget of $0.05"]);

    let refused = "[providers.openai-compatible]\nbase_url = \"http://127.0.0.1:9/v1\"\n\
                   api_key_env = \"TEST_KEY\"\n";
    run(
        &place(&provider, refused),
        &["--model", "openai-compatible/qwen3", "--max-cost", "1"],
    )
    .expect(2)
    .says(&[
        "openai-compatible/qwen3",
        "is unknown",
        "budget.turn.max_cost_usd",
    ]);
    for bad in [
        ["--max-cost", "-1"],
        ["--max-tokens", "0"],
        ["--max-cost", "much"],
    ] {
        run(&place(&provider, ""), &bad).expect(2);
    }
}

#[test]
fn what_was_under_way_when_it_was_killed_counts_and_is_not_left_reserved() {
    let gate = Gate::new();
    let provider = FakeProvider::play_on_thread(Script::always(
        Act::from(Answer::text("All is well.")).hold(&gate),
    ));
    let place = place(&provider, "");
    let file = example();
    let args = [
        "run",
        &file,
        "--agents",
        "risks",
        "--model",
        MODEL,
        "--max-cost",
        "2",
        "--json",
    ];
    let going = Going::start(place.keyed_command(&args));
    block_on(provider.wait_for(1));
    going.kill();

    gate.open();
    let report = place.keyed(&["resume", "--json"]).expect(0).json();
    assert_eq!(report["state"], "answered");
    let (spent, reserved) = in_use(&place.events(report["session"].as_str().unwrap()));
    assert_eq!(reserved, Amount::ZERO);
    let (least, most) = (
        Cost::from_micro_dollars(160_000),
        Cost::from_micro_dollars(2_000_000),
    );
    assert!(spent.cost > least && spent.cost <= most, "{spent:?}");
    assert_eq!(provider.request_count(), 3, "one was killed, then two");
}

#[test]
fn what_is_left_of_the_budgets_is_shown() {
    let provider = answering();
    let place = place(
        &provider,
        "[budget.daemon]\nmax_tokens = 1_000_000\n[budget.session]\ntime = \"1h\"\n",
    );
    let done = run(&place, &["--model", MODEL]).expect(0);
    let report = done.json();
    assert_eq!(report["budgets"][0]["level"], "session");
    let usage = place.json(&["usage"]);
    let left = &usage["budgets"][0];
    assert_eq!(
        (&left["level"], &left["resource"]),
        (&"daemon".into(), &"tokens".into())
    );
    let amount = |name: &str| left[name].as_f64().unwrap();
    // Four calls of 3,007 tokens; what the session was lent beyond that is none of its use.
    let stands = ["spent", "reserved", "remaining"].map(amount);
    assert_eq!(stands, [12_028.0, 0.0, 987_972.0], "{left}");
    let shown = place.call(&["sessions", "show"]).expect(0).stdout;
    shown.has_all(&["session: ", "of 3600 s used"]);
}

#[test]
fn what_calls_under_way_have_reserved_is_shown_and_not_what_is_lent() {
    let gate = Gate::new();
    let answer = Act::from(Answer::text("All is well.")).hold(&gate);
    let provider = FakeProvider::play_on_thread(Script::always(answer));
    let config = format!(
        "[models]\ndefault = {MODEL:?}\n[budget.daemon]\nmax_tokens = 1_000_000\n\
         [budget.session]\nmax_tokens = 1_000_000\n"
    );
    let place = place(&provider, &config);
    let serve = place.keyed_command(&["serve", "--bind", "127.0.0.1:0"]);
    let mut serve = Going::start(serve);
    serve.wait_for(&["listening"]);
    let file = example();
    let args = ["run", &file, "--agents", "risks", "--json"];
    let going = Going::start(place.command(&args));
    block_on(provider.wait_for(1));
    let usage = place.json(&["usage"]);
    let session = place.json(&["sessions", "show"]);
    let aside = |of: &serde_json::Value| {
        let bounds = of["budgets"].as_array().unwrap();
        bounds[0]["reserved"].as_f64().unwrap()
    };
    assert!(aside(&usage) > 0.0, "{usage}");
    assert_eq!(aside(&usage), aside(&session), "{usage} {session}");
    gate.open();
    going.finish().expect(0);
    assert_eq!(aside(&place.json(&["usage"])), 0.0);
    serve.signal("TERM");
    serve.finish().expect(0);
}

#[test]
fn a_cancelled_run_has_the_amount_that_budgets_count_for_its_interrupted_call() {
    let gate = Gate::new();
    let answer = Act::from(Answer::text("All is well.")).hold(&gate);
    let provider = FakeProvider::play_on_thread(Script::always(answer));
    let config =
        format!("[models]\ndefault = {MODEL:?}\n[budget.session]\nmax_tokens = 1_000_000\n");
    let place = place(&provider, &config);
    let daemon = Daemon::keyed(&place);
    let id = daemon.session(&json!({}));
    let session = format!("/v1/sessions/{id}");
    let task = json!({"task": "Well?", "agents": [], "wait": false});
    let accepted = daemon.post(&format!("{session}/turns"), &task).expect(202);
    let turn = accepted.header("location").unwrap().to_owned();
    block_on(provider.wait_for(1));
    let open = daemon.get(&turn).expect(200).json();
    assert_eq!(open["runs"][0].get("charged"), None, "{open}");
    let cancel = format!("{turn}/cancel");
    let ended = daemon.request("POST", &cancel, None).expect(200).json();
    let run = &ended["runs"][0];
    assert_eq!(run["state"], "cancelled", "{run}");
    assert_eq!(run["usage"]["input_tokens"], 0, "{run}");
    let charged = run["charged"]["tokens"].as_f64().unwrap();
    let budget = &daemon.get(&session).expect(200).json()["budgets"][0];
    assert_eq!(budget["spent"].as_f64(), Some(charged), "{budget} {run}");
    assert!(charged > 0.0, "{run}");
    gate.open();
    daemon.stop();
}

#[test]
fn each_turn_and_run_has_its_budgets_also_after_its_end() {
    let gate = Gate::new();
    let used = Usage::new(3_000, 7);
    let answer = Act::from(Answer::text("All is well.").usage(used)).hold(&gate);
    let provider = FakeProvider::play_on_thread(Script::always(answer));
    let config = format!(
        "[models]\ndefault = {MODEL:?}\n[budget.turn]\nmax_tokens = 500_000\n\
         [budget.run]\nmax_tokens = 400_000\n"
    );
    let place = place(&provider, &config);
    let daemon = Daemon::keyed(&place);
    let messages = json!([{"role": "user", "content": "One."}]);
    let new = json!({"title": "Two", "messages": messages});
    let id = daemon.session(&new);
    let session = format!("/v1/sessions/{id}");
    let branch = json!({"name": "other", "at": "#1"});
    daemon
        .post(&format!("{session}/branches"), &branch)
        .expect(201);
    let turns = ["main", "other"].map(|branch| {
        let task = json!({"task": "Well?", "agents": [], "branch": branch, "wait": false});
        let accepted = daemon.post(&format!("{session}/turns"), &task).expect(202);
        accepted.header("location").unwrap().to_owned()
    });
    block_on(provider.wait_for(2));
    // Both open turns are told apart in the session.
    let open = daemon.get(&session).expect(200).json();
    let of_turns = open["budgets"].as_array().unwrap().iter();
    let of_turns: Vec<&str> = of_turns
        .filter_map(|budget| budget["turn"].as_str())
        .collect();
    let ids = turns
        .each_ref()
        .map(|turn| turn.rsplit('/').next().unwrap());
    assert_eq!(of_turns, ids, "{open}");
    for turn in &turns {
        let open = daemon.get(turn).expect(200).json();
        for (of, level, cap) in [
            (&open, "turn", 500_000.0),
            (&open["runs"][0], "run", 400_000.0),
        ] {
            let budget = &of["budgets"][0];
            assert_eq!(
                (&budget["level"], budget["cap"].as_f64()),
                (&level.into(), Some(cap)),
                "{open}"
            );
            assert!(budget["reserved"].as_f64() > Some(0.0), "{open}");
        }
    }
    gate.open();
    for turn in &turns {
        daemon.get(&format!("{turn}/events")).expect(200).text();
        let ended = daemon.get(turn).expect(200).json();
        for of in [&ended, &ended["runs"][0]] {
            let amount = |name: &str| of["budgets"][0][name].as_f64();
            assert_eq!(amount("spent"), Some(3_007.0), "{ended}");
            assert_eq!(amount("reserved"), Some(0.0), "{ended}");
        }
        let run = ended["runs"][0]["run"].as_str().unwrap();
        let run = daemon.json(&format!("{session}/runs/{run}"));
        assert_eq!(run["budgets"], ended["runs"][0]["budgets"]);
        let page = daemon.text(turn.strip_prefix("/v1").unwrap());
        assert!(page.contains("496,993 of 500,000 left"), "{page}");
    }
    let listed = daemon.get(&format!("{session}/turns")).expect(200).json();
    assert_eq!(listed["items"][0].get("budgets"), None, "{listed}");
    daemon.stop();
}

#[test]
fn runs_at_work_are_bounded_in_a_session_and_in_a_turn() {
    for level in ["session", "turn"] {
        let answer = Act::answer(Answer::text("All is well.")).pace(Pace {
            first: Duration::from_millis(30),
            tokens_per_second: 4_000,
        });
        let provider = FakeProvider::play_on_thread(Script::always(answer));
        let place = place(&provider, &format!("[budget.{level}]\nlive_runs = 1\n"));
        run(&place, &["--model", MODEL]).expect(0);
        assert_eq!(
            (provider.request_count(), provider.max_in_flight()),
            (4, 1),
            "{level}"
        );
    }
}

#[test]
fn a_summary_for_which_nothing_is_left_is_not_asked_for() {
    let talk: String = (0..80)
        .map(|n| {
            let role = if n % 2 == 0 { "user" } else { "assistant" };
            let said = format!("Part {n} is due on day {n}, because its supplier closes for good.");
            format!("{{\"role\":\"{role}\",\"content\":\"{said}\"}}\n")
        })
        .collect();
    for (most, requests) in [("900", 0), ("200000", 2)] {
        let provider = FakeProvider::play_on_thread(Script::always(Answer::text(
            "## Context\n- Parts have days.\n",
        )));
        let more = format!(
            "attempts = 1\n[models]\ndefault = \"{MODEL}\"\n[turn]\nagents = []\n\
             [compaction]\ntrigger_tokens = 800\nsummarisers = [\"openai/gpt-4o-mini\"]\n"
        );
        let place = Place::with_openai(&provider, &more);
        place.write("talk.jsonl", &talk);
        let done = place.keyed(&["run", "talk.jsonl", "--max-tokens", most, "--json"]);
        assert_eq!(provider.request_count(), requests, "{done:#?}");
        let report = done.json();
        let events = place.events(report["session"].as_str().unwrap());
        let (_, reserved) = in_use(&events);
        assert_eq!(reserved, Amount::ZERO);
        let wrote = events.iter().find_map(|event| match &event.fact {
            Fact::Compacted { checkpoint, .. } => Some(checkpoint.writer),
            _ => None,
        });
        let by_model = requests > 0;
        assert_eq!(wrote == Some(Writer::Model), by_model, "{wrote:?}");
        let turn = events.iter().find_map(|event| match &event.fact {
            Fact::TurnAccepted { turn } => Some(turn.id),
            _ => None,
        });
        let summaries = ids::summaries(turn.unwrap());
        let reserved = events
            .iter()
            .any(|event| matches!(event.fact, Fact::Reserved { run, .. } if run == summaries));
        assert_eq!(reserved, by_model);
    }
}

#[test]
fn a_request_to_a_daemon_may_lower_the_budget_of_its_turn() {
    let place = Place::with_config("[budget.turn]\nmax_tokens = 500\n[turn]\nagents = []\n");
    place.write(
        "talk.json",
        r#"[{"role":"user","content":"We ship on Friday."}]"#,
    );
    let session = place.json(&["import", "talk.json"])["session"].clone();
    let daemon = crate::http::Daemon::start(&place);
    for most in ["100", "9000000"] {
        let args = [
            "run",
            "--session",
            "latest",
            "--task",
            "When?",
            "--max-tokens",
            most,
            "--json",
        ];
        // Both are too small for the lead's call.
        place.call(&args).expect(5);
    }
    daemon.stop();
    let events = place.events(session.as_str().unwrap());
    let caps = events.iter().filter_map(|event| match &event.fact {
        Fact::TurnAccepted { turn } => turn.caps.turn.tokens,
        _ => None,
    });
    // It may not raise it.
    assert_eq!(caps.map(|tokens| tokens.0).collect::<Vec<_>>(), [100, 500]);
}

#[test]
fn replies_that_break_off_again_and_again_stay_within_the_cap() {
    let pieces = Answer::pieces(["All ", "is ", "well."]);
    let broken = Act::answer(pieces).end_at(At::Event(3), Ending::Reset);
    let provider = FakeProvider::play_on_thread(Script::always(broken));
    let more = format!(
        "attempts = 6\n[models]\ndefault = \"{MODEL}\"\ncatalogue = \"models.toml\"\n\
         [turn]\nagents = []\n[compaction]\nsummarisers = [\"extractive\"]\n\
         [agents.reader]\ndescription = \"reads\"\nretries = 9\n"
    );
    let place = Place::with_openai(&provider, &more);
    place.write(
        "models.toml",
        "[models.\"openai/gpt-4o\"]\nmax_output = 400\n",
    );
    let said = "The supplier of part nine closes for good. ".repeat(400);
    let asked = serde_json::json!([{"role": "user", "content": said}]);
    place.write("asked.json", asked.to_string());
    let file = place.path("asked.json").to_string_lossy().into_owned();
    let cap = 12_000;
    let most = cap.to_string();
    let done = place.keyed(&[
        "run",
        &file,
        "--lead",
        "reader",
        "--max-tokens",
        &most,
        "--json",
    ]);
    let report = done.json();
    assert_ne!(report["state"], "answered", "{report:#}");
    let (spent, reserved) = in_use(&place.events(report["session"].as_str().unwrap()));
    assert_eq!(reserved, Amount::ZERO);
    let requests = provider.request_count();
    assert!((2..6).contains(&requests), "each is reserved: {requests}");
    assert!(spent.tokens.0 > 4_000 && spent.tokens.0 <= cap, "{spent:?}");
}
