//! Checkpoints, compactions and topics.

mod outcome;

use std::collections::BTreeMap;

use async_trait::async_trait;
use unisono_api::compaction::{
    Checkpoint, CheckpointDetail, Compaction, Estimate, InactiveCheckpoint, KeyFact, NewCompaction,
    Range, ratio,
};
use unisono_api::service::{Compactions, Result as Answer};
use unisono_api::session::BranchPageQuery;
use unisono_api::topic::Topic;
use unisono_api::{Code, Page};
use unisono_context::checkpoint::{self, Body, Kind, RevertError};
use unisono_context::{CheckpointId, Cost, MessageId};
use unisono_session::{Input, State};

use super::messages::unknown_branch;
use super::usage::budgets;
use super::{cursor, id, requests};
use crate::Local;
use crate::ask::Ask;
use crate::context::{estimate, topics};
use crate::error::Error;
use crate::local::off_thread;
use crate::values;
use crate::view::{Inspect as _, View};

#[async_trait]
impl Compactions for Local {
    async fn checkpoints(
        &self,
        session: &str,
        query: &BranchPageQuery,
    ) -> Answer<Page<Checkpoint>> {
        let session = self.view(id("session", session)?).await?;
        let before: Option<u32> = cursor(query.cursor.as_deref())?;
        let (branch, limit) = (query.branch.clone(), Page::<()>::size(query.limit));
        let look = move |state: &State| {
            let active = Active::from_state(state, &branch);
            let all = state.checkpoints().iter().rev();
            let left = all.filter(|one| before.is_none_or(|before| one.number < before));
            let left = left.map(|one| described(state, &active, one));
            Page::first(left, limit, |last| last.number.to_string())
        };
        Ok(session.inspect(look).await.map_err(Error::from)?)
    }

    async fn checkpoint(
        &self,
        session: &str,
        number: &str,
        branch: &str,
    ) -> Answer<CheckpointDetail> {
        let session = self.view(id("session", session)?).await?;
        Ok(detail(self, &session, number, branch).await?)
    }

    async fn compaction(&self, session: &str, turn: &str) -> Answer<Compaction> {
        let session = self.view(id("session", session)?).await?;
        Ok(outcome::read(self, &session, id("turn", turn)?).await?)
    }

    async fn estimate(&self, session: &str, new: &NewCompaction) -> Answer<Estimate> {
        let session = self.view(id("session", session)?).await?;
        let ask = requests::compaction(new.clone())?;
        let setup = self.setup_for(&session, &ask).await?;
        let mut state = session.inspect(Clone::clone).await.map_err(Error::from)?;
        let learnt = self.calibrations().clone();
        let before = state.clone();
        let work = move || estimate::simulate(&setup, &learnt, &ask, &mut state);
        let (estimate, needed) = off_thread(work).await.map_err(Error::from)?;
        let shared = budgets::warnings(self, &before, needed).await;
        let shared = shared.map_err(Error::from)?;
        Ok(Estimate {
            warnings: [estimate.warnings, shared].concat(),
            session: session.id().to_string(),
            branch: new.branch.clone(),
            ..estimate
        })
    }

    async fn topics(&self, session: &str, query: &BranchPageQuery) -> Answer<Page<Topic>> {
        let session = self.view(id("session", session)?).await?;
        let after: Option<u32> = cursor(query.cursor.as_deref())?;
        let (branch, limit) = (query.branch.clone(), Page::<()>::size(query.limit));
        let look = move |state: &State| {
            let left = topics::to_api(state, &branch)?.into_iter();
            let left = left.filter(|topic| after.is_none_or(|after| topic.first > after));
            Some(Page::first(left, limit, |last| last.first.to_string()))
        };
        let found = session.inspect(look).await.map_err(Error::from)?;
        Ok(found.ok_or_else(|| unknown_branch(&query.branch))?)
    }

    async fn seal(&self, session: &str, branch: &str) -> Answer<Topic> {
        let session = self.view(id("session", session)?).await?;
        let sealed = branch.into();
        let input = Input::Seal { branch: sealed };
        self.apply_input(&session, input).await?;
        let session = self.view(session.id()).await?;
        let branch = branch.to_owned();
        let look = move |state: &State| topics::to_api(state, &branch)?.pop();
        let sealed = session.inspect(look).await.map_err(Error::from)?;
        let gone = || Error::new(Code::Conflict, "the branch was set elsewhere meanwhile");
        Ok(sealed.ok_or_else(gone)?)
    }
}

/// The active checkpoints of contexts.
struct Active {
    /// The checkpoints of the selected branch.
    here: Vec<CheckpointId>,
    /// Number of branches on which each is active.
    branches: BTreeMap<CheckpointId, u64>,
}

impl Active {
    fn from_state(state: &State, branch: &str) -> Active {
        let (mut here, mut branches) = (Vec::new(), BTreeMap::new());
        for (name, head) in state.tree().branches() {
            for checkpoint in state.checkpoints().active(state.tree(), head) {
                *branches.entry(checkpoint.id).or_default() += 1;
                if name == branch {
                    here.push(checkpoint.id);
                }
            }
        }
        Active { here, branches }
    }
}

fn described(state: &State, active: &Active, of: &checkpoint::Checkpoint) -> Checkpoint {
    let counted = of.counts.iter().next();
    let tokens_after = counted.map_or(0, |(_, count)| count.tokens.0);
    Checkpoint {
        id: of.id.to_string(),
        number: of.number,
        active: active.here.contains(&of.id),
        active_branches: active.branches.get(&of.id).copied().unwrap_or_default(),
        retired: state.checkpoints().is_retired(of.id),
        first: of.first().0,
        last: of.cutoff.0,
        messages: of.messages_included,
        tokens_before: of.original.0,
        tokens_after,
        kind: match of.kind {
            Kind::Auto => "auto",
            Kind::Manual => "manual",
        }
        .to_owned(),
        tier: of.tier.name().to_owned(),
        preset: of.preset.name().to_owned(),
        model: of.model.to_string(),
        degraded: of.degraded,
        tightened: state.checkpoints().is_tightened(of.id),
        compression_ratio: ratio(of.original.0, tokens_after),
        at: values::instant(of.at),
        text: match &of.body {
            Body::Summary(text) => Some(text.to_string()),
            Body::Tombstone => None,
        },
        coverage: of.coverage.map(values::coverage),
    }
}

async fn detail(
    local: &Local,
    session: &View,
    number: &str,
    branch: &str,
) -> Result<CheckpointDetail, Error> {
    let found = requests::checkpoint(session, number).await?;
    let setup = local.setup_for_reading(session).await?;
    let mut state = session.inspect(Clone::clone).await?;
    let head = state.tree().head(branch);
    let head = head.ok_or_else(|| unknown_branch(branch))?;
    let checkpoint = described(&state, &Active::from_state(&state, branch), &found);
    let inactive = inactive(&state, head, &found);
    let ask = Ask::revert(found.id).branch(branch);
    let (id, active) = (found.id, checkpoint.active);
    let usage = state.checkpoint_usage(found.id);
    let learnt = local.calibrations().clone();
    let without = move || estimate::revert((&setup, &learnt), &ask, &mut state, head, id);
    let work = move || active.then(without);
    let without = off_thread(work).await.transpose()?;
    let key_facts = found.key_facts.iter().map(|fact| KeyFact {
        text: fact.text.to_string(),
        ordinal: fact.ordinal.0,
    });
    let covers = found.covers.iter().map(|span| Range {
        first: span.first.0,
        last: span.last.0,
    });
    Ok(CheckpointDetail {
        checkpoint,
        block: found.context_text(),
        covers: covers.collect(),
        key_facts: key_facts.collect(),
        duration_ms: found.duration_ms,
        usage: usage.map(|used| values::amounts(&used)),
        cost_usd: values::dollars(found.cost_micros.map(Cost::from_micro_dollars)),
        revert: without,
        inactive,
    })
}

/// Why a checkpoint is not in the context of a branch.
fn inactive(
    state: &State,
    head: MessageId,
    of: &checkpoint::Checkpoint,
) -> Option<InactiveCheckpoint> {
    let (tree, all) = (state.tree(), state.checkpoints());
    let why = all.status(tree, head, of.id).err()?;
    let text = why.to_string();
    let reason = text.split_once(": revert").map_or(&*text, |(what, _)| what);
    let applying = tree.branches();
    let applying = applying.filter(|(_, head)| of.applies_to(tree, *head));
    let names = applying.map(|(name, _)| name.to_owned());
    Some(InactiveCheckpoint {
        reason: reason.to_owned(),
        revert_first: match why {
            RevertError::Superseded { by, .. } | RevertError::GivesWay { to: by, .. } => Some(by),
            _ => None,
        },
        branches: matches!(why, RevertError::Elsewhere { .. }).then(|| names.collect()),
    })
}
