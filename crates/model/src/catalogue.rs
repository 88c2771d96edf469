//! The model catalogue: windows, encodings, prices, dates and defaults, from
//! `config/catalogue.toml`, which is generated, and `config/models.toml`, which is written by hand.
//!
//! The second file overrides the first key by key, and a user's file overrides both. A model in
//! none of them gets conservative defaults. A model without a window is flagged [`Entry::assumed`].
//! An unknown provider is an error.

mod entry;
mod file;
mod price;
mod retirement;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::civil::Date;

use crate::dialect::Dialect;
use crate::media::Accepts;

pub use crate::extractive::EXTRACTIVE;
pub use crate::language::{ASSUMED_MAX_OUTPUT, ASSUMED_WINDOW};
pub use entry::{Entry, ModelRef};
pub use file::Error as FileError;
pub use price::{LongPrompt, Price, Prices};
pub use retirement::{FRESH_DAYS, NOTICE_DAYS, Retirement};
pub use unisono_context::cost::Cost;
use unisono_context::{Encoding, Ppm, Tokens};

/// An assumed maximum output is at most a quarter of the window.
const OUTPUT_SHARE: u64 = 4;
/// The default compaction trigger, as a share of the window.
pub const DEFAULT_TRIGGER: Ppm = Ppm::percent(95);
/// The default number of tokens that the `retention` preset keeps verbatim.
pub const DEFAULT_RETENTION: Tokens = Tokens(1_000);
/// The default overhead of a message, in tokens besides its text.
pub const DEFAULT_MESSAGE_OVERHEAD: Tokens = Tokens(4);
/// The default lifetime of a cached prefix since its last use.
pub const DEFAULT_CACHE_LIFETIME: Duration = Duration::from_secs(300);

/// The built-in files; later ones override earlier ones.
const BUILT_IN: [(&str, &str); 2] = [
    (
        "config/catalogue.toml",
        include_str!("../embedded/catalogue.toml"),
    ),
    (
        "config/models.toml",
        include_str!("../embedded/models.toml"),
    ),
];

/// The provider whose models' names tell whether they reason.
const OPENAI: &str = "openai";

/// Why a model cannot be looked up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such provider.
    #[error("unknown provider `{name}`{}; known are: {known}", did_you_mean(.similar.as_deref()))]
    UnknownProvider {
        /// What was asked for.
        name: String,
        /// The nearest known name.
        similar: Option<String>,
        /// All known names.
        known: String,
    },
    /// A name without a provider that is not in the catalogue.
    #[error("model `{name}` names no provider{}; write it as provider/model", did_you_mean(.similar.as_deref()))]
    NoProvider {
        /// What was asked for.
        name: String,
        /// The nearest known reference.
        similar: Option<String>,
    },
    /// A provider without a model.
    #[error("`{name}` names no model; write it as provider/model")]
    NoModel {
        /// What was asked for.
        name: String,
    },
    /// The program does not register this model.
    #[error("this program has no model `{name}`; it has {known}")]
    NotRegistered {
        /// What was asked for.
        name: String,
        /// The models that it registers of this provider.
        known: String,
    },
}

fn did_you_mean(similar: Option<&str>) -> String {
    similar
        .map(|name| format!(", did you mean `{name}`?"))
        .unwrap_or_default()
}

/// All known models and providers.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// The newest generation date in its files.
    generated: Option<Date>,
    providers: BTreeMap<String, file::Provider>,
    /// By `provider/model`.
    models: BTreeMap<String, file::Model>,
}

impl Catalogue {
    /// The built-in catalogue.
    ///
    /// # Errors
    /// Never for the files that this crate was built and tested with.
    pub fn built_in() -> Result<Catalogue, FileError> {
        let empty = Catalogue::default();
        BUILT_IN
            .into_iter()
            .try_fold(empty, |all, (name, text)| all.with_file(name, text))
    }

    /// This catalogue with a user's file, whose keys override the existing ones.
    ///
    /// # Errors
    /// The text is not a catalogue; the error names file, line and key.
    pub fn with_file(mut self, name: &str, text: &str) -> Result<Catalogue, FileError> {
        let file = file::parse(name, text)?;
        self.generated = self.generated.max(file.generated);
        for (key, provider) in file.providers {
            self.providers.entry(key).or_default().merge(provider);
        }
        for (key, model) in file.models {
            let merged = self.models.entry(key.clone()).or_default();
            merged.merge(model);
            if let Some(error) = file::output_exceeds_window(name, text, &key, merged) {
                return Err(error);
            }
        }
        Ok(self)
    }

    /// This catalogue with a provider that serves the models of `like`, a known provider. A
    /// provider that is known already is not changed.
    #[must_use]
    pub fn with_provider(mut self, name: &str, like: &str) -> Catalogue {
        if let Some(known) = self.providers.get(like).cloned()
            && !self.providers.contains_key(name)
        {
            let own = file::Provider {
                models_of: Some(known.models_of.clone().unwrap_or_else(|| like.to_owned())),
                default_model: None,
                // Conversations are not sent to the other provider: the lead's model summarises.
                summariser: None,
                ..known
            };
            self.providers.insert(name.to_owned(), own);
        }
        self
    }

    /// This catalogue with the default model of a known provider that has none, written with or
    /// without the name of the provider.
    #[must_use]
    pub fn with_default_model(mut self, provider: &str, model: &str) -> Catalogue {
        if let Some(known) = self.providers.get_mut(provider)
            && known.default_model.is_none()
        {
            let rest = model.strip_prefix(provider);
            let bare = rest.and_then(|rest| rest.strip_prefix('/'));
            known.default_model = Some(bare.unwrap_or(model).to_owned());
        }
        self
    }

    /// This catalogue with a model that the program registers, as `provider/model`. Its provider
    /// then has only registered models.
    #[must_use]
    pub fn with_program_model(
        mut self,
        name: &str,
        window: Tokens,
        max_output: Tokens,
    ) -> Catalogue {
        let (provider, _) = name.split_once('/').unwrap_or((name, name));
        self.providers
            .entry(provider.to_owned())
            .or_default()
            .is_program = true;
        let model = file::Model {
            window: Some(window),
            max_output: Some(max_output),
            ..file::Model::default()
        };
        self.models.insert(name.to_owned(), model);
        self
    }

    /// Whether a provider of that name is known.
    pub fn has_provider(&self, name: &str) -> bool {
        self.providers.contains_key(name)
    }

    /// The default model of a provider.
    pub fn default_model(&self, provider: &str) -> Option<&str> {
        self.providers.get(provider)?.default_model.as_deref()
    }

    /// Looks up a model. Without a provider the name is `provider/model`, `extractive`, or the bare
    /// name of a known model. A dated name (`gpt-4o-2024-08-06`) finds its undated entry.
    ///
    /// # Errors
    /// When the provider is unknown, or none is named for an unknown model.
    pub fn get(&self, provider: Option<&str>, name: &str) -> Result<Entry, Error> {
        let model = match provider {
            Some(provider) => ModelRef {
                provider: provider.to_owned(),
                model: name.to_owned(),
            },
            None => self.resolve(name)?,
        };
        let Some(defaults) = self.providers.get(&model.provider) else {
            return Err(self.unknown_provider(&model.provider));
        };
        let known = self.find(&model.provider, &model.model).or_else(|| {
            let other = defaults.models_of.as_deref()?;
            // The limits apply here too; prices and dialect may differ.
            self.find(other, &model.model)
                .map(file::Model::without_provider_terms)
        });
        if defaults.is_program && known.is_none() {
            return Err(self.not_registered(&model));
        }
        Ok(entry(model, known, defaults))
    }

    /// Parses a reference: `provider/model`, `extractive`, or the bare name of a known model or of the
    /// default model of a provider. A bare name may have a slash, such as `Qwen/Qwen3-8B`.
    ///
    /// # Errors
    /// When the provider is unknown, or none is named for an unknown model.
    pub fn resolve(&self, reference: &str) -> Result<ModelRef, Error> {
        if reference == EXTRACTIVE {
            return Ok(ModelRef::extractive());
        }
        let parts = reference.split_once('/');
        if let Some((provider, model)) = parts
            && self.providers.contains_key(provider)
        {
            return model_of(provider, model);
        }
        self.bare(reference).ok_or_else(|| match parts {
            Some((provider, _)) => self.unknown_provider(provider),
            None => Error::NoProvider {
                name: reference.to_owned(),
                similar: nearest(reference, self.models.keys().map(String::as_str)),
            },
        })
    }

    /// The known model, or the default model of a provider, with this name.
    fn bare(&self, name: &str) -> Option<ModelRef> {
        let mut providers = self.providers.keys();
        let serves = providers.find(|provider| self.find(provider, name).is_some());
        let by_default = || {
            let mut all = self.providers.iter();
            all.find(|(_, defaults)| defaults.default_model.as_deref() == Some(name))
        };
        let provider = serves.or_else(|| by_default().map(|(provider, _)| provider));
        provider.map(|provider| ModelRef {
            provider: provider.clone(),
            model: name.to_owned(),
        })
    }

    /// The known models of the provider with similar names, the most similar first; at most three.
    pub fn similar(&self, model: &ModelRef) -> Vec<String> {
        let defaults = self.providers.get(&model.provider);
        let other = defaults.and_then(|provider| provider.models_of.as_deref());
        let served = [Some(model.provider.as_str()), other];
        let names = self.models.keys().filter_map(|key| {
            let (provider, name) = key.split_once('/')?;
            served.contains(&Some(provider)).then_some(name)
        });
        let mut alike: Vec<(f64, &str)> = names
            .map(|name| (strsim::jaro_winkler(&model.model, name), name))
            .filter(|(score, name)| *score > ALIKE && *name != model.model)
            .collect();
        alike.sort_by(|a, b| b.0.total_cmp(&a.0));
        alike.truncate(3);
        let reference = |(_, name): (f64, &str)| format!("{}/{name}", model.provider);
        alike.into_iter().map(reference).collect()
    }

    /// The date on which it was generated, if its files have one.
    pub fn generated(&self) -> Option<Date> {
        self.generated
    }

    /// The names of all providers, in order.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.providers.keys().map(String::as_str)
    }

    /// All known models, in order of provider and name.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.models.iter().filter_map(|(key, known)| {
            let (provider, model) = key.split_once('/')?;
            let defaults = self.providers.get(provider)?;
            let model = ModelRef {
                provider: provider.to_owned(),
                model: model.to_owned(),
            };
            Some(entry(model, Some(known.clone()), defaults))
        })
    }

    fn find(&self, provider: &str, model: &str) -> Option<file::Model> {
        let exact = self.models.get(&format!("{provider}/{model}"));
        exact
            .or_else(|| self.models.get(&format!("{provider}/{}", undated(model)?)))
            .cloned()
    }

    fn not_registered(&self, model: &ModelRef) -> Error {
        let of_provider = |name: &&String| {
            let provider = name.split_once('/').map(|(provider, _)| provider);
            provider == Some(model.provider.as_str())
        };
        let known: Vec<&str> = self
            .models
            .keys()
            .filter(of_provider)
            .map(String::as_str)
            .collect();
        Error::NotRegistered {
            name: model.to_string(),
            known: known.join(", "),
        }
    }

    fn unknown_provider(&self, name: &str) -> Error {
        let known: Vec<&str> = self.providers().collect();
        Error::UnknownProvider {
            name: name.to_owned(),
            similar: nearest(name, self.providers()),
            known: known.join(", "),
        }
    }
}

fn model_of(provider: &str, model: &str) -> Result<ModelRef, Error> {
    let name = || format!("{provider}/{model}");
    if model.trim().is_empty() {
        return Err(Error::NoModel { name: name() });
    }
    if provider == EXTRACTIVE && model != EXTRACTIVE {
        let known = EXTRACTIVE.to_owned();
        return Err(Error::NotRegistered {
            name: name(),
            known,
        });
    }
    Ok(ModelRef {
        provider: provider.to_owned(),
        model: model.to_owned(),
    })
}

fn entry(model: ModelRef, known: Option<file::Model>, defaults: &file::Provider) -> Entry {
    let known = known.unwrap_or_default();
    let window = known.window.unwrap_or(ASSUMED_WINDOW);
    let assumed_output = ASSUMED_MAX_OUTPUT.min(Tokens(window.0 / OUTPUT_SHARE));
    let successor = known.successor.or_else(|| {
        let default = defaults.default_model.clone();
        Some(ModelRef {
            provider: model.provider.clone(),
            model: default.filter(|name| *name != model.model)?,
        })
    });
    let (cache_minimum, warm_minimum) = cache_minimums(known.window.is_none(), defaults);
    let is_openai = model.provider == OPENAI;
    let of_openai = is_openai || defaults.models_of.as_deref() == Some(OPENAI);
    let reasons = of_openai && !defaults.is_program && reasons_by_name(&model.model);
    let responses = (reasons && is_openai).then_some(Dialect::OpenAiResponses);
    Entry {
        window,
        beta_window: known.beta_window,
        max_output: known.max_output.unwrap_or(assumed_output),
        encoding: known
            .encoding
            .or(defaults.encoding)
            .unwrap_or(Encoding::O200kBase),
        estimated: defaults.estimated.unwrap_or(true),
        prices: known.prices,
        long_prompt: known.long_prompt,
        cache_minimum: known.cache_minimum.or(cache_minimum),
        warm_minimum: known.warm_minimum.or(warm_minimum),
        cache_lifetime: known
            .cache_seconds
            .or(defaults.cache_seconds)
            .unwrap_or(DEFAULT_CACHE_LIFETIME),
        breakpoints: known.breakpoints.unwrap_or(false),
        think_opened: known.think_opened.unwrap_or(false),
        structured: known.structured.unwrap_or(true),
        reasoning: known.reasoning.unwrap_or(reasons),
        accepts: Accepts {
            images: known.images.unwrap_or(false),
            documents: known.documents.unwrap_or(false),
        },
        dialect: known.dialect.or(responses),
        trigger: known.trigger.unwrap_or(DEFAULT_TRIGGER),
        retention: known.retention.unwrap_or(DEFAULT_RETENTION),
        summariser: known.summariser.unwrap_or_else(|| {
            // Without a configured summariser the model itself summarises.
            defaults.summariser.clone().unwrap_or_else(|| model.clone())
        }),
        message_overhead: known
            .message_overhead
            .or(defaults.message_overhead)
            .unwrap_or(DEFAULT_MESSAGE_OVERHEAD),
        retires: known.retires,
        successor: successor.filter(|other| known.retires.is_some() && *other != model),
        assumed: known.window.is_none(),
        model,
    }
}

/// The provider's minimums of a cached prompt, and of one that is kept warm, for one of its models.
fn cache_minimums(
    is_unlisted: bool,
    defaults: &file::Provider,
) -> (Option<Tokens>, Option<Tokens>) {
    // A provider of another's models may have unlike ones beside them, whose API takes no routing
    // key: Azure has models of a dozen vendors.
    if is_unlisted && defaults.models_of.is_some() {
        return (None, defaults.warm_minimum.or(defaults.cache_minimum));
    }
    (defaults.cache_minimum, defaults.warm_minimum)
}

/// Whether a model of OpenAI reasons if the catalogue does not tell: they do since `o1` and `gpt-5`,
/// except for those that search. `gpt-35-turbo` is Azure's name for an older one.
fn reasons_by_name(name: &str) -> bool {
    let version = match name.strip_prefix("gpt-") {
        Some(version) => Some((version, b'5')),
        None => name.strip_prefix('o').map(|version| (version, b'1')),
    };
    let Some((version, first)) = version else {
        return false;
    };
    let mut bytes = version.bytes();
    let is_new = bytes
        .next()
        .is_some_and(|digit| (first..=b'9').contains(&digit));
    is_new && matches!(bytes.next(), None | Some(b'-' | b'.')) && !name.contains("search")
}

/// The name without a trailing date or `latest`: `-2024-08-06`, `-20241022`, `-0613`, `-latest`.
fn undated(name: &str) -> Option<&str> {
    if let Some(stem) = name.strip_suffix("-latest") {
        return Some(stem);
    }
    ["-0000-00-00", "-00000000", "-0000"]
        .into_iter()
        .find_map(|shape| {
            let (stem, date) = name.split_at_checked(name.len().checked_sub(shape.len())?)?;
            let fits = |(c, s): (u8, u8)| {
                if s == b'0' {
                    c.is_ascii_digit()
                } else {
                    c == s
                }
            };
            date.bytes().zip(shape.bytes()).all(fits).then_some(stem)
        })
}

/// The minimum similarity (Jaro and Winkler, 0 to 1) of a name that is probably a typing error.
const ALIKE: f64 = 0.8;

/// The most similar known name, if there is a similar one.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let score = |candidate: &str| {
        let bare = candidate
            .split_once('/')
            .map_or(candidate, |(_, bare)| bare);
        strsim::jaro_winkler(name, candidate).max(strsim::jaro_winkler(name, bare))
    };
    known
        .map(|candidate| (score(candidate), candidate))
        .filter(|(score, _)| *score > ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}
