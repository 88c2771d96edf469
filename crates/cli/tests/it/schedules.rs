//! Turns that start at set times: by a real daemon, killed and started again.

use serde_json::{Value, json};
use unisono::local::open_store;
use unisono_context::{SessionId, Timestamp};
use unisono_runtime::clock;
use unisono_store::starts::{Entry, StartFact, Starts};

use crate::http::Daemon;
use crate::interrupted::Scene;
use crate::people::caller;
use crate::serve_page::Browser;
use crate::support::{HasAll as _, Place, heard, send_signal, tell};

/// An agent that answers at once, and a schedule with these keys.
fn settings(schedule: &str) -> String {
    format!(
        "[agents.says]\ndescription = \"Test\"\nkind = \"command\"\ncommand = \"echo\"\n\
         args = [\"Done.\"]\n[turn]\nlead = \"says\"\nagents = []\n[schedules.beat]\n\
         task = \"Beat of ${{scheduled}}.\"\n{schedule}\n"
    )
}

fn schedules(daemon: &Daemon) -> Vec<Value> {
    let listed = daemon.get("/v1/schedules").expect(200).json();
    listed["items"].as_array().unwrap().clone()
}

/// Waits until the first schedule is like that.
#[track_caller]
fn wait_until(daemon: &Daemon, is: impl Fn(&Value) -> bool) -> Value {
    let all = daemon.awaited("/v1/schedules", |all| is(&all["items"][0]));
    all["items"][0].clone()
}

/// All turns of a session, the newest first.
fn turns(daemon: &Daemon, session: &Value) -> Vec<Value> {
    let path = format!("/v1/sessions/{}/turns", session.as_str().unwrap());
    let listed = daemon.get(&path).expect(200).json();
    listed["items"].as_array().unwrap().clone()
}

/// Writes entries of the schedule into a store that nobody has open.
fn write(place: &Place, entries: Vec<(Timestamp, StartFact)>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let opened = open_store(&place.path("data/unisono")).await.unwrap();
        let mut starts = Starts::open(&opened.journal).await.unwrap();
        starts.claim().await.unwrap();
        for (at, fact) in entries {
            let source = "schedule:beat".into();
            starts.append(Entry { source, at, fact }).await.unwrap();
        }
        opened.journal.close().await.unwrap();
    });
}

#[test]
fn each_time_begins_one_turn_also_when_the_daemon_is_killed() {
    let place = Place::with_config(&settings("every = \"1s\"\nsession = \"kind=beat\""));
    let daemon = Daemon::start(&place);
    let first = wait_until(&daemon, |one| one["last"]["state"] == "answered");
    let session = first["last"]["session"].clone();
    daemon.kill();
    let daemon = Daemon::start(&place);
    let scheduled = |one: &Value| one["last"]["scheduled_at"].as_str().map(str::to_owned);
    let before = scheduled(&first).unwrap();
    wait_until(&daemon, |one| {
        scheduled(one).is_some_and(|at| at > before) && one["last"]["state"] == "answered"
    });
    let all = turns(&daemon, &session);
    assert!(all.len() >= 2, "{all:?}");
    let mut tasks: Vec<&str> = all
        .iter()
        .map(|turn| turn["task"].as_str().unwrap())
        .collect();
    let newest_first = tasks.clone();
    tasks.sort_unstable_by(|a, b| b.cmp(a));
    tasks.dedup();
    assert_eq!(tasks, newest_first, "a time began two turns");
    let session = daemon.get(&format!("/v1/sessions/{}", session.as_str().unwrap()));
    let labels = session.expect(200).json()["labels"].clone();
    assert_eq!(labels, json!({"kind": "beat", "schedule": "beat"}));
    daemon.stop();
}

#[test]
fn a_label_with_the_same_text_is_not_the_one_of_a_schedule() {
    let place = Place::with_config(&settings("every = \"8760h\"\nsession = \"kind=a=b\""));
    let daemon = Daemon::start(&place);
    daemon.session(&json!({"title": "Other", "labels": {"kind=a": "b", " kind": "a=b"}}));
    let run = daemon.request("POST", "/v1/schedules/beat/runs", None);
    run.expect(202);
    let done = wait_until(&daemon, |one| one["last"]["state"] == "answered");
    let session = done["last"]["session"].as_str().unwrap();
    let labels = daemon.json(&format!("/v1/sessions/{session}"))["labels"].clone();
    assert_eq!(labels, json!({"kind": "a=b", "schedule": "beat"}));
    daemon.stop();
}

#[test]
fn a_schedule_waits_for_its_turn_and_says_which_times_it_leaves_out() {
    let scene = Scene::new();
    let agents = scene.place.config();
    let schedule = "[schedules.beat]\nevery = \"1s\"\nlead = \"waits\"\nagents = []\n\
                    task = \"Which word?\"\n";
    scene.place.set_config(agents + schedule);
    let daemon = Daemon::start(&scene.place);
    let agent = heard(&scene.started);
    let begun = wait_until(&daemon, |one| !one["skipped"].is_null());
    let turn = begun["last"]["turn"].clone();
    assert_eq!(begun["last"]["state"], "working", "{begun}");
    let reason = begun["skipped"]["reason"].as_str().unwrap();
    assert_eq!(reason, "the turn before had not ended");
    let refused = daemon.request("POST", "/v1/schedules/beat/runs", None);
    assert!(refused.expect(409).problem("conflict").contains("beat"));
    daemon.kill();
    send_signal("KILL", &agent);

    let daemon = Daemon::start(&scene.place);
    heard(&scene.started);
    let again = wait_until(&daemon, |one| one["last"]["state"] == "working");
    assert_eq!(again["last"]["turn"], turn, "the same turn goes on");
    let paused = daemon.request("POST", "/v1/schedules/beat/pause", None);
    assert_eq!(paused.expect(200).json()["state"], "paused");
    tell(&scene.word, "unison");
    let ended = wait_until(&daemon, |one| one["last"]["state"] == "answered");
    assert_eq!(ended["last"]["turn"], turn);
    assert_eq!(ended["next_at"], Value::Null);
    assert_eq!(turns(&daemon, &ended["last"]["session"]).len(), 1);
    daemon.stop();

    let daemon = Daemon::start(&scene.place);
    assert_eq!(schedules(&daemon)[0]["state"], "paused", "it stays so");
    let resumed = daemon.request("POST", "/v1/schedules/beat/resume", None);
    assert_eq!(resumed.expect(200).json()["state"], "on");
    heard(&scene.started);
    let next = wait_until(&daemon, |one| one["last"]["state"] == "working");
    assert_ne!(next["last"]["turn"], turn);
    assert_ne!(
        next["last"]["session"], ended["last"]["session"],
        "a new one"
    );
    daemon.stop();
}

#[test]
fn a_turn_that_was_about_to_begin_begins_once() {
    let rule = "cron = \"0 0 1 1 *\"\nmissed = \"skip\"";
    let place = Place::with_config(&settings(rule));
    Daemon::start(&place).stop();
    let session = SessionId::from_u128(0x0192_1111_0000_7000_8000_0000_0000_0002);
    let scheduled = Timestamp(1_767_225_600_000);
    let intended = StartFact::Intended {
        key: "schedule:beat:2026-01-01T00:00:00.000Z".into(),
        scheduled: Some(scheduled),
        session,
        request: None,
    };
    write(&place, vec![(scheduled, intended)]);
    for _ in 0..2 {
        let daemon = Daemon::start(&place);
        let begun = wait_until(&daemon, |one| one["last"]["state"] == "answered");
        assert_eq!(begun["last"]["session"], session.to_string());
        assert_eq!(begun["last"]["scheduled_at"], "2026-01-01T00:00:00.000Z");
        let all = turns(&daemon, &begun["last"]["session"]);
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(all[0]["task"], "Beat of 2026-01-01T00:00:00+00:00.");
        daemon.kill();
    }
}

#[test]
fn a_time_that_was_missed_runs_once_or_is_left_out() {
    for missed in ["run", "skip"] {
        let rule = format!("cron = \"0 0 1 1 *\"\nmissed = \"{missed}\"");
        let place = Place::with_config(&settings(&rule));
        Daemon::start(&place).stop();
        // It was known years ago.
        let years = Timestamp(clock::now().0 - 3 * 366 * 24 * 3_600_000);
        let rule = "0 0 1 1 * UTC".into();
        write(&place, vec![(years, StartFact::Follows { rule })]);
        let daemon = Daemon::start(&place);
        let of = if missed == "run" { "last" } else { "skipped" };
        let found = wait_until(&daemon, |one| !one[of].is_null());
        let at = found[of]["scheduled_at"].as_str().unwrap().to_owned();
        assert!(at.ends_with("-01-01T00:00:00.000Z"), "{at}");
        match missed {
            "run" => {
                let ended = wait_until(&daemon, |one| one["last"]["state"] == "answered");
                assert_eq!(turns(&daemon, &ended["last"]["session"]).len(), 1);
                let listed = daemon.get("/v1/sessions").expect(200).json();
                assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
            }
            _ => {
                let reason = found["skipped"]["reason"].as_str().unwrap();
                assert!(reason.contains("missed"), "{reason}");
                assert_eq!(found["last"], Value::Null);
            }
        }
        daemon.stop();
    }
}

#[test]
fn what_cannot_begin_is_told_and_the_schedule_goes_on() {
    let rule = "every = \"1s\"\nsession = \"kind=beat\"\nbranch = \"nobody\"";
    let place = Place::with_config(&settings(rule));
    let daemon = Daemon::start(&place);
    let refused = wait_until(&daemon, |one| one["last"]["state"] == "refused");
    let error = refused["last"]["error"].as_str().unwrap();
    assert!(error.contains("nobody"), "{error}");
    assert_eq!(refused["last"]["turn"], Value::Null);
    let first = refused["last"]["scheduled_at"].clone();
    wait_until(&daemon, |one| one["last"]["scheduled_at"] != first);
    let sessions = daemon.get("/v1/sessions").expect(200).json();
    assert!(
        sessions["items"].as_array().unwrap().len() <= 1,
        "{sessions}"
    );
    let unknown = daemon.request("POST", "/v1/schedules/nobody/runs", None);
    assert!(unknown.expect(404).problem("not_found").contains("nobody"));
    daemon.stop();
    let place = Place::with_config(&settings("every = \"1s\"\nsession = \"dead-beef\""));
    let daemon = Daemon::start(&place);
    let skipped = wait_until(&daemon, |one| !one["skipped"].is_null());
    let reason = skipped["skipped"]["reason"].as_str().unwrap();
    assert!(reason.contains("dead-beef"), "{reason}");
    daemon.stop();
}

#[test]
fn the_verbs_work_with_a_daemon_and_without_one() {
    let place = Place::with_config(&settings(
        "cron = \"0 7 * * 1-5\"\ntimezone = \"Europe/Berlin\"",
    ));
    for has_daemon in [false, true] {
        let daemon = has_daemon.then(|| Daemon::start(&place));
        let listed = place.call(&["schedules", "list"]).expect(0);
        let row = "beat     0 7 * * 1-5 Europe/Berlin";
        assert!(listed.stdout.contains(row), "{}", listed.stdout);
        let report = place.json(&["schedules", "run", "beat"]);
        assert_eq!(report["state"], "answered", "{report}");
        let listed = place.json(&["schedules", "list"]);
        assert_eq!(listed[0]["last"]["turn"], report["turn"], "{listed}");
        assert_eq!(listed[0]["last"]["scheduled_at"], Value::Null);
        place.says(&["schedules", "pause", "beat"], &["it is paused"]);
        assert_eq!(place.json(&["schedules", "list"])[0]["state"], "paused");
        place.says(&["schedules", "resume", "beat"], &["next at"]);
        place
            .call(&["schedules", "run", "nobody"])
            .expect(2)
            .says(&["does not exist", "nobody"]);
        if let Some(daemon) = daemon {
            daemon.stop();
        }
    }
    let none = Place::new();
    none.call(&["schedules", "list"])
        .expect(0)
        .says(&["no schedule"]);
}

#[test]
fn the_page_shows_schedules_and_takes_orders() {
    let place = Place::with_config(&settings("every = \"8760h\""));
    let daemon = Daemon::start(&place);
    let browser = Browser::enter(&daemon);
    let post = |path: &str, form: &str| browser.submit(path, form);
    let page = browser.get("/schedules").expect(200).text();
    page.has_all(&["every 8760h", "Pause"]);
    for (order, state) in [("pause", "paused"), ("resume", "on")] {
        let form = format!("order={order}");
        post("/schedules/beat", &form).expect(303);
        assert_eq!(schedules(&daemon)[0]["state"], state);
    }
    post("/schedules/beat/run", "").expect(303);
    wait_until(&daemon, |one| one["last"]["state"] == "answered");
    let page = browser.get("/schedules").expect(200).text();
    page.has_all(&["answered", "/turns/"]);
    post("/schedules/nobody/run", "").expect(404);
    // A token with the scope `ask` begins a turn here as over HTTP, and does not pause a schedule.
    let clerk = caller(&daemon, &json!({"name": "clerk", "scope": "ask"}));
    let page = clerk.get("/schedules").expect(200).text();
    assert!(page.contains("action=\"/schedules/beat/run\""), "{page}");
    assert!(page.contains("Pause: this needs the scope admin"), "{page}");
    clerk.send("POST", "/schedules/beat", &[], None).expect(403);
    daemon.stop();
}

#[test]
fn a_schedule_that_is_wrong_is_told_with_its_place() {
    let table: [(&str, &[&str]); 19] = rows! {
        ("every = \"1h\"\nsession = \"nolabel\"", &["unisono.toml:", "`nolabel` is not a session"]),
        ("every = \"1h\"\nsession = \" \"", &["text that is not empty"]),
        ("every = \"1h\"\nsession = \"=x\"", &["unisono.toml:", "`=x` is not a session"]),
        ("every = \"1h\"\nsession = \"unisono.process=x\"", &["the label `unisono.process` is reserved"]),
        ("every = \"1h\"\nsession = \"0123456789abcdef0123456789abcdef0\"", &["is not a session"]),
        ("every = \"1h\"\nbranch = \"draft\"", &["a new session has no branch `draft`"]),
        ("cron = \"0 7 * *\"", &["unisono.toml:11:1", "4 fields"]),
        ("cron = \"0 25 * * *\"", &["not a cron expression"]),
        ("cron = \"0 0 30 2 *\"", &["no date"]),
        ("cron = \"0 7 * * *\"\nevery = \"1h\"", &["both"]),
        ("", &["neither"]),
        ("every = \"10ms\"", &["once a second"]),
        ("every = 0", &["must be a time such as"]),
        ("every = 99999999999999", &["must be a time such as"]),
        ("every = \"1h\"\ntimezone = \"Berlin\"", &["time zone `Berlin`"]),
        ("every = \"1h\"\nmissed = \"maybe\"", &["run, skip"]),
        ("every = \"1h\"\nlead = \"nobody\"", &["schedules.beat.lead", "unknown agent `nobody`"]),
        (
            "every = \"1h\"\nsettings = { \"compaction.presett\" = \"off\" }",
            &["did you mean `compaction.preset`?"],
        ),
        (
            "every = \"1h\"\n[schedules.\"a b\"]\ntask = \"${body}\"\nevery = \"1h\"",
            &["a b", "${body}"],
        ),
    };
    for (schedule, words) in table {
        let place = Place::with_config(&settings(schedule));
        let checked = place.call(&["config", "check"]).expect(2);
        for word in words {
            assert!(checked.stdout.contains(word), "{word}: {}", checked.stdout);
        }
    }
}

#[test]
fn a_wrong_value_is_not_also_reported_as_missing() {
    let place = Place::with_config("[schedules.daily]\nevery = \"soon\"\ntask = 3\n");
    let checked = place.call(&["config", "check"]).expect(2);
    checked.stdout.has_all(&[
        "`schedules.daily.every` must be",
        "`schedules.daily.task` must be",
    ]);
    checked.stdout.has_none(&["neither", "has no `task`"]);
}
