//! The state of the budgets of all sessions together, and of the sessions of each owner.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unisono_context::{Digest, SessionId};
use unisono_runtime::clock;
use unisono_session::budget::{Broker, BudgetStatus, Grant, OwnerBudget, OwnerBudgets, SessionUse};
use unisono_session::{Fact, OWNER, State};
use unisono_store::{Grants, Journal};

use crate::Local;
use crate::context::estimate::budget_warnings::{MaximumUse, warning};
use crate::history::read;
use crate::history::usage::KnownUse;
use crate::view::Inspect as _;
use unisono_config::settings::Budget;

/// Maximum listed owners.
const OWNERS: usize = 200;
/// Maximum sessions that are read for the names of their owners.
const SESSIONS: usize = 1_024;

/// The state of a budget and its owner; none: the daemon.
pub(crate) type Status = (Option<Arc<str>>, BudgetStatus);

/// The owners whose budgets a caller without an owner sees.
pub(crate) enum Owners {
    /// This one, if there is one.
    Only(Option<Arc<str>>),
    /// All with a budget in the settings or with usage; these may have usage.
    All(BTreeSet<Arc<str>>),
}

/// The budgets that the caller of a journal may see: the owner's, or the daemon's and those of these
/// owners.
///
/// # Errors
/// The store failed, or the budgets granted to sessions cannot be read.
pub(crate) async fn budgets(
    local: &Local,
    journal: &Journal,
    budget: &Budget,
    seen: Owners,
) -> Result<Vec<Status>, unisono_store::Error> {
    let Some(rules) = budget.rules() else {
        return Ok(Vec::new());
    };
    let (owners, broker) = (budget.owner_budgets(), Grants::read(journal).await?);
    let only = journal.owner();
    let is_seen = |grant: &Grant| {
        only.is_none_or(|only| grant.owner == Some(Digest::of_bytes(only.as_bytes())))
    };
    let used = session_use(local, journal, &broker, is_seen).await?;
    let now = clock::store_now(journal);
    let mut all: Vec<Status> = Vec::new();
    if only.is_none() {
        let of_daemon = broker.left(&rules, &used, now);
        all.extend(of_daemon.into_iter().map(|status| (None, status)));
    }
    let seen = match only {
        Some(only) => Owners::Only(Some(only.clone())),
        None => seen,
    };
    let shown: BTreeMap<Arc<str>, OwnerBudget> = match seen {
        Owners::Only(owner) => {
            let with_budget = owner.map(|owner| {
                let budget = owners.owner_budget(&owner);
                (owner, budget)
            });
            with_budget.into_iter().collect()
        }
        Owners::All(names) => owners_of(journal, &broker, &owners, names).await?,
    };
    for (owner, budget) in shown.into_iter().take(OWNERS) {
        let left = broker.left_of(&rules, budget, &used, now);
        all.extend(left.into_iter().map(|status| (Some(owner.clone()), status)));
    }
    Ok(all)
}

/// Warnings about the budgets of the session's owner and of the daemon that have less left than an
/// estimate needs.
pub(crate) async fn warnings(
    local: &Local,
    state: &State,
    needed: MaximumUse,
) -> Result<Vec<String>, unisono_store::Error> {
    let config = &local.setup().loaded.config;
    let owner = state.labels().get(OWNER);
    let owner = owner.filter(|owner| !owner.is_empty()).cloned();
    let all = budgets(local, local.journal(), &config.budget, Owners::Only(owner)).await?;
    let warnings = all
        .iter()
        .filter_map(|(whose, status)| warning(status, whose.as_deref(), needed));
    Ok(warnings.collect())
}

/// The usage of the sessions that hold more than they had spent. A journal is read once: a session
/// that has changed since then is in memory, and is asked.
async fn session_use(
    local: &Local,
    journal: &Journal,
    broker: &Broker,
    is_seen: impl Fn(&Grant) -> bool,
) -> Result<BTreeMap<SessionId, SessionUse>, unisono_store::Error> {
    let mut known = local.shared.usage_folds.budgets.lock().await;
    known.retain(|session, _| broker.grant(*session).is_some());
    let mut status = BTreeMap::new();
    for session in broker.holders() {
        if !broker.grant(session).is_some_and(&is_seen) {
            continue;
        }
        let Some(info) = journal.session(session).await? else {
            continue;
        };
        let created = info.created_unix_ms;
        let before = known.get(&session).copied();
        let before = before.filter(|known| known.created_unix_ms == created);
        if let Some(known) = before.filter(|known| known.seq >= info.last_seq) {
            status.insert(session, known.used);
            continue;
        }
        let asked = match before {
            Some(_) => ask(local, session).await,
            None => None,
        };
        let found = match asked {
            Some(found) => Some(found),
            None => fold(journal, session).await?,
        };
        if let Some((seq, used)) = found {
            let created_unix_ms = created;
            known.insert(
                session,
                KnownUse {
                    created_unix_ms,
                    seq,
                    used,
                },
            );
            status.insert(session, used);
        }
    }
    Ok(status)
}

/// The number of a session's events and its usage, from its state; none if it cannot be inspected.
async fn ask(local: &Local, session: SessionId) -> Option<(u64, SessionUse)> {
    let view = local.view(session).await.ok()?;
    let look = |state: &State| (state.events(), state.session_use());
    view.inspect(look).await.ok()
}

/// The same, from its journal; none if an event does not follow from the earlier ones.
async fn fold(
    journal: &Journal,
    session: SessionId,
) -> Result<Option<(u64, SessionUse)>, unisono_store::Error> {
    let (mut state, mut folds) = (State::default(), false);
    read(journal, session, |event| {
        folds = state.apply(event).is_ok();
        Ok::<_, unisono_store::Error>(folds)
    })
    .await?;
    Ok(folds.then(|| (state.events(), state.session_use())))
}

/// The owners with a budget in the settings or with a grant, by name. A grant stores only the digest of
/// a name, so other names are read from the sessions. If these are deleted, the digest is the name.
async fn owners_of(
    journal: &Journal,
    broker: &Broker,
    owners: &OwnerBudgets,
    names: BTreeSet<Arc<str>>,
) -> Result<BTreeMap<Arc<str>, OwnerBudget>, unisono_store::Error> {
    let mut unknown: BTreeMap<Digest, Vec<SessionId>> = BTreeMap::new();
    for grant in broker.entries() {
        if let Some(owner) = grant.owner {
            unknown.entry(owner).or_default().push(grant.session);
        }
    }
    let named = owners.named.keys().cloned();
    let mut shown: BTreeSet<Arc<str>> = named.collect();
    let known = names.into_iter().chain(shown.clone()).collect::<Vec<_>>();
    for name in known {
        if unknown.remove(&Digest::of_bytes(name.as_bytes())).is_some() {
            shown.insert(name);
        }
    }
    let (mut sessions, mut nameless) = (Vec::new(), BTreeSet::new());
    for (owner, mut of_owner) in unknown {
        let room = SESSIONS - sessions.len();
        if of_owner.len() <= room {
            nameless.insert(owner);
        }
        of_owner.truncate(room);
        sessions.append(&mut of_owner);
    }
    let firsts = journal.first_events(&sessions).await?;
    for first in firsts.into_iter().flatten() {
        if let Fact::Created { labels, .. } = first.fact {
            shown.extend(labels.get(OWNER).cloned());
        }
    }
    for name in &shown {
        nameless.remove(&Digest::of_bytes(name.as_bytes()));
    }
    let named = shown.into_iter().map(|name| {
        let budget = owners.owner_budget(&name);
        (name, budget)
    });
    let nameless = nameless.into_iter().map(|owner| {
        let caps = owners.each;
        (nameless_owner(owner), OwnerBudget { owner, caps })
    });
    Ok(named.chain(nameless).collect())
}

/// The name shown for an owner if the store has only the digest of the real name. No owner can choose it.
fn nameless_owner(owner: Digest) -> Arc<str> {
    format!("digest:{}", owner.short()).into()
}

#[cfg(test)]
mod tests {
    use unisono_session::machine::Import;

    use super::*;
    use crate::fixture::local;

    #[tokio::test]
    async fn a_warning_names_the_budget_of_an_owner_who_has_used_nothing() {
        let local = local([
            ("models.default", "extractive"),
            ("budget.owner.max_tokens", "10"),
        ]);
        let local = local.await;
        let import = Import {
            title: "One".into(),
            labels: [(OWNER.into(), "zoe".into())].into(),
            ..Import::default()
        };
        let session = local.import(import).await.unwrap();
        let state = session.inspect(State::clone).await.unwrap();
        let needed = MaximumUse {
            tokens: 11,
            cost_usd: None,
        };
        let warned = warnings(&local, &state, needed).await.unwrap();
        let expected = "the owner's budget (zoe) has 10 tokens left, and this may need 11 tokens";
        assert_eq!(warned, [expected]);
        local.shutdown().await;
    }
}
