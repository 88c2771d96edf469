//! Clients that follow sessions of a daemon that is drained.

use std::sync::mpsc;
use std::thread;

use serde_json::json;
use unisono_test_postgres::Server;

use crate::cluster::{TOKEN, daemon, lasting_machine, machine, members, session};
use crate::http::Daemon;
use crate::support::{HasAll as _, PATIENCE, awaited, until};

/// Number of sessions: a stream that subscribes again races with the hand-over.
const SESSIONS: usize = 16;

#[test]
fn streams_of_a_drained_daemon_end_and_go_on_elsewhere() {
    let server = needs!(Server::database());
    let places = [machine(&server, TOKEN, ""), machine(&server, TOKEN, "")];
    let [one, other] = places.each_ref().map(daemon);
    let (ended, ends) = mpsc::channel();
    let sessions: Vec<String> = (0..SESSIONS)
        .map(|n| session(&one, &format!("Talk {n}.")))
        .collect();
    for id in &sessions {
        let mut events = one.events(id);
        let first = events.next().and_then(|event| event.id).unwrap();
        let (id, ended) = (id.clone(), ended.clone());
        thread::spawn(move || {
            let last = events.filter_map(|event| event.id).last();
            let _ = ended.send((id, last.unwrap_or(first)));
        });
    }
    let all = members(&other, |all| all.len() == 2);
    let member = all.iter().find(|one| one["self"] == false).unwrap()["member"].clone();
    let path = format!("/v1/cluster/{}", member.as_str().unwrap());
    other.post(&path, &json!({"drain": true})).expect(200);
    for n in 0..SESSIONS {
        let end = ends.recv_timeout(PATIENCE);
        let (id, last) = end.unwrap_or_else(|_| panic!("{} streams stay open", SESSIONS - n));
        // The client reconnects where it was, and gets what the new owner writes.
        let said = json!({"role": "user", "text": "And more."});
        let messages = format!("/v1/sessions/{id}/messages");
        // Until the hand-over is committed, the daemon that is drained still owns it.
        awaited(|| {
            let reply = other.post(&messages, &said);
            if reply.status == 201 {
                return Ok(());
            }
            reply.expect(503);
            Err("nobody takes the session")
        });
        let path = format!("/v1/sessions/{id}/events?after={last}");
        let next = one.get(&path).expect(200).events().next().unwrap();
        assert_eq!(next.id, Some(last + 1));
    }
    members(&other, |all| {
        let drained = all.iter().find(|one| one["self"] == false);
        drained.is_some_and(|one| one["sessions"] == 0 && one["state"] == "draining")
    });
    one.stop();
    other.stop();
}

/// Asks a daemon to drain itself, or to take sessions again, and waits until it knows.
fn drain(daemon: &Daemon, drain: bool) {
    let all = members(daemon, |_| true);
    let own = all.iter().find(|one| one["self"] == true).unwrap();
    let path = format!("/v1/cluster/{}", own["member"].as_str().unwrap());
    daemon.post(&path, &json!({"drain": drain})).expect(200);
    let metric = format!("\nunisono_cluster_draining {}\n", u8::from(drain));
    until("it does not know", || {
        daemon.text("/metrics").contains(&metric)
    });
}

/// The numbers of sessions of the other members that take some, in the order in which they joined.
fn sessions_of_others(daemon: &Daemon) -> Vec<u64> {
    let all = members(daemon, |_| true);
    let others = all.iter().filter(|one| one["state"] == "alive");
    others
        .map(|one| one["sessions"].as_u64().unwrap())
        .collect()
}

#[test]
fn a_drained_daemon_passes_new_sessions_to_one_that_can_be_connected() {
    let server = needs!(Server::database());
    // No daemon counts as gone during this test.
    let places = [0; 3].map(|_| lasting_machine(&server, "600s", ""));
    let [one, second, third] = places.each_ref().map(daemon);
    members(&one, |all| all.len() == 3);
    drain(&one, true);
    for n in 0..4 {
        session(&one, &format!("Talk {n}."));
    }
    assert_eq!(sessions_of_others(&one), [2, 2]);
    second.kill();
    // Of two with as many sessions the first one is asked first.
    let id = session(&one, "Another talk.");
    assert_eq!(sessions_of_others(&one), [2, 3]);
    let read = one.json(&format!("/v1/sessions/{id}"));
    assert_eq!(read["messages"], 1, "{read}");
    third.kill();
    let new = json!({"messages": [{"role": "user", "content": "A talk."}]});
    let refused = one.post("/v1/sessions", &new).expect(503);
    assert!(refused.header("retry-after").is_some());
    refused.problem("unavailable");
    one.json("/v1/sessions");
    one.stop();
}

#[test]
fn a_drained_daemon_is_ready_while_another_one_takes_new_sessions() {
    let server = needs!(Server::database());
    let places = [0; 2].map(|_| machine(&server, TOKEN, ""));
    let [one, other] = places.each_ref().map(daemon);
    members(&one, |all| all.len() == 2);
    drain(&one, true);
    until("it is not ready", || one.get("/readyz").status == 200);
    other.kill();
    until("it is ready", || one.get("/readyz").status == 503);
    let detail = one.get("/readyz").refused(503, "unavailable");
    detail.has_all(&["is drained", "--undo"]);
    drain(&one, false);
    one.get("/readyz").expect(200);
    session(&one, "A talk.");
    one.stop();
}
