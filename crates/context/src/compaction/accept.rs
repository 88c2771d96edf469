//! Whether a summary may replace its input.

use crate::alteration::TRUNCATED;
use crate::checkpoint::Tier;
use crate::tokens::Tokens;

/// The sections of a rolling summary, in order; empty ones are left out.
pub const SECTIONS: [&str; 8] = [
    "Context",
    "Key points",
    "Technical details",
    "Decisions and outcomes",
    "Work done",
    "Pending work and next step",
    "Constraints",
    "Unresolved questions",
];

/// How the writer stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// By itself.
    Complete,
    /// At its output limit.
    CutOff,
    /// It declined.
    Refused,
}

/// A summary as its writer returned it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft<'a> {
    /// The text.
    pub text: &'a str,
    /// How the writer stopped.
    pub stop: Stop,
    /// Tokens of the whole block in the context.
    pub tokens: Tokens,
}

/// Why a summary is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// It has no text.
    #[error("the summary is empty")]
    Empty,
    /// Longer than allowed.
    #[error("the summary has {tokens} tokens, over its cap of {cap}")]
    OverCap {
        /// Its tokens.
        tokens: Tokens,
        /// Its maximum tokens.
        cap: Tokens,
    },
    /// It is not smaller than its input.
    #[error("the summary has {tokens} tokens, no fewer than the {input} it would replace")]
    NotSmaller {
        /// Its tokens.
        tokens: Tokens,
        /// Tokens of its input.
        input: Tokens,
    },
    /// Ended at the writer's output limit.
    #[error("the summary was cut off by the model")]
    CutOff,
    /// The writer declined.
    #[error("the model refused to summarise")]
    Refused,
    /// The context would exceed its target.
    #[error("with it the context has {context} tokens, over its target of {target}")]
    OverTarget {
        /// Tokens of the context with it.
        context: Tokens,
        /// Its maximum tokens.
        target: Tokens,
    },
    /// It has none of its sections.
    #[error("the summary has none of its sections")]
    LacksHeadings,
}

/// Checks that a model's summary has text of its own, besides headings and labels ("Summary:").
///
/// # Errors
/// It is empty.
pub fn has_text(text: &str) -> Result<(), Rejection> {
    let lines = text.lines().map(str::trim);
    let mut lines = lines.filter(|line| !is_heading(line) && !line.ends_with(':'));
    match lines.any(|line| line.contains(char::is_alphanumeric)) {
        true => Ok(()),
        false => Err(Rejection::Empty),
    }
}

/// Whether a line is a heading: `## Context`, but not `#12 asks for a van`.
fn is_heading(line: &str) -> bool {
    let text = line.trim_start_matches('#');
    text.len() < line.len() && (text.is_empty() || text.starts_with(' '))
}

/// Checks a summary against its cap and its input. A summary of the conversation must have
/// sections; summaries of topics and bulks are paragraphs.
pub fn accept(draft: &Draft<'_>, tier: Tier, cap: Tokens, input: Tokens) -> Result<(), Rejection> {
    within_cap(draft, cap)?;
    if draft.tokens >= input {
        return Err(Rejection::NotSmaller {
            tokens: draft.tokens,
            input,
        });
    }
    if tier != Tier::Conversation {
        return Ok(());
    }
    let has_section = draft
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .any(|title| {
            SECTIONS
                .iter()
                .any(|section| title.trim().starts_with(section))
        });
    if has_section {
        Ok(())
    } else {
        Err(Rejection::LacksHeadings)
    }
}

/// Checks a text that replaces a summary (a repair, an edit, a regenerated summary) against its cap
/// and against the target of the whole context, which has `context` tokens with it. It may be
/// longer than the old summary.
pub fn accept_replacement(
    draft: &Draft<'_>,
    cap: Tokens,
    context: Tokens,
    target: Tokens,
) -> Result<(), Rejection> {
    within_cap(draft, cap)?;
    if context > target {
        return Err(Rejection::OverTarget { context, target });
    }
    Ok(())
}

fn within_cap(draft: &Draft<'_>, cap: Tokens) -> Result<(), Rejection> {
    match draft.stop {
        Stop::Refused => return Err(Rejection::Refused),
        Stop::CutOff => return Err(Rejection::CutOff),
        Stop::Complete => {}
    }
    if draft.text.trim().is_empty() {
        return Err(Rejection::Empty);
    }
    if draft.tokens > cap {
        let tokens = draft.tokens;
        return Err(Rejection::OverCap { tokens, cap });
    }
    Ok(())
}

/// The last fallback of a failed summary: the first and last `keep` Unicode scalars around
/// `[truncated]`; the text itself if that would not be shorter.
pub fn truncated(text: &str, keep: usize) -> String {
    let length = text.chars().count();
    if length <= 2 * keep + TRUNCATED.len() {
        return text.to_owned();
    }
    let head = text.chars().take(keep);
    head.chain(TRUNCATED.chars())
        .chain(text.chars().skip(length - keep))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_and_labels_alone_are_no_summary() {
        for empty in [
            "",
            " \n",
            "Summary:",
            "## Context\n## Key points\n",
            "## Context\n- \n",
        ] {
            assert_eq!(has_text(empty), Err(Rejection::Empty), "{empty}");
        }
        for text in [
            "## Context\n- Ok.",
            "Summary: it holds.",
            "#3 asks for a van; #5 agrees.",
            "Summary:\n三月十四日",
        ] {
            assert_eq!(has_text(text), Ok(()), "{text}");
        }
    }
}
