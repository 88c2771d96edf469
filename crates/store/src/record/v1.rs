//! Version 1, as it was: the types that version 2 changed, and what they are in version 2.
//!
//! Frozen. What is not here is the same in both versions.

mod agent;
mod fact;
mod run;
mod turn;
#[cfg(test)]
pub(super) mod written;

use serde::{Deserialize, Serialize};

use super::fact as v2;
use fact::Fact;

/// One entry of the journal.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Event {
    at: i64,
    fact: Fact,
}

impl From<Event> for v2::Event {
    fn from(event: Event) -> Self {
        Self {
            at: event.at,
            fact: event.fact.into(),
        }
    }
}
