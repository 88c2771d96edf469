//! `unisono chat`: lines on standard input, and a person at a terminal.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, At, FakeProvider, Gate, Script};

use crate::http::Daemon;
use crate::interrupted::Scene;
use crate::support::{Done, Going, HasAll as _, Place, heard, tell};
use crate::terminal::Talking;

const TALK: &str = r#"[{"role":"user","content":"We ship on Friday."},{"role":"assistant","content":"Noted: Friday."},{"role":"user","content":"The risk is the database."},{"role":"assistant","content":"Noted: the database is a risk."}]"#;

fn chat(place: &Place, lines: &str, args: &[&str]) -> Done {
    place.call_with(lines, &[&["chat"], args].concat())
}

fn lines(done: &Done) -> Vec<Value> {
    let lines = done.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn each_line_is_a_turn_of_one_new_session() {
    let place = Place::new();
    let said = "The launch is on Friday.\n\nWho \\\nsaid so?\n";
    let done = chat(&place, said, &["--agents", "", "--json"]).expect(0);
    let turns = lines(&done);
    assert_eq!(turns.len(), 2, "{done:#?}");
    assert_eq!(turns[0]["state"], "answered");
    assert_eq!(turns[0]["session"], turns[1]["session"]);
    assert_eq!(
        turns[0]["runs"].as_array().unwrap().len(),
        1,
        "the lead alone"
    );
    let orders = "/agents\n/branch\n/history 1\n";
    let done = chat(&place, orders, &["latest", "--agents", "", "--json"]).expect(0);
    let shown = lines(&done);
    assert_eq!(shown[0][0]["agent"], "actions");
    assert_eq!(shown[1][0]["name"], "main");
    assert_eq!(shown[2]["messages"][0]["ordinal"], 4);
    let sessions = place.json(&["sessions", "list"]);
    assert_eq!(sessions.as_array().unwrap().len(), 1);
    assert_eq!(sessions[0]["title"], "The launch is on Friday.");
    let shown = place.json(&["context", "latest"]);
    assert_eq!(shown["messages"].as_array().unwrap().len(), 4);
    assert_eq!(shown["messages"][2]["text"], "Who \nsaid so?");
}

#[test]
fn orders_do_what_their_verbs_do() {
    let place = Place::new();
    place.write("talk.json", TALK);
    place.call(&["import", "talk.json"]).expect(0);
    let orders = "/branch what-if 2\nSuppose it is Monday.\n/branch\n/branch main\n/history 2\n\
                  /agents none\n/agents risks\n/agents\n/seal\n/compact keep dates\n/context\n/help\n/quit\nnever said\n";
    let done = chat(&place, orders, &["latest", "--agents", ""]).expect(0);
    let done = done.says(&[
        "branch what-if begins after #2",
        "lead answers alone",
        "lead answers with risks",
        "sealed the topic of",
        "/compact [TEXT]",
    ]);
    done.stdout.has_all(&[
        "* what-if",
        "#4 assistant\n  Noted: the database is a risk.",
    ]);
    let mut agents = done.stdout.lines();
    assert!(agents.any(|line| line.starts_with("risks ") && line.contains(" works ")));
    assert!(!done.stdout.contains("never said"));
    let tree = place.json(&["sessions", "show", "latest"]);
    let branches = tree["branches"].as_array().unwrap();
    let named = |name: &str| branches.iter().find(|b| b["name"] == name).unwrap();
    assert_eq!(named("what-if")["messages"], 4);
    assert_eq!(named("main")["messages"], 4);
}

#[test]
fn orders_print_the_json_of_their_verbs() {
    let place = Place::new();
    let said = "The launch is on Friday.\n/compact\n";
    let shown = lines(&chat(&place, said, &["--agents", "", "--json"]).expect(0));
    let why = "all remaining messages must stay";
    assert_eq!(
        (&shown[1]["state"], &shown[1]["no_change_reason"]),
        (&"nothing_to_do".into(), &why.into())
    );
    // More messages than a page of the service has.
    let note = |n: usize| {
        let role = ["user", "assistant"][n % 2];
        json!({"role": role, "content": format!("Note {n}.")})
    };
    let notes: Vec<Value> = (0..1_200).map(note).collect();
    place.write("notes.json", Value::from(notes).to_string());
    let session = place.json(&["import", "notes.json"])["session"].clone();
    let args = [session.as_str().unwrap(), "--json"];
    let shown = lines(&chat(&place, "/history 1100\n", &args).expect(0));
    let messages = shown[0]["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 1_100);
    assert_eq!(messages[1_099]["ordinal"], 1_200);
}

#[test]
fn what_is_wrong_is_said_and_the_chat_goes_on() {
    let place = Place::new();
    let said = "/contxt\n/seal\n/agents nobody\n/branch x 99\nIt goes on.\n/branch main 1\n";
    let done = chat(&place, said, &["--agents", ""]).expect(2);
    let done = done.says(&[
        "unknown command /contxt",
        "there are no messages yet",
        "unknown agent `nobody`",
        "branch `main` exists",
    ]);
    assert!(!done.stdout.trim().is_empty(), "the message was answered");
    chat(&place, "", &["nowhere"])
        .expect(2)
        .says(&["no session `nowhere`"]);
    chat(&place, "", &["latest", "--branch", "other"])
        .expect(2)
        .says(&["no branch `other`"]);
    chat(&place, "Hello.", &["--branch", "other"])
        .expect(2)
        .says(&["<SESSION>"]);
    chat(&place, "", &[]).expect(0);
    let sessions = place.json(&["sessions", "list"]);
    assert_eq!(
        sessions.as_array().unwrap().len(),
        1,
        "no message, no session"
    );
}

#[test]
fn a_failing_turn_is_told_and_does_not_end_the_chat() {
    let place = Place::with_config(
        "[agents.broken]\ndescription = \"Test\"\nkind = \"command\"\ncommand = \"false\"\nretries = 0\n",
    );
    let done = chat(
        &place,
        "First.\n/agents none\n",
        &["--lead", "broken", "--agents", ""],
    );
    done.expect(1)
        .says(&["the turn failed", "broken answers alone"]);
}

/// A provider that writes half of an answer and waits.
fn hesitant(gate: &Gate) -> FakeProvider {
    let answer = Act::answer(Answer::text("The first half. The other half.").in_pieces_of(4));
    FakeProvider::play_on_thread(Script::always(answer.hold_at(At::Event(5), gate)))
}

fn asking(provider: &FakeProvider) -> (Place, Command) {
    let place = Place::with_config(&format!(
        "[providers.openai-compatible]\nbase_url = \"{}/v1\"\n[compaction]\nsummarisers = [\"extractive\"]\n",
        provider.url()
    ));
    let command = place.command(&["chat", "--model", "openai-compatible/qwen3", "--agents", ""]);
    (place, command)
}

#[test]
fn the_answer_comes_as_the_model_writes_it() {
    let gate = Gate::new();
    let provider = hesitant(&gate);
    let (_place, mut command) = asking(&provider);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut talking = Talking::with(child, input, output);
    talking.say("Well?\n");
    talking.sees("The f");
    assert!(!talking.seen().contains("other"));
    gate.open();
    talking.sees("The other half.\n");
    assert_eq!(talking.seen(), "", "it is written once");
    talking.ends();
}

#[test]
fn a_person_at_a_terminal_edits_lines_and_sees_how_full_it_is() {
    let gate = Gate::new();
    let provider = hesitant(&gate);
    gate.open();
    let (_place, command) = asking(&provider);
    let mut talking = Talking::at_a_terminal(command);
    talking.sees("/help lists the commands");
    talking.sees("main 0 % >");
    // A slip of the keyboard, taken back; then the line.
    talking.say("/hx\u{7f}elp\r");
    talking.sees("/compact [TEXT]");
    talking.say("/qu\t");
    talking.sees("/quit");
    talking.say("\u{15}Well?\r");
    talking.sees("The other half.");
    talking.sees("main ");
    // What was said before comes back with the arrow.
    talking.say("\u{1b}[A");
    talking.sees("Well?");
    talking.say("\u{3}");
    talking.sees("/quit or Ctrl-D");
    // Only a line that is being edited takes what follows.
    talking.sees("main ");
    talking.say("/branch what-if 1\r");
    talking.sees("what-if 0 % >");
    talking.say("\u{4}");
    talking.sees("--branch what-if` continues it");
    talking.ends();
}

#[test]
fn lines_that_were_typed_ahead_are_all_taken() {
    let place = Place::new();
    let mut talking = Talking::at_a_terminal(place.command(&["chat", "--agents", ""]));
    talking.say("What is decided?\rWhat is open?\r/quit\r");
    talking.ends();
    let said = place.json(&["history", "latest", "--role", "user"]);
    assert_eq!(said["messages"].as_array().map(Vec::len), Some(2), "{said}");
}

#[test]
fn an_interruption_cancels_the_turn_and_not_the_chat() {
    let scene = Scene::new();
    let args = ["chat", "--lead", "waits", "--agents", ""];
    let mut command = scene.place.command(&args);
    let fifo = scene.place.fifo("lines");
    // Opened for both: neither side waits for the other.
    let mut input = File::options().read(true).write(true).open(&fifo).unwrap();
    command.stdin(File::open(&fifo).unwrap());
    let mut going = Going::start(command);
    writeln!(input, "Which word?").unwrap();
    heard(&scene.started);
    going.signal("INT");
    going.wait_for(&["cancelled"]);
    writeln!(input, "And now?").unwrap();
    heard(&scene.started);
    tell(&scene.word, "teapot");
    writeln!(input, "/quit").unwrap();
    let done = going.finish().expect(0);
    assert_eq!(done.stdout.trim(), "The word is teapot.");
}

#[test]
fn ended_by_the_system_the_turn_stays_open() {
    let scene = Scene::new();
    let fifo = scene.place.fifo("lines");
    let mut input = File::options().read(true).write(true).open(&fifo).unwrap();
    let mut command = scene
        .place
        .command(&["chat", "--lead", "waits", "--agents", ""]);
    command.stdin(File::open(&fifo).unwrap());
    let going = Going::start(command);
    writeln!(input, "Which word?").unwrap();
    heard(&scene.started);
    going.signal("TERM");
    going.finish().expect(130).says(&["continues it"]);
    let going = Going::start(scene.place.command(&["resume", "--json"]));
    heard(&scene.started);
    tell(&scene.word, "kettle");
    assert_eq!(
        going.finish().expect(0).json()["answer"],
        "The word is kettle."
    );
}

#[test]
fn who_works_is_asked_of_the_daemon() {
    let config = "[server]\nreload_seconds = 0\n";
    let clerk = "[agents.clerk]\ndescription = \"keeps the books\"\nmodel = \"extractive\"\n\
                 [turn]\nlead = \"clerk\"\nagents = [\"facts\"]\n";
    let place = Place::with_config(&format!("{config}{clerk}"));
    let daemon = Daemon::start(&place);
    // Those who call have other agents than the daemon that works.
    let mine = "[agents.mine]\ndescription = \"only here\"\n";
    place.set_config(format!("{config}{mine}"));
    let orders = "/agents\n/agents risks,facts\n/agents none\n/agents default\n/agents mine\n";
    let done = chat(&place, orders, &[]);
    let done = done.expect(2).says(&[
        "clerk answers with facts, risks",
        "clerk answers alone",
        "clerk answers with facts\n",
        "unknown agent `mine`",
    ]);
    let line = |name: &str| {
        let mut lines = done.stdout.lines();
        let line = lines.find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap_or_default().to_owned()
    };
    assert!(line("clerk").contains(" answers "), "{done:#?}");
    assert!(line("facts").contains(" works "), "{done:#?}");
    assert_eq!(line("mine"), "", "{done:#?}");
    let whom = daemon.json("/v1/agents?lead=risks&agents=");
    let roles = whom.as_array().unwrap().iter();
    let roles = roles.filter(|agent| agent["role"] != Value::Null);
    assert_eq!(
        roles.map(|one| &one["agent"]).collect::<Vec<_>>(),
        ["risks"]
    );
    daemon.get("/v1/agents?lead=mine").refused(422, "refused");
    daemon.stop();
}

#[test]
fn a_chat_beside_a_daemon_shows_what_its_own_flags_make_of_the_agents() {
    let place = Place::new();
    place.write("talk.json", TALK);
    place.call(&["import", "talk.json"]).expect(0);
    let daemon = Daemon::start(&place);
    let models = |done: &Done| -> Vec<String> {
        let rows = done
            .stdout
            .lines()
            .filter(|line| line.starts_with("risks "));
        rows.map(str::to_owned).collect()
    };
    let window = |args: &[&str]| {
        let shown = [&["context", "latest"], args].concat();
        place.json(&shown)["window_tokens"].as_u64().unwrap()
    };
    let usual = models(&chat(&place, "/agents\n", &["latest"]).expect(0));
    assert!(usual[0].contains("extractive"), "{usual:?}");
    let model = ["latest", "--model", "anthropic/claude-sonnet-4-5"];
    let chosen = models(&chat(&place, "/agents\n", &model).expect(0));
    assert!(chosen[0].contains("claude-sonnet-4-5"), "{chosen:?}");
    let set = ["--set", "models.default=anthropic/claude-sonnet-4-5"];
    assert_ne!(window(&[]), window(&set));
    let context = chat(&place, "/context\n", &model).expect(0).stdout;
    assert_ne!(
        context,
        chat(&place, "/context\n", &["latest"]).expect(0).stdout
    );

    for (own, says) in [
        ("%5B%5D", "no object in JSON"),
        (
            "%7B%22store.path%22:%22x%22%7D",
            "cannot be set for one request",
        ),
    ] {
        let wrong = daemon.get(&format!("/v1/agents?settings={own}"));
        assert!((400..500).contains(&wrong.status));
        let reply = wrong.json()["detail"].as_str().unwrap().to_owned();
        assert!(reply.contains(says), "{reply}");
    }
    daemon.stop();
}
