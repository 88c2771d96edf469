//! The tools of a turn: built-in tools, tools of servers, and client tools.

use std::collections::BTreeSet;
use std::sync::Arc;

use unisono_context::AgentId;
use unisono_context::call::Choice;
use unisono_context::snapshot::ToolSpec;
use unisono_model::catalogue::EXTRACTIVE;
use unisono_runtime::mcp::{self, ToolOffer};
use unisono_runtime::{RecallScope, tools};
use unisono_session::agent::{AgentKind, Team};
use unisono_session::machine::NewTurn;
use unisono_session::tool::{ApprovalRule, ToolRules, allows, matches};

use super::Ask;
use unisono_config::setup::Setup;

/// The servers whose tools a member of a team may call, sorted.
pub fn servers_of(team: &Team) -> BTreeSet<&str> {
    let tools = team.definitions().flat_map(|agent| &agent.tools);
    let allowed = tools.filter(|tool| !tool.starts_with('!'));
    allowed.filter_map(|tool| mcp::server_of(tool)).collect()
}

/// Lets the agents of a team call the tools of a server that a client brings. What their definitions
/// deny stays denied.
pub(crate) fn allow_server(team: &mut Team, server: &str) {
    let pattern: Arc<str> = format!("{server}{}*", mcp::SEPARATOR).into();
    let delegates = team
        .delegates
        .iter_mut()
        .map(|delegate| &mut delegate.agent);
    let agents = std::iter::once(&mut team.lead)
        .chain(delegates)
        .chain(&mut team.available);
    for agent in agents {
        if agent.kind.uses_model() {
            let agent = Arc::make_mut(agent);
            agent.tools.push(pattern.clone());
            agent.tools.sort();
        }
    }
}

/// The tools of the program that a team may call.
pub(crate) fn offered_to(team: &Team, offers: Vec<ToolOffer>) -> impl Iterator<Item = ToolOffer> {
    let offers = offers.into_iter();
    offers.filter(|offer| {
        let mut agents = team.definitions();
        agents.any(|agent| allows(&agent.tools, &offer.spec.name))
    })
}

/// The tools in the prompts of a team: the sorted union over its members of built-in and offered
/// tools.
pub fn tools_of<'o>(
    team: &Team,
    reach: RecallScope,
    offered: impl IntoIterator<Item = &'o ToolSpec>,
) -> Vec<ToolSpec> {
    let given = |name: &str| team.definitions().any(|agent| allows(&agent.tools, name));
    let mut tools = tools::specs(reach);
    tools.extend(offered.into_iter().cloned());
    tools.retain(|tool| given(&tool.name));
    tools.sort();
    tools
}

/// Why client tools cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientToolsRefused {
    /// The agent has a tool of that name.
    #[error("agent {agent} already has a tool {tool:?}: give the client tool another name")]
    Taken {
        /// The agent.
        agent: AgentId,
        /// The tool.
        tool: Arc<str>,
    },
    /// The agent does not work alone.
    #[error(
        "client tools work for a single agent, but {0} has delegates: ask it alone (`agents`: [])"
    )]
    Several(AgentId),
    /// A call is required, but the agent has no model that calls tools.
    #[error("agent {0} has no model that calls tools: ask it without a required call")]
    Callless(AgentId),
}

/// Adds the client tools to the tools of a team.
///
/// # Errors
/// The lead cannot use them.
pub(crate) fn add_client_tools(ask: &Ask, turn: &mut NewTurn) -> Result<(), ClientToolsRefused> {
    let agent = &turn.team.lead.id;
    let alone = turn.team.delegates.is_empty() && turn.team.available.is_empty();
    if !ask.tools.is_empty() && !alone {
        return Err(ClientToolsRefused::Several(agent.clone()));
    }
    let taken = |spec: &&ToolSpec| turn.tools.iter().any(|own| own.name == spec.name);
    if let Some(spec) = ask.tools.iter().find(taken) {
        return Err(ClientToolsRefused::Taken {
            agent: agent.clone(),
            tool: spec.name.clone(),
        });
    }
    let calls = match turn.team.lead.kind {
        AgentKind::Llm => &*turn.team.lead.model != EXTRACTIVE,
        AgentKind::Custom(_) => true,
        AgentKind::Command(_)
        | AgentKind::Http(_)
        | AgentKind::A2a(_)
        | AgentKind::Acp(_)
        | AgentKind::Pipeline => false,
    };
    if ask.client_options.choice != Choice::Free && !calls {
        return Err(ClientToolsRefused::Callless(agent.clone()));
    }
    turn.tools.extend(ask.tools.iter().cloned());
    turn.tools.sort();
    Ok(())
}

/// Whether agents of a team make calls themselves, and ask for permission.
pub(crate) fn asks_permission(team: &Team) -> bool {
    let mut kinds = team.definitions().map(|agent| &agent.kind);
    kinds.any(|kind| matches!(kind, AgentKind::Acp(_)))
}

/// The contracts and approval rules for a team's calls of server tools, and for the calls for which
/// its coding agents ask permission: the rules of the configuration for every agent come first.
pub fn rules_of(setup: &Setup, team: &Team, offers: &[ToolOffer]) -> ToolRules {
    let approvals = &setup.loaded.config.approvals;
    let own = team.definitions().map(|agent| &agent.id);
    let own: BTreeSet<_> = own.collect();
    let own = own.into_iter().flat_map(|id| setup.roster.approvals(id));
    let contract = |offer: &ToolOffer| (offer.spec.name.clone(), offer.contract);
    let all = setup.loaded.tools.approvals.iter().chain(own);
    let all = all.flat_map(|rule| {
        let more = renamed(&rule.tool, offers).map(move |tool| ApprovalRule {
            tool: tool.clone(),
            ..rule.clone()
        });
        std::iter::once(rule.clone()).chain(more)
    });
    let mut rules = ToolRules {
        contracts: offers.iter().map(contract).collect(),
        approvals: all.collect(),
        approval_timeout_ms: Some(approvals.timeout.ms()),
        ..hooks_alone(setup)
    };
    for hook in &mut rules.hooks {
        let more = hook.tools.iter().flat_map(|tool| renamed(tool, offers));
        let more: Vec<Arc<str>> = more.cloned().collect();
        hook.tools.extend(more);
    }
    rules
}

/// The names for models of the tools that a pattern matches by the names of their servers only.
fn renamed<'o>(
    pattern: &'o str,
    offers: &'o [ToolOffer],
) -> impl Iterator<Item = &'o Arc<str>> + 'o {
    let renamed = offers.iter().filter(move |offer| {
        matches(pattern, &offer.own_name) && !matches(pattern, &offer.spec.name)
    });
    renamed.map(|offer| &offer.spec.name)
}

/// The rules of a turn whose agents call no tools of servers.
pub(super) fn hooks_alone(setup: &Setup) -> ToolRules {
    ToolRules {
        hooks: setup.loaded.hooks.rules.clone(),
        ..ToolRules::default()
    }
}

#[cfg(test)]
mod tests {
    use unisono_session::tool::Contract;

    use super::*;

    #[test]
    fn a_pattern_of_the_names_of_a_server_is_of_its_tools_with_other_names_for_models() {
        let offer = |own: &str, shown: &str| ToolOffer {
            own_name: own.into(),
            spec: ToolSpec::new(shown, "", "{}"),
            contract: Contract::Pure,
        };
        let offers = [
            offer("db__drop.all", "db__drop_all_1a2b3c4d"),
            offer("db__drop", "db__drop"),
        ];
        for (pattern, count) in rows! {
            ("db__drop.all", 1),
            ("db__*.all", 1),
            ("db__drop*", 0),
            ("db__drop", 0),
            ("x__*", 0),
        } {
            assert_eq!(renamed(pattern, &offers).count(), count, "{pattern}");
        }
    }
}
