//! Killed, interrupted, too late: nothing that was finished is done again.

use std::path::PathBuf;

use crate::support::{Going, Place, heard, send_signal, tell};

const TALK: &str =
    r#"[{"role":"user","content":"We ship on Friday."},{"role":"assistant","content":"Noted."}]"#;

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
        place.write(
            "config/unisono.toml",
            agent("waits", &waits) + &agent("marks", &mark),
        );
        place.write("talk.json", TALK);
        Scene {
            place,
            started,
            word,
        }
    }

    /// Runs up to the point where one agent is done and the other waits; gives its process id.
    fn run(&self, more: &[&str]) -> (Going, String) {
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
    fn resume(&self) -> crate::support::Done {
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
    going.signal("KILL");
    assert_eq!(going.finish().code, None);
    // Its agent may have outlived it; end it, as a person would.
    if std::path::Path::new(&format!("/proc/{agent}")).exists() {
        send_signal("KILL", &agent);
    }

    let done = scene
        .resume()
        .expect(0)
        .says(&["resumed ", "1 of 3 agents done before"]);
    let report = done.json();
    assert_eq!(report["outcome"], "answered");
    assert_eq!(report["runs"][1]["text"], "The word is teapot.");
    assert_eq!(scene.marks(), 1, "a finished agent worked again");
    scene
        .place
        .call(&["resume"])
        .expect(0)
        .says(&["nothing to resume"]);
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
    assert_eq!(first["outcome"], "open");

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
    let (going, agent) = scene.run(&["--timeout", "3s"]);
    let done = going
        .finish()
        .expect(124)
        .says(&["timeout: the turn was cancelled"]);
    assert_eq!(done.json()["outcome"], "timeout");
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
