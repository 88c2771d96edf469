//! Requested compactions of one part of the context.

use unisono_context::compaction::ContextPart;

use super::*;

pub(super) fn facts() -> Samples {
    let part = |part, writing| accepted(Work::CompactPart { part, writing }, policy());
    let message = Ordinal(7);
    let over = Some(Tokens(2_000));
    let insisting = SummaryOptions {
        summariser: Some("openai/gpt-4o-mini".into()),
        unwritten: SummaryFallback::Retry,
        ..SummaryOptions::default()
    };
    samples! {
        "turn_accepted_compact_topic":
            part(ContextPart::Topic { message }, options("Keep the names.")),
        "turn_accepted_compact_attention": part(ContextPart::Attention, insisting),
        "turn_accepted_compact_large": part(ContextPart::Large { over }, SummaryOptions::default()),
    }
}
