//! The tools agents call: `read_message` and `recall` give back what was said, whole, whether
//! or not it is still in the context.
//!
//! Every agent of a turn is told of the same tools; which of them it may call is enforced here.
//! What a model gets wrong is answered to the model, as an error it can act on.

use std::fmt::Write as _;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use unisono_context::snapshot::ToolSpec;
use unisono_context::{Message, Ordinal};
use unisono_session::run::{ToolCall, ToolResult};

use crate::agent::{Ctx, Failure};

/// The most characters one result has, the note about the rest aside.
const MAX_CHARS: usize = 16_000;
/// The most messages one call of `recall` gives.
const MAX_MESSAGES: u32 = 50;

const READ_MESSAGE: &str = "read_message";
const RECALL: &str = "recall";

/// The built-in tools, sorted by name.
pub fn specs() -> Vec<ToolSpec> {
    let spec = |name: &str, description: &str, input_schema: &str| ToolSpec {
        name: name.into(),
        description: description.into(),
        input_schema: input_schema.into(),
    };
    vec![
        spec(
            READ_MESSAGE,
            "Reads one message of the conversation, as it was said, by its number.",
            r#"{"type":"object","properties":{"n":{"type":"integer","minimum":1,"description":"The number of the message: 12 for #12."},"skip":{"type":"integer","minimum":0,"description":"Characters to leave out at its start, to read on in a long message."}},"required":["n"],"additionalProperties":false}"#,
        ),
        spec(
            RECALL,
            "Brings back messages that were summarised, masked or cut: one by its number, or a range.",
            r#"{"type":"object","properties":{"n":{"type":"integer","minimum":1,"description":"The number of one message: 12 for #12."},"from":{"type":"integer","minimum":1,"description":"The first message of a range."},"to":{"type":"integer","minimum":1,"description":"The last message of the range."}},"additionalProperties":false}"#,
        ),
    ]
}

/// Runs one call of an agent.
///
/// # Errors
/// The session is gone. What the model got wrong is a result, not an error.
pub(crate) async fn call(call: &ToolCall, ctx: &Ctx) -> Result<ToolResult, Failure> {
    let outcome = match permitted(&call.name, ctx) {
        Ok(()) if &*call.name == READ_MESSAGE => read_message(&call.arguments, ctx).await?,
        Ok(()) => recall(&call.arguments, ctx).await?,
        Err(denied) => Err(denied),
    };
    let is_error = outcome.is_err();
    let (Ok(content) | Err(content)) = outcome;
    Ok(ToolResult {
        call_id: call.id.clone(),
        content: content.into(),
        is_error,
    })
}

/// Whether the agent may call it, by its definition, and it exists.
fn permitted(name: &str, ctx: &Ctx) -> Result<(), String> {
    let allowed = &ctx.definition().tools;
    let known = [READ_MESSAGE, RECALL].contains(&name);
    if known && allowed.iter().any(|tool| &**tool == name) {
        return Ok(());
    }
    let what = if known {
        "may not be called by this agent"
    } else {
        "does not exist"
    };
    let usable = match &allowed[..] {
        [] => "it has no tools".to_owned(),
        tools => format!("it may call: {}", tools.join(", ")),
    };
    Err(format!("tool `{name}` {what}; {usable}"))
}

/// What a tool gives back, or what is wrong with the call.
type Outcome = Result<String, String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadMessage {
    n: u32,
    #[serde(default)]
    skip: usize,
}

async fn read_message(arguments: &str, ctx: &Ctx) -> Result<Outcome, Failure> {
    let ReadMessage { n, skip } = match parse(READ_MESSAGE, arguments) {
        Ok(arguments) => arguments,
        Err(wrong) => return Ok(Err(wrong)),
    };
    Ok(match ctx.read_message(Ordinal(n)).await? {
        Some(message) => one(&message, skip),
        None => Err(no_message(n)),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recall {
    n: Option<u32>,
    from: Option<u32>,
    to: Option<u32>,
}

async fn recall(arguments: &str, ctx: &Ctx) -> Result<Outcome, Failure> {
    match parse(RECALL, arguments) {
        Ok(Recall {
            n: Some(n),
            from: None,
            to: None,
        }) => {
            let message = ctx.read_message(Ordinal(n)).await?;
            Ok(message.map_or_else(|| Err(no_message(n)), |message| one(&message, 0)))
        }
        Ok(Recall {
            n: None,
            from: Some(from),
            to: Some(to),
        }) if from <= to => range(from, to, ctx).await,
        Ok(_) => Ok(Err(format!(
            r#"{RECALL} takes either {{"n":12}} or {{"from":1,"to":9}} with `from` not after `to`"#
        ))),
        Err(wrong) => Ok(Err(wrong)),
    }
}

/// One message, or as much of it as fits.
fn one(message: &Message, skip: usize) -> Outcome {
    let text = shown(message);
    let total = text.chars().count();
    if skip > 0 && skip >= total {
        let n = message.ordinal;
        return Err(format!(
            "{n} has {total} characters, so none are left after {skip}"
        ));
    }
    let mut out: String = text.chars().skip(skip).take(MAX_CHARS).collect();
    let end = skip + MAX_CHARS;
    if end < total {
        let n = message.ordinal.0;
        let _ = write!(
            out,
            "\n[characters {skip} to {end} of {total}; {READ_MESSAGE} {{\"n\":{n},\"skip\":{end}}} reads on]"
        );
    }
    Ok(out)
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

/// A message as a model reads it: who, then what.
fn shown(message: &Message) -> String {
    let author = message.author.as_ref().map(|author| format!(" ({author})"));
    let author = author.unwrap_or_default();
    format!(
        "{} {}{author}:\n{}",
        message.ordinal,
        message.role,
        message.countable_text()
    )
}

fn no_message(n: u32) -> String {
    format!(
        "there is no message {} in this conversation; the first is #1",
        Ordinal(n)
    )
}

fn parse<T: DeserializeOwned>(tool: &str, arguments: &str) -> Result<T, String> {
    serde_json::from_str(arguments)
        .map_err(|error| format!("the arguments of {tool} do not fit its schema: {error}"))
}

#[cfg(test)]
mod tests;
