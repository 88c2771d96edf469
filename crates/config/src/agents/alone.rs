//! Leads that should delegate and cannot, because their model calls no tools.

use unisono_model::catalogue::EXTRACTIVE;
use unisono_runtime::tools::DELEGATE;
use unisono_session::agent::{Definition, Team};

use super::files::Source;
use crate::diagnostic::{Diagnostic, Diagnostics};

const HELP: &str =
    "name whom it works with as its `delegates`, or give it a model that calls tools";

/// Why a team has no delegates although its lead has the tool to delegate; none: it may have some.
pub fn answers_alone(team: &Team) -> Option<String> {
    let problem = cannot_delegate(&team.lead).filter(|_| !team.available.is_empty())?;
    let names: Vec<&str> = team.available.iter().map(|a| a.id.as_str()).collect();
    Some(format!(
        "{problem} and answers without {}: {HELP}",
        names.join(", ")
    ))
}

/// Warns of a lead with a useless tool `delegate`. Other agents with the tool are not reported.
pub(super) fn check(source: &Source, lead: &str, agent: &Definition, found: &mut Diagnostics) {
    let others = !agent.delegates.is_empty() || !agent.pipeline.is_empty();
    if source.id.as_str() != lead || others {
        return;
    }
    if let Some(problem) = cannot_delegate(agent) {
        let diagnostic = Diagnostic::warning(source.key_place("tools"), problem).with_key("tools");
        found.push(diagnostic.help(HELP));
    }
}

fn cannot_delegate(agent: &Definition) -> Option<String> {
    let has_tool = agent.tools.iter().any(|tool| **tool == *DELEGATE);
    (has_tool && *agent.model == *EXTRACTIVE).then(|| {
        format!(
            "agent `{}` has the tool `{DELEGATE}`, but its model `{EXTRACTIVE}` calls no tools: it \
             gives no tasks to others",
            agent.id
        )
    })
}
