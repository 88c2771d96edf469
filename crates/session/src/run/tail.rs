//! What of a run's own exchange its model is shown, so that it fits beside the frozen context.
//!
//! ```text
//! usable  │ frozen context │ assignment │ reply  results  reply  results │ next reply │
//!                                       └────────── room ────────────────────────────┘
//! ```
//!
//! Before each model call, in this order: nothing is done while the exchange and the longest
//! reply fit the room; old tool results leave it, oldest first, each for a note; the model is
//! asked a last time, to answer with what it has; nothing fits any more. A result that has left
//! stays out, and the newest results, which the model has not seen, are never left out. All of
//! it follows from the recorded steps and their tokens alone.

use std::collections::VecDeque;

use unisono_context::Tokens;

use super::{Step, ToolResult};

/// The most tokens of a note: a dozen words, and up to twenty digits of which a token has three.
const NOTE: Tokens = Tokens(32);

/// What a step adds to the exchange, in tokens of the agent's model. At-most counts keep what is
/// promised about the room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Weight {
    /// A model's reply.
    Reply(Tokens),
    /// Tool results, one by one.
    Results(Vec<Tokens>),
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
    pub call: Call,
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
pub enum Call {
    /// The model may call tools.
    Normal,
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
    pub fn of(step: &Step, texts: &[Tokens], per_message: Tokens) -> Weight {
        let mut each = texts.iter().map(|tokens| *tokens + per_message);
        match step {
            Step::Model(_) => Weight::Reply(each.sum()),
            Step::Tools(results) => Weight::Results(each.by_ref().take(results.len()).collect()),
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
pub struct Refused {
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
pub struct Narrower {
    /// For its own exchange.
    pub room: Tokens,
    /// For a reply; none: as before.
    pub output: Option<Tokens>,
}

impl Refused {
    /// What may be sent instead, of a room that was `room`. Where the limit is known and what is
    /// said in it leaves something for a reply, that is what a reply may have: a quarter of it,
    /// where tools are still to answer. Where the counts say that the request is within the limit,
    /// they are too low: its exchange gives way by a quarter, and where there is none the reply has
    /// a quarter of what it had.
    pub fn narrower(&self, limit: Option<Tokens>, room: Tokens) -> Narrower {
        let three_quarters = Tokens(self.exchange.0 / 4 * 3);
        let within = |most: Tokens, output| Narrower {
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
        Step::Named { .. } | Step::Narrowed { .. } | Step::Spent(_) => Vec::new(),
    }
}

/// The results of a step as the model is shown them.
pub fn shown(step: usize, results: &[ToolResult], masked: &[Masked]) -> Vec<ToolResult> {
    let mut shown = results.to_vec();
    for masked in masked.iter().filter(|masked| masked.step == step) {
        if let Some(result) = shown.get_mut(masked.result) {
            result.content = masked.note().into();
        }
    }
    shown
}

/// The least that an exchange of such weights has, with every result left out that can be.
pub fn least(weights: &[Weight], note: Tokens) -> Tokens {
    let each = weights.iter().map(|weight| match weight {
        Weight::Reply(tokens) => *tokens,
        Weight::Results(results) => results.iter().map(|tokens| (*tokens).min(note)).sum(),
        Weight::Nothing => Tokens::ZERO,
    });
    each.sum()
}

/// The next model call after steps of such weights: they are those of the run's steps, in order.
pub fn tail(weights: &[Weight], room: Headroom) -> Tail {
    let mut exchange = Exchange::default();
    for (step, weight) in weights.iter().enumerate() {
        match weight {
            Weight::Reply(tokens) => {
                // What was left out for this reply stays out.
                exchange.decide(room);
                exchange.whole += *tokens;
            }
            Weight::Results(results) => exchange.results(step, results, room.note),
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
    /// What it costs with nothing left out.
    whole: Tokens,
    /// What notes save.
    saved: Tokens,
    masked: Vec<Masked>,
    /// Results that the model has seen and whose note is smaller, oldest first.
    old: VecDeque<Masked>,
    /// Those of the newest results whose note is smaller.
    new: Vec<Masked>,
}

impl Exchange {
    fn results(&mut self, step: usize, results: &[Tokens], note: Tokens) {
        self.old.extend(self.new.drain(..));
        for (result, tokens) in results.iter().copied().enumerate() {
            self.whole += tokens;
            if tokens > note {
                self.new.push(Masked {
                    step,
                    result,
                    tokens,
                });
            }
        }
    }

    /// Leaves out as little as the best call that is possible needs.
    fn decide(&mut self, room: Headroom) -> Call {
        for (reply, call) in [(room.reply, Call::Normal), (Tokens::ZERO, Call::WrapUp)] {
            if let Some(count) = self.least(room, reply) {
                for masked in self.old.drain(..count) {
                    self.saved += masked.tokens.minus(room.note);
                    self.masked.push(masked);
                }
                return call;
            }
        }
        let more: Tokens = self.old.iter().map(|old| old.tokens.minus(room.note)).sum();
        Call::Overflow {
            needed: self.whole.minus(self.saved).minus(more),
        }
    }

    /// How many of the old results must leave, so that the rest and a reply fit.
    fn least(&self, room: Headroom, reply: Tokens) -> Option<usize> {
        let mut needed = self.whole.minus(self.saved) + reply;
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
}

#[cfg(test)]
mod tests;
