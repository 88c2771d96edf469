//! Leads that are to delegate and cannot: their model calls no tools.

use unisono_model::catalogue::EXTRACTIVE;
use unisono_runtime::tools::DELEGATE;
use unisono_session::agent::{Definition, Team};

use super::files::Source;
use crate::diagnostic::{Diagnostic, Diagnostics};

/// What to do about it.
const HELP: &str =
    "name whom it works with as its `delegates`, or give it a model that calls tools";

/// Why nobody of a team is given a task though its lead is told of the tool for it; none: somebody
/// may be.
pub fn answers_alone(team: &Team) -> Option<String> {
    let problem = cannot_delegate(&team.lead).filter(|_| !team.available.is_empty())?;
    let names: Vec<&str> = team.available.iter().map(|a| a.id.as_str()).collect();
    Some(format!(
        "{problem} and answers without {}: {HELP}",
        names.join(", ")
    ))
}

/// Warns of a lead that has the tool `delegate` for nothing. Another agent that has it is no fault
/// of anybody's who does not use it.
pub(super) fn check(source: &Source, lead: &str, agent: &Definition, found: &mut Diagnostics) {
    let others = !agent.delegates.is_empty() || !agent.pipeline.is_empty();
    if source.id.as_str() != lead || others {
        return;
    }
    if let Some(problem) = cannot_delegate(agent) {
        let diagnostic = Diagnostic::warning(source.at("tools"), problem).on("tools");
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
