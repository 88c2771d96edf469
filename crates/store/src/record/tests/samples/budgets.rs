//! Facts about budgets.

use unisono_context::cost::Cost;
use unisono_context::{Digest, Tokens};
use unisono_session::budget::{Amount, Caps, Reservation, TurnCaps};
use unisono_session::event::Fact;

use super::{RUN, TURN};

pub(super) fn facts() -> Vec<(&'static str, Fact)> {
    vec![
        (
            "capped",
            Fact::Capped {
                turn: TURN,
                caps: Box::new(TurnCaps {
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
                }),
            },
        ),
        (
            "capped_within",
            Fact::Capped {
                turn: TURN,
                caps: Box::new(TurnCaps {
                    limit_ms: Some(600_000),
                    ..TurnCaps::default()
                }),
            },
        ),
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
                told: true,
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
