//! What models were used for, as a sum.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unisono_context::AgentId;
use unisono_session::usage::{Asker, Deleted, Used};

use super::run::Usage;

/// What sessions used that are no more: how many they are, and their sum by asker and model.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sum {
    sessions: u64,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    /// None: the writer of summaries.
    agent: Option<String>,
    model: Arc<str>,
    jobs: u64,
    usage: Usage,
}

impl From<&Deleted> for Sum {
    fn from(deleted: &Deleted) -> Self {
        let rows = deleted.ledger.used().map(|(asker, model, used)| Row {
            agent: match asker {
                Asker::Agent(agent) => Some(agent.to_string()),
                Asker::Summaries => None,
            },
            model: model.into(),
            jobs: used.jobs,
            usage: used.usage.into(),
        });
        Self {
            sessions: deleted.sessions,
            rows: rows.collect(),
        }
    }
}

impl From<Sum> for Deleted {
    fn from(sum: Sum) -> Self {
        let rows = sum.rows.into_iter().map(|row| {
            let agent = |agent: String| Asker::Agent(AgentId::new(agent));
            let used = Used {
                jobs: row.jobs,
                usage: row.usage.into(),
            };
            (row.agent.map_or(Asker::Summaries, agent), row.model, used)
        });
        Self {
            sessions: sum.sessions,
            ledger: rows.collect(),
        }
    }
}
