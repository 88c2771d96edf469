//! A server of the current revision at an address on loopback: it works on calls as tasks, and it
//! serves skills.
//!
//! Its log also has `poll TASK`, `cancel TASK`, `skills` and `read URI`.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::{Value, json};

use super::{Log, Said, converse, refused};

/// The revision it speaks.
const REVISION: &str = "2026-07-28";
const TASKS: &str = "io.modelcontextprotocol/tasks";
const SKILLS: &str = "io.modelcontextprotocol/skills";
/// An instant of its tasks.
const INSTANT: &str = "2026-11-26T10:00:00Z";

/// The server, as long as the process lives.
pub struct CurrentServer {
    /// Where it listens.
    pub address: SocketAddr,
    inner: Arc<Inner>,
}

struct Inner {
    log: Log,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    made: usize,
    /// The texts of the calls, by task.
    tasks: BTreeMap<String, String>,
    is_released: bool,
    skills: Vec<Value>,
    files: BTreeMap<String, String>,
    is_down: bool,
    /// The answer to each poll; none: the state of the task.
    poll_answer: Option<Value>,
}

impl CurrentServer {
    /// Starts one that writes this log.
    ///
    /// # Errors
    /// No address can be had.
    pub fn start(log: &Path) -> std::io::Result<CurrentServer> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let inner = Arc::new(Inner {
            log: Log::new(log),
            state: Mutex::default(),
        });
        let server = inner.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                let answer = move |message: &Value| server.answer(message);
                // A client that goes away in the middle is none of the server's business.
                thread::spawn(move || drop(converse(stream, |_| {}, answer)));
            }
        });
        Ok(CurrentServer { address, inner })
    }

    /// Lets all tasks end, now and later.
    pub fn release(&self) {
        self.inner.state().is_released = true;
    }

    /// Forgets all tasks.
    pub fn forget(&self) {
        self.inner.state().tasks.clear();
    }

    /// Answers every poll with this result.
    pub fn answer_polls(&self, result: Value) {
        self.inner.state().poll_answer = Some(result);
    }

    /// Serves these skills, with the texts of files by their address.
    pub fn serve_skills(&self, skills: Vec<Value>, files: &[(&str, &str)]) {
        let owned = |(uri, text): &(&str, &str)| ((*uri).to_owned(), (*text).to_owned());
        let mut state = self.inner.state();
        (state.skills, state.files) = (skills, files.iter().map(owned).collect());
    }

    /// Answers every request with an error, or no more.
    pub fn set_down(&self, is_down: bool) {
        self.inner.state().is_down = is_down;
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, message: &Value) -> Said {
        let (id, params) = (&message["id"], &message["params"]);
        if id.is_null() {
            return Said::Nothing;
        }
        if self.state().is_down {
            return refused(id, -32603, "it is down");
        }
        let complete = |mut result: Value| {
            result["resultType"] = "complete".into();
            (result["ttlMs"], result["cacheScope"]) = (0.into(), "private".into());
            Said::Message(json!({"jsonrpc": "2.0", "id": id, "result": result}))
        };
        match message["method"].as_str().unwrap_or_default() {
            "server/discover" => complete(json!({
                "supportedVersions": [REVISION],
                "capabilities": {"tools": {}, "resources": {}, "extensions": {TASKS: {}, SKILLS: {}}},
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "current", "version": "1"}},
            })),
            "tools/list" => {
                let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
                let tool = |name: &str| {
                    json!({"name": name, "description": "works for long",
                    "inputSchema": schema})
                };
                complete(json!({"tools": [tool("slow")]}))
            }
            "tools/call" => self.call(id, params),
            "tasks/get" => self.poll(id, params),
            "tasks/cancel" => {
                let task = params["taskId"].as_str().unwrap_or_default();
                self.log.note(&format!("cancel {task}"));
                Said::Message(json!({"jsonrpc": "2.0", "id": id,
                    "result": {"resultType": "complete"}}))
            }
            "skills/list" => {
                self.log.note("skills");
                complete(json!({"skills": self.state().skills}))
            }
            "resources/read" => {
                let uri = params["uri"].as_str().unwrap_or_default();
                self.log.note(&format!("read {uri}"));
                match self.state().files.get(uri) {
                    Some(text) => complete(json!({"contents": [{"uri": uri, "text": text}]})),
                    None => refused(id, -32602, "there is no such resource"),
                }
            }
            method => refused(id, -32601, &format!("no method {method}")),
        }
    }

    fn call(&self, id: &Value, params: &Value) -> Said {
        let key = params["_meta"]["idempotencyKey"].as_str().unwrap_or("-");
        let text = params["arguments"]["text"].as_str().unwrap_or_default();
        let task = {
            let mut state = self.state();
            state.made += 1;
            let task = format!("task-{}", state.made);
            state.tasks.insert(task.clone(), text.to_owned());
            task
        };
        self.log.note(&format!("call slow {key} {text}"));
        let mut result = about(&task, "working");
        result["resultType"] = "task".into();
        Said::Message(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    fn poll(&self, id: &Value, params: &Value) -> Said {
        let task = params["taskId"].as_str().unwrap_or_default();
        self.log.note(&format!("poll {task}"));
        let state = self.state();
        if let Some(result) = &state.poll_answer {
            return Said::Message(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        }
        let Some(text) = state.tasks.get(task) else {
            return refused(id, -32602, "there is no such task");
        };
        let mut result = match state.is_released {
            false => about(task, "working"),
            true => about(task, "completed"),
        };
        if state.is_released {
            let content = json!([{"type": "text", "text": format!("slow: {text}")}]);
            result["result"] = json!({"content": content, "isError": false});
        }
        result["resultType"] = "complete".into();
        Said::Message(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }
}

fn about(task: &str, status: &str) -> Value {
    json!({"taskId": task, "status": status, "createdAt": INSTANT, "lastUpdatedAt": INSTANT,
        "ttlMs": null, "pollIntervalMs": 50})
}
