//! Applies facts to the budget tree.

use unisono_context::{RunId, Timestamp};

use crate::budget::{Reservation, RunEnd};
use crate::event::{Fact, LateOutput};
use crate::ids;
use crate::run::{Ending, Step};
use crate::state::State;
use crate::turn::Phase;

use super::Error;

impl State {
    /// Charges, reserves and releases the amounts of a fact. This happens before the fact is folded
    /// otherwise, while ended items are still there.
    pub(super) fn apply_to_budget(&mut self, fact: &Fact, at: Timestamp) {
        match fact {
            Fact::TurnAccepted { turn } => self.budget.accept(turn.id, turn.caps.clone()),
            Fact::RunOpened { run } => self.budget.open(run.turn, run.id, run.definition),
            Fact::Reserved { run, reservation } => self.budget.reserve(*run, reservation),
            Fact::CallSettled {
                run,
                call,
                used,
                is_reported,
            } => self.budget.settle(*run, *call, *used, *is_reported),
            Fact::RunStepped { run, step } => {
                if let Step::Model(reply) = &**step {
                    self.budget.charge_reply(*run, &reply.usage);
                }
            }
            Fact::RunRetried { run, .. } => self.budget.lose_attempt(*run),
            Fact::RunEnded { run, ending } => self.run_account_ended(*run, ending),
            Fact::LateOutputReceived { run, late, .. } => match late {
                LateOutput::Reply(reply) => self.budget.charge_late(*run, &reply.usage, false),
                LateOutput::Answer { usage, .. } => self.budget.charge_late(*run, usage, true),
                LateOutput::Spent(spent) => self.budget.charge_late_part(*run, &spent.usage),
                LateOutput::Named { .. } | LateOutput::Incomplete { .. } => {}
            },
            Fact::PreparationPlanned { preparation } => {
                self.budget.open_summaries(preparation.turn);
            }
            Fact::SummaryPrepared { turn, .. } | Fact::PreparationDropped { turn, .. } => {
                self.budget.close_summaries(*turn);
            }
            Fact::SummariserUsed { turn, usage, .. } => self.budget.charge_summary(*turn, usage),
            Fact::TurnEnded { turn, .. } => {
                let started = self.turns.get(turn).filter(|t| t.phase != Phase::Queued);
                let time = started.map_or(0, |turn| at.ms_since(turn.started_at));
                self.budget
                    .end_turn(*turn, u64::try_from(time).unwrap_or(0));
            }
            _ => {}
        }
    }

    fn run_account_ended(&mut self, run: RunId, ending: &Ending) {
        let end = match ending {
            Ending::Finished { usage, .. } => RunEnd::Finished(usage),
            Ending::Failed { .. } => RunEnd::Failed,
            Ending::Cancelled => RunEnd::Cancelled,
        };
        self.budget.end(run, end);
    }

    /// A model call of a run was reserved.
    pub(super) fn reserved(&mut self, run: RunId, reservation: &Reservation) -> Result<(), Error> {
        let turn = self.budget.turn_of(run);
        if turn.is_some_and(|turn| ids::summaries(turn) == run) {
            // A request for a summary belongs to no run.
            return Ok(());
        }
        let run = self.run_mut(run)?;
        run.requested = Some(run.next_request());
        if let Some(why) = &reservation.wrap_up {
            run.wrapped_up = Some((run.next_request(), why.clone()));
        }
        Ok(())
    }
}
