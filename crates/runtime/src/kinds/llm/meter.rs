//! The size of a run's exchange beside the frozen context. It is counted only if necessary: a text
//! has at most as many tokens as bytes, so an exchange whose bytes fit is not counted. Each step is
//! counted once per attempt.

use std::sync::Arc;

use unisono_context::Tokens;
use unisono_context::attachment::AttachedFile;
use unisono_model::language::Request;
use unisono_model::media::Accepts;
use unisono_session::run::excerpts::results_bound;
use unisono_session::run::tail::{self, Headroom, Masked, NarrowedLimits, RefusedRequest, Weight};
use unisono_session::run::{self, RunBounds, RunCause, Step};

use crate::agent::size::{assignment, file_tokens, headroom};
use crate::agent::{Ctx, Failure};

/// Measures the steps of one attempt.
pub(super) struct ExchangeMeter {
    accepts: Accepts,
    /// Persona, task and results: the texts before the exchange.
    assignment: String,
    messages: u64,
    /// Set once the exchange is so long that its tokens matter.
    room: Option<Headroom>,
    weights: Vec<Weight>,
}

impl ExchangeMeter {
    /// A meter for the exchange after a first request, to a model that takes these attachments.
    pub(super) fn new(first: &Request, accepts: Accepts) -> ExchangeMeter {
        let (assignment, messages) = assignment(first);
        ExchangeMeter {
            accepts,
            assignment,
            messages,
            room: None,
            weights: Vec::new(),
        }
    }

    /// Measures the new steps.
    ///
    /// # Errors
    /// The assignment alone does not fit.
    pub(super) async fn measure_steps(
        &mut self,
        steps: &[Arc<Step>],
        ctx: &Ctx,
    ) -> Result<(), Failure> {
        if self.room.is_none() && (is_narrowed(steps) || !self.fits_by_bytes(steps, ctx)) {
            self.measure(ctx).await?;
        }
        if self.room.is_some() {
            self.count(steps, ctx).await;
        }
        Ok(())
    }

    /// The weights of the steps; empty while their bytes fit.
    pub(super) fn weights(&self) -> &[Weight] {
        &self.weights
    }

    pub(super) fn bounds(&self, max_model_calls: u32) -> RunBounds {
        RunBounds {
            max_model_calls,
            room: self.room.unwrap_or(Headroom::UNBOUNDED),
        }
    }

    /// The limit of all results of delegated tasks, beside the results of other tools; none if
    /// their bytes fit.
    ///
    /// # Errors
    /// The assignment alone does not fit.
    pub(super) async fn results_limit(
        &mut self,
        steps: &[Arc<Step>],
        (tasks, others): (&[String], Vec<String>),
        ctx: &Ctx,
    ) -> Result<Option<Tokens>, Failure> {
        let (limits, count) = (ctx.definition().limits, tasks.len() + others.len());
        let around = limits.per_message.times(count as u64);
        let bytes = |texts: &[String]| texts.iter().map(|text| text.len() as u64).sum::<u64>();
        let handed = Tokens(bytes(tasks)) + limits.per_message.times(tasks.len() as u64);
        let more = Tokens(bytes(tasks) + bytes(&others)) + around;
        let is_free = self.room.is_none() && self.fits_with(steps, more, ctx);
        if is_free && handed <= ctx.assignment().results_reserve {
            return Ok(None);
        }
        if self.room.is_none() {
            self.measure(ctx).await?;
        }
        self.count(steps, ctx).await;
        let room = run::narrowed_headroom(steps, self.room.unwrap_or(Headroom::UNBOUNDED));
        let others: Tokens = ctx.count(others).await.into_iter().sum();
        let others = others + limits.per_message.times((count - tasks.len()) as u64);
        let left = room
            .tokens
            .minus(tail::minimum_tokens(&self.weights, room.note) + others);
        Ok(Some(results_bound(left, ctx.assignment().results_reserve)))
    }

    /// The room for the results of the newest reply, and the headroom; none if they fit with `more`
    /// tokens at most.
    ///
    /// # Errors
    /// The assignment alone does not fit.
    pub(super) async fn results_room(
        &mut self,
        steps: &[Arc<Step>],
        more: Tokens,
        ctx: &Ctx,
    ) -> Result<Option<(Tokens, Headroom)>, Failure> {
        if self.room.is_none() {
            if self.fits_with(steps, more, ctx) {
                return Ok(None);
            }
            self.measure(ctx).await?;
        }
        self.count(steps, ctx).await;
        let room = run::narrowed_headroom(steps, self.room.unwrap_or(Headroom::UNBOUNDED));
        Ok(Some((tail::results_room(&self.weights, room), room)))
    }

    /// The tokens of files in the results of tools, at most.
    pub(super) fn files_tokens(&self, files: &[AttachedFile]) -> Tokens {
        let each = files.iter();
        each.map(|file| file_tokens(self.accepts, file.content.extent))
            .sum()
    }

    /// The step with the new limits of the run, after the provider rejected a request as too large.
    ///
    /// # Errors
    /// The assignment alone does not fit.
    pub(super) async fn narrow(
        &mut self,
        limit: Option<Tokens>,
        (request, masked): (&Request, &[Masked]),
        steps: &[Arc<Step>],
        ctx: &Ctx,
    ) -> Result<Step, Failure> {
        if self.room.is_none() {
            self.measure(ctx).await?;
        }
        self.count(steps, ctx).await;
        let refused = RefusedRequest {
            input: ctx.input_at_most(request, self.accepts).await,
            exchange: self.sent(masked),
            output: request.max_output,
            calls: request.wrap_up.is_none() && !request.allowed.is_empty(),
        };
        let room = self.room.unwrap_or(Headroom::UNBOUNDED).tokens;
        let limit = limit.map(|limit| ctx.to_local_tokens(limit));
        let NarrowedLimits { room, output } = refused.narrowed_limits(limit, room);
        Ok(Step::Narrowed { room, output })
    }

    fn sent(&self, masked: &[Masked]) -> Tokens {
        let each = tail::active_weights(&self.weights).map(|weight| match weight {
            Weight::Reply(tokens) | Weight::Summary { tokens, .. } => *tokens,
            Weight::Results(results) => results.iter().copied().sum(),
            Weight::Nothing => Tokens::ZERO,
        });
        let out: Tokens = masked.iter().map(|masked| masked.tokens).sum();
        let total: Tokens = each.sum();
        total.minus(out)
    }

    fn fits_by_bytes(&self, steps: &[Arc<Step>], ctx: &Ctx) -> bool {
        let newest = steps.last().and_then(|step| step.reply());
        let calls = newest.map_or(0, |reply| reply.calls.len());
        let results = tail::left_out_tokens(calls, ctx.definition().limits.per_message);
        self.fits_with(steps, results, ctx)
    }

    fn fits_with(&self, steps: &[Arc<Step>], more: Tokens, ctx: &Ctx) -> bool {
        let limits = ctx.definition().limits;
        let takes = |extent| self.accepts.takes(extent);
        let texts = steps.iter().flat_map(|step| tail::countable(step, takes));
        let (bytes, count) = texts.fold((self.assignment.len() as u64, 0), |(bytes, n), text| {
            (bytes + text.len() as u64, n + 1)
        });
        let around = limits.per_message.times(self.messages + count);
        let files = steps.iter().flat_map(|step| step.files());
        let files: Tokens = files
            .map(|file| file_tokens(self.accepts, file.content.extent))
            .sum();
        Tokens(bytes) + files + around + more + limits.max_output <= ctx.assignment().headroom
    }

    /// Determines the headroom that the assignment leaves.
    async fn measure(&mut self, ctx: &Ctx) -> Result<(), Failure> {
        let counted = ctx.count(vec![self.assignment.clone()]).await;
        let needed = counted.into_iter().sum::<Tokens>();
        let room = headroom(ctx.assignment(), self.messages, needed);
        self.room = Some(room.map_err(|reason| Failure::new(RunCause::Overflow, reason))?);
        Ok(())
    }

    async fn count(&mut self, steps: &[Arc<Step>], ctx: &Ctx) {
        let per_message = ctx.definition().limits.per_message;
        for step in steps.iter().skip(self.weights.len()) {
            let texts = tail::countable(step, |extent| self.accepts.takes(extent));
            let texts = ctx.count(texts).await;
            let file = |extent| file_tokens(self.accepts, extent);
            self.weights
                .push(Weight::of_step(step, &texts, per_message, file));
        }
    }
}

/// Whether a part of the exchange was removed before: then its tokens matter.
fn is_narrowed(steps: &[Arc<Step>]) -> bool {
    let mut steps = steps.iter();
    steps.any(|step| matches!(**step, Step::Narrowed { .. } | Step::Summarised { .. }))
}
