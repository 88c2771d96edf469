//! The usage of model calls.

use std::cmp::Reverse;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use async_trait::async_trait;
use unisono_api::service::{self, Usage};
use unisono_api::usage::{Deleted as DeletedUsage, Row, SessionUsage, Usage as All};
use unisono_api::{Page, PageQuery};
use unisono_context::SessionId;
use unisono_session::usage::{Asker, Deleted};

use super::{cursor, id};
use crate::Local;
use crate::error::Error;
use crate::history;
use crate::history::usage::Fold;
use crate::values;

#[async_trait]
impl Usage for Local {
    async fn usage(&self, session: Option<&str>) -> service::Result<All> {
        Ok(self.used(session).await?)
    }

    async fn session_usage(&self, query: &PageQuery) -> service::Result<Page<SessionUsage>> {
        let after: Option<Place> = cursor(query.cursor.as_deref())?;
        let folds = self.usage_folds().all(self.journal()).await;
        let folds = folds.map_err(Error::from)?.into_iter();
        let mut all: Vec<(Place, SessionUsage)> = folds.filter_map(of_session).collect();
        all.retain(|(place, _)| after.is_none_or(|after| *place > after));
        all.sort_unstable_by_key(|(place, _)| *place);
        let limit = Page::<()>::size(query.limit);
        let part = Page::first(all, limit, |(place, _)| place.to_string());
        Ok(Page {
            items: part.items.into_iter().map(|(_, used)| used).collect(),
            next: part.next,
        })
    }
}

/// The position of a session in the list: the largest usage comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    tokens: Reverse<u64>,
    session: SessionId,
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.tokens.0, self.session)
    }
}

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Place, ()> {
        let (tokens, session) = text.split_once('.').ok_or(())?;
        Ok(Place {
            tokens: Reverse(tokens.parse().map_err(|_| ())?),
            session: session.parse().map_err(|_| ())?,
        })
    }
}

impl Local {
    /// The usage of one or all sessions.
    async fn used(&self, session: Option<&str>) -> Result<All, Error> {
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
                // Read first: a session that is deleted meanwhile is missed once rather than
                // counted twice.
                gone = journal.deleted().await?;
                self.usage_folds().all(journal).await?
            }
        };
        let mut ledger = gone.ledger.clone();
        folds.iter().for_each(|(_, fold)| ledger.add(&fold.ledger));
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
        // What is left of the daemon's budget tells what others use.
        let budgets = match self.is_limited() {
            true => Vec::new(),
            false => history::daemon_budgets(journal, &self.setup().loaded.config.budget).await?,
        };
        Ok(All {
            rows,
            total: values::amounts(&ledger.total()),
            deleted: (gone.sessions > 0).then(|| DeletedUsage {
                sessions: gone.sessions,
                jobs: gone.ledger.jobs(),
                amounts: values::amounts(&gone.ledger.total()),
            }),
            budgets: budgets.iter().map(values::budget).collect(),
        })
    }
}

/// The usage of a session, if it has any.
fn of_session((session, fold): (SessionId, Fold)) -> Option<(Place, SessionUsage)> {
    let amounts = values::amounts(&fold.ledger.total());
    let place = Place {
        tokens: Reverse(amounts.input_tokens + amounts.output_tokens),
        session,
    };
    (fold.ledger.used().len() > 0).then(|| {
        let used = SessionUsage {
            session: session.to_string(),
            jobs: fold.ledger.jobs(),
            title: fold.title,
            amounts,
        };
        (place, used)
    })
}
