//! Facts about turns.

use std::fmt::{self, Formatter};

use unisono_context::checkpoint::Span;
use unisono_context::compaction::ContextPart;
use unisono_context::snapshot::Manifest;

use super::turn;
use crate::budget::TurnCaps;
use crate::event::{AcceptedTurn, Calibration, Fact, Work};

pub(super) fn format(fact: &Fact, f: &mut Formatter<'_>) -> Result<bool, fmt::Error> {
    match fact {
        Fact::TurnAccepted { turn } => format_accepted(turn, f)?,
        Fact::TurnStarted { turn: id } => write!(f, "{}", turn(*id))?,
        Fact::TopicsDecided { turn: id, ends, .. } => {
            write!(f, "{}:", turn(*id))?;
            if ends.is_empty() {
                f.write_str(" no topic ended")?;
            }
            for end in ends {
                write!(f, " {} by {}", end.opener, end.by.name())?;
            }
        }
        Fact::Measured {
            turn: id,
            calibration,
        } => {
            write!(f, "{}: ", turn(*id))?;
            format_calibration(calibration, f)?;
        }
        Fact::Frozen {
            turn: id,
            snapshot,
            manifest,
        } => {
            write!(f, "{}: snapshot {}, ", turn(*id), snapshot.short())?;
            format_contents(manifest, f)?;
        }
        Fact::TurnEnded { turn: id, outcome } => write!(f, "{}: {outcome}", turn(*id))?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn format_accepted(accepted: &AcceptedTurn, f: &mut Formatter<'_>) -> fmt::Result {
    let work = match &accepted.work {
        Work::Answer { .. } => "answer",
        Work::Compact { .. } => "compact",
        Work::CompactPart { part, .. } => match part {
            ContextPart::Topic { .. } => "compact a topic",
            ContextPart::Attention => "compact the current topic",
            ContextPart::Large { .. } => "cut large messages",
        },
        Work::Revert { .. } => "revert",
        Work::Regenerate { .. } => "regenerate",
        Work::Edit { .. } => "edit",
    };
    let (id, branch) = (turn(accepted.id), &accepted.branch);
    write!(f, "{id}: {work} on {branch}")?;
    match accepted.delegates.len() {
        0 => {}
        delegates => write!(f, " with {delegates} delegates")?,
    }
    if let Some(key) = &accepted.key {
        write!(f, " under {:?}", key.name)?;
    }
    format_caps(&accepted.caps, f)
}

fn format_caps(caps: &TurnCaps, f: &mut Formatter<'_>) -> fmt::Result {
    if !caps.is_none() {
        f.write_str(", at most")?;
    }
    for (level, caps) in [
        ("session", caps.session),
        ("turn", caps.turn),
        ("run", caps.run),
    ] {
        if let Some(tokens) = caps.tokens {
            write!(f, " {level} {tokens} tokens")?;
        }
        if let Some(cost) = caps.cost {
            write!(f, " {level} {cost}")?;
        }
        if let Some(ms) = caps.time_ms {
            write!(f, " {level} {ms} ms")?;
        }
    }
    match caps.agents.len() {
        0 => {}
        agents => write!(f, " and of {agents} agents")?,
    }
    caps.limit_ms
        .map_or(Ok(()), |ms| write!(f, " within {ms} ms"))
}

fn format_calibration(calibration: &Calibration, f: &mut Formatter<'_>) -> fmt::Result {
    let ratio = f64::from(calibration.ratio.0) / 1e6;
    let model = &calibration.model;
    write!(f, "{model} counts {ratio:.3} for an estimated token")
}

fn format_contents(manifest: &Manifest, f: &mut Formatter<'_>) -> fmt::Result {
    let messages: u32 = manifest.spans.iter().copied().map(Span::len).sum();
    let summaries = manifest.checkpoints.len();
    write!(f, "{summaries} summaries and {messages} messages")
}
