//! The tools agents call: `read_message` and `recall` give back what was said, whole, whether
//! or not it is still in the context; `recall` also finds it by words; `delegate` gives a task to
//! another agent.
//!
//! Every agent of a turn is told of the same tools; which of them it may call is enforced here.
//! What a model gets wrong is answered to the model, as an error it can act on.

use std::fmt::Write as _;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use unisono_context::snapshot::ToolSpec;
use unisono_context::{AgentId, Message, Ordinal};
use unisono_session::machine::DelegateCall;
use unisono_session::run::{ToolCall, ToolResult};

use crate::agent::{Ctx, Failure};

mod recall;

/// The most characters one result has, the note about the rest aside.
const MAX_CHARS: usize = 16_000;

/// The tool by which an agent gives a task to another one. Only agents that name it have it.
pub const DELEGATE: &str = "delegate";
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
            DELEGATE,
            "Gives a task to another agent and returns what it came back with. It reads the same conversation as you do, and nothing of what you were told, called or found since: write into the task all it needs beyond the conversation. Several calls in one reply are worked on at the same time. A result that begins with [failed or [refused is not an answer; one that ends with [incomplete says what is missing.",
            r#"{"type":"object","properties":{"agent":{"type":"string","description":"The name of the agent, one of those you may delegate to."},"task":{"type":"string","description":"What it is to do, complete in itself."}},"required":["agent","task"],"additionalProperties":false}"#,
        ),
        spec(
            READ_MESSAGE,
            "Reads one message of the conversation, as it was said, by its number.",
            r#"{"type":"object","properties":{"n":{"type":"integer","minimum":1,"description":"The number of the message: 12 for #12."},"skip":{"type":"integer","minimum":0,"description":"Characters to leave out at its start, to read on in a long message."}},"required":["n"],"additionalProperties":false}"#,
        ),
        spec(
            RECALL,
            "Searches the whole conversation for what was said, summarised, masked and cut messages included, or brings messages back by number: one, or a range.",
            r#"{"type":"object","properties":{"query":{"type":"string","description":"Words to search for; \"in quotes\" they must follow one another. Give names, numbers and terms, not a sentence."},"n":{"type":"integer","minimum":1,"description":"The number of one message: 12 for #12."},"from":{"type":"integer","minimum":1,"description":"The first message of a range."},"to":{"type":"integer","minimum":1,"description":"The last message of the range."}},"additionalProperties":false}"#,
        ),
    ]
}

/// Runs the calls of one reply and gives their results in order. What they give to other agents
/// is handed in together, as that round of the run, and worked on while the others are run.
///
/// # Errors
/// The session is gone. What the model got wrong is a result, not an error.
pub(crate) async fn call_all(
    calls: &[ToolCall],
    round: u32,
    ctx: &Ctx,
) -> Result<Vec<ToolResult>, Failure> {
    let (tasks, told): (Vec<DelegateCall>, Vec<Option<Outcome>>) = sorted_out(calls, ctx);
    let others = async {
        let mut outcomes = Vec::with_capacity(calls.len());
        for (call, told) in calls.iter().zip(told) {
            outcomes.push(match told {
                Some(outcome) => Some(outcome),
                None if *call.name == *DELEGATE => None,
                None => {
                    ctx.progress(format!("calling {}", call.name));
                    Some(run(call, ctx).await?)
                }
            });
        }
        Ok(outcomes)
    };
    let (outcomes, delegated) = tokio::try_join!(others, ctx.hand_out(round, tasks))?;
    let mut delegated = delegated.into_iter();
    let results = calls.iter().zip(outcomes).map(|(call, outcome)| {
        let (content, is_error) = match outcome {
            Some(Ok(content)) => (content.into(), false),
            Some(Err(wrong)) => (wrong.into(), true),
            None => {
                // As many came back as were handed in.
                let result = delegated.next();
                result.map_or_else(Default::default, |r| (r.content, r.is_error))
            }
        };
        ToolResult {
            call_id: call.id.clone(),
            content,
            is_error,
        }
    });
    Ok(results.collect())
}

/// The tasks for other agents, and for each call what is known without running it.
fn sorted_out(calls: &[ToolCall], ctx: &Ctx) -> (Vec<DelegateCall>, Vec<Option<Outcome>>) {
    let mut tasks = Vec::new();
    let told = calls.iter().map(|call| {
        if let Err(denied) = permitted(&call.name, ctx) {
            return Some(Err(denied));
        }
        if *call.name != *DELEGATE {
            return None;
        }
        match parse::<Delegate>(DELEGATE, &call.arguments) {
            Ok(Delegate { agent, task }) => {
                tasks.push(DelegateCall {
                    call_id: call.id.clone(),
                    agent: AgentId::from(agent.trim()),
                    task: task.into(),
                });
                None
            }
            Err(wrong) => Some(Err(wrong)),
        }
    });
    let told = told.collect();
    (tasks, told)
}

/// Runs one call of a tool that needs nobody else.
async fn run(call: &ToolCall, ctx: &Ctx) -> Result<Outcome, Failure> {
    match &*call.name {
        READ_MESSAGE => read_message(&call.arguments, ctx).await,
        _ => recall::recall(&call.arguments, ctx).await,
    }
}

/// Whether the agent may call it, by its definition, and it exists.
pub(crate) fn permitted(name: &str, ctx: &Ctx) -> Result<(), String> {
    let allowed = &ctx.definition().tools;
    let known = [DELEGATE, READ_MESSAGE, RECALL].contains(&name);
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
struct Delegate {
    agent: String,
    task: String,
}

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

/// A message as a model reads it: who, then what.
fn shown(message: &Message) -> String {
    format!("{}:\n{}", heading(message), message.countable_text())
}

/// Who said which message.
fn heading(message: &Message) -> String {
    let author = message.author.as_ref().map(|author| format!(" ({author})"));
    let author = author.unwrap_or_default();
    format!("{} {}{author}", message.ordinal, message.role)
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
