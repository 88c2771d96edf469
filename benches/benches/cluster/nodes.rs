//! Daemons: the program, each in a directory of its own.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use unisono_benches::bare::local;

use crate::database::Database;

/// The token of all daemons.
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A daemon, and a client of it.
#[derive(Clone)]
pub(crate) struct Node {
    /// Host and port.
    pub(crate) address: String,
    client: reqwest::Client,
}

/// Daemons on one schema.
pub(crate) struct Group {
    nodes: Vec<Node>,
    children: Vec<Child>,
    _directories: Vec<tempfile::TempDir>,
}

/// The program, built in the profile of this one.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let program = own.parent().unwrap().parent().unwrap().join("unisono");
    let profile = program.parent().unwrap().display();
    assert!(
        program.is_file(),
        "there is no program in {profile}: run `cargo build --bin unisono` in the same profile first"
    );
    program
}

impl Node {
    pub(crate) fn new(address: String) -> Node {
        Node {
            address,
            client: local().build().unwrap(),
        }
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let reply = self.client.post(format!("http://{}{path}", self.address));
        let reply = reply
            .bearer_auth(TOKEN)
            .header("content-type", "application/json")
            .body(body.to_string());
        let reply = reply.send().await.unwrap();
        let status = reply.status();
        let text = reply.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    }
}

impl Group {
    pub(crate) async fn start(
        database: &Database,
        schema: &str,
        nodes: usize,
        provider: &str,
    ) -> Group {
        let url = database.schema(schema).await;
        let mut group = Group {
            nodes: Vec::new(),
            children: Vec::new(),
            _directories: Vec::new(),
        };
        for _ in 0..nodes {
            let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let config = format!(
                "[store]\nurl = {url:?}\n[models]\ndefault = \"openai/gpt-4o-mini\"\n\
                 [providers.openai]\nbase_url = \"{provider}/v1\"\napi_key_env = \"BENCH_KEY\"\n\
                 [run]\nlead = \"facts\"\nagents = []\n[compaction]\npreset = \"off\"\n\
                 [server]\nconnections = 4096\nstreams = 2048\nrequests_per_second = 0\n"
            );
            let settings = directory.path().join("settings/unisono");
            fs::create_dir_all(&settings).unwrap();
            fs::write(settings.join("unisono.toml"), config).unwrap();
            fs::write(settings.join("token"), TOKEN).unwrap();
            fs::set_permissions(settings.join("token"), Permissions::from_mode(0o600)).unwrap();
            let mut child = Command::new(program())
                .args(["serve", "--bind", "127.0.0.1:0"])
                .current_dir(directory.path())
                .env("HOME", directory.path())
                .env("XDG_CONFIG_HOME", directory.path().join("settings"))
                .env("XDG_DATA_HOME", directory.path().join("data"))
                .env("BENCH_KEY", "sk-bench")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
            let mut lines = Vec::new();
            let address = loop {
                let Some(Ok(line)) = said.next() else {
                    panic!("a daemon does not start: {lines:#?}");
                };
                if let Some((_, address)) = line.split_once("http://")
                    && line.contains("listening")
                {
                    break address.trim().to_owned();
                }
                lines.push(line);
            };
            // What it says more must not block it.
            std::thread::spawn(move || for _ in said.map_while(Result::ok) {});
            group.children.push(child);
            group.nodes.push(Node::new(address));
            group._directories.push(directory);
        }
        group
    }

    /// The daemon that owns the session of that number, of those made by [`Group::sessions`].
    pub(crate) fn node(&self, which: usize) -> Node {
        self.nodes[which % self.nodes.len()].clone()
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    /// Makes so many sessions, at each daemon in turn.
    pub(crate) async fn sessions(&self, count: usize) -> Arc<Vec<String>> {
        let mut sessions = Vec::new();
        for which in 0..count {
            let text = "The orders table gets a new index on Friday; the export was checked.";
            let messages = json!([{"role": "user", "content": text}]);
            let new = json!({"title": "bench", "messages": messages});
            let made = self.node(which).post("/v1/sessions", &new).await;
            sessions.push(made["session"].as_str().unwrap().to_owned());
        }
        Arc::new(sessions)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
