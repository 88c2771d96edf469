//! The changes of a context by a turn.

use unisono_api::compaction::{Compaction, OnFailure, ratio};
use unisono_context::TurnId;
use unisono_context::checkpoint::Body;
use unisono_session::State;
use unisono_session::event::{Outcome, Work};

use crate::context::estimate;
use crate::error::Error;
use crate::history::{self, Lookup};
use crate::turn_budgets::TurnBudgets;
use crate::view::{Inspect as _, View};
use crate::{Local, fmt, turn_view};

/// Characters of a new summary in an answer.
const PREVIEW_CHARS: usize = 200;

/// A turn with its changes of the context.
pub(super) async fn read(local: &Local, session: &View, turn: TurnId) -> Result<Compaction, Error> {
    let trace = history::turn(local.journal(), session, Lookup::Turn(turn)).await?;
    let found = trace.as_ref().and_then(|trace| {
        let work = trace.turn(turn)?.accepted.1.work.clone();
        Some((turn_view::of_turn(trace, session.id(), turn)?, work))
    });
    let (mut read, work) = found.ok_or_else(|| Error::not_found("turn", turn))?;
    if let Some(trace) = &trace {
        let budgets = TurnBudgets::read(session, trace, turn).await?;
        budgets.add_to_turn(&mut read);
    }
    let summariser = work.writing().and_then(|how| how.summariser.as_ref());
    let summariser = summariser.map(ToString::to_string);
    let (newest, branch) = (read.checkpoints.last().copied(), read.branch.clone());
    let look = move |state: &State| EndedState::from_state(state, turn, newest, &branch, &work);
    let changed = session.inspect(look).await?;
    let amounts = match changed.outcome {
        Some(Outcome::Compacted { before, after } | Outcome::Reverted { before, after }) => {
            Some((before, after))
        }
        _ => None,
    };
    Ok(Compaction {
        turn: read,
        tokens_before: amounts.map(|(before, _)| before.0),
        tokens_after: amounts.map(|(_, after)| after.0),
        tokens_saved: amounts.map(|(before, after)| before.minus(after).0),
        compression_ratio: amounts.and_then(|(before, after)| ratio(before.0, after.0)),
        no_change_reason: changed.no_change_reason,
        preview: changed.preview,
        summariser,
        offers: match changed.outcome {
            Some(outcome) if outcome.is_unwritten() => OnFailure::ALL.to_vec(),
            _ => Vec::new(),
        },
    })
}

/// The end of a turn in the state of its session.
struct EndedState {
    outcome: Option<Outcome>,
    preview: Option<String>,
    no_change_reason: Option<String>,
}

impl EndedState {
    fn from_state(
        state: &State,
        turn: TurnId,
        newest: Option<u32>,
        branch: &str,
        work: &Work,
    ) -> EndedState {
        let outcome = state.ended_turn(turn).map(|ended| ended.outcome.clone());
        let mut all = state.checkpoints().iter();
        let made = newest.and_then(|number| all.find(|made| made.number == number));
        let preview = made.and_then(|made| match &made.body {
            Body::Summary(text) => Some(fmt::line(text, PREVIEW_CHARS)),
            Body::Tombstone => None,
        });
        let no_change_reason = match (&outcome, newest) {
            (Some(Outcome::Compacted { before, after }), None) if before == after => {
                estimate::reason_for_no_step(state, branch, work)
            }
            _ => None,
        };
        EndedState {
            outcome,
            preview,
            no_change_reason,
        }
    }
}
