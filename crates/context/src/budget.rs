//! The tokens that a turn may use.

use crate::attachment::FileRules;
use crate::tokens::{Encoding, Ppm, Tokens};

/// The limits of one model, from the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Context window: input and output together.
    pub window: Tokens,
    /// The longest answer of the model.
    pub max_output: Tokens,
    /// The encoding in which its tokens are counted.
    pub encoding: Encoding,
    /// Tokens its dialect adds to each message.
    pub per_message: Tokens,
    /// How it gets attachments.
    pub files: FileRules,
}

/// The share of a window for an answer if its maximum is unknown: a quarter.
const OUTPUT_SHARE: u64 = 4;

impl Limits {
    /// The limits if a provider accepts only this window: an answer then has at most a quarter of
    /// it, so that there is room for a question.
    pub fn within(self, window: Tokens) -> Limits {
        match window < self.window {
            true => self.of_window(window),
            false => self,
        }
    }

    /// The limits with that window; an answer has at most a quarter of it.
    pub fn of_window(self, window: Tokens) -> Limits {
        Limits {
            window,
            max_output: self.max_output.min(Tokens(window.0 / OUTPUT_SHARE)),
            ..self
        }
    }
}

/// The tokens that one model has for the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The encoding in which the conversation is counted.
    pub encoding: Encoding,
    /// The model's window.
    pub window: Tokens,
    /// Tokens for the conversation: window minus output, safety, system text and tools.
    pub usable: Tokens,
    /// Tokens added to each message and summary.
    pub per_message: Tokens,
    /// How its models get attachments.
    pub files: FileRules,
}

impl Budget {
    /// The budget of a model, given the tokens of the system text and tools (`fixed`) and the
    /// safety margin as a share of the window (5 % by default). Usable is zero if they alone fill
    /// the window.
    pub fn new(limits: Limits, safety: Ppm, fixed: Tokens) -> Budget {
        let usable = limits
            .window
            .minus(limits.max_output)
            .minus(safety.share_of(limits.window))
            .minus(fixed);
        Budget {
            encoding: limits.encoding,
            window: limits.window,
            usable,
            per_message: limits.per_message,
            files: limits.files,
        }
    }

    /// Takes the tighter value of each number: a context within the result is within both budgets.
    fn tighten(&mut self, other: &Budget) {
        self.window = self.window.min(other.window);
        self.usable = self.usable.min(other.usable);
        self.per_message = self.per_message.max(other.per_message);
        self.files = self.files.union(other.files);
    }
}

/// The budgets that a turn must satisfy together, never empty: one per encoding, each number as
/// tight as the tightest of its models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budgets {
    first: Budget,
    others: Vec<Budget>,
}

impl Budgets {
    /// The budgets of the lead and of every agent it may delegate the snapshot to.
    pub fn new(lead: Budget, delegates: impl IntoIterator<Item = Budget>) -> Budgets {
        let mut budgets = Budgets {
            first: lead,
            others: Vec::new(),
        };
        for budget in delegates {
            let slot = std::iter::once(&mut budgets.first)
                .chain(budgets.others.iter_mut())
                .find(|known| known.encoding == budget.encoding);
            match slot {
                Some(known) => known.tighten(&budget),
                None => budgets.others.push(budget),
            }
        }
        budgets
    }

    /// All budgets, the lead's encoding first.
    pub fn iter(&self) -> impl Iterator<Item = &Budget> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl From<Budget> for Budgets {
    fn from(budget: Budget) -> Budgets {
        Budgets::new(budget, [])
    }
}
