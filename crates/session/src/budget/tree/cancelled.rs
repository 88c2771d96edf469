//! The late output of cancelled runs.

use std::sync::Arc;

use unisono_context::call::Usage;
use unisono_context::{RunId, TurnId};

use super::{Amount, Tree, rest_or_worst_case};

/// The charge of a cancelled run whose late output may still arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CancelledCharge {
    pub(super) turn: TurnId,
    pub(super) charged: Amount,
    pub(super) reported: Amount,
}

impl Tree {
    /// Charges the late output of a cancelled run: its usage replaces the worst case, if it is known.
    /// `whole`: `usage` covers all calls of the run, and nothing follows.
    pub fn charge_late(&mut self, run: RunId, usage: &Usage, whole: bool) {
        let Some(mut lost) = self.lost.get(&run).copied() else {
            return;
        };
        let known = if whole { lost.reported } else { Amount::ZERO };
        let used = rest_or_worst_case(usage, known, lost.charged);
        let (turn, refund) = (lost.turn, lost.charged);
        lost.charged = Amount::ZERO;
        lost.reported = lost.reported + used;
        let all = Arc::make_mut(&mut self.lost);
        match whole {
            true => all.remove(&run),
            false => all.insert(run, lost),
        };
        self.above(turn, |account| {
            account.spent = account.spent + used - refund
        });
    }

    /// Charges a part of the usage of a call whose run was cancelled meanwhile. The rest of its
    /// worst case stays charged.
    pub fn charge_late_part(&mut self, run: RunId, usage: &Usage) {
        let Some(mut lost) = self.lost.get(&run).copied() else {
            return;
        };
        let used = Amount::from_usage(usage);
        let rest = lost.charged - used;
        let (turn, refund) = (lost.turn, lost.charged - rest);
        lost.charged = rest;
        lost.reported = lost.reported + used;
        Arc::make_mut(&mut self.lost).insert(run, lost);
        self.above(turn, |account| {
            account.spent = account.spent + used - refund
        });
    }
}
