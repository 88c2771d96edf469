//! What the tool `recall` reaches: the branch, the session, or all sessions of the same owner,
//! asked by a scripted model of the real daemon.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use unisono_fake_provider::{Act, Answer, FakeProvider, Script};

use crate::http::Daemon;
use crate::support::{HasAll as _, Place};

/// A daemon whose agent makes one call of `recall` a turn, and answers with what came of it.
struct Scene {
    _place: Place,
    daemon: Daemon,
    provider: FakeProvider,
    call: Arc<Mutex<Value>>,
}

impl Scene {
    fn new(reach: &str) -> Scene {
        let call = Arc::new(Mutex::new(Value::Null));
        let asked = call.clone();
        let script = Script::by(move |request| {
            let body = request.json();
            let last = body["messages"].as_array().unwrap().last().unwrap();
            let answer = match last["role"] == "tool" {
                true => Answer::text(last["content"].as_str().unwrap()),
                false => Answer::empty().and_call("recall", asked.lock().unwrap().to_string()),
            };
            Act::answer(answer)
        });
        let provider = FakeProvider::play_on_thread(script);
        let more = format!(
            "[models]\ndefault = \"openai/gpt-4o\"\n[turn]\nlead = \"clerk\"\nagents = []\n\
             [compaction]\nsummarisers = [\"extractive\"]\n[runtime]\nrecall = {reach:?}\n\
             [agents.clerk]\ndescription = \"keeps the books\"\ntools = [\"recall\"]\n"
        );
        let place = Place::with_key_file("openai", &provider, &more);
        Scene {
            daemon: Daemon::start(&place),
            _place: place,
            provider,
            call,
        }
    }

    /// A session of an owner, none where that is empty, with these messages.
    fn session(&self, owner: &str, said: &[&str]) -> String {
        let labels = match owner {
            "" => json!({}),
            owner => json!({"owner": owner}),
        };
        let said = said.iter();
        let said: Vec<Value> = said
            .map(|text| json!({"role": "user", "content": text}))
            .collect();
        let new = json!({"title": format!("of {owner}"), "labels": labels, "messages": said});
        let made = self.daemon.post("/v1/sessions", &new).expect(201).json();
        made["session"].as_str().unwrap().to_owned()
    }

    /// The result of this call of the agent in a session.
    fn recalled(&self, session: &str, call: Value) -> String {
        self.recalled_on("main", session, call)
    }

    /// The same on a branch of it.
    fn recalled_on(&self, branch: &str, session: &str, call: Value) -> String {
        *self.call.lock().unwrap() = call;
        let path = format!("/v1/sessions/{session}/turns");
        let ask = json!({"task": "What is it?", "branch": branch});
        let turn = self.daemon.post(&path, &ask).expect(200).json();
        let answer = turn["answer"].as_str();
        answer.unwrap_or_else(|| panic!("{turn}")).to_owned()
    }
}

#[test]
fn recall_reaches_the_sessions_of_the_same_owner_and_no_others() {
    let scene = Scene::new("owner");
    let long = "The vault code is 7311, and the spare key lies with Kim. ".repeat(20);
    let first = scene.session("ann", &["Morning.", &long]);
    let other = scene.session("bob", &["The vault code is 9922."]);
    let nobodys = scene.session("", &["The vault code is 5544."]);
    let asking = scene.session("ann", &["Hello."]);
    let reply = scene.recalled(&asking, json!({"query": "vault code"}));
    reply.has_all(&["7311", "\"of ann\""]);
    let before = reply
        .lines()
        .find(|line| line.starts_with("(before: #1 user, 20"));
    assert!(
        before.is_some_and(|line| line.ends_with(": Morning.)")),
        "{reply}"
    );
    reply.has_none(&["9922", "5544"]);
    let whole = format!("recall {{\"session\":\"{first}\",\"n\":2}} reads it whole");
    assert!(reply.contains(&whole), "{reply}");
    let reply = scene.recalled(&asking, json!({"session": first, "n": 2}));
    assert!(reply.contains(long.trim()), "{reply}");
    for (session, why) in [(&other, "no session"), (&nobodys, "no session")] {
        let reply = scene.recalled(&asking, json!({"session": session, "n": 1}));
        assert!(reply.contains(why) && !reply.contains("vault"), "{reply}");
    }
    let reply = scene.recalled(&asking, json!({"session": first, "n": 9}));
    assert!(reply.contains("has no message #9"), "{reply}");
    // Sessions of nobody are not of one owner.
    let alone = scene.session("", &["Hello."]);
    let reply = scene.recalled(&alone, json!({"query": "vault code"}));
    assert!(reply.contains("nothing found"), "{reply}");
    let asked = scene.provider.requests().last().unwrap().json();
    let recall = asked["tools"][0]["function"].to_string();
    recall.has_all(&["\"session\"", "other branches"]);
}

#[test]
fn recall_reaches_no_further_than_it_may() {
    for (reach, other_branch) in [("branch", false), ("session", true)] {
        let scene = Scene::new(reach);
        scene.session("ann", &["The vault code is 7311."]);
        let session = scene.session("ann", &["Morning.", "Another vault code is 8800."]);
        let messages = format!("/v1/sessions/{session}/messages");
        let listed = scene.daemon.get(&messages).expect(200).json();
        let branches = format!("/v1/sessions/{session}/branches");
        let branch = json!({"name": "idea", "at": listed["items"][0]["id"]});
        scene.daemon.post(&branches, &branch).expect(201);
        let reply = scene.recalled_on("idea", &session, json!({"query": "vault code"}));
        assert_eq!(reply.contains("8800"), other_branch, "{reach}: {reply}");
        assert!(!reply.contains("7311"), "{reach}: {reply}");
        let reply = scene.recalled_on("idea", &session, json!({"branch": "main", "n": 2}));
        assert_eq!(reply.contains("8800"), other_branch, "{reach}: {reply}");
    }
}
