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
