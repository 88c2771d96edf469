//! The catalogue's file format. Every key is optional, so that a user's file can override one.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::civil::Date;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use unisono_context::{Encoding, Ppm, Tokens};

use super::price::{LongPrompt, Price, Prices};
use super::{EXTRACTIVE, ModelRef, OUTPUT_SHARE, nearest};
use crate::dialect::Dialect;

/// The longest plausible lifetime of a cached prefix, in seconds.
const LONGEST_CACHE: u64 = 86_400;

/// A catalogue file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {}{reason}", key.as_ref().map(|k| format!("`{k}`: ")).unwrap_or_default())]
pub struct Error {
    /// The file's name.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The key on that line, if there is one.
    pub key: Option<String>,
    /// The problem.
    pub reason: String,
}

/// Parses a file; `name` is for errors.
pub(super) fn parse(name: &str, text: &str) -> Result<File, Error> {
    let file: File = toml::from_str(text).map_err(|error| {
        let reason = with_nearest_key(error.message());
        error_at(
            name,
            text,
            error.span().map_or(0, |span| span.start),
            reason,
        )
    })?;
    match file.models.keys().find(|key| !key.contains('/')) {
        Some(key) => {
            let offset = text
                .find(&format!("\"{key}\""))
                .or_else(|| text.find(key.as_str()));
            let reason = format!("model `{key}` must be named \"provider/model\"");
            Err(error_at(name, text, offset.unwrap_or(0), reason))
        }
        None => Ok(file),
    }
}

/// The error message; the list of expected keys is replaced by the most similar one, if there is
/// one.
fn with_nearest_key(message: &str) -> String {
    let near = message
        .split_once(", expected ")
        .and_then(|(what, expected)| {
            let unknown = what.strip_prefix("unknown field `")?.strip_suffix('`')?;
            let known = expected.split('`').skip(1).step_by(2);
            Some(format!(
                "{what}, did you mean `{}`?",
                nearest(unknown, known)?
            ))
        });
    near.unwrap_or_else(|| message.to_owned())
}

/// The error if a model's maximum output leaves no room for an input in its window.
pub(super) fn output_exceeds_window(
    name: &str,
    text: &str,
    key: &str,
    merged: &Model,
) -> Option<Error> {
    let (window, output) = (merged.window?, merged.max_output?);
    if output < window {
        return None;
    }
    let own = [format!("\"{key}\""), format!("'{key}'")];
    let table = own.iter().find_map(|own| text.find(own)).unwrap_or(0);
    let rest = text.get(table..).unwrap_or_default();
    let of_table = rest.find("\n[").map_or(rest, |end| &rest[..end]);
    let line = ["max_output", "window"]
        .into_iter()
        .find_map(|key| of_table.find(&format!("\n{key}")))
        .map_or(table, |line| table + line + 1);
    let reason = format!(
        "model `{key}` has a window of {window} tokens and max_output = {output}: nothing is left \
         for a question; write a max_output below the window, such as {}",
        window.0 / OUTPUT_SHARE
    );
    Some(error_at(name, text, line, reason))
}

fn error_at(file: &str, text: &str, offset: usize, reason: String) -> Error {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let source = text.lines().nth(line - 1).unwrap_or_default();
    let key = match source.split_once('=') {
        Some((key, _)) => key.trim(),
        None => source.trim().trim_matches(['[', ']']),
    };
    let key = (!key.is_empty()).then(|| key.to_owned());
    Error {
        file: file.to_owned(),
        line,
        key,
        reason,
    }
}

/// Overrides those of the fields that `over` has.
macro_rules! merge_fields {
    ($own:expr, $over:ident: $($field:ident),+) => {
        $(replace_if_set(&mut $own.$field, $over.$field);)+
    };
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// The date on which it was generated, if it was.
    #[serde(default, deserialize_with = "date")]
    pub(super) generated: Option<Date>,
    #[serde(default)]
    pub(super) providers: BTreeMap<String, Provider>,
    #[serde(default)]
    pub(super) models: BTreeMap<String, Model>,
}

/// Defaults for all models of a provider.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Provider {
    #[serde(deserialize_with = "encoding")]
    pub(super) encoding: Option<Encoding>,
    pub(super) estimated: Option<bool>,
    #[serde(deserialize_with = "tokens")]
    pub(super) cache_minimum: Option<Tokens>,
    #[serde(deserialize_with = "tokens")]
    pub(super) warm_minimum: Option<Tokens>,
    #[serde(deserialize_with = "seconds")]
    pub(super) cache_seconds: Option<Duration>,
    #[serde(deserialize_with = "model_ref")]
    pub(super) summariser: Option<ModelRef>,
    #[serde(deserialize_with = "tokens")]
    pub(super) message_overhead: Option<Tokens>,
    /// Another provider whose models this one serves too.
    pub(super) models_of: Option<String>,
    pub(super) default_model: Option<String>,
    /// Whether it has only models that the program registers.
    #[serde(skip)]
    pub(super) is_program: bool,
}

impl Provider {
    /// Overrides each key that `over` has.
    pub(super) fn merge(&mut self, over: Provider) {
        merge_fields!(
            self, over: encoding, estimated, cache_minimum, warm_minimum, cache_seconds, summariser,
            message_overhead, models_of, default_model
        );
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Model {
    #[serde(deserialize_with = "positive")]
    pub(super) window: Option<Tokens>,
    #[serde(deserialize_with = "positive")]
    pub(super) beta_window: Option<Tokens>,
    #[serde(deserialize_with = "tokens")]
    pub(super) max_output: Option<Tokens>,
    #[serde(deserialize_with = "encoding")]
    pub(super) encoding: Option<Encoding>,
    #[serde(rename = "price", deserialize_with = "prices")]
    pub(super) prices: Prices,
    #[serde(deserialize_with = "long_prompt")]
    pub(super) long_prompt: Option<LongPrompt>,
    #[serde(deserialize_with = "tokens")]
    pub(super) cache_minimum: Option<Tokens>,
    #[serde(deserialize_with = "tokens")]
    pub(super) warm_minimum: Option<Tokens>,
    #[serde(deserialize_with = "seconds")]
    pub(super) cache_seconds: Option<Duration>,
    pub(super) breakpoints: Option<bool>,
    pub(super) reasoning: Option<bool>,
    pub(super) think_opened: Option<bool>,
    pub(super) structured: Option<bool>,
    pub(super) images: Option<bool>,
    pub(super) documents: Option<bool>,
    #[serde(deserialize_with = "dialect")]
    pub(super) dialect: Option<Dialect>,
    #[serde(deserialize_with = "share")]
    pub(super) trigger: Option<Ppm>,
    #[serde(deserialize_with = "tokens")]
    pub(super) retention: Option<Tokens>,
    #[serde(deserialize_with = "model_ref")]
    pub(super) summariser: Option<ModelRef>,
    #[serde(deserialize_with = "tokens")]
    pub(super) message_overhead: Option<Tokens>,
    #[serde(deserialize_with = "date")]
    pub(super) retires: Option<Date>,
    #[serde(deserialize_with = "model_ref")]
    pub(super) successor: Option<ModelRef>,
}

impl Model {
    /// Overrides each key that `over` has.
    pub(super) fn merge(&mut self, over: Model) {
        let (prices, own_prices) = (over.prices, &mut self.prices);
        merge_fields!(own_prices, prices: input, output, cache_read, cache_write);
        merge_fields!(
            self, over: window, beta_window, max_output, encoding, long_prompt, cache_minimum,
            warm_minimum, cache_seconds, breakpoints, reasoning, think_opened, structured, images,
            documents, dialect, trigger, retention, summariser, message_overhead, retires, successor
        );
    }

    /// The same model at another provider, without prices, endpoints and dates.
    pub(super) fn without_provider_terms(self) -> Model {
        Model {
            prices: Prices::default(),
            long_prompt: None,
            dialect: None,
            retires: None,
            successor: None,
            summariser: None,
            ..self
        }
    }
}

fn replace_if_set<T>(value: &mut Option<T>, over: Option<T>) {
    if over.is_some() {
        *value = over;
    }
}

fn tokens<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Tokens>, D::Error> {
    u64::deserialize(from).map(|n| Some(Tokens(n)))
}

fn positive<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Tokens>, D::Error> {
    match u64::deserialize(from)? {
        0 => Err(D::Error::custom("must be at least 1 token")),
        n => Ok(Some(Tokens(n))),
    }
}

fn share<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Ppm>, D::Error> {
    let fraction = f64::deserialize(from)?;
    match Ppm::from_fraction(fraction) {
        Some(share) if share > Ppm(0) && share <= Ppm::ONE => Ok(Some(share)),
        _ => Err(D::Error::custom("must be a share above 0, at most 1.0")),
    }
}

fn encoding<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Encoding>, D::Error> {
    let name = String::deserialize(from)?;
    Encoding::from_name(&name).map(Some).ok_or_else(|| {
        let known = Encoding::ALL.map(Encoding::name).join(", ");
        D::Error::custom(format!("unknown encoding `{name}`; known are: {known}"))
    })
}

fn model_ref<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ModelRef>, D::Error> {
    let text = String::deserialize(from)?;
    match text.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
            Ok(Some(ModelRef {
                provider: provider.to_owned(),
                model: model.to_owned(),
            }))
        }
        None if text == EXTRACTIVE => Ok(Some(ModelRef::extractive())),
        _ => Err(D::Error::custom(format!(
            "`{text}` must be provider/model, or {EXTRACTIVE}"
        ))),
    }
}

/// A date, quoted or not.
fn date<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Date>, D::Error> {
    let text = match toml::Value::deserialize(from)? {
        toml::Value::String(text) => text,
        other => other.to_string(),
    };
    match text.parse() {
        Ok(date) => Ok(Some(date)),
        Err(_) => Err(D::Error::custom(format!(
            "`{text}` must be a date such as 2026-11-30"
        ))),
    }
}

fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    match u64::deserialize(from)? {
        n @ 1..=LONGEST_CACHE => Ok(Some(Duration::from_secs(n))),
        _ => Err(D::Error::custom(format!(
            "must be 1 to {LONGEST_CACHE} seconds"
        ))),
    }
}

fn dialect<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Dialect>, D::Error> {
    let name = String::deserialize(from)?;
    Dialect::from_name(&name).map(Some).ok_or_else(|| {
        let known = Dialect::ALL.map(Dialect::name).join(", ");
        D::Error::custom(format!("unknown dialect `{name}`; known are: {known}"))
    })
}

/// Dollars per million tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Dollars {
    input: Option<f64>,
    output: Option<f64>,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

impl Dollars {
    fn exact<E: serde::de::Error>(self) -> Result<Prices, E> {
        let exact = |key: &str, amount: Option<f64>| {
            let Some(amount) = amount else {
                return Ok(None);
            };
            Price::from_dollars(amount).map(Some).ok_or_else(|| {
                let rule = "dollars per million tokens, at least 0, at most six decimal places";
                E::custom(format!("{key} = {amount} must be {rule}"))
            })
        };
        Ok(Prices {
            input: exact("input", self.input)?,
            output: exact("output", self.output)?,
            cache_read: exact("cache_read", self.cache_read)?,
            cache_write: exact("cache_write", self.cache_write)?,
        })
    }
}

fn prices<'de, D: Deserializer<'de>>(from: D) -> Result<Prices, D::Error> {
    Dollars::deserialize(from)?.exact()
}

/// Dollars per million tokens, for inputs above `over` tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LongDollars {
    over: u64,
    input: Option<f64>,
    output: Option<f64>,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

fn long_prompt<'de, D: Deserializer<'de>>(from: D) -> Result<Option<LongPrompt>, D::Error> {
    let long = LongDollars::deserialize(from)?;
    if long.over == 0 {
        return Err(D::Error::custom("over = 0 must be at least 1 token"));
    }
    let prices = Dollars {
        input: long.input,
        output: long.output,
        cache_read: long.cache_read,
        cache_write: long.cache_write,
    };
    Ok(Some(LongPrompt {
        over: Tokens(long.over),
        prices: prices.exact()?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/src/reference/catalogue.md");

    /// The keys that a table takes, as its error lists them.
    fn keys(table: &str) -> Vec<String> {
        let text = format!("[{table}]\nno_such_key = 1\n");
        let error = toml::from_str::<File>(&text).unwrap_err();
        let (_, expected) = error.message().split_once(", expected ").unwrap();
        let known = expected.split('`').skip(1).step_by(2);
        known.map(str::to_owned).collect()
    }

    /// The first column of the tables of a section.
    fn rows(section: &str) -> Vec<&str> {
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
        rows.filter_map(|row| row.split('`').next()).collect()
    }

    #[test]
    fn the_book_has_every_key_and_no_other() {
        let (_, models) = PAGE.split_once("\n## Keys of a model").unwrap();
        let (models, providers) = models.split_once("\n## Keys of a provider").unwrap();
        let (providers, _) = providers.split_once("\n## ").unwrap();
        let known = keys("models.\"a/b\"");
        assert!(known.len() > 15, "{known:?}");
        for key in &known {
            assert!(rows(models).contains(&key.as_str()), "{key} is missing");
        }
        for row in rows(models) {
            assert!(known.iter().any(|key| key == row), "there is no {row}");
        }
        let known = keys("providers.own");
        for key in &known {
            assert!(providers.contains(&format!("`{key}`")), "{key} is missing");
        }
        for row in rows(providers) {
            assert!(known.iter().any(|key| key == row), "there is no {row}");
        }
    }
}
