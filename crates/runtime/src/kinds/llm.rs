//! The model-driven agent: calls its model and the requested tools until the model answers.
//!
//! The recorded steps determine the next action ([`unisono_session::run::next`]), so an attempt
//! after a crash continues at the end of the journal. Each reply with tool calls and each round of
//! results is on disk before its consequences. The reply that answers, or that calls client tools,
//! becomes the ending of the run. If a fallback gave that reply, it is a step as well, because an
//! ending does not name its model. A reply that fails the attempt is paid for, but it is not a
//! step: another attempt asks again.

use std::sync::Arc;

use unisono_context::Tokens;
use unisono_model::language::{self, Class, Request};
use unisono_session::run::tail::Masked;
use unisono_session::run::{self, CUT_OFF, NextAction, Reply, RunCause, Step, Stop, reply_usage};

mod meter;
mod newest;
mod results;
mod summary;

use crate::agent::request::{self, reply_count};
use crate::agent::{Agent, Answer, Ctx, Failure, PaidReply, Task};
use crate::failure::model_failure;
use crate::{schema, tools};
use meter::ExchangeMeter;

/// Carries out definitions of kind `llm` with their models.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LlmAgent;

impl Agent for LlmAgent {
    async fn run(&self, _: Task, ctx: Ctx) -> Result<Answer, Failure> {
        let max_model_calls = ctx.definition().max_model_calls;
        let first = ctx.first_request().await?;
        let mut steps = ctx.assignment().steps.clone();
        if let Some(ended) = recorded_ending(&steps, &ctx) {
            return ended;
        }
        let mut scales = ExchangeMeter::new(&first, ctx.model()?.accepts());
        let mut narrowed: Option<OversizedRequest> = None;
        loop {
            scales.measure_steps(&steps, &ctx).await?;
            let step =
                match run::next_action(&steps, scales.weights(), scales.bounds(max_model_calls)) {
                    NextAction::Done { text, partial } if run::is_blank(&text) => {
                        return Err(no_text_failure(&steps, partial, &ctx));
                    }
                    NextAction::Done { text, partial } => {
                        let usage = reply_usage(&steps);
                        return Ok(Answer {
                            text,
                            partial,
                            usage,
                            ..Answer::default()
                        });
                    }
                    NextAction::CallModel { masked, wrap_up } => {
                        let call = ModelRequest {
                            first: &first,
                            steps: &steps,
                            masked,
                            wrap_up,
                        };
                        match call.make(&mut narrowed, &mut scales, &ctx).await? {
                            ReplyOutcome::Stepped(step) => step,
                            ReplyOutcome::Ended { step, ended } => {
                                if let Some(step) = step {
                                    record_step(&mut steps, step, &ctx).await?;
                                }
                                return ended;
                            }
                        }
                    }
                    NextAction::Overflow { reason } => {
                        return match narrowed {
                            Some(refused) => overflow_answer(&steps, refused.error, &ctx),
                            None => Err(Failure::new(RunCause::Overflow, reason)),
                        };
                    }
                    // In a separate function, so that a run without summaries does not allocate for
                    // them.
                    NextAction::Summarise { replaced, cap } => {
                        Box::pin(summary::step(&steps, replaced, cap, &ctx)).await?
                    }
                    NextAction::CallTools(reply) => {
                        Box::pin(call_tools(&reply, &steps, &mut scales, &ctx)).await?
                    }
                };
            record_step(&mut steps, step, &ctx).await?;
        }
    }
}

struct ModelRequest<'r> {
    first: &'r Request,
    steps: &'r [Arc<Step>],
    masked: Vec<Masked>,
    wrap_up: Option<Arc<str>>,
}

enum ReplyOutcome {
    /// The next step of the run: a reply with calls, or the headroom after an oversized request.
    Stepped(Step),
    /// The end of the run, after a last step if there is one.
    Ended {
        step: Option<Step>,
        ended: Result<Answer, Failure>,
    },
}

impl ReplyOutcome {
    fn ended(ended: Result<Answer, Failure>) -> ReplyOutcome {
        ReplyOutcome::Ended { step: None, ended }
    }
}

impl ModelRequest<'_> {
    /// Sends it. `narrowed` is the previous request, if that was too large.
    async fn make(
        self,
        narrowed: &mut Option<OversizedRequest>,
        scales: &mut ExchangeMeter,
        ctx: &Ctx,
    ) -> Result<ReplyOutcome, Failure> {
        let steps = self.steps;
        let request = request::continuation(self.first, steps, &self.masked, self.wrap_up.clone());
        if let Some(refused) = narrowed.take_if(|n| n.is_same(&request, &self.masked)) {
            return Ok(ReplyOutcome::ended(overflow_answer(
                steps,
                refused.error,
                ctx,
            )));
        }
        match ctx.ask(request).await {
            Err(failure) if failure.cause == RunCause::Budget => {
                Ok(ReplyOutcome::ended(out_of_budget(steps, failure)))
            }
            Err(failure) => Err(failure),
            Ok(Ok(asked)) => {
                *narrowed = None;
                self.replied(asked, ctx)
            }
            Ok(Err(error)) => {
                let Class::Overflow { limit } = error.class else {
                    return Err(model_failure(&error));
                };
                if narrowed.is_some() {
                    return Ok(ReplyOutcome::ended(overflow_answer(steps, error, ctx)));
                }
                let sent = request::continuation(self.first, steps, &self.masked, self.wrap_up);
                let step = scales.narrow(limit, (&sent, &self.masked), steps, ctx);
                let step = step.await?;
                *narrowed = Some(OversizedRequest {
                    summary: sent.summary,
                    masked: self.masked,
                    output: sent.max_output,
                    error,
                });
                Ok(ReplyOutcome::Stepped(step))
            }
        }
    }

    fn replied(
        self,
        PaidReply { reply, call }: PaidReply,
        ctx: &Ctx,
    ) -> Result<ReplyOutcome, Failure> {
        let ended = ending(&reply, self.steps, call.wrap_up().cloned(), ctx);
        let last = self.wrap_up.as_deref();
        let ended = ended.or_else(|| unmade_calls_answer(&reply, self.steps, last?, ctx));
        if let Some(Err(failure)) = ended {
            ctx.report_rejected_reply(&reply, call);
            return Err(failure);
        }
        call.settle_recorded();
        let reply = tools::within_cap(reply, ctx);
        Ok(match ended {
            None => ReplyOutcome::Stepped(Step::Model(reply)),
            Some(ended) => ReplyOutcome::Ended {
                step: reply.fallback.is_some().then_some(Step::Model(reply)),
                ended,
            },
        })
    }
}

/// The ending of the run with a reply after these steps, if it is the last one. `budget` is set if
/// a budget permits no further call.
fn ending(
    reply: &Reply,
    steps: &[Arc<Step>],
    budget: Option<Arc<str>>,
    ctx: &Ctx,
) -> Option<Result<Answer, Failure>> {
    if let Some(calls) = tools::client_calls(reply, reply_count(steps), ctx) {
        return Some(Ok(Answer {
            text: reply.text.clone(),
            calls,
            partial: tools::unsent_calls(reply, ctx),
            usage: reply_usage(steps) + reply.usage,
        }));
    }
    if let Some(budget) = budget {
        return Some(wrap_up_answer(reply.clone(), steps, budget, ctx));
    }
    let ends = reply.calls.is_empty() || reply.stop == Stop::Refused;
    ends.then(|| answer(reply.clone(), steps, ctx))
}

/// The ending of the run, if its last reply is the last step and only the ending is missing.
fn recorded_ending(steps: &[Arc<Step>], ctx: &Ctx) -> Option<Result<Answer, Failure>> {
    let (last, before) = steps.split_last()?;
    let Step::Model(reply) = &**last else {
        return None;
    };
    let budget = ctx.assignment().wrapped_up.as_ref();
    let budget = budget.filter(|(known, _)| {
        let since = before.get(*known..).unwrap_or_default();
        reply_count(since) == 0
    });
    ending(reply, before, budget.map(|(_, why)| why.clone()), ctx)
}

/// The answer from the last call that a budget permits: its tool calls are not made.
fn wrap_up_answer(
    reply: Reply,
    steps: &[Arc<Step>],
    budget: Arc<str>,
    ctx: &Ctx,
) -> Result<Answer, Failure> {
    let blank = run::is_blank(&reply.text);
    let text = match run::last_text(steps) {
        Some(said) if blank => said,
        _ => reply.text.clone(),
    };
    let said = unchecked_answer(Reply { text, ..reply }, steps, ctx)?;
    Ok(Answer {
        partial: Some(budget),
        ..said
    })
}

/// The answer if not even a last call is within the budgets: the last text of the model, if there
/// is one.
fn out_of_budget(steps: &[Arc<Step>], failure: Failure) -> Result<Answer, Failure> {
    let Some(text) = run::last_text(steps) else {
        return Err(failure);
    };
    Ok(Answer {
        text,
        partial: Some(failure.cause.describe(&failure.reason)),
        usage: reply_usage(steps),
        ..Answer::default()
    })
}

/// Records a step: it is on disk before its consequences.
async fn record_step(steps: &mut Vec<Arc<Step>>, step: Step, ctx: &Ctx) -> Result<(), Failure> {
    let step = Arc::new(step);
    ctx.record(step.clone()).await?;
    steps.push(step);
    Ok(())
}

/// A request that a provider rejected as too large although its count fitted: its masked results,
/// its maximum reply, and the error.
struct OversizedRequest {
    summary: Option<Arc<str>>,
    masked: Vec<Masked>,
    output: Tokens,
    error: language::Error,
}

impl OversizedRequest {
    /// Whether another request would be identical.
    fn is_same(&self, request: &Request, masked: &[Masked]) -> bool {
        self.masked == masked
            && self.output == request.max_output
            && self.summary == request.summary
    }
}

/// The answer if the provider rejects the request as too large and nothing more can be masked: the
/// last text of the model, if there is one.
fn overflow_answer(
    steps: &[Arc<Step>],
    error: language::Error,
    ctx: &Ctx,
) -> Result<Answer, Failure> {
    let limits = ctx.definition().limits;
    let reason = format!(
        "{error}; its window was assumed to have {} tokens",
        limits.window
    );
    match run::last_text(steps) {
        Some(text) => Ok(Answer {
            text,
            partial: Some(RunCause::Overflow.describe(&reason)),
            usage: reply_usage(steps),
            ..Answer::default()
        }),
        None => Err(Failure::new(RunCause::Overflow, reason)),
    }
}

/// The answer from a reply without tool calls. A complete answer must fit the schema of the
/// definition.
fn answer(reply: Reply, steps: &[Arc<Step>], ctx: &Ctx) -> Result<Answer, Failure> {
    let said = unchecked_answer(reply, steps, ctx)?;
    let schema = ctx.definition().output_schema.as_deref();
    let Some(schema) = schema.filter(|_| said.partial.is_none()) else {
        return Ok(said);
    };
    match schema::answer(&said.text, schema) {
        Ok(json) => Ok(Answer {
            text: json.into(),
            ..said
        }),
        Err(fault) => {
            let model = &ctx.definition().model;
            let reason = format!("the answer of model {model} does not fit its schema: {fault}");
            Err(Failure::new(RunCause::BadOutput, reason))
        }
    }
}

fn unchecked_answer(reply: Reply, steps: &[Arc<Step>], ctx: &Ctx) -> Result<Answer, Failure> {
    if reply.stop == Stop::Refused {
        return Err(Failure::new(RunCause::Refused, refusal(&reply, ctx)));
    }
    let limit = run::longest_reply(steps, ctx.definition().limits.max_output);
    let partial = match reply.stop {
        Stop::Complete | Stop::Refused => None,
        Stop::CutOff => Some(format!("{CUT_OFF} of {limit} tokens")),
    };
    if run::is_blank(&reply.text) && !may_be_empty(&reply, ctx) {
        return Err(empty_reply_failure(partial.as_deref(), ctx));
    }
    Ok(Answer {
        text: reply.text,
        partial: partial.map(Arc::from),
        usage: reply_usage(steps) + reply.usage,
        ..Answer::default()
    })
}

/// The results of a reply's calls, with as much of them as fits.
async fn call_tools(
    reply: &Reply,
    steps: &[Arc<Step>],
    scales: &mut ExchangeMeter,
    ctx: &Ctx,
) -> Result<Step, Failure> {
    let round = reply_count(steps);
    let called = ctx.while_tools_work(tools::call_all_of(reply, round, ctx));
    results::results(called.await?, (reply, steps, round), scales, ctx).await
}

/// The end of a run whose last reply contains only calls that are not made, without any earlier
/// text. `last` is the reason why it is the last one.
fn unmade_calls_answer(
    reply: &Reply,
    steps: &[Arc<Step>],
    last: &str,
    ctx: &Ctx,
) -> Option<Result<Answer, Failure>> {
    let nothing = run::is_blank(&reply.text) && run::last_text(steps).is_none();
    nothing.then(|| {
        let model = &ctx.definition().model;
        let reason = format!("model {model} called tools and gave no text, although {last}");
        Err(Failure::new(RunCause::BadOutput, reason))
    })
}

/// Whether a reply may be empty because of the client's options: it ends at one of the client's
/// stop texts, which providers omit, or has reached the client's token limit.
fn may_be_empty(reply: &Reply, ctx: &Ctx) -> bool {
    let client_options = &ctx.assignment().client_options;
    match reply.stop {
        Stop::Complete => !client_options.stop.is_empty() && reply.calls.is_empty(),
        Stop::CutOff => client_options.max_output == Some(ctx.definition().limits.max_output),
        Stop::Refused => false,
    }
}

/// The failure for an empty reply: the run is retried. `cut_off` is the reason if the reply was cut
/// off, which the reasoning of a model causes.
fn empty_reply_failure(cut_off: Option<&str>, ctx: &Ctx) -> Failure {
    let mut reason = format!("model {} replied with nothing", ctx.definition().model);
    if let Some(cut_off) = cut_off {
        reason += &format!(
            ": {cut_off}, in which its reasoning counts; raise the model's `max_output` in models.toml"
        );
    }
    Failure::new(RunCause::BadOutput, reason)
}

/// The failure of a run that was stopped before its model gave a text. The reply that stopped it is
/// recorded, so another attempt would be stopped as well.
fn no_text_failure(steps: &[Arc<Step>], stopped: Option<Arc<str>>, ctx: &Ctx) -> Failure {
    let Some(stopped) = stopped else {
        return empty_reply_failure(None, ctx);
    };
    let last = steps.iter().rev().find_map(|step| step.reply());
    let calls = last.map_or(0, Reply::called);
    let model = &ctx.definition().model;
    let reason = format!("model {model} gave no text but {calls} calls of tools; {stopped}");
    Failure::new(RunCause::Overflow, reason)
}

fn refusal(reply: &Reply, ctx: &Ctx) -> String {
    let model = &ctx.definition().model;
    match reply.text.trim() {
        "" => format!("model {model} declined to answer"),
        text => format!("model {model} declined to answer: {text}"),
    }
}

#[cfg(test)]
mod tests;
