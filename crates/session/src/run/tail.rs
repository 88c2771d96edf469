//! Selects the part of a run's exchange that its model gets, so that it fits beside the frozen
//! context.
//!
//! ```text
//! usable  │ frozen context │ assignment │ reply  results  reply  results │ next reply │
//!                                       └────────── room ────────────────────────────┘
//! ```
//!
//! Before each model call, the first of these that suffices: nothing, while the exchange and the
//! next reply fit the headroom; notes replace old tool results, oldest first; a summary replaces
//! the oldest rounds; the model is called a last time, to answer with what it has; nothing fits any
//! more. Removed parts never return. The newest round, whose results the model has not seen, is never
//! removed; its results are cut to the room before they are recorded ([`results_room`]). All of this
//! depends only on the recorded steps and their tokens.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use unisono_context::Tokens;
use unisono_context::attachment::Extent;

use super::{Step, ToolResult};

mod newest;
mod summary_note;

pub(super) use newest::takes_results;
pub use newest::{left_out_note, left_out_tokens, results_limit, results_room, without_share};
pub use summary_note::summary_note;

/// The maximum number of tokens of a note: two dozen words, and up to twenty digits.
const NOTE: Tokens = Tokens(64);

/// The part of the headroom for a summary of the oldest rounds, its minimum and its maximum.
const SUMMARY_PART: u64 = 8;
const SUMMARY_LEAST: Tokens = Tokens(256);
const SUMMARY_MOST: Tokens = Tokens(8_000);

/// The part of the headroom that the next reply needs, and its minimum.
const REPLY_PART: u64 = 4;
const REPLY_LEAST: Tokens = Tokens(512);

/// The tokens that a step adds to the exchange, in the encoding of the agent's model. Upper bounds
/// guarantee that the exchange fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Weight {
    /// A model's reply.
    Reply(Tokens),
    /// Tool results, one by one.
    Results(Vec<Tokens>),
    /// A summary.
    Summary {
        /// The number of steps at the beginning of the run that it replaces.
        replaced: usize,
        /// Its size.
        tokens: Tokens,
    },
    /// Nothing: a named step belongs to the author's code.
    Nothing,
}

/// The limits of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// Tokens for the exchange: the usable tokens of the model minus the frozen context and the
    /// assignment (persona, task, results of a fan-out). The output of a call is already reserved.
    pub tokens: Tokens,
    /// The longest reply: it becomes part of the exchange, so the next call needs headroom for it.
    pub reply: Tokens,
    /// The maximum size of a note that replaces a result.
    pub note: Tokens,
    /// Whether a reply that may call tools needs a part of the headroom only. In older turns it
    /// needs the longest reply.
    pub is_shared: bool,
}

/// The next model call: its kind and its masked results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The masked results, oldest first.
    pub masked: Vec<Masked>,
    /// The kind of the call.
    pub call: ModelCallKind,
}

/// A masked tool result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Masked {
    /// The step, as an index of the run's steps.
    pub step: usize,
    /// The result, as an index of the step's results.
    pub result: usize,
    /// Its full size.
    pub tokens: Tokens,
}

/// The kind of a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelCallKind {
    /// The model may call tools.
    Normal,
    /// The oldest rounds must be summarised first.
    Summarise {
        /// The number of steps at the beginning of the run that the summary replaces.
        replaced: usize,
        /// The maximum size of the summary.
        cap: Tokens,
    },
    /// It must answer now: results of further calls would not fit.
    WrapUp,
    /// The model cannot be called.
    Overflow {
        /// The minimum size of the exchange.
        needed: Tokens,
    },
}

impl Weight {
    /// The weight of a step, given the tokens of each of its texts ([`countable`]), the overhead per
    /// message, and the tokens of files to the model.
    pub fn of_step(
        step: &Step,
        texts: &[Tokens],
        per_message: Tokens,
        file: impl Fn(Extent) -> Tokens,
    ) -> Weight {
        let each = texts.iter().map(|tokens| *tokens + per_message);
        match step {
            Step::Model(_) => Weight::Reply(each.sum()),
            Step::Tools(results) => {
                let results = results.iter().zip(each);
                let weights = results.map(|(result, text)| {
                    let files = result.files.iter();
                    text + files.map(|of| file(of.content.extent)).sum::<Tokens>()
                });
                Weight::Results(weights.collect())
            }
            Step::Summarised { replaced, .. } => Weight::Summary {
                replaced: *replaced as usize,
                tokens: each.sum(),
            },
            Step::Named { .. } | Step::Narrowed { .. } | Step::Spent(_) => Weight::Nothing,
        }
    }
}

impl Headroom {
    /// No limit: nothing is ever masked.
    pub const UNBOUNDED: Headroom = Headroom {
        tokens: Tokens(u64::MAX),
        reply: Tokens::ZERO,
        note: Tokens::ZERO,
        is_shared: false,
    };

    /// The headroom of a model with this maximum output and overhead per message.
    pub fn new(tokens: Tokens, max_output: Tokens, per_message: Tokens) -> Headroom {
        Headroom {
            tokens,
            reply: max_output,
            note: NOTE + per_message,
            is_shared: false,
        }
    }

    /// The tokens that stay free for the next reply and the results of its calls. The longest reply
    /// may be larger than a small headroom, and replies that call tools are rarely long: a part
    /// suffices, because results are cut to the room that is left ([`results_room`]).
    fn next_reply(&self) -> Tokens {
        let part = Tokens(self.tokens.0 / REPLY_PART).max(REPLY_LEAST);
        match self.is_shared {
            true => self.reply.min(part),
            false => self.reply,
        }
    }

    /// The maximum size of a summary of the oldest rounds; none if there is too little room for one.
    fn summary_cap(&self) -> Option<Tokens> {
        let cap = Tokens(self.tokens.0 / SUMMARY_PART).min(SUMMARY_MOST);
        (cap >= SUMMARY_LEAST).then_some(cap)
    }
}

/// A request that a provider rejected as too large. All amounts are in the same tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedRequest {
    /// The maximum size of its input.
    pub input: Tokens,
    /// The part of the input that is the run's exchange.
    pub exchange: Tokens,
    /// The maximum reply that it asked for.
    pub output: Tokens,
    /// Whether its model might call tools, whose results come beside the next reply.
    pub calls: bool,
}

/// The new limits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NarrowedLimits {
    /// The headroom of its exchange.
    pub room: Tokens,
    /// The maximum reply; none: unchanged.
    pub output: Option<Tokens>,
}

impl RefusedRequest {
    /// The limits of the next request, given the headroom of the rejected one. If the limit is
    /// known and the input leaves tokens for a reply, the reply gets these tokens, or a quarter of
    /// them if tools will still answer. If the request is within the limit according to the counts,
    /// the counts are too low: the exchange shrinks by a quarter, or, without an exchange, the
    /// reply shrinks to a quarter.
    pub fn narrowed_limits(&self, limit: Option<Tokens>, room: Tokens) -> NarrowedLimits {
        let three_quarters = Tokens(self.exchange.0 / 4 * 3);
        let within = |most: Tokens, output| NarrowedLimits {
            room: room.min(most),
            output,
        };
        let Some(limit) = limit else {
            return within(three_quarters, None);
        };
        let free = limit.minus(self.input.minus(self.exchange));
        let left = free.minus(self.exchange);
        if left == Tokens::ZERO {
            let output = self.output.min(quarter(free));
            let some = Some(output).filter(|output| *output > Tokens::ZERO);
            return within(free.minus(output).min(three_quarters), some);
        }
        if left < self.output && self.calls {
            return within(free.minus(quarter(left)), Some(quarter(left)));
        }
        if left < self.output {
            return within(free, Some(left));
        }
        match self.exchange {
            Tokens::ZERO => within(free, Some(quarter(self.output))),
            _ => within(three_quarters, None),
        }
    }
}

/// A quarter, but at least 1 of a positive number.
fn quarter(tokens: Tokens) -> Tokens {
    Tokens(tokens.0.div_ceil(4))
}

impl Masked {
    /// The note that replaces the result. It belongs to no message yet, so `recall` does not read it,
    /// and only a call that reads is made again without harm.
    pub fn note(&self) -> String {
        format!(
            "[tool result: {} tokens, left out to make room; make the call again if it only reads]",
            self.tokens
        )
    }
}

/// The texts of a step that are counted: a reply as one text, tool results separately. A result has
/// the texts of its documents that the model does not take.
pub fn countable(step: &Step, takes: impl Fn(Extent) -> bool) -> Vec<String> {
    match step {
        Step::Model(reply) => {
            if let Some(verbatim) = &reply.verbatim {
                return vec![verbatim.to_string()];
            }
            let mut text = reply.text.to_string();
            for call in &reply.calls {
                text.push('\n');
                text.push_str(&call.name);
                text.push_str(&call.arguments);
            }
            vec![text]
        }
        Step::Tools(results) => {
            let texts = results.iter().map(|result| result.text(&takes));
            texts.map(Cow::into_owned).collect()
        }
        Step::Summarised { text, .. } => vec![summary_note(text)],
        Step::Named { .. } | Step::Narrowed { .. } | Step::Spent(_) => Vec::new(),
    }
}

/// The summary of a run's first steps, and the number of these steps.
pub fn summary(steps: &[Arc<Step>]) -> Option<(usize, &Arc<str>)> {
    steps.iter().rev().find_map(|step| match &**step {
        Step::Summarised { replaced, text } => Some((*replaced as usize, text)),
        _ => None,
    })
}

/// The results of a step with masked ones replaced by notes.
pub fn shown_results(step: usize, results: &[ToolResult], masked: &[Masked]) -> Vec<ToolResult> {
    let mut shown = results.to_vec();
    for masked in masked.iter().filter(|masked| masked.step == step) {
        if let Some(result) = shown.get_mut(masked.result) {
            result.content = masked.note().into();
            result.files.clear();
        }
    }
    shown
}

/// The weights of the current exchange: the newest summary, and the steps that it does not replace.
pub fn active_weights(weights: &[Weight]) -> impl Iterator<Item = &Weight> {
    let summaries = weights.iter().rev();
    let summary = summaries
        .filter_map(|weight| match weight {
            Weight::Summary { replaced, .. } => Some((*replaced, weight)),
            _ => None,
        })
        .next();
    let replaced = summary.map_or(0, |(replaced, _)| replaced);
    let steps = weights.get(replaced..).unwrap_or_default().iter();
    let steps = steps.filter(|weight| !matches!(weight, Weight::Summary { .. }));
    summary.map(|(_, weight)| weight).into_iter().chain(steps)
}

/// The minimum size of an exchange with these weights, with every maskable result masked.
pub fn minimum_tokens(weights: &[Weight], note: Tokens) -> Tokens {
    let each = active_weights(weights).map(|weight| match weight {
        Weight::Reply(tokens) | Weight::Summary { tokens, .. } => *tokens,
        Weight::Results(results) => results.iter().map(|tokens| (*tokens).min(note)).sum(),
        Weight::Nothing => Tokens::ZERO,
    });
    each.sum()
}

/// The next model call after steps with these weights, in the order of the run's steps.
pub fn plan_tail(weights: &[Weight], room: Headroom) -> Tail {
    let mut exchange = Exchange::default();
    for (step, weight) in weights.iter().enumerate() {
        match weight {
            Weight::Reply(tokens) => {
                // Results that were masked for this reply stay masked.
                exchange.decide(room);
                exchange.reply(step, *tokens);
            }
            Weight::Results(results) => exchange.results(step, results, room.note),
            Weight::Summary { replaced, tokens } => exchange.summarised(*replaced, *tokens),
            Weight::Nothing => {}
        }
    }
    let call = exchange.decide(room);
    Tail {
        masked: exchange.masked,
        call,
    }
}

#[derive(Default)]
struct Exchange {
    /// The size of the summary that replaces the oldest rounds.
    summary: Tokens,
    /// The rounds that are not summarised, oldest first.
    rounds: Vec<ExchangeRound>,
    /// The size of summary and rounds, minus the savings by notes.
    cost: Tokens,
    masked: Vec<Masked>,
    /// Results that the model has seen and whose note is smaller, oldest first.
    old: VecDeque<Masked>,
    /// The newest results whose note is smaller.
    new: Vec<Masked>,
}

/// A reply and the results of its calls.
struct ExchangeRound {
    /// The step with its reply.
    first: usize,
    /// Its size, minus the savings by notes.
    cost: Tokens,
}

impl Exchange {
    fn reply(&mut self, step: usize, tokens: Tokens) {
        self.rounds.push(ExchangeRound {
            first: step,
            cost: tokens,
        });
        self.cost += tokens;
    }

    fn results(&mut self, step: usize, results: &[Tokens], note: Tokens) {
        self.old.extend(self.new.drain(..));
        for (result, tokens) in results.iter().copied().enumerate() {
            self.cost += tokens;
            if let Some(round) = self.rounds.last_mut() {
                round.cost += tokens;
            }
            if tokens > note {
                self.new.push(Masked {
                    step,
                    result,
                    tokens,
                });
            }
        }
    }

    fn summarised(&mut self, replaced: usize, tokens: Tokens) {
        self.summary = tokens;
        self.rounds.retain(|round| round.first >= replaced);
        self.cost = tokens + self.rounds.iter().map(|round| round.cost).sum::<Tokens>();
        self.masked.retain(|masked| masked.step >= replaced);
        self.old.retain(|old| old.step >= replaced);
    }

    /// Masks as little as the best possible call needs.
    fn decide(&mut self, room: Headroom) -> ModelCallKind {
        for (reply, call) in [
            (room.next_reply(), ModelCallKind::Normal),
            (Tokens::ZERO, ModelCallKind::WrapUp),
        ] {
            if let Some(count) = self.results_to_mask(room, reply) {
                self.mask(count, room.note);
                return call;
            }
            if let Some((replaced, cap)) = self.rounds_to_summarise(room, reply) {
                return ModelCallKind::Summarise { replaced, cap };
            }
        }
        let more: Tokens = self.old.iter().map(|old| old.tokens.minus(room.note)).sum();
        ModelCallKind::Overflow {
            needed: self.cost.minus(more),
        }
    }

    fn mask(&mut self, count: usize, note: Tokens) {
        for masked in self.old.drain(..count) {
            let saved = masked.tokens.minus(note);
            self.cost = self.cost.minus(saved);
            let mut rounds = self.rounds.iter_mut().rev();
            if let Some(round) = rounds.find(|round| round.first < masked.step) {
                round.cost = round.cost.minus(saved);
            }
            self.masked.push(masked);
        }
    }

    /// The number of old results to mask, so that the rest and a reply fit.
    fn results_to_mask(&self, room: Headroom, reply: Tokens) -> Option<usize> {
        let mut needed = self.cost + reply;
        let mut old = self.old.iter();
        for count in 0..=self.old.len() {
            if needed <= room.tokens {
                return Some(count);
            }
            let saves = old
                .next()
                .map_or(Tokens::ZERO, |old| old.tokens.minus(room.note));
            needed = needed.minus(saves);
        }
        None
    }

    /// The number of steps at the beginning of the run to summarise, and the maximum size of the
    /// summary, so that it, the newest rounds and a reply fit. The remaining rounds and the summary
    /// fill up to half of the headroom.
    fn rounds_to_summarise(&self, room: Headroom, reply: Tokens) -> Option<(usize, Tokens)> {
        let (newest, older) = self.rounds.split_last()?;
        let free = room.tokens.minus(reply);
        let cap = room
            .summary_cap()
            .filter(|cap| newest.cost + *cap <= free)?;
        let mut kept = newest.cost + cap;
        let stays = |round: &&ExchangeRound| {
            kept += round.cost;
            kept.0 <= free.0 / 2
        };
        let stay = older.iter().rev().take_while(stays).count();
        let leave = &older[..(older.len() - stay).max(1).min(older.len())];
        let saved: Tokens = leave.iter().map(|round| round.cost).sum();
        let next = self.rounds.get(leave.len())?;
        (!leave.is_empty() && self.summary + saved > cap).then_some((next.first, cap))
    }
}

#[cfg(test)]
mod tests;
