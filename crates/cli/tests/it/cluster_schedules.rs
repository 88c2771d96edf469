//! Schedules and triggers that several daemons follow.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use unisono_fake_provider::Gate;
use unisono_test_postgres::Server;

use crate::cluster::{BY_THEMSELVES, TOKEN, held_model, machine, together, turns};
use crate::http::{Daemon, json_head, send_to};

/// Some periods of the schedule.
const PERIODS: Duration = Duration::from_secs(4);
/// Much less than the time between two looks at the clock.
const SOON: Duration = Duration::from_secs(15);

/// Waits until a condition holds, for so long.
fn within(limit: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let latest = Instant::now() + limit;
    while !is_so() {
        assert!(Instant::now() < latest, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A session with the label of the schedule, which that daemon owns.
fn beats(daemon: &Daemon) -> String {
    let new = json!({"title": "Beats", "labels": {"kind": "beat"}});
    daemon.session(&new)
}

#[test]
fn a_pause_and_its_end_hold_at_the_daemon_that_owns_the_session() {
    let server = needs!(Server::database());
    let (_places, [one, other]) = together(|| machine(&server, TOKEN, BY_THEMSELVES));
    let session = beats(&one);
    let count = || turns(&one, &session).len();
    within(4 * SOON, "the schedule does not begin", || count() >= 2);
    let ask = |what: &str| {
        let path = format!("/v1/schedules/beat/{what}");
        other.request("POST", &path, None).expect(200).json()
    };
    assert_eq!(ask("pause")["state"], "paused");
    let paused = Instant::now();
    // A turn that began before the pause may be seen only now.
    within(SOON, "time stands still", || paused.elapsed() > PERIODS);
    let before = count();
    within(SOON, "time stands still", || paused.elapsed() > 2 * PERIODS);
    assert_eq!(count(), before, "a turn began during the pause");
    assert_eq!(ask("resume")["state"], "on");
    within(SOON, "the owner does not learn of it", || {
        count() >= before + 2
    });
    one.stop();
    other.stop();
}

/// Sends the same request to each of these daemons at the same time.
fn at_once(daemons: &[&Daemon], path: &str, headers: &[(&str, &str)]) -> Vec<(u16, Value)> {
    std::thread::scope(|scope| {
        let asked = daemons.iter().map(|daemon| {
            let address = daemon.address.clone();
            scope.spawn(move || {
                let body = "{}";
                let head = json_head((address.as_str(), TOKEN), "POST", path, headers, body.len());
                let reply = send_to(&address, &head, body.as_bytes());
                (reply.status, reply.json())
            })
        });
        let asked: Vec<_> = asked.collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

/// A schedule that is not due.
const BY_HAND: &str =
    "[schedules.beat]\nevery = \"8760h\"\ntask = \"Look.\"\nlead = \"facts\"\nagents = []\n";

#[test]
fn of_runs_that_are_requested_at_the_same_time_one_begins() {
    let server = needs!(Server::database());
    // The turn waits for its model.
    let gate = Gate::new();
    let (_provider, settings) = held_model(&gate);
    let settings = settings + BY_HAND;
    let (_places, [one, other]) = together(|| machine(&server, TOKEN, &settings));
    let asked = [&one, &one, &other, &other, &one, &other];
    let answers = at_once(&asked, "/v1/schedules/beat/runs", &[]);
    let with = |status| answers.iter().filter(|answer| answer.0 == status).count();
    assert_eq!((with(202), with(409)), (1, 5), "{answers:?}");
    gate.open();
    one.stop();
    other.stop();
}

#[test]
fn requests_that_come_to_all_daemons_at_the_same_time_share_the_session_of_their_label() {
    let server = needs!(Server::database());
    let (_places, [one, other, third]) = together(|| machine(&server, TOKEN, BY_THEMSELVES));
    let asked = [&one, &other, &third, &third, &other, &one];
    let answers = at_once(&asked, "/v1/triggers/deploy", &[]);
    let (_, first) = &answers[0];
    let shares = |answer: &(u16, Value)| answer.0 == 202 && answer.1["session"] == first["session"];
    assert!(answers.iter().all(shares), "{answers:?}");
    let session = first["session"].as_str().unwrap();
    assert_eq!(turns(&other, session).len(), asked.len());
    for daemon in [one, other, third] {
        daemon.stop();
    }
}

#[test]
fn a_request_that_comes_to_all_daemons_at_the_same_time_begins_one_turn() {
    let server = needs!(Server::database());
    let (_places, [one, other, third]) = together(|| machine(&server, TOKEN, BY_THEMSELVES));
    // No session has the label of the trigger yet.
    let asked = [&one, &other, &third, &third, &other, &one];
    let key = [("Idempotency-Key", "1")];
    let answers = at_once(&asked, "/v1/triggers/deploy", &key);
    let (_, first) = &answers[0];
    let is_first = |answer: &(u16, Value)| answer.0 == 202 && answer.1 == *first;
    assert!(answers.iter().all(is_first), "{answers:?}");
    assert_eq!(turns(&one, first["session"].as_str().unwrap()).len(), 1);
    for daemon in [one, other, third] {
        daemon.stop();
    }
}
