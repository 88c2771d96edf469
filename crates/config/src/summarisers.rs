//! The summarisers of conversations: the available models and their prompt.

use std::collections::BTreeSet;
use std::sync::Arc;

use unisono_context::digest::Hasher;
use unisono_context::policy::{Method, Policy};
use unisono_context::{Digest, Ppm, Tokens};
use unisono_model::Tokenizer;
use unisono_model::calibration::Calibrations;
use unisono_model::catalogue::{EXTRACTIVE, Entry};
use unisono_model::summariser::{BULK, Limits, Prompt, TOPIC, TooSmall, check_window};
use unisono_runtime::{Chain, Summariser};

use crate::agents::{self, Roster};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::settings::Loaded;

/// The models that summarise conversations led by `lead`, in order; none: quotes are used. A model
/// whose provider is unavailable is omitted.
pub fn models(loaded: &Loaded, lead: &str) -> Vec<Entry> {
    let Ok(lead) = loaded.catalogue.get(None, lead) else {
        return Vec::new();
    };
    let names = loaded.config.compaction.writers(&lead).names;
    askable(loaded, &names)
}

/// The available models of this list, up to the one that uses quotes.
fn askable(loaded: &Loaded, names: &[String]) -> Vec<Entry> {
    let entries = names.iter().map_while(|name| {
        let entry = loaded.catalogue.get(None, name).ok()?;
        (entry.model.provider != EXTRACTIVE).then_some(entry)
    });
    entries
        .filter(|entry| loaded.can_ask(&entry.model.provider))
        .collect()
}

/// The models of all agents: each of them may lead.
fn leads(roster: &Roster) -> BTreeSet<Arc<str>> {
    let agents = roster.iter();
    agents.map(|agent| agent.definition.model.clone()).collect()
}

/// The chain for the conversations that a model leads; without models if none can be asked.
pub fn chain(
    loaded: &Loaded,
    calibrations: &Calibrations,
    lead: &str,
    summariser: Option<&str>,
) -> Option<Chain> {
    let models = match summariser {
        Some(name) => askable(loaded, &[name.to_owned()]),
        None => models(loaded, lead),
    };
    let models: Vec<Summariser> = models
        .iter()
        .map(|entry| limits(entry, calibrations))
        .collect();
    let entry = loaded.catalogue.get(None, lead).ok()?;
    let writers = loaded.config.compaction.writers(&entry);
    let prompt = |name: &str| {
        let prompt = loaded.prompts.get(name)?.as_ref().clone();
        Some(Arc::new(prompt.in_style(writers.style)))
    };
    Some(Chain {
        models,
        prompt: prompt(&writers.prompt)?,
        topic: prompt(TOPIC)?,
        bulk: prompt(BULK)?,
        retries: writers.retries,
    })
}

/// Digest of the settings by which models write summaries of the conversations that a model leads;
/// none: no model does.
pub fn digest(loaded: &Loaded, lead: &str) -> Option<Digest> {
    let chain = chain(loaded, &Calibrations::default(), lead, None)?;
    if chain.models.is_empty() {
        return None;
    }
    let mut h = Hasher::new("unisono/summarisers", 1);
    for summariser in &chain.models {
        h.str(&summariser.model);
    }
    h.str(&format!("{:?}", chain.prompt));
    h.u64(chain.retries.into());
    Some(h.finish())
}

fn limits(entry: &Entry, calibrations: &Calibrations) -> Summariser {
    let model: Arc<str> = entry.model.to_string().into();
    let known = calibrations.get(&model);
    let limits = agents::limits(entry).within(known.window(entry.window));
    let most = Ppm::from_fraction(known.ratio() * (1.0 + known.band()));
    Summariser {
        window: limits.window,
        max_output: limits.max_output,
        encoding: entry.encoding,
        scale: most.filter(|_| entry.estimated).unwrap_or(Ppm::ONE),
        model,
    }
}

/// Reports each named summariser that is unavailable, and each prompt that leaves no room in the
/// window of its summariser.
pub(crate) fn check(loaded: &Loaded, roster: &Roster, found: &mut Diagnostics) {
    for (path, names) in loaded.config.compaction.summarisers() {
        for name in names {
            let entry = loaded.catalogue.get(None, name);
            let provider = entry.map(|entry| entry.model.provider);
            let lacks = provider.map(|provider| loaded.providers.unavailable_reason(&provider));
            if let Ok(Some(lacks)) = lacks {
                let problem = format!("summariser `{name}` is left out: {lacks}");
                let place = loaded.place(&path);
                found.push(Diagnostic::warning(place, problem).with_key(path.join(".")));
            }
        }
    }
    let unknown = Calibrations::default();
    for lead in leads(roster) {
        let Ok(entry) = loaded.catalogue.get(None, &lead) else {
            continue;
        };
        let policy = loaded.policy_for(&entry);
        let Some(chain) = chain(loaded, &unknown, &lead, None) else {
            continue;
        };
        for summariser in &chain.models {
            for (name, prompt, cap) in prompts(&chain, &policy) {
                let Err(error) = fits(prompt, summariser, cap) else {
                    continue;
                };
                let place = loaded.place(&["compaction", "prompt"]);
                let problem = format!("summariser `{}`, {name}: {error}", summariser.model);
                found.push(Diagnostic::error(place, problem).with_key("compaction.prompt"));
            }
        }
    }
}

/// Why a summariser that a person chose is unavailable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SummariserUnavailable {
    /// It is unknown.
    #[error("summariser `{name}`: {reason}")]
    Unknown {
        /// The requested name.
        name: String,
        /// The reason.
        reason: String,
    },
    /// Its provider is unavailable.
    #[error("summariser `{name}` is not usable: {lacks}")]
    Lacks {
        /// The requested name.
        name: String,
        /// The reason.
        lacks: String,
    },
    /// Its prompt leaves no room in its window.
    #[error("summariser `{name}`, {prompt}: {reason}")]
    TooSmall {
        /// The requested name.
        name: String,
        /// The prompt.
        prompt: &'static str,
        /// The numbers.
        reason: TooSmall,
    },
}

/// Whether the summariser that a person chose can summarise a conversation that `lead` leads under
/// that policy.
///
/// # Errors
/// The reason.
pub fn check_chosen(
    loaded: &Loaded,
    lead: &str,
    policy: &Policy,
    name: &str,
) -> Result<(), SummariserUnavailable> {
    let entry = loaded.catalogue.get(None, name);
    let entry = entry.map_err(|error| SummariserUnavailable::Unknown {
        name: name.to_owned(),
        reason: error.to_string(),
    })?;
    let provider = &entry.model.provider;
    if let Some(lacks) = loaded.providers.unavailable_reason(provider) {
        let name = name.to_owned();
        return Err(SummariserUnavailable::Lacks { name, lacks });
    }
    let Some(chain) = chain(loaded, &Calibrations::default(), lead, Some(name)) else {
        return Ok(());
    };
    for summariser in &chain.models {
        for (prompt, text, cap) in prompts(&chain, policy) {
            fits(text, summariser, cap).map_err(|reason| SummariserUnavailable::TooSmall {
                name: name.to_owned(),
                prompt,
                reason,
            })?;
        }
    }
    Ok(())
}

/// The prompts that a policy uses, with the maximum tokens of their summaries.
fn prompts<'c>(chain: &'c Chain, policy: &Policy) -> Vec<(&'static str, &'c Prompt, Tokens)> {
    let mut prompts: Vec<(&'static str, &'c Prompt, Tokens)> = Vec::new();
    if let Method::Summarise { cap } = policy.method {
        prompts.push(("its prompt", &chain.prompt, cap));
    }
    if let Some(tiers) = policy.tiers() {
        prompts.push(("prompt `topic`", &chain.topic, tiers.topic_cap));
        prompts.push(("prompt `bulk`", &chain.bulk, tiers.bulk_cap));
    }
    prompts
}

fn fits(prompt: &Prompt, summariser: &Summariser, cap: Tokens) -> Result<(), TooSmall> {
    let limits = Limits {
        window: summariser.window,
        max_output: summariser.max_output,
        cap,
    };
    let bound = |tokens: u64| {
        let scaled = u128::from(tokens) * u128::from(summariser.scale.0);
        u64::try_from(scaled.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    };
    // A token has at least one byte: mostly no count is needed.
    let by_bytes = check_window(prompt, limits, &|text| bound(text.len() as u64));
    let exactly = |tokenizer: Tokenizer| {
        check_window(prompt, limits, &|text| {
            bound(tokenizer.count(text).at_most.0)
        })
    };
    by_bytes.or_else(|error| match Tokenizer::load(summariser.encoding) {
        Ok(tokenizer) => exactly(tokenizer),
        Err(_) => Err(error),
    })
}
