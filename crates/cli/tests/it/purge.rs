//! Deleted for good: nothing of a session is on disk any more. And a daemon that vacuums.

use std::path::Path;

use serde_json::json;

use crate::http::Daemon;
use crate::support::Place;

/// A word that is in one conversation alone, and in the index as a term.
pub(crate) const SECRET: &str = "rhubarbium";

/// The files of a directory that have the word in them.
fn holding(dir: &Path, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(holding(&path, word));
        } else if let Ok(bytes) = std::fs::read(&path)
            && bytes.windows(word.len()).any(|at| at == word.as_bytes())
        {
            found.push(path.display().to_string());
        }
    }
    found
}

pub(crate) fn talk(place: &Place) {
    let said = json!([
        {"role": "user", "content": format!("The code name is {SECRET}, keep it.")},
        {"role": "assistant", "content": format!("{SECRET} it is.")},
    ]);
    place.write("secret.json", said.to_string());
}

#[test]
fn a_purged_session_is_gone_from_disk() {
    let place = Place::new();
    place.talk();
    talk(&place);
    let store = place.path("data/unisono");
    place.call(&["import", "talk.json"]).expect(0);
    place.call(&["import", "secret.json"]).expect(0);
    place
        .call(&["run", "secret.json", "--task", "What is the code name?"])
        .expect(0);
    let found = place.json(&["sessions", "search", SECRET]);
    assert!(found.to_string().contains(SECRET), "{found}");
    assert!(
        !holding(&store, SECRET).is_empty(),
        "the test proves nothing"
    );
    let list = place.json(&["sessions", "list"]);
    for session in list.as_array().unwrap() {
        if session["title"] == "secret" {
            let id = session["session"].as_str().unwrap();
            let gone = place.json(&["sessions", "delete", id, "--yes", "--purge"]);
            assert_eq!(
                (&gone["deleted"], &gone["purged"]),
                (&json!(true), &json!(true))
            );
        }
    }
    assert_eq!(holding(&store, SECRET), [""; 0]);
    let left = place.call(&["export", "latest"]).expect(0);
    assert!(left.stdout.contains("We ship on Friday"));
}

#[test]
fn a_deletion_with_an_unknown_parameter_deletes_nothing() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let id = daemon.session(&json!({"title": "Talk"}));
    let path = format!("/v1/sessions/{id}");
    for query in ["purged=true", "Purge=true", "purge=yes"] {
        let refused = daemon.delete(&format!("{path}?{query}"));
        refused.expect(400).problem("invalid_request");
        daemon.get(&path).expect(200);
    }
    let purged = daemon.delete(&format!("{path}?purge=true"));
    purged.expect(204);
    daemon.get(&path).expect(404);
    daemon.stop();
}

#[test]
fn a_daemon_purges_and_vacuums_while_it_serves() {
    let place = Place::with_config(
        "[log]\nlevel = \"info\"\n[store]\nvacuum_every_seconds = 1\nvacuum_over_mib = 6\nvacuum_mib_per_second = 64\n",
    );
    let store = place.path("data/unisono");
    let daemon = Daemon::start(&place);
    let new =
        |text: String| json!({"title": "Talk", "messages": [{"role": "user", "content": text}]});
    let make = |text: String| -> String { daemon.session(&new(text)) };
    let kept = make("We ship on Friday.".to_owned());
    let secret = make(format!("The code name is {SECRET}."));
    let found = daemon.json(&format!("/v1/search?q={SECRET}"));
    assert_eq!(found["hits"].as_array().map(Vec::len), Some(1), "{found}");
    assert!(
        !holding(&store, SECRET).is_empty(),
        "the test proves nothing"
    );
    daemon
        .delete(&format!("/v1/sessions/{secret}?purge=true"))
        .expect(204);
    assert_eq!(holding(&store, SECRET), [""; 0]);
    daemon.get(&format!("/v1/sessions/{secret}")).expect(404);
    daemon
        .get(&format!("/v1/sessions/{kept}/messages"))
        .expect(200);

    // What is deleted without it leaves the disk by itself.
    let much: String = (0..700_000).map(|n| format!("and {n} more. ")).collect();
    let gone = make(format!("{SECRET} {much}"));
    daemon.delete(&format!("/v1/sessions/{gone}")).expect(204);
    let mut daemon = daemon;
    // One may have begun before the session was deleted; the next one is then due.
    for _ in 0..2 {
        daemon.going.wait_for(&["the store was vacuumed"]);
        if holding(&store, SECRET).is_empty() {
            break;
        }
    }
    assert_eq!(holding(&store, SECRET), [""; 0]);
    let after = daemon.json(&format!("/v1/sessions/{kept}"));
    assert_eq!(after["title"], "Talk");
    let done = place.json(&["vacuum"]);
    assert!(done["after_bytes"].as_u64().unwrap() > 0, "{done}");
    daemon.stop();
}

/// No session's id.
const ABSENT: &str = "01920000-0000-7000-8000-000000000001";

/// The session, the page and `doctor` report a loss until a person acknowledges it.
#[test]
fn a_loss_stays_visible_until_it_is_acknowledged() {
    let place = Place::new();
    let words = "The orders database moves on Friday. ".repeat(40);
    let said: Vec<_> = (0..200)
        .map(|n| json!({"role": if n % 2 == 0 { "user" } else { "assistant" }, "content": words}))
        .collect();
    place.write("talk.json", json!(said).to_string());
    place.call(&["import", "talk.json"]).expect(0);
    let id = place.json(&["sessions", "list"])[0]["session"]
        .as_str()
        .unwrap()
        .to_owned();
    place.call(&["pin", "latest", "1"]).expect(0);
    // The last event, which is the pin, becomes unreadable.
    let db = place.path("data/unisono/data/db");
    let mut bytes = std::fs::read(&db).unwrap();
    let magic = [0xF5, 0x55, 0x6E, 0x4A];
    let session: Vec<u8> = {
        let hex: String = id.chars().filter(|c| *c != '-').collect();
        (0..16)
            .map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap())
            .collect()
    };
    let mut hit = 0;
    for at in 0..bytes.len() - 40 {
        // An event's record (kind 2) of the session, behind the first.
        let is_event = bytes[at..].starts_with(&magic) && bytes[at + 7] == 2;
        let seq = u64::from_be_bytes(bytes[at + 24..at + 32].try_into().unwrap());
        if is_event && bytes[at + 8..at + 24] == session[..] && seq > 1 {
            bytes[at + 36] ^= 0xFF;
            hit += 1;
        }
    }
    assert!(hit > 0);
    std::fs::write(&db, bytes).unwrap();
    std::fs::remove_dir_all(place.path("data/unisono/search")).ok();

    place.call(&["doctor", "--repair"]).expect(1);
    let newest = &place.json(&["audit"])[0];
    assert_eq!(
        (&newest["method"], &newest["route"]),
        (&json!("CLI"), &json!("doctor"))
    );
    assert_eq!(newest["object"], json!({"quarantine": "1"}), "{newest}");
    for _ in 0..2 {
        let output = place.call(&["doctor"]).expect(1);
        assert!(output.stdout.contains("doctor --acknowledge"), "{output:?}");
        assert!(!output.stdout.contains("everything is whole"), "{output:?}");
        assert_eq!(output.stdout.matches("lost").count(), 1, "{output:?}");
    }
    let told_by_verbs = || {
        let listed = place.json(&["sessions", "list"]);
        assert_eq!(listed[0]["lost"]["quarantine"], "1", "{listed}");
        for verb in [&["sessions", "show"][..], &["history"]] {
            let verb = [verb, &["latest"]].concat();
            let shown = place.json(&verb);
            assert_eq!(shown["lost"], listed[0]["lost"], "{verb:?}: {shown}");
            place.call(&verb).expect(0).says(&["has lost its events"]);
        }
        place.says(&["sessions", "list"], &["has lost its events"]);
    };
    told_by_verbs();
    let daemon = Daemon::start(&place);
    told_by_verbs();
    let output = place.call(&["doctor"]).expect(1);
    assert!(output.stdout.contains("doctor --acknowledge"), "{output:?}");
    let doctor = place.call(&["doctor", "--json"]).expect(1).json();
    let listed = daemon.get("/v1/losses").expect(200).json();
    assert_eq!(doctor["losses"], listed["items"]);
    assert_eq!(listed["items"][0]["session"], id.as_str(), "{listed}");
    assert_eq!(listed["next"], json!(null));
    let metrics = daemon.get("/metrics").expect(200).text();
    assert!(metrics.contains("unisono_store_losses 1"), "{metrics}");
    // A loss while the store is open is reported as well.
    let list = place.path("data/unisono/losses");
    let line = std::fs::read_to_string(&list).unwrap();
    let more = line.replace(" 1\n", " 2\n").replace(&id, ABSENT);
    std::fs::write(&list, format!("{line}{more}")).unwrap();
    let listed = daemon.get("/v1/losses").expect(200).json();
    assert_eq!(
        listed["items"].as_array().map(Vec::len),
        Some(2),
        "{listed}"
    );
    let shown = daemon.get(&format!("/v1/sessions/{id}")).expect(200).json();
    assert_eq!(shown["lost"]["quarantine"], "1", "{shown}");
    let page = daemon.get(&format!("/sessions/{id}")).expect(200).text();
    assert!(page.contains("The store was damaged"));
    place
        .call(&["doctor", "--acknowledge"])
        .expect(0)
        .says(&["acknowledged: 2 lost ranges"]);
    let shown = daemon.get(&format!("/v1/sessions/{id}")).expect(200).json();
    assert!(shown.get("lost").is_none(), "{shown}");
    place.call(&["doctor"]).expect(0);
    daemon.stop();
    let whole = place.call(&["doctor"]).expect(0);
    assert!(whole.stdout.contains("everything is whole"), "{whole:?}");

    std::fs::write(&list, line).unwrap();
    for _ in 0..2 {
        place.call(&["doctor", "--acknowledge"]).expect(0);
    }
    let entries = place.json(&["audit"]);
    let of_doctor = entries.as_array().unwrap().iter();
    let of_doctor = of_doctor.filter(|entry| entry["route"] == "doctor");
    let objects: Vec<_> = of_doctor.map(|entry| entry["object"].clone()).collect();
    let expected = [json!({"losses": "1"}), json!({"quarantine": "1"})];
    assert_eq!(objects, expected, "{entries}");
}
