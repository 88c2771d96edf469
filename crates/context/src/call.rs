//! Tool calls, their results, and what a model's reply used: the words models and runs share.

use std::ops::Add;
use std::sync::Arc;

use crate::tokens::Tokens;

/// A call a model made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The model's id for it.
    pub id: Arc<str>,
    /// The tool.
    pub name: Arc<str>,
    /// Arguments as JSON text.
    pub arguments: Arc<str>,
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The call's id.
    pub call_id: Arc<str>,
    /// The answer.
    pub content: Arc<str>,
    /// Whether the tool failed.
    pub is_error: bool,
}

/// Tokens that were used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens.
    pub input: Tokens,
    /// Output tokens.
    pub output: Tokens,
}

impl Add for Usage {
    type Output = Usage;

    fn add(self, other: Usage) -> Usage {
        Usage {
            input: self.input + other.input,
            output: self.output + other.output,
        }
    }
}
