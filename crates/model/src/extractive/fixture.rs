//! Conversations for tests.

use std::borrow::Cow;

use unisono_context::{Ordinal, Role, Timestamp};

use super::passage::Passage;
use super::pool::Pool;

/// What a user says, from message 1 on, at an unknown time.
pub(super) fn passages_of<'a, T: Into<Cow<'a, str>>>(
    texts: impl IntoIterator<Item = T>,
) -> Vec<Passage<'a>> {
    let passage = |(n, text): (u32, T)| Passage::text(Ordinal(n), Role::User, Timestamp(0), text);
    (1..).zip(texts).map(passage).collect()
}

pub(super) fn pool_of<'a>(passages: &'a [Passage<'_>]) -> Pool<'a> {
    let mut pool = Pool::new();
    for passage in passages {
        pool.add_passage(passage, &passage.text, false);
    }
    pool
}
