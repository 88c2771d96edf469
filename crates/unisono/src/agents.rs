//! Agents in the types of the API.

use unisono_api::agent::Agent;

use crate::ask::Ask;
use unisono_config::agents::{self, Error};
use unisono_config::setup::Setup;

/// All agents, by name, each with its role in the ask.
///
/// # Errors
/// A requested agent is unknown, or does not fit.
pub fn list(setup: &Setup, ask: &Ask) -> Result<Vec<Agent>, Error> {
    let team = ask.team(setup)?;
    let agents = setup.roster.iter().map(|agent| {
        let definition = &agent.definition;
        let role = if team.lead.id == definition.id {
            Some("lead")
        } else if team.delegates.iter().any(|d| d.agent.id == definition.id) {
            Some("delegate")
        } else if team.available.iter().any(|one| one.id == definition.id) {
            Some("available")
        } else {
            None
        };
        to_api(agent, role)
    });
    Ok(agents.collect())
}

/// Converts an agent with its role in an ask to its API type.
pub(crate) fn to_api(agent: &agents::Agent, role: Option<&str>) -> Agent {
    let definition = &agent.definition;
    let model = definition.kind.uses_model().then_some(&definition.model);
    Agent {
        agent: definition.id.to_string(),
        description: definition.description.to_string(),
        kind: definition.kind.name().to_owned(),
        model: model.map(ToString::to_string),
        tools: definition.tools.iter().map(ToString::to_string).collect(),
        tags: definition.tags.iter().map(ToString::to_string).collect(),
        origin: agent.origin.to_string(),
        role: role.map(str::to_owned),
    }
}
