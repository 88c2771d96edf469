//! A large conversation becomes a session without being held several times, and whole or not at all.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http::Daemon;
use crate::support::{Place, finish};

const MESSAGES: usize = 15_000;
/// Enough that there is time to end the program in the middle.
const MANY: usize = 2 * MESSAGES;
/// What the whole process may take at most, in KiB, in a debug build beside other tests; on a busy
/// machine it is 230 to 250 MB. Of that the program is some 100 MB, and the session's own state twice
/// the 12 MB.
const MAX_KIB: u64 = 320 * 1024;

/// Messages of 800 characters, which are all different.
fn messages(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|n| {
        let role = if n % 2 == 0 { "user" } else { "assistant" };
        let text: Vec<String> = (0..80)
            .map(|k| format!("{:09x}", n * 7919 + k * 31))
            .collect();
        json!({"role": role, "content": text.join(" ")}).to_string()
    })
}

/// The most that a process has held so far, in KiB; none once it has ended.
fn most(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn import(place: &Place, args: &[&str], input: Option<&str>) -> Child {
    let mut command: Command = place.command(&[&["import", "--json", "--copy"], args].concat());
    match input {
        Some(name) => command.stdin(std::fs::File::open(place.path(name)).unwrap()),
        None => command.stdin(Stdio::null()),
    };
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn a_file_and_standard_input_are_not_held_whole() {
    let place = Place::new();
    let all: Vec<String> = messages(MESSAGES).collect();
    place.write("talk.jsonl", all.join("\n"));
    let object = format!("{{\"messages\": [{}]}}", all.join(",\n"));
    place.write("talk.json", object);
    let (lines, object) = (place.path("talk.jsonl"), place.path("talk.json"));
    let ways: [(&str, Option<&str>); 3] = [
        (lines.to_str().unwrap(), None),
        (object.to_str().unwrap(), None),
        ("-", Some("talk.json")),
    ];
    for (file, input) in ways {
        let mut child = import(&place, &[file], input);
        let mut highest = 0;
        // It only grows, so that looking often enough is enough.
        while child.try_wait().unwrap().is_none() {
            highest = most(child.id()).unwrap_or(0).max(highest);
            std::thread::sleep(Duration::from_millis(2));
        }
        let made = finish(child, &["import", file]).expect(0).json();
        assert_eq!(made["messages"], MESSAGES);
        assert!(highest > 0 && highest < MAX_KIB, "{file}: {highest} KiB");
    }
}

#[test]
fn a_body_is_not_held_whole() {
    let all: Vec<String> = messages(MESSAGES).collect();
    for body in [all.join("\n"), format!("[{}]", all.join(","))] {
        let place = Place::new();
        let daemon = Daemon::start(&place);
        let (path, kind) = (
            "/v1/imports?name=talk&copy=true",
            "application/octet-stream",
        );
        let made = daemon.post_bytes(path, kind, body.as_bytes());
        let made = made.expect(201).json();
        assert_eq!(made["messages"], MESSAGES);
        let highest = most(daemon.going.id()).unwrap();
        assert!(highest < MAX_KIB, "{highest} KiB");
        daemon.stop();
    }
}

#[test]
fn an_import_that_is_killed_leaves_nothing() {
    let place = Place::new();
    let all: Vec<String> = messages(MANY).collect();
    place.write("talk.jsonl", all.join("\n"));
    let file = place.path("talk.jsonl");
    let file = file.to_str().unwrap();
    let log = place.path("data/unisono/data/db");
    let mut cut_short = 0;
    for round in 1..40_u64 {
        let before = std::fs::metadata(&log).map_or(0, |meta| meta.len());
        let mut child = import(&place, &[file], None);
        let grown = before + round * (1 << 20);
        while std::fs::metadata(&log).map_or(0, |meta| meta.len()) < grown
            && child.try_wait().unwrap().is_none()
        {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        let done = child.wait_with_output().unwrap();
        if done.status.success() {
            break;
        }
        let listed = place.call(&["sessions", "list", "--json"]).expect(0);
        cut_short += u32::from(listed.stderr.contains("an import was cut short"));
        for session in listed.json().as_array().unwrap() {
            let id = session["session"].as_str().unwrap();
            let shown = place.json(&["sessions", "show", id]);
            assert_eq!(shown["messages"], Value::from(MANY), "{shown}");
            place.call(&["sessions", "delete", id, "--yes"]).expect(0);
        }
        if cut_short == 2 {
            break;
        }
    }
    assert_eq!(cut_short, 2, "it was killed in the middle");
    let made = place.json(&["import", file]);
    assert_eq!(made["messages"], MANY);
}
