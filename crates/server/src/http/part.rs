//! Which part of a list is asked for: the same two parameters for every list.
//!
//! A cursor is where the part before ended, never how many there were: what is added or goes away
//! in between neither hides an item nor tells one twice.

use std::num::NonZeroUsize;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use unisono_api::{Code, Page};

use super::problem::Fault;

/// Which part of a list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    /// `next` of the part before.
    pub(super) cursor: Option<String>,
    /// How many at most: 50, and no more than 500.
    #[param(value_type = Option<usize>, minimum = 1)]
    limit: Option<NonZeroUsize>,
}

impl Part {
    /// The place after which it begins.
    pub(super) fn after<P: FromStr>(&self) -> Result<Option<P>, Fault> {
        after(self.cursor.as_deref())
    }

    /// How many it has at most.
    pub(super) fn limit(&self) -> usize {
        Page::<()>::size(self.limit)
    }
}

/// The number of an event: as large as those are that all clients can hold.
pub(super) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let number = i64::deserialize(from)?;
    u64::try_from(number).map_err(|_| D::Error::custom("it is below 0"))
}

/// The same where there may be none.
pub(super) fn some_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    number(from).map(Some)
}

/// The place that a cursor names.
pub(super) fn after<P: FromStr>(cursor: Option<&str>) -> Result<Option<P>, Fault> {
    let read = |text: &str| text.parse().map_err(|_| no_cursor(text));
    cursor.map(read).transpose()
}

/// What stands for no place of the list.
pub(super) fn no_cursor(text: &str) -> Fault {
    let detail = format!(
        "{text:?} is no cursor of this list: send `next` of the part before as it is, or none"
    );
    Fault::new(Code::InvalidRequest, detail)
}
