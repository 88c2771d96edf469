//! The size of the context at each turn of a branch.

use unisono_api::context::ContextSize;
use unisono_context::snapshot::Manifest;
use unisono_context::{Digest, TurnId};
use unisono_session::trace::TurnTrace;
use unisono_session::{Fact, State, Trace};
use unisono_store::Journal;

use crate::history::{self, Error};
use crate::values::instant;
use crate::view::Inspect;

/// Turns that are examined for one page: most of them may be on other branches.
const TURNS: usize = 500;
/// Turns that are read at a time.
const AT_ONCE: usize = 100;

/// At most `limit` turns of a branch that froze or changed its context, the newest first, accepted
/// before event `before`; and the event that the next page begins before, if there may be one. It
/// reads the events of these turns, and one more for each.
///
/// # Errors
/// The store fails, or the session cannot be inspected.
pub async fn page(
    journal: &Journal,
    session: &impl Inspect,
    (branch, before, limit): (&str, Option<u64>, usize),
) -> Result<(Vec<ContextSize>, Option<u64>), Error> {
    let count = |state: &State| state.ended_turns().len() + state.open_turns().count();
    let all = session.inspect(count).await?;
    let (mut found, mut before) = (Vec::new(), before.unwrap_or(u64::MAX));
    let mut looked = 0;
    while looked < TURNS && all > 0 {
        let many = AT_ONCE.min(all);
        let trace = history::turns(journal, session, before, many).await?;
        let turns = trace.turns().map(|(id, turn)| (turn.accepted.0.seq, id));
        let mut turns: Vec<(u64, TurnId)> = turns.filter(|(seq, _)| *seq < before).collect();
        turns.sort_unstable();
        if turns.is_empty() {
            return Ok((found, None));
        }
        let last = turns.len() < many;
        for (accepted, id) in turns.into_iter().rev() {
            if found.len() == limit {
                return Ok((found, Some(before)));
            }
            before = accepted;
            let turn = trace
                .turn(id)
                .filter(|turn| &*turn.accepted.1.branch == branch);
            if let Some(turn) = turn
                && let Some(size) = size(journal, session, &trace, (id, turn)).await?
            {
                found.push(size);
            }
            looked += 1;
        }
        if last {
            return Ok((found, None));
        }
    }
    Ok((found, (all > 0).then_some(before)))
}

/// The size of the context of a turn; none while it has none.
async fn size(
    journal: &Journal,
    session: &impl Inspect,
    trace: &Trace,
    (id, turn): (TurnId, &TurnTrace),
) -> Result<Option<ContextSize>, Error> {
    let Some(shown) = crate::turn_view::of_turn(trace, session.id(), id) else {
        return Ok(None);
    };
    let manifest = match turn.frozen {
        Some((frozen, _)) => manifest(journal, session, frozen.seq).await?,
        None => None,
    };
    let requested = matches!(shown.state.as_str(), "compacted" | "reverted");
    let at = match (turn.frozen, &turn.ended) {
        (Some((frozen, _)), _) => frozen.at,
        (None, Some((ended, _))) if requested => ended.at,
        _ => return Ok(None),
    };
    let lead = turn.accepted.1.lead;
    let runs = turn.runs.iter().filter_map(|run| trace.run(*run));
    let given = runs.filter(|run| run.opened.1.snapshot.is_some());
    let given: Vec<Digest> = given.map(|run| run.opened.1.definition).collect();
    let look = move |state: &State| counted(state, (lead, &given), manifest.as_ref());
    let Some(counted) = session.inspect(look).await? else {
        return Ok(None);
    };
    let compacted = turn.compacted;
    let after = compacted.and_then(|made| made.after).map(|after| after.0);
    Ok(Some(ContextSize {
        turn: shown.turn,
        state: shown.state,
        at: instant(at),
        encoding: counted.encoding.to_owned(),
        tokens: counted.tokens.or(after),
        summary_tokens: counted.summaries,
        messages: counted.messages,
        window_tokens: counted.window,
        changed: compacted.is_some_and(|made| made.after.is_some_and(|after| after != made.before)),
        tokens_before: compacted.map(|made| made.before.0),
        checkpoints: shown.checkpoints,
    }))
}

async fn manifest(
    journal: &Journal,
    session: &impl Inspect,
    seq: u64,
) -> Result<Option<Manifest>, Error> {
    let events = journal.read(session.id(), seq, 1).await?;
    let fact = events.into_iter().next().map(|(_, event)| event.fact);
    Ok(match fact {
        Some(Fact::Frozen { manifest, .. }) => Some(manifest),
        _ => None,
    })
}

struct Counted {
    encoding: &'static str,
    window: u64,
    tokens: Option<u64>,
    summaries: Option<u64>,
    messages: Option<u32>,
}

/// The size of a context for a lead and the other agents that got it.
fn counted(
    state: &State,
    (lead, others): (Digest, &[Digest]),
    manifest: Option<&Manifest>,
) -> Option<Counted> {
    let limits = state.definition(lead)?.limits;
    let budget = super::frozen_budget(state, lead, others.iter().copied())?;
    let tokens = manifest.and_then(|manifest| {
        let (tree, alterations) = (state.tree(), state.alterations());
        manifest.tokens(tree, state.checkpoints(), alterations, &budget)
    });
    Some(Counted {
        encoding: limits.encoding.name(),
        window: limits.window.0,
        tokens: tokens.map(|tokens| (tokens.summaries + tokens.messages).tokens.0),
        summaries: tokens.map(|tokens| tokens.summaries.tokens.0),
        messages: tokens.map(|tokens| tokens.verbatim),
    })
}
