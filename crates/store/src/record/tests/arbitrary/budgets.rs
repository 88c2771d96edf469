//! Limits, reservations and charges.

use unisono_session::budget::{Amount, Caps, Reservation, TurnCaps};

use super::*;

pub(super) fn amount() -> impl Strategy<Value = Amount> {
    (tokens(), any::<u128>()).prop_map(|(tokens, cost)| Amount {
        tokens,
        cost: Cost(cost),
    })
}

fn caps() -> impl Strategy<Value = Caps> {
    let cost = option::of(any::<u128>().prop_map(Cost));
    (option::of(tokens()), cost, option::of(any::<u64>())).prop_map(|(tokens, cost, time_ms)| {
        Caps {
            tokens,
            cost,
            time_ms,
        }
    })
}

pub(super) fn turn_caps() -> impl Strategy<Value = Box<TurnCaps>> {
    let agents = list((digest(), caps()));
    let all = (caps(), caps(), caps(), agents, option::of(any::<u64>()));
    all.prop_map(|(session, turn, run, agents, limit_ms)| {
        Box::new(TurnCaps {
            session,
            turn,
            run,
            agents,
            limit_ms,
        })
    })
}

pub(super) fn reservation() -> impl Strategy<Value = Reservation> {
    (any::<u32>(), amount(), amount(), option::of(text())).prop_map(
        |(call, amount, keep, wrap_up)| Reservation {
            call,
            amount,
            keep,
            wrap_up,
        },
    )
}
