//! Pages of lists.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

/// Selects a page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Size of a page, at most 500 (default: 50).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(value_type = Option<usize>, minimum = 1))]
    pub limit: Option<NonZeroUsize>,
}

/// A page of a list, with the cursor of the next page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// The items, in the order of the list.
    pub items: Vec<T>,
    /// The `cursor` of the next page; null on the last page.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// Default and maximum number of items of a page.
    const USUAL: usize = 50;
    const MAX: usize = 500;

    /// The number of items of a page, for a requested number.
    pub fn size(limit: Option<NonZeroUsize>) -> usize {
        limit.map_or(Self::USUAL, |limit| limit.get().min(Self::MAX))
    }

    /// The first `limit` remaining items of a list. At most one more item is read. If there are
    /// more, the next page begins after the last item, at the cursor that `place` returns for it.
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

    /// The page with each item replaced by what `to_item` makes of it.
    pub fn map<U>(self, to_item: impl FnMut(T) -> U) -> Page<U> {
        Page {
            items: self.items.into_iter().map(to_item).collect(),
            next: self.next,
        }
    }

    /// All items of a list. `read` reads the page at a cursor; without one, the first page.
    ///
    /// # Errors
    /// As `read`.
    pub async fn all<E>(
        mut read: impl AsyncFnMut(Option<String>) -> Result<Self, E>,
    ) -> Result<Vec<T>, E> {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let page = read(cursor).await?;
            all.extend(page.items);
            if page.next.is_none() {
                return Ok(all);
            }
            cursor = page.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn a_list_is_read_to_its_last_page() {
        let read = async |cursor: Option<String>| -> Result<Page<u32>, String> {
            let (item, next) = match cursor.as_deref() {
                None => (1, Some("second")),
                Some("second") => (2, Some("third")),
                Some("third") => (3, None),
                Some(other) => return Err(other.to_owned()),
            };
            let next = next.map(str::to_owned);
            Ok(Page {
                items: vec![item],
                next,
            })
        };
        let all = pin!(Page::all(read)).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(all, Poll::Ready(Ok(vec![1, 2, 3])));
    }
}
