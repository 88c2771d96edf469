//! Facts about budgets.

use unisono_session::budget::{Amount, Caps, Reservation, TurnCaps};

use super::*;

/// A turn that is accepted with these limits, under this key.
fn bounded(caps: TurnCaps, key: Option<RequestKey>) -> Fact {
    let work = Work::Revert {
        checkpoint: CHECKPOINT,
    };
    let Fact::TurnAccepted { turn } = accepted(work, policy()) else {
        unreachable!("it is accepted");
    };
    let turn = Box::new(AcceptedTurn { caps, key, ..*turn });
    Fact::TurnAccepted { turn }
}

/// A turn whose delegates' calls have no task when they work on its input.
fn with_short_calls() -> Fact {
    let Fact::TurnAccepted { turn } = bounded(TurnCaps::default(), None) else {
        unreachable!("it is accepted");
    };
    let turn = AcceptedTurn {
        short_calls: true,
        ..*turn
    };
    Fact::TurnAccepted { turn: turn.into() }
}

/// A turn whose agents keep a part of their headroom free for the next reply.
fn with_shared_headroom() -> Fact {
    let Fact::TurnAccepted { turn } = with_short_calls() else {
        unreachable!("it is accepted");
    };
    let turn = AcceptedTurn {
        shared_headroom: true,
        ..*turn
    };
    Fact::TurnAccepted { turn: turn.into() }
}

pub(super) fn facts() -> Vec<(&'static str, Fact)> {
    let caps = TurnCaps {
        session: Caps {
            tokens: Some(Tokens(9_000)),
            ..Caps::NONE
        },
        turn: Caps {
            cost: Some(Cost::from_micro_dollars(500_000)),
            ..Caps::NONE
        },
        run: Caps {
            time_ms: Some(60_000),
            ..Caps::NONE
        },
        agents: vec![(Digest([7; 32]), Caps::NONE)],
        limit_ms: None,
    };
    let within = TurnCaps {
        limit_ms: Some(600_000),
        ..TurnCaps::default()
    };
    let key = RequestKey {
        name: "9f1c-order-17".into(),
        request: Digest::of_bytes(b"{}"),
    };
    vec![
        ("turn_accepted_capped", bounded(caps, None)),
        ("turn_accepted_within", bounded(within, None)),
        (
            "turn_accepted_keyed",
            bounded(TurnCaps::default(), Some(key)),
        ),
        ("turn_accepted_short_calls", with_short_calls()),
        ("turn_accepted_shared_headroom", with_shared_headroom()),
        (
            "reserved",
            Fact::Reserved {
                run: RUN,
                reservation: Reservation {
                    call: 2,
                    amount: Amount {
                        tokens: Tokens(1_200),
                        cost: Cost::from_micro_dollars(3_400),
                    },
                    keep: Amount::ZERO,
                    wrap_up: Some("budget_exceeded".into()),
                },
            },
        ),
        (
            "call_settled",
            Fact::CallSettled {
                run: RUN,
                call: 2,
                used: Amount::ZERO,
                is_reported: true,
            },
        ),
        (
            "settings_set",
            Fact::SettingsSet {
                settings: [
                    ("compaction.preset".into(), "retention".into()),
                    ("run.agents".into(), "risks,facts".into()),
                ]
                .into(),
            },
        ),
    ]
}
