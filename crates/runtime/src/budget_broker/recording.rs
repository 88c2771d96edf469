//! Records the grants that were decided.

use std::sync::Arc;

use unisono_session::budget::broker::DaemonBudget;
use unisono_session::budget::{Amount, Broker, Grant, Shortage};

use super::{BudgetRefusal, Request, State};
use crate::clock;

/// The maximum number of decisions about one grant, if other programs get grants meanwhile.
const DECISIONS_MAX: u32 = 64;

/// Why a request is not answered.
pub(super) enum Obstacle {
    /// The budget is too small.
    Short(Shortage),
    /// The store does not answer. The grant may be recorded: a repetition of the decision finds that.
    Unanswered(Arc<str>),
}

impl State {
    /// Grants a request if the budget suffices.
    pub(super) async fn grant(
        &mut self,
        request: &Request,
    ) -> Result<Result<Amount, BudgetRefusal>, Obstacle> {
        let amounts = (request.session_use, request.needed);
        let of = (request.session, self.owner_budget(request));
        let (now, mut short) = (clock::store_now(&self.journal), None);
        let kept = self.record_grant(|broker, rules| {
            let raised = broker.raise(rules, of, amounts, now);
            raised.map_err(|error| short = Some(error)).ok()
        });
        match kept.await {
            Ok(Some(grant)) => Ok(Ok(grant.ceiling)),
            Ok(None) => match short {
                Some(short) => Err(Obstacle::Short(short)),
                None => Ok(Err(BudgetRefusal::Failed("nothing was granted".into()))),
            },
            Err(error) if error.is_unanswered() => {
                Err(Obstacle::Unanswered(error.to_string().into()))
            }
            Err(error) => Ok(Err(BudgetRefusal::Failed(error.to_string().into()))),
        }
    }

    /// Whether an append was refused because of unknown entries: of another program, or of an own append
    /// that was written without an answer.
    fn is_behind(&self, error: &unisono_store::Error) -> bool {
        match error {
            unisono_store::Error::Conflict { .. } => true,
            unisono_store::Error::Fenced { .. } => self.journal.cluster().is_some(),
            _ => false,
        }
    }

    /// Records a grant, if there is one. If another program got a grant meanwhile, the decision is
    /// repeated.
    pub(super) async fn record_grant(
        &mut self,
        mut decide: impl FnMut(&Broker, &DaemonBudget) -> Option<Grant>,
    ) -> Result<Option<Grant>, unisono_store::Error> {
        let mut tries = 0..DECISIONS_MAX;
        loop {
            let Some(grant) = decide(&self.broker, &self.rules) else {
                return Ok(None);
            };
            match self.grants.append(&[grant]).await {
                Ok(()) => {
                    self.broker.apply(&grant);
                    return Ok(Some(grant));
                }
                Err(error) if self.is_behind(&error) && tries.next().is_some() => {
                    self.grants.refresh(&mut self.broker).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
