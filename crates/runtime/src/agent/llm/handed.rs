//! What a model is shown of results that others hand its agent: what fits beside the context.
//!
//! What is cut follows from the results, the definition and the room that the context leaves, so
//! that the same request is made again.

use std::fmt::Write as _;
use std::sync::Arc;

use unisono_context::Tokens;
use unisono_model::language::Request;
use unisono_model::prompt::{DelegateOutcome, DelegateResult, Prefix};
use unisono_session::assignment::{self, RunAssignment};
use unisono_session::run::Step;
use unisono_session::run::handed::{Fit, Piece, bound};
use unisono_session::tool;

use super::scales::{self, Scales};
use crate::agent::{Ctx, Failure, request};
use crate::tools::{Called, READ_MESSAGE};

/// The first request of a run with as much of its results as fits. `count` counts texts as the
/// definition's model does, each at most.
///
/// # Errors
/// Its role and task alone do not fit, with the numbers.
pub(crate) async fn first<F, C>(
    assignment: &RunAssignment,
    prefix: Prefix,
    count: F,
) -> Result<Request, String>
where
    F: Fn(Vec<String>) -> C,
    C: Future<Output = Vec<Tokens>>,
{
    let first = request::first(assignment, prefix);
    if first.results.is_empty() {
        return Ok(first);
    }
    let names = assignment.results.iter().map(|result| &result.name);
    let pieces = first.results.iter().zip(names);
    let pieces = pieces.map(|(result, name)| piece(result, name, assignment));
    let pieces: Vec<Piece> = pieces.collect();
    let alone = Request {
        results: Arc::from([]),
        ..first.clone()
    };
    let (role, messages) = scales::assignment(&alone);
    let bytes = |text: &str| Tokens(text.len() as u64);
    let whole: Tokens = pieces
        .iter()
        .map(|piece| bytes(&piece.shown(None)) + piece.around)
        .sum();
    let limits = assignment.definition.limits;
    let all = bytes(&role) + limits.per_message.times(messages) + whole;
    if whole <= assignment.handed && all <= assignment.room {
        return Ok(first);
    }
    let needed = count(vec![role]).await.into_iter().sum();
    let left = scales::room(assignment, messages, needed)?.tokens;
    let cuts = fitted(&pieces, bound(left, assignment.handed), count).await;
    let results = first.results.iter().zip(pieces.iter().zip(cuts));
    let results = results.map(|(result, (piece, cut))| match cut {
        None => result.clone(),
        Some(chars) => DelegateResult {
            outcome: beginning(&result.outcome, piece.head(chars)),
            rest: Some(piece.note(chars).into()),
            ..result.clone()
        },
    });
    Ok(Request {
        results: results.collect(),
        ..first
    })
}

async fn fitted<F, C>(pieces: &[Piece], total: Tokens, count: F) -> Vec<Option<usize>>
where
    F: Fn(Vec<String>) -> C,
    C: Future<Output = Vec<Tokens>>,
{
    let mut fit = Fit::new(pieces, total);
    loop {
        let texts = fit.texts();
        if texts.is_empty() {
            return fit.shown();
        }
        let counts = count(texts).await;
        fit.counted(&counts);
    }
}

/// What a model is told of a result, as it is counted.
pub(super) fn whole(delegated: &DelegateResult) -> String {
    let (text, end) = describe(delegated);
    format!("{text}{end}")
}

fn describe(delegated: &DelegateResult) -> (Arc<str>, String) {
    let mut end = format!("\n{}\n", delegated.agent);
    for more in delegated.task.iter().chain(&delegated.rest) {
        let _ = writeln!(end, "{more}");
    }
    let text = match &delegated.outcome {
        DelegateOutcome::Complete(text) | DelegateOutcome::Failed(text) => text,
        DelegateOutcome::Partial { text, missing } => {
            let _ = writeln!(end, "{missing}");
            text
        }
    };
    (text.clone(), end)
}

fn piece(delegated: &DelegateResult, name: &Arc<str>, assignment: &RunAssignment) -> Piece {
    let (text, end) = describe(delegated);
    Piece {
        text,
        end: end.into(),
        around: assignment.definition.limits.per_message,
        name: Some(name.clone()).filter(|_| may_read(assignment)),
    }
}

fn beginning(outcome: &DelegateOutcome, head: &str) -> DelegateOutcome {
    match outcome {
        DelegateOutcome::Complete(_) => DelegateOutcome::Complete(head.into()),
        DelegateOutcome::Failed(_) => DelegateOutcome::Failed(head.into()),
        DelegateOutcome::Partial { missing, .. } => DelegateOutcome::Partial {
            text: head.into(),
            missing: missing.clone(),
        },
    }
}

/// Whether its model may call the tool that reads results.
fn may_read(assignment: &RunAssignment) -> bool {
    let mut told = assignment.tools.iter();
    told.any(|tool| *tool.name == *READ_MESSAGE)
        && tool::allows(&assignment.definition.tools, READ_MESSAGE)
}

/// What calls came back with, with as much as fits of what other agents brought.
///
/// # Errors
/// The assignment alone does not fit.
pub(super) async fn results(
    called: Vec<Called>,
    (steps, round): (&[Arc<Step>], u32),
    scales: &mut Scales,
    ctx: &Ctx,
) -> Result<Step, Failure> {
    let of_tasks = |called: &&Called| called.task.is_some();
    let text = |called: &Called| called.result.content.to_string();
    let tasks: Vec<String> = called.iter().filter(of_tasks).map(text).collect();
    if tasks.is_empty() {
        return Ok(step(called));
    }
    let others = called.iter().filter(|called| called.task.is_none());
    let others: Vec<String> = others.map(text).collect();
    let left = scales
        .left_for_results(steps, (&tasks, others), ctx)
        .await?;
    let Some(left) = left else {
        return Ok(step(called));
    };
    let (assignment, around) = (ctx.assignment(), ctx.definition().limits.per_message);
    let indices = called.iter().filter_map(|called| called.task);
    let pieces = tasks.iter().zip(indices).map(|(text, index)| {
        let name = assignment::round_call_id(round, index).into();
        Piece::of_result(text, around, Some(name).filter(|_| may_read(assignment)))
    });
    let pieces: Vec<Piece> = pieces.collect();
    let cuts = fitted(&pieces, left, |texts| ctx.count(texts)).await;
    let mut shown = pieces.iter().zip(cuts).map(|(piece, cut)| piece.shown(cut));
    let mut called = called;
    for one in called.iter_mut().filter(|called| called.task.is_some()) {
        if let Some(text) = shown.next() {
            one.result.content = text.into();
        }
    }
    Ok(step(called))
}

fn step(called: Vec<Called>) -> Step {
    Step::Tools(called.into_iter().map(|called| called.result).collect())
}
