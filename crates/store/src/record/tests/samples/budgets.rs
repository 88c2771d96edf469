//! Facts about budgets.

use unisono_session::budget::{Amount, Caps, Reservation, TurnCaps};

use super::*;

fn with(change: impl FnOnce(&mut AcceptedTurn)) -> Fact {
    let checkpoint = CHECKPOINT;
    accepted_with(Work::Revert { checkpoint }, policy(), change)
}

pub(super) fn facts() -> Samples {
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
    let key = RequestKey::new("9f1c-order-17", Digest::of_bytes(b"{}"));
    let of_message = RequestKey {
        client_message_id: Some("m-17".into()),
        ..key.clone()
    };
    let of_parts = RequestKey {
        client_parts: Some("{}".into()),
        ..of_message.clone()
    };
    samples! {
        "turn_accepted_capped": with(|turn| turn.caps = caps),
        "turn_accepted_within": with(|turn| turn.caps = within),
        "turn_accepted_keyed": with(|turn| turn.key = Some(key)),
        "turn_accepted_client_message": with(|turn| turn.key = Some(of_message)),
        "turn_accepted_client_parts": with(|turn| turn.key = Some(of_parts)),
        "turn_accepted_short_calls": with(|turn| turn.short_calls = true),
        "turn_accepted_shared_headroom": with(|turn| {
            turn.short_calls = true;
            turn.shared_headroom = true;
        }),
        "reserved": Fact::Reserved {
            run: RUN,
            reservation: Reservation {
                call: 2,
                amount: Amount { tokens: Tokens(1_200), cost: Cost::from_micro_dollars(3_400) },
                keep: Amount::ZERO,
                wrap_up: Some("budget_exceeded".into()),
            },
        },
        "call_settled": Fact::CallSettled {
            run: RUN,
            call: 2,
            used: Amount::ZERO,
            is_reported: true,
        },
        "settings_set": Fact::SettingsSet {
            settings: [
                ("compaction.preset".into(), "retention".into()),
                ("run.agents".into(), "risks,facts".into()),
            ]
            .into(),
        },
    }
}
