//! The team of a turn from what a person names: `risks`, or `risks=only the money`.

use std::sync::Arc;

use unisono_session::agent::{Assignment, Team};

use super::{Error, Roster};

impl Roster {
    /// A lead with its fan-out: first the delegates its definition always has, then those
    /// named, each `agent` or `agent=task`. An agent without a task of its own works once.
    ///
    /// # Errors
    /// An unknown agent, or the lead among its delegates.
    pub fn team<S: AsRef<str>>(&self, lead: &str, delegates: &[S]) -> Result<Team, Error> {
        let lead = self.get(lead)?;
        let mut team = Team {
            lead: lead.clone(),
            delegates: Vec::new(),
            available: Vec::new(),
        };
        let always = lead.delegates.iter().map(|id| self.assignment(id.as_str()));
        let named = delegates.iter().map(|spec| self.assignment(spec.as_ref()));
        for assignment in always.chain(named) {
            let assignment = assignment?;
            if assignment.agent.id == lead.id {
                return Err(Error::LeadDelegated(lead.id.clone()));
            }
            if !team.delegates.contains(&assignment) {
                team.delegates.push(assignment);
            }
        }
        Ok(team)
    }

    fn assignment(&self, spec: &str) -> Result<Assignment, Error> {
        let task = spec.split_once('=').map(|(_, task)| task.trim());
        let agent = agent_of(spec);
        if agent.is_empty() || task.is_some_and(str::is_empty) {
            return Err(Error::BadAssignment(spec.to_owned()));
        }
        Ok(Assignment {
            agent: self.get(agent)?,
            task: task.map(Arc::from),
        })
    }
}

/// The agent that `agent` or `agent=task` names.
pub(super) fn agent_of(spec: &str) -> &str {
    spec.split('=').next().unwrap_or(spec).trim()
}
