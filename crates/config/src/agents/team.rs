//! The team of a turn, from names such as `risks` or `risks=only the money`.

use std::sync::Arc;

use unisono_runtime::tools::DELEGATE;
use unisono_session::agent::{Assignment, Definition, Stage, Team};

use super::{Error, Roster};

impl Roster {
    /// A lead with its agents: first the delegates of its definition, then the named ones, each
    /// `agent` or `agent=task`. A lead with a pipeline has only its stages.
    ///
    /// They work before it, each on its task or the turn's input; an agent without a task of its
    /// own works once. A lead with the tool `delegate` chooses its delegates itself: an agent that
    /// is named without a task is one of its choices.
    ///
    /// # Errors
    /// An unknown agent, the lead among its delegates, or a pipeline together with others.
    pub fn team<S: AsRef<str>>(&self, lead: &str, delegates: &[S]) -> Result<Team, Error> {
        let lead = self.get(lead)?;
        let mut team = Team {
            lead: lead.clone(),
            delegates: Vec::new(),
            available: Vec::new(),
        };
        if !lead.pipeline.is_empty() {
            if !delegates.is_empty() {
                return Err(Error::PipelineAlone(lead.id.clone()));
            }
            let stages = lead.pipeline.iter().map(|stage| self.stage(stage, &lead));
            team.delegates = stages.collect::<Result<_, _>>()?;
            return Ok(team);
        }
        for id in &lead.delegates {
            let assignment = self.assignment(id.as_str(), &lead)?;
            if !team.delegates.contains(&assignment) {
                team.delegates.push(assignment);
            }
        }
        let chooses = lead.tools.iter().any(|tool| **tool == *DELEGATE);
        for spec in delegates {
            let assignment = self.assignment(spec.as_ref(), &lead)?;
            if chooses && assignment.task.is_none() {
                if !team.available.contains(&assignment.agent) {
                    team.available.push(assignment.agent);
                }
            } else if !team.delegates.contains(&assignment) {
                team.delegates.push(assignment);
            }
        }
        Ok(team)
    }

    fn assignment(&self, spec: &str, lead: &Definition) -> Result<Assignment, Error> {
        let task = spec.split_once('=').map(|(_, task)| task.trim());
        let agent = agent_of(spec);
        if agent.is_empty() || task.is_some_and(str::is_empty) {
            return Err(Error::BadAssignment(spec.to_owned()));
        }
        Ok(Assignment {
            agent: self.given(agent, lead)?,
            task: task.map(Arc::from),
        })
    }

    fn stage(&self, stage: &Stage, lead: &Definition) -> Result<Assignment, Error> {
        Ok(Assignment {
            agent: self.given(stage.agent.as_str(), lead)?,
            task: stage.task.clone(),
        })
    }

    fn given(&self, agent: &str, lead: &Definition) -> Result<Arc<Definition>, Error> {
        let agent = self.get(agent)?;
        if agent.id == lead.id {
            return Err(Error::LeadDelegated(lead.id.clone()));
        }
        match agent.pipeline[..] {
            [] => Ok(agent),
            _ => Err(Error::PipelineGiven(agent.id.clone())),
        }
    }
}

/// The agent that `agent` or `agent=task` names.
pub(super) fn agent_of(spec: &str) -> &str {
    spec.split('=').next().unwrap_or(spec).trim()
}
