//! Whole lists, read in parts.

use std::num::NonZeroUsize;

use unisono_api::Page;
use unisono_api::approval::{Approval, ApprovalQuery};
use unisono_api::compaction::Checkpoint;
use unisono_api::service::{Result, Service};
use unisono_api::session::{BranchPageQuery, Stretch, TreeQuery};
use unisono_api::topic::Topic;

/// Items of a part: the most that a service answers.
pub(crate) const PART: Option<NonZeroUsize> = NonZeroUsize::new(500);

/// All calls that wait, or those of a session, the oldest first.
pub(crate) async fn approvals(
    service: &dyn Service,
    session: Option<&str>,
) -> Result<Vec<Approval>> {
    let mut query = ApprovalQuery {
        session: session.map(str::to_owned),
        cursor: None,
        limit: PART,
    };
    let mut all = Vec::new();
    while let Some(next) = add(service.approvals(&query).await?, &mut all) {
        query.cursor = Some(next);
    }
    Ok(all)
}

/// The checkpoints of a session, the oldest first.
pub(crate) async fn checkpoints(
    service: &dyn Service,
    session: &str,
    branch: &str,
) -> Result<Vec<Checkpoint>> {
    let (mut query, mut all) = (of_branch(branch), Vec::new());
    while let Some(next) = add(service.checkpoints(session, &query).await?, &mut all) {
        query.cursor = Some(next);
    }
    all.reverse();
    Ok(all)
}

/// The topics of a branch, the oldest first.
pub(crate) async fn topics(
    service: &dyn Service,
    session: &str,
    branch: &str,
) -> Result<Vec<Topic>> {
    let (mut query, mut all) = (of_branch(branch), Vec::new());
    while let Some(next) = add(service.topics(session, &query).await?, &mut all) {
        query.cursor = Some(next);
    }
    Ok(all)
}

/// The tree of a session's messages.
pub(crate) async fn tree(service: &dyn Service, session: &str) -> Result<Vec<Stretch>> {
    let mut query = TreeQuery {
        full: false,
        cursor: None,
        limit: PART,
    };
    let mut all = Vec::new();
    while let Some(next) = add(service.tree(session, &query).await?, &mut all) {
        query.cursor = Some(next);
    }
    Ok(all)
}

/// The first part of a list of a branch.
pub(crate) fn of_branch(branch: &str) -> BranchPageQuery {
    BranchPageQuery {
        branch: branch.to_owned(),
        cursor: None,
        limit: PART,
    }
}

/// Adds the items of a part; the cursor of the next part.
fn add<T>(part: Page<T>, all: &mut Vec<T>) -> Option<String> {
    all.extend(part.items);
    part.next
}
