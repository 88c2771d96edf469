//! Parts of a context that a person has made smaller.

use serde::{Deserialize, Serialize};
use unisono_context::{Ordinal, Tokens, compaction};

/// What of a context is made smaller. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ContextPart {
    Topic { message: u32 },
    Attention,
    Large { over_tokens: Option<u64> },
}

impl From<compaction::ContextPart> for ContextPart {
    fn from(part: compaction::ContextPart) -> Self {
        match part {
            compaction::ContextPart::Topic { message } => Self::Topic { message: message.0 },
            compaction::ContextPart::Attention => Self::Attention,
            compaction::ContextPart::Large { over } => Self::Large {
                over_tokens: over.map(|over| over.0),
            },
        }
    }
}

impl From<ContextPart> for compaction::ContextPart {
    fn from(part: ContextPart) -> Self {
        match part {
            ContextPart::Topic { message } => Self::Topic {
                message: Ordinal(message),
            },
            ContextPart::Attention => Self::Attention,
            ContextPart::Large { over_tokens } => Self::Large {
                over: over_tokens.map(Tokens),
            },
        }
    }
}
