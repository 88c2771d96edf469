//! Reserves the maximum use of a request for a summary before it is sent.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;
use unisono_context::Tokens;
use unisono_model::language::{LanguageModel, Request};
use unisono_session::budget::ReservationRequest;
use unisono_session::run::RunCause;

use super::carry_out::count;
use super::{StepEvent, Work};
use crate::agent::size;
use crate::reservation::{FRAME, RequestedCall, ReservedCall};
use crate::summarisers::Summariser;

impl Work {
    /// Reserves the maximum use of a request if the turn has budgets. Waits for other calls if it
    /// does not fit beside them.
    ///
    /// # Errors
    /// A budget is too small, or the session is gone: the reason.
    pub(super) async fn reserve(
        &self,
        summariser: &Summariser,
        model: &dyn LanguageModel,
        request: &Request,
    ) -> Result<ReservedCall, Arc<str>> {
        if !self.job.bounded {
            return Ok(ReservedCall::unbounded());
        }
        let (assignment, _) = size::assignment(request);
        let counted = count(&self.tokenizer, vec![assignment], summariser.encoding).await?;
        let input = summariser.bound(counted.into_iter().sum()) + Tokens(FRAME);
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let ask = ReservationRequest {
            call,
            model: summariser.model.clone(),
            tokens: input + request.max_output,
            cost: model.worst_cost(input, request.max_output),
            last: None,
            short: None,
        };
        let listener = self.listener.clone();
        let settle = move |end| (listener.0)(StepEvent::CallEnded { call, end });
        let requested = RequestedCall::new(call, settle);
        let (reply, granted) = oneshot::channel();
        (self.listener.0)(StepEvent::Reserve { ask, reply });
        let granted = match granted.await {
            Ok(granted) => granted.map_err(|failure| match failure.cause {
                RunCause::Budget => failure.cause.describe(&failure.reason),
                _ => failure.reason,
            }),
            Err(_) => Err("the session is gone".into()),
        };
        requested.answered(granted)
    }
}
