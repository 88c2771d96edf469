//! The tool `recall`: messages by number, or those that fit some words best.
//!
//! What is found is bound to the branch and to where its context was frozen, so a call has the same
//! result whenever it is made, whatever was said meanwhile. It is cited by number, with the messages
//! around it, and stays within a bound of tokens.

use std::fmt::Write as _;

use serde::Deserialize;
use unisono_context::{Message, Ordinal, Tokens};
use unisono_search::{Recalled, excerpt};

use crate::agent::{Ctx, Failure};

use super::{
    MAX_CHARS, Outcome, READ_MESSAGE, RECALL, heading, no_message, one, parse, shown, steps,
};

/// The most messages one call gives by number.
const MAX_MESSAGES: u32 = 50;
/// The most messages one search gives.
const MAX_FOUND: usize = 8;
/// What a search gives at most, in tokens of the agent's model, the note at its end aside.
const MAX_TOKENS: Tokens = Tokens(2_000);
/// Characters of a message that was found.
const EXCERPT_CHARS: usize = 600;
/// Characters of the messages before and after it.
const NEIGHBOUR_CHARS: usize = 160;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recall {
    query: Option<String>,
    n: Option<u32>,
    from: Option<u32>,
    to: Option<u32>,
    #[serde(default)]
    steps: bool,
    #[serde(default)]
    skip: usize,
}

pub(super) async fn recall(arguments: &str, ctx: &Ctx) -> Result<Outcome, Failure> {
    match parse(RECALL, arguments) {
        Ok(Recall {
            query: None,
            n: Some(n),
            from: None,
            to: None,
            steps: true,
            skip,
        }) => steps::of_message(n, skip, ctx).await,
        Ok(Recall {
            query: Some(text),
            n: None,
            from: None,
            to: None,
            steps: false,
            skip: 0,
        }) => match number(&text) {
            Some(n) => by_number(n, ctx).await,
            None => search(text.trim(), ctx).await,
        },
        Ok(Recall {
            query: None,
            n: Some(n),
            from: None,
            to: None,
            steps: false,
            skip: 0,
        }) => by_number(n, ctx).await,
        Ok(Recall {
            query: None,
            n: None,
            from: Some(from),
            to: Some(to),
            steps: false,
            skip: 0,
        }) if from <= to => range(from, to, ctx).await,
        Ok(_) => Ok(Err(format!(
            r#"{RECALL} takes one of {{"query":"words"}}, {{"n":12}}, {{"n":12,"steps":true}}, {{"from":1,"to":9}} with `from` not after `to`"#
        ))),
        Err(wrong) => Ok(Err(wrong)),
    }
}

/// The number that masks name messages by: `#12`.
fn number(text: &str) -> Option<u32> {
    text.trim().strip_prefix('#')?.parse().ok()
}

async fn by_number(n: u32, ctx: &Ctx) -> Result<Outcome, Failure> {
    let message = ctx.read_message(Ordinal(n)).await?;
    Ok(message.map_or_else(|| Err(no_message(n)), |message| one(&message, 0)))
}

async fn search(text: &str, ctx: &Ctx) -> Result<Outcome, Failure> {
    let recalled = match ctx.recall(text, MAX_FOUND).await? {
        Ok(recalled) => recalled,
        Err(reason) => {
            let other = format!(r#"{RECALL} {{"from":1,"to":9}} reads messages by number"#);
            return Ok(Err(format!("{reason}; {other}")));
        }
    };
    if recalled.messages.is_empty() {
        return Ok(Ok(nothing(text, &recalled)));
    }
    let mut blocks = Vec::new();
    for ordinal in &recalled.messages {
        blocks.extend(block(*ordinal, &recalled, ctx).await?);
    }
    let counts = ctx.count(blocks.clone()).await;
    let (mut out, mut used, mut given) = (how(&recalled), Tokens::ZERO, 0);
    for (block, tokens) in blocks.iter().zip(counts) {
        used = Tokens(used.0.saturating_add(tokens.0));
        if used > MAX_TOKENS && given > 0 {
            break;
        }
        out.push_str("\n\n");
        out.push_str(block);
        given += 1;
    }
    let first = recalled.messages[0].0;
    let _ = write!(
        out,
        "\n\n[{READ_MESSAGE} {{\"n\":{first}}} reads #{first} whole"
    );
    if given < blocks.len() {
        let left: Vec<String> = recalled.messages[given..]
            .iter()
            .map(ToString::to_string)
            .collect();
        let _ = write!(out, "; found as well: {}", left.join(", "));
    }
    out.push(']');
    Ok(Ok(out))
}

fn nothing(text: &str, recalled: &Recalled) -> String {
    if recalled.nowhere.is_empty() {
        return format!("there is no word to search for in {text:?}; give names or terms");
    }
    format!(
        "nothing found: no message has any of {}; try other words for it",
        recalled.nowhere.join(", ")
    )
}

/// What was asked for, in a line.
fn how(recalled: &Recalled) -> String {
    let found = match recalled.with_all {
        _ if recalled.again.is_empty() => "found, the best first".to_owned(),
        0 => format!(
            "no message has all of these words; found with any of {}",
            recalled.again.join(", ")
        ),
        all => format!(
            "{all} with all of these words first, then with any of {}",
            recalled.again.join(", ")
        ),
    };
    match &recalled.nowhere[..] {
        [] => format!("[{found}]"),
        nowhere => format!("[{found}; nowhere: {}]", nowhere.join(", ")),
    }
}

/// A message that was found, with those around it that were not.
async fn block(
    ordinal: Ordinal,
    recalled: &Recalled,
    ctx: &Ctx,
) -> Result<Option<String>, Failure> {
    let Some(message) = ctx.read_message(ordinal).await? else {
        return Ok(None);
    };
    let part = |message: &Message, stems: &[String], chars| {
        excerpt(&message.countable_text(), stems, chars).text
    };
    let mut out = heading(&message);
    let _ = write!(out, ":\n{}", part(&message, &recalled.stems, EXCERPT_CHARS));
    let around = [("before", ordinal.0 - 1), ("after", ordinal.0 + 1)];
    for (which, n) in around {
        if n == 0 || recalled.messages.contains(&Ordinal(n)) {
            continue;
        }
        if let Some(message) = ctx.read_message(Ordinal(n)).await? {
            let text = part(&message, &recalled.stems, NEIGHBOUR_CHARS);
            let _ = write!(out, "\n({which}: {}: {text})", heading(&message));
        }
    }
    Ok(Some(out))
}

/// Whole messages from `from` on, as many as fit; the first may be cut.
async fn range(from: u32, to: u32, ctx: &Ctx) -> Result<Outcome, Failure> {
    let last = to.min(from.saturating_add(MAX_MESSAGES - 1));
    let (mut out, mut room) = (String::new(), MAX_CHARS);
    for n in from..=last {
        let Some(message) = ctx.read_message(Ordinal(n)).await? else {
            if n == from {
                return Ok(Err(no_message(n)));
            }
            let _ = write!(out, "\n\n[{} is the last message]", Ordinal(n - 1));
            return Ok(Ok(out));
        };
        if n == from {
            out = match one(&message, 0) {
                Ok(text) => text,
                wrong => return Ok(wrong),
            };
            room = room.saturating_sub(out.chars().count());
            continue;
        }
        let text = shown(&message);
        let chars = text.chars().count();
        if chars > room {
            return Ok(Ok(with_rest(out, n, to)));
        }
        room -= chars;
        out.push_str("\n\n");
        out.push_str(&text);
    }
    Ok(Ok(if last < to {
        with_rest(out, last + 1, to)
    } else {
        out
    }))
}

fn with_rest(mut out: String, next: u32, to: u32) -> String {
    let rest = format!("{RECALL} {{\"from\":{next},\"to\":{to}}} reads on");
    let _ = write!(
        out,
        "\n\n[stopped before {}, to stay within bounds; {rest}]",
        Ordinal(next)
    );
    out
}
