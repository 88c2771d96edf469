//! The chain of summarisers: models that are asked one after the other, before quotes are used.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use unisono_context::checkpoint::Tier;
use unisono_context::tokens::Count;
use unisono_context::{Encoding, Ppm, Tokens};
use unisono_model::summariser::Prompt;
use unisono_session::state::Settings;

/// A model that writes summaries, and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summariser {
    /// The model, as [`Models`](unisono_model::language::Models) knows it.
    pub model: Arc<str>,
    /// Its window: input and output together.
    pub window: Tokens,
    /// Its longest reply.
    pub max_output: Tokens,
    /// Its encoding.
    pub encoding: Encoding,
    /// Its maximum number of tokens per counted token: more than one if its own encoding is
    /// unknown.
    pub scale: Ppm,
}

impl Summariser {
    /// The upper bound of the model's tokens for a count.
    pub(crate) fn bound(&self, count: Count) -> Tokens {
        let millionths = u128::from(count.at_most.0) * u128::from(self.scale.0);
        Tokens(u64::try_from(millionths.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

/// The summarisers in order, and their prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The models. If none of them writes an acceptable summary, quotes are used.
    pub models: Vec<Summariser>,
    /// The prompt for a conversation …
    pub prompt: Arc<Prompt>,
    /// … of a topic …
    pub topic: Arc<Prompt>,
    /// … and of several topics.
    pub bulk: Arc<Prompt>,
    /// The number of further requests to a model whose summary is unacceptable. A failed request
    /// was already retried by the model's client and is not repeated.
    pub retries: u32,
}

impl Chain {
    pub(crate) fn prompt(&self, tier: Tier) -> &Arc<Prompt> {
        match tier {
            Tier::Conversation => &self.prompt,
            Tier::Topic => &self.topic,
            Tier::Bulk => &self.bulk,
        }
    }
}

/// Returns the chain for a lead's model in a session with these overrides, if there is one; a named
/// summariser is the only one in the chain.
type Maker = dyn Fn(&str, Option<&str>, &Settings) -> Option<Chain> + Send + Sync;

/// The chain for each lead's model, by its name in definitions. Conversations of a model without a
/// chain are summarised with quotes.
#[derive(Clone, Default)]
pub struct Chains {
    known: BTreeMap<Arc<str>, Arc<Chain>>,
    maker: Option<Arc<Maker>>,
}

impl Chains {
    /// Creates all other chains on demand, because agents may be defined while the program runs.
    /// The function must not block.
    #[must_use]
    pub fn with_maker(
        mut self,
        maker: impl Fn(&str, Option<&str>, &Settings) -> Option<Chain> + Send + Sync + 'static,
    ) -> Chains {
        self.maker = Some(Arc::new(maker));
        self
    }

    /// Adds the chain for a lead's model.
    #[must_use]
    pub fn with(mut self, lead: impl Into<Arc<str>>, chain: Chain) -> Chains {
        self.known.insert(lead.into(), Arc::new(chain));
        self
    }

    /// The chain for conversations of this lead's model, in a session with these overrides; only
    /// the named summariser if a person chose one, none if that is not a model.
    pub fn get(&self, lead: &str, summariser: Option<&str>, own: &Settings) -> Option<Arc<Chain>> {
        if let Some(known) = self.known.get(lead) {
            let mut chain = known.clone();
            if let Some(name) = summariser {
                Arc::make_mut(&mut chain)
                    .models
                    .retain(|model| *model.model == *name);
            }
            return Some(chain);
        }
        let make = self.maker.as_ref()?;
        make(lead, summariser, own).map(Arc::new)
    }
}

impl fmt::Debug for Chains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.known).finish()
    }
}
