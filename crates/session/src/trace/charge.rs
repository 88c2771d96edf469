//! The amount that the budgets count for a run, open or ended, folded from its facts. It follows the
//! same rules as [`crate::budget::Tree`], which forgets a run when it has ended.

use std::collections::BTreeMap;

use crate::budget::{Amount, rest_or_worst_case, usage_or_worst_case};
use crate::event::{Fact, LateOutput};
use crate::run::{Ending, Step};

/// The charged amount of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Charge {
    charged: Amount,
    /// The part of it that was reported.
    reported: Amount,
    /// The worst cases of calls in progress, by number.
    calls: BTreeMap<u32, Amount>,
    /// The worst case of a cancelled run, which late output replaces; none: it was not cancelled.
    replaceable: Option<Amount>,
}

impl Charge {
    /// The amount: the reported usage, and the worst case of calls without a report.
    pub fn amount(&self) -> Amount {
        self.charged
    }

    pub(super) fn take(&mut self, fact: &Fact) {
        match fact {
            Fact::Reserved { reservation, .. } => {
                self.calls.insert(reservation.call, reservation.amount);
            }
            Fact::CallSettled {
                call,
                used,
                is_reported,
                ..
            } => {
                self.calls.remove(call);
                self.charged = self.charged + *used;
                if *is_reported {
                    self.reported = self.reported + *used;
                }
            }
            Fact::RunStepped { step, .. } => {
                if let Step::Model(reply) = &**step {
                    let worst = self.take_calls();
                    self.charged = self.charged + usage_or_worst_case(&reply.usage, worst);
                    self.reported = self.reported + Amount::from_usage(&reply.usage);
                }
            }
            Fact::RunRetried { .. } => self.charged = self.charged + self.take_calls(),
            Fact::RunEnded { ending, .. } => self.end(ending),
            Fact::LateOutputReceived { late, .. } => self.take_late(late),
            _ => {}
        }
    }

    fn end(&mut self, ending: &Ending) {
        let worst = self.take_calls();
        let rest = match ending {
            Ending::Finished { usage, .. } => rest_or_worst_case(usage, self.reported, worst),
            Ending::Failed { .. } | Ending::Cancelled => worst,
        };
        self.charged = self.charged + rest;
        if matches!(ending, Ending::Cancelled) {
            self.replaceable = Some(worst);
        }
    }

    fn take_late(&mut self, late: &LateOutput) {
        // The worst case of another run stays charged.
        let Some(worst) = self.replaceable else {
            return;
        };
        let (used, rest) = match late {
            LateOutput::Reply(reply) => {
                let used = rest_or_worst_case(&reply.usage, Amount::ZERO, worst);
                (used, Amount::ZERO)
            }
            LateOutput::Answer { usage, .. } => {
                let used = rest_or_worst_case(usage, self.reported, worst);
                (used, Amount::ZERO)
            }
            LateOutput::Spent(spent) => {
                let used = Amount::from_usage(&spent.usage);
                (used, worst - used)
            }
            LateOutput::Named { .. } | LateOutput::Incomplete { .. } => return,
        };
        self.charged = self.charged + used - (worst - rest);
        self.reported = self.reported + used;
        self.replaceable = Some(rest);
    }

    fn take_calls(&mut self) -> Amount {
        let calls = std::mem::take(&mut self.calls).into_values();
        calls.fold(Amount::ZERO, |sum, call| sum + call)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use unisono_context::call::Usage;
    use unisono_context::cost::Cost;
    use unisono_context::{Digest, RunId, Timestamp, Tokens, TurnId};

    use super::*;
    use crate::budget::{Reservation, RunEnd, Tree, TurnCaps};
    use crate::run::{AttemptTimes, AuxiliaryUsage};

    const TURN: TurnId = TurnId::from_u128(1);
    const RUN: RunId = RunId::from_u128(2);

    fn amount(tokens: u64) -> Amount {
        Amount {
            tokens: Tokens(tokens),
            cost: Cost::from_micro_dollars(tokens),
        }
    }

    fn usage(tokens: u64) -> Usage {
        Usage {
            input: Tokens(tokens),
            cost: Some(Cost::from_micro_dollars(tokens)),
            ..Usage::NONE
        }
    }

    fn reservation(call: u32) -> Reservation {
        Reservation {
            call,
            amount: amount(100),
            keep: Amount::ZERO,
            wrap_up: None,
        }
    }

    fn ended(ending: Ending) -> Fact {
        Fact::RunEnded {
            run: RUN,
            ending: Arc::new(ending),
        }
    }

    /// A run with a reported call and a second one in progress, as its facts and as the tree has it.
    fn begun() -> (Charge, Tree) {
        let (mut charge, mut tree) = (Charge::default(), Tree::default());
        tree.accept(TURN, TurnCaps::default());
        tree.open(TURN, RUN, Digest::of_bytes(b"agent"));
        for call in [1, 2] {
            charge.take(&Fact::Reserved {
                run: RUN,
                reservation: reservation(call),
            });
            tree.reserve(RUN, &reservation(call));
        }
        charge.take(&Fact::CallSettled {
            run: RUN,
            call: 1,
            used: amount(40),
            is_reported: true,
        });
        tree.settle(RUN, 1, amount(40), true);
        (charge, tree)
    }

    #[test]
    fn a_cancelled_run_is_charged_the_worst_case_until_its_late_output_is_known() {
        let (mut charge, mut tree) = begun();
        assert_eq!(charge.amount(), amount(40));
        charge.take(&ended(Ending::Cancelled));
        tree.end(RUN, RunEnd::Cancelled);
        assert_eq!(charge.amount(), amount(140));
        let spent = AuxiliaryUsage {
            usage: usage(30),
            fallback: None,
        };
        charge.take_late(&LateOutput::Spent(spent));
        tree.charge_late_part(RUN, &usage(30));
        assert_eq!(charge.amount(), amount(140));
        assert_eq!(charge.amount(), tree.session().spent);
        charge.take_late(&LateOutput::Answer {
            text: "late".into(),
            partial: None,
            usage: usage(90),
        });
        tree.charge_late(RUN, &usage(90), true);
        assert_eq!(charge.amount(), amount(90));
        assert_eq!(charge.amount(), tree.session().spent);
    }

    #[test]
    fn a_failed_attempt_stays_charged_and_a_finished_run_is_charged_its_usage() {
        let (mut charge, mut tree) = begun();
        charge.take(&ended(Ending::Finished {
            text: "done".into(),
            calls: Vec::new(),
            partial: None,
            usage: usage(70),
            duration_ms: 1,
            attempt_times: AttemptTimes::default(),
        }));
        tree.end(RUN, RunEnd::Finished(&usage(70)));
        assert_eq!(charge.amount(), amount(70));
        assert_eq!(charge.amount(), tree.session().spent);
        let (mut charge, mut tree) = begun();
        charge.take(&Fact::RunRetried {
            run: RUN,
            attempt: 2,
            reason: "broken".into(),
            not_before: Timestamp(0),
        });
        tree.lose_attempt(RUN);
        charge.take(&ended(Ending::Cancelled));
        tree.end(RUN, RunEnd::Cancelled);
        assert_eq!(charge.amount(), amount(140));
        assert_eq!(charge.amount(), tree.session().spent);
    }
}
