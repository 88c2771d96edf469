//! Groups of daemons on one schema.

use std::sync::Arc;

use serde_json::json;
use unisono_benches::daemon::{Client, Daemon};

use crate::database::Database;

/// The number of a daemon's worker threads: as many as there are cores, or with `--divided` its share of
/// them.
fn threads(nodes: usize) -> Option<usize> {
    let is_divided = std::env::args().any(|argument| argument == "--divided");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    is_divided.then(|| (cores / nodes).max(1))
}

/// Daemons on one schema.
pub(crate) struct Group {
    daemons: Vec<Daemon>,
}

impl Group {
    pub(crate) async fn start(
        database: &Database,
        schema: &str,
        nodes: usize,
        provider: &str,
    ) -> Group {
        let url = database.schema(schema).await;
        let settings = format!(
            "[store]\nurl = {url:?}\n[models]\ndefault = \"openai/gpt-4o-mini\"\n\
             [providers.openai]\nbase_url = \"{provider}/v1\"\napi_key_env = \"BENCH_KEY\"\n\
             [turn]\nlead = \"facts\"\nagents = []\n[compaction]\npreset = \"off\"\n\
             [server]\nconnections = 4096\nstreams = 2048\nrequests_per_second = 0\n"
        );
        Group {
            daemons: (0..nodes)
                .map(|_| Daemon::with_threads(&settings, threads(nodes)))
                .collect(),
        }
    }

    /// A client of the daemon that owns the session of that number, of those made by
    /// [`Group::sessions`].
    pub(crate) fn node(&self, which: usize) -> Client {
        self.daemons[which % self.daemons.len()].client().clone()
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.daemons.iter().map(Daemon::pid).collect()
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
