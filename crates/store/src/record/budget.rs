//! Budgets: bounds, what is set aside, and leases of the daemon's level.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unisono_context::cost::Cost;
use unisono_context::{Digest, SessionId, Tokens};
use unisono_session::budget;

/// Tokens, and pico-dollars.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Amount {
    tokens: u64,
    cost: u128,
}

/// The most that one level may use.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Caps {
    tokens: Option<u64>,
    cost: Option<u128>,
    time_ms: Option<u64>,
}

/// The bounds a turn was accepted with.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TurnCaps {
    session: Caps,
    turn: Caps,
    run: Caps,
    agents: Vec<([u8; 32], Caps)>,
}

/// What is set aside for one call.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Reservation {
    call: u32,
    amount: Amount,
    keep: Amount,
    wrap_up: Option<Arc<str>>,
}

/// How a session stands with the daemon.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Lease {
    session: u128,
    period: u64,
    base: Amount,
    used: Amount,
    ceiling: Amount,
}

impl From<budget::Amount> for Amount {
    fn from(amount: budget::Amount) -> Self {
        Self {
            tokens: amount.tokens.0,
            cost: amount.cost.0,
        }
    }
}

impl From<Amount> for budget::Amount {
    fn from(amount: Amount) -> Self {
        Self {
            tokens: Tokens(amount.tokens),
            cost: Cost(amount.cost),
        }
    }
}

impl From<budget::Caps> for Caps {
    fn from(caps: budget::Caps) -> Self {
        Self {
            tokens: caps.tokens.map(|tokens| tokens.0),
            cost: caps.cost.map(|cost| cost.0),
            time_ms: caps.time_ms,
        }
    }
}

impl From<Caps> for budget::Caps {
    fn from(caps: Caps) -> Self {
        Self {
            tokens: caps.tokens.map(Tokens),
            cost: caps.cost.map(Cost),
            time_ms: caps.time_ms,
        }
    }
}

impl From<&budget::TurnCaps> for TurnCaps {
    fn from(caps: &budget::TurnCaps) -> Self {
        let agents = caps.agents.iter();
        Self {
            session: caps.session.into(),
            turn: caps.turn.into(),
            run: caps.run.into(),
            agents: agents
                .map(|(agent, caps)| (agent.0, (*caps).into()))
                .collect(),
        }
    }
}

impl From<TurnCaps> for budget::TurnCaps {
    fn from(caps: TurnCaps) -> Self {
        let agents = caps.agents.into_iter();
        Self {
            session: caps.session.into(),
            turn: caps.turn.into(),
            run: caps.run.into(),
            agents: agents
                .map(|(agent, caps)| (Digest(agent), caps.into()))
                .collect(),
            // Told beside them.
            limit_ms: None,
        }
    }
}

impl From<&budget::Reservation> for Reservation {
    fn from(reservation: &budget::Reservation) -> Self {
        Self {
            call: reservation.call,
            amount: reservation.amount.into(),
            keep: reservation.keep.into(),
            wrap_up: reservation.wrap_up.clone(),
        }
    }
}

impl From<Reservation> for budget::Reservation {
    fn from(reservation: Reservation) -> Self {
        Self {
            call: reservation.call,
            amount: reservation.amount.into(),
            keep: reservation.keep.into(),
            wrap_up: reservation.wrap_up,
        }
    }
}

impl From<&budget::Lease> for Lease {
    fn from(lease: &budget::Lease) -> Self {
        Self {
            session: lease.session.as_u128(),
            period: lease.period,
            base: lease.base.into(),
            used: lease.used.into(),
            ceiling: lease.ceiling.into(),
        }
    }
}

impl From<Lease> for budget::Lease {
    fn from(lease: Lease) -> Self {
        Self {
            session: SessionId::from_u128(lease.session),
            period: lease.period,
            base: lease.base.into(),
            used: lease.used.into(),
            ceiling: lease.ceiling.into(),
        }
    }
}
