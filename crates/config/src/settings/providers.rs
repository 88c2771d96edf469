//! Providers of models: addresses, API keys, timeouts and limits, as configured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use unisono_model::catalogue::{Catalogue, EXTRACTIVE};
use unisono_model::dialect::Dialect;
use unisono_model::provider::{Key, KeyError, Kind, Settings};

use super::header::{self, HeaderFault};
use super::{Sources, TimeText, Variables};
use crate::diagnostic::{Diagnostic, Diagnostics, Place};
use crate::providers::{Access, Providers, Unavailable};

/// `[providers.<name>]`. Missing keys come from the built-in provider of that name, or from the one
/// that it is like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Provider {
    /// The built-in provider that it is like. Required for a name that is not built in.
    pub like: Option<String>,
    /// The OpenAI API that it uses.
    pub api: Option<Api>,
    /// Its address, with the path that comes before the dialect's own.
    pub base_url: Option<String>,
    /// Azure's `api-version`.
    pub api_version: Option<String>,
    /// The environment variable with its API key.
    pub api_key_env: Option<String>,
    /// The file with its API key, absolute. It overrides the variable.
    pub api_key_file: Option<PathBuf>,
    /// Sent with each request.
    pub headers: BTreeMap<String, String>,
    /// The model of agents that name no model, if this provider is selected.
    pub default_model: Option<String>,
    /// Until the connection is established.
    pub connect_timeout: Option<TimeText>,
    /// From the request to the first byte of the reply.
    pub first_byte_timeout: Option<TimeText>,
    /// Between two pieces of a reply.
    pub idle_timeout: Option<TimeText>,
    /// The whole reply.
    pub total_timeout: Option<TimeText>,
    /// Attempts per request, the first included.
    pub attempts: Option<u32>,
    /// The largest reply that is read, in bytes.
    pub reply_cap_bytes: Option<u64>,
    /// Requests per minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens per minute.
    pub tokens_per_minute: Option<u64>,
    /// Simultaneous requests.
    pub max_concurrent: Option<u32>,
    /// How long a request waits for these limits.
    pub queue_timeout: Option<TimeText>,
    /// The slots of its server, each with its own cache; for a server that does not report them.
    pub slots: Option<u32>,
}

/// OpenAI's two interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// Chat Completions.
    Chat,
    /// Responses.
    Responses,
}

/// Where errors in settings are reported.
struct Reader<'r> {
    place: &'r dyn Fn(&[&str]) -> Place,
    found: &'r mut Diagnostics,
}

/// Makes the settings of all providers from the configuration; reads API keys from files and the
/// variables.
pub(super) fn read(
    configured: &BTreeMap<String, Provider>,
    catalogue: &Catalogue,
    sources: &Sources,
    place: &dyn Fn(&[&str]) -> Place,
    found: &mut Diagnostics,
) -> Providers {
    let variables = &sources.variables;
    let mut reader = Reader { place, found };
    let built_in = Kind::ALL.map(|kind| (kind.name(), Provider::default()));
    let mut all: BTreeMap<&str, &Provider> = built_in.iter().map(|(n, p)| (*n, p)).collect();
    all.extend(
        configured
            .iter()
            .map(|(name, table)| (name.as_str(), table)),
    );
    let access = |(name, table): (&str, &Provider)| {
        let kind = reader.kind(name, table)?;
        let default = table.default_model.as_deref();
        let default = default.or_else(|| catalogue.default_model(name));
        let access = Access {
            kind,
            dialect: spoken(kind, table),
            settings: reader.settings(name, kind, table, variables),
            default_model: default.map(|model| qualified(name, model)),
        };
        Some((name.to_owned(), access))
    };
    let own = sources.program.models.keys();
    let own = own.filter_map(|model| model.split_once('/'));
    Providers::new(
        all.into_iter().filter_map(access).collect(),
        own.map(|(provider, _)| provider.to_owned()).collect(),
    )
}

/// Warns of providers with a configured address that are never used: agents that name no model
/// use the offline model, because no provider has a default model.
pub(super) fn warn_of_unused(
    providers: &Providers,
    configured: &BTreeMap<String, Provider>,
    place: &dyn Fn(&[&str]) -> Place,
    found: &mut Diagnostics,
) {
    let unused = configured.iter().filter(|(name, table)| {
        let access = providers.get(name);
        let usable = access.is_some_and(|access| access.settings.is_ok());
        usable && table.base_url.is_some()
    });
    for (name, _) in unused {
        let problem = format!(
            "provider `{name}` has an address and no `default_model`: agents that name no \
             model ask `{EXTRACTIVE}`"
        );
        let key = format!("providers.{name}.default_model");
        let help = format!("set {key} to the name of a model there");
        let diagnostic = Diagnostic::warning(place(&["providers", name, "base_url"]), problem);
        found.push(diagnostic.with_key(key).help(help));
    }
}

/// `provider/model`, for a model that may be written with or without its provider.
fn qualified(provider: &str, model: &str) -> String {
    match model.strip_prefix(provider) {
        Some(rest) if rest.starts_with('/') => model.to_owned(),
        _ => format!("{provider}/{model}"),
    }
}

impl Reader<'_> {
    fn fault(&mut self, name: &str, key: &str, problem: impl ToString) {
        let place = (self.place)(&["providers", name, key]);
        let on = format!("providers.{name}.{key}");
        self.found
            .push(Diagnostic::error(place, problem.to_string()).with_key(on));
    }

    fn warn(&mut self, name: &str, key: &str, problem: impl ToString) {
        let place = (self.place)(&["providers", name, key]);
        let on = format!("providers.{name}.{key}");
        self.found
            .push(Diagnostic::warning(place, problem.to_string()).with_key(on));
    }

    /// The built-in provider whose defaults it has: as configured, otherwise by its own name.
    fn kind(&mut self, name: &str, table: &Provider) -> Option<Kind> {
        let own_kind = Kind::from_name(name);
        match (table.like.as_deref().and_then(Kind::from_name), own_kind) {
            (Some(like), Some(own_kind)) if like != own_kind => {
                let problem = format!("provider `{name}` cannot be like `{like}`");
                self.fault(name, "like", problem);
                None
            }
            (Some(kind), _) | (None, Some(kind)) => Some(kind),
            (None, None) => {
                let known = Kind::ALL.map(Kind::name).join(", ");
                let place = (self.place)(&["providers", name]);
                let problem = format!("provider `{name}` is not built in and not `like` one");
                let help = format!("add like = \"openai-compatible\", or one of {known}");
                self.found.push(
                    Diagnostic::error(place, problem)
                        .with_key(format!("providers.{name}"))
                        .help(help),
                );
                None
            }
        }
    }

    fn settings(
        &mut self,
        name: &str,
        kind: Kind,
        table: &Provider,
        variables: &Variables,
    ) -> Result<Settings, Unavailable> {
        let key = self.key(name, kind, table, variables);
        if kind.address().is_none() && table.base_url.is_none() {
            return Err(Unavailable::Address(name.to_owned()));
        }
        let made = Settings::new(name, kind, table.base_url.as_deref(), key?);
        let mut settings = made.map_err(|error| {
            self.fault(name, "base_url", error);
            Unavailable::Settings
        })?;
        self.dialect(name, table, &mut settings)?;
        self.headers(name, table, &mut settings, variables)?;
        patience(table, &mut settings);
        if let Some(key) = settings.auth.key()
            && !settings.address.is_encrypted()
            && !settings.address.is_loopback()
        {
            let source = key.source();
            let problem = format!(
                "the key from {source} is sent unencrypted to {}",
                settings.address.origin()
            );
            self.warn(name, "base_url", problem);
        }
        settings.check().map_err(|error| {
            self.fault(name, "total_timeout", error);
            Unavailable::Settings
        })?;
        Ok(settings)
    }

    /// The API key: from the file, otherwise from the variable. None for a provider that needs
    /// none.
    fn key(
        &mut self,
        name: &str,
        kind: Kind,
        table: &Provider,
        variables: &Variables,
    ) -> Result<Option<Key>, Unavailable> {
        let (setting, found) = match (&table.api_key_file, &table.api_key_env) {
            (Some(path), _) => ("api_key_file", from_file(path)),
            (None, Some(variable)) => ("api_key_env", variables.key(&[variable])),
            (None, None) if Kind::from_name(name).is_some() => {
                ("api_key_env", variables.key(kind.key_variables()))
            }
            // The API key of a built-in provider is not used for another provider with its
            // defaults.
            (None, None) => ("api_key_env", Ok(None)),
        };
        let key = found.map_err(|error| {
            self.fault(name, setting, error);
            Unavailable::Settings
        })?;
        if let Some(warning) = key.as_ref().and_then(Key::warning) {
            let warning = warning.clone();
            self.warn(name, setting, warning);
        }
        let own_address = table.base_url.is_some() && Kind::from_name(name).is_none();
        if key.is_some() || !kind.needs_key() || own_address {
            return Ok(key);
        }
        let variables = match &table.api_key_env {
            Some(variable) => variable.clone(),
            None => kind.key_variables().join(" or "),
        };
        Err(Unavailable::Key {
            provider: name.to_owned(),
            variables,
        })
    }

    fn dialect(
        &mut self,
        name: &str,
        table: &Provider,
        settings: &mut Settings,
    ) -> Result<(), Unavailable> {
        let speaks_openai = settings.dialect == Dialect::OpenAiChat;
        match table.api {
            Some(_) if !speaks_openai => {
                let kind = settings.kind;
                let problem =
                    format!("provider `{name}` is like `{kind}`, which has one interface");
                self.fault(name, "api", problem);
                return Err(Unavailable::Settings);
            }
            Some(_) | None => settings.dialect = spoken(settings.kind, table),
        }
        if let Some(version) = &table.api_version {
            settings.address.api_version = Some(version.clone());
            settings.address.deployments = settings.kind == Kind::Azure;
        }
        Ok(())
    }

    fn headers(
        &mut self,
        name: &str,
        table: &Provider,
        settings: &mut Settings,
        variables: &Variables,
    ) -> Result<(), Unavailable> {
        for (header, value) in &table.headers {
            match header::read(header, value, variables) {
                Ok(header) => settings.headers.push(header),
                // Only who asks the provider needs it.
                Err(unset @ HeaderFault::Unset { .. }) => {
                    self.warn(name, "headers", &unset);
                    return Err(Unavailable::Header(unset.to_string()));
                }
                Err(problem) => {
                    self.fault(name, "headers", problem);
                    return Err(Unavailable::Settings);
                }
            }
        }
        Ok(())
    }
}

fn spoken(kind: Kind, table: &Provider) -> Dialect {
    match (kind.dialect(), table.api) {
        (Dialect::OpenAiChat, Some(Api::Responses)) => Dialect::OpenAiResponses,
        (dialect, _) => dialect,
    }
}

fn from_file(path: &Path) -> Result<Option<Key>, KeyError> {
    Key::from_file(path).map(Some)
}

/// Timeouts and limits, if set.
fn patience(table: &Provider, settings: &mut Settings) {
    let set = |to: &mut Duration, from: &Option<TimeText>| {
        if let Some(time) = from {
            *to = Duration::from_millis(time.ms());
        }
    };
    let timeouts = &mut settings.timeouts;
    set(&mut timeouts.connect, &table.connect_timeout);
    set(&mut timeouts.first_byte, &table.first_byte_timeout);
    set(&mut timeouts.idle, &table.idle_timeout);
    set(&mut timeouts.total, &table.total_timeout);
    set(&mut settings.limits.queue, &table.queue_timeout);
    if let Some(attempts) = table.attempts {
        settings.retry.attempts = attempts;
    }
    if let Some(bytes) = table.reply_cap_bytes {
        settings.caps.response = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    let limits = &mut settings.limits;
    limits.requests_per_minute = table.requests_per_minute.or(limits.requests_per_minute);
    limits.tokens_per_minute = table.tokens_per_minute.or(limits.tokens_per_minute);
    let concurrent = table.max_concurrent.and_then(|n| usize::try_from(n).ok());
    limits.concurrent = concurrent.or(limits.concurrent);
}
