//! The lines of messages that are masked or cut; [`crate::transcript::unisono`] reads them.

use serde::Serialize;
use unisono_context::alteration::{Alteration, Form};

use super::checkpoint::{CountLines, count_lines};

#[derive(Serialize)]
pub(super) struct ShortenedLine {
    #[serde(rename = "type")]
    kind: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_chars: Option<u32>,
    counts: CountLines,
    #[serde(skip_serializing_if = "is_zero")]
    after: u32,
}

impl ShortenedLine {
    pub(super) fn new(alteration: &Alteration, after: u32) -> ShortenedLine {
        let (kind, tokens, target_chars) = match alteration.form {
            Form::Masked { tokens } => ("masked", Some(tokens.0), None),
            Form::Cut { target_chars } => ("cut", None, Some(target_chars)),
            Form::Truncated { target_chars } => ("truncated", None, Some(target_chars)),
        };
        ShortenedLine {
            kind,
            message: alteration.message.to_string(),
            tokens,
            target_chars,
            counts: count_lines(&alteration.counts),
            after,
        }
    }
}

fn is_zero(after: &u32) -> bool {
    *after == 0
}
