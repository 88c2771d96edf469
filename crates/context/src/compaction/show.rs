//! Plans for people: the output of `compact --dry-run`, and the content of the goldens.

use std::fmt;

use crate::checkpoint::{Span, Tier, Writer};

use super::{Cover, Plan, Step};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.step)?;
        write!(
            f,
            "from {} towards {} tokens, {} usable of {} ({}){}",
            self.before,
            self.target,
            self.budget.usable,
            self.budget.window,
            self.budget.encoding.name(),
            if self.tightened {
                ", keeping less than the preset asks for"
            } else {
                ""
            }
        )
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Mask(targets) => {
                f.write_str("mask the tool results of")?;
                for (index, target) in targets.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma} {} ({} tokens)", target.ordinal, target.tokens)?;
                }
                Ok(())
            }
            Step::Cut {
                ordinal,
                target_chars,
                ..
            } => write!(f, "cut {ordinal} to {target_chars} characters"),
            Step::Truncate {
                messages,
                target_chars,
            } => {
                f.write_str("cut the tails of")?;
                for (index, (_, ordinal)) in messages.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma} {ordinal}")?;
                }
                write!(f, " to {target_chars} characters")
            }
            Step::Summarise {
                cover,
                tier,
                cap,
                writer,
            } => {
                let tier = match tier {
                    Tier::Conversation => "",
                    Tier::Topic => ", as a topic",
                    Tier::Bulk => ", as a bulk",
                };
                let writer = match writer {
                    Writer::Model => "by a model",
                    Writer::Deterministic => "without a model",
                };
                write!(f, "summarise {cover}{tier}, into at most {cap}, {writer}")
            }
            Step::Drop { cover } => write!(f, "drop {cover}"),
            Step::Regenerate { cover, cap, .. } => {
                f.write_str("write the summary of ")?;
                spans(f, &cover.spans)?;
                write!(f, " anew, in at most {cap}, by a model")
            }
        }
    }
}

impl fmt::Display for Cover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        spans(f, &self.fresh)?;
        if !self.supersedes.is_empty() {
            let and = if self.fresh.is_empty() { "" } else { " and " };
            let blocks = match self.supersedes.len() {
                1 => "the earlier block".to_owned(),
                n => format!("{n} earlier blocks"),
            };
            write!(f, "{and}{blocks}")?;
        }
        write!(f, " ({} tokens)", self.original)
    }
}

fn spans(f: &mut fmt::Formatter<'_>, spans: &[Span]) -> fmt::Result {
    for (index, span) in spans.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        write!(f, "{comma}{span}")?;
    }
    Ok(())
}
