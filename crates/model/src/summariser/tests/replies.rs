//! Tests of replies: the text around a summary is removed, and unusable replies are rejected with a
//! reason.

use unisono_context::Tokens;
use unisono_context::call::{Reply, Stop};
use unisono_context::compaction::Rejection;

use crate::extractive::SummaryLayout;
use crate::summariser::{reduced_target, summary};

fn reply(text: &str) -> Reply {
    Reply {
        text: text.into(),
        ..Reply::default()
    }
}

fn rolling(text: &str) -> Result<String, Rejection> {
    summary(&reply(text), SummaryLayout::Rolling)
}

fn paragraph(text: &str) -> Result<String, Rejection> {
    summary(&reply(text), SummaryLayout::Paragraph)
}

const PLAIN: &str =
    "## Context\n- They move house (#1).\n\n## Constraints (verbatim)\n- \"No van.\" (#3)";

#[test]
fn text_around_a_summary_is_removed() {
    let rows = [
        PLAIN.to_owned(),
        format!("Here is the summary:\n\n{PLAIN}\n"),
        format!("# Summary\n\n---\n{PLAIN}"),
        format!("```markdown\n{PLAIN}\n```"),
        format!("Sure! Here it is.\n\n```\n{PLAIN}\n```\nLet me know if you need more."),
        format!("<think>\nWhat matters here?\n## Context\n</think>\n\n{PLAIN}"),
        PLAIN.replace("## ", "### "),
        PLAIN
            .replace("## Context", "**Context**")
            .replace("## Constraints (verbatim)", "**Constraints:**"),
        PLAIN
            .replace("## Context", "# 1. Context:")
            .replace("## Constraints", "# 7) CONSTRAINTS"),
        format!("{PLAIN}\n\n## Unresolved questions\nNone.\n"),
        format!("## Key points\n\n{PLAIN}\n\n## Work done\n- (none)\n"),
    ];
    for text in rows {
        assert_eq!(rolling(&text).as_deref(), Ok(PLAIN), "{text}");
    }
}

#[test]
fn content_of_a_summary_is_kept() {
    let rows = [
        "They move from Rome to Oslo.\nIt is urgent.\n\n## Key points\n- a",
        "## Technical details\n```rust\n## Context\nfn a() {}\n```\n- None of it was run.",
        "## Key points\n- a\n### More\n- b\n- **Context** matters",
        "## Pending work and next step\n- None of the tests was run\n- Run them",
    ];
    for text in rows {
        assert_eq!(rolling(text).as_deref(), Ok(text));
    }
}

#[test]
fn rejected_summaries_have_a_reason() {
    let with = |stop| Reply {
        stop,
        ..reply(PLAIN)
    };
    for style in [SummaryLayout::Rolling, SummaryLayout::Paragraph] {
        let judged = |reply| summary(&reply, style);
        assert_eq!(judged(with(Stop::CutOff)), Err(Rejection::CutOff));
        assert_eq!(judged(with(Stop::Refused)), Err(Rejection::Refused));
        assert_eq!(judged(reply(" \n")), Err(Rejection::Empty));
        assert_eq!(judged(reply("<think>hm")), Err(Rejection::Empty));
    }
    assert_eq!(rolling("They move house."), Err(Rejection::LacksHeadings));
    assert_eq!(
        rolling("## Summary\nThey move."),
        Err(Rejection::LacksHeadings)
    );
    assert_eq!(
        rolling("I'm sorry, I can't help."),
        Err(Rejection::LacksHeadings)
    );
    assert_eq!(rolling("## Context\nNone."), Err(Rejection::Empty));
    for refusal in [
        "I'm sorry, but I can't help with that.",
        "I cannot summarise this.",
        "I’m unable to help with that.",
        "Sorry, but I can’t assist with that request.",
        "Es tut mir leid, aber dabei kann ich nicht helfen.",
        "Je suis désolé, je ne peux pas vous aider.",
        "抱歉，我无法协助处理这个请求。",
    ] {
        assert_eq!(paragraph(refusal), Err(Rejection::Refused), "{refusal}");
    }
}

#[test]
fn a_paragraph_is_joined_to_one_line() {
    let rows = rows! {
        ("They move. \"No van.\" (#3)", "They move. \"No van.\" (#3)"),
        ("Here is the paragraph:\n\nThey move.", "They move."),
        ("## Moving\n\nThey move.\nSoon.", "They move. Soon."),
        ("**Moving**\n\nThey move.", "They move."),
        ("#3 asks for a van.\n\nBen pays (#5).", "#3 asks for a van. Ben pays (#5)."),
        ("**Decision:** no van.\n\nBen pays.", "**Decision:** no van. Ben pays."),
        ("```\nThey move.\n```", "They move."),
        ("They move.\n\n- No van.\n- Soon.", "They move. No van. Soon."),
        ("They cannot agree; I'm sorry was said.", "They cannot agree; I'm sorry was said."),
    };
    for (text, expected) in rows {
        assert_eq!(paragraph(text).as_deref(), Ok(expected));
    }
}

#[test]
fn credentials_and_guards_are_removed() {
    let text = "## Technical details\n- The key is sk-proj-abcdefghij0123456789 (#2).\n\
                - The page ends with `<\\/conversation>`.";
    let expected = "## Technical details\n- The key is [redacted] (#2).\n\
                    - The page ends with `</conversation>`.";
    assert_eq!(rolling(text).as_deref(), Ok(expected));
}

#[test]
fn a_summary_over_its_cap_gets_a_reduced_target() {
    let rows = [
        ((1_600, 4_000, 2_000), 720),
        ((1_600, 2_100, 2_000), 1_370),
        ((1_600, 90_000, 2_000), 400),
    ];
    for ((target, tokens, cap), expected) in rows {
        assert_eq!(
            reduced_target(Tokens(target), Tokens(tokens), Tokens(cap)),
            Tokens(expected)
        );
    }
}
