//! Who writes summaries: models one after the other, before quotes are taken.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use unisono_context::checkpoint::Tier;
use unisono_context::tokens::Count;
use unisono_context::{Encoding, Ppm, Tokens};
use unisono_model::summariser::Prompt;
use unisono_session::state::Settings;

/// A model that writes summaries, and what it can take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summariser {
    /// The model, as [`Models`](unisono_model::language::Models) knows it.
    pub model: Arc<str>,
    /// Its window: input and output together.
    pub window: Tokens,
    /// Its longest reply.
    pub max_output: Tokens,
    /// The encoding that counts for it.
    pub encoding: Encoding,
    /// The most tokens it may make of one that is counted: more than one where its own encoding
    /// is not known.
    pub scale: Ppm,
}

impl Summariser {
    /// The most tokens the model will count where so many were counted.
    pub(super) fn bound(&self, count: Count) -> Tokens {
        let millionths = u128::from(count.at_most.0) * u128::from(self.scale.0);
        Tokens(u64::try_from(millionths.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

/// The models that are asked for a summary, in order, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The models. Where none of them writes a summary that can be taken, quotes are.
    pub models: Vec<Summariser>,
    /// What they are told of a conversation …
    pub prompt: Arc<Prompt>,
    /// … of a topic …
    pub topic: Arc<Prompt>,
    /// … and of several topics.
    pub bulk: Arc<Prompt>,
    /// How often one is asked again where its summary cannot be taken. A request that fails was
    /// tried again by the model's client and is not repeated.
    pub retries: u32,
}

impl Chain {
    /// What they are told of what is to become a summary of that tier.
    pub(super) fn prompt(&self, tier: Tier) -> &Arc<Prompt> {
        match tier {
            Tier::Conversation => &self.prompt,
            Tier::Topic => &self.topic,
            Tier::Bulk => &self.bulk,
        }
    }
}

/// Gives the chain of a lead's model in a session with such settings, if there is one; of that one
/// summariser where it is named.
type Maker = dyn Fn(&str, Option<&str>, &Settings) -> Option<Chain> + Send + Sync;

/// The chain for each model that leads conversations, by its name in definitions. Conversations
/// of a model without one are summarised with quotes.
#[derive(Clone, Default)]
pub struct Chains {
    known: BTreeMap<Arc<str>, Arc<Chain>>,
    maker: Option<Arc<Maker>>,
}

impl Chains {
    /// Has every other chain made when it is asked for: agents may be defined while the program
    /// works. It must not block.
    #[must_use]
    pub fn with_maker(
        mut self,
        maker: impl Fn(&str, Option<&str>, &Settings) -> Option<Chain> + Send + Sync + 'static,
    ) -> Chains {
        self.maker = Some(Arc::new(maker));
        self
    }

    /// Adds the chain for the conversations of a model.
    #[must_use]
    pub fn with(mut self, lead: impl Into<Arc<str>>, chain: Chain) -> Chains {
        self.known.insert(lead.into(), Arc::new(chain));
        self
    }

    /// The chain for the conversations of that model, in a session with such settings: of the named
    /// summariser alone where a person chose one, none where that is no model.
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
