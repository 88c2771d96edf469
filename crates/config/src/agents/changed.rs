//! Agents that are not any more what an open turn began with.

use std::fmt;

use unisono_context::AgentId;
use unisono_session::Definition;
use unisono_session::turn::Turn;

use super::Roster;

/// What became of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is defined otherwise.
    Changed,
    /// Nothing defines it any more.
    Gone,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Change::Changed => "has changed",
            Change::Gone => "was removed",
        })
    }
}

impl Roster {
    /// The agents of a turn that are defined otherwise by now, each once, the lead first. The turn
    /// goes on with the definitions that were recorded when it began.
    pub fn changed(&self, turn: &Turn) -> Vec<(AgentId, Change)> {
        let mut changed: Vec<(AgentId, Change)> = Vec::new();
        for (digest, recorded) in turn.distinct_definitions() {
            let change = match self.agents.get(&recorded.id) {
                Some(agent) if as_learnt(&agent.definition, &recorded).digest() == digest => {
                    continue;
                }
                Some(_) => Change::Changed,
                None => Change::Gone,
            };
            if !changed.iter().any(|(agent, _)| *agent == recorded.id) {
                changed.push((recorded.id.clone(), change));
            }
        }
        changed
    }
}

/// A definition as a turn has it whose model's provider had named a smaller window.
fn as_learnt(now: &Definition, recorded: &Definition) -> Definition {
    Definition {
        limits: now.limits.within(recorded.limits.window),
        ..now.clone()
    }
}
