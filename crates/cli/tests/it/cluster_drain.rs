//! Clients that follow sessions of a daemon that is drained.

use std::sync::mpsc;
use std::thread;

use serde_json::json;
use unisono_test_postgres::Server;

use crate::cluster::{TOKEN, daemon, machine, members, session};
use crate::support::{PATIENCE, awaited};

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
