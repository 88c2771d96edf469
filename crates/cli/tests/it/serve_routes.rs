//! What can be looked at and changed over HTTP besides asking: summaries, pins, topics, what was
//! said, runs and what they were sent.

use serde_json::{Value, json};

use crate::http::Daemon;
use crate::interrupted::Scene;
use crate::support::{Place, example, heard};

fn with_example(place: &Place) -> (Daemon, String) {
    let imported = place.json(&["import", &example()]);
    let id = imported["session"].as_str().unwrap().to_owned();
    (Daemon::start(place), id)
}

#[test]
fn a_summary_is_estimated_made_edited_written_anew_and_taken_back() {
    let place = Place::with_config("[compaction]\nsummarisers = [\"extractive\"]\n");
    let (daemon, id) = with_example(&place);
    let at = |rest: &str| format!("/v1/sessions/{id}{rest}");
    let context = || daemon.get(&at("/context")).expect(200).json();
    let before = context();

    let kept = json!({"keep_messages": 6});
    let dry = daemon.posted(&at("/compactions/dry-run"), &kept);
    assert!(dry["messages_to_summarise"].as_u64().unwrap() > 0, "{dry}");
    assert_eq!(dry["tokens_before"], before["used_tokens"]);
    assert_eq!(context(), before, "a dry run changes nothing");

    let made = daemon.post(&at("/compactions"), &kept).expect(200).json();
    assert_eq!(made["state"], "compacted", "{made}");
    assert_eq!(made["tokens_before"], dry["tokens_before"]);
    assert!(made["tokens_after"].as_u64() <= dry["estimated_tokens_after"].as_u64());
    let saved = made["tokens_before"].as_u64().unwrap() - made["tokens_after"].as_u64().unwrap();
    assert_eq!(made["tokens_saved"], saved);
    let preview = made["preview"].as_str().unwrap();
    assert!(!preview.is_empty() && preview.chars().count() <= 200);

    let shown = daemon.get(&at("/checkpoints/1")).expect(200).json();
    assert_eq!(
        (&shown["kind"], &shown["active"]),
        (&json!("manual"), &json!(true))
    );
    assert_eq!(shown["revert"]["tokens_after"], before["used_tokens"]);
    assert_eq!(shown["revert"]["fits"], true);

    let text = json!({"text": "The orders move on Friday. Key: sk-ant-REDACTED"});
    let edited = daemon.post(&at("/checkpoints/1/edit"), &text);
    assert_eq!(edited.expect(200).json()["checkpoints"], json!([2]));
    let summary = context()["summaries"][0].clone();
    let text = summary["text"].as_str().unwrap();
    assert!(text.contains("The orders move on Friday."), "{text}");
    assert!(!text.contains("sk-ant-api03"), "a key is left out: {text}");

    let anew = json!({"instructions": "Keep every figure."});
    let anew = daemon.post(&at("/checkpoints/2/regenerate"), &anew);
    assert_eq!(anew.expect(200).json()["checkpoints"], json!([3]));
    let old = daemon.post(&at("/checkpoints/1/revert"), &json!({}));
    let detail = old.expect(422).problem("refused");
    assert!(detail.contains("checkpoint"), "{detail}");
    for number in [3, 2, 1] {
        let back = daemon.posted(&at(&format!("/checkpoints/{number}/revert")), &json!({}));
        assert_eq!(back["state"], "reverted", "{back}");
        assert!(back["tokens_after"].is_u64());
    }
    assert_eq!(
        context()["snapshot"],
        before["snapshot"],
        "as it was, byte for byte"
    );
    let all = daemon.get(&at("/checkpoints")).expect(200).json();
    let retired = |all: &Value| {
        all["items"]
            .as_array()
            .unwrap()
            .iter()
            .all(|c| c["retired"] == true)
    };
    assert!(retired(&all), "{all}");
    let none = daemon.get(&at("/checkpoints/9")).expect(404);
    none.problem("not_found");
    let contradictory = json!({"keep_messages": 6, "keep_tokens": 100});
    let refused = daemon.post(&at("/compactions"), &contradictory).expect(422);
    assert!(refused.problem("refused").contains("keep_tokens"));
    daemon.stop();
}

#[test]
fn who_writes_a_summary_and_what_is_done_without_one_is_asked_for() {
    // Nobody listens at that address.
    let place = Place::with_config(
        "[compaction]\nsummarisers = [\"extractive\"]\n\
         [providers.openai]\nbase_url = \"http://127.0.0.1:9/v1\"\n\
         api_key_file = \"key\"\nattempts = 1\n",
    );
    place.write("key", "sk-test-0a1b2c3d4e5f");
    let (daemon, id) = with_example(&place);
    let at = |rest: &str| format!("/v1/sessions/{id}{rest}");
    let by = |summariser: &str, way: &str| {
        let wanted = json!({"summariser": summariser, "on_failure": way});
        daemon.post(&at("/compactions"), &wanted)
    };
    let failed = by("openai/gpt-4o-mini", "leave").expect(200).json();
    assert_eq!(failed["error"]["code"], "compaction_failed", "{failed}");
    assert_eq!(failed["offers"], json!(["retry", "extractive", "leave"]));
    assert_eq!(failed["summariser"], "openai/gpt-4o-mini");
    let turn = failed["turn"].as_str().unwrap();
    let found = daemon.get(&at(&format!("/compactions/{turn}")));
    assert_eq!(found.expect(200).json(), failed);
    let again = |turn: &str, wanted: Value| {
        let path = at(&format!("/turns/{turn}/retry"));
        daemon.post(&path, &wanted)
    };
    let wanted = json!({"summariser": "openai/gpt-4o-mini"});
    let repeated = again(turn, wanted).expect(200).json();
    assert_eq!(repeated["error"]["code"], "compaction_failed", "{repeated}");
    assert_ne!(repeated["turn"], failed["turn"]);
    let none = daemon.get(&at("/checkpoints")).expect(200).json();
    assert_eq!(none, json!({"items": [], "next": null}));
    let dry = json!({"summariser": "openai/gpt-4o-mini"});
    let dry = daemon.post(&at("/compactions/dry-run"), &dry).expect(200);
    assert!(dry.json()["estimated_cost_usd"].as_f64() > Some(0.0));

    let made = by("openai/gpt-4o-mini", "extractive").expect(200).json();
    assert_eq!(
        (&made["state"], &made["offers"]),
        (&json!("compacted"), &Value::Null)
    );
    let anew = json!({"summariser": "openai/gpt-4o-mini", "on_failure": "leave"});
    let failed = daemon.posted(&at("/checkpoints/1/regenerate"), &anew);
    assert_eq!(failed["error"]["code"], "compaction_failed");
    let wanted = json!({"summariser": "openai/gpt-4o-mini"});
    let repeated = again(failed["turn"].as_str().unwrap(), wanted).expect(200);
    assert_eq!(repeated.json()["error"]["code"], "compaction_failed");
    let anew = json!({"summariser": "extractive"});
    let anew = daemon.post(&at("/checkpoints/1/regenerate"), &anew);
    assert_eq!(anew.expect(200).json()["state"], "compacted");
    let answer = again(&id, json!({})).expect(404).problem("not_found");
    assert!(answer.contains("failed compaction in turn"), "{answer}");

    for (name, says) in [
        ("anthropic/claude-haiku-4-5", "ANTHROPIC_API_KEY"),
        ("x/y", "`x/y`"),
    ] {
        let detail = by(name, "leave").expect(422).problem("refused");
        assert!(detail.contains(says), "{detail}");
    }
    by("extractive", "give_up").refused(400, "invalid_request");
    daemon.stop();
}

#[test]
fn messages_are_pinned_topics_are_sealed_and_all_is_found() {
    let place = Place::with_config("[compaction]\nsummarisers = [\"extractive\"]\n");
    let (daemon, id) = with_example(&place);
    let at = |rest: &str| format!("/v1/sessions/{id}{rest}");
    let pinned = daemon.request("PUT", &at("/pins/2"), None);
    let pinned = pinned.expect(200).json();
    assert_eq!(pinned["pinned"][0]["ordinal"], 2, "{pinned}");
    assert_eq!(pinned["pinned_tokens"], pinned["pinned"][0]["tokens"]);
    let message = pinned["pinned"][0]["message"].as_str().unwrap();
    daemon.post(&at("/compactions"), &json!({})).expect(200);
    let context = daemon.get(&at("/context")).expect(200).json();
    let entries = context["messages"].as_array().unwrap();
    assert!(entries.iter().any(|entry| entry["ordinal"] == 2));
    let unpinned = daemon.delete(&at(&format!("/pins/{message}")));
    assert_eq!(unpinned.expect(200).json()["pinned"], json!([]));
    assert_eq!(
        daemon.get(&at("/pins")).expect(200).json()["pinned"],
        json!([])
    );
    let missing = daemon.request("PUT", &at("/pins/9999"), None).expect(404);
    missing.problem("not_found");
    daemon
        .request("PUT", &at("/pins/2?branch=nope"), None)
        .expect(404);

    let none = daemon.get(&at("/topics")).expect(200).json();
    assert_eq!(none["items"], json!([]));
    let sealed = daemon.posted(&at("/topics/seal"), &json!({}));
    assert_eq!(sealed["ended_by"], "person", "{sealed}");
    let topics = daemon.get(&at("/topics")).expect(200).json();
    assert_eq!(topics["items"][0], sealed);
    let again = daemon.post(&at("/topics/seal"), &json!({})).expect(409);
    again.problem("conflict");

    let found = daemon.json(&at("/search?q=replica&limit=3"));
    assert_eq!(found["complete"], true, "{found}");
    let hits = found["hits"].as_array().unwrap();
    assert!(!hits.is_empty() && hits.len() <= 3, "{found}");
    assert!(hits.iter().any(|hit| hit["status"] == "summarised"));
    let (text, marks) = (hits[0]["excerpt"].as_str().unwrap(), &hits[0]["marks"][0]);
    let mark = marks[0].as_u64().unwrap() as usize..marks[1].as_u64().unwrap() as usize;
    assert!(text[mark].to_lowercase().starts_with("replica"), "{text}");
    let all = daemon.get("/v1/search?q=replica").expect(200).json();
    assert!(all["hits"].as_array().unwrap().len() >= hits.len());
    daemon.get("/v1/search?q=+").expect(422).problem("refused");
    daemon.get("/v1/search").refused(400, "invalid_request");

    let tree = daemon.get(&at("/tree")).expect(200).json();
    assert_eq!(tree["items"][0]["branches"], json!(["main"]), "{tree}");
    let fork = json!({"name": "what-if", "at": "#4"});
    daemon.post(&at("/branches"), &fork).expect(201);
    let tree = daemon.get(&at("/tree")).expect(200).json();
    let tree = &tree["items"];
    assert_eq!(tree[0]["branches"], json!(["what-if"]), "{tree}");
    assert_eq!(tree[0]["last_ordinal"], 4);
    assert_eq!(tree[0]["parent"], Value::Null);
    assert_eq!(tree[1]["parent"], tree[0]["last"]);
    let own = json!({"text": "What if not?", "branch": "what-if"});
    daemon.post(&at("/messages"), &own).expect(201);
    let branches = daemon.get(&at("/branches")).expect(200).json();
    let parents: Vec<&Value> = branches["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["parent"])
        .collect();
    assert_eq!(parents, [&Value::Null, &tree[0]["last"]], "main, what-if");
    daemon.stop();
}

#[test]
fn a_long_answer_is_compressed_for_a_client_that_accepts_it() {
    let place = Place::new();
    let (daemon, id) = with_example(&place);
    let get = |path: &str, accepts: &str| {
        let accepts = [("Accept-Encoding", accepts)];
        let reply = daemon.request_with("GET", path, &accepts, None);
        let reply = reply.expect(200);
        let length: usize = reply.header("content-length").unwrap().parse().unwrap();
        (reply.header("content-encoding").map(str::to_owned), length)
    };
    let messages = format!("/v1/sessions/{id}/messages");
    let (coded, small) = get(&messages, "gzip");
    let (plain, large) = get(&messages, "identity");
    assert_eq!((coded.as_deref(), plain), (Some("gzip"), None));
    assert!(2 * small < large, "{small} of {large} bytes");
    assert_eq!(get("/v1/approvals", "gzip").0, None, "it is small");
    daemon.stop();
}

#[test]
fn a_delegation_tells_who_did_what_and_what_each_was_sent() {
    let place = Place::new();
    let (daemon, id) = with_example(&place);
    let at = |rest: &str| format!("/v1/sessions/{id}{rest}");
    let new = json!({
        "task": "What could go wrong?",
        "agents": [{"agent": "risks"}, {"agent": "facts", "task": "Name every date."}],
    });
    let given = daemon.post(&at("/delegations"), &new).expect(200).json();
    assert_eq!(given["state"], "answered", "{given}");
    assert_eq!(given["missing"], json!([]));
    assert!(given["answer"].is_string());
    let runs = given["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2, "{given}");
    assert_eq!(runs[1]["task"], "Name every date.");
    let turn = given["turn"].as_str().unwrap();
    let again = daemon.get(&at(&format!("/delegations/{turn}")));
    assert_eq!(again.expect(200).json(), given);

    let turns = daemon.get(&at("/turns?limit=1")).expect(200).json();
    assert_eq!(turns["items"][0]["turn"], turn, "{turns}");
    assert_eq!(turns["next"], Value::Null);

    let listed = daemon.get(&at("/runs?limit=2")).expect(200).json();
    assert_eq!(listed["items"][0]["role"], "lead", "the newest first");
    assert_eq!(listed["items"][1]["run"], runs[1]["run"]);
    assert_eq!(listed["items"][0]["turn"], turn);
    let next = listed["next"].as_str().unwrap();
    let rest = daemon.json(&at(&format!("/runs?cursor={next}")));
    let of_turn = daemon.json(&at(&format!("/runs?turn={turn}")));
    assert_eq!(of_turn["items"].as_array().unwrap().len(), 3);
    let first = format!("/runs?turn={turn}&limit=1");
    let first = daemon.get(&at(&first)).expect(200).json();
    let next = first["next"].as_str().unwrap();
    let after = format!("/runs?turn={turn}&cursor={next}");
    let after = daemon.get(&at(&after)).expect(200).json();
    let each = [&first, &after].map(|page| page["items"].as_array().unwrap().clone());
    assert_eq!(Value::from(each.concat()), of_turn["items"]);
    let other = daemon.get(&at(&format!("/runs?turn={id}")));
    other.expect(404).problem("not_found");
    assert_eq!(rest["items"][0]["run"], runs[0]["run"]);
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
    assert_eq!(rest["next"], Value::Null);
    for wrong in ["x", "7.x", turn] {
        let wrong = daemon.get(&at(&format!("/runs?cursor={wrong}")));
        let detail = wrong.expect(400).problem("invalid_request");
        assert!(detail.contains("no cursor"), "{detail}");
    }
    let only = daemon.get(&at("/runs?agent=facts")).expect(200).json();
    assert_eq!(only["items"].as_array().unwrap().len(), 1);

    let run = runs[0]["run"].as_str().unwrap();
    let shown = daemon.get(&at(&format!("/runs/{run}"))).expect(200).json();
    assert_eq!(shown["agent"], "risks");
    assert!(shown["steps"].is_array() && shown["definition"].is_string());
    let why = daemon.json(&at(&format!("/runs/{run}/request")));
    assert_eq!(why["agent"], "risks", "{why}");
    let (body, request) = (&why["body"], &why["requests"][0]);
    let whole = body["head"].as_str().unwrap().len() + body["tail"].as_str().unwrap().len();
    assert_eq!(request["bytes"], whole as u64, "the exact bytes");
    let checks = why["checks"].as_array().unwrap();
    assert!(!checks.is_empty() && checks.iter().all(|check| check["matches"] == true));
    let against = &why["against"];
    assert_eq!(against["run"], runs[1]["run"], "{why}");
    assert!(against["shared_bytes"].as_u64() >= request["head_bytes"].as_u64());
    assert_ne!(against["suffix"], against["sibling_suffix"]);
    assert_eq!(why["causes"][0]["cause"], "input");
    let none = daemon.get(&at(&format!("/runs/{run}/request?number=9")));
    none.expect(404).problem("not_found");
    let stranger = daemon.get(&at(&format!("/runs/{run}/request?against={id}")));
    stranger.expect(404).problem("not_found");

    let replay = daemon
        .get(&at(&format!("/turns/{turn}/replay")))
        .expect(200);
    let replay = replay.json();
    assert_eq!(replay["mismatches"], 0, "{replay}");
    assert!(replay["requests"].as_u64().unwrap() >= 3);

    let snapshot = given["snapshot"].as_str().unwrap();
    let frozen = daemon.json(&at(&format!("/snapshots/{snapshot}")));
    assert_eq!(frozen["agents"], 3);
    assert_eq!(frozen["turns"], json!([turn]));
    let last = frozen["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["text"], "What could go wrong?");
    let zeros = "0".repeat(snapshot.len());
    daemon
        .get(&at(&format!("/snapshots/{zeros}")))
        .expect(404)
        .problem("not_found");
    let nobody = daemon.post(&at("/delegations"), &json!({"task": "x", "agents": []}));
    assert!(nobody.refused(422, "refused").contains("at least one"));
    daemon.stop();
}

#[test]
fn one_run_is_cancelled_and_the_turn_says_what_is_missing() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene.place);
    let messages = json!([{"role": "user", "content": "Hello."}]);
    let id = daemon.session(&json!({"messages": messages}));
    let at = |rest: &str| format!("/v1/sessions/{id}{rest}");
    let new = json!({"task": "Which word?", "agents": [{"agent": "marks"}, {"agent": "waits"}],
                     "wait": false});
    let given = daemon.post(&at("/delegations"), &new).expect(202).json();
    let turn = given["turn"].as_str().unwrap();
    heard(&scene.started);
    let runs = daemon.get(&at("/runs?agent=waits")).expect(200).json();
    assert_eq!(runs["items"][0]["state"], "running", "{runs}");
    let run = runs["items"][0]["run"].as_str().unwrap();
    let cancelled = daemon.request("POST", &at(&format!("/runs/{run}/cancel")), None);
    cancelled.expect(200);
    let events = daemon.get(&at("/events?after=0")).expect(200).events();
    let mut ended = events.filter(|event| event.name == "turn_ended");
    assert!(ended.next().is_some());
    let reply = daemon.get(&at(&format!("/delegations/{turn}"))).json();
    assert_eq!(reply["missing"][0]["run"], run, "{reply}");
    assert_eq!(reply["missing"][0]["state"], "cancelled");
    let again = daemon.request("POST", &at(&format!("/runs/{run}/cancel")), None);
    again.expect(404).problem("not_found");
    daemon.stop();
}

#[test]
fn the_runs_of_all_sessions_are_a_list_in_parts() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene.place);
    let mut sessions = Vec::new();
    for n in 0..3 {
        let messages = json!([{"role": "user", "content": format!("Hello {n}.")}]);
        let made = daemon.post("/v1/sessions", &json!({"messages": messages}));
        let id = made.expect(201).json()["session"]
            .as_str()
            .unwrap()
            .to_owned();
        for task in ["One?", "Two?"] {
            let task = json!({"task": task, "agents": ["marks"]});
            let turn = daemon.post(&format!("/v1/sessions/{id}/turns"), &task);
            assert_eq!(turn.expect(200).json()["state"], "answered");
        }
        sessions.push(id);
    }
    let list = |query: &str| daemon.get(&format!("/v1/runs?{query}")).expect(200).json();
    let items = |page: &Value| page["items"].as_array().unwrap().clone();
    let whole = items(&list("limit=100"));
    assert_eq!(
        whole.len(),
        12,
        "three sessions, two turns each, two runs a turn"
    );
    let of: Vec<&str> = whole
        .iter()
        .map(|run| run["session"].as_str().unwrap())
        .collect();
    let newest: Vec<&str> = sessions
        .iter()
        .rev()
        .flat_map(|id| [id.as_str(); 4])
        .collect();
    assert_eq!(of, newest);
    assert!(
        whole[..4]
            .iter()
            .zip(&whole[1..4])
            .all(|(newer, older)| newer["opened_at"].as_str() >= older["opened_at"].as_str())
    );

    // Whatever the size of the parts, and whatever else was done meanwhile, each run is told once.
    for limit in [1, 3, 4, 5, 12] {
        let (mut reply, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = list(&format!("limit={limit}{cursor}"));
            assert!(items(&page).len() <= limit);
            reply.extend(items(&page));
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(reply, whole, "{limit} at a time");
    }
    let first = list("limit=2");
    let again = json!({"task": "Three?", "agents": ["marks"]});
    let turns = format!("/v1/sessions/{}/turns", sessions[2]);
    daemon.post(&turns, &again).expect(200);
    let next = first["next"].as_str().unwrap();
    assert_eq!(
        items(&list(&format!("limit=100&cursor={next}"))),
        whole[2..]
    );

    assert_eq!(items(&list("agent=marks&limit=100")).len(), 7);
    let unnamed = daemon.get("/v1/runs?agent=").expect(400).json();
    assert_eq!(unnamed["code"], "invalid_request", "{unnamed}");
    assert_eq!(
        items(&list(&format!("session={}", sessions[0]))),
        whole[8..]
    );
    assert_eq!(items(&list("state=running")), Vec::<Value>::new());
    let waits = json!({"task": "Which word?", "agents": ["waits"], "wait": false});
    daemon
        .post(&format!("/v1/sessions/{}/turns", sessions[1]), &waits)
        .expect(202);
    heard(&scene.started);
    let running = items(&list("state=running"));
    assert_eq!(running.len(), 1, "{running:?}");
    assert_eq!(
        (&running[0]["agent"], &running[0]["session"]),
        (&json!("waits"), &json!(sessions[1]))
    );
    let mine = scene.place.json(&["runs", "list", "--state", "running"]);
    assert_eq!(mine[0]["run"], running[0]["run"]);
    assert_eq!(mine[0]["state"], running[0]["state"]);
    let run = running[0]["run"].as_str().unwrap();
    scene.place.json(&["runs", "cancel", run]);

    for (query, says) in [
        ("cursor=7", "no cursor"),
        ("cursor=01900000-0000-7000-8000-000000000000.x", "no cursor"),
        ("state=busy", "not a state of a run"),
        ("limit=x", "limit"),
        ("session=x", "not the id of a session"),
        // A turn is of a session: its route takes it.
        (
            "turn=01900000-0000-7000-8000-000000000000",
            "unknown field `turn`",
        ),
    ] {
        let wrong = daemon.get(&format!("/v1/runs?{query}")).expect(400);
        let detail = wrong.problem("invalid_request");
        assert!(detail.contains(says), "{query}: {detail}");
    }
    // A cursor of a session that is gone goes on after where it was.
    daemon
        .delete(&format!("/v1/sessions/{}", sessions[2]))
        .expect(204);
    assert_eq!(
        items(&list(&format!("agent=marks&limit=2&cursor={next}"))).len(),
        2
    );

    let few = ["runs", "list", "--limit", "2", "--json"];
    let part = scene.place.call(&few).expect(0);
    assert!(part.stderr.contains("more runs: --cursor"), "{part:#?}");
    let newest = part.json();
    assert_eq!(newest.as_array().unwrap().len(), 2);
    let cursor = part.stderr.split("--cursor ").nth(1).unwrap();
    let cursor = cursor.split(' ').next().unwrap();
    let rest = scene.place.json(&["runs", "list", "--cursor", cursor]);
    let ids = |list: &Value| -> Vec<String> {
        list.as_array()
            .unwrap()
            .iter()
            .map(|run| run["run"].to_string())
            .collect()
    };
    let all = scene.place.json(&["runs", "list"]);
    assert_eq!(ids(&all), [ids(&newest), ids(&rest)].concat());
    daemon.stop();
}
