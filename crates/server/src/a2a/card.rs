//! Agent cards: name, address and capabilities.

use a2a::{
    AgentCapabilities, AgentCard, AgentInterface, AgentSkill, HttpAuthSecurityScheme,
    SecurityScheme, TRANSPORT_PROTOCOL_HTTP_JSON, TRANSPORT_PROTOCOL_JSONRPC,
};
use unisono_config::setup::Setup;
use unisono_session::Definition;

use super::{AGENTS, BASE};

/// The name of the authentication scheme.
const BEARER: &str = "bearer";
/// The accepted media types.
const INPUT: [&str; 7] = [
    "text/plain",
    "application/json",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "application/pdf",
];
/// The media types of results.
pub(super) const OUTPUT: &str = "text/plain";
/// The name of the card of all agents together.
const TEAM: &str = "unisono";

/// The optional features of the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capabilities {
    /// Whether the server sends callbacks.
    pub(super) callbacks: bool,
}

/// The card of the team: the configured lead with the agents that work before it. Each agent is a
/// skill. `origin` is scheme and host.
pub(super) fn of_team(setup: &Setup, origin: &str, able: Capabilities) -> AgentCard {
    let skills = exposed(setup).map(skill).collect();
    let description = "A team of agents that work on one conversation: a lead answers, and gives \
                       parts of the task to the others. Each skill is an agent with a card of its own.";
    card(TEAM, description, &format!("{origin}{BASE}"), skills, able)
}

/// The agents that other programs may find and address.
pub(super) fn exposed(setup: &Setup) -> impl Iterator<Item = &Definition> {
    let chosen = &setup.loaded.config.server.a2a_agents;
    let all = setup.roster.iter().map(|agent| &*agent.definition);
    all.filter(|agent| {
        let is_it = |name: &String| name == agent.id.as_str();
        chosen.is_empty() || chosen.iter().any(is_it)
    })
}

/// The card of one agent; none if there is no such agent.
pub(super) fn of_agent(
    setup: &Setup,
    origin: &str,
    name: &str,
    able: Capabilities,
) -> Option<AgentCard> {
    let definition = exposed(setup).find(|agent| agent.id.as_str() == name)?;
    let url = format!("{origin}{AGENTS}/{name}");
    let skills = vec![skill(definition)];
    Some(card(name, &definition.description, &url, skills, able))
}

fn card(
    name: &str,
    description: &str,
    url: &str,
    skills: Vec<AgentSkill>,
    able: Capabilities,
) -> AgentCard {
    let bearer = SecurityScheme::HttpAuth(HttpAuthSecurityScheme {
        scheme: "Bearer".to_owned(),
        description: Some("the token whose file `unisono serve` prints".to_owned()),
        bearer_format: None,
    });
    AgentCard {
        name: name.to_owned(),
        description: description.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        supported_interfaces: vec![
            AgentInterface::new(url, TRANSPORT_PROTOCOL_JSONRPC),
            AgentInterface::new(url, TRANSPORT_PROTOCOL_HTTP_JSON),
        ],
        capabilities: AgentCapabilities {
            streaming: Some(true),
            push_notifications: Some(able.callbacks),
            extensions: None,
            extended_agent_card: Some(false),
        },
        default_input_modes: INPUT.map(str::to_owned).into(),
        default_output_modes: vec![OUTPUT.to_owned()],
        skills,
        provider: None,
        documentation_url: None,
        icon_url: None,
        security_schemes: Some([(BEARER.to_owned(), bearer)].into()),
        security_requirements: Some(vec![[(BEARER.to_owned(), Vec::new())].into()]),
        signatures: None,
    }
}

fn skill(agent: &Definition) -> AgentSkill {
    let tags: Vec<String> = agent.tags.iter().map(ToString::to_string).collect();
    AgentSkill {
        id: agent.id.to_string(),
        name: agent.id.to_string(),
        description: agent.description.to_string(),
        tags: match tags.is_empty() {
            true => vec![agent.kind.name().to_owned()],
            false => tags,
        },
        examples: None,
        input_modes: None,
        output_modes: None,
        security_requirements: None,
    }
}
