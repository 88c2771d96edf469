//! The lines of messages that are masked or cut; [`crate::transcript::unisono`] reads them.

use serde::Serialize;
use unisono_context::alteration::{Alteration, Form};

use super::checkpoint::{CountLines, count_lines};

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ShortenedLine {
    Masked {
        message: String,
        tokens: u64,
        counts: CountLines,
        #[serde(skip_serializing_if = "is_zero")]
        after: u32,
    },
    Cut {
        message: String,
        target_chars: u32,
        counts: CountLines,
        #[serde(skip_serializing_if = "is_zero")]
        after: u32,
    },
    Truncated {
        message: String,
        target_chars: u32,
        counts: CountLines,
        #[serde(skip_serializing_if = "is_zero")]
        after: u32,
    },
}

impl ShortenedLine {
    pub(super) fn new(alteration: &Alteration, after: u32) -> ShortenedLine {
        let message = alteration.message.to_string();
        let counts = count_lines(&alteration.counts);
        match alteration.form {
            Form::Masked { tokens } => ShortenedLine::Masked {
                message,
                tokens: tokens.0,
                counts,
                after,
            },
            Form::Cut { target_chars } => ShortenedLine::Cut {
                message,
                target_chars,
                counts,
                after,
            },
            Form::Truncated { target_chars } => ShortenedLine::Truncated {
                message,
                target_chars,
                counts,
                after,
            },
        }
    }
}

fn is_zero(after: &u32) -> bool {
    *after == 0
}
