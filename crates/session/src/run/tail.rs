//! What of a run's own exchange its model is shown, so that it fits beside the frozen context.
//!
//! ```text
//! usable  │ frozen context │ assignment │ reply  results  reply  results │ next reply │
//!                                       └────────── room ────────────────────────────┘
//! ```
//!
//! Before each model call, in this order: nothing is done while the exchange and the longest
//! reply fit the room; old tool results leave it, oldest first, each for a note; the oldest rounds
//! leave it for a summary; the model is asked a last time, to answer with what it has; nothing fits
//! any more. What has left stays out, and the newest round, whose results the model has not seen,
//! never leaves. All of it follows from the recorded steps and their tokens alone.

use std::collections::VecDeque;
use std::sync::Arc;

use unisono_context::Tokens;

use super::{Step, ToolResult};

/// The most tokens of a note: a dozen words, and up to twenty digits of which a token has three.
const NOTE: Tokens = Tokens(32);

/// The part of the room that a summary of the oldest rounds may have, the least and the most.
const SUMMARY_PART: u64 = 8;
const SUMMARY_LEAST: Tokens = Tokens(256);
const SUMMARY_MOST: Tokens = Tokens(8_000);

/// What a step adds to the exchange, in tokens of the agent's model. At-most counts keep what is
/// promised about the room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Weight {
    /// A model's reply.
    Reply(Tokens),
    /// Tool results, one by one.
    Results(Vec<Tokens>),
    /// A summary.
    Summary {
        /// How many of the run's first steps it stands for.
        replaced: usize,
        /// What it costs.
        tokens: Tokens,
    },
    /// Nothing: a named step is the author's own.
    Nothing,
}

/// How much an exchange may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// Tokens for the exchange: what the model can use, less the frozen context and the
    /// assignment (persona, task, results of a fan-out). The output of a call is reserved
    /// already.
    pub tokens: Tokens,
    /// The longest reply: the next call must have room for it as a part of the exchange.
    pub reply: Tokens,
    /// The most that a note costs which stands for a result.
    pub note: Tokens,
}

/// What the next model call is shown, and of which kind it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The results that are left out, oldest first.
    pub masked: Vec<Masked>,
    /// The call.
    pub call: ModelCallKind,
}

/// A tool result that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Masked {
    /// The step, as an index of the run's steps.
    pub step: usize,
    /// The result, as an index of the step's results.
    pub result: usize,
    /// What it costs whole.
    pub tokens: Tokens,
}

/// The kind of a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelCallKind {
    /// The model may call tools.
    Normal,
    /// The oldest rounds must be summarised first.
    Summarise {
        /// How many of the run's first steps the summary stands for.
        replaced: usize,
        /// What it may cost.
        cap: Tokens,
    },
    /// It must answer now: what it calls could not be shown to it.
    WrapUp,
    /// It cannot be asked.
    Overflow {
        /// The least that the exchange needs.
        needed: Tokens,
    },
}

impl Weight {
    /// The weight of a step, given what each of its texts ([`countable`]) costs and what a
    /// message costs besides.
    pub fn of_step(step: &Step, texts: &[Tokens], per_message: Tokens) -> Weight {
        let mut each = texts.iter().map(|tokens| *tokens + per_message);
        match step {
            Step::Model(_) => Weight::Reply(each.sum()),
            Step::Tools(results) => Weight::Results(each.by_ref().take(results.len()).collect()),
            Step::Summarised { replaced, .. } => Weight::Summary {
                replaced: *replaced as usize,
                tokens: each.sum(),
            },
            Step::Named { .. } | Step::Narrowed { .. } | Step::Spent(_) => Weight::Nothing,
        }
    }
}

impl Headroom {
    /// Nothing is ever left out.
    pub const UNBOUNDED: Headroom = Headroom {
        tokens: Tokens(u64::MAX),
        reply: Tokens::ZERO,
        note: Tokens::ZERO,
    };

    /// The room of a model that gives such replies and adds so much to each message.
    pub fn new(tokens: Tokens, max_output: Tokens, per_message: Tokens) -> Headroom {
        Headroom {
            tokens,
            reply: max_output,
            note: NOTE + per_message,
        }
    }
}

/// A request that a provider found too large. All amounts are of the same tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedRequest {
    /// What it had, at most.
    pub input: Tokens,
    /// What of that the run's own exchange was.
    pub exchange: Tokens,
    /// The longest reply it asked for.
    pub output: Tokens,
    /// Whether its model might call tools, whose answers come beside the next reply.
    pub calls: bool,
}

/// What a run may have from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NarrowedLimits {
    /// For its own exchange.
    pub room: Tokens,
    /// For a reply; none: as before.
    pub output: Option<Tokens>,
}

impl RefusedRequest {
    /// What may be sent instead, of a room that was `room`. Where the limit is known and what is
    /// said in it leaves something for a reply, that is what a reply may have: a quarter of it,
    /// where tools are still to answer. Where the counts say that the request is within the limit,
    /// they are too low: its exchange gives way by a quarter, and where there is none the reply has
    /// a quarter of what it had.
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

/// A quarter, but never nothing of something.
fn quarter(tokens: Tokens) -> Tokens {
    Tokens(tokens.0.div_ceil(4))
}

impl Masked {
    /// What stands in the result's place.
    pub fn note(&self) -> String {
        format!(
            "[tool result: {} tokens, left out to make room]",
            self.tokens
        )
    }
}

/// The texts of a step that are counted: a reply as one, tool results one by one.
pub fn countable(step: &Step) -> Vec<String> {
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
        Step::Tools(results) => results.iter().map(|r| r.content.to_string()).collect(),
        Step::Summarised { text, .. } => vec![summary_note(text)],
        Step::Named { .. } | Step::Narrowed { .. } | Step::Spent(_) => Vec::new(),
    }
}

/// A summary of a run's first rounds as its model is shown it.
pub fn summary_note(summary: &str) -> String {
    format!(
        "Your first replies and what your tools answered are left out; this is their summary. \
         #1 is your first reply here, with its calls and results.\n\n{summary}"
    )
}

/// The summary that stands for a run's first steps, and how many those are.
pub fn summary(steps: &[Arc<Step>]) -> Option<(usize, &Arc<str>)> {
    steps.iter().rev().find_map(|step| match &**step {
        Step::Summarised { replaced, text } => Some((*replaced as usize, text)),
        _ => None,
    })
}

/// The results of a step as the model is shown them.
pub fn shown_results(step: usize, results: &[ToolResult], masked: &[Masked]) -> Vec<ToolResult> {
    let mut shown = results.to_vec();
    for masked in masked.iter().filter(|masked| masked.step == step) {
        if let Some(result) = shown.get_mut(masked.result) {
            result.content = masked.note().into();
        }
    }
    shown
}

/// The weights of what stands of an exchange: the newest summary, and the steps it does not stand
/// for.
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

/// The least that an exchange of such weights has, with every result left out that can be.
pub fn minimum_tokens(weights: &[Weight], note: Tokens) -> Tokens {
    let each = active_weights(weights).map(|weight| match weight {
        Weight::Reply(tokens) | Weight::Summary { tokens, .. } => *tokens,
        Weight::Results(results) => results.iter().map(|tokens| (*tokens).min(note)).sum(),
        Weight::Nothing => Tokens::ZERO,
    });
    each.sum()
}

/// The next model call after steps of such weights: they are those of the run's steps, in order.
pub fn plan_tail(weights: &[Weight], room: Headroom) -> Tail {
    let mut exchange = Exchange::default();
    for (step, weight) in weights.iter().enumerate() {
        match weight {
            Weight::Reply(tokens) => {
                // What was left out for this reply stays out.
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
    /// What the summary costs that stands for the oldest rounds.
    summary: Tokens,
    /// The rounds that stand, oldest first.
    rounds: Vec<ExchangeRound>,
    /// What summary and rounds cost, less what notes save.
    cost: Tokens,
    masked: Vec<Masked>,
    /// Results that the model has seen and whose note is smaller, oldest first.
    old: VecDeque<Masked>,
    /// Those of the newest results whose note is smaller.
    new: Vec<Masked>,
}

/// A reply and the results of its calls.
struct ExchangeRound {
    /// The step that is its reply.
    first: usize,
    /// What it costs, less what notes save.
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

    /// Leaves out as little as the best call that is possible needs.
    fn decide(&mut self, room: Headroom) -> ModelCallKind {
        for (reply, call) in [
            (room.reply, ModelCallKind::Normal),
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

    /// How many of the old results must leave, so that the rest and a reply fit.
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

    /// How many of the run's first steps leave for a summary and what that may cost, so that it, the
    /// newest rounds and a reply fit. Of those, as many stay as fill half of the room with it.
    fn rounds_to_summarise(&self, room: Headroom, reply: Tokens) -> Option<(usize, Tokens)> {
        let (newest, older) = self.rounds.split_last()?;
        let free = room.tokens.minus(reply);
        let cap = Tokens(room.tokens.0 / SUMMARY_PART).min(SUMMARY_MOST);
        if cap < SUMMARY_LEAST || newest.cost + cap > free {
            return None;
        }
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
