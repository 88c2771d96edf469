//! What a model call of a run may take, reserved before it is made.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use unisono_context::{Cost, Tokens};
use unisono_model::language::{CacheWarm, Exchange, LanguageModel, Request};
use unisono_session::budget::ReservationRequest;
use unisono_session::machine::CallEnd;
use unisono_session::run::{Reply, Spent, Step, Usage, tail};

use super::llm::meter;
use super::{Ctx, Failure};
use crate::reservation::{FRAME, ReservedCall};

/// What the tools that a reply calls may answer, where the last call after it is reserved.
const TOOL_RESULTS: u64 = 4_096;
/// A call that waits longer than this for others lends its place meanwhile.
const YIELD_AFTER: Duration = Duration::from_millis(50);

/// What a run has paid for besides replies, in this attempt and those before it.
#[derive(Debug)]
pub(super) struct AuxiliaryUsage(Mutex<Usage>);

impl AuxiliaryUsage {
    /// By the steps that are recorded.
    pub(super) fn from_steps(steps: &[Arc<Step>]) -> AuxiliaryUsage {
        let spent = steps.iter().map(|step| match &**step {
            Step::Spent(spent) => spent.usage,
            _ => Usage::NONE,
        });
        AuxiliaryUsage(Mutex::new(
            spent.fold(Usage::NONE, |sum, usage| sum + usage),
        ))
    }

    fn sum(&self) -> MutexGuard<'_, Usage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ctx {
    /// Something was paid for besides replies: recorded without waiting for it, so that it is known
    /// whatever becomes of the request.
    pub(super) fn report_spent(&self, call: Option<u32>, spent: Spent) {
        {
            let mut sum = self.paid_besides().sum();
            *sum = *sum + spent.usage;
        }
        let (run, attempt) = (self.run(), self.attempt());
        self.port().spent(run, attempt, call, spent);
    }

    /// A reply was no answer: it is paid for, by whoever gave it, and another attempt asks anew.
    pub(super) fn report_rejected_reply(&self, reply: &Reply, call: ReservedCall) {
        if reply.usage != Usage::NONE {
            let spent = Spent {
                usage: reply.usage,
                fallback: reply.fallback.as_ref().map(|by| by.model.clone()),
            };
            self.report_spent(call.number(), spent);
        }
        // The rest of what was reserved for it is free again.
        call.ended(CallEnd::Unsent);
    }

    /// What the run has paid for besides replies: its agent says only what those used.
    pub(crate) fn auxiliary_usage(&self) -> Usage {
        *self.paid_besides().sum()
    }

    /// Reserves what a request may take, where the run has budgets; waits for other calls where
    /// it does not fit beside them.
    ///
    /// # Errors
    /// A budget has not enough left, or the session is gone.
    pub(super) async fn reserve(
        &self,
        request: &Request,
        model: &dyn LanguageModel,
    ) -> Result<ReservedCall, Failure> {
        if !self.assignment().bounded {
            return Ok(ReservedCall::unbounded());
        }
        let (run, attempt) = (self.run(), self.attempt());
        let number = self.next_call();
        let ask = self.worst_case(request, model, number).await;
        let port = self.port().clone();
        let mut asking = port.reserve(run, attempt, ask);
        let granted = match tokio::time::timeout(YIELD_AFTER, &mut asking).await {
            Ok(granted) => granted,
            Err(_) => {
                self.progress("waiting for its budget");
                self.while_waiting(asking).await
            }
        };
        let (wrap_up, port) = (granted?, self.port().clone());
        let settle = move |end| port.settle(run, attempt, number, end);
        Ok(ReservedCall::reservation(number, wrap_up, settle))
    }

    async fn worst_case(
        &self,
        request: &Request,
        model: &dyn LanguageModel,
        call: u32,
    ) -> ReservationRequest {
        let input = self.to_provider_tokens(self.input_at_most(request).await);
        let output = request.max_output;
        let calls = match request.cache_warm {
            // A request of its own writes the cache before.
            CacheWarm::Prewarm => 2,
            CacheWarm::Leader | CacheWarm::Off => 1,
        };
        let worst = |input: Tokens, calls: u64| {
            let (input, output) = (input.times(calls), output.times(calls));
            let cost: Option<Cost> = model.worst_cost(input, output);
            (input + output, cost)
        };
        let (tokens, cost) = worst(input, calls);
        let after = input + output + Tokens(TOOL_RESULTS);
        ReservationRequest {
            call,
            model: self.definition().model.clone(),
            tokens,
            cost,
            last: request.wrap_up.is_none().then(|| worst(after, calls)),
            short: None,
        }
    }

    /// What its model's provider counts at most where so many tokens are counted here.
    fn to_provider_tokens(&self, local: Tokens) -> Tokens {
        let calibration = self.assignment().calibration.as_ref();
        calibration.map_or(local, |known| known.at_most(local))
    }

    /// What so many tokens of its model's provider are here, at most.
    pub(crate) fn to_local_tokens(&self, reported: Tokens) -> Tokens {
        let calibration = self.assignment().calibration.as_ref();
        calibration.map_or(reported, |known| known.estimated(reported))
    }

    /// The tokens that a request has, as they are counted here, at most.
    pub(crate) async fn input_at_most(&self, request: &Request) -> Tokens {
        let (assignment, messages) = meter::assignment(request);
        let mut texts = vec![assignment];
        for moved in &request.exchange {
            texts.extend(match moved {
                Exchange::Reply(reply) => tail::countable(&Step::Model(reply.clone())),
                Exchange::Results(results) => tail::countable(&Step::Tools(results.clone())),
            });
        }
        let messages = messages + texts.len() as u64;
        let counted: Tokens = self.count(texts).await.into_iter().sum();
        let assignment = self.assignment();
        let around = assignment.definition.limits.per_message.times(messages) + Tokens(FRAME);
        assignment.context + counted + around
    }
}
