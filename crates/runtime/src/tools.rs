//! The tools of agents: `read_message` and `recall` return complete messages, whether or not they
//! are still in the context; `recall` also searches them; `delegate` gives a task to another agent;
//! the tools of servers ([`crate::mcp`]) have effects outside.
//!
//! The prompt of every agent of a turn contains the same tools; the permissions of each agent are
//! enforced here. Errors of a model are returned to the model as error results.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use unisono_context::snapshot::ToolSpec;
use unisono_context::{AgentId, Message, Ordinal};
use unisono_model::call_limit::keep_calls;
use unisono_model::date::utc_date;
use unisono_model::dialect::{shown_name, without_labels};
use unisono_session::event::RunRole;
use unisono_session::machine::{DelegateCall, NewCall};
use unisono_session::run::{Reply, Stop, ToolCall, ToolResult};
use unisono_session::tool::{self, COMPACT};

use crate::agent::results::READ_MESSAGE;
use crate::agent::{Ctx, Failure};
use crate::session_port::RecallScope;

mod author;
mod client_tools;
mod outside;

pub(crate) use outside::fields_of;
mod recall;
mod steps;

pub(crate) use client_tools::{client_calls, unsent_calls};

/// The maximum number of characters of one result, without the note about the rest.
const MAX_CHARS: usize = 16_000;

/// The tool by which an agent delegates a task. Only agents that list it have it.
pub const DELEGATE: &str = unisono_session::reserve::DELEGATE;
const RECALL: &str = "recall";

/// The names of the built-in tools, sorted.
pub const BUILT_IN: [&str; 4] = [COMPACT, DELEGATE, READ_MESSAGE, RECALL];

/// Whether a call of this tool only reads the conversation, so that it may be made again.
pub(crate) fn is_reading_tool(name: &str) -> bool {
    [READ_MESSAGE, RECALL].contains(&name)
}

/// The addition to the description of `recall` if its scope is larger than the branch.
const WIDER_RECALL: &str =
    " What was said in other branches or sessions is found as well, after that.";
/// The additional arguments of `recall` in that case.
const WIDER_RECALL_ARGUMENTS: &str = r#","session":{"type":"string","description":"With n: the id of another session, as a search gave it."},"branch":{"type":"string","description":"With n: another branch, as a search gave it."}},"additionalProperties":false}"#;

/// The built-in tools, sorted by name, for this scope of `recall`.
pub fn specs(reach: RecallScope) -> Vec<ToolSpec> {
    let mut specs = specs_on_branch();
    if reach == RecallScope::Branch {
        return specs;
    }
    for spec in specs.iter_mut().filter(|spec| &*spec.name == RECALL) {
        spec.description = format!("{}{WIDER_RECALL}", spec.description).into();
        let arguments = spec.input_schema.strip_suffix(END_OF_ARGUMENTS);
        let arguments = arguments.unwrap_or_default();
        spec.input_schema = format!("{arguments}{WIDER_RECALL_ARGUMENTS}").into();
    }
    specs
}

const END_OF_ARGUMENTS: &str = r#"},"additionalProperties":false}"#;

fn specs_on_branch() -> Vec<ToolSpec> {
    vec![
        ToolSpec::new(
            COMPACT,
            "Has the conversation so far summarised before the next turn, whatever its length, for when its details are no longer needed. What was summarised can still be recalled. Nothing changes in this turn. Only the agent that leads a turn may ask.",
            r#"{"type":"object","properties":{},"additionalProperties":false}"#,
        ),
        ToolSpec::new(
            DELEGATE,
            "Gives a task to another agent and returns its result. The agent sees the conversation, but not your later messages, calls or findings: put everything else it needs into the task. Several calls in one reply are worked on at the same time. A result that begins with [failed or [refused is not an answer; one that ends with [incomplete says what is missing.",
            r#"{"type":"object","properties":{"agent":{"type":"string","description":"The name of the agent, one of those you may delegate to."},"task":{"type":"string","description":"What it is to do, complete in itself."}},"required":["agent","task"],"additionalProperties":false}"#,
        ),
        ToolSpec::new(
            READ_MESSAGE,
            "Reads one message of the conversation, as it was said, by its number; or the full result of another agent, if you got only its beginning.",
            r#"{"type":"object","properties":{"n":{"type":"integer","minimum":1,"description":"The number of the message: 12 for #12."},"result":{"type":"string","description":"In place of n: the name of a result, as the note at its end has it."},"skip":{"type":"integer","minimum":0,"description":"Characters to leave out at its start, to read on in a long text."}},"additionalProperties":false}"#,
        ),
        ToolSpec::new(
            RECALL,
            "Searches the whole conversation for what was said, summarised, masked and cut messages included, or brings messages back by number: one, or a range. With `steps` it tells what the agent did that wrote message `n`: what its model said, what it called, and what came back.",
            r#"{"type":"object","properties":{"query":{"type":"string","description":"Words to search for; \"in quotes\" they must follow one another. Give names, numbers and terms, not a sentence."},"n":{"type":"integer","minimum":1,"description":"The number of one message: 12 for #12."},"from":{"type":"integer","minimum":1,"description":"The first message of a range."},"to":{"type":"integer","minimum":1,"description":"The last message of the range."},"steps":{"type":"boolean","description":"With n: the steps of the agent that wrote it, in place of the message."},"skip":{"type":"integer","minimum":0,"description":"With n: characters to leave out at the start, to read on."}},"additionalProperties":false}"#,
        ),
    ]
}

/// The result for the model of a call in which its reply was cut off.
const CUT_OFF: &str = "[not made: your reply reached its longest length in the middle of this call; make it again, with less before it or in fewer words]";

enum CallRoute {
    /// Not made: the reason for the model.
    Refused(String),
    BuiltIn,
    /// By another agent.
    Delegate,
    /// By a server.
    Outside,
}

#[derive(Debug)]
pub(crate) struct CallOutcome {
    /// The result for its model.
    pub(crate) result: ToolResult,
    /// For a delegated task: its index in the round, from 0.
    pub(crate) task: Option<usize>,
}

struct RoutedCalls {
    routes: Vec<CallRoute>,
    tasks: Vec<DelegateCall>,
    outside: Vec<NewCall>,
}

/// The reply as it is recorded and sent back to its model: with the calls that are made or left to
/// the client, and one excess call, whose result says how many there were.
pub(crate) fn within_cap(mut reply: Reply, ctx: &Ctx) -> Reply {
    keep_calls(&mut reply, max_calls(ctx).saturating_add(1));
    reply
}

/// The maximum number of calls of one reply that are made or left to the client.
fn max_calls(ctx: &Ctx) -> usize {
    usize::try_from(ctx.assignment().call_cap.0).unwrap_or(usize::MAX)
}

/// Makes the calls of a reply, up to the maximum number and without the call in which the reply was
/// cut off, because its content is incomplete. The others get a result without being made, so that
/// the exchange is complete.
pub(crate) async fn call_all_of(
    reply: &Reply,
    round: u32,
    ctx: &Ctx,
) -> Result<Vec<CallOutcome>, Failure> {
    let (complete, incomplete) = reply.calls.split_at(complete_calls(reply));
    let cap = ctx.assignment().call_cap.0;
    let (made, excess_calls) = complete.split_at(complete.len().min(max_calls(ctx)));
    let mut results = call_all(made, round, ctx).await?;
    let unmade = |call: &ToolCall, why: &Arc<str>| CallOutcome {
        result: ToolResult::new(call.id.clone(), why.clone(), true),
        task: None,
    };
    // The explanation is given once. More than one excess call is in journals of older versions only.
    let too_many: Arc<str> = too_many(cap, reply.called()).into();
    let texts = std::iter::once(too_many).chain(std::iter::repeat(NOT_MADE.into()));
    let excess = excess_calls.iter().zip(texts);
    results.extend(excess.map(|(call, why)| unmade(call, &why)));
    let cut_off: Arc<str> = CUT_OFF.into();
    results.extend(incomplete.iter().map(|call| unmade(call, &cut_off)));
    Ok(results)
}

/// The result of the other excess calls, for the model.
const NOT_MADE: &str = "[not made]";

/// The result of the first excess call, for the model.
fn too_many(cap: u32, called: usize) -> String {
    format!(
        "[not made: one reply may make {cap} calls of tools, this one has {called}; make this call \
         and those after it again in later replies if they are still needed]"
    )
}

/// The number of complete calls of a reply: all but the last one if the reply was cut off and the
/// arguments of that call are missing or invalid. If calls were left out, it was among them.
fn complete_calls(reply: &Reply) -> usize {
    let has_arguments = |call: &ToolCall| {
        let read = serde_json::from_str::<Map<String, Value>>(&call.arguments);
        read.is_ok_and(|arguments| !arguments.is_empty())
    };
    let is_cut_off = reply.stop == Stop::CutOff && reply.calls_left_out == 0;
    let is_incomplete = is_cut_off && reply.calls.last().is_some_and(|call| !has_arguments(call));
    reply.calls.len() - usize::from(is_incomplete)
}

/// Makes the calls of one reply and returns their results in order. Its delegated tasks form one
/// round of the run, and so do its external calls; all of them are processed concurrently.
///
/// # Errors
/// The session is gone. Errors of the model are results.
pub(crate) async fn call_all(
    calls: &[ToolCall],
    round: u32,
    ctx: &Ctx,
) -> Result<Vec<CallOutcome>, Failure> {
    let RoutedCalls {
        routes,
        tasks,
        outside,
    } = route_calls(calls, ctx);
    let built_in = async {
        let mut outcomes = Vec::new();
        for (call, route) in calls.iter().zip(&routes) {
            if let CallRoute::BuiltIn = route {
                ctx.progress(format!("calling {}", call.name));
                outcomes.push(run(call, ctx).await?);
            }
        }
        Ok(outcomes)
    };
    let delegated = ctx.delegate_round(round, tasks);
    let (built_in, delegated, outside) =
        tokio::try_join!(built_in, delegated, ctx.call_external_tools(round, outside))?;
    // There are as many results as calls.
    let (mut built_in, mut delegated, mut outside) = (
        built_in.into_iter(),
        delegated.into_iter(),
        outside.into_iter(),
    );
    let mut tasks = 0..;
    let results = calls.iter().zip(routes).map(|(call, route)| {
        let task = match route {
            CallRoute::Delegate => tasks.next(),
            _ => None,
        };
        let text = |content: String, is_error| ToolResult {
            content: content.into(),
            is_error,
            ..ToolResult::default()
        };
        let result = match route {
            CallRoute::Refused(wrong) => text(wrong, true),
            CallRoute::BuiltIn => match built_in.next() {
                Some(Ok(content)) => text(content, false),
                Some(Err(wrong)) => text(wrong, true),
                None => ToolResult::default(),
            },
            CallRoute::Delegate => delegated.next().unwrap_or_default(),
            CallRoute::Outside => outside.next().unwrap_or_default(),
        };
        let result = ToolResult {
            call_id: call.id.clone(),
            ..result
        };
        CallOutcome { result, task }
    });
    Ok(results.collect())
}

/// Determines the route of each call, if the agent may make it and its arguments are valid.
fn route_calls(calls: &[ToolCall], ctx: &Ctx) -> RoutedCalls {
    let mut sorted = RoutedCalls {
        routes: Vec::with_capacity(calls.len()),
        tasks: Vec::new(),
        outside: Vec::new(),
    };
    for call in calls {
        let way = sorted.add(call, ctx).unwrap_or_else(CallRoute::Refused);
        sorted.routes.push(way);
    }
    sorted
}

impl RoutedCalls {
    fn add(&mut self, call: &ToolCall, ctx: &Ctx) -> Result<CallRoute, String> {
        check_permitted(&call.name, ctx)?;
        match &*call.name {
            COMPACT | READ_MESSAGE | RECALL => Ok(CallRoute::BuiltIn),
            DELEGATE => {
                let Delegate { agent, task } = parse(DELEGATE, &call.arguments)?;
                self.tasks.push(DelegateCall {
                    call_id: call.id.clone(),
                    agent: AgentId::from(agent.trim()),
                    task: task.into(),
                });
                Ok(CallRoute::Delegate)
            }
            name => {
                let checked = outside::check_call(call, spec(name, ctx)?)?;
                if ctx.assignment().client_options.has(name) {
                    return Err(client_tools::INVALID_SIBLING.to_owned());
                }
                self.outside.push(checked);
                Ok(CallRoute::Outside)
            }
        }
    }
}

/// The specification of a tool in the model's prompt.
fn spec<'c>(name: &str, ctx: &'c Ctx) -> Result<&'c ToolSpec, String> {
    let mut tools = ctx.assignment().tools.iter();
    let tool = tools.find(|tool| *tool.name == *name);
    tool.ok_or_else(|| format!("tool `{name}` does not exist"))
}

/// Makes one call of a tool in this process.
async fn run(call: &ToolCall, ctx: &Ctx) -> Result<Outcome, Failure> {
    match &*call.name {
        COMPACT => Ok(compact(ctx)),
        READ_MESSAGE => read_message(&call.arguments, ctx).await,
        _ => recall::recall(&call.arguments, ctx).await,
    }
}

/// The session reads the call itself ([`tool::COMPACT`]).
fn compact(ctx: &Ctx) -> Outcome {
    match ctx.assignment().role {
        RunRole::Lead => Ok("the conversation is summarised before the next turn".to_owned()),
        _ => Err("only the agent that leads the turn may ask for a compaction".to_owned()),
    }
}

/// Whether a call is journaled before it is made: all calls are, except those that only read the
/// conversation or request a compaction.
pub(crate) fn is_journaled(name: &str) -> bool {
    ![COMPACT, READ_MESSAGE, RECALL].contains(&name)
}

/// Checks that the tool exists and that the agent's definition permits it.
pub(crate) fn check_permitted(name: &str, ctx: &Ctx) -> Result<(), String> {
    let allowed = &ctx.definition().tools;
    let tools = &ctx.assignment().tools;
    let built_in = BUILT_IN.contains(&name);
    let known = built_in || tools.iter().any(|tool| *tool.name == *name);
    let client_options = &ctx.assignment().client_options;
    if client_options.has(name) || known && tool::allows(allowed, name) {
        return Ok(());
    }
    let what = if known {
        "may not be called by this agent"
    } else {
        "does not exist"
    };
    let usable = tools.iter().map(|tool| &*tool.name);
    let usable = usable.filter(|name| client_options.has(name) || tool::allows(allowed, name));
    let usable: Vec<&str> = usable.collect();
    let usable = match &usable[..] {
        [] => "it has no tools".to_owned(),
        tools => format!("it may call: {}", tools.join(", ")),
    };
    Err(format!("tool `{name}` {what}; {usable}"))
}

/// The result of a tool, or the error of the call.
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
    n: Option<u32>,
    result: Option<String>,
    #[serde(default)]
    skip: usize,
}

async fn read_message(arguments: &str, ctx: &Ctx) -> Result<Outcome, Failure> {
    let ReadMessage { n, result, skip } = match parse(READ_MESSAGE, arguments) {
        Ok(arguments) => arguments,
        Err(wrong) => return Ok(Err(wrong)),
    };
    Ok(match (n, result) {
        (Some(n), None) => match ctx.read_message(Ordinal(n)).await? {
            Some(message) => paged_message(READ_MESSAGE, &message, skip),
            None => Err(no_message(n)),
        },
        (None, Some(name)) => match ctx.read_result(&name).await? {
            Some(text) => {
                let name = Value::from(name).to_string();
                let next = |end| format!(r#"{READ_MESSAGE} {{"result":{name},"skip":{end}}}"#);
                paged_text(&text, &name, skip, next)
            }
            None => Err(format!("you were handed no result {name:?}")),
        },
        _ => Err(format!(
            r#"{READ_MESSAGE} takes one of {{"n":12}}, {{"result":"delegate_1"}}"#
        )),
    })
}

/// One message, or as much of it as fits, and the call of this tool that returns the rest.
fn paged_message(tool: &str, message: &Message, skip: usize) -> Outcome {
    let n = message.ordinal;
    let next = |end| format!(r#"{tool} {{"n":{},"skip":{end}}}"#, n.0);
    paged_text(&format_message(message), n, skip, next)
}

/// As much of a text about a message as fits, and the call that returns the rest.
fn paged_text(
    text: &str,
    n: impl fmt::Display,
    skip: usize,
    next: impl Fn(usize) -> String,
) -> Outcome {
    let total = text.chars().count();
    if skip > 0 && skip >= total {
        return Err(format!(
            "{n} has {total} characters, so none are left after {skip}"
        ));
    }
    let mut out: String = text.chars().skip(skip).take(MAX_CHARS).collect();
    let end = skip + MAX_CHARS;
    if end < total {
        let next = next(end);
        let _ = write!(
            out,
            "\n[characters {skip} to {end} of {total}; {next} reads on]"
        );
    }
    Ok(out)
}

/// A message with its heading. None of its lines looks like another message.
fn format_message(message: &Message) -> String {
    let text = without_labels(message.countable_text().into(), true);
    format!("{}:\n{text}", heading(message))
}

/// The number, author and time of a message, on one line.
fn heading(message: &Message) -> String {
    let author = message.author.as_ref().map(|author| author.as_str());
    let name = author.map(shown_name).filter(|name| !name.is_empty());
    let author = name.map_or_else(String::new, |name| format!(" ({name})"));
    let day = utc_date(message.at).map(|day| format!(", {day}"));
    let day = day.unwrap_or_default();
    format!("{} {}{author}{day}", message.ordinal, message.role)
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
