//! Coding agents, spoken to over the Agent Client Protocol: programs of a test, and this one.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::http::Daemon;
use crate::support::{Done, Going, HasAll as _, Place, finish, heard, is_alive, tell, until};

/// An agent that says that it works, and waits for a word before it answers. In its working
/// directory it leaves a file first.
const AGENT: &str = r#"
import json, os, sys
def send(**message):
    print(json.dumps(dict(jsonrpc="2.0", **message)), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize": send(id=id, result=dict(protocolVersion=1))
    elif method == "session/new": send(id=id, result=dict(sessionId="s"))
    elif method == "session/prompt":
        open("made", "a").write("x")
        open(sys.argv[1] + ".prompt", "w").write(message["params"]["prompt"][0]["text"])
        open(sys.argv[1], "w").write("%s\n" % os.getpid())
        word = open(sys.argv[2]).readline().strip()
        if "COST" in os.environ:
            cost = dict(amount=float(os.environ["COST"]), currency="USD")
            send(method="session/update", params=dict(sessionId="s",
                 update=dict(sessionUpdate="usage_update", used=1, size=2, cost=cost)))
        text = dict(type="text", text="The word is %s." % word)
        send(method="session/update", params=dict(sessionId="s",
             update=dict(sessionUpdate="agent_message_chunk", content=text)))
        usage = json.loads(os.environ.get("USAGE", "null"))
        send(id=id, result=dict(stopReason="end_turn", usage=usage))
"#;

const ASK: [&str; 5] = ["run", "talk.json", "--task", "Which word?", "--json"];

struct Scene {
    place: Place,
    started: PathBuf,
    word: PathBuf,
}

impl Scene {
    /// A place whose agent `coder` works in the repository `code`.
    fn new(more: &str) -> Scene {
        let place = Place::new();
        let (started, word) = (place.fifo("started"), place.fifo("word"));
        place.write("agent.py", AGENT);
        place.write("code/a", "one");
        let script = "git init -q . && git add . && git -c user.name=t -c user.email=t@test \
                      commit -q -m one";
        let code = place.path("code");
        let mut made = Command::new("sh");
        let made = made.args(["-ec", script]).current_dir(&code);
        assert!(made.status().unwrap().success());
        let args = [place.path("agent.py"), started.clone(), word.clone()];
        let agent = format!(
            "[models]\ndefault = \"extractive\"\n[turn]\nagents = [\"coder\"]\n\
             [agents.coder]\ndescription = \"Codes\"\nkind = \"acp\"\ncommand = \"python3\"\n\
             args = {args:?}\ncwd = {code:?}\ntimeout = \"10m\"\nretries = 0\n{more}"
        );
        place.set_config(agent);
        place.talk();
        Scene {
            place,
            started,
            word,
        }
    }

    /// Has the program ended while the agent works, and the agent with it.
    fn killed(&self) {
        let going = Going::start(self.place.command(&ASK));
        let agent = heard(&self.started);
        going.kill();
        until("the agent lives on", || !is_alive(&agent));
    }

    /// Goes on with the agent's answer.
    fn answered(&self, args: &[&str]) -> Done {
        let going = Going::start(self.place.command(args));
        heard(&self.started);
        tell(&self.word, "teapot");
        going.finish()
    }

    /// How often the agent was given its task in the repository itself.
    fn made(&self) -> usize {
        let made = std::fs::read(self.place.path("code/made"));
        made.map_or(0, |made| made.len())
    }
}

pub(crate) fn coder(report: &Value) -> &Value {
    let mut runs = report["runs"].as_array().unwrap().iter();
    runs.find(|run| run["agent"] == "coder").unwrap()
}

#[test]
fn the_cost_of_a_coding_agent_counts_in_the_budgets_of_its_session() {
    let more = "env = { COST = \"0.25\" }\n[budget.session]\nmax_cost_usd = 0.3\n";
    let scene = Scene::new(more);
    let report = scene.answered(&ASK).expect(0).json();
    assert_eq!(coder(&report)["cost_usd"], 0.25, "{report}");
    let budgets = report["budgets"].as_array().unwrap();
    let of_session = budgets.iter().find(|one| one["level"] == "session");
    assert_eq!(of_session.unwrap()["spent"], 0.25, "{report}");
    // The second cost is over the budget, and a third run does not begin.
    let more = scene.answered(&ASK).json();
    assert_eq!(coder(&more)["cause"], "budget_exceeded", "{more}");
    let refused = scene.place.call(&ASK).json();
    assert_eq!(refused["session"], report["session"]);
    assert_eq!(coder(&refused)["cause"], "budget_exceeded", "{refused}");
    assert_eq!(scene.made(), 2);
}

#[test]
fn tokens_that_a_coding_agent_reports_at_its_end_count_for_other_sessions_at_once() {
    let usage = r#"env = { USAGE = '{"totalTokens": 60000}' }"#;
    let more = format!("{usage}\n[budget.daemon]\nmax_tokens = 50_000\n");
    let scene = Scene::new(&more);
    let daemon = Daemon::start(&scene.place);
    let ask = || {
        let turns = format!("/v1/sessions/{}/turns", daemon.session(&json!({})));
        let task = json!({"task": "Which word?", "lead": "coder", "agents": [], "wait": false});
        let turn = daemon.post(&turns, &task).expect(202).json();
        format!("{turns}/{}", turn["turn"].as_str().unwrap())
    };
    let ended = |turn: &str| daemon.awaited(turn, |turn| !turn["ended_at"].is_null());
    let first = ask();
    heard(&scene.started);
    tell(&scene.word, "teapot");
    assert_eq!(ended(&first)["state"], "answered");
    let refused = ended(&ask());
    assert!(refused.to_string().contains("budget_exceeded"), "{refused}");
    assert_eq!(scene.made(), 1);
    daemon.stop();
}

#[test]
fn a_coding_agent_works_for_a_turn_in_a_worktree_of_its_own() {
    let scene = Scene::new("worktree = true\nallow = [\"read\", \"edit\"]\n");
    let report = scene.answered(&ASK).expect(0).json();
    let run = coder(&report);
    assert_eq!(run["state"], "done", "{report}");
    let text = run["text"].as_str().unwrap();
    assert!(
        text.starts_with("The word is teapot.\n\nThe git worktree "),
        "{text}"
    );
    assert!(text.ends_with("is kept: 1 changed file."), "{text}");
    assert_eq!(scene.made(), 0);

    // The record says what it was given, and that no cache is shared.
    let events = format!(
        "{:?}",
        scene.place.events(report["session"].as_str().unwrap())
    );
    assert!(events.contains("acp.prompt.1") && events.contains(r#"\"shares\":\"text\""#));
    // What it was given is made again from the journal, byte for byte.
    let given = std::fs::read_to_string(scene.place.path("started.prompt")).unwrap();
    let why = scene.place.call(&["why", "coder", "--raw"]).expect(0);
    assert_eq!(why.stdout, given);
    assert!(given.contains("We ship on Friday.") && given.ends_with("Your task:\nWhich word?"));
    let shown = scene.place.json(&["agents", "show", "coder"]);
    assert_eq!(shown["acp"]["allow"], json!(["read", "edit"]), "{shown}");
    assert_eq!(shown["acp"]["contract"], "at_most_once");
    let replayed = scene.place.json(&["replay"]);
    assert_eq!(replayed["mismatches"], 0, "{replayed}");
}

#[test]
fn an_agent_that_was_killed_at_work_is_not_given_its_task_twice() {
    let scene = Scene::new("worktree = true\n");
    scene.killed();
    let resumed = scene.place.command(&["resume", "--json"]).spawn().unwrap();
    let report = finish(resumed, &["resume"]).json();
    let run = coder(&report);
    assert_eq!(run["cause"], "bad_input", "{report}");
    let reason = run["reason"].as_str().unwrap();
    reason.has_all(&[
        "nobody knows",
        "/code/.git/unisono/",
        "kept: 1 changed file",
        "at_most_once",
    ]);
}

#[test]
fn an_idempotent_agent_that_was_killed_at_work_begins_again() {
    let scene = Scene::new("contract = \"idempotent\"\n");
    scene.killed();
    let report = scene.answered(&["resume", "--json"]).json();
    let run = coder(&report);
    assert_eq!(
        (&run["state"], &run["text"]),
        (&"done".into(), &"The word is teapot.".into())
    );
    assert_eq!(scene.made(), 2);
}

#[test]
fn a_turn_that_is_cancelled_ends_the_agent_and_all_it_started() {
    let scene = Scene::new("worktree = true\n");
    let session = scene.place.json(&["import", "talk.json"])["session"].clone();
    let daemon = Daemon::start(&scene.place);
    let turns = format!("/v1/sessions/{}/turns", session.as_str().unwrap());
    let task = json!({"task": "Which word?", "wait": false});
    let turn = daemon.post(&turns, &task).expect(202).json();
    let agent = heard(&scene.started);
    let turn = format!("{turns}/{}", turn["turn"].as_str().unwrap());
    daemon
        .post(&format!("{turn}/cancel"), &json!({}))
        .expect(200);
    until("the agent lives on", || !is_alive(&agent));
    // What it had made by then is still there.
    let kept = std::fs::read_dir(scene.place.path("code/.git/unisono")).unwrap();
    assert_eq!(kept.count(), 1);
    daemon.stop();
}

#[test]
fn this_program_is_a_coding_agent_of_another() {
    let there = Place::with_config("[models]\ndefault = \"extractive\"\n");
    let at = |name: &str| there.path(name).display().to_string();
    let here = Place::with_config(&format!(
        "[models]\ndefault = \"extractive\"\n[turn]\nagents = [\"far\"]\n\
         [agents.far]\ndescription = \"Far\"\nkind = \"acp\"\ncommand = {:?}\nargs = [\"acp\"]\n\
         cwd = {:?}\nenv = {{ HOME = {:?}, XDG_CONFIG_HOME = {:?}, XDG_DATA_HOME = {:?} }}\n",
        env!("CARGO_BIN_EXE_unisono"),
        at(""),
        at(""),
        at("settings"),
        at("data"),
    ));
    here.talk();
    let task = ["run", "talk.json", "--task", "When do we ship?", "--json"];
    let report = here.call(&task).expect(0).json();
    let mut runs = report["runs"].as_array().unwrap().iter();
    let far = runs.find(|run| run["agent"] == "far").unwrap();
    assert_eq!(far["state"], "done", "{report}");
    assert!(far["text"].as_str().unwrap().contains("Friday"), "{report}");
    let sessions = there.json(&["sessions", "list"]);
    assert_eq!(sessions.as_array().map(Vec::len), Some(1), "{sessions}");
}

#[test]
fn a_definition_with_an_unknown_kind_of_call_is_refused_where_it_stands() {
    let place = Place::with_config(
        "[agents.coder]\ndescription = \"Codes\"\nkind = \"acp\"\ncommand = \"gemini\"\n\
         allow = [\"read\", \"exekute\"]\nurl = \"https://example.com\"\n",
    );
    let checked = place.call(&["agents", "check"]).expect(2);
    let said = format!("{}{}", checked.stdout, checked.stderr);
    said.has_all(&["unknown kind `exekute`", "execute"]);
    assert!(said.contains("`url` has no effect"), "{said}");
}

#[test]
fn a_definition_has_the_options_and_the_login_of_a_coding_agent() {
    let with = |keys: &str| {
        Place::with_config(&format!(
            "[agents.coder]\ndescription = \"Codes\"\ncommand = \"claude\"\n{keys}"
        ))
    };
    let place = with("kind = \"acp\"\noptions = { mode = \"default\" }\nlogin = \"api-key\"\n");
    let shown = place.json(&["agents", "show", "coder"]);
    assert_eq!(
        shown["acp"]["options"],
        json!({"mode": "default"}),
        "{shown}"
    );
    assert_eq!(shown["acp"]["login"], "api-key", "{shown}");
    for (keys, code, problem) in [
        (
            "kind = \"acp\"\noptions = { mode = 1 }\n",
            2,
            "options.mode` must be text",
        ),
        (
            "kind = \"command\"\nlogin = \"api-key\"\n",
            0,
            "`login` has no effect",
        ),
    ] {
        let checked = with(keys).call(&["agents", "check"]).expect(code);
        let said = format!("{}{}", checked.stdout, checked.stderr);
        assert!(said.contains(problem), "{said}");
    }
}
