//! The results of the calls of a model's reply, limited to the headroom beside the context.

use std::sync::Arc;

use unisono_session::assignment;
use unisono_session::run::excerpts::ResultText;
use unisono_session::run::{Reply, Step};

use super::meter::ExchangeMeter;
use super::newest;
use crate::agent::results::{can_read_results, fitted};
use crate::agent::{Ctx, Failure};
use crate::tools::CallOutcome;

/// The results of a reply's calls, with as much of them as fits.
///
/// # Errors
/// The assignment alone does not fit.
pub(super) async fn results(
    mut called: Vec<CallOutcome>,
    (reply, steps, round): (&Reply, &[Arc<Step>], u32),
    scales: &mut ExchangeMeter,
    ctx: &Ctx,
) -> Result<Step, Failure> {
    newest::cut_to_room(&mut called, (reply, steps), scales, ctx).await?;
    let of_tasks = |called: &&CallOutcome| called.task.is_some();
    let text = |called: &CallOutcome| called.result.content.to_string();
    let tasks: Vec<String> = called.iter().filter(of_tasks).map(text).collect();
    if tasks.is_empty() {
        return Ok(step(called));
    }
    let others = called.iter().filter(|called| called.task.is_none());
    let others = others.map(|called| called.result.text(|_| false).into_owned());
    let others: Vec<String> = others.collect();
    let left = scales.results_limit(steps, (&tasks, others), ctx).await?;
    let Some(left) = left else {
        return Ok(step(called));
    };
    let (assignment, around) = (ctx.assignment(), ctx.definition().limits.per_message);
    let indices = called.iter().filter_map(|called| called.task);
    let pieces = tasks.iter().zip(indices).map(|(text, index)| {
        let name = assignment::round_call_id(round, index).into();
        ResultText::of_result(
            text,
            around,
            Some(name).filter(|_| can_read_results(assignment)),
        )
    });
    let pieces: Vec<ResultText> = pieces.collect();
    let cuts = fitted(&pieces, left, |texts| ctx.count(texts)).await;
    let mut shown = pieces
        .iter()
        .zip(cuts)
        .map(|(piece, cut)| piece.excerpt(cut));
    for one in called.iter_mut().filter(|called| called.task.is_some()) {
        if let Some(text) = shown.next() {
            one.result.content = text.into();
        }
    }
    Ok(step(called))
}

fn step(called: Vec<CallOutcome>) -> Step {
    Step::Tools(called.into_iter().map(|called| called.result).collect())
}
