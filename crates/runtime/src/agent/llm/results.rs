//! The results of other agents in a model's prompt, limited to the headroom beside the context.
//!
//! The cut depends only on the results, the definition and the headroom, so that the same request
//! can be built again.

use std::fmt::Write as _;
use std::sync::Arc;

use unisono_context::{AgentId, Tokens};
use unisono_model::language::Request;
use unisono_model::prompt::{DelegateOutcome, DelegateResult, Prefix};
use unisono_session::assignment::{self, RunAssignment};
use unisono_session::run::excerpts::{ResultFit, ResultText, results_bound};
use unisono_session::run::{Reply, Step};
use unisono_session::tool;

use super::meter::{self, ExchangeMeter};
use super::newest;
use crate::agent::{Ctx, Failure, request};
use crate::tools::{CallOutcome, READ_MESSAGE};

/// The first request of a run with as much of its results as fits: whole, each with its beginning,
/// or one note for all. `count` returns upper bounds of tokens for the definition's model.
///
/// # Errors
/// Role and task alone do not fit; the reason contains the numbers.
pub(crate) async fn first_request<F, C>(
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
    let pieces: Vec<ResultText> = pieces.collect();
    let alone = Request {
        results: Arc::from([]),
        ..first.clone()
    };
    let (role, messages) = meter::assignment(&alone);
    let bytes = |text: &str| Tokens(text.len() as u64);
    let size: Tokens = pieces
        .iter()
        .map(|piece| bytes(&piece.excerpt(None)) + piece.overhead)
        .sum();
    let limits = assignment.definition.limits;
    let all = bytes(&role) + limits.per_message.times(messages) + size;
    if size <= assignment.results_reserve && all <= assignment.headroom {
        return Ok(first);
    }
    let needed = count(vec![role]).await.into_iter().sum();
    let left = meter::headroom(assignment, messages, needed)?.tokens;
    let bound = results_bound(left, assignment.results_reserve);
    let cuts = fitted(&pieces, bound, &count).await;
    let cut = with_cuts(&first, &pieces, cuts);
    let (text, messages) = meter::assignment(&cut);
    let needed = count(vec![text]).await.into_iter().sum();
    if meter::headroom(assignment, messages, needed).is_ok() {
        return Ok(cut);
    }
    Ok(Request {
        results: note_for_all(&assignment.results, can_read_results(assignment))
            .into_iter()
            .collect(),
        ..first
    })
}

/// The request with its results cut to these numbers of characters; none: whole.
fn with_cuts(first: &Request, pieces: &[ResultText], cuts: Vec<Option<usize>>) -> Request {
    let results = first.results.iter().zip(pieces.iter().zip(cuts));
    let results = results.map(|(result, (piece, cut))| match cut {
        None => result.clone(),
        Some(chars) => DelegateResult {
            outcome: beginning(&result.outcome, piece.head(chars)),
            rest: Some(piece.note(chars).into()),
            ..result.clone()
        },
    });
    Request {
        results: results.collect(),
        ..first.clone()
    }
}

/// One note in place of all results: how many are left out, and how to read them.
fn note_for_all(results: &[assignment::DelegateResult], can_read: bool) -> Option<DelegateResult> {
    let named = |one: &assignment::DelegateResult| format!(r#"{{"result":"{}"}}"#, one.name);
    let (agent, names) = match results {
        [] => return None,
        [one] => (one.agent.clone(), named(one)),
        [first, .., last] => {
            let agent = AgentId::new(format!("{} delegates", results.len()));
            (agent, format!("{} to {}", named(first), named(last)))
        }
    };
    Some(DelegateResult {
        agent,
        task: None,
        outcome: DelegateOutcome::Partial {
            text: "".into(),
            missing: "left out: no room".into(),
        },
        rest: can_read.then(|| format!("[to read it: {READ_MESSAGE} {names}]").into()),
    })
}

pub(super) async fn fitted<F, C>(
    pieces: &[ResultText],
    total: Tokens,
    count: F,
) -> Vec<Option<usize>>
where
    F: Fn(Vec<String>) -> C,
    C: Future<Output = Vec<Tokens>>,
{
    let mut fit = ResultFit::new(pieces, total);
    loop {
        let texts = fit.texts();
        if texts.is_empty() {
            return fit.shown_chars();
        }
        let counts = count(texts).await;
        fit.counted(&counts);
    }
}

/// The text of a result, as it is counted.
pub(super) fn full_text(delegated: &DelegateResult) -> String {
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

fn piece(delegated: &DelegateResult, name: &Arc<str>, assignment: &RunAssignment) -> ResultText {
    let (text, end) = describe(delegated);
    ResultText {
        text,
        suffix: end.into(),
        overhead: assignment.definition.limits.per_message,
        name: Some(name.clone()).filter(|_| can_read_results(assignment)),
        again: None,
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
fn can_read_results(assignment: &RunAssignment) -> bool {
    let mut tools = assignment.tools.iter();
    tools.any(|tool| *tool.name == *READ_MESSAGE)
        && tool::allows(&assignment.definition.tools, READ_MESSAGE)
}

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
