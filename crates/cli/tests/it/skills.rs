//! Skills of a project: every agent knows them, an agent reads one when its task needs it.

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, FakeProvider, Script};

use crate::http::Daemon;
use crate::support::{Done, HasAll as _, Place, example};

const SKILL: &str = "---\nname: release-notes\ndescription: How release notes are written here.\n---\nLead with the reader. See references/tone.md.\n";

/// A project with a skill, and a model that reads it before it answers.
struct Scene {
    provider: FakeProvider,
    place: Place,
}

impl Scene {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Scene {
        Scene::by(Script::sequence(answers))
    }

    fn by(script: Script) -> Scene {
        let provider = FakeProvider::play_on_thread(script);
        let model = "[models]\ndefault = \"openai/gpt-4o-mini\"\n";
        let place = Place::with_openai(&provider, model);
        place.write("skills/release-notes/SKILL.md", SKILL);
        place.write("skills/release-notes/references/tone.md", "No jokes.");
        Scene { provider, place }
    }

    fn call(&self, args: &[&str]) -> Done {
        self.place.keyed(args)
    }

    fn bodies(&self) -> Vec<Value> {
        let requests = self.provider.requests().into_iter();
        let bodies = requests.map(|request| serde_json::from_slice(&request.body).unwrap());
        bodies.collect()
    }
}

fn read(arguments: &Value) -> Answer {
    Answer::call("skill", arguments.to_string())
}

fn tools(body: &Value) -> Vec<&str> {
    let tools = body["tools"].as_array().into_iter().flatten();
    let names = tools.filter_map(|tool| tool["function"]["name"].as_str());
    names.collect()
}

#[test]
fn an_agent_reads_a_skill_into_its_own_run_and_the_turn_is_replayed() {
    let scene = Scene::new([
        read(&json!({"name": "release-notes"})),
        read(&json!({"name": "release-notes", "file": "references/tone.md"})),
        read(&json!({"name": "release-notes", "file": "../../config/unisono.toml"})),
        read(&json!({"name": "poems"})),
        Answer::text("The move is on 6 March."),
    ]);
    let ask = [
        "run",
        &example(),
        "--agents",
        "",
        "-t",
        "Write the notes.",
        "--json",
    ];
    let done = scene.call(&ask).expect(0).json();
    let bodies = scene.bodies();
    assert_eq!(bodies.len(), 5);
    let system = bodies[0]["messages"][0]["content"].to_string();
    system.has_all(&["- release-notes: How release notes are written here."]);
    assert!(tools(&bodies[0]).contains(&"skill"));
    let request = bodies[4]["messages"].to_string();
    request.has_all(&[
        "Lead with the reader.",
        "references/tone.md",
        "No jokes.",
        "is not in the folder of skill",
        "does not exist; available are",
    ]);
    assert!(!request.contains("TEST_KEY"), "nothing outside is read");

    // What was read is in the journal: the turn is the same when the skill is gone.
    let turn = done["turn"].as_str().unwrap();
    std::fs::remove_dir_all(scene.place.path("skills")).unwrap();
    let replayed = scene.call(&["replay", turn]).expect(0);
    replayed.stdout.has_all(&["checks hold"]);
    // And no message: the next turn has the answer alone.
    let messages = scene.call(&["history", "latest"]).expect(0).stdout;
    assert!(messages.contains("The move is on 6 March.") && !messages.contains("No jokes."));
}

#[test]
fn without_skills_there_is_no_tool_and_an_agent_is_told_whole_those_it_names() {
    let scene = Scene::new([Answer::text("Well."), Answer::text("Well.")]);
    let ask = |rest: &[&str]| {
        let mut args = vec!["run", "--agents", "", "-t", "Notes?", "--lead", "clerk"];
        let file = example();
        args.insert(1, &file);
        args.extend(rest);
        scene.call(&args)
    };
    scene.place.write(
        "agents/clerk.md",
        "---\ndescription: Writes\nskills: [release-notes]\n---\nBe exact.\n",
    );
    ask(&["--set", "turn.skills_bytes=0"]).expect(0);
    let bodies = scene.bodies();
    assert!(!tools(&bodies[0]).contains(&"skill"));
    let request = bodies[0]["messages"].to_string();
    assert!(!request.contains("- release-notes:"), "{request}");
    let request = request.split_once("Be exact.").expect("its instructions").1;
    assert!(request.contains("# Skill release-notes") && request.contains("Lead with the reader."));

    let checked = |skill: &str| {
        scene.place.write(
            "agents/clerk.md",
            format!("---\ndescription: Writes\nskills: [{skill}]\n---\nBe exact.\n"),
        );
        scene.call(&["agents", "check"])
    };
    let wrong = checked("release-note").expect(2).stdout;
    wrong.has_all(&["names an unknown skill `release-note`; did you mean `release-notes`?"]);
    scene.place.write("skills/Bad/SKILL.md", SKILL);
    let warned = checked("release-notes").expect(0).stdout;
    warned.has_all(&["skills/Bad/SKILL.md: warning: the skill is left out"]);
}

#[test]
fn a_daemon_notices_a_skill_that_is_written() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let messages = json!([{"role": "user", "content": "The move is on 6 March."}]);
    let made = daemon
        .post(
            "/v1/sessions",
            &json!({"title": "A move", "messages": messages}),
        )
        .expect(201)
        .json();
    let context = format!("/v1/sessions/{}/context", made["session"].as_str().unwrap());
    let figure = |name: &str| daemon.get(&context).expect(200).json()[name].clone();
    let system = || figure("system").to_string();
    let offers_skill = || figure("tools").to_string().contains("\"skill\"");
    assert!(!system().contains("release-notes"));
    assert!(!offers_skill());
    assert_eq!(figure("skills_tokens"), 0);
    place.write("skills/release-notes/SKILL.md", SKILL);
    daemon.post("/v1/agents/reload", &json!({})).expect(200);
    assert!(system().contains("- release-notes: How"), "{}", system());
    // Before a turn has it, too.
    assert!(offers_skill());
    let skills = figure("skills_tokens").as_u64();
    assert!(skills > Some(5) && skills <= figure("system_tokens").as_u64());
    daemon.stop();
}

#[test]
fn a_compaction_keeps_the_list_of_skills_and_repeats_no_body() {
    let scene = Scene::by(Script::by(|request| {
        let body = request.json();
        // A summariser's request has another form.
        let last = body["messages"].as_array().and_then(|all| all.last());
        let is_task = last.is_some_and(|last| {
            last["role"] == "user" && last["content"].to_string().contains("Write the notes")
        });
        Act::answer(match is_task {
            true => read(&json!({"name": "release-notes"})),
            false => Answer::text("The move is on 6 March."),
        })
    }));
    let file = example();
    let ask = ["run", &file, "--agents", "", "-t", "Write the notes."];
    scene.call(&ask).expect(0);
    let compact = ["compact", "latest", "--yes", "--on-failure", "extractive"];
    scene.call(&compact).expect(0);
    let checkpoints = scene.call(&["checkpoints", "list", "latest", "--json"]);
    let checkpoints = checkpoints.expect(0).json();
    assert!(!checkpoints.as_array().unwrap().is_empty());
    let before = scene.bodies();
    let has_body = |body: &Value| body.to_string().contains("Lead with the reader.");
    assert!(before.iter().any(has_body), "the agent has read it");

    let again = ["delegate", "latest", "facts", "-t", "And then?"];
    scene.call(&again).expect(0);
    let after = &scene.bodies()[before.len()..];
    assert!(!after.iter().any(has_body), "{after:?}");
    let line = "- release-notes: How release notes are written here.";
    // Requests of summarisers have another form.
    let of_agents = after.iter().filter(|body| body["messages"].is_array());
    let lists = of_agents.map(|body| body.to_string().matches(line).count());
    assert_eq!(lists.collect::<Vec<_>>(), [1, 1], "a delegate and the lead");
    let context = scene.call(&["context", "latest", "--json"]).expect(0);
    assert!(context.stdout.contains(line) && !context.stdout.contains("Lead with the reader."));
}
