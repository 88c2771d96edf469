//! Cuts the results of a reply's calls to the room that is left, before they are recorded: the model
//! has not seen them, so they are never masked ([`unisono_session::run::tail`]).

use std::sync::Arc;

use unisono_context::Tokens;
use unisono_session::run::excerpts::ResultText;
use unisono_session::run::tail;
use unisono_session::run::{Reply, Step, ToolResult};

use super::meter::ExchangeMeter;
use crate::agent::results::fitted;
use crate::agent::{Ctx, Failure};
use crate::tools::{CallOutcome, is_reading_tool};

/// Cuts the results of tools if all results together do not fit. The results of delegated tasks,
/// which have a limit of their own, get up to half of the room.
///
/// # Errors
/// The assignment alone does not fit.
pub(super) async fn cut_to_room(
    called: &mut [CallOutcome],
    (reply, steps): (&Reply, &[Arc<Step>]),
    scales: &mut ExchangeMeter,
    ctx: &Ctx,
) -> Result<(), Failure> {
    let around = ctx.definition().limits.per_message;
    let names = reply.calls.iter().map(|call| &call.name);
    let names = names.map(|name| Some(name.clone()).filter(|name| is_reading_tool(name)));
    let pieces = called.iter().zip(names.chain(std::iter::repeat(None)));
    let pieces: Vec<_> = pieces
        .map(|(one, again)| (one.task, piece(&one.result, again, around, scales)))
        .collect();
    let bytes = |piece: &ResultText| Tokens(piece.text.len() as u64) + piece.overhead;
    let all = pieces.iter().map(|(_, piece)| bytes(piece)).sum();
    let Some((left, room)) = scales.results_room(steps, all, ctx).await? else {
        return Ok(());
    };
    if all <= left {
        return Ok(());
    }
    let tasks = pieces.iter().filter(|(task, _)| task.is_some());
    let tasks: Tokens = tasks.map(|(_, piece)| bytes(piece)).sum();
    let own = pieces.into_iter().filter(|(task, _)| task.is_none());
    let own: Vec<ResultText> = own.map(|(_, piece)| piece).collect();
    let half = |tokens: Tokens| tasks.min(Tokens(tokens.0 / 2));
    let texts = own.iter().map(|piece| piece.text.to_string()).collect();
    let counts = ctx.count(texts).await.into_iter();
    let costs = counts
        .zip(&own)
        .map(|(count, piece)| count + piece.overhead);
    let costs: Vec<Tokens> = costs.collect();
    if costs.iter().copied().sum::<Tokens>() + half(left) <= left {
        return Ok(());
    }
    let limit = tail::results_limit(left, room);
    let limit = limit.minus(half(limit));
    let mut texts = shown_texts(&own, &costs, (limit, around), ctx)
        .await
        .into_iter();
    for one in called.iter_mut().filter(|one| one.task.is_none()) {
        if let Some(Some(text)) = texts.next() {
            one.result.content = text.into();
            one.result.files.clear();
        }
    }
    Ok(())
}

/// The texts of results that are cut; none: the result is shown as it is.
async fn shown_texts(
    pieces: &[ResultText],
    costs: &[Tokens],
    (limit, around): (Tokens, Tokens),
    ctx: &Ctx,
) -> Vec<Option<String>> {
    let left_out = tail::without_share(costs, limit, around);
    let count = left_out.iter().filter(|left_out| **left_out).count();
    let limit = limit.minus(tail::left_out_tokens(count, around));
    let kept = pieces.iter().zip(&left_out);
    let kept: Vec<ResultText> = kept
        .filter(|(_, left_out)| !**left_out)
        .map(|(piece, _)| piece.clone())
        .collect();
    let cuts = fitted(&kept, limit, |texts| ctx.count(texts)).await;
    let shown = kept.iter().zip(cuts);
    let mut shown = shown.map(|(piece, cut)| cut.map(|chars| piece.excerpt(Some(chars))));
    let each = left_out.iter().zip(pieces);
    let each = each.map(|(left_out, piece)| match left_out {
        true => Some(tail::left_out_note(piece.again.as_deref())),
        false => shown.next().flatten(),
    });
    each.collect()
}

/// A result as it is counted. Its files, and the texts of its documents, go when it is cut.
fn piece(
    result: &ToolResult,
    again: Option<Arc<str>>,
    around: Tokens,
    scales: &ExchangeMeter,
) -> ResultText {
    ResultText {
        text: result.text(|_| false).into(),
        suffix: "".into(),
        overhead: around + scales.files_tokens(&result.files),
        name: None,
        again,
    }
}
