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

    /// The part of a whole list that begins with the item `cursor`, from 0.
    pub fn of(
        all: impl IntoIterator<Item = T>,
        cursor: Option<usize>,
        limit: Option<usize>,
    ) -> Self {
        let first = cursor.unwrap_or(0);
        let limit = limit.unwrap_or(Self::USUAL).clamp(1, Self::MOST);
        let mut rest = all.into_iter().skip(first).peekable();
        let items = rest.by_ref().take(limit).collect();
        let next = rest.peek().map(|_| (first + limit).to_string());
        Page { items, next }
    }
}
