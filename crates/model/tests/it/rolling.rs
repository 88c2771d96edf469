//! Rolling summaries without a model, in tokens of four bytes.

use unisono_context::Tokens;
use unisono_model::extractive::{Passage, SummaryInput, summarise};

pub(crate) const DAY: i64 = 86_400_000;
/// 2025-01-06, a Monday.
pub(crate) const START: i64 = 1_736_121_600_000;

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

#[track_caller]
pub(crate) fn check(text: &str, has: &[&str], lacks: &[&str]) {
    for part in has {
        assert!(text.contains(*part), "no {part:?} in {text}");
    }
    for part in lacks {
        assert!(!text.contains(*part), "{part:?} in {text}");
    }
}
