//! Regenerating a checkpoint on request: by a summariser, or with a text of a person.

use std::sync::Arc;

use crate::budget::{Budget, Budgets};
use crate::checkpoint::{Body, Checkpoint, Kind, Span, Writer};
use crate::ids::{CheckpointId, Timestamp};
use crate::policy::{Method, Policy, Preset};
use crate::tokens::{Counts, Tokens};
use crate::view::View;

use super::{Cover, Draft, Plan, Rejection, Step, Stop, accept_replacement, summary_cap};

/// The model name of a summary written by a person.
pub const PERSON: &str = "person";
/// The model name of a summary that consists of quotes, and of the offline model that writes it.
pub const EXTRACTIVE: &str = "extractive";

/// A person's text for a checkpoint.
#[derive(Clone, Debug)]
pub struct Edit<'a> {
    /// Id of the new checkpoint.
    pub id: CheckpointId,
    /// The text.
    pub text: &'a Arc<str>,
    /// Tokens of its block, in every encoding.
    pub counts: Counts,
    /// When it was written.
    pub at: Timestamp,
}

/// Maximum tokens of the replacement of a checkpoint: the policy's cap, or the tokens of the old
/// text if that is more.
fn cap(policy: &Policy, budget: &Budget, old: &Checkpoint) -> Tokens {
    let cap = match policy.method {
        Method::Summarise { .. } => summary_cap(policy),
        Method::Drop => summary_cap(&Policy::from_preset(Preset::Checkpoint)),
    };
    let count = old.counts.get(budget.encoding).unwrap_or_default();
    cap.max(count.tokens)
}

/// Maximum tokens of the context with the new text: the target, or the current tokens if that is
/// more; never more than the usable tokens.
fn limit(view: &View<'_>, policy: &Policy, budget: &Budget) -> Tokens {
    let now = view.effective(budget).unwrap_or_default().tokens;
    let target = policy.target_amount(budget).max(now);
    target.min(budget.usable)
}

/// The context without the block of a checkpoint.
fn rest(view: &View<'_>, budget: &Budget, old: &Checkpoint) -> Tokens {
    let block = old.counts.get(budget.encoding).unwrap_or_default();
    let now = view.effective(budget).unwrap_or_default();
    now.minus(block).at_most
}

/// The step in which a summariser regenerates a checkpoint from its sources: the checkpoints that
/// it superseded, and the messages that these did not cover.
///
/// # Errors
/// No text would fit.
pub fn regenerate(
    view: &View<'_>,
    budgets: &Budgets,
    policy: &Policy,
    old: &Checkpoint,
) -> Result<Plan, Rejection> {
    let room = |budget: &Budget| {
        let room = limit(view, policy, budget).minus(rest(view, budget, old));
        cap(policy, budget, old).min(room)
    };
    let tightest = budgets.iter().min_by_key(|budget| room(budget));
    let budget = *tightest.ok_or(Rejection::Empty)?;
    let shrinking = old.original.minus(budget.per_message + Tokens(1));
    let cap = room(&budget).min(shrinking);
    if cap == Tokens::ZERO {
        let (context, target) = (rest(view, &budget, old), limit(view, policy, &budget));
        return Err(Rejection::OverTarget { context, target });
    }
    let origin = view.checkpoints().origin(old);
    let earlier = origin
        .supersedes
        .iter()
        .filter_map(|id| view.checkpoints().get(*id));
    let earlier: Vec<Span> = earlier.flat_map(|c| c.covers.iter().copied()).collect();
    let cover = Cover {
        spans: old.covers.clone(),
        fresh: Span::difference(&old.covers, &Span::merged(earlier)),
        cutoff: old.cutoff,
        supersedes: vec![old.id],
        original: old.original,
    };
    let writer = Writer::Model;
    Ok(Plan {
        step: Step::Summarise {
            cover,
            tier: old.tier,
            cap,
            writer,
        },
        budget,
        before: view.effective(&budget).unwrap_or_default().tokens,
        target: limit(view, policy, &budget),
        tightened: false,
    })
}

/// The checkpoint with a person's text instead of the old text; it keeps the key facts.
///
/// # Errors
/// The text is empty, exceeds its cap, or makes the context too large.
pub fn edited(
    view: &View<'_>,
    budgets: &Budgets,
    policy: &Policy,
    old: &Checkpoint,
    edit: Edit<'_>,
) -> Result<Checkpoint, Rejection> {
    for budget in budgets.iter() {
        let tokens = edit.counts.get(budget.encoding).unwrap_or_default().at_most;
        let draft = Draft {
            text: edit.text,
            stop: Stop::Complete,
            tokens,
        };
        let context = rest(view, budget, old) + tokens;
        let target = limit(view, policy, budget);
        accept_replacement(&draft, cap(policy, budget, old), context, target)?;
    }
    Ok(Checkpoint {
        id: edit.id,
        number: view.checkpoints().next_number(),
        parent: view.head(),
        supersedes: vec![old.id],
        kind: Kind::Manual,
        writer: Writer::Deterministic,
        model: PERSON.into(),
        body: Body::Summary(edit.text.clone()),
        counts: edit.counts,
        cost_micros: Some(0),
        duration_ms: 0,
        degraded: false,
        at: edit.at,
        coverage: None,
        ..old.clone()
    })
}
