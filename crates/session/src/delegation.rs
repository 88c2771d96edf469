//! The rules about delegation: which agent may give a task to which.

use std::sync::Arc;

use unisono_context::AgentId;

use crate::agent::Definition;
use crate::event::{DelegatedCall, RunRole};
use crate::machine::DelegateCall;
use crate::run::Run;
use crate::state::State;
use crate::turn::Turn;

impl State {
    /// The agents to which a run's agent may delegate.
    pub fn colleagues(&self, run: &Run) -> Vec<Arc<Definition>> {
        let Some(turn) = self.turns.get(&run.turn) else {
            return Vec::new();
        };
        if self.depth(run) >= turn.accepted.delegation.depth {
            return Vec::new();
        }
        let available = turn.team.available.iter();
        let free = available.filter(|agent| !self.is_active_ancestor(run, &agent.id));
        let large_enough = free.filter(|agent| why_too_small(turn, &agent.id).is_none());
        large_enough.cloned().collect()
    }

    /// The calls, each with the reason for its refusal, if any.
    pub(crate) fn admit_calls(&self, run: &Run, calls: Vec<DelegateCall>) -> Vec<DelegatedCall> {
        let turn = self.turns.get(&run.turn);
        let mut live = turn.map_or(0, |turn| turn.open_runs + turn.unopened);
        let calls = calls.into_iter().map(|call| {
            let refused = match turn {
                Some(turn) => self.refusal_reason(turn, run, &call, live),
                None => Some("its turn has ended".to_owned()),
            };
            live += u32::from(refused.is_none());
            DelegatedCall {
                call_id: call.call_id,
                agent: call.agent,
                task: call.task,
                refused: refused.map(Arc::from),
            }
        });
        calls.collect()
    }

    /// The reason why a call is refused, for the model that made it.
    fn refusal_reason(
        &self,
        turn: &Turn,
        run: &Run,
        call: &DelegateCall,
        live: u32,
    ) -> Option<String> {
        let (limits, agent) = (turn.accepted.delegation, &call.agent);
        if self.depth(run) >= limits.depth {
            let parent = &run.agent;
            let rule = match limits.depth {
                0 => "in this turn nobody may".to_owned(),
                depth => format!("only down to level {depth} below the lead is that allowed"),
            };
            return Some(format!("agent {parent} may not delegate: {rule}"));
        }
        if call.task.trim().is_empty() {
            return Some(format!(
                "the task is empty: say what agent {agent} is to do"
            ));
        }
        if self.is_active_ancestor(run, agent) {
            return Some(format!(
                "agent {agent} waits for the result of this task; give the task to another one"
            ));
        }
        if turn.available(agent).is_none() {
            let there = self.colleagues(run);
            let names: Vec<&str> = there.iter().map(|agent| agent.id.as_str()).collect();
            let there = match names[..] {
                [] => "there are none".to_owned(),
                _ => format!("there are: {}", names.join(", ")),
            };
            return Some(format!(
                "there is no agent `{agent}` to delegate to; {there}"
            ));
        }
        if let Some(reason) = why_too_small(turn, agent) {
            return Some(format!(
                "agent {agent} cannot be asked in this turn: {reason}"
            ));
        }
        (live >= limits.live_runs).then(|| {
            let most = limits.live_runs;
            format!("{most} runs are at work in this turn, and no more may be; try again later")
        })
    }

    /// The number of levels below the lead.
    fn depth(&self, run: &Run) -> u32 {
        match run.role {
            RunRole::Lead => 0,
            RunRole::Delegate { .. } => 1,
            RunRole::Child { .. } => {
                let parent = self.parent(run).map_or(0, |parent| self.depth(parent));
                parent + 1
            }
        }
    }

    fn is_active_ancestor(&self, run: &Run, agent: &AgentId) -> bool {
        let mut above = std::iter::successors(Some(run), |run| self.parent(run));
        above.any(|run| run.agent == *agent)
    }

    fn parent(&self, run: &Run) -> Option<&Run> {
        self.runs.get(&run.role.parent()?)
    }
}

/// The reason why an available agent is too small for the frozen context.
fn why_too_small(turn: &Turn, agent: &AgentId) -> Option<Arc<str>> {
    let (_, definition) = turn.available(agent)?;
    turn.too_small_reason(definition)
}
