//! Token counts.

use serde::{Deserialize, Serialize};
use unisono_context::tokens;

use super::Invalid;
use super::codes::codes;

codes!(
    /// A tokenizer vocabulary.
    #[derive(PartialOrd)]
    Encoding = tokens::Encoding {
        O200kBase,
        Cl100kBase,
    }
);

/// What one text costs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Count {
    tokens: u64,
    at_most: u64,
}

impl From<tokens::Count> for Count {
    fn from(count: tokens::Count) -> Self {
        Self {
            tokens: count.tokens.0,
            at_most: count.at_most.0,
        }
    }
}

impl From<Count> for tokens::Count {
    fn from(count: Count) -> Self {
        Self {
            tokens: tokens::Tokens(count.tokens),
            at_most: tokens::Tokens(count.at_most),
        }
    }
}

/// The known counts, ascending by encoding, each encoding once.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Counts(Vec<(Encoding, Count)>);

impl From<&tokens::Counts> for Counts {
    fn from(counts: &tokens::Counts) -> Self {
        Self(
            counts
                .iter()
                .map(|(encoding, count)| (encoding.into(), count.into()))
                .collect(),
        )
    }
}

impl TryFrom<Counts> for tokens::Counts {
    type Error = Invalid;

    fn try_from(Counts(counts): Counts) -> Result<Self, Invalid> {
        if counts.is_sorted_by(|a, b| a.0 < b.0) {
            Ok(counts
                .into_iter()
                .map(|(encoding, count)| (encoding.into(), count.into()))
                .collect())
        } else {
            Err(Invalid::Order { table: "counts" })
        }
    }
}
