//! A model, by reference, and its properties.

use std::fmt;
use std::time::Duration;

use jiff::civil::Date;
use unisono_context::{Encoding, Ppm, Tokens};

use super::{EXTRACTIVE, LongPrompt, Prices};
use crate::dialect::{Dialect, label};
use crate::media::Accepts;

/// A model as people write it: `provider/model`, or `extractive`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelRef {
    /// Who serves it.
    pub provider: String,
    /// Its name there; may contain slashes.
    pub model: String,
}

impl ModelRef {
    /// The offline model.
    pub fn extractive() -> ModelRef {
        ModelRef {
            provider: EXTRACTIVE.to_owned(),
            model: EXTRACTIVE.to_owned(),
        }
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.provider == EXTRACTIVE && self.model == EXTRACTIVE {
            return f.write_str(EXTRACTIVE);
        }
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// What is known of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its reference.
    pub model: ModelRef,
    /// Context window: input and output together.
    pub window: Tokens,
    /// A larger window that has to be asked for with a provider's beta flag.
    pub beta_window: Option<Tokens>,
    /// Longest output.
    pub max_output: Tokens,
    /// The encoding it is counted in.
    pub encoding: Encoding,
    /// True where that encoding is only an estimate of the provider's own.
    pub estimated: bool,
    /// Prices per million tokens.
    pub prices: Prices,
    /// What is charged instead once the input is long, where that differs.
    pub long_prompt: Option<LongPrompt>,
    /// The shortest prefix its provider caches, if it caches.
    pub cache_minimum: Option<Tokens>,
    /// The shortest prefix for which one request goes ahead of the others, where it is not known
    /// whether its provider caches.
    pub warm_minimum: Option<Tokens>,
    /// How long a cached prefix stays since it was last used.
    pub cache_lifetime: Duration,
    /// Whether it takes explicit cache breakpoints in a dialect where that is optional.
    pub breakpoints: bool,
    /// Whether it reasons before it answers: it then takes no temperature, and its reasoning is
    /// sent back to it within a run.
    pub reasoning: bool,
    /// Whether its chat template opens the block of its reasoning, so that a reply has only the
    /// tag that closes it.
    pub think_opened: bool,
    /// Whether it takes an output schema; else it is given a tool to answer with, in dialects where
    /// that is needed.
    pub structured: bool,
    /// The attachments it takes.
    pub accepts: Accepts,
    /// Its dialect, where it is not the one its provider speaks otherwise.
    pub dialect: Option<Dialect>,
    /// Default compaction trigger as a share of the window, where the policy asks for one.
    pub trigger: Ppm,
    /// Default tokens kept verbatim by the `retention` preset.
    pub retention: Tokens,
    /// The model that summarises for it.
    pub summariser: ModelRef,
    /// Tokens a message costs at its provider besides what it says.
    pub message_overhead: Tokens,
    /// The first day on which its provider does not serve it any more, where that is known.
    pub retires: Option<Date>,
    /// The model that takes the place of one that retires.
    pub successor: Option<ModelRef>,
    /// True when the catalogue does not have its window: say so.
    pub assumed: bool,
}

impl Entry {
    /// Tokens a message of the conversation costs besides its text: its provider's, and its label.
    pub fn per_message(&self) -> Tokens {
        let offline = self.model == ModelRef::extractive();
        let label = if offline { Tokens::ZERO } else { label::TOKENS };
        self.message_overhead + label
    }

    /// The prices of a request with that much input.
    pub fn prices_for(&self, input: Tokens) -> Prices {
        match self.long_prompt {
            Some(long) if input > long.over => long.prices,
            _ => self.prices,
        }
    }
}
