//! A summary of a run's first rounds, for the step that replaces them. It consists of quotes, so it
//! needs no model and the same rounds give the same text.

use std::sync::Arc;

use unisono_context::{Ordinal, Part, Role, Timestamp, Tokens};
use unisono_model::extractive::{self, Passage, SummaryInput};
use unisono_model::tokenizer::Tokenizer;
use unisono_session::run::tail::{summary, summary_note};
use unisono_session::run::{RunCause, Step};

use crate::agent::{Ctx, Failure};

/// Steps have no date.
const NO_DAY: Timestamp = Timestamp(0);
/// The maximum number of additional tokens when a note and a summary are joined.
const JOINT: u64 = 8;

/// The step that replaces the first `replaced` steps, at most `cap` tokens in the prompt.
///
/// # Errors
/// The model's tokens cannot be counted.
pub(super) async fn step(
    steps: &[Arc<Step>],
    replaced: usize,
    cap: Tokens,
    ctx: &Ctx,
) -> Result<Step, Failure> {
    let steps: Arc<[Arc<Step>]> = steps.get(..replaced).unwrap_or(steps).into();
    let (limits, task) = (ctx.definition().limits, ctx.assignment().task.clone());
    let cap = cap.minus(limits.per_message);
    let work = tokio::task::spawn_blocking(move || {
        let tokenizer = Tokenizer::load(limits.encoding).map_err(|error| error.to_string())?;
        let count = |text: &str| tokenizer.count(text).at_most.0;
        Ok::<_, String>(quotes(&steps, &task, cap, &count))
    });
    let text = work
        .await
        .unwrap_or_else(|_| Err("the extractive summariser panicked".into()));
    let text = text.map_err(|reason| Failure::new(RunCause::Panic, reason))?;
    Ok(Step::Summarised {
        replaced: u32::try_from(replaced).unwrap_or(u32::MAX),
        text: text.into(),
    })
}

/// Quotes from the steps and from an earlier summary among them, at most `cap` tokens in the
/// prompt.
fn quotes(
    steps: &[Arc<Step>],
    task: &str,
    cap: Tokens,
    count: extractive::CountTokens<'_>,
) -> String {
    let (known, prior) = summary(steps).map_or((0, None), |(known, text)| (known, Some(&**text)));
    let rounds: Vec<(Ordinal, Role, Vec<Part>)> = numbered(steps).skip(known).flatten().collect();
    let passages: Vec<Passage<'_>> = rounds
        .iter()
        .flat_map(|(number, role, parts)| {
            let passage = |part| Passage::of_part(*number, *role, None, NO_DAY, part);
            parts.iter().filter_map(passage)
        })
        .collect();
    // The summary is counted as the prompt shows it.
    let note = count(&summary_note(""));
    let room = cap.0.saturating_sub(note + JOINT);
    let count = |text: &str| count(&summary_note(text)).saturating_sub(note);
    let draft = extractive::summarise(&SummaryInput {
        prior,
        instructions: Some(task),
        ..SummaryInput::new(&passages, Tokens(room), &count)
    });
    match draft.text.is_empty() {
        true => "(nothing to quote)".into(),
        false => draft.text,
    }
}

/// The texts of each step, under the number of its reply; none for steps outside the exchange.
fn numbered(steps: &[Arc<Step>]) -> impl Iterator<Item = Option<(Ordinal, Role, Vec<Part>)>> {
    let mut number = Ordinal(0);
    steps.iter().map(move |step| match &**step {
        Step::Model(reply) => {
            number = Ordinal(number.0 + 1);
            let calls = reply.calls.iter().map(|call| {
                Part::tool_call(call.id.clone(), call.name.clone(), call.arguments.clone())
            });
            let parts = std::iter::once(Part::Text(reply.text.clone())).chain(calls);
            Some((number, Role::Assistant, parts.collect()))
        }
        Step::Tools(results) => {
            let results = results.iter().map(|result| Part::ToolResult {
                call_id: result.call_id.clone(),
                content: result.text(|_| false).into(),
                is_error: result.is_error,
            });
            Some((number, Role::Tool, results.collect()))
        }
        _ => None,
    })
}
