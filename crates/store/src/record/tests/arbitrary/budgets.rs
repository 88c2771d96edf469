//! Limits, reservations and charges.

use unisono_session::budget::{Amount, Caps, Reservation, TurnCaps};

use super::*;

pub(super) fn cost() -> impl Strategy<Value = Cost> {
    any::<u128>().prop_map(Cost)
}

pub(super) fn amount() -> impl Strategy<Value = Amount> {
    fields! { Amount { tokens: tokens(), cost: cost() } }
}

fn caps() -> impl Strategy<Value = Caps> {
    fields! {
        Caps {
            tokens: option::of(tokens()),
            cost: option::of(cost()),
            time_ms: option::of(any::<u64>())
        }
    }
}

pub(super) fn turn_caps() -> impl Strategy<Value = TurnCaps> {
    fields! {
        TurnCaps {
            session: caps(),
            turn: caps(),
            run: caps(),
            agents: list((digest(), caps())),
            limit_ms: option::of(any::<u64>())
        }
    }
}

pub(super) fn reservation() -> impl Strategy<Value = Reservation> {
    fields! {
        Reservation {
            call: any::<u32>(),
            amount: amount(),
            keep: amount(),
            wrap_up: option::of(text())
        }
    }
}
