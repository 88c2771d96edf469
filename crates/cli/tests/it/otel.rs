//! Traces, sent to a receiver on loopback.

use std::net::TcpListener;

use serde_json::{Value, json};

use unisono_fake_provider::{Act, Answer, FakeProvider, Script};

use crate::interrupted::Scene;
use crate::receiving::Receiving;
use crate::support::{Place, example, kill_if_alive, words};

/// A receiver that answers the first request with 503.
fn receiver() -> Receiving {
    Receiving::start(|number| Act::json(if number == 0 { 503 } else { 200 }, "{}"))
}

/// Takes spans until one of them is called so, and gives them all.
fn spans_until(receiver: &Receiving, name: &str) -> Vec<Value> {
    // It was refused.
    receiver.next();
    let mut spans: Vec<Value> = Vec::new();
    while spans.iter().all(|span| span["name"] != name) {
        let body = receiver.next().json();
        let of = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
        spans.extend(of.as_array().unwrap().clone());
    }
    spans
}

fn attribute<'s>(span: &'s Value, key: &str) -> Option<&'s Value> {
    let mut all = span["attributes"].as_array().unwrap().iter();
    let found = all.find(|attribute| attribute["key"] == key)?;
    found["value"].as_object().unwrap().values().next()
}

#[test]
fn a_turn_is_a_trace_with_its_runs_and_calls() {
    let receiver = receiver();
    let config = format!(
        "[telemetry]\notlp_endpoint = \"{}\"\n[agents.broken]\ndescription = \"Test\"\n\
         kind = \"command\"\ncommand = \"sh\"\n\
         args = [\"-c\", \"echo Tell nobody >&2; exit 1\"]\nretries = 0\n",
        receiver.url
    );
    let place = Place::with_config(&config);
    place.talk();
    let args = [
        "run",
        "talk.json",
        "--task",
        "Tell nobody: when?",
        "--agents",
        "facts,broken",
        "--json",
    ];
    let mut command = place.command(&args);
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-team=ops");
    let done = crate::support::finish(command.spawn().unwrap(), &args).expect(4);
    let report = done.json();
    // It was refused.
    receiver.next();
    let (mut spans, mut service) = (Vec::new(), None);
    while spans.iter().all(|span: &Value| span["parentSpanId"] != "") {
        let request = receiver.next();
        assert_eq!((&*request.method, &*request.path), ("POST", "/v1/traces"));
        assert_eq!(request.header("x-team"), Some("ops"));
        let body = request.json();
        assert!(!body.to_string().contains("Tell nobody"), "a text was sent");
        let of = &body["resourceSpans"][0];
        service = attribute(&of["resource"], "service.name").cloned();
        spans.extend(of["scopeSpans"][0]["spans"].as_array().unwrap().clone());
    }
    assert_eq!(service, Some(json!("unisono")));
    let named = |name: &str| -> Vec<&Value> {
        let found = spans.iter().filter(|span| span["name"] == name);
        found.collect()
    };
    let turn = named("invoke_workflow unisono")[0];
    let id = report["turn"].as_str().unwrap();
    assert_eq!(turn["traceId"], id.replace('-', ""));
    assert_eq!(
        attribute(turn, "gen_ai.conversation.id"),
        Some(&report["session"])
    );
    assert!(spans.iter().all(|span| span["traceId"] == turn["traceId"]));
    for agent in ["facts", "broken"] {
        let run = named(&format!("invoke_agent {agent}"))[0];
        assert_eq!(run["parentSpanId"], turn["spanId"], "{run}");
        assert_eq!(
            attribute(run, "gen_ai.operation.name"),
            Some(&json!("invoke_agent"))
        );
        assert_eq!(attribute(run, "gen_ai.agent.name"), Some(&json!(agent)));
    }
    let broken = named("invoke_agent broken")[0];
    assert_eq!(
        attribute(broken, "error.type"),
        Some(&json!("exit_failure"))
    );
    assert_eq!(broken["status"]["code"], 2);
    let facts = named("invoke_agent facts")[0];
    let calls = spans
        .iter()
        .filter(|span| span["parentSpanId"] == facts["spanId"]);
    let calls: Vec<&Value> = calls.collect();
    assert_eq!(calls.len(), 1, "{spans:#?}");
    assert_eq!(
        attribute(calls[0], "gen_ai.operation.name"),
        Some(&json!("chat"))
    );
    let tokens = attribute(calls[0], "gen_ai.usage.input_tokens").unwrap();
    assert!(tokens.as_str().unwrap().parse::<u64>().unwrap() > 0);
    for span in &spans {
        let time = |key: &str| span[key].as_str().unwrap().parse::<u128>().unwrap();
        assert!(
            time("startTimeUnixNano") <= time("endTimeUnixNano"),
            "{span}"
        );
    }
}

#[test]
fn a_request_for_a_summary_is_a_span_of_its_turn() {
    let receiver = receiver();
    let summary = "We keep the dates. ".repeat(12);
    let script = Script::by(move |_| Act::answer(Answer::text(summary.clone())));
    let provider = FakeProvider::play_on_thread(script);
    let more = format!("[telemetry]\notlp_endpoint = \"{}\"\n", receiver.url);
    let place = Place::with_key_file("openai", &provider, &more);
    place.call(&["import", &example()]).expect(0);
    let by = words("compact latest --yes --summariser openai/gpt-4o");
    place
        .call(&[&by[..], &["--on-failure", "extractive"]].concat())
        .expect(0);
    let spans = spans_until(&receiver, "compact unisono");
    let turn = spans.iter().find(|span| span["name"] == "compact unisono");
    let turn = turn.unwrap();
    let asked: Vec<&Value> = spans
        .iter()
        .filter(|span| span["name"] == "chat gpt-4o")
        .collect();
    assert_eq!(asked.len(), provider.request_count(), "{spans:#?}");
    assert!(!asked.is_empty());
    let mut ids = std::collections::BTreeSet::new();
    for span in asked {
        assert_eq!(span["parentSpanId"], turn["spanId"]);
        assert_eq!(span["traceId"], turn["traceId"]);
        assert_eq!(attribute(span, "unisono.purpose"), Some(&json!("summary")));
        assert_eq!(
            attribute(span, "gen_ai.provider.name"),
            Some(&json!("openai"))
        );
        let used = attribute(span, "gen_ai.usage.output_tokens").unwrap();
        assert!(used.as_str().unwrap().parse::<u64>().unwrap() > 0, "{span}");
        assert!(ids.insert(span["spanId"].to_string()), "an id twice");
    }
}

#[test]
fn a_turn_that_a_restart_cut_is_a_whole_span() {
    let receiver = receiver();
    let scene = Scene::new();
    let config = scene.place.config();
    let telemetry = format!("[telemetry]\notlp_endpoint = \"{}\"\n", receiver.url);
    scene.place.set_config(telemetry + &config);
    let (going, agent) = scene.run(&[]);
    going.kill();
    kill_if_alive(&agent);
    let resumed = scene.resume().expect(0).json();
    let spans = spans_until(&receiver, "invoke_workflow unisono");
    let named = |name: &str| spans.iter().find(|span| span["name"] == name);
    let turn = named("invoke_workflow unisono").unwrap();
    assert_eq!(
        turn["traceId"],
        resumed["turn"].as_str().unwrap().replace('-', "")
    );
    for name in ["invoke_agent waits", "invoke_agent lead"] {
        let run = named(name).unwrap_or_else(|| panic!("no {name}: {spans:#?}"));
        assert_eq!(run["parentSpanId"], turn["spanId"], "{run}");
    }
    // It began before the kill, and the run that was cut with it.
    let time = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u128>().unwrap();
    let waits = named("invoke_agent waits").unwrap();
    let lead = named("invoke_agent lead").unwrap();
    let ms = resumed["runs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|run| run["agent"] == "waits");
    let ms = u128::from(ms.unwrap()["duration_ms"].as_u64().unwrap());
    let lasted = time(waits, "endTimeUnixNano") - time(waits, "startTimeUnixNano");
    assert_eq!(lasted / 1_000_000, ms);
    assert!(time(turn, "startTimeUnixNano") <= time(waits, "startTimeUnixNano"));
    assert!(time(waits, "endTimeUnixNano") <= time(lead, "startTimeUnixNano"));
}

#[test]
fn a_receiver_that_is_away_holds_nothing_up() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let config = format!("[telemetry]\notlp_endpoint = \"http://{free}\"\n");
    let place = Place::with_config(&config);
    place.talk();
    let run = ["run", "talk.json", "--task", "When?", "--agents", ""];
    place.call(&run).expect(0).says(&["spans were not"]);
    place.set_config("[telemetry]\notlp_endpoint = \"localhost\"\n");
    let checked = place.call(&["config", "check"]).expect(2);
    for said in ["unisono.toml:2", "no traces can be sent", "has no scheme"] {
        assert!(checked.stdout.contains(said), "{checked:#?}");
    }
}
