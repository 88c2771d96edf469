//! Agents that are programs, and what they do wrong: the others' answer is still printed.

use serde_json::Value;

use crate::support::{Done, Going, HasAll as _, Place, finish, heard, until, words};

/// An agent that runs a shell script, beside one that works.
fn place(script: &str) -> Place {
    program("sh", &["-c", script])
}

fn program(program: &str, args: &[&str]) -> Place {
    let args: Vec<String> = args.iter().map(|arg| format!("{arg:?}")).collect();
    let place = Place::with_config(&format!(
        "[agents.odd]\ndescription = \"Odd\"\nkind = \"command\"\ncommand = {program:?}\n\
         args = [{}]\ntimeout = \"700ms\"\nretries = 0\n",
        args.join(", ")
    ));
    place.talk();
    place
}

fn run(place: &Place) -> Done {
    place.call(&words(
        "run talk.json --agents odd,facts --task When? --json",
    ))
}

/// The odd one fails for that cause, and says so; the others' answer is there.
#[track_caller]
fn fails(place: &Place, cause: &str, words: &[&str]) {
    let done = run(place)
        .expect(4)
        .says(words)
        .says(&["1 of 3 agents failed: odd"]);
    let report = done.json();
    assert_eq!(report["state"], "answered");
    assert_ne!(report["answer"], Value::Null);
    let odd = &report["runs"][0];
    assert_eq!(
        (odd["state"].as_str(), odd["cause"].as_str()),
        (Some("failed"), Some(cause))
    );
    assert_eq!(report["runs"][1]["state"], "done");
}

#[test]
fn a_program_reads_its_task_and_answers() {
    let place = place(r#"grep -q '"task"' && echo '{"text":"On Friday, says the program."}'"#);
    let report = run(&place).expect(0).json();
    assert_eq!(report["runs"][0]["text"], "On Friday, says the program.");
}

#[test]
fn a_program_that_is_missing() {
    fails(
        &program("no-such-program", &[]),
        "spawn_failed",
        &["no-such-program"],
    );
}

#[test]
fn a_program_that_hangs() {
    fails(&place("sleep 600"), "timeout", &["odd", "failed"]);
}

#[test]
fn a_program_that_prints_garbage() {
    fails(
        &place("printf '\\377\\376\\000'"),
        "bad_output",
        &["not UTF-8"],
    );
    fails(
        &place("echo '{\"text\": 7'"),
        "bad_output",
        &["not valid JSON"],
    );
    fails(&place("true"), "bad_output", &["empty"]);
}

#[test]
fn a_program_that_floods() {
    fails(&program("yes", &[]), "bad_output", &["odd", "failed"]);
}

#[test]
fn a_program_that_fails() {
    fails(
        &place("echo no licence >&2; exit 3"),
        "exit_failure",
        &["exit status: 3", "no licence"],
    );
}

#[test]
fn a_failure_that_matters_fails_the_turn() {
    let place = place("exit 3");
    let config = place.config();
    place.set_config(format!("{config}on_failure = \"fail\"\n"));
    let done = run(&place).expect(1).says(&["the turn failed", "odd"]);
    assert_eq!(done.json()["state"], "failed");
}

#[test]
fn a_program_inherits_where_it_is_and_what_is_passed_on_by_name() {
    let place = Place::with_config(
        "[models]\ndefault = \"extractive\"\n\
         [agents.odd]\ndescription = \"Odd\"\nkind = \"command\"\ncommand = \"env\"\n\
         env = { GEMINI_API_KEY = \"given\", MODE = \"fast\" }\nenv_pass = [\"EDITION\"]\n",
    );
    place.talk();
    let args = words("run talk.json --agents odd --task When? --json");
    let mut command = place.command(&args);
    for name in [
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "DATABASE_URL",
    ] {
        command.env(name, "a-secret-of-ones-own");
    }
    command.env("EDITION", "second").env("LC_TIME", "C");
    let report = finish(command.spawn().unwrap(), &args).expect(0).json();
    let env = report["runs"][0]["text"].as_str().unwrap();
    assert!(!env.contains("a-secret"), "{env}");
    for line in [
        "GEMINI_API_KEY=given",
        "MODE=fast",
        "EDITION=second",
        "LC_TIME=C",
    ] {
        assert!(env.lines().any(|had| had == line), "{line} in {env}");
    }
    assert!(env.contains("PATH="), "{env}");
}

/// Whether a process is there and not a zombie.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    rest.is_some_and(|rest| !rest.starts_with('Z'))
}

/// A child in a session of its own, without its parent and without the environment it began with.
#[test]
fn whoever_leaves_group_session_and_parent_ends_with_the_program() {
    for (then, code) in [
        ("sleep 1000", 4),
        ("trap '' TERM; sleep 1000", 4),
        ("echo done", 0),
        ("kill -9 $$", 4),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let pids = directory.path().join("pids");
        let pids = pids.display();
        let place = place(&format!(
            "(setsid env -i /bin/sh -c 'echo $$ >> {pids}; exec sleep 1000' &)\n\
             (setsid sh -c \"trap '' TERM; echo \\$\\$ >> {pids}; while :; do sleep 1; done\" &)\n\
             until [ $(cat {pids} 2>/dev/null | wc -l) = 2 ]; do sleep 0.01; done; {then}"
        ));
        let config = place.config();
        place.set_config(config.replace("700ms", "5s"));
        let done = run(&place);
        let report = done.expect(code).json();
        let text = std::fs::read_to_string(directory.path().join("pids")).unwrap();
        let escaped: Vec<&str> = text.lines().collect();
        assert_eq!(escaped.len(), 2, "{text} {report}");
        let all_gone = || escaped.iter().all(|pid| !lives(pid));
        until(&format!("{escaped:?} live on: {then}"), all_gone);
        if then == "kill -9 $$" {
            let said = report.to_string();
            assert!(said.contains("signal: 9"), "{said}");
        }
    }
}

/// A program that signals its whole group, as scripts do when they clean up, is not what ends the
/// process that looks after it.
#[test]
fn a_program_that_signals_its_group_leaves_nobody_behind() {
    let place = place("x");
    let pid = place.path("pid");
    let script = format!(
        "(setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000' &)\n\
         until [ -e {0} ]; do sleep 0.01; done\n\
         trap '' TERM INT HUP; kill -TERM 0; kill -INT 0; kill -HUP 0; echo cleaned up",
        pid.display()
    );
    let config = place.config();
    let config = config.replace("\"x\"", &format!("{script:?}"));
    place.set_config(config.replace("700ms", "20s"));
    let report = run(&place).expect(0).json();
    let text = report["runs"][0]["text"].as_str().unwrap();
    assert_eq!(text.trim(), "cleaned up", "{report}");
    let escaped = std::fs::read_to_string(pid).unwrap();
    ends(escaped.trim());
}

/// Killed, not stopped: nothing can be asked to stop by then.
#[test]
fn nothing_outlives_a_daemon_that_is_killed() {
    let place = Place::new();
    let (started, pid) = (place.fifo("started"), place.path("pid"));
    let script = format!(
        "(setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000' &)\n\
         until [ -e {0} ]; do sleep 0.01; done; echo $$ > {1}; exec sleep 1000",
        pid.display(),
        started.display()
    );
    place.set_config(format!(
        "[agents.waits]\ndescription = \"Test\"\nkind = \"command\"\ncommand = \"sh\"\n\
             args = [\"-c\", {script:?}]\n"
    ));
    place.talk();
    let daemon = Going::start(place.command(&["run", "talk.json", "--agents", "waits"]));
    let program = heard(&started);
    let escaped = std::fs::read_to_string(pid).unwrap();
    assert!(lives(&program) && lives(escaped.trim()));
    daemon.signal("KILL");
    ends(&program);
    ends(escaped.trim());
}

/// Waits until a process is gone.
#[track_caller]
fn ends(pid: &str) {
    until(&format!("{pid} lives on"), || !lives(pid));
}

#[test]
fn a_lead_that_cannot_delegate_says_so() {
    let place = Place::new();
    place.talk();
    let args = words("run talk.json --lead coordinator --agents risks,facts --task When?");
    place.call(&args).expect(0).says(&[
        "agent `coordinator` has the tool `delegate`, but its model `extractive` calls no tools: it \
         gives no tasks to others and answers without risks, facts: name whom it works with as its \
         `delegates`",
    ]);
    let with_tasks = [&args[..5], &["risks=what is risky?", "--task", "When?"]].concat();
    let said = place.call(&with_tasks).expect(0).stderr;
    assert!(!said.contains("calls no tools"), "{said}");

    // The shipped one is no fault of anybody's who does not use it.
    place.call(&["agents", "check"]).expect(0);
    place.set_config("[turn]\nlead = \"coordinator\"\n");
    let checked = place.call(&["agents", "check"]);
    let said = format!("{}{}", checked.stdout, checked.stderr);
    said.has_all(&["its model `extractive` calls no tools"]);
}

#[test]
fn an_agent_has_the_name_of_its_file() {
    let place = Place::new();
    let text = "---\nname: scout\ndescription: Looks.\n---\nYou look.\n";
    place.write("agents/scout.md", text);
    let checked = place.call(&["agents", "check"]).expect(2);
    let words = "unknown key `name`; remove it: an agent has the name of its file or table";
    assert!(checked.stdout.contains(words), "{checked:#?}");
}
