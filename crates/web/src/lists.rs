//! Whole lists, read in parts.

use std::num::NonZeroUsize;

use unisono_api::approval::{Approval, ApprovalQuery};
use unisono_api::message::{Message, MessageQuery};
use unisono_api::schedule::Schedule;
use unisono_api::service::{Result, Service};
use unisono_api::session::BranchPageQuery;
use unisono_api::topic::Topic;
use unisono_api::turn::Turn;
use unisono_api::{Code, Page, PageQuery};

use crate::branch_view::BranchView;

/// Items of a part: the most that a service answers.
pub(crate) const PART: Option<NonZeroUsize> = NonZeroUsize::new(500);

/// Maximum pages of a session's turns that are searched for turns of a branch.
const PARTS: usize = 10;

/// The waiting calls of a session, oldest first.
pub(crate) async fn approvals(service: &dyn Service, session: &str) -> Result<Vec<Approval>> {
    let mut query = ApprovalQuery {
        session: Some(session.to_owned()),
        cursor: None,
        limit: PART,
    };
    let mut all = Vec::new();
    while let Some(next) = add(service.approvals(&query).await?, &mut all) {
        query.cursor = Some(next);
    }
    Ok(all)
}

/// All schedules, by name.
pub(crate) async fn schedules(service: &dyn Service) -> Result<Vec<Schedule>> {
    let mut query = PageQuery {
        cursor: None,
        limit: PART,
    };
    let mut all = Vec::new();
    while let Some(next) = add(service.schedules(&query).await?, &mut all) {
        query.cursor = Some(next);
    }
    Ok(all)
}

/// At most `limit` messages of a branch from one on.
pub(crate) async fn messages(
    service: &dyn Service,
    place: &BranchView,
    first: u32,
    limit: u32,
) -> Result<Vec<Message>> {
    // The first branch of a session without messages may not be there yet.
    if place.length == 0 {
        return Ok(Vec::new());
    }
    let query = MessageQuery {
        branch: place.branch.clone(),
        cursor: Some(first.to_string()),
        limit: NonZeroUsize::new(limit as usize),
        steps: false,
    };
    Ok(service.messages(&place.about.session, &query).await?.items)
}

/// The newest turns of a branch that were accepted before an event: `limit` turns or a few more.
///
/// Pages of a session's turns are read as a whole, so that the next one begins at its cursor. The
/// search for turns of a branch ends after some pages, and continues at the cursor too.
pub(crate) async fn turns(
    service: &dyn Service,
    place: &BranchView,
    before: Option<u64>,
    many: usize,
) -> Result<Page<Turn>> {
    let mut found = Page {
        items: Vec::new(),
        next: before.map(|event| event.to_string()),
    };
    for _ in 0..PARTS {
        let query = PageQuery {
            cursor: found.next.take(),
            limit: NonZeroUsize::new(many),
        };
        let part = service.turns(&place.about.session, &query).await?;
        found.next = part.next;
        let own = part.items.into_iter();
        found
            .items
            .extend(own.filter(|turn| turn.branch == place.branch));
        if found.next.is_none() || found.items.len() >= many {
            break;
        }
    }
    Ok(found)
}

/// The newest topics of a branch.
pub(crate) struct NewestTopics {
    /// They are in their order, the oldest first.
    pub(crate) items: Vec<Topic>,
    pub(crate) earlier: usize,
}

/// At most `limit` newest topics of a branch.
pub(crate) async fn newest_topics(
    service: &dyn Service,
    place: &BranchView,
    limit: usize,
) -> Result<NewestTopics> {
    let mut items = Vec::new();
    let mut query = first_of_branch(&place.branch, PART);
    // The first branch of a session without messages may not be there yet.
    let mut is_complete = place.length == 0;
    while !is_complete {
        let part = service.topics(&place.about.session, &query).await?;
        query.cursor = add(part, &mut items);
        is_complete = query.cursor.is_none();
    }
    let earlier = items.len().saturating_sub(limit);
    items.drain(..earlier);
    Ok(NewestTopics { items, earlier })
}

/// The first part of a list of a branch.
pub(crate) fn first_of_branch(branch: &str, limit: Option<NonZeroUsize>) -> BranchPageQuery {
    BranchPageQuery {
        branch: branch.to_owned(),
        cursor: None,
        limit,
    }
}

/// What was found, or none if it does not exist: a part of a list may be deleted before it is read.
pub(crate) fn existing<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code() == Code::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Adds the items of a part; the cursor of the next part.
fn add<T>(part: Page<T>, all: &mut Vec<T>) -> Option<String> {
    all.extend(part.items);
    part.next
}

#[cfg(test)]
mod tests {
    use unisono_api::service::Error;

    use super::*;

    #[test]
    fn what_was_deleted_since_the_list_is_left_out_and_other_errors_are_not() {
        let refused = |code| Err::<u32, _>(Error::new(code, "x"));
        assert_eq!(existing(Ok(1)).unwrap(), Some(1));
        assert_eq!(existing(refused(Code::NotFound)).unwrap(), None);
        let error = existing(refused(Code::Unavailable)).unwrap_err();
        assert_eq!(error.code(), Code::Unavailable);
    }
}
