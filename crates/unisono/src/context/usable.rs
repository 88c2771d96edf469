//! The tokens that a team has for a conversation, and the reserved parts of its windows.

use std::sync::Arc;

use unisono_api::context::UsableTokens;
use unisono_context::Tokens;
use unisono_context::budget::{Budget, Budgets};
use unisono_session::reserve::TeamNeeds;
use unisono_session::{Definition, State, turn};

use crate::ask::ContextInputs;

/// One agent's window, divided.
#[derive(Clone, Debug)]
pub(super) struct Share {
    agent: Arc<Definition>,
    safety: Tokens,
    /// System text and tools.
    preamble: Tokens,
    /// Persona and task.
    assignment: Tokens,
    /// Results of delegates.
    results: Tokens,
    /// The budget for the conversation.
    pub(super) budget: Budget,
    /// The same with room for one note in place of all results.
    pub(super) least: Budget,
}

impl Share {
    /// The share of an agent with a counted role.
    pub(super) fn new(
        agent: &Arc<Definition>,
        state: &State,
        (needs, preamble): (&TeamNeeds, Tokens),
        by: &ContextInputs,
    ) -> Share {
        let digest = agent.digest();
        let assignment = state.assignment_tokens(needs, digest).unwrap_or_default();
        let fixed = preamble + assignment;
        let mut budget = turn::budget(agent, by.safety, &by.calibrations, fixed);
        let results = needs.results(digest, budget.usable);
        let least = Budget {
            usable: budget.usable.minus(needs.results_note(digest)),
            ..budget
        };
        budget.usable = budget.usable.minus(results);
        Share {
            agent: agent.clone(),
            safety: by.safety.share_of(agent.limits.window),
            preamble,
            assignment,
            results,
            budget,
            least,
        }
    }

    pub(super) fn to_api(&self, is_lead: bool) -> UsableTokens {
        let limits = self.agent.limits;
        let (reply, usable) = (limits.max_output, self.budget.usable);
        let taken = [
            reply,
            self.safety,
            self.preamble,
            self.assignment,
            self.results,
        ];
        let left = limits.window.minus(taken.into_iter().sum());
        let (left, usable) = (left.0.cast_signed(), usable.0.cast_signed());
        UsableTokens {
            agent: self.agent.id.to_string(),
            lead: is_lead,
            model: self.agent.model.to_string(),
            encoding: limits.encoding.name().to_owned(),
            window_tokens: limits.window.0,
            reply_tokens: reply.0,
            safety_tokens: self.safety.0,
            preamble_tokens: self.preamble.0,
            assignment_tokens: self.assignment.0,
            results_tokens: self.results.0,
            calibration_tokens: usable - left,
            usable_tokens: self.budget.usable.0,
        }
    }
}

/// The shares of a lead and of the relevant agents beside it.
#[derive(Clone, Debug)]
pub struct Shares {
    pub(super) lead: Share,
    pub(super) others: Vec<Share>,
}

impl Shares {
    /// The budgets that the context must satisfy.
    pub(super) fn budgets(&self) -> Budgets {
        let others = self.others.iter().map(|share| share.budget);
        Budgets::new(self.lead.budget, others)
    }

    /// The budgets that a turn tries in this order for a context that cannot satisfy the required
    /// ones: without the shares for results, then the lead's alone.
    pub(super) fn fallback_budgets(&self) -> [Budgets; 2] {
        let others = self.others.iter().map(|share| share.least);
        let all = Budgets::new(self.lead.least, others);
        [all, Budgets::from(self.lead.least)]
    }

    /// The budget of the lead alone, if its delegates' results get what the context leaves.
    pub(super) fn least_budget(&self) -> Budget {
        self.lead.least
    }

    /// The agent with the fewest usable tokens in each encoding, the lead's encoding first.
    pub fn to_api(&self) -> Vec<UsableTokens> {
        let mut tightest = vec![(&self.lead, true)];
        for share in &self.others {
            let encoding = share.budget.encoding;
            let known = |(known, _): &&mut (&Share, bool)| known.budget.encoding == encoding;
            match tightest.iter_mut().find(known) {
                Some(known) if share.budget.usable < known.0.budget.usable => {
                    *known = (share, false);
                }
                Some(_) => {}
                None => tightest.push((share, false)),
            }
        }
        let shares = tightest.into_iter();
        shares
            .map(|(share, is_lead)| share.to_api(is_lead))
            .collect()
    }
}
