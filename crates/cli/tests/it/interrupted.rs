//! Killed, interrupted, too late: nothing that was finished is done again.

use std::path::PathBuf;
use std::process::Stdio;

use unisono_fake_provider::{Act, FakeProvider, Refusal, RetryAfter, Script};

use crate::http::Daemon;
use crate::support::{
    Going, HasAll as _, Place, finish, heard, is_alive, kill_if_alive, tell, until, words,
};

/// An agent that says when it starts and then waits for a word; one that leaves a mark each time
/// it works.
pub(crate) struct Scene {
    pub(crate) place: Place,
    pub(crate) started: PathBuf,
    pub(crate) word: PathBuf,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        let place = Place::new();
        let (started, word) = (place.fifo("started"), place.fifo("word"));
        let waits = format!(
            "echo $$ > '{}'; read -r word < '{}'; echo \"The word is $word.\"",
            started.display(),
            word.display()
        );
        let mark = format!(
            "echo x >> '{}'; echo Marked.",
            place.path("marks").display()
        );
        let agent = |name: &str, script: &str| {
            format!(
                "[agents.{name}]\ndescription = \"Test\"\nkind = \"command\"\ncommand = \"sh\"\n\
                 args = [\"-c\", {script:?}]\ntimeout = \"10m\"\n"
            )
        };
        place.set_config(agent("waits", &waits) + &agent("marks", &mark));
        place.talk();
        Scene {
            place,
            started,
            word,
        }
    }

    /// Runs up to the point where one agent is done and the other waits; gives its process id.
    pub(crate) fn run(&self, more: &[&str]) -> (Going, String) {
        let args = [
            "run",
            "talk.json",
            "--agents",
            "marks,waits",
            "--task",
            "Which word?",
            "--json",
        ];
        let mut going = Going::start(self.place.command(&[&args[..], more].concat()));
        let agent = heard(&self.started);
        going.wait_for(&["marks", "done"]);
        (going, agent)
    }

    pub(crate) fn marks(&self) -> usize {
        std::fs::read_to_string(self.place.path("marks"))
            .unwrap()
            .lines()
            .count()
    }

    /// Continues and ends it.
    pub(crate) fn resume(&self) -> crate::support::Done {
        let going = Going::start(self.place.command(&["resume", "--json"]));
        heard(&self.started);
        tell(&self.word, "teapot");
        going.finish()
    }
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let scene = Scene::new();
    let (going, agent) = scene.run(&[]);
    going.kill();
    // Its agent may have outlived it; end it, as a person would.
    kill_if_alive(&agent);

    let done = scene
        .resume()
        .expect(0)
        .says(&["resumed ", "1 of 3 agents done before"]);
    let report = done.json();
    assert_eq!(report["state"], "answered");
    assert_eq!(report["runs"][1]["text"], "The word is teapot.");
    assert_eq!(scene.marks(), 1, "a finished agent worked again");
    scene
        .place
        .call(&["resume"])
        .expect(0)
        .says(&["nothing to resume"]);
}

#[test]
fn a_second_interruption_ends_a_run_that_waits_for_a_stuck_daemon() {
    let place = Place::new();
    place.talk();
    place.call(&["import", "talk.json"]).expect(0);
    let daemon = Daemon::start(&place);
    daemon.going.signal("STOP");
    let run = place.command(&["run", "--session", "latest", "--task", "What?"]);
    let mut going = Going::start(run);
    going.wait_for(&["daemon ", "http://"]);
    let id = going.id().to_string();
    until("the run goes on", || {
        going.signal("INT");
        !is_alive(&id)
    });
    going.finish().expect(130);
    daemon.going.signal("CONT");
    daemon.stop();
}

#[test]
fn an_interrupted_run_stays_open_and_says_how_to_go_on() {
    let scene = Scene::new();
    let (going, _) = scene.run(&[]);
    going.signal("INT");
    let done = going
        .finish()
        .expect(130)
        .says(&["interrupted: `unisono resume "]);
    let first = done.json();
    assert_eq!(first["state"], "open");

    let report = scene.resume().expect(0).json();
    assert_eq!(
        (&report["snapshot"], &report["turn"]),
        (&first["snapshot"], &first["turn"])
    );
    assert_eq!(scene.marks(), 1, "a finished agent worked again");
}

#[test]
fn a_run_that_takes_too_long_is_cancelled() {
    let scene = Scene::new();
    let (going, agent) = scene.run(&["--timeout", "10s"]);
    let done = going
        .finish()
        .expect(124)
        .says(&["timeout: the turn was cancelled"]);
    assert_eq!(done.json()["state"], "timeout");
    assert!(
        !std::path::Path::new(&format!("/proc/{agent}")).exists(),
        "its program still runs"
    );
    scene
        .place
        .call(&["resume"])
        .expect(0)
        .says(&["nothing to resume"]);
}

#[test]
fn an_input_that_does_not_end_is_read_until_the_command_ends() {
    let place = Place::new();
    place.talk();
    place.json(&["import", "talk.json"]);
    for command in [
        "run - --timeout 100ms",
        "delegate latest facts --task - --timeout 100ms",
    ] {
        let args = words(command);
        let mut child = place.command(&args);
        let mut child = child.stdin(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let done = finish(child, &args).expect(124);
        done.says(&["the input has not ended"]);
        drop(input);
    }
}

#[test]
fn an_agent_that_changed_since_is_named_and_the_turn_goes_on_with_the_one_of_then() {
    let scene = Scene::new();
    let (going, _) = scene.run(&[]);
    going.signal("INT");
    going.finish().expect(130);
    let before = scene.place.config();
    let (waits, _) = before.split_once("[agents.marks]").unwrap();
    scene
        .place
        .set_config(waits.replace("The word is", "It was changed:"));

    let done = scene.resume().expect(0).says(&[
        "agent `waits` has changed since the turn began: the turn continues with the agent as it was",
        "agent `marks` was removed since the turn began",
    ]);
    let report = done.json();
    assert_eq!(report["runs"][1]["text"], "The word is teapot.");
    assert_eq!(
        report["changed_agents"],
        serde_json::json!(["marks", "waits"])
    );
}

#[test]
fn a_resumed_run_that_pauses_says_why() {
    let limited = Act::refuse(Refusal::RateLimited { seconds: None });
    let limited = limited.retry_after(RetryAfter::Seconds(3_600));
    let provider = FakeProvider::play_on_thread(Script::always(limited));
    let place = Place::with_openai(&provider, "");
    place.talk();
    let run = words("run talk.json --model openai/gpt-4o --task What? --agents ");
    let paused = [
        "retry",
        "asks to wait 3600.0 s",
        "the next attempt is not before",
    ];
    for command in [&run[..], &["resume"]] {
        let mut going = Going::start(place.keyed_command(command));
        going.wait_for(&paused);
        going.kill();
    }
    assert_eq!(provider.request_count(), 1);
}

#[test]
fn a_resumed_turn_that_fails_is_told_although_a_later_one_is_answered() {
    let place = Place::new();
    let agent = |name: &str, end: &str| {
        let started = place.fifo(&format!("{name}-started"));
        let word = place.fifo(&format!("{name}-word"));
        let script = format!(
            "echo $$ > '{}'; read -r word < '{}'; {end}",
            started.display(),
            word.display()
        );
        let config = format!(
            "[agents.{name}]\ndescription = \"Test\"\nkind = \"command\"\ncommand = \"sh\"\n\
             args = [\"-c\", {script:?}]\ntimeout = \"10m\"\nretries = 0\non_failure = \"fail\"\n"
        );
        (config, started, word)
    };
    let (broken, works) = (agent("broken", "exit 1"), agent("works", "echo Fine."));
    place.set_config(broken.0.clone() + &works.0);
    for (name, started) in [("broken", &broken.1), ("works", &works.1)] {
        let talk = format!(r#"[{{"role":"user","content":"It {name}."}}]"#);
        place.write("talk.json", talk);
        let run = ["run", "talk.json", "--agents", name, "--task", "When?"];
        let going = Going::start(place.command(&run));
        heard(started);
        going.signal("INT");
        going.finish().expect(130);
    }

    let going = Going::start(place.command(&["resume", "--json"]));
    for (_, started, word) in [&broken, &works] {
        heard(started);
        tell(word, "on");
    }
    let done = going.finish().expect(1).says(&["delegate_failed"]);
    let states = done.stdout.lines().map(|line| {
        let turn: serde_json::Value = serde_json::from_str(line).unwrap();
        turn["state"].as_str().unwrap().to_owned()
    });
    assert_eq!(states.collect::<Vec<_>>(), ["failed", "answered"]);
}

#[test]
fn a_session_without_open_turns_is_not_read_to_see_that() {
    use unisono_store::Append;

    let place = Place::with_config("[compaction]\nsummarisers = [\"extractive\"]\n");
    place.talk();
    let imported = place.json(&["import", "talk.json"]);
    let session: unisono_context::SessionId =
        imported["session"].as_str().unwrap().parse().unwrap();
    let store = place.path("data/unisono");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let opened = unisono::local::open_store(&store).await.unwrap();
        let engine = opened.journal.engine();
        let claim = opened.journal.claim(session).await.unwrap();
        let last = engine
            .read(session.into(), claim.last_seq, 1)
            .await
            .unwrap();
        let append = Append {
            session: session.into(),
            epoch: claim.epoch,
            expected_seq: claim.last_seq,
            // An event that nobody can read, and behind it one that says that nothing is open.
            payloads: vec![vec![0xFF; 9], last[0].payload.clone()],
        };
        engine.append(append).await.unwrap();
        opened.journal.close().await.unwrap();
    });
    place.says(&["resume"], &["nothing to resume"]);
    place.call(&["resume", "latest"]).expect(1);
}

#[test]
fn an_open_run_is_cancelled_without_anything_being_started() {
    let scene = Scene::new();
    let (going, _) = scene.run(&[]);
    let held = format!("is held by pid {}", going.id());
    let place = &scene.place;
    place.fails(&["runs", "cancel", "latest"], &[&held]);
    going.signal("INT");
    let turn = going.finish().expect(130).json()["turn"].clone();

    let open = place.json(&["runs", "list", "--state", "running"]);
    let [run] = &open.as_array().unwrap()[..] else {
        panic!("one is open: {open:#}");
    };
    assert_eq!((&run["agent"], &run["turn"]), (&"waits".into(), &turn));
    let id = run["run"].as_str().unwrap();
    let short = id.rsplit('-').next().unwrap();
    let cancelled = place.json(&["runs", "cancel", short]);
    assert_eq!(cancelled["cancelled"], serde_json::json!([id]));
    assert_eq!(cancelled["turn_ended"], false);
    place.refuses(&["runs", "cancel", short], &["is not open"]);
    let shown = place.call(&["runs", "show", short]).expect(0).stdout;
    shown.has_all(&["waits", "cancelled", "Which word?", "delegate 2"]);

    // The rest goes on; the one that was cancelled would wait for its word for ever.
    let report = place.call(&["resume", "--json"]).expect(0).json();
    assert_eq!(report["state"], "answered", "{report:#}");
    let states = place.json(&["runs", "list"]);
    let states: Vec<&str> = states
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["done", "cancelled", "done"]);
    assert_eq!(scene.marks(), 1);
    assert_eq!(place.json(&["replay"])["mismatches"], 0);
}

#[test]
fn an_open_turn_is_cancelled_with_all_its_runs() {
    let scene = Scene::new();
    let (going, _) = scene.run(&[]);
    going.signal("INT");
    let turn = going.finish().expect(130).json()["turn"].clone();
    let turn = turn.as_str().unwrap();
    let cancelled = scene.place.json(&["runs", "cancel", turn]);
    assert_eq!(cancelled["turn_ended"], true);
    assert_eq!(cancelled["cancelled"].as_array().unwrap().len(), 1);
    scene
        .place
        .call(&["resume"])
        .expect(0)
        .says(&["nothing to resume"]);
    scene
        .place
        .call(&["runs", "cancel", turn])
        .expect(2)
        .says(&["is not open"]);
}
