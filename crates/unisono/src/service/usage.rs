//! What model calls used.

use std::cmp::Reverse;

use async_trait::async_trait;
use unisono_api::service::{self, Usage};
use unisono_api::usage::{Amounts, Deleted as DeletedUsage, Row, Usage as All};
use unisono_context::SessionId;
use unisono_session::usage::{Asker, Deleted};

use super::id;
use crate::Local;
use crate::error::Error;
use crate::history;
use crate::history::usage::Fold;
use crate::values;

#[async_trait]
impl Usage for Local {
    async fn usage(&self, session: Option<&str>) -> service::Result<All> {
        Ok(self.used(session).await?.all)
    }
}

/// What was used, and by which sessions.
#[derive(Clone, Debug)]
pub struct Used {
    /// All of it.
    pub all: All,
    /// The sessions that used something, the one that used most first.
    pub sessions: Vec<SessionUsage>,
}

/// What a session used.
#[derive(Clone, Debug)]
pub struct SessionUsage {
    /// Its id.
    pub session: String,
    /// Its title.
    pub title: String,
    /// Runs of its agents, and summaries.
    pub jobs: u64,
    /// What they used.
    pub amounts: Amounts,
}

impl Local {
    /// What a session used, or all of them, and which of them used it.
    ///
    /// # Errors
    /// There is no such session, or the store fails.
    pub async fn used(&self, session: Option<&str>) -> Result<Used, Error> {
        let journal = self.journal();
        let mut gone = Deleted::default();
        let folds = match session {
            Some(text) => {
                let session: SessionId = id("session", text)?;
                let fold = self.usage_folds().one(journal, session).await?;
                let unknown = || unisono_runtime::Error::UnknownSession(session);
                vec![(session, fold.ok_or_else(unknown)?)]
            }
            None => {
                // First: one that goes meanwhile is rather left out for once than counted twice.
                gone = journal.deleted().await?;
                self.usage_folds().all(journal).await?
            }
        };
        let mut ledger = gone.ledger.clone();
        folds.iter().for_each(|(_, fold)| ledger.add(&fold.ledger));
        let mut sessions: Vec<SessionUsage> = folds.into_iter().filter_map(of_session).collect();
        let tokens = |of: &SessionUsage| of.amounts.input_tokens + of.amounts.output_tokens;
        sessions.sort_by_key(|of| Reverse(tokens(of)));
        let rows = ledger.used().map(|(asker, model, used)| Row {
            agent: match asker {
                Asker::Agent(agent) => Some(agent.to_string()),
                Asker::Summaries => None,
            },
            model: model.to_owned(),
            jobs: used.jobs,
            amounts: values::amounts(&used.usage),
        });
        let rows = rows.collect();
        let budgets = history::daemon_budgets(journal, &self.setup().loaded.config.budget).await?;
        Ok(Used {
            all: All {
                rows,
                total: values::amounts(&ledger.total()),
                deleted: (gone.sessions > 0).then(|| DeletedUsage {
                    sessions: gone.sessions,
                    jobs: gone.ledger.jobs(),
                    amounts: values::amounts(&gone.ledger.total()),
                }),
                budgets: budgets.iter().map(values::budget).collect(),
            },
            sessions,
        })
    }
}

/// What a session used, if it was anything.
fn of_session((session, fold): (SessionId, Fold)) -> Option<SessionUsage> {
    (fold.ledger.used().len() > 0).then(|| SessionUsage {
        session: session.to_string(),
        title: fold.title,
        jobs: fold.ledger.jobs(),
        amounts: values::amounts(&fold.ledger.total()),
    })
}
