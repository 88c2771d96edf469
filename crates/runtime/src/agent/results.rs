//! The results of other agents in a prompt, limited to the headroom beside the context.
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
use unisono_session::tool;

use super::{request, size};

/// The tool by which an agent reads whole messages and results.
pub(crate) const READ_MESSAGE: &str = "read_message";

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
    let (role, messages) = size::assignment(&alone);
    let bytes = |text: &str| Tokens(text.len() as u64);
    let whole: Tokens = pieces
        .iter()
        .map(|piece| bytes(&piece.excerpt(None)) + piece.overhead)
        .sum();
    let limits = assignment.definition.limits;
    let all = bytes(&role) + limits.per_message.times(messages) + whole;
    if whole <= assignment.results_reserve && all <= assignment.headroom {
        return Ok(first);
    }
    let needed = count(vec![role]).await.into_iter().sum();
    let left = size::headroom(assignment, messages, needed)?.tokens;
    let bound = results_bound(left, assignment.results_reserve);
    let cuts = fitted(&pieces, bound, &count).await;
    let cut = with_cuts(&first, &pieces, cuts);
    let (text, messages) = size::assignment(&cut);
    let needed = count(vec![text]).await.into_iter().sum();
    if size::headroom(assignment, messages, needed).is_ok() {
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

pub(crate) async fn fitted<F, C>(
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
pub(crate) fn can_read_results(assignment: &RunAssignment) -> bool {
    let mut tools = assignment.tools.iter();
    tools.any(|tool| *tool.name == *READ_MESSAGE)
        && tool::allows(&assignment.definition.tools, READ_MESSAGE)
}
