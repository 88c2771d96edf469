//! `unisono sessions search`, the search index, and the tool `recall` over HTTP.

use std::fs;

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, FakeProvider, Script, block_on};

use crate::providers::MODELS;
use crate::support::{HasAll as _, Place, example};

fn hits(place: &Place, args: &[&str]) -> Vec<Value> {
    let args = [&["sessions", "search"], args].concat();
    let answer = place.json(&args);
    assert_eq!(answer["complete"], true);
    answer["hits"].as_array().unwrap().clone()
}

fn imported() -> Place {
    let place = Place::with_config("[compaction]\nsummarisers = [\"extractive\"]\n");
    place.json(&["import", &example()]);
    place
}

#[test]
fn what_was_said_is_found_and_told_whether_the_model_sees_it() {
    let place = imported();
    let found = hits(&place, &["ferryman", "reverse", "--limit", "5"]);
    assert_eq!(found.len(), 5);
    for hit in &found {
        assert_eq!(
            (&hit["active"], &hit["status"]),
            (&true.into(), &"verbatim".into())
        );
        let (text, marks) = (
            hit["excerpt"].as_str().unwrap(),
            hit["marks"].as_array().unwrap(),
        );
        let at = |n: usize| usize::try_from(marks[0][n].as_u64().unwrap()).unwrap();
        let word = text[at(0)..at(1)].to_lowercase();
        assert!(
            word.starts_with("ferryman") || word.starts_with("revers"),
            "{word}"
        );
    }
    place.json(&["compact", "--yes"]);
    let after = hits(&place, &["ferryman", "reverse", "--limit", "5"]);
    let covered: Vec<&Value> = after
        .iter()
        .filter(|hit| hit["status"] == "summarised")
        .collect();
    assert!(!covered.is_empty());
    assert!(
        covered
            .iter()
            .all(|hit| hit["checkpoint"] == 1 && hit["active"] == false)
    );
    let text = place.stdout(&["sessions", "search", "ferryman"]);
    text.has_all(&["[not in the context: summary 1 has it]"]);
}

#[test]
fn a_found_message_has_the_messages_beside_it() {
    let place = imported();
    let found = hits(
        &place,
        &["\"reverse path stays\"", "role:user", "--limit", "1"],
    );
    let n = found[0]["ordinal"].as_u64().unwrap();
    assert_eq!(found[0]["before"]["ordinal"], n - 1);
    assert_eq!(found[0]["before"]["role"], "assistant");
    assert_eq!(found[0]["after"]["ordinal"], n + 1);
    let text = place.stdout(&["sessions", "search", "\"reverse path stays\"", "role:user"]);
    let excerpt = found[0]["before"]["excerpt"].as_str().unwrap();
    text.has_all(&[&format!("\n  before #{} assistant: {excerpt}\n", n - 1)]);
    let first = hits(
        &place,
        &["role:user", "--until", "2026-03-04", "--limit", "100"],
    );
    let first = first.iter().find(|hit| hit["ordinal"] == 1).unwrap();
    assert!(first["before"].is_null(), "{first}");
}

#[test]
fn an_author_is_found_by_the_name_with_its_spaces() {
    let place = Place::new();
    let talk = "Maria Kowalski: We ship on Friday.\nDr. Vance: Fine.\n\
        Maria Kowalski: And the docs?\nDr. Vance: On Monday.\n";
    place.write("talk.txt", talk);
    place.json(&["import", place.path("talk.txt").to_str().unwrap()]);
    for (args, expected) in [
        (&["ship", "--agent", "maria kowalski"][..], 1),
        (&["--agent", "Dr. Vance", "--role", "user"], 2),
        (&["agent:\"MARIA KOWALSKI\""], 2),
        (&["ship", "--agent", "Kowalski"], 0),
    ] {
        assert_eq!(hits(&place, args).len(), expected, "{args:?}");
    }
}

#[test]
fn phrases_filters_and_what_is_wrong_with_them() {
    let place = imported();
    let roles = |query: &str| -> Vec<String> {
        let found = hits(&place, &[query, "--limit", "100"]);
        found
            .iter()
            .map(|hit| hit["role"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(!roles("\"dual writes\"").is_empty());
    assert!(roles("\"writes dual\"").is_empty());
    assert!(roles("cutover role:tool").iter().all(|role| role == "tool"));
    assert!(hits(&place, &["cutover", "--until", "2026-03-01"]).is_empty());
    let wrong = place
        .call(&["sessions", "search", "cutover role:robot"])
        .expect(0);
    wrong.says(&["role:robot is left out: a role is system, user, assistant or tool"]);
    for (args, says) in rows! {
        (vec!["??"], "nothing to search for"),
        (vec!["cutover", "--role", "robot"], "a role is system"),
        (vec!["cutover", "--since", "yesterday"], "--since yesterday: a time is a date"),
        (vec!["cutover", "--since", "1d", "--until", "2d"], "nothing is both since"),
        (vec!["cutover", "--session", "ffff"], "no session `ffff`"),
        (vec!["cutover", "--session", "latest", "--branch", "nope"], "no branch `nope`"),
        (vec!["cutover", "session:latest", "--branch", "nope"], "no branch `nope`"),
        (vec!["cutover", "--branch", "nope"], "branch \"nope\" belongs to one session"),
    } {
        let args = [&["sessions", "search"][..], &args].concat();
        place.call(&args).expect(2).says(&[says]);
    }
    place.says(&["sessions", "search", "xylophone"], &["nothing found"]);
}

#[test]
fn a_query_may_only_name_a_session_and_a_phrase_may_have_that_word() {
    let place = Place::new();
    let said = json!([
        {"role": "user", "content": "The user session: expired."},
        {"role": "assistant", "content": "Noted."},
    ]);
    place.write("talk.json", said.to_string());
    place.json(&["import", "talk.json"]);
    for (args, found) in [
        (&["--session", "latest"][..], 2),
        (&["session:latest"], 2),
        (&["expired", "session:latest"], 1),
        (&["\"user session: expired\""], 1),
        (&["\"session: expired", "--role", "user"], 1),
        (&["\"session: expired", "--role", "assistant"], 0),
    ] {
        assert_eq!(hits(&place, args).len(), found, "{args:?}");
    }
}

#[test]
fn the_index_is_made_anew_where_it_is_damaged_and_forgets_what_was_deleted() {
    let place = imported();
    let before = hits(&place, &["ferryman"]);
    let store = place.path("data/unisono/search");
    let meta = store.join("meta.json");
    assert!(meta.exists());
    fs::write(&meta, "{").unwrap();
    let report = place.json(&["doctor"]);
    assert_eq!(
        (&report["search"]["messages"], &report["search"]["sessions"]),
        (&159.into(), &1.into())
    );
    assert!(
        report["search"]["rebuilt_because"]
            .as_str()
            .unwrap()
            .contains("damaged"),
        "{report}"
    );
    assert_eq!(
        place.json(&["doctor"])["search"]["rebuilt_because"],
        Value::Null
    );
    assert_eq!(hits(&place, &["ferryman"]), before);
    fs::remove_dir_all(&store).unwrap();
    assert_eq!(hits(&place, &["ferryman"]), before);
    let memory = ["ferryman", "--set", "store.search_index=memory"];
    assert_eq!(hits(&place, &memory), before);
    place
        .call(&["sessions", "delete", "latest", "--yes"])
        .expect(0);
    place.call(&["vacuum"]).expect(0);
    assert_eq!(place.json(&["doctor"])["search"]["messages"], 0);
    for file in fs::read_dir(&store).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"ferrym"));
    }
}

/// The answering model searches first, in each dialect, and answers with what came back.
#[test]
fn an_agent_recalls_what_was_compacted_in_each_dialect() {
    let file = example();
    for (kind, model) in MODELS {
        let script = Script::by(|request| {
            let text = String::from_utf8_lossy(&request.body).into_owned();
            Act::answer(
                match text.contains("the best first") || text.contains("of these words") {
                    true => Answer::text("recalled"),
                    false => Answer::call("recall", r#"{"query":"ferryman reverse applier"}"#),
                },
            )
        });
        let provider = FakeProvider::play_on_thread(script);
        let more = "attempts = 1\n[turn]\nagents = []\n\
                    [compaction]\nsummarisers = [\"extractive\"]\n";
        let place = Place::with_provider(kind, &provider, more);
        let args = [
            "run",
            &file,
            "--compact-above",
            "8k",
            "--model",
            model,
            "--json",
        ];
        let report = place.keyed(&args).expect(0).json();
        assert_eq!(report["answer"], "recalled", "{model}");
        let requests = block_on(provider.wait_for(2));
        let second = String::from_utf8_lossy(&requests[1].body).into_owned();
        assert!(second.contains("ferryman"), "{model}");
        assert!(second.contains("(before: #"), "{model}: {second}");
        // It followed while the turn ran.
        assert!(place.path("data/unisono/search/meta.json").exists());
    }
}
