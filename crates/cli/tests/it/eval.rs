//! How much of a conversation compactions keep.

use std::fs;
use std::path::Path;

use serde_json::Value;
use unisono_context::{Ordinal, Part, Role, Timestamp, Tokens};
use unisono_fake_provider::{Answer, FakeProvider, Script};
use unisono_model::extractive::{self, AnswerInput, Passage};
use unisono_model::retention;

use crate::support::{Done, HasAll as _, Place, words};

/// The shipped sets, by their names.
const SETS: [&str; 3] = ["orders-migration", "clinic-scheduling", "field-research"];

fn files(set: &str) -> (String, String) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let examples = examples.canonicalize().unwrap();
    let within = |path: String| examples.join(path).display().to_string();
    let conversation = match set {
        "orders-migration" => format!("{set}.jsonl"),
        _ => format!("probes/{set}.jsonl"),
    };
    (
        within(conversation),
        within(format!("probes/{set}.probes.jsonl")),
    )
}

/// The words that measure the compaction of a conversation, with these flags.
fn compaction<'a>(conversation: &'a str, probes: &'a str, flags: &'a str) -> Vec<&'a str> {
    let measure = ["eval", "compaction", conversation, "--probes", probes];
    [&measure[..], &words(flags)[..]].concat()
}

/// Two messages, of which one says where something is.
fn small(place: &Place) -> String {
    let filler = "Nothing else of note was said about the weather or the harbour. ".repeat(60);
    let lines = [
        "The ledger is kept in docs/ledger.md by Ines.".to_owned(),
        filler.clone(),
        "And what else is there to be done?".to_owned(),
        filler,
    ];
    let messages = lines.iter().enumerate().map(|(n, text)| {
        let role = ["user", "assistant"][n % 2];
        serde_json::json!({"role": role, "content": text})
    });
    place.write("talk.json", Value::from_iter(messages).to_string());
    place.path("talk.json").display().to_string()
}

const PROBE: &str = r#"{"id":"p1","category":"name","question":"Where is the ledger?","subject":["ledger"],"answer":["docs/ledger.md"],"ordinals":[1]}"#;

#[test]
fn the_table_is_the_same_every_time() {
    let (conversation, probes) = files("clinic-scheduling");
    let args = compaction(
        &conversation,
        &probes,
        "--sizes 10 --presets truncate,checkpoint",
    );
    let place = Place::new();
    let done = place.call(&args).expect(0);
    insta::assert_snapshot!(done.stdout, @r"
    clinic-scheduling.jsonl: 136 messages of 9,824 tokens (o200k_base), 75 probes

    10:1, at most 982 tokens
    KEPT BY                     ALL   FACTS DECISIONS CONSTRAINTS   NAMES   TASKS × TAIL TOKENS
    one summary, extractive  29.3 %  22.2 %    26.7 %      40.0 %  36.4 %  20.0 %   1.22    979
    truncate                 16.0 %  22.2 %    10.0 %       6.7 %   9.1 %  50.0 %   0.67    737
    checkpoint, extractive   26.7 %  22.2 %    23.3 %      20.0 %  27.3 %  50.0 %   1.11    958
    tail                     24.0 %  22.2 %    23.3 %       6.7 %  18.2 %  60.0 %   1.00    944
    head+tail                18.7 %  22.2 %    10.0 %      20.0 %  18.2 %  40.0 %   0.78    964
    random                   17.6 %  12.2 %    16.9 %      21.5 %  18.2 %  17.8 %   0.73    961
    LexRank                  24.0 %   0.0 %    40.0 %      26.7 %   0.0 %  20.0 %   1.00    932
    TF-IDF with MMR          25.3 %  55.6 %    26.7 %      13.3 %   0.0 %  40.0 %   1.06    973
    the whole conversation  100.0 % 100.0 %   100.0 %     100.0 % 100.0 % 100.0 %         9,824
    ");
    assert_eq!(done.stderr, "");
    assert_eq!(place.call(&args).stdout, done.stdout);
    assert!(!place.path("data").exists(), "nothing is stored");
}

#[test]
fn more_room_keeps_more_and_all_categories_are_told() {
    for set in SETS {
        let (conversation, probes) = files(set);
        let args = compaction(&conversation, &probes, "--sizes 20,4,10,10");
        let place = Place::new();
        let report = place.json(&args);
        let sizes = report["sizes"].as_array().unwrap();
        let ratios: Vec<u64> = sizes.iter().map(|s| s["ratio"].as_u64().unwrap()).collect();
        assert_eq!(ratios, [4, 10, 20]);
        let names = |size: &Value| -> Vec<String> {
            let rows = size["rows"].as_array().unwrap().iter();
            rows.map(|row| row["name"].as_str().unwrap().to_owned())
                .collect()
        };
        for row in 0..names(&sizes[0]).len() {
            let of = |size: &Value| {
                let row = &size["rows"][row];
                assert_eq!(row["error"], Value::Null, "{row}");
                let within = row["tokens"].as_u64() <= size["tokens"].as_u64();
                assert!(within, "{set}, {row} of at most {}", size["tokens"]);
                assert_eq!(row["exceeds"], false, "{row}");
                assert_eq!(row["retained"].as_object().unwrap().len(), 6, "{row}");
                row["retained"]["all"].as_f64().unwrap()
            };
            let kept: Vec<f64> = sizes.iter().map(of).collect();
            // A larger size may keep one fact less for the sake of others, not many.
            let falls = kept.windows(2).all(|pair| pair[0] >= pair[1] - 0.02);
            assert!(falls, "{set}, {}: {kept:?}", names(&sizes[0])[row]);
        }
        assert_eq!(names(&sizes[0]), names(&sizes[2]));
        assert!(report["whole"]["all"].as_f64() > Some(0.9));
    }
}

/// A chat of many days, whose facts are the days of its messages.
fn many_days(place: &Place) -> String {
    let session = serde_json::json!({"type": "session", "unisono": 1, "title": "many days"});
    let messages = (0..120).map(|n| {
        let at = format!("2025-{:02}-{:02}T09:00:00Z", 1 + n / 28, 1 + n % 28);
        let author = ["Mara", "Jonas"][n % 2];
        let text = format!("Good morning, the bus number {n} was late again today.");
        serde_json::json!({"type": "message", "role": "user", "author": author,
            "at": at, "parts": [{"type": "text", "text": text}]})
    });
    let lines: Vec<String> = std::iter::once(session)
        .chain(messages)
        .map(|line| line.to_string())
        .collect();
    place.write("days.jsonl", lines.join("\n"));
    place.write(
        "days.probes.jsonl",
        r#"{"id":"d","category":"fact","question":"When was bus 31 late?","subject":["31"],"answer":["4 February 2025"],"ordinals":[32]}
{"id":"n","category":"name","question":"Who took bus 119?","subject":["119"],"answer":["Jonas"],"ordinals":[120]}"#,
    );
    place.path("days.jsonl").display().to_string()
}

#[test]
fn texts_are_measured_as_a_model_sees_them_and_within_their_size() {
    let place = Place::new();
    let talk = many_days(&place);
    let args = compaction(&talk, "days.probes.jsonl", "--sizes 4");
    let report = place.json(&args);
    assert_eq!(report["whole"]["all"], 1.0, "{report}");
    let size = &report["sizes"][0];
    let rows = size["rows"].as_array().unwrap();
    for row in rows {
        assert_eq!(row["exceeds"], false, "{row}");
        assert!(row["tokens"].as_u64() <= size["tokens"].as_u64(), "{row}");
    }
    let tail = rows.iter().find(|row| row["name"] == "tail").unwrap();
    assert_eq!(tail["retained"]["name"], 1.0, "{tail}");
    // A topic a day is too small for a summary: several are merged.
    assert!(rows.iter().any(|row| row["preset"] == "tiered"));
}

#[test]
fn a_session_that_was_compacted_is_measured_like_its_messages() {
    let place = Place::new();
    let id = |n: usize| format!("00000000-0000-7000-8000-{n:012x}");
    let filler = "Nothing else of note was said about the weather or the harbour. ".repeat(6);
    let messages = (0..40).map(|n| {
        let text = format!("{filler}Ledger {n} is in docs/ledger-{n}.md.");
        let role = ["user", "assistant"][n % 2];
        serde_json::json!({"type": "message", "id": id(n), "role": role,
            "at": "2025-01-01T09:00:00Z", "parts": [{"type": "text", "text": text}]})
    });
    let messages: Vec<String> = messages.map(|line| line.to_string()).collect();
    let shortened = (0..40).map(|n| {
        serde_json::json!({"type": "truncated", "message": id(n), "target_chars": 40}).to_string()
    });
    let shortened: Vec<String> = shortened.collect();
    let talk = |settings: Value, more: &[String]| {
        let session = serde_json::json!({"type": "session", "unisono": 1, "settings": settings});
        let session = session.to_string();
        let lines = [std::slice::from_ref(&session), &messages, more];
        lines.concat().join("\n")
    };
    place.write("plain.jsonl", talk(serde_json::json!({}), &[]));
    // The settings name an agent of the machine that wrote the file.
    let settings = serde_json::json!({"turn.lead": "elsewhere"});
    place.write("compacted.jsonl", talk(settings, &shortened));
    let probe = r#"{"id":"l","category":"name","question":"Where is ledger 39?","subject":["Ledger 39"],"answer":["ledger-39.md"],"ordinals":[40]}"#;
    place.write("probes.jsonl", probe);
    let measured = |talk: &str| -> Vec<Value> {
        let args = compaction(
            talk,
            "probes.jsonl",
            "--sizes 4 --presets truncate,checkpoint",
        );
        let report = place.json(&args);
        let rows = report["sizes"][0]["rows"].as_array().unwrap().iter();
        rows.map(|row| {
            serde_json::json!([row["name"], row["tokens"], row["retained"], row["error"]])
        })
        .collect()
    };
    assert_eq!(measured("compacted.jsonl"), measured("plain.jsonl"));
}

#[test]
fn the_chart_is_one_file_that_needs_nothing_else() {
    let (conversation, probes) = files("field-research");
    let place = Place::new();
    let more = "--sizes 10 --presets checkpoint --svg chart.svg";
    let args = compaction(&conversation, &probes, more);
    place.call(&args).expect(0);
    let svg = fs::read_to_string(place.path("chart.svg")).unwrap();
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    svg.has_none(&["href", "@import", "font-face", "<script", "NaN"]);
    assert!(svg.len() < 16 * 1024, "{}", svg.len());
    for said in ["one summary, extractive", "TF-IDF with MMR", "constraint"] {
        assert!(svg.contains(&format!(">{said}</text>")), "{said}");
    }
    let elsewhere = [&args[..10], &["no/such/place.svg"]].concat();
    let done = place.call(&elsewhere).expect(1);
    assert!(done.stdout.contains("one summary, extractive"), "{done:?}");
    done.says(&["cannot write no/such/place.svg"]);
}

#[test]
fn what_cannot_be_used_is_told_with_its_line() {
    let place = Place::new();
    let talk = small(&place);
    let rows = [
        (
            format!("{PROBE}\n\n{{\"id\": 7}}"),
            vec![
                "probes.jsonl:3: invalid type: integer `7`",
                "(column 8)",
                "--help` describes",
            ],
        ),
        (
            PROBE.replace("\"name\"", "\"colour\""),
            vec!["probes.jsonl:1: unknown variant `colour`", "`constraint`"],
        ),
        (
            PROBE.replace("[1]", "[9]"),
            vec!["probes.jsonl:1: probe `p1` names message 9; the conversation has 4"],
        ),
        (
            format!("{PROBE}\n{PROBE}"),
            vec!["probes.jsonl:2: a probe `p1` occurs twice"],
        ),
        (String::new(), vec!["probes.jsonl: it has no probe"]),
    ];
    for (probes, words) in rows {
        place.write("probes.jsonl", probes);
        place
            .call(&["eval", "compaction", &talk, "--probes", "probes.jsonl"])
            .expect(2)
            .says(&words);
    }
    place.write("probes.jsonl", PROBE);
    let call = |more: &[&str]| {
        let args = compaction(&talk, "probes.jsonl", "--sizes 4");
        place.call(&[&args[..], more].concat()).expect(2)
    };
    call(&["--sizes", "500"]).says(&[
        "at 500:1 3 of 1,592 tokens are left",
        "too few",
        "hint: name smaller",
    ]);
    call(&["--presets", "off"]).says(&["invalid value 'off'", "checkpoint"]);
    call(&["--summarisers", "openai/gpt-4o"])
        .says(&["summariser `openai/gpt-4o` is not usable: no key: set OPENAI_API_KEY"]);
    call(&["--summarisers", "nobody/knows"]).says(&["summariser `nobody/knows`"]);
    place
        .call(&["eval", "compaction", &talk, "--probes", "none.jsonl"])
        .expect(2)
        .says(&["cannot read none.jsonl"]);
}

#[test]
fn a_models_summary_is_measured_as_it_came_over_the_wire_beside_quotes() {
    // What it says, its share of the names, and whether quotes keep more.
    let rows = [
        ("The ledger is kept in docs/ledger.md (#1).", 1.0, false),
        ("They spoke about a ledger.", 0.0, true),
    ];
    for (said, share, is_less) in rows {
        let summary = format!("## Context\n- {said}");
        let script =
            Script::by(move |_| unisono_fake_provider::Act::answer(Answer::text(&*summary)));
        let provider = FakeProvider::play_on_thread(script);
        let ended = measured(&provider);
        let report = ended.json();
        let rows = report["sizes"][0]["rows"].as_array().unwrap();
        let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
        let by_model = row("one summary, openai/gpt-4o-mini");
        assert_eq!(
            by_model["writers"],
            serde_json::json!(["openai/gpt-4o-mini"])
        );
        assert_eq!(by_model["retained"]["name"], share);
        assert_eq!(by_model["times_extractive"], share);
        let quotes = row("one summary, extractive");
        assert_eq!(quotes["times_extractive"], Value::Null);
        assert_eq!(
            row("checkpoint, openai/gpt-4o-mini")["retained"]["name"],
            share
        );
        assert_eq!(row("truncate")["summariser"], Value::Null);
        assert_eq!(
            rows.iter().filter(|row| row["name"] == "truncate").count(),
            1
        );
        assert_eq!(provider.requests().len(), 2, "one for each way");
        let warning = "one summary, openai/gpt-4o-mini, 4:1: it keeps less than quotes of the same \
                       size, 0.0 % against 100.0 %";
        assert_eq!(ended.stderr.contains(warning), is_less, "{}", ended.stderr);
    }
}

/// The report on a small conversation with summaries by that provider's model.
fn measured(provider: &FakeProvider) -> Done {
    let place = Place::with_openai(provider, "attempts = 1\n");
    let talk = small(&place);
    place.write("probes.jsonl", PROBE);
    let by_model =
        "--sizes 4 --summarisers openai/gpt-4o-mini --presets checkpoint,truncate --json";
    let args = compaction(&talk, "probes.jsonl", by_model);
    place.keyed(&args).expect(0)
}

/// The parts of a line of a conversation file that are texts, or calls and results of tools.
fn parts(line: &Value) -> Vec<Part> {
    let text = |value: &Value| match value {
        Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    };
    let parts = line["parts"].as_array().into_iter().flatten();
    let read = parts.filter_map(|part| match part["type"].as_str()? {
        "text" => Some(Part::Text(text(&part["text"]))),
        "tool_call" => Some(Part::tool_call(
            "",
            text(&part["name"]),
            text(&part["arguments"]),
        )),
        "tool_result" => Some(Part::tool_result("", text(&part["content"]), false)),
        _ => None,
    });
    read.collect()
}

#[test]
fn an_offline_answer_has_what_the_question_asks_for() {
    let (mut asked, mut answered) = (0, 0);
    for set in SETS {
        let (conversation, probes) = files(set);
        let lines = fs::read_to_string(conversation).unwrap();
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let messages: Vec<Value> = lines
            .filter(|line: &Value| line["type"] == "message")
            .collect();
        let parts: Vec<(Ordinal, Role, Vec<Part>)> = (1..)
            .zip(&messages)
            .map(|(n, line)| {
                let role = Role::from_name(line["role"].as_str().unwrap()).unwrap();
                (Ordinal(n), role, parts(line))
            })
            .collect();
        let at = Timestamp::default();
        let passages: Vec<Passage<'_>> = parts
            .iter()
            .flat_map(|(n, role, parts)| {
                let passage = |part| Passage::of_part(*n, *role, None, at, part);
                parts.iter().filter_map(passage)
            })
            .collect();
        let probes = fs::read_to_string(probes).unwrap();
        for probe in retention::parse(&probes, messages.len() as u32).unwrap() {
            let answer = extractive::answer(&AnswerInput {
                passages: &passages,
                summaries: &[],
                persona: "You answer the person's task: decisions, risks, actions.",
                task: &probe.question,
                cap: Tokens(900),
                count: &|text| text.len() as u64 / 4,
            });
            let beginning: String = answer.text.chars().take(1_400).collect();
            let beginning = beginning.to_lowercase();
            let has = |words: &String| beginning.contains(&words.to_lowercase());
            asked += 1;
            answered += u32::from(probe.answer.iter().any(has));
        }
    }
    // The best messages by BM25 of the same length have it for 81 %.
    assert!(
        asked > 250 && answered * 100 > asked * 85,
        "{answered} of {asked}"
    );
}
