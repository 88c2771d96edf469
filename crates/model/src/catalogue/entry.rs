//! A model, by reference, and its properties.

use std::fmt;
use std::time::Duration;

use jiff::civil::Date;
use unisono_context::{Encoding, Ppm, Tokens};

use super::{EXTRACTIVE, LongPrompt, Prices};
use crate::dialect::{Dialect, label};
use crate::media::Accepts;

/// A reference to a model: `provider/model`, or `extractive`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelRef {
    /// The provider.
    pub provider: String,
    /// The model's name at the provider; may contain slashes.
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

/// The properties of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its reference.
    pub model: ModelRef,
    /// Context window: input and output together.
    pub window: Tokens,
    /// A larger window, available with a provider's beta flag.
    pub beta_window: Option<Tokens>,
    /// The maximum output.
    pub max_output: Tokens,
    /// The encoding in which its tokens are counted.
    pub encoding: Encoding,
    /// True if that encoding only approximates the provider's own.
    pub estimated: bool,
    /// Prices per million tokens.
    pub prices: Prices,
    /// Other prices for long inputs, if the provider has them.
    pub long_prompt: Option<LongPrompt>,
    /// The shortest prefix that its provider caches, if it is known to cache.
    pub cache_minimum: Option<Tokens>,
    /// The shortest prefix for which one request goes ahead of the others, if it is unknown whether
    /// the provider caches.
    pub warm_minimum: Option<Tokens>,
    /// The lifetime of a cached prefix since its last use.
    pub cache_lifetime: Duration,
    /// Whether it accepts explicit cache breakpoints, in a dialect in which they are optional.
    pub breakpoints: bool,
    /// Whether it reasons before it answers: such a model accepts no temperature, and gets its
    /// reasoning back within a run.
    pub reasoning: bool,
    /// Whether its chat template opens the reasoning block, so that a reply has only the closing
    /// tag.
    pub think_opened: bool,
    /// Whether it accepts an output schema. Otherwise it gets a tool to answer with, in Anthropic's
    /// dialect, or the schema in words.
    pub structured: bool,
    /// The attachments it takes.
    pub accepts: Accepts,
    /// Its dialect, if it differs from the provider's default.
    pub dialect: Option<Dialect>,
    /// The default compaction trigger, as a share of the window.
    pub trigger: Ppm,
    /// The default number of tokens that the `retention` preset keeps verbatim.
    pub retention: Tokens,
    /// The default summariser of its conversations.
    pub summariser: ModelRef,
    /// The provider's overhead of a message, in tokens.
    pub message_overhead: Tokens,
    /// The first day without service, if it is known.
    pub retires: Option<Date>,
    /// The successor of a retiring model.
    pub successor: Option<ModelRef>,
    /// True if the catalogue does not know its window, and a default is used.
    pub assumed: bool,
}

impl Entry {
    /// The overhead of a message in tokens: the provider's, and the label.
    pub fn per_message(&self) -> Tokens {
        let offline = self.model == ModelRef::extractive();
        let label = if offline { Tokens::ZERO } else { label::TOKENS };
        self.message_overhead + label
    }

    /// The prices of a request with this input.
    pub fn prices_for(&self, input: Tokens) -> Prices {
        match self.long_prompt {
            Some(long) if input > long.over => long.prices,
            _ => self.prices,
        }
    }
}
