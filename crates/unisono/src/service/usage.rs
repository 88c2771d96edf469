//! The usage of model calls.

pub(crate) mod budgets;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::civil::Date;
use unisono_api::service::{self, Usage};
use unisono_api::usage::{
    DeletedSessionsUsage, SUMMARIES, SessionUsage, Usage as All, UsageBy, UsageGroup, UsageQuery,
    UsageRow,
};
use unisono_api::{Code, Page, PageQuery};
use unisono_context::{SessionId, Timestamp};
use unisono_session::usage::{Day, DeletedUsage, Ledger, UsageEntry, UsageSource};

use super::{cursor_pair, id};
use crate::Local;
use crate::error::Error;
use crate::history::usage::Fold;
use crate::values;

/// Groups of one answer.
const GROUPS: usize = 500;
/// Day 0.
const EPOCH: Date = Date::constant(1970, 1, 1);

#[async_trait]
impl Usage for Local {
    async fn usage(&self, query: &UsageQuery) -> service::Result<All> {
        Ok(self.used(query).await?)
    }

    async fn session_usage(&self, query: &PageQuery) -> service::Result<Page<SessionUsage>> {
        let after = cursor_pair(query.cursor.as_deref())?;
        let after: Option<Place> = after.map(|(tokens, session)| (Reverse(tokens), session));
        let folds = self.shared.usage_folds.all(self.journal()).await;
        let folds = folds.map_err(Error::from)?.into_iter();
        let mut all: Vec<(Place, SessionUsage)> = folds.filter_map(of_session).collect();
        all.retain(|(place, _)| after.is_none_or(|after| *place > after));
        all.sort_unstable_by_key(|(place, _)| *place);
        let limit = Page::<()>::size(query.limit);
        let part = Page::first(all, limit, |((tokens, session), _)| {
            format!("{}.{session}", tokens.0)
        });
        Ok(part.map(|(_, used)| used))
    }
}

/// The position of a session in the list: the largest usage comes first.
type Place = (Reverse<u64>, SessionId);

impl Local {
    /// The requested part of the usage of one or all sessions, and of deleted ones.
    async fn requested(
        &self,
        query: &UsageQuery,
    ) -> Result<(Vec<(SessionId, Fold)>, DeletedUsage), Error> {
        let journal = self.journal();
        let mut gone = DeletedUsage::default();
        if [&query.agent, &query.model]
            .iter()
            .any(|name| name.as_deref() == Some(""))
        {
            let detail = "`agent` and `model` must not be empty: leave them out for all";
            return Err(Error::new(Code::Refused, detail));
        }
        let days = (day(query.from.as_deref())?, day(query.to.as_deref())?);
        let mut folds = match query.session.as_deref() {
            Some(text) => {
                let session: SessionId = id("session", text)?;
                let fold = self.shared.usage_folds.one(journal, session).await?;
                let unknown = || unisono_runtime::Error::UnknownSession(session);
                vec![(session, fold.ok_or_else(unknown)?)]
            }
            None => {
                // Read first: a session that is deleted meanwhile is omitted rather than counted
                // twice.
                if days == (None, None) {
                    gone = journal.deleted().await?;
                    gone.ledger = part_of(&gone.ledger, query, days);
                }
                self.shared.usage_folds.all(journal).await?
            }
        };
        if query.is_partial() {
            for (_, fold) in &mut folds {
                fold.ledger = part_of(&fold.ledger, query, days);
            }
        }
        Ok((folds, gone))
    }

    async fn used(&self, query: &UsageQuery) -> Result<All, Error> {
        let journal = self.journal();
        let (folds, gone) = self.requested(query).await?;
        let mut ledger = gone.ledger.clone();
        folds.iter().for_each(|(_, fold)| ledger.add(&fold.ledger));
        let (groups, omitted_groups) = match query.by {
            Some(by) => groups(by, &folds, &ledger),
            None => (Vec::new(), 0),
        };
        let seen = match self.is_limited() {
            true => budgets::Owners::Only(None),
            false => budgets::Owners::All(self.owners_of_tokens().await?),
        };
        // A caller with an owner does not see the daemon's budget, which includes the usage of
        // others.
        let config = &self.setup().loaded.config;
        let budgets = budgets::budgets(self, journal, &config.budget, seen).await?;
        Ok(All {
            rows: rows(&ledger),
            groups,
            omitted_groups,
            total: values::amounts(&ledger.total()),
            deleted: (gone.sessions > 0).then(|| DeletedSessionsUsage {
                sessions: gone.sessions,
                jobs: gone.ledger.jobs(),
                amounts: values::amounts(&gone.ledger.total()),
            }),
            budgets: budgets
                .iter()
                .map(|(owner, status)| values::budget_of(owner.as_deref(), status))
                .collect(),
        })
    }
}

fn part_of(ledger: &Ledger, query: &UsageQuery, days: (Option<Day>, Option<Day>)) -> Ledger {
    let is_agent = |source: &UsageSource| match (query.agent.as_deref(), source) {
        (None, _) | (Some(SUMMARIES), UsageSource::Summaries) => true,
        (Some(name), UsageSource::Agent(agent)) => agent.as_str() == name,
        (Some(_), UsageSource::Summaries) => false,
    };
    let is_model = |model: &str| query.model.as_deref().is_none_or(|wanted| wanted == model);
    let part = match days {
        (None, None) => ledger.clone(),
        (from, to) => ledger.between(from, to),
    };
    part.filtered(|source, model| is_agent(source) && is_model(model))
}

/// Usage by agent and model.
fn rows(ledger: &Ledger) -> Vec<UsageRow> {
    let rows = ledger.entries().map(|(asker, model, used)| UsageRow {
        agent: match asker {
            UsageSource::Agent(agent) => Some(agent.to_string()),
            UsageSource::Summaries => None,
        },
        model: model.to_owned(),
        jobs: used.jobs,
        amounts: values::amounts(&used.usage),
    });
    rows.collect()
}

fn day(text: Option<&str>) -> Result<Option<Day>, Error> {
    let read = |text: &str| {
        let wrong = |_| {
            let detail = format!("{text:?} is not a day: write it as 2026-03-06, in UTC");
            Error::new(Code::Refused, detail)
        };
        let date: Date = text.parse().map_err(wrong)?;
        // No instant of 9999-12-31 can be written.
        let hours = date.duration_since(EPOCH).as_hours();
        Ok(Day(hours.div_euclid(24)))
    };
    text.map(read).transpose()
}

/// Usage by agent, model, session or day, and the number of groups that are left out.
fn groups(by: UsageBy, folds: &[(SessionId, Fold)], all: &Ledger) -> (Vec<UsageGroup>, u64) {
    let mut groups: Vec<UsageGroup> = match by {
        UsageBy::Day => {
            let days = all.days();
            days.map(|(day, used)| group(Some(date_of(day)), &used))
                .collect()
        }
        UsageBy::Session => {
            let used = folds
                .iter()
                .filter(|(_, fold)| fold.ledger.entries().len() > 0);
            let groups = used.map(|(session, fold)| {
                let used = UsageEntry {
                    jobs: fold.ledger.jobs(),
                    usage: fold.ledger.total(),
                };
                UsageGroup {
                    title: Some(fold.title.clone()),
                    ..group(Some(session.to_string()), &used)
                }
            });
            groups.collect()
        }
        UsageBy::Agent | UsageBy::Model => {
            let mut sums: BTreeMap<Option<String>, UsageEntry> = BTreeMap::new();
            for (asker, model, used) in all.entries() {
                let key = match (by, asker) {
                    (UsageBy::Model, _) => Some(model.to_owned()),
                    (_, UsageSource::Agent(agent)) => Some(agent.to_string()),
                    (_, UsageSource::Summaries) => None,
                };
                let sum = sums.entry(key).or_default();
                sum.jobs += used.jobs;
                sum.usage = sum.usage + used.usage;
            }
            let groups = sums.into_iter();
            groups.map(|(key, used)| group(key, &used)).collect()
        }
    };
    let skipped = groups.len().saturating_sub(GROUPS);
    if by == UsageBy::Day {
        groups.drain(..skipped);
    } else {
        let size = |group: &UsageGroup| group.amounts.input_tokens + group.amounts.output_tokens;
        groups.sort_by_key(|group| Reverse(size(group)));
        groups.truncate(GROUPS);
    }
    (groups, skipped as u64)
}

fn group(key: Option<String>, used: &UsageEntry) -> UsageGroup {
    let amounts = values::amounts(&used.usage);
    UsageGroup {
        key,
        title: None,
        jobs: used.jobs,
        uncached_tokens: amounts
            .input_tokens
            .saturating_sub(amounts.cache_read_tokens),
        amounts,
    }
}

/// A day as `2026-03-06`.
fn date_of(day: Day) -> String {
    let instant = values::instant(Timestamp(day.0.saturating_mul(86_400_000)));
    instant.get(..10).unwrap_or(&instant).to_owned()
}

fn of_session((session, fold): (SessionId, Fold)) -> Option<(Place, SessionUsage)> {
    let amounts = values::amounts(&fold.ledger.total());
    let tokens = amounts.input_tokens + amounts.output_tokens;
    (fold.ledger.entries().len() > 0).then(|| {
        let used = SessionUsage {
            session: session.to_string(),
            jobs: fold.ledger.jobs(),
            title: fold.title,
            amounts,
        };
        ((Reverse(tokens), session), used)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_that_can_be_written_is_read() {
        for (text, expected) in [
            ("1969-12-31", Some(-1)),
            ("1970-01-01", Some(0)),
            ("9999-12-31", Some(2_932_896)),
            ("2026-02-30", None),
            ("today", None),
        ] {
            let read = day(Some(text)).ok().flatten();
            assert_eq!(read.map(|day| day.0), expected, "{text}");
        }
    }
}
