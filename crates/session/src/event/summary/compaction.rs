//! Facts about compactions, checkpoints and summaries that are written ahead.

use std::fmt::{self, Formatter};

use unisono_context::Encoding;
use unisono_context::checkpoint::{Body, Checkpoint, Span, Tier};
use unisono_context::compaction::{Cover, Plan, Step};

use super::{ShortId, turn};
use crate::event::Fact;

pub(super) fn format(fact: &Fact, f: &mut Formatter<'_>) -> Result<bool, fmt::Error> {
    match fact {
        Fact::CompactionPlanned { turn: id, plan } => {
            write!(f, "{}: ", turn(*id))?;
            format_plan(plan, f)?;
        }
        Fact::Altered {
            turn: id,
            alterations,
        } => {
            if let Some(id) = id {
                write!(f, "{}: ", turn(*id))?;
            }
            write!(f, "{} messages", alterations.len())?;
        }
        Fact::Compacted { checkpoint, .. } => format_checkpoint(checkpoint, f)?,
        Fact::CompactionFailed { turn: id, reason } => write!(f, "{}: {reason}", turn(*id))?,
        Fact::SummariserUsed {
            turn: id,
            model,
            usage,
        } => {
            let (input, output) = (usage.input, usage.output);
            let id = turn(*id);
            write!(f, "{id}: {model}, {input} tokens in, {output} out")?;
        }
        Fact::Reverted { checkpoint, .. } => {
            write!(f, "checkpoint {}", ShortId(checkpoint.as_u128()))?;
        }
        Fact::PreparationPlanned { preparation } => {
            write!(f, "after {}: ", turn(preparation.turn))?;
            format_step(&preparation.plan.step, f)?;
        }
        Fact::SummaryPrepared { turn: id, summary } => {
            write!(f, "after {}: by {}", turn(*id), summary.model)?;
        }
        Fact::PreparationDropped {
            turn: id, reason, ..
        } => write!(f, "after {}: {reason}", turn(*id))?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn format_plan(plan: &Plan, f: &mut Formatter<'_>) -> fmt::Result {
    format_step(&plan.step, f)?;
    write!(f, "; {} tokens, target {}", plan.before, plan.target)?;
    if plan.tightened {
        f.write_str("; less is kept than requested")?;
    }
    Ok(())
}

fn format_checkpoint(checkpoint: &Checkpoint, f: &mut Formatter<'_>) -> fmt::Result {
    let kind = match &checkpoint.body {
        Body::Summary(_) => "summary",
        Body::Tombstone => "note",
    };
    let (number, original) = (checkpoint.number, checkpoint.original);
    write!(f, "{kind} {number} stands for ")?;
    format_spans(&checkpoint.covers, f)?;
    let after = checkpoint.counts.get(Encoding::ALL[0]);
    let after = after.unwrap_or_default().tokens;
    write!(f, ": {original} tokens become {after}")
}

fn format_step(step: &Step, f: &mut Formatter<'_>) -> fmt::Result {
    let covered = |cover: &Cover, f: &mut Formatter<'_>| {
        format_spans(&cover.spans, f)?;
        write!(f, " of {} tokens", cover.original)
    };
    match step {
        Step::Mask(targets) => write!(f, "mask {} messages", targets.len()),
        Step::Cut {
            ordinal,
            target_chars,
            ..
        } => write!(f, "cut {ordinal} to {target_chars} characters"),
        Step::Summarise {
            cover, tier, cap, ..
        } => {
            f.write_str(match tier {
                Tier::Conversation => "summarise ",
                Tier::Topic => "summarise topic ",
                Tier::Bulk => "summarise as a bulk ",
            })?;
            covered(cover, f)?;
            write!(f, " in at most {cap}")
        }
        Step::Drop { cover } => {
            f.write_str("drop ")?;
            covered(cover, f)
        }
        Step::Regenerate { cover, cap, .. } => {
            f.write_str("regenerate the summary of ")?;
            format_spans(&cover.spans, f)?;
            write!(f, " in at most {cap}")
        }
        Step::Truncate { messages, .. } => {
            write!(f, "cut the tails of {} messages", messages.len())
        }
    }
}

fn format_spans(spans: &[Span], f: &mut Formatter<'_>) -> fmt::Result {
    for (index, span) in spans.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(f, "{comma}{span}")?;
    }
    Ok(())
}
