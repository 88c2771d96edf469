//! Servers of one's own: what they say of their models counts, and how they cache is minded.

use serde_json::json;
use unisono_fake_provider::{Act, Answer, FakeProvider, Script};

use crate::http::Daemon;
use crate::support::{Done, HasAll as _, Place, example};

/// A server with such documents, and a place whose agents ask it.
fn place(documents: &[(&str, &str)]) -> (Place, FakeProvider) {
    let mut server =
        FakeProvider::builder().script(Script::always(Act::answer(Answer::text("On Friday."))));
    for (path, document) in documents {
        server = server.page(path, *document);
    }
    let server = server.start_on_thread();
    let place = Place::with_config(&format!(
        "[models]\ndefault = \"mine/qwen\"\n[compaction]\nsummarisers = [\"extractive\"]\n\
         [providers.mine]\nlike = \"openai-compatible\"\nbase_url = \"{}/v1\"\n",
        server.url()
    ));
    (place, server)
}

fn run(place: &Place) -> Done {
    place.call(&[
        "run",
        &example(),
        "--agents",
        "risks,facts,actions",
        "--json",
    ])
}

const UNKNOWN: &str = "is not in the catalogue";

#[test]
fn a_window_that_the_server_tells_counts_and_needs_no_entry() {
    let listed = r#"{"data": [{"id": "qwen", "max_model_len": 24000}]}"#;
    let (place, server) = place(&[("/v1/models", listed)]);
    let done = run(&place).expect(0);
    assert!(!done.stderr.contains(UNKNOWN), "{}", done.stderr);
    let usable = done.json()["usable_tokens"].as_u64().unwrap();
    assert!((10_000..24_000).contains(&usable), "{usable}");
    assert_eq!(server.request_count(), 4, "who looks is no request");
    let models = place.call(&["models", "qwen", "--json"]).expect(0).json();
    assert_eq!(models[0]["reported_window_tokens"], 24_000, "{models}");
}

#[test]
fn the_window_that_ollama_sets_or_has_loaded_counts() {
    let set = r#"{"parameters": "num_ctx 24000"}"#;
    let loaded = r#"{"models": [{"name": "qwen:latest", "context_length": 24000}]}"#;
    for page in [("/api/show", set), ("/api/ps", loaded)] {
        let (place, server) = place(&[page]);
        let done = run(&place).expect(0);
        assert!(!done.stderr.contains(UNKNOWN), "{page:?}: {}", done.stderr);
        let usable = done.json()["usable_tokens"].as_u64().unwrap();
        assert!((10_000..24_000).contains(&usable), "{page:?}: {usable}");
        assert_eq!(server.request_count(), 4, "{page:?}");
    }
}

#[test]
fn a_window_of_another_model_does_not_count() {
    let listed = r#"{"data": [{"id": "qwen-32b", "max_model_len": 24000}]}"#;
    let (place, _server) = place(&[("/v1/models", listed)]);
    // Agents that do not work in the turn.
    for (name, model) in [("one", "one"), ("two", "two"), ("another", "two")] {
        let agent = format!("---\ndescription: Test\nmodel: mine/{model}\n---\nAnswer.\n");
        place.write(&format!("agents/{name}.md"), agent);
    }
    let args = ["run", &example(), "--agents", "", "--json"];
    let done = place.call(&args).expect(0);
    let assumed = "model `mine/qwen` is not in the catalogue: 128000 tokens";
    assert_eq!(done.stderr.matches(UNKNOWN).count(), 1, "{}", done.stderr);
    assert!(done.stderr.contains(assumed), "{}", done.stderr);
    let usable = done.json()["usable_tokens"].as_u64().unwrap();
    assert!(usable > 64_000, "{usable}");
    let checked = place.call(&["config", "check"]).expect(0);
    assert!(checked.stdout.contains(assumed), "{}", checked.stdout);
    // Each model once, with the lines to paste.
    for model in ["qwen", "one", "two"] {
        let unknown = format!("model `mine/{model}` is not in the catalogue");
        let lines = format!("[models.\"mine/{model}\"]\nwindow = 128000\nmax_output = ");
        for once in [&unknown, &lines] {
            let count = checked.stdout.matches(once.as_str()).count();
            assert_eq!(count, 1, "{once}: {}", checked.stdout);
        }
    }
}

#[test]
fn a_server_that_says_nothing_is_warned_of_once_with_what_to_write() {
    let (place, _server) = place(&[]);
    let done = run(&place).expect(0);
    let said = done.stderr.matches(UNKNOWN).count();
    assert_eq!(said, 1, "{}", done.stderr);
    done.stderr
        .has_all(&["[models.\"mine/qwen\"]\nwindow = 128"]);
    for quiet in [
        &["sessions", "list"][..],
        &["config", "show"],
        &["agents", "list"],
    ] {
        let done = place.call(quiet).expect(0);
        assert!(!done.stderr.contains(UNKNOWN), "{quiet:?}: {}", done.stderr);
    }
    let lines = "[models.\"mine/qwen\"]\nwindow = 64_000\nmax_output = 4_000\n";
    place.set_catalogue(lines);
    let done = run(&place).expect(0);
    assert!(!done.stderr.contains(UNKNOWN), "{}", done.stderr);
}

#[test]
fn a_daemon_tells_of_a_model_without_an_entry_with_the_turn() {
    let (place, _server) = place(&[]);
    let daemon = Daemon::start(&place);
    let (file, team) = (example(), ["--agents", "", "--model", "mine/m9"]);
    let run = [&["run", &file][..], &team].concat();
    let chat = [&["chat", "latest"][..], &team].concat();
    for (input, args) in [("", run), ("When?\nWhy?\n", chat)] {
        let done = place.call_with(input, &args).expect(0);
        for once in ["model `mine/m9` is not in", "[models.\"mine/m9\"]\nwindow"] {
            let said = done.stderr.matches(once).count();
            assert_eq!(said, 1, "{args:?}: {}", done.stderr);
        }
    }
    daemon.stop();
}

#[test]
fn slots_of_llama_cpp_are_not_filled_with_one_prefix() {
    let props = r#"{"total_slots": 4, "default_generation_settings": {"n_ctx": 65536}}"#;
    let (place, server) = place(&[("/props", props)]);
    let done = run(&place).expect(0);
    assert!(!done.stderr.contains(UNKNOWN), "{}", done.stderr);
    assert_eq!(server.max_in_flight(), 1);
    // An agent can say that it wants none of that.
    let off = "[agents.lead]\ncache_warm = \"off\"\n";
    let config = place.config();
    place.set_config(format!("{config}{off}"));
    run(&place).expect(0);
}

#[test]
fn a_window_that_is_written_wins_and_slots_are_asked_for_all_the_same() {
    let props = r#"{"total_slots": 4, "default_generation_settings": {"n_ctx": 24000}}"#;
    for (lines, window) in [
        ("window = 64_000\n", 64_000),
        ("price = { input = 1.0, output = 1.0 }\n", 24_000),
    ] {
        let (place, server) = place(&[("/props", props)]);
        place.set_catalogue(&format!("[models.\"mine/qwen\"]\n{lines}"));
        let done = run(&place).expect(0);
        assert!(!done.stderr.contains(UNKNOWN), "{}", done.stderr);
        assert_eq!(server.max_in_flight(), 1, "{lines}");
        let usable = done.json()["usable_tokens"].as_u64().unwrap();
        assert!((window / 3..window).contains(&usable), "{usable}");
    }
    let (place, _server) = place(&[]);
    place.set_catalogue("[models.\"mine/qwen\"]\nprice = { input = 1.0, output = 1.0 }\n");
    let done = run(&place).expect(0);
    assert!(done.stderr.contains(UNKNOWN), "{}", done.stderr);
    done.stderr.has_none(&["its price is not known"]);
}

#[test]
fn an_entry_without_room_for_a_question_is_refused_with_both_numbers() {
    let (place, _server) = place(&[]);
    place.set_catalogue("[models.\"mine/qwen\"]\nwindow = 8_192\nmax_output = 8_192\n");
    let done = place.call(&["config", "check"]);
    assert_ne!(done.code, Some(0));
    let said = "a window of 8192 tokens and max_output = 8192";
    assert!(
        done.stderr.contains(said) || done.stdout.contains(said),
        "{done:?}"
    );
}

#[test]
fn a_model_that_goes_is_told_of_where_it_is_asked() {
    let (place, _server) = place(&[]);
    // Long ago and never: no test depends on today.
    let lines = "[models.\"mine/qwen\"]\nwindow = 64_000\nretires = \"2020-01-01\"\n\
                 successor = \"mine/qwen-next\"\n[models.\"mine/qwen-next\"]\nwindow = 64_000\n\
                 retires = \"9999-01-01\"\n";
    place.set_catalogue(lines);
    let said = "model `mine/qwen` was retired on 2020-01-01; use `mine/qwen-next` in its place";
    for args in [
        &["run", &example(), "--agents", ""][..],
        &["models", "qwen"],
        &["doctor"],
    ] {
        let done = place.call(args);
        assert_eq!(
            done.stderr.matches(said).count(),
            1,
            "{args:?}: {}",
            done.stderr
        );
    }
    let done = place.call(&["sessions", "list"]).expect(0);
    assert!(!done.stderr.contains("retired"), "{}", done.stderr);
    let next = [
        "run",
        &example(),
        "--agents",
        "",
        "--model",
        "mine/qwen-next",
    ];
    let done = place.call(&next).expect(0);
    assert!(!done.stderr.contains("retire"), "{}", done.stderr);
    let models = place
        .call(&["models", "mine/qwen", "--json"])
        .expect(0)
        .json();
    assert_eq!(models[0]["retires"], "2020-01-01");
    assert_eq!(models[0]["successor"], "mine/qwen-next");
    assert_eq!(models[0]["usable"], false);
    let why = models[0]["unavailable_reason"].as_str().unwrap();
    assert!(why.contains("retired on 2020-01-01"), "{why}");
    let usable = place.json(&["models", "mine/qwen", "--usable"]);
    assert_eq!(usable.as_array().unwrap().len(), 1);
    assert_eq!(usable[0]["model"], "mine/qwen-next");
    let daemon = Daemon::start(&place);
    let models = daemon.get("/v1/models").expect(200).json();
    let notice = |name: &str| {
        let mut models = models.as_array().unwrap().iter();
        let model = models.find(|model| model["model"] == name).unwrap();
        model["notice"].clone()
    };
    assert_eq!(notice("mine/qwen"), said);
    assert!(notice("mine/qwen-next").is_null());
    let session = daemon.post("/v1/sessions", &json!({})).expect(201).json();
    let turns = format!(
        "/v1/sessions/{}/turns",
        session["session"].as_str().unwrap()
    );
    for wait in [false, true] {
        let asked = json!({"task": "When?", "agents": [], "wait": wait});
        let turn = daemon.post(&turns, &asked).json();
        assert_eq!(turn["notices"], json!([said]), "{turn}");
    }
    let asked =
        json!({"task": "When?", "agents": [], "settings": {"models.override": "mine/qwen-next"}});
    let turn = daemon.post(&turns, &asked).json();
    assert!(turn["notices"].is_null(), "{turn}");
    daemon.stop();
}
