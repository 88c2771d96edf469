//! Facts about messages, branches, topics and the settings of the session.

use std::fmt::{self, Formatter};

use unisono_context::Encoding;
use unisono_context::tokens::Count;

use super::ShortId;
use crate::event::{Fact, Settings};

pub(super) fn format(fact: &Fact, f: &mut Formatter<'_>) -> Result<bool, fmt::Error> {
    match fact {
        Fact::Created { title, .. } => write!(f, "{title:?}")?,
        Fact::Appended { message, .. } => {
            let id = ShortId(message.id.as_u128());
            write!(f, "{} message {id}", message.role)?;
        }
        Fact::Posted {
            branch, message, ..
        } => {
            let id = ShortId(message.id.as_u128());
            write!(f, "{} message {id} on {branch}", message.role)?;
        }
        Fact::BranchSet { branch, head } => {
            write!(f, "{branch} at message {}", ShortId(head.as_u128()))?;
        }
        Fact::Counted { encoding, counts } => {
            let total: Count = counts.iter().map(|(_, count)| *count).sum();
            format_counted(counts.len(), total, *encoding, f)?;
        }
        Fact::PreambleCounted {
            encoding, count, ..
        } => write!(f, "{} tokens of {}", count.tokens, encoding.name())?,
        Fact::Pinned { messages } | Fact::Unpinned { messages } => {
            write!(f, "{} messages", messages.len())?;
        }
        Fact::TopicSealed { branch, last } => {
            write!(f, "{branch} at message {}", ShortId(last.as_u128()))?;
        }
        Fact::TopicsImported {
            decided,
            sealed,
            notes,
        } => {
            let ends = decided.iter().flat_map(|topics| &topics.ends).count();
            write!(f, "{ends} ended, {} sealed", sealed.len())?;
            match notes.tightened.len() {
                0 => {}
                tightened => write!(f, ", {tightened} summaries kept less")?,
            }
        }
        _ => return format_settings(fact, f),
    }
    Ok(true)
}

fn format_settings(fact: &Fact, f: &mut Formatter<'_>) -> Result<bool, fmt::Error> {
    match fact {
        Fact::Defined { definition } => {
            let digest = definition.digest().short();
            write!(f, "agent {} as {digest}", definition.id)?;
        }
        Fact::InstructionsSet { text } => write!(f, "{} bytes", text.len())?,
        Fact::PhrasesSet { phrases } => write!(f, "{phrases:?}")?,
        Fact::ToolRulesSet { rules } => {
            let (tools, held) = (rules.contracts.len(), rules.approvals.len());
            write!(f, "{tools} tools, {held} rules about approval")?;
        }
        Fact::CallCapSet { calls } => write!(f, "{calls} a reply")?,
        Fact::SettingsSet { settings } => format_overrides(settings, f)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn format_counted(
    messages: usize,
    total: Count,
    encoding: Encoding,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    let (tokens, name) = (total.tokens, encoding.name());
    write!(f, "{messages} messages: {tokens} tokens of {name}")
}

fn format_overrides(settings: &Settings, f: &mut Formatter<'_>) -> fmt::Result {
    let mut each = settings.iter();
    let first = each.next();
    first.map_or(Ok(()), |(key, value)| write!(f, "{key}={value}"))?;
    each.try_for_each(|(key, value)| write!(f, " {key}={value}"))
}
