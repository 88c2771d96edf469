//! The providers of models, built in or configured, each with its address, its API key and its
//! limits, or with the reason why it is unavailable.

use std::collections::{BTreeMap, BTreeSet};

use unisono_model::catalogue::EXTRACTIVE;
use unisono_model::dialect::Dialect;
use unisono_model::provider::{Kind, Settings};

/// The order in which the default model is selected.
const PREFERRED: [&str; 3] = ["anthropic", "openai", "gemini"];

/// Every provider by its name.
#[derive(Clone, Debug, Default)]
pub struct Providers {
    all: BTreeMap<String, Access>,
    /// Providers of the program itself, which are always available.
    own: BTreeSet<String>,
}

/// A provider, and whether it is available.
#[derive(Clone, Debug)]
pub struct Access {
    /// The built-in provider whose defaults it has.
    pub kind: Kind,
    /// The dialect of its requests, whether or not it is available.
    pub dialect: Dialect,
    /// Its settings, or the reason why it is unavailable.
    pub settings: Result<Settings, Unavailable>,
    /// The model of agents that name no model, if this provider is selected.
    pub default_model: Option<String>,
}

/// The reason why a provider is unavailable, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// It has no address.
    #[error("it has no address: set providers.{0}.base_url")]
    Address(String),
    /// It has no API key.
    #[error("no key: set {variables} or providers.{provider}.api_key_file")]
    Key {
        /// The provider.
        provider: String,
        /// The variables that were searched.
        variables: String,
    },
    /// The variable of one of its headers is not set.
    #[error("{0}")]
    Header(String),
    /// Its settings are wrong; the diagnostics say how.
    #[error("its settings are invalid")]
    Settings,
}

impl Providers {
    /// The configured providers, and the names of those that the program registers itself.
    pub(crate) fn new(all: BTreeMap<String, Access>, own: BTreeSet<String>) -> Providers {
        Providers { all, own }
    }

    /// The provider of that name.
    pub fn get(&self, name: &str) -> Option<&Access> {
        self.all.get(name)
    }

    /// Why that provider is unavailable, for people; none: it is available.
    pub fn unavailable_reason(&self, name: &str) -> Option<String> {
        if name == EXTRACTIVE || self.own.contains(name) {
            return None;
        }
        match self.get(name).map(|access| &access.settings) {
            Some(Ok(_)) => None,
            Some(Err(lacks)) => Some(lacks.to_string()),
            None => Some(format!("provider `{name}` is not configured")),
        }
    }

    /// The origin of that provider's API key: ` (key from the variable OPENAI_API_KEY)`.
    pub fn key_of(&self, name: &str) -> Option<String> {
        let settings = self.get(name)?.settings.as_ref().ok()?;
        let key = settings.auth.key()?;
        Some(format!(" (key from {})", key.source()))
    }

    /// All providers, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Access)> {
        self.all
            .iter()
            .map(|(name, access)| (name.as_str(), access))
    }

    /// The model of agents that name no model: that of the first available provider, otherwise the
    /// offline model. A provider without its own API key counts only if a person set its address.
    pub fn default_model(&self) -> &str {
        let preferred = PREFERRED
            .into_iter()
            .filter_map(|name| self.all.get_key_value(name));
        let others = self
            .all
            .iter()
            .filter(|(name, _)| !PREFERRED.contains(&name.as_str()));
        let mut all = preferred.chain(others);
        let usable = all.find_map(|(_, access)| {
            access.settings.as_ref().ok()?;
            access.default_model.as_deref()
        });
        usable.unwrap_or(EXTRACTIVE)
    }
}
