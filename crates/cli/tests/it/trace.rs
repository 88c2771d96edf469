//! Looking back: what agents were sent, rebuilt from the journal and compared with what a provider
//! received, byte for byte.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use unisono::local::open_store;
use unisono_context::SessionId;
use unisono_context::message::Part;
use unisono_fake_provider::{Act, Answer, FakeProvider, Recorded, Refusal, Script, block_on};
use unisono_session::{Event, Fact};
use unisono_store::Append;

use crate::support::{HasAll as _, Place, example, is_of, words};
use crate::terminal::Talking;

const DIALECTS: [(&str, &str); 5] = [
    ("openai", "gpt-4o"),
    ("openai", "gpt-5-mini"),
    ("anthropic", "claude-sonnet-4-5"),
    ("gemini", "gemini-2.5-flash"),
    ("openai-compatible", "qwen3"),
];

/// The coordinator gives tasks away in two rounds; the digger reads until it may no longer; the
/// first request of risks fails and is made again.
fn script() -> Script {
    let (asked, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    Script::by(move |request| {
        if is_of("risks", request) && failed.fetch_add(1, Ordering::SeqCst) == 0 {
            return Act::refuse(Refusal::Internal);
        }
        let wraps_up = {
            let text = String::from_utf8_lossy(&request.body);
            text.contains("this is the last of") || text.contains("no room left")
        };
        Act::answer(if is_of("digger", request) {
            if wraps_up {
                Answer::text("I read what there was.")
            } else {
                Answer::call("recall", r#"{"from":1,"to":30}"#)
            }
        } else if is_of("coordinator", request) {
            match asked.fetch_add(1, Ordering::SeqCst) {
                0 => Answer::call(
                    "delegate",
                    r#"{"agent":"risks","task":"What can go wrong?"}"#,
                )
                .and_call(
                    "delegate",
                    r#"{"agent":"digger","task":"Read \"all\" of it: ä"}"#,
                ),
                1 => Answer::call("delegate", r#"{"agent":"facts","task":"How long?"}"#),
                _ => Answer::text("Forty minutes, and no way back."),
            }
        } else {
            Answer::text("It takes 40 minutes.")
        })
    })
}

fn place(kind: &str, model: &str, provider: &FakeProvider) -> Place {
    let place = Place::with_provider(
        kind,
        provider,
        "attempts = 1\n[models]\ncatalogue = \"config/models.toml\"\n\
         [compaction]\nsummarisers = [\"extractive\"]\n\
         [agents.digger]\ndescription = \"reads\"\ntools = [\"recall\"]\nmax_model_calls = 6\n",
    );
    // A window so small that old results leave the digger's requests.
    place.write(
        "config/models.toml",
        format!("[models.\"{kind}/{model}\"]\nwindow = 20000\nmax_output = 1000\n"),
    );
    place
}

/// A whole turn; gives the report.
fn turn(place: &Place, kind: &str, model: &str) -> Value {
    let model = format!("{kind}/{model}");
    let file = example();
    let args = [
        "run",
        &file,
        "--compact-above",
        "6k",
        "--model",
        &model,
        "--lead",
        "coordinator",
        "--agents",
        "risks,facts,digger",
        "--json",
    ];
    place.keyed(&args).expect(0).json()
}

fn body(request: &Value) -> Vec<u8> {
    let piece = |key: &str| request[key].as_str().unwrap().as_bytes().to_vec();
    [piece("head"), piece("tail")].concat()
}

fn runs(place: &Place) -> Vec<Value> {
    place.json(&["runs", "list"]).as_array().unwrap().clone()
}

#[test]
fn the_bytes_of_a_request_do_not_steer_a_terminal() {
    let place = Place::with_config("");
    let disguised = "Pay \u{202e}gnp.exe \u{9b}2J now.";
    let message = json!({"role": "user", "content": disguised});
    place.write("talk.json", json!([message]).to_string());
    place
        .call(&["run", "talk.json", "--task", "What?", "--agents", ""])
        .expect(0);
    let piped = place.call(&["why", "--raw"]).expect(0);
    assert!(piped.stdout.contains('\u{202e}') && piped.stdout.contains('\u{9b}'));
    let mut shown = Talking::at_a_terminal(place.command(&["why", "--raw"]));
    shown.sees("gnp.exe");
    let before = shown.before().to_owned();
    assert!(before.contains("\\u202egnp.exe"), "{before}");
    shown.sees("now.");
    assert!(shown.before().contains("\\u009b2J"), "{:?}", shown.before());
    drop(shown);
}

#[test]
fn every_request_is_rebuilt_as_the_provider_received_it() {
    for (kind, model) in DIALECTS {
        let provider = FakeProvider::play_on_thread(script());
        let place = place(kind, model, &provider);
        turn(&place, kind, model);
        let received = block_on(provider.wait_for(10));
        // From here on there is no provider, and no key.
        drop(provider);
        let received: BTreeSet<Vec<u8>> = received.iter().map(|r| r.body.to_vec()).collect();
        let mut rebuilt = BTreeSet::new();
        let (mut masked, mut wrapped) = (0, 0);
        for run in runs(&place) {
            let why = place.json(&["why", run["run"].as_str().unwrap()]);
            for request in why["requests"].as_array().unwrap() {
                rebuilt.insert(body(request));
                masked += request["masked"].as_u64().unwrap();
                wrapped += u32::from(!request["wrap_up"].is_null());
            }
            for check in why["checks"].as_array().unwrap() {
                assert_eq!(check["matches"], true, "{model}: {check}");
            }
        }
        assert!(masked > 0 && wrapped == 1, "{model}: {masked} {wrapped}");
        let missing: Vec<_> = received.difference(&rebuilt).map(text).collect();
        let invented: Vec<_> = rebuilt.difference(&received).map(text).collect();
        assert!(
            missing.is_empty() && invented.is_empty(),
            "{model}: received {missing:#?}\nrebuilt {invented:#?}"
        );
        assert_eq!(place.json(&["replay"])["mismatches"], 0, "{model}");
    }
}

#[test]
fn a_run_of_sixty_calls_goes_on_with_summaries_and_is_rebuilt() {
    for (kind, model) in [DIALECTS[0], DIALECTS[2]] {
        let asked = AtomicUsize::new(0);
        let script = Script::by(move |request| {
            if !is_of("digger", request) {
                return Act::answer(Answer::text("Read."));
            }
            let n = asked.fetch_add(1, Ordering::SeqCst);
            if n == 60 {
                return Act::answer(Answer::text("I read what there was."));
            }
            let order = format!("Order W-{n} waits for part {}. ", n * 7);
            let said = Answer::text(format!("{order}{}", "I go on to the next one. ".repeat(60)));
            Act::answer(said.and_call("recall", r#"{"from":1,"to":30}"#))
        });
        let provider = FakeProvider::play_on_thread(script);
        let place = place(kind, model, &provider);
        let file = example();
        let model = format!("{kind}/{model}");
        let digger = words("--set agents.digger.max_model_calls=80 --agents digger");
        let run = [
            "run",
            &file,
            "--compact-above",
            "6k",
            "--model",
            &model,
            "--json",
        ];
        let report = place.keyed(&[&run[..], &digger].concat()).expect(0).json();
        assert_eq!(report["state"], "answered", "{report:#}");
        let received = block_on(provider.wait_for(62));
        drop(provider);
        let received: BTreeSet<Vec<u8>> = received.iter().map(|r| r.body.to_vec()).collect();
        let summarised = received
            .iter()
            .filter(|body| String::from_utf8_lossy(body).contains("# Your work so far"));
        assert!(summarised.count() > 5);
        let mut rebuilt = BTreeSet::new();
        for run in runs(&place) {
            assert_eq!(run["state"], "done", "{run:#}");
            let why = place.json(&["why", run["run"].as_str().unwrap()]);
            let requests = why["requests"].as_array().unwrap();
            rebuilt.extend(requests.iter().map(body));
        }
        let missing: Vec<_> = received.difference(&rebuilt).map(text).collect();
        assert!(missing.is_empty(), "{model}: {missing:#?}");
        assert_eq!(place.json(&["replay"])["mismatches"], 0, "{model}");
        let shown = place.call(&["runs", "show", "digger"]).expect(0).stdout;
        assert!(shown.contains("steps summarised"), "{shown}");
    }
}

#[test]
fn the_bytes_of_one_request_are_written_as_they_were() {
    let (kind, model) = DIALECTS[0];
    let provider = FakeProvider::play_on_thread(script());
    let place = place(kind, model, &provider);
    turn(&place, kind, model);
    let received = block_on(provider.wait_for(10));
    let of = |agent: &str| {
        let all = place.json(&["runs", "list", "--agent", agent]);
        all[0]["run"].as_str().unwrap().to_owned()
    };
    let digger = of("digger");
    let short = digger.rsplit('-').next().unwrap();
    let requests: Vec<&Recorded> = received.iter().filter(|r| is_of("digger", r)).collect();
    assert!(requests.len() > 2);
    for (n, request) in requests.iter().enumerate() {
        let number = (n + 1).to_string();
        let raw = place
            .keyed(&["why", short, "--request", &number, "--raw"])
            .expect(0);
        assert_eq!(raw.stdout.as_bytes(), &request.body[..], "request {number}");
    }
    let beyond = place
        .keyed(&["why", short, "--request", "99", "--raw"])
        .expect(2);
    beyond.says(&[
        "has no request 99",
        &format!("it has 1 to {}", requests.len()),
    ]);

    let output = place.keyed(&["why", short]).expect(0).stdout;
    output.has_all(&[
        "round 1 of",
        "frozen as snapshot",
        "compaction: ",
        "Read \"all\" of it: ä",
    ]);
    let risks = of("risks");
    for against in [&["why", short][..], &["why", short, "--against", &risks]] {
        let against = place.json(against)["against"].clone();
        let shared = against["shared_bytes"].as_u64().unwrap() as usize;
        let theirs = received.iter().find(|r| is_of("risks", r)).unwrap();
        let common = requests[0].body.iter().zip(&theirs.body);
        assert_eq!(shared, common.take_while(|(a, b)| a == b).count());
        assert_eq!(against["agent"], "risks");
        let differs = against["differing_keys"].as_array().unwrap();
        assert!(differs.contains(&"tools".into()), "{against}");
    }
    place
        .keyed(&["why", short, "--against", "ffffffff"])
        .expect(2)
        .says(&["no run `ffffffff`", "others of its turn"]);
    place
        .keyed(&["why", "feedbeef"])
        .expect(2)
        .says(&["no run, turn or agent `feedbeef`", "unisono runs list"]);
}

/// The session once more, under another id, with its events or their bytes changed.
pub(crate) fn copied(
    place: &Place,
    session: &str,
    change: impl Fn(&mut Vec<Event>),
    damage: impl Fn(&mut Vec<Vec<u8>>),
) -> String {
    let mut events = place.events(session);
    change(&mut events);
    static COPIES: AtomicUsize = AtomicUsize::new(2);
    let copy = COPIES.fetch_add(2, Ordering::SeqCst) as u128;
    let id = SessionId::from_u128(0x0199_ffff_0000_7000_8000_0000_0000_0000 | copy);
    let scratch = SessionId::from_u128(id.as_u128() ^ 1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = open_store(&place.path("data/unisono")).await.unwrap();
        let journal = store.journal;
        let claim = journal.claim(scratch).await.unwrap();
        journal
            .append(scratch, claim.epoch, 0, &events, 0)
            .await
            .unwrap();
        let engine = journal.engine();
        let written = engine.read(scratch.into(), 1, 100_000).await.unwrap();
        let mut payloads: Vec<Vec<u8>> = written
            .into_iter()
            .map(|event| event.payload.to_vec())
            .collect();
        damage(&mut payloads);
        journal.delete(scratch).await.unwrap();
        let claim = journal.claim(id).await.unwrap();
        let append = Append {
            session: id.into(),
            epoch: claim.epoch,
            expected_seq: 0,
            payloads,
        };
        engine.append(append).await.unwrap();
        journal.close().await.unwrap();
    });
    id.to_string()
}

#[test]
fn a_turn_that_is_not_as_it_was_recorded_is_told_by_what_differs() {
    let place = Place::new();
    let report = place.json(&[
        "run",
        &example(),
        "--compact-above",
        "8k",
        "--agents",
        "risks,facts",
    ]);
    let session = report["session"].as_str().unwrap();
    let sound = place.json(&["replay", report["turn"].as_str().unwrap()]);
    assert_eq!(sound["mismatches"], 0, "{sound:#}");
    assert_eq!(sound["runs"].as_array().unwrap().len(), 3);
    assert!(sound["checks"].as_array().unwrap().len() >= 7, "{sound:#}");

    let another_word = |events: &mut Vec<Event>| {
        let mut said = events
            .iter_mut()
            .rev()
            .filter_map(|event| match &mut event.fact {
                Fact::Appended { message, .. } => Some(message),
                _ => None,
            });
        said.next().unwrap().parts = vec![Part::Text("something else".into())];
    };
    let altered = copied(&place, session, another_word, |_| {});
    let done = place.call(&["replay", "--session", &altered]).expect(1);
    assert!(done.stdout.contains("differs: snapshot"), "{done:#?}");
    done.says(&["the replay of turn ", "has 1 wrong digest"]);
    let why = place.json(&["runs", "list", "--session", &altered]);
    let run = why[0]["run"].as_str().unwrap();
    place
        .call(&["why", run, "--session", &altered])
        .expect(1)
        .says(&["cannot be rebuilt: snapshot mismatch"]);

    let another_definition = |events: &mut Vec<Event>| {
        for event in events {
            if let Fact::Defined { definition } = &mut event.fact
                && definition.id.as_str() == "risks"
            {
                std::sync::Arc::make_mut(definition).instructions = "Find nothing.".into();
            }
        }
    };
    let altered = copied(&place, session, another_definition, |_| {});
    place
        .call(&["replay", "--session", &altered])
        .expect(1)
        .says(&["does not follow", "was not recorded", &altered]);
}

#[test]
fn a_record_that_cannot_be_read_is_named() {
    let place = Place::new();
    let report = place.json(&[
        "run",
        &example(),
        "--compact-above",
        "8k",
        "--agents",
        "risks",
    ]);
    let session = report["session"].as_str().unwrap();
    let damaged = copied(
        &place,
        session,
        |_| {},
        |payloads| {
            let at = payloads.len() - 3;
            payloads[at].truncate(9);
        },
    );
    let broken = place.events(session).len() - 2;
    for verb in [
        &["replay", "--session", &damaged][..],
        &["runs", "list", "--session", &damaged],
    ] {
        place.fails(verb, &[&format!("event {broken}"), &damaged]);
    }
}

#[allow(clippy::ptr_arg, reason = "an iterator gives these")]
fn text(body: &Vec<u8>) -> String {
    String::from_utf8_lossy(body).into_owned()
}
