//! The usage that a coding agent reports, counted in the budgets of its run.
//!
//! Its use is known only afterwards. The smallest amount is reserved before the prompt, and again
//! after each counted report, so that the run ends as soon as a budget is used up.

use unisono_context::{Cost, Tokens};
use unisono_session::machine::CallEnd;
use unisono_session::run::{AuxiliaryUsage, Usage};

use super::protocol::{self, PromptTokens};
use crate::agent::{Ctx, Failure};
use crate::reservation::ReservedCall;

const CURRENCY: &str = "USD";
/// The smallest cost that is counted before the end of the prompt: one cent. Smaller reports would
/// only fill the journal.
const COUNTED: Cost = Cost::from_micro_dollars(10_000);
/// Micro-dollars of the largest cost that is counted: a million dollars.
const MAX_MICRO_DOLLARS: f64 = 1e12;

/// The counted usage of one prompt.
pub(super) struct Spending {
    ctx: Ctx,
    call: ReservedCall,
    counted: Cost,
}

impl Spending {
    /// Reserves the smallest amount.
    ///
    /// # Errors
    /// A budget is used up, or the session is gone.
    pub(super) async fn begin(ctx: &Ctx) -> Result<Spending, Failure> {
        Ok(Spending {
            ctx: ctx.clone(),
            call: ctx.reserve_least().await?,
            counted: Cost::ZERO,
        })
    }

    /// Counts the cost of a report during the prompt.
    ///
    /// # Errors
    /// A budget is used up, or the session is gone.
    pub(super) async fn count(&mut self, reported: &protocol::Usage) -> Result<(), Failure> {
        let cost = reported.cost.as_ref().and_then(dollars);
        let more = self.uncounted(cost.unwrap_or_default());
        if more < COUNTED {
            return Ok(());
        }
        self.counted += more;
        self.report(Usage {
            cost: Some(more),
            ..Usage::NONE
        });
        std::mem::replace(&mut self.call, ReservedCall::unbounded()).settle(CallEnd::Unsent);
        self.call = self.ctx.reserve_least().await?;
        Ok(())
    }

    /// Counts the rest at the end of the prompt. Without a cost in dollars, the cost is unknown.
    pub(super) fn end(self, reported: Option<&protocol::Usage>, tokens: Option<PromptTokens>) {
        let cost = match reported.and_then(|reported| reported.cost.as_ref()) {
            Some(cost) => dollars(cost).map(|cost| self.uncounted(cost)),
            None => tokens.is_none().then_some(Cost::ZERO),
        };
        let tokens = tokens.unwrap_or_default();
        self.report(Usage {
            cost,
            ..tokens.usage()
        });
        self.call.settle(CallEnd::Unsent);
    }

    /// The part of a cost that is not counted yet.
    fn uncounted(&self, cost: Cost) -> Cost {
        Cost(cost.0.saturating_sub(self.counted.0))
    }

    fn report(&self, usage: Usage) {
        if usage != Usage::NONE {
            let spent = AuxiliaryUsage {
                usage,
                fallback: None,
            };
            self.ctx.report_spent(self.call.number(), spent);
        }
    }
}

/// A reported cost, rounded up to a micro-dollar. None: it is in another currency than the budgets.
fn dollars(cost: &protocol::Cost) -> Option<Cost> {
    let is_counted = cost.currency.eq_ignore_ascii_case(CURRENCY) && cost.amount.is_finite();
    let micro_dollars = (cost.amount * 1e6 - 1e-3).ceil();
    is_counted.then(|| Cost::from_micro_dollars(micro_dollars.clamp(0.0, MAX_MICRO_DOLLARS) as u64))
}

impl PromptTokens {
    /// The tokens of all kinds, without a cost. Agents differ in whether cached tokens are input and
    /// thoughts are output; the total has each of them once.
    fn usage(self) -> Usage {
        let parts = self.input_tokens.saturating_add(self.output_tokens);
        let total = self.total_tokens.max(parts);
        let thoughts = self.thought_tokens.unwrap_or_default();
        let output = self.output_tokens.saturating_add(thoughts);
        let output = output.min(total.saturating_sub(self.input_tokens));
        Usage {
            input: Tokens(total - output),
            output: Tokens(output),
            cache_read: Tokens(self.cached_read_tokens.unwrap_or_default()),
            cache_write: Tokens(self.cached_write_tokens.unwrap_or_default()),
            ..Usage::NONE
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cost_in_dollars_is_counted_and_no_other() {
        for (amount, currency, expected) in [
            (0.25, "USD", Some(250_000)),
            (0.0000001, "usd", Some(1)),
            (0.0, "USD", Some(0)),
            (-1.0, "USD", Some(0)),
            (1e300, "USD", Some(1_000_000_000_000)),
            (f64::NAN, "USD", None),
            (f64::INFINITY, "USD", None),
            (0.25, "EUR", None),
            (0.25, "", None),
        ] {
            let cost = protocol::Cost {
                amount,
                currency: currency.to_owned(),
            };
            let expected = expected.map(Cost::from_micro_dollars);
            assert_eq!(dollars(&cost), expected, "{amount} {currency}");
        }
    }

    #[test]
    fn tokens_are_in_the_result_or_in_the_extension_of_gemini_cli() {
        let extension = json!({"stopReason": "end_turn", "_meta": {"quota": {
            "token_count": {"input_tokens": 100, "output_tokens": 10},
            "model_usage": [{"model": "auto"}]}}});
        let mut both = extension.clone();
        both["usage"] = json!({"totalTokens": 3, "inputTokens": 2, "outputTokens": 1});
        for (result, expected) in [
            (extension, Some((100, 10))),
            (both, Some((2, 1))),
            (json!({"_meta": {"quota": {"token_count": null}}}), None),
            (json!({"usage": null}), None),
            (json!(null), None),
        ] {
            let tokens = PromptTokens::from_result(&result);
            let counted = tokens.map(|tokens| (tokens.usage().input.0, tokens.usage().output.0));
            assert_eq!(counted, expected, "{result}");
        }
    }

    #[test]
    fn each_token_is_counted_once() {
        let tokens = |total, input, output, thought, read, write| PromptTokens {
            total_tokens: total,
            input_tokens: input,
            output_tokens: output,
            thought_tokens: thought,
            cached_read_tokens: read,
            cached_write_tokens: write,
        };
        for (tokens, input, output) in [
            (tokens(0, 0, 0, None, None, None), 0, 0),
            (tokens(12, 10, 2, None, None, None), 10, 2),
            // Cached tokens and thoughts beside input and output, and as parts of them.
            (tokens(100, 10, 2, Some(3), Some(80), Some(5)), 95, 5),
            (tokens(12, 10, 2, Some(1), Some(8), None), 10, 2),
            // No total.
            (tokens(0, 10, 2, None, None, None), 10, 2),
            (
                tokens(u64::MAX, u64::MAX, u64::MAX, Some(1), None, None),
                u64::MAX,
                0,
            ),
        ] {
            let usage = tokens.usage();
            assert_eq!((usage.input.0, usage.output.0), (input, output));
        }
    }
}
