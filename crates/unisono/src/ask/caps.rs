//! The budget of a turn, as configured.

use unisono_config::setup::Setup;
use unisono_session::agent::Team;
use unisono_session::budget::{Caps, TurnCaps};

/// The budget of a turn of that team, by the digests of its agents.
pub fn caps(setup: &Setup, team: &Team) -> TurnCaps {
    let budget = &setup.loaded.config.budget;
    let own = team.definitions().filter_map(|agent| {
        let cost = setup.roster.max_cost(&agent.id)?;
        let caps = Caps {
            cost: Some(cost),
            ..Caps::NONE
        };
        Some((agent.digest(), caps))
    });
    let mut agents: Vec<_> = own.collect();
    agents.sort_by_key(|(agent, _)| *agent);
    agents.dedup();
    let limit = setup.loaded.config.turn.timeout().as_millis();
    TurnCaps {
        session: budget.session.caps(),
        turn: budget.turn.caps(),
        run: budget.run.caps(),
        agents,
        limit_ms: Some(u64::try_from(limit).unwrap_or(u64::MAX)),
    }
}
