//! Reserves the maximum use of a run's model call before the call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use unisono_context::attachment::AttachedFile;
use unisono_context::{Cost, Tokens};
use unisono_model::language::{CacheWarm, Exchange, LanguageModel, Request};
use unisono_model::media::Accepts;
use unisono_session::budget::{Amount, ReservationRequest};
use unisono_session::machine::CallEnd;
use unisono_session::run::{AuxiliaryUsage, Reply, Step, Usage, tail};

use super::{Ctx, Failure, size};
use crate::reservation::{FRAME, RequestedCall, ReservedCall};

/// The assumed size of the tool results after a reply, for the reservation of the last call.
const TOOL_RESULTS: u64 = 4_096;
/// A call that waits longer than this yields its permit meanwhile.
const YIELD_AFTER: Duration = Duration::from_millis(50);

/// The costs of a run in addition to its replies, in this attempt and earlier ones.
#[derive(Debug)]
pub(super) struct AuxiliaryUsageTotal(Mutex<Usage>);

impl AuxiliaryUsageTotal {
    pub(super) fn from_steps(steps: &[Arc<Step>]) -> AuxiliaryUsageTotal {
        let spent = steps.iter().map(|step| match &**step {
            Step::Spent(spent) => spent.usage,
            _ => Usage::NONE,
        });
        AuxiliaryUsageTotal(Mutex::new(
            spent.fold(Usage::NONE, |sum, usage| sum + usage),
        ))
    }

    fn sum(&self) -> MutexGuard<'_, Usage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ctx {
    /// Reports a cost in addition to replies. It is recorded without waiting, so that it is known
    /// whatever the result of the request.
    pub(crate) fn report_spent(&self, call: Option<u32>, spent: AuxiliaryUsage) {
        {
            let mut sum = self.auxiliary_total().sum();
            *sum = *sum + spent.usage;
        }
        let (run, attempt) = (self.run(), self.attempt());
        self.port().spent(run, attempt, call, spent);
    }

    /// Reports a rejected reply: it is paid for, with its model, and another attempt asks again.
    pub(crate) fn report_rejected_reply(&self, reply: &Reply, call: ReservedCall) {
        if reply.usage != Usage::NONE {
            let spent = AuxiliaryUsage {
                usage: reply.usage,
                fallback: reply.fallback.as_ref().map(|by| by.model.clone()),
            };
            self.report_spent(call.number(), spent);
        }
        // The rest of its reservation is released.
        call.settle(CallEnd::Unsent);
    }

    /// The auxiliary usage of the run: its agent reports only the usage of its replies.
    pub(crate) fn auxiliary_usage(&self) -> Usage {
        *self.auxiliary_total().sum()
    }

    /// Reserves the maximum use of a request if the run has budgets; waits for other calls if it
    /// does not fit beside them.
    ///
    /// # Errors
    /// A budget is too small, or the session is gone.
    pub(super) async fn reserve(
        &self,
        request: &Request,
        model: &dyn LanguageModel,
    ) -> Result<ReservedCall, Failure> {
        if !self.assignment().bounded {
            return Ok(ReservedCall::unbounded());
        }
        let ask = self.worst_case(request, model, self.next_call()).await;
        self.request_reservation(ask).await
    }

    /// Reserves the smallest amount if the run has budgets, for work whose use is only known
    /// afterwards: a budget that is used up refuses it. Nobody waits for its release.
    ///
    /// # Errors
    /// A budget is used up, or the session is gone.
    pub(crate) async fn reserve_least(&self) -> Result<ReservedCall, Failure> {
        if !self.assignment().bounded {
            return Ok(ReservedCall::unbounded());
        }
        let least = ReservationRequest {
            call: self.next_call(),
            model: self.definition().model.clone(),
            tokens: Amount::LEAST.tokens,
            cost: Some(Amount::LEAST.cost),
            last: None,
            short: None,
        };
        self.request_reservation(least).await
    }

    async fn request_reservation(&self, ask: ReservationRequest) -> Result<ReservedCall, Failure> {
        let (run, attempt, number) = (self.run(), self.attempt(), ask.call);
        let port = self.port().clone();
        let requested = {
            let port = port.clone();
            RequestedCall::new(number, move |end| port.settle(run, attempt, number, end))
        };
        let mut asking = port.reserve(run, attempt, ask);
        let granted = match tokio::time::timeout(YIELD_AFTER, &mut asking).await {
            Ok(granted) => granted,
            Err(_) => {
                self.progress("waiting for its budget");
                self.while_waiting(asking).await
            }
        };
        requested.answered(granted)
    }

    async fn worst_case(
        &self,
        request: &Request,
        model: &dyn LanguageModel,
        call: u32,
    ) -> ReservationRequest {
        let input = self.to_provider_tokens(self.input_at_most(request, model.accepts()).await);
        let output = request.max_output;
        let calls = match request.cache_warm {
            // A separate request writes the cache first.
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

    /// Upper bound of the provider's tokens for this number of local tokens.
    fn to_provider_tokens(&self, local: Tokens) -> Tokens {
        let calibration = self.assignment().calibration.as_ref();
        calibration.map_or(local, |known| known.at_most(local))
    }

    /// Upper bound of the local tokens for this number of the provider's tokens.
    pub(crate) fn to_local_tokens(&self, reported: Tokens) -> Tokens {
        let calibration = self.assignment().calibration.as_ref();
        calibration.map_or(reported, |known| known.estimated(reported))
    }

    /// Upper bound of the tokens of a request to a model that takes these files, in local tokens.
    pub(crate) async fn input_at_most(&self, request: &Request, accepts: Accepts) -> Tokens {
        let (assignment, messages) = size::assignment(request);
        let mut texts = vec![assignment];
        let mut files = Tokens::ZERO;
        for moved in &request.exchange {
            let step = match moved {
                Exchange::Reply(reply) => Step::Model(reply.clone()),
                Exchange::Results(results) => Step::Tools(results.clone()),
            };
            let tokens = |file: &AttachedFile| size::file_tokens(accepts, file.content.extent);
            files += step.files().map(tokens).sum();
            texts.extend(tail::countable(&step, |extent| accepts.takes(extent)));
        }
        let messages = messages + texts.len() as u64;
        let counted: Tokens = self.count(texts).await.into_iter().sum();
        let assignment = self.assignment();
        let around = assignment.definition.limits.per_message.times(messages) + Tokens(FRAME);
        assignment.context + counted + files + around
    }
}
