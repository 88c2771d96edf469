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

/// A model's summary has at least one token of text for so many tokens of its input, but no more than
/// this part of its cap, and no more than so many tokens.
const INPUT_PER_TOKEN: u64 = 500;
const LEAST_PART: u64 = 8;
const LEAST_MOST: u64 = 40;
/// The bytes of letters and digits in a token.
const TOKEN_BYTES: u64 = 4;

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
    /// Its own text says nearly nothing.
    #[error("the summary has about {tokens} tokens of text for {input} tokens, fewer than {least}")]
    SaysTooLittle {
        /// The approximate tokens of its text.
        tokens: Tokens,
        /// Tokens of its input.
        input: Tokens,
        /// Its minimum tokens.
        least: Tokens,
    },
}

/// Checks that the text of a model's summary, without headings and without anything that is added to
/// it, is long enough for its input and its cap.
///
/// # Errors
/// It says too little.
pub fn says_enough(text: &str, cap: Tokens, input: Tokens) -> Result<(), Rejection> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let letters = lines.flat_map(|line| line.chars().filter(|c| c.is_alphanumeric()));
    let bytes: usize = letters.map(char::len_utf8).sum();
    let tokens = Tokens((bytes as u64).div_ceil(TOKEN_BYTES));
    let least = (input.0 / INPUT_PER_TOKEN).min(cap.0 / LEAST_PART);
    let least = Tokens(least.clamp(1, LEAST_MOST));
    match tokens < least {
        true => Err(Rejection::SaysTooLittle {
            tokens,
            input,
            least,
        }),
        false => Ok(()),
    }
}

/// Checks a summary against its cap and its input. A summary of the conversation must have
/// sections; summaries of topics and bulks are paragraphs.
///
/// # Errors
/// The first reason to reject it.
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
///
/// # Errors
/// The first reason to reject it.
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
    fn a_summary_says_enough_for_its_input() {
        let one = "The user and the assistant discussed the plan for the orders.";
        let some = format!("{one} {one} {one} {one}");
        let chinese = "用户和助手讨论了订单迁移计划，决定在三月十四日冻结旧系统，并由安娜负责检查数据。费用不得超过两千欧元。";
        let rows = [
            ("", 100, 2_048, false),
            ("Summary:", 20_000, 2_048, false),
            ("## Context\n## Key points\n", 100, 2_048, false),
            ("## Context\n- \n", 100, 2_048, false),
            (one, 20_000, 2_048, false),
            (one, 4_000, 2_048, true),
            (one, 20_000, 80, true),
            (&some, 20_000, 2_048, true),
            (chinese, 15_000, 2_048, true),
            (&some, 900_000, 2_048, true),
        ];
        for (text, input, cap, is_enough) in rows {
            let judged = says_enough(text, Tokens(cap), Tokens(input));
            assert_eq!(judged.is_ok(), is_enough, "{text} {input} {cap} {judged:?}");
        }
        let judged = says_enough(one, Tokens(2_048), Tokens(20_000)).map_err(|no| no.to_string());
        let why = "the summary has about 13 tokens of text for 20000 tokens, fewer than 40";
        assert_eq!(judged, Err(why.to_owned()));
    }
}
