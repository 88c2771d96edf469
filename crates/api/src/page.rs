//! A part of a list.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

/// Which part of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "description", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// `next` of the part before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many at most: 50, and no more than 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(value_type = Option<usize>, minimum = 1))]
    pub limit: Option<NonZeroUsize>,
}

/// A part of a list, and where the next one begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// The part, in the list's order.
    pub items: Vec<T>,
    /// To be sent as `cursor` for what comes after; none at the end.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// Items of a part that is not asked for otherwise, and at most.
    const USUAL: usize = 50;
    const MOST: usize = 500;

    /// How many items a part has at most, where so many are asked for.
    pub fn size(limit: Option<NonZeroUsize>) -> usize {
        limit.map_or(Self::USUAL, |limit| limit.get().min(Self::MOST))
    }

    /// The first `limit` of what is left of a list, of which no more than one more is looked at.
    /// Where there are more, the next part begins after the last one, at what `place` says of it.
    pub fn first(
        left: impl IntoIterator<Item = T>,
        limit: usize,
        place: impl FnOnce(&T) -> String,
    ) -> Self {
        let mut left = left.into_iter();
        let items: Vec<T> = left.by_ref().take(limit).collect();
        let more = left.next().is_some();
        let next = items.last().filter(|_| more).map(place);
        Page { items, next }
    }
}
