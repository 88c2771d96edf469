//! Requests of clients as asks.

use std::sync::Arc;

use unisono_api::Code;
use unisono_api::compaction::{NewCompaction, OnFailure, RetryCompaction};
use unisono_api::turn::{NewTurn, TurnRequest};
use unisono_context::compaction::ContextPart;
use unisono_context::message::Part;
use unisono_context::policy::Keep;
use unisono_context::{CheckpointId, Ordinal, Tokens, TurnId, checkpoint};
use unisono_model::redact::redact;
use unisono_session::State;
use unisono_session::event::{SummaryFallback, SummaryOptions};
use unisono_store::Journal;

use super::id;
use super::settings::of_request;
use crate::Ask;
use crate::append;
use crate::client_tools::ClientToolRequest;
use crate::context;
use crate::error::Error;
use crate::history::{self, Lookup};
use crate::local::off_thread;
use crate::view::Inspect;

/// A message with fewer tokens is never too large.
const LARGE_LEAST: u64 = 64;

/// The ask for a request to a session.
///
/// # Errors
/// The request contradicts itself, a setting is invalid, or the session has no such checkpoint or
/// turn.
pub async fn read(
    journal: &Journal,
    session: &impl Inspect,
    request: &TurnRequest,
) -> Result<Ask, Error> {
    match request {
        TurnRequest::Task(new) => task(new),
        TurnRequest::Compact(new) => compaction(new.clone()),
        TurnRequest::Edit { checkpoint, new } => {
            let ask = edited(session, checkpoint, new.text.clone()).await?;
            Ok(ask.branch(new.branch.as_str()))
        }
        TurnRequest::Regenerate { checkpoint, new } => {
            let (instructions, summariser) = (new.instructions.clone(), new.summariser.clone());
            let writing = writing(instructions, summariser, new.on_failure);
            let ask = regenerate(session, checkpoint, writing).await?;
            let ask = ask.with_settings(of_request(&new.settings)?);
            Ok(ask.branch(new.branch.as_str()))
        }
        TurnRequest::Revert { checkpoint, new } => {
            let ask = revert(session, checkpoint).await?;
            Ok(ask.branch(new.branch.as_str()))
        }
        TurnRequest::RetryCompaction { turn, new } => {
            again(journal, session, id("turn", turn)?, new).await
        }
    }
}

/// The ask for a task.
///
/// # Errors
/// The author, a tool or a setting is wrong.
pub fn task(new: &NewTurn) -> Result<Ask, Error> {
    let author = new.author.as_deref().map(append::author).transpose();
    let author = author.map_err(|error| Error::new(Code::InvalidRequest, error.to_string()))?;
    let results = new.results.iter().map(|result| Part::ToolResult {
        call_id: result.call_id.as_str().into(),
        content: result.content.as_str().into(),
        is_error: result.is_error,
    });
    let results: Vec<Part> = results.collect();
    let goes_on = !results.is_empty() && new.task.trim().is_empty();
    let ask = match goes_on {
        true => Ask::from_results(results),
        false => Ask::new(new.task.as_str()).after(results),
    };
    let client_options = ClientToolRequest {
        tools: Some(new.tools.clone()),
        choice: new.tool_choice.clone(),
        parallel: new.parallel_tool_calls,
    };
    let (specs, client_options) = client_options.read().map_err(Error::from)?;
    let ask = ask
        .with_author(author)
        .with_client_tools(specs, client_options)
        .branch(new.branch.as_str())
        .with_settings(of_request(&new.settings)?);
    let ask = match &new.lead {
        Some(lead) => ask.lead(lead.as_str()),
        None => ask,
    };
    Ok(match &new.agents {
        Some(agents) => ask.agents(agents.iter().map(String::as_str)),
        None => ask,
    })
}

/// The ask for a compaction.
///
/// # Errors
/// Its options contradict each other, or a setting is wrong.
pub fn compaction(new: NewCompaction) -> Result<Ask, Error> {
    let keep = match (new.keep_messages, new.keep_tokens) {
        (Some(_), Some(_)) => {
            let detail = "keep_messages contradicts keep_tokens: leave one out";
            return Err(Error::new(Code::Refused, detail));
        }
        (Some(0), None) | (None, Some(0)) => {
            return Err(Error::new(Code::Refused, "at least something must stay"));
        }
        (messages, tokens) => keep(messages, tokens),
    };
    let part = part(&new)?;
    if let (Some(_), Some(_)) = (keep, part) {
        let detail = "a part is compacted whole: leave out keep_messages and keep_tokens";
        return Err(Error::new(Code::Refused, detail));
    }
    let writing = writing(new.instructions, new.summariser, new.on_failure);
    let own = of_request(&new.settings)?;
    let ask = match part {
        Some(part) => Ask::compaction_of(part, writing),
        None => Ask::compaction(keep, writing),
    };
    Ok(ask.branch(new.branch).with_settings(own))
}

/// The part of the context to compact; none: all older messages.
fn part(new: &NewCompaction) -> Result<Option<ContextPart>, Error> {
    let refused = |detail: &str| Err(Error::new(Code::Refused, detail));
    match (new.topic, new.attention, new.large_messages) {
        (_, _, false) if new.over_tokens.is_some() => {
            refused("over_tokens is for large_messages: set that, too")
        }
        (_, _, true) if new.over_tokens.is_some_and(|over| over < LARGE_LEAST) => {
            refused("over_tokens must be 64 at least")
        }
        (None, false, false) => Ok(None),
        (Some(message), false, false) => Ok(Some(ContextPart::Topic {
            message: Ordinal(message),
        })),
        (None, true, false) => Ok(Some(ContextPart::Attention)),
        (None, false, true) => Ok(Some(ContextPart::Large {
            over: new.over_tokens.map(Tokens),
        })),
        _ => refused("topic, attention and large_messages contradict each other: name one"),
    }
}

fn writing(
    instructions: Option<String>,
    summariser: Option<String>,
    on_failure: OnFailure,
) -> SummaryOptions {
    SummaryOptions {
        summariser: summariser.map(Into::into),
        unwritten: match on_failure {
            OnFailure::Retry => SummaryFallback::Retry,
            OnFailure::Extractive => SummaryFallback::Extractive,
            OnFailure::Leave => SummaryFallback::Leave,
        },
        ..SummaryOptions::with_instructions(instructions)
    }
}

/// The messages to keep; none: all from the newest user message on.
fn keep(messages: Option<u32>, tokens: Option<u64>) -> Option<Keep> {
    let amount = tokens.map(|n| Keep::Tokens {
        amount: Tokens(n),
        align: 4,
    });
    messages.map(Keep::Messages).or(amount)
}

/// The checkpoint in an address.
///
/// # Errors
/// The session has no such checkpoint, or cannot be opened.
pub(super) async fn checkpoint(
    session: &impl Inspect,
    text: &str,
) -> Result<Arc<checkpoint::Checkpoint>, Error> {
    let number: Option<u32> = text.parse().ok();
    let id: Option<CheckpointId> = match number {
        Some(_) => None,
        None => Some(id("checkpoint", text)?),
    };
    let look = move |state: &State| {
        let mut all = state.checkpoints().iter();
        all.find(|one| Some(one.number) == number || Some(one.id) == id)
            .cloned()
    };
    let found = session.inspect(look).await?;
    found.ok_or_else(|| Error::not_found("checkpoint", text))
}

/// The ask to edit a checkpoint, with possible API keys removed from the text.
///
/// # Errors
/// The session has no such checkpoint or cannot be opened, or the text cannot be counted.
async fn edited(session: &impl Inspect, number: &str, text: String) -> Result<Ask, Error> {
    let found = checkpoint(session, number).await?;
    let edit = move || {
        let text: Arc<str> = redact(text.trim()).into();
        let counts = context::block_counts(&found, &text)?;
        Ok::<_, context::Error>(Ask::edit(found.id, text, counts))
    };
    Ok(off_thread(edit).await?)
}

/// The ask to regenerate a checkpoint.
///
/// # Errors
/// The session has no such checkpoint, or cannot be opened.
async fn regenerate(
    session: &impl Inspect,
    number: &str,
    writing: SummaryOptions,
) -> Result<Ask, Error> {
    let found = checkpoint(session, number).await?;
    Ok(Ask::regenerate(found.id, writing))
}

/// The ask to revert a checkpoint.
///
/// # Errors
/// The session has no such checkpoint, or cannot be opened.
async fn revert(session: &impl Inspect, number: &str) -> Result<Ask, Error> {
    Ok(Ask::revert(checkpoint(session, number).await?.id))
}

/// The ask to repeat the compaction of a turn, with the same instructions.
async fn again(
    journal: &Journal,
    session: &impl Inspect,
    turn: TurnId,
    new: &RetryCompaction,
) -> Result<Ask, Error> {
    let trace = history::turn(journal, session, Lookup::Turn(turn)).await?;
    let found = trace.as_ref().and_then(|trace| trace.turn(turn));
    let accepted = found.map(|found| &found.accepted.1);
    let before = accepted.and_then(|accepted| accepted.work.writing());
    let writing = SummaryOptions {
        instructions: before.and_then(|before| before.instructions.clone()),
        ..writing(None, new.summariser.clone(), new.on_failure)
    };
    let ask = accepted.and_then(|accepted| Ask::retry(accepted, writing));
    ask.ok_or_else(|| Error::not_found("failed compaction in turn", turn))
}
