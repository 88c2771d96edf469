//! Measures which facts of a conversation a kept text still holds.

use serde::{Deserialize, Serialize};

/// A fact that can be looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Its name within the set.
    pub id: String,
    /// `fact`, `decision`, `constraint` …
    pub category: String,
    /// The question it answers.
    pub question: String,
    /// Needles of what it is about; one is enough.
    pub subject: Vec<String>,
    /// Needles of the answer; one is enough.
    pub answer: Vec<String>,
    /// The messages that say it.
    pub ordinals: Vec<u32>,
}
