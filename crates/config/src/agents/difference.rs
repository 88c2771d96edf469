//! Changes of the agents in a reload of their definitions.

use std::fmt;

use unisono_context::AgentId;

use super::Roster;

/// The changed agents, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// New agents.
    pub added: Vec<AgentId>,
    /// Agents with another definition, or another origin.
    pub changed: Vec<AgentId>,
    /// Removed agents.
    pub removed: Vec<AgentId>,
}

impl Difference {
    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

impl Roster {
    /// The changes since an earlier roster.
    pub fn since(&self, before: &Roster) -> Difference {
        let mut difference = Difference::default();
        for (id, agent) in &self.agents {
            match before.agents.get(id) {
                None => difference.added.push(id.clone()),
                Some(known) if known != agent => difference.changed.push(id.clone()),
                Some(_) => {}
            }
        }
        let gone = before
            .agents
            .keys()
            .filter(|id| !self.agents.contains_key(*id));
        difference.removed = gone.cloned().collect();
        difference
    }
}

/// `added scout; changed risks, facts; removed actions`.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("added", &self.added),
            ("changed", &self.changed),
            ("removed", &self.removed),
        ];
        let parts = parts.iter().filter(|(_, agents)| !agents.is_empty());
        let parts: Vec<String> = parts
            .map(|(what, agents)| {
                let names: Vec<&str> = agents.iter().map(AgentId::as_str).collect();
                format!("{what} {}", names.join(", "))
            })
            .collect();
        match parts.is_empty() {
            true => f.write_str("no agent is another"),
            false => f.write_str(&parts.join("; ")),
        }
    }
}
