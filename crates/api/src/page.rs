//! A part of a list.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A part of a list, and where the next one begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
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
    pub fn size(limit: Option<usize>) -> usize {
        limit.unwrap_or(Self::USUAL).clamp(1, Self::MOST)
    }

    /// The part of a whole list that begins with the item `cursor`, from 0.
    pub fn of(
        all: impl IntoIterator<Item = T>,
        cursor: Option<usize>,
        limit: Option<usize>,
    ) -> Self {
        let first = cursor.unwrap_or(0);
        let limit = Self::size(limit);
        let mut rest = all.into_iter().skip(first).peekable();
        let items = rest.by_ref().take(limit).collect();
        let next = rest.peek().map(|_| (first + limit).to_string());
        Page { items, next }
    }
}
