//! Language models: a provider that speaks the real wire formats on loopback, asked by the real
//! program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use unisono_fake_provider::tools::LOG;
use unisono_fake_provider::{
    Act, Answer, At, CacheSettings, CacheSim, Ending, FakeProvider, Refusal, Script, Usage,
    block_on,
};

use crate::support::{HasAll as _, KEY, Place, example, words};

/// A place whose provider of that kind is the fake one. Only agents ask it.
pub(crate) fn place(kind: &str, provider: &FakeProvider) -> Place {
    let more = "attempts = 1\n[compaction]\nsummarisers = [\"extractive\"]\n";
    Place::with_provider(kind, provider, more)
}

pub(crate) fn run<'a>(file: &'a str, model: &'a str) -> Vec<&'a str> {
    vec![
        "run",
        file,
        "--compact-above",
        "8k",
        "--model",
        model,
        "--agents",
        "risks,facts,decisions",
    ]
}

/// The bytes that all requests begin with.
pub(crate) fn shared(requests: &[unisono_fake_provider::Recorded]) -> usize {
    let first = &requests[0].body;
    let common = |other: &[u8]| first.iter().zip(other).take_while(|(a, b)| a == b).count();
    requests.iter().map(|r| common(&r.body)).min().unwrap()
}

/// A provider of each dialect, and a model of it.
pub(crate) const MODELS: [(&str, &str); 4] = [
    ("openai", "openai/gpt-4o"),
    ("openai", "openai/gpt-5-mini"),
    ("anthropic", "anthropic/claude-sonnet-4-5"),
    ("gemini", "gemini/gemini-2.5-flash"),
];

#[test]
fn every_dialect_carries_a_whole_turn_on_one_shared_prefix() {
    let file = example();
    let compatible = ("openai-compatible", "openai-compatible/qwen3");
    for (kind, model) in MODELS.into_iter().chain([compatible]) {
        let answer = Answer::text("The migration stands well.").in_pieces_of(5);
        let used = Usage::new(3_000, 7);
        let provider = FakeProvider::play_on_thread(Script::always(answer.usage(used)));
        let place = place(kind, &provider);
        let done = place.keyed(&run(&file, model)).expect(0);
        let done = done.says(&[
            "identical for 4 agents",
            "risks      done",
            "lead       done",
        ]);
        assert_eq!(done.stdout.trim(), "The migration stands well.", "{model}");
        let requests = block_on(provider.wait_for(4));
        assert_eq!(requests.len(), 4, "{model}");
        let shared = shared(&requests);
        let least = requests.iter().map(|r| r.body.len()).min().unwrap();
        assert!(
            shared > 4_000 && shared * 2 > least,
            "{model}: {shared} of {least}"
        );
        for request in &requests {
            assert!(request.complete && request.json().is_object(), "{model}");
        }
        let usage = place.keyed(&["usage", "--json"]).expect(0).json();
        assert_eq!(usage["total"]["input_tokens"], 12_000, "{model}: {usage}");
        assert_eq!(usage["rows"][0]["model"], model);
    }
}

#[test]
fn a_lead_and_its_delegates_read_the_snapshot_from_the_cache() {
    let cache = CacheSim::new(CacheSettings::default());
    let provider = FakeProvider::builder()
        .script(Script::always(Answer::text("All is well.")))
        .cache(&cache)
        .start_on_thread();
    let place = place("anthropic", &provider);
    let file = example();
    let args = [&run(&file, "anthropic/claude-sonnet-4-5")[..], &["--json"]].concat();
    let report = place.keyed(&args).expect(0).json();
    let read: Vec<u64> = report["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["cache_read_tokens"].as_u64().unwrap())
        .collect();
    assert_eq!(
        read.iter().filter(|read| **read == 0).count(),
        1,
        "{report:#}"
    );
    assert!(report["cost_usd"].as_f64().unwrap() > 0.0, "{report:#}");
    assert!(!cache.uses().is_empty());
}

#[test]
fn a_wrong_key_names_the_provider_and_where_the_key_came_from() {
    let provider = FakeProvider::play_on_thread(Script::always(Act::refuse(Refusal::Unauthorised)));
    let place = place("openai", &provider);
    let done = place.keyed(&run(&example(), "openai/gpt-4o")).expect(1);
    let done = done.says(&["provider_rejected", "openai", "TEST_KEY"]);
    assert!(!done.stderr.contains(KEY) && !done.stdout.contains(KEY));
}

#[test]
fn an_unknown_model_is_answered_with_those_like_it() {
    let provider = FakeProvider::play_on_thread(Script::always(Act::refuse(
        Refusal::UnknownModel("gpt-4o-mni".into()),
    )));
    let place = place("openai", &provider);
    place
        .keyed(&run(&example(), "openai/gpt-4o-mni"))
        .expect(1)
        .says(&["openai/gpt-4o-mini"]);
}

#[test]
fn an_empty_answer_is_asked_for_again_and_named_if_it_stays_empty() {
    let file = example();
    let lead_alone = [
        &run(&file, "openai/gpt-4o")[..6],
        &["--agents", "", "--json"],
    ]
    .concat();
    let empty = || Act::answer(Answer::text(""));
    let once = Script::sequence([empty()]).then(Act::answer(Answer::text("All is well.")));
    let provider = FakeProvider::play_on_thread(once);
    let done = place("openai", &provider).keyed(&lead_alone).expect(0);
    assert_eq!(done.json()["answer"], "All is well.", "{done:#?}");
    assert_eq!(provider.request_count(), 2);

    let provider = FakeProvider::play_on_thread(Script::always(empty()));
    let done = place("openai", &provider).keyed(&lead_alone).expect(1);
    let done = done.says(&["model openai/gpt-4o replied with nothing"]);
    let report = done.json();
    assert_eq!(report["state"], "failed", "{report}");
    assert_eq!(report["runs"][0]["cause"], "bad_output", "{report}");
    assert_eq!(provider.request_count(), 3);
}

#[test]
fn a_model_without_a_key_is_refused_before_anything_is_done() {
    let place = Place::new();
    place
        .call(&run(&example(), "anthropic/claude-sonnet-4-5"))
        .expect(2)
        .says(&[
            "anthropic/claude-sonnet-4-5",
            "ANTHROPIC_API_KEY",
            "--model extractive",
        ]);
    assert!(!place.path("data").exists(), "no store was made");
}

/// Every file below a directory.
fn files(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn the_key_is_sent_and_found_nowhere_else() {
    let answers = Script::sequence([Act::refuse(Refusal::Unauthorised)]);
    let answers = answers.then(Act::answer(Answer::text("Done.")));
    let provider = FakeProvider::play_on_thread(answers);
    let place = place("openai", &provider);
    let file = example();
    let run = [&run(&file, "openai/gpt-4o")[..], &["--json"]].concat();
    let mut command = place.keyed_command(&run);
    command.env("UNISONO_LOG", "trace");
    let done = crate::support::finish(command.spawn().unwrap(), &run);
    let requests = provider.requests();
    assert!(!requests.is_empty());
    for request in &requests {
        let sent = request.header("authorization").unwrap();
        assert_eq!(sent, format!("Bearer {KEY}"));
        assert!(!String::from_utf8_lossy(&request.body).contains(KEY));
    }
    let mut said = format!("{}{}", done.stdout, done.stderr);
    for args in [
        &["export", "--all", "archive"][..],
        &["doctor"],
        &["models"],
        &["config", "show"],
        &["usage"],
        &["export", "latest", "talk.jsonl"],
    ] {
        let done = place.keyed(args);
        said.push_str(&done.stdout);
        said.push_str(&done.stderr);
    }
    assert!(!said.contains(KEY), "the key was shown");
    let mut all = Vec::new();
    files(&place.path("."), &mut all);
    assert!(all.len() > 3, "{all:?}");
    for file in all {
        let bytes = fs::read(&file).unwrap_or_default();
        let found = bytes
            .windows(KEY.len())
            .any(|window| window == KEY.as_bytes());
        assert!(!found, "{} holds the key", file.display());
    }
}

#[test]
fn doctor_and_models_say_what_can_be_asked() {
    let provider = FakeProvider::builder().start_on_thread();
    let place = place("openai", &provider);
    place.call(&["import", &example()]).expect(0);
    let report = place.keyed(&["doctor", "--json"]).expect(0).json();
    let of = |name: &str| {
        let all = report["providers"].as_array().unwrap();
        all.iter().find(|p| p["provider"] == name).unwrap().clone()
    };
    assert_eq!(of("openai")["usable"], true);
    assert_eq!(of("openai")["key"], "the variable TEST_KEY");
    assert_eq!(of("gemini")["usable"], false);
    assert!(
        of("gemini")["unavailable_reason"]
            .as_str()
            .unwrap()
            .contains("GEMINI_API_KEY")
    );
    let models = place.keyed_json(&["models", "gpt-4o", "--json"]);
    assert_eq!(models[0]["usable"], true, "{models}");
    let usable = place.keyed_json(&["models", "--usable", "--json"]);
    let other = |model: &serde_json::Value| {
        let name = model["model"].as_str().unwrap();
        !name.starts_with("openai/") && name != "extractive"
    };
    assert!(!usable.as_array().unwrap().iter().any(other), "{usable}");
    assert_eq!(provider.request_count(), 0, "nobody was asked");
}

#[test]
fn doctor_says_what_a_deployment_lacks() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let open = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let tools = format!(
        "[mcp.here]\nurl = \"http://{}/mcp\"\nstart_timeout = \"1s\"\n\
         [mcp.gone]\nurl = \"http://{closed}/mcp\"\n\
         [mcp.shell]\ncommand = \"sh\"\nstart_timeout = \"1s\"\n[mcp.typo]\ncommand = \"no-such-program\"\n\
         [server]\nbind = \"{}\"\n[telemetry]\notlp_endpoint = \"http://{closed}\"\n",
        open.local_addr().unwrap(),
        open.local_addr().unwrap(),
    );
    let exe = std::env::current_exe().unwrap();
    let works = format!(
        "{tools}[mcp.works]\ncommand = {exe:?}\n\
         args = [\"tools::tool_server\", \"--exact\", \"--nocapture\"]\n\
         [mcp.works.env]\n{LOG} = \"/dev/null\"\n"
    );
    let place = Place::with_config(&works);
    let token = place.path("settings/unisono/token");
    fs::create_dir_all(token.parent().unwrap()).unwrap();
    fs::write(&token, "x".repeat(64)).unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
    place.call(&["import", &example()]).expect(0);
    let report = place.call(&["doctor", "--json"]).expect(1).json();
    let found = |what: &str| {
        let all = report["deployment"].as_array().unwrap().iter();
        let found = all.clone().find(|check| check["name"] == what);
        let found = found.unwrap_or_else(|| panic!("{what}: {report}"));
        (
            found["good"] == true,
            found["message"].as_str().unwrap().to_owned(),
        )
    };
    for (what, good, says) in [
        ("token", false, "chmod 600"),
        ("address", true, "something else listens there"),
        ("disk", true, "GiB free"),
        ("tools of works", true, "answers, and offers"),
        ("tools of here", false, "did not answer within 1.0 s"),
        ("tools of gone", false, "did not complete the handshake"),
        ("tools of shell", false, ""),
        ("tools of typo", false, "no-such-program"),
        ("traces", false, "cannot be reached"),
    ] {
        let found = found(what);
        assert!(
            found.0 == good && found.1.contains(says),
            "{what}: {found:?}"
        );
    }

    let place = Place::with_config("[server]\nbind = \"127.0.0.1:0\"\n");
    place.call(&["import", &example()]).expect(0);
    let said = place.call(&["doctor"]).expect(0);
    said.stdout.has_all(&["will be made at the first start"]);
    assert!(said.stdout.contains("from this machine"), "{said:#?}");
}

#[test]
fn a_key_in_the_environment_makes_its_provider_the_default() {
    let place = Place::new();
    let mut command = place.command(&["models", "--usable", "--json"]);
    command.env("OPENAI_API_KEY", KEY);
    let args = ["models"];
    let models = crate::support::finish(command.spawn().unwrap(), &args)
        .expect(0)
        .json();
    let default: Vec<_> = models
        .as_array()
        .unwrap()
        .iter()
        .filter(|model| model["default"] == true)
        .collect();
    assert_eq!(default.len(), 1, "{models}");
    assert_eq!(default[0]["model"], "openai/gpt-6.1-terra");
}

#[test]
fn what_replies_report_is_learnt_and_kept() {
    let used = Usage::new(5_000, 7);
    let provider = FakeProvider::play_on_thread(Script::always(Answer::text("Well.").usage(used)));
    let place = place("anthropic", &provider);
    let model = "anthropic/claude-sonnet-4-5";
    place.keyed(&run(&example(), model)).expect(0);
    let args = ["models", "claude-sonnet-4-5", "--json"];
    let learnt = place.keyed(&args).expect(0).json();
    let known = &learnt[0]["calibration"];
    assert_eq!(known["replies"], 4, "{learnt}");
    assert!(known["ratio"].as_f64().unwrap() > 1.0, "{learnt}");
    // The next turn's budget goes by it, and who looks is shown that.
    let default = format!("models.default={model}");
    let context = ["context", "latest", "--set", &default, "--json"];
    let shown = place.keyed(&context).expect(0).json();
    let again = ["run", "--session", "latest", "--task", "And now?"];
    let again = [&again[..], &["--model", model, "--json"]].concat();
    let report = place.keyed(&again).expect(0).json();
    assert_eq!(report["usable_tokens"], shown["usable_tokens"], "{shown}");
    let usable = shown["usable_tokens"].as_u64().unwrap();
    let ratio = known["ratio"].as_f64().unwrap();
    let window = shown["window_tokens"].as_u64().unwrap();
    assert!((usable as f64) < window as f64 / ratio, "{shown}");
    let session = place.keyed_json(&["sessions", "list", "--json"]);
    let session = session[0]["session"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let accepted = place
        .events(&session)
        .into_iter()
        .filter_map(|event| match event.fact {
            unisono_session::Fact::TurnAccepted { turn } => Some(turn.calibrations),
            _ => None,
        });
    let bands: Vec<u32> = accepted.map(|known| known[0].band.0).collect();
    assert_eq!(bands.len(), 2);
    assert!(bands[0] == 200_000 && bands[1] != bands[0], "{bands:?}");
}

#[test]
fn the_provider_counts_the_context_when_it_is_asked() {
    let provider = FakeProvider::builder().start_on_thread();
    let place = place("anthropic", &provider);
    place.call(&["import", &example()]).expect(0);
    let model = "models.default=anthropic/claude-sonnet-4-5";
    let args = ["context", "latest", "--exact", "--json", "--set", model];
    let counted = place.keyed(&args).expect(0).json();
    assert!(
        counted["exact_tokens"].as_u64().unwrap() > 0,
        "{}",
        counted["exact_tokens"]
    );
    let requests = provider.requests();
    assert_eq!(requests.len(), 1);
    assert!(
        requests[0].path.ends_with("/count_tokens"),
        "{}",
        requests[0].path
    );
    assert!(requests[0].body.len() > 10_000);
    let offline = words("context latest --exact --set models.default=extractive");
    place
        .keyed(&offline)
        .expect(0)
        .says(&["cannot count the tokens"]);
}

#[test]
fn a_provider_is_asked_for_its_count_where_the_estimate_is_not_enough() {
    // The example has some 16,700 tokens by the estimate, and 20 % may be missing.
    let rows = [
        ("it fits", Some(12_000), 0),
        ("it does not", Some(21_000), 1),
        ("nobody counts", None, 1),
    ];
    for (name, counted, checkpoints) in rows {
        let counts = match counted {
            Some(tokens) => Act::answer(Answer::text("").usage(Usage {
                input: tokens,
                ..Usage::default()
            })),
            None => Act::refuse(Refusal::Internal),
        };
        let provider = FakeProvider::builder()
            .script(Script::always(Answer::text("All is well.")))
            .counts(Script::always(counts))
            .start_on_thread();
        let place = Place::with_provider(
            "anthropic",
            &provider,
            "attempts = 1\n[models]\ncatalogue = \"models.toml\"\n\
             [compaction]\nsummarisers = [\"extractive\"]\nmask_over_tokens = 50_000\n",
        );
        // What is usable of it: 19,000 tokens of its own.
        let window = "[models.\"anthropic/claude-haiku-4-5\"]\nwindow = 21_000\nmax_output = 950\n";
        place.write("models.toml", window);
        let file = example();
        let model = "anthropic/claude-haiku-4-5";
        let run = |task: &str| {
            let args = [
                "run", &file, "--model", model, "--agents", "", "--task", task, "--json",
            ];
            place.keyed(&args).expect(0).json()
        };
        let report = run("Is all well?");
        let made = report["checkpoints"].as_array().unwrap().len();
        assert_eq!(made, checkpoints, "{name}: {report}");
        let asked = |path: &str| {
            let requests = provider.requests();
            requests.iter().filter(|r| r.path.ends_with(path)).count()
        };
        assert_eq!(asked("/count_tokens"), 1, "{name}");
        assert_eq!(asked("/messages"), 1, "{name}");
        let id = report["session"].as_str().unwrap();
        let measured = place
            .events(id)
            .into_iter()
            .filter_map(|event| match event.fact {
                unisono_session::Fact::Measured { calibration, .. } => Some(calibration.band),
                _ => None,
            });
        let band = if counted.is_some() { 10_000 } else { 200_000 };
        let bands: Vec<u32> = measured.map(|band| band.0).collect();
        assert_eq!(bands, [band], "{name}");
    }
}

#[test]
fn a_header_is_sent_with_its_variables_value_which_is_not_shown() {
    let provider = FakeProvider::play_on_thread(Script::always(Answer::text("All is well.")));
    let place = Place::with_openai(
        &provider,
        "headers = { X-Team = \"key ${TEST_KEY}\", X-Plain = \"pl4in\" }\n\
         [compaction]\nsummarisers = [\"extractive\"]\n",
    );
    let file = example();
    place.keyed(&run(&file, "openai/gpt-4o")).expect(0);
    let requests = provider.requests();
    assert_eq!(requests[0].header("x-team"), Some(&*format!("key {KEY}")));
    assert_eq!(requests[0].header("x-plain"), Some("pl4in"));
    for args in [&["config", "show"][..], &["config", "show", "--json"]] {
        let shown = place.keyed(args).expect(0).stdout;
        assert!(shown.contains("key ${TEST_KEY}"), "{shown}");
        assert!(!shown.contains("pl4in") && !shown.contains(KEY), "{shown}");
    }
}

#[test]
fn a_reply_that_broke_off_counts_though_the_next_attempt_succeeds() {
    let answer = Answer::pieces(["All ", "is ", "well."]).usage(Usage::new(3_000, 7));
    let broken = Act::answer(answer.clone()).end_at(At::Event(3), Ending::Reset);
    let provider = FakeProvider::play_on_thread(Script::sequence([broken]).then(answer));
    let place = place("anthropic", &provider);
    let file = example();
    let args = run(&file, "anthropic/claude-sonnet-4-5");
    let args = [&args[..], &["--set", "providers.anthropic.attempts=2"]].concat();
    place.keyed(&args).expect(0);
    assert_eq!(provider.request_count(), 5, "four runs, one of them twice");
    let usage = place.keyed(&["usage", "--json"]).expect(0).json();
    assert_eq!(usage["total"]["input_tokens"], 15_000, "{usage}");
}

#[test]
fn what_a_model_said_before_its_reply_broke_off_is_kept_with_its_run() {
    let answer = Answer::pieces(["All ", "is ", "well."]);
    let broken = Act::answer(answer).end_at(At::Event(5), Ending::Reset);
    let provider = FakeProvider::play_on_thread(Script::always(broken));
    let once = "attempts = 1\n[agent_defaults]\nretries = 0\n\
                [compaction]\nsummarisers = [\"extractive\"]\n";
    let place = Place::with_provider("anthropic", &provider, once);
    let file = example();
    let run = ["run", &file, "--agents", ""];
    let model = ["--model", "anthropic/claude-sonnet-4-5", "--json"];
    let report = place.keyed(&[&run[..], &model].concat()).json();
    assert_eq!(report["state"], "failed", "{report}");
    let runs = place.json(&["runs", "list"]);
    let said = runs[0]["last_text"].as_str().unwrap();
    assert!(said.starts_with("All is"), "{runs}");
    assert!(runs[0]["text"].is_null(), "{runs}");
}

#[test]
fn what_is_assumed_of_a_model_is_marked() {
    let provider = FakeProvider::play_on_thread(Script::always(Answer::text("All is well.")));
    let place = place("openai-compatible", &provider);
    let set = ["--set", "models.default=openai-compatible/qwen-of-mine"];
    let models = |args: &[&str]| place.keyed(&[args, &set].concat()).expect(0);
    let listed = models(&["models", "--json"]).json();
    let assumed = |name: &str| {
        let all = listed.as_array().unwrap();
        let row = all.iter().find(|row| row["model"] == name).unwrap();
        row["assumed"].as_bool().unwrap()
    };
    assert!(assumed("openai-compatible/qwen-of-mine"));
    assert!(!assumed("openai/gpt-4o"));
    let table = models(&["models", "qwen-of-mine"]).stdout;
    assert!(table.contains(" ~"), "{table}");
}

#[test]
fn a_server_with_a_smaller_window_than_was_assumed_is_asked_for_less_and_remembered() {
    let longest = |request: &unisono_fake_provider::Recorded| {
        let body = request.json();
        let tokens = ["max_tokens", "max_completion_tokens"].map(|key| body[key].as_u64());
        tokens
            .into_iter()
            .flatten()
            .next()
            .expect("a longest reply")
    };
    let script = Script::by(move |request| match longest(request) {
        8_192.. => Act::refuse(Refusal::Overflow {
            limit: 8_192,
            actual: 9_000,
        }),
        _ => Act::answer(Answer::text("Nothing is late.")),
    });
    let provider = FakeProvider::play_on_thread(script);
    let place = place("openai-compatible", &provider);
    let settings = place.config();
    let default = "[models]\ndefault = \"openai-compatible/qwen3\"\n";
    place.set_config(settings + default);
    place.write(
        "asked.json",
        r#"[{"role":"user","content":"What is late?"}]"#,
    );
    let file = place.path("asked.json").to_string_lossy().into_owned();
    let model = "openai-compatible/qwen3";
    let args = ["run", &file, "--model", model, "--agents", "facts"];
    let asked = |requests: &[unisono_fake_provider::Recorded]| -> Vec<u64> {
        requests.iter().map(longest).collect()
    };

    let done = place.keyed(&args).expect(0);
    assert_eq!(done.stdout.trim(), "Nothing is late.");
    let first = asked(&provider.requests());
    assert_eq!(first.len(), 4, "each of two agents once more: {first:?}");
    assert!(first[1] < 8_192 && first[3] < 8_192, "{first:?}");

    let models = place.keyed(&["models", "--json", "qwen3"]).expect(0).json();
    assert_eq!(models[0]["window_tokens"], 128_000, "{models}");
    assert_eq!(models[0]["reported_window_tokens"], 8_192, "{models}");
    let shown = place.keyed(&["models", "qwen3"]).expect(0).stdout;
    assert!(shown.contains('*'), "{shown}");

    place.keyed(&args).expect(0);
    let then = asked(&provider.requests())[4..].to_vec();
    assert_eq!(then, [2_048, 2_048], "a turn begins within it");

    // Those who only look are told of the same.
    let json = |args: &[&str]| place.keyed(&[args, &["--json"]].concat()).expect(0).json();
    let session = json(&["sessions", "list"])[0]["session"].clone();
    let session = session.as_str().unwrap();
    let context = json(&["context", session]);
    assert_eq!(context["window_tokens"], 8_192, "{context}");
    // In tokens as they are counted here: the provider reports fewer.
    let usable = &context["usable_tokens"];
    assert_eq!(&json(&["pin", session])["usable_tokens"], usable);
    assert_eq!(json(&["agents", "show", "facts"])["window_tokens"], 8_192);
    let again = json(&["run", "--session", session, "--task", "And now?"]);
    assert_eq!(&again["usable_tokens"], usable);
}

#[test]
fn the_daemon_has_the_context_counted_with_its_own_key() {
    let provider = FakeProvider::builder().start_on_thread();
    let place = Place::with_config("");
    place.write("key", KEY);
    let config = format!(
        "[server]\nreload_seconds = 0\n[models]\ndefault = \"anthropic/claude-sonnet-4-5\"\n\
         [providers.anthropic]\nbase_url = \"{}\"\napi_key_file = {:?}\nattempts = 1\n\
         [compaction]\nsummarisers = [\"extractive\"]\n",
        provider.url(),
        place.path("key"),
    );
    place.set_config(config);
    place.call(&["import", &example()]).expect(0);
    let daemon = crate::http::Daemon::start(&place);
    // Whoever calls has neither the key nor that model.
    place.set_config("[models]\ndefault = \"extractive\"\n");
    let counted = place.json(&["context", "latest", "--exact"]);
    assert!(counted["exact_tokens"].as_u64() > Some(0), "{counted}");
    let requests = provider.requests();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].path.ends_with("/count_tokens"));
    let plain = place.json(&["context", "latest"]);
    assert_eq!(plain["exact_tokens"], serde_json::Value::Null);
    assert_eq!(provider.requests().len(), 1, "not asked for it");
    let listed = daemon.get("/v1/sessions").expect(200).json();
    let id = listed["items"][0]["session"].as_str().unwrap();
    daemon.stop();

    let daemon = crate::http::Daemon::start(&place);
    let context = daemon.json(&format!("/v1/sessions/{id}/context?exact=true"));
    let why = context["exact_error"].as_str().unwrap();
    assert!(why.contains("cannot count the tokens"), "{why}");
    place
        .call(&["context", "latest", "--exact"])
        .expect(0)
        .says(&["cannot count the tokens"]);
    daemon.stop();
}
