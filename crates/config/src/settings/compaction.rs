//! The numbers of compaction, and the policy that they define for a model.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use unisono_context::policy::{Keep, Masking, Method, ModelQuota, Policy, Preset, Tiers, Trigger};
use unisono_context::{Ppm, Tokens};
use unisono_model::catalogue::Entry;
use unisono_model::summariser::{GENERAL, Style};

use super::tiers::{TierNumbers, phrases, tiers};

const HOUR_MS: i64 = 3_600_000;
/// Equal to the defaults file; a program may be configured without that file.
const RETRIES: u32 = 2;

/// `[compaction]`: the numbers for every model, for a provider, and for one model.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Compaction {
    /// For every model.
    #[serde(flatten)]
    pub all: Numbers,
    /// For the models of a provider.
    #[serde(default)]
    pub providers: BTreeMap<String, Numbers>,
    /// For one model, by `provider/model`.
    #[serde(default)]
    pub models: BTreeMap<String, Numbers>,
}

/// Numbers that replace those of a preset.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Numbers {
    /// The preset, by name.
    pub preset: Option<String>,
    /// Starts above this many tokens.
    pub trigger_tokens: Option<u64>,
    /// Starts above this share of the window.
    pub trigger_of_window: Option<f64>,
    /// Starts above this share of the usable tokens.
    pub trigger_of_usable: Option<f64>,
    /// Never starts below this many tokens.
    pub minimum_tokens: Option<u64>,
    /// Ends at or below this share of the trigger.
    pub target: Option<f64>,
    /// Newest messages that stay.
    pub keep_messages: Option<u32>,
    /// Tokens of the newest messages that stay.
    pub keep_tokens: Option<u64>,
    /// Share of the history that stays.
    pub keep_share: Option<f64>,
    /// With `keep_tokens`: messages the start may move to reach a user's message.
    pub align: Option<u32>,
    /// Maximum tokens of a summary.
    pub summary_cap_tokens: Option<u64>,
    /// Tool results over this many tokens are masked.
    pub mask_over_tokens: Option<u64>,
    /// Number of newest tool results that are not masked.
    pub mask_keep_newest: Option<u32>,
    /// Number of summaries by language models …
    pub model_checkpoints: Option<u32>,
    /// … in this number of hours.
    pub model_checkpoints_per_hours: Option<u32>,
    /// Share of the window that stays free.
    pub safety: Option<f64>,
    /// Seconds for one compaction; for all models only.
    pub deadline_seconds: Option<u64>,
    /// Whether a turn reports an automatic compaction: `on` or `off`; for all models only.
    pub notice: Option<String>,
    /// Whether a summary that the next turn will probably need is written ahead: `on` or `off`; for
    /// all models only.
    pub prepare: Option<String>,
    /// The summarisers, in this order.
    pub summarisers: Option<Vec<String>>,
    /// Their prompt: its name, or the absolute path of its file.
    pub prompt: Option<String>,
    /// The style of summaries: `standard`, `detailed`, `concise` or `telegraphic`.
    pub style: Option<String>,
    /// Retries per summariser; for all models only.
    pub summariser_retries: Option<u32>,
    /// The numbers of tiers.
    #[serde(flatten)]
    pub tiers: TierNumbers,
}

/// The resolved settings of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// When to compact, and what to keep.
    pub policy: Policy,
    /// Share of the window that stays free.
    pub safety: Ppm,
    /// Phrases that end a topic if a user's message begins with one.
    pub phrases: Vec<Arc<str>>,
}

/// A configured number and its key.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfiguredNumber<'c, T = u64> {
    pub(crate) path: Vec<&'c str>,
    pub(crate) value: T,
}

/// The summarisers of a model's conversations, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Writers {
    /// The summarisers, in order.
    pub(crate) names: Vec<String>,
    /// The prompt's name or path.
    pub(crate) prompt: String,
    pub(crate) style: Style,
    /// Retries per summariser.
    pub(crate) retries: u32,
}

impl Compaction {
    /// Whether automatic compactions are reported.
    pub fn notifies(&self) -> bool {
        self.all.notice.as_deref() != Some("off")
    }

    /// Whether summaries are written ahead.
    pub fn prepares(&self) -> bool {
        self.all.prepare.as_deref() == Some("on")
    }

    /// The settings of a model: each key from the model's table, else its provider's, else the
    /// common one, else the preset. Of keys for the same value in different units, the nearest
    /// table with one of them decides.
    pub fn resolve(&self, model: &Entry) -> Resolved {
        self.scopes_of(model).resolve(model)
    }

    /// The configured amounts of tokens for a model, each with its key.
    pub(crate) fn amounts(&self, model: &Entry) -> Vec<ConfiguredNumber<'_>> {
        type Amount = fn(&Numbers) -> Option<u64>;
        const KEYS: [(&str, Amount); 3] = [
            ("keep_tokens", |n| n.keep_tokens),
            ("minimum_tokens", |n| n.minimum_tokens),
            ("summary_cap_tokens", |n| n.summary_cap_tokens),
        ];
        let given = KEYS.into_iter().filter_map(|(key, amount)| {
            let set = |numbers: &Numbers| amount(numbers).map(|value| (key, value));
            self.given(model, set)
        });
        given.collect()
    }

    /// The share of a model's window, or of its usable tokens, that starts a compaction, with its
    /// key.
    pub(crate) fn trigger_share(&self, model: &Entry) -> Option<ConfiguredNumber<'_, f64>> {
        self.given(model, |numbers| {
            let window = numbers.trigger_of_window.map(|n| ("trigger_of_window", n));
            window.or_else(|| numbers.trigger_of_usable.map(|n| ("trigger_of_usable", n)))
        })
    }

    /// The value in the nearest table to a model.
    fn given<T>(
        &self,
        model: &Entry,
        set: impl Fn(&Numbers) -> Option<(&'static str, T)>,
    ) -> Option<ConfiguredNumber<'_, T>> {
        let nearest = self.scopes_of(model);
        let (numbers, (key, value)) = nearest
            .0
            .iter()
            .find_map(|numbers| Some((*numbers, set(numbers)?)))?;
        let mut scopes = self.scopes().into_iter();
        let (mut path, _) = scopes.find(|(_, scope)| std::ptr::eq(*scope, numbers))?;
        path.push(key);
        Some(ConfiguredNumber { path, value })
    }

    fn scopes_of(&self, model: &Entry) -> Scopes<'_> {
        let own = self.models.get(&model.model.to_string());
        // The offline model has one name in settings and another one in catalogues.
        let written = format!("{}/{}", model.model.provider, model.model.model);
        let written = self.models.get(&written).filter(|_| own.is_none());
        let provider = self.providers.get(&model.model.provider);
        Scopes(
            [own, written, provider, Some(&self.all)]
                .into_iter()
                .flatten()
                .collect(),
        )
    }

    /// The summarisers of a model's conversations: from the nearest table, otherwise from the
    /// catalogue.
    pub(crate) fn writers(&self, model: &Entry) -> Writers {
        let scopes = self.scopes_of(model);
        let named = scopes.pick(|n| n.summarisers.clone());
        Writers {
            names: named.unwrap_or_else(|| vec![model.summariser.to_string()]),
            prompt: scopes
                .pick(|n| n.prompt.clone())
                .unwrap_or_else(|| GENERAL.to_owned()),
            style: scopes.style(),
            retries: self.all.summariser_retries.unwrap_or(RETRIES),
        }
    }

    pub(crate) fn summarisers(&self) -> impl Iterator<Item = (Vec<&str>, &[String])> {
        let scopes = self.scopes().into_iter();
        scopes.filter_map(|(path, numbers)| {
            let names = numbers.summarisers.as_deref()?;
            Some((path.into_iter().chain(["summarisers"]).collect(), names))
        })
    }

    pub(super) fn prompts(&self) -> impl Iterator<Item = (Vec<&str>, &str)> {
        let scopes = self.scopes().into_iter();
        scopes.filter_map(|(path, numbers)| {
            let prompt = numbers.prompt.as_deref()?;
            Some((path.into_iter().chain(["prompt"]).collect(), prompt))
        })
    }

    /// Every table with the path that leads to it.
    pub(super) fn scopes(&self) -> Vec<(Vec<&str>, &Numbers)> {
        let mut scopes = vec![(vec!["compaction"], &self.all)];
        for (kind, tables) in [("providers", &self.providers), ("models", &self.models)] {
            let named = tables.iter();
            scopes.extend(named.map(|(name, numbers)| (vec!["compaction", kind, name], numbers)));
        }
        scopes
    }
}

/// The tables that apply to a model, nearest first.
struct Scopes<'c>(Vec<&'c Numbers>);

impl Scopes<'_> {
    fn pick<T>(&self, key: impl Fn(&Numbers) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(|numbers| key(numbers))
    }

    fn share(&self, key: impl Fn(&Numbers) -> Option<f64>) -> Option<Ppm> {
        self.pick(key).and_then(Ppm::from_fraction)
    }

    fn resolve(&self, model: &Entry) -> Resolved {
        let name = self.pick(|n| n.preset.clone());
        let preset = name
            .and_then(|name| Preset::from_name(&name))
            .unwrap_or(Preset::Checkpoint);
        let mut policy = of_model(Policy::from_preset(preset), model);
        if preset != Preset::Off {
            self.change(&mut policy);
        }
        Resolved {
            policy,
            safety: self.share(|n| n.safety).unwrap_or(Ppm::percent(5)),
            phrases: phrases(&self.tiers()).into_iter().map(Arc::from).collect(),
        }
    }

    fn style(&self) -> Style {
        let name = self.pick(|n| n.style.clone());
        name.and_then(|name| Style::from_name(&name))
            .unwrap_or_default()
    }

    /// The numbers of tiers, nearest first.
    fn tiers(&self) -> Vec<&TierNumbers> {
        self.0.iter().map(|numbers| &numbers.tiers).collect()
    }

    fn change(&self, policy: &mut Policy) {
        policy.trigger = self.pick(trigger).or(policy.trigger);
        policy.minimum = self
            .pick(|n| n.minimum_tokens)
            .map_or(policy.minimum, Tokens);
        policy.target = self.share(|n| n.target).unwrap_or(policy.target);
        let style = self.style();
        policy.keep = match policy.keep {
            Keep::Tiers(preset) => {
                let preset = Tiers {
                    topic_cap: style.scaled(preset.topic_cap),
                    bulk_cap: style.scaled(preset.bulk_cap),
                    ..preset
                };
                Keep::Tiers(tiers(&self.tiers(), preset))
            }
            preset => self.pick(keep).unwrap_or(preset),
        };
        if let (Keep::Tokens { align, .. } | Keep::TokensByWindow { align, .. }, Some(messages)) =
            (&mut policy.keep, self.pick(|n| n.align))
        {
            *align = messages;
        }
        if let Method::Summarise { cap } = &mut policy.method {
            let set = self.pick(|n| n.summary_cap_tokens).map(Tokens);
            *cap = set.unwrap_or(style.scaled(*cap));
        }
        if let Some(Masking { over, keep_newest }) = &mut policy.masking {
            *over = self.pick(|n| n.mask_over_tokens).map_or(*over, Tokens);
            *keep_newest = self.pick(|n| n.mask_keep_newest).unwrap_or(*keep_newest);
        }
        policy.quota = self.quota(policy.quota);
    }

    fn quota(&self, preset: Option<ModelQuota>) -> Option<ModelQuota> {
        let checkpoints = self.pick(|n| n.model_checkpoints);
        let hours = self.pick(|n| n.model_checkpoints_per_hours);
        let base = match (preset, checkpoints.is_some() || hours.is_some()) {
            (None, true) => Policy::from_preset(Preset::Checkpoint).quota,
            (preset, _) => preset,
        };
        base.map(|quota| ModelQuota {
            checkpoints: checkpoints.unwrap_or(quota.checkpoints),
            per_ms: hours.map_or(quota.per_ms, |hours| i64::from(hours) * HOUR_MS),
        })
    }
}

/// The catalogue's numbers for a model, if the preset uses them.
fn of_model(mut policy: Policy, model: &Entry) -> Policy {
    if let (Preset::Retention, Some(Trigger::OfWindow(share))) =
        (policy.preset, &mut policy.trigger)
    {
        *share = model.trigger;
    }
    if let Keep::TokensByWindow { amount, .. } = &mut policy.keep {
        *amount = model.retention;
    }
    policy
}

fn trigger(numbers: &Numbers) -> Option<Trigger> {
    let share = |fraction: Option<f64>| fraction.and_then(Ppm::from_fraction);
    let tokens = numbers.trigger_tokens.map(|n| Trigger::Tokens(Tokens(n)));
    tokens
        .or_else(|| share(numbers.trigger_of_window).map(Trigger::OfWindow))
        .or_else(|| share(numbers.trigger_of_usable).map(Trigger::OfUsable))
}

fn keep(numbers: &Numbers) -> Option<Keep> {
    let tokens = numbers.keep_tokens.map(|n| Keep::Tokens {
        amount: Tokens(n),
        align: 4,
    });
    let share = || numbers.keep_share.and_then(Ppm::from_fraction);
    tokens
        .or_else(|| numbers.keep_messages.map(Keep::Messages))
        .or_else(|| share().map(Keep::ShareOfHistory))
}
