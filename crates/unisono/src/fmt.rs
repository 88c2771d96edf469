//! Values in short form for people: ids, steps, roles of runs, and all of `unisono_api::short`.

use unisono_api::turn::Run;
use unisono_context::Tokens;
use unisono_context::compaction::Step;
use unisono_session::event::RunRole;
use unisono_session::trace::RunTrace;

pub use unisono_api::fmt::{cache, compression, dollars, line, number, usable};

/// Number of displayed hex digits of a digest, and of last digits of an id: the first digits of an
/// id are the time, which the runs of a turn share.
const SHOWN: usize = 12;

/// The end of an id.
pub fn end(id: &impl ToString) -> String {
    let plain = id.to_string();
    plain
        .get(plain.len().saturating_sub(SHOWN)..)
        .unwrap_or(&plain)
        .to_owned()
}

/// Masked messages that a step names one by one; more are counted.
const MASKS_NAMED: usize = 6;

/// A compaction step. The permitted writer of a summary is omitted: its checkpoint names the actual
/// one.
pub fn step(step: &Step) -> String {
    if let Step::Mask(targets) = step
        && targets.len() > MASKS_NAMED
        && let [first, .., last] = targets.as_slice()
    {
        let tokens: Tokens = targets.iter().map(|target| target.tokens).sum();
        let (messages, tokens) = (targets.len(), number(tokens.0));
        let (first, last) = (first.ordinal, last.ordinal);
        return format!(
            "mask the tool results of {messages} messages from {first} to {last} ({tokens} tokens)"
        );
    }
    let text = step.to_string();
    let writers = [", by a model", ", without a model"];
    let writer = writers
        .into_iter()
        .find_map(|writer| text.strip_suffix(writer));
    grouped(writer.unwrap_or(&text))
}

/// A text whose numbers have thousands separators, except the numbers of messages, such as `#1204`.
fn grouped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c: char| !c.is_ascii_digit());
        let (digits, after) = from.split_at(end.unwrap_or(from.len()));
        out.push_str(before);
        match digits.parse() {
            Ok(value) if !before.ends_with('#') => out.push_str(&number(value)),
            _ => out.push_str(digits),
        }
        rest = after;
    }
    out + rest
}

/// The role of a run in its turn.
pub fn role(run: &RunTrace) -> String {
    match run.opened.1.role {
        RunRole::Lead => "lead".to_owned(),
        RunRole::Delegate { index } => delegate(run.stage, index),
        RunRole::Child { parent, round, .. } => child(round, &parent),
    }
}

/// The same for a run in the types of the API.
pub fn api_role(run: &Run) -> String {
    match (run.role.as_str(), &run.parent) {
        ("delegate", _) => delegate(run.stage, run.index.unwrap_or_default()),
        (_, Some(parent)) => child(run.round.unwrap_or_default(), parent),
        (role, None) => role.to_owned(),
    }
}

fn delegate(stage: Option<u32>, index: u32) -> String {
    match stage {
        Some(stage) => format!("stage {stage}"),
        None => format!("delegate {}", index + 1),
    }
}

fn child(round: u32, parent: &impl ToString) -> String {
    format!("round {round} of {}", end(parent))
}

/// The displayed part of a digest.
pub fn digest(digest: &str) -> &str {
    digest.get(..SHOWN).unwrap_or(digest)
}

#[cfg(test)]
mod tests {
    use unisono_context::compaction::MaskTarget;
    use unisono_context::{MessageId, Ordinal};

    use super::*;

    #[test]
    fn many_masks_are_counted() {
        let masks = |many: u32| {
            let target = |n: u32| MaskTarget {
                message: MessageId::from_u128(n.into()),
                ordinal: Ordinal(n),
                tokens: Tokens(1_000),
            };
            step(&Step::Mask((3..3 + many).map(target).collect()))
        };
        assert_eq!(
            masks(61),
            "mask the tool results of 61 messages from #3 to #63 (61,000 tokens)"
        );
        assert_eq!(
            masks(2),
            "mask the tool results of #3 (1,000 tokens), #4 (1,000 tokens)"
        );
    }

    #[test]
    fn numbers_of_tokens_are_grouped_and_numbers_of_messages_are_not() {
        assert_eq!(
            grouped("summarise #1204–#1290 (27530 tokens), into at most 2048"),
            "summarise #1204–#1290 (27,530 tokens), into at most 2,048"
        );
        assert_eq!(grouped("drop #7 (80 tokens)"), "drop #7 (80 tokens)");
    }

    #[test]
    fn an_id_is_known_by_its_end() {
        assert_eq!(end(&"01900000-0000-7000-8000-0123456789ab"), "0123456789ab");
        assert_eq!(end(&"short"), "short");
    }
}
