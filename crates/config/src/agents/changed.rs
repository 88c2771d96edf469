//! Agents whose definitions have changed since an open turn began.

use std::fmt;

use unisono_context::AgentId;
use unisono_session::Definition;
use unisono_session::turn::Turn;

use super::Roster;

/// The change of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its definition changed.
    Changed,
    /// Its definition was removed.
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
    /// The agents of a turn whose definitions have changed, each once, the lead first. The turn
    /// continues with the definitions that were recorded when it began.
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

/// A definition as recorded in a turn whose model had a smaller window according to its provider.
fn as_learnt(now: &Definition, recorded: &Definition) -> Definition {
    Definition {
        limits: now.limits.within(recorded.limits.window),
        ..now.clone()
    }
}
