//! Rolling summaries without a model, in tokens of four bytes.

use unisono_context::Tokens;
use unisono_model::extractive::{Passage, SummaryInput, summarise};

pub(crate) fn count(text: &str) -> u64 {
    text.len() as u64 / 4
}

/// The summary of the passages and of the one before, which is at most that long.
pub(crate) fn summary(passages: &[Passage<'_>], prior: Option<&str>, cap: u64) -> String {
    let draft = summarise(&SummaryInput {
        prior,
        ..SummaryInput::new(passages, Tokens(cap), &count)
    });
    assert!(count(&draft.text) <= cap);
    draft.text
}
