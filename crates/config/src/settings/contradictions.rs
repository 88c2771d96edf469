//! Numbers that are valid separately but contradict each other.

use unisono_context::Ppm;
use unisono_context::policy::{Preset, Tiers};

use super::compaction::{Compaction, Numbers};
use super::layers::Layers;
use crate::diagnostic::{Diagnostic, Diagnostics};

/// The permitted error of three shares, in millionths: thirds are written with some digits.
const SHARES_OFF_PPM: u64 = 1_000;

/// Reports each pair of thresholds that cannot both hold, naming both.
pub(super) fn check(compaction: &Compaction, layers: &Layers, found: &mut Diagnostics) {
    for (scope, own) in compaction.scopes() {
        let mut check = Check {
            scope,
            own,
            all: &compaction.all,
            layers,
            found,
        };
        check.below("minimum_tokens", "trigger_tokens");
        check.below("keep_tokens", "trigger_tokens");
        check.below("summary_cap_tokens", "trigger_tokens");
        check.below("keep_share", "target");
        check.align();
        check.off();
        check.shares();
        check.tiers();
    }
}

struct Check<'c> {
    scope: Vec<&'c str>,
    own: &'c Numbers,
    all: &'c Numbers,
    layers: &'c Layers,
    found: &'c mut Diagnostics,
}

impl Check<'_> {
    /// `low` must be below `high`; a number that is missing in this table is the common one.
    fn below(&mut self, low: &'static str, high: &'static str) {
        let own = |key| amount(self.own, key).map(|n| (n, self.scope.clone()));
        let all = |key| amount(self.all, key).map(|n| (n, vec!["compaction"]));
        let one_is_own = own(low).is_some() || own(high).is_some();
        let (Some((less, at_low)), Some((more, at_high))) = (
            own(low).or_else(|| all(low)),
            own(high).or_else(|| all(high)),
        ) else {
            return;
        };
        if less < more || !one_is_own {
            return;
        }
        let (low, high) = (path(&at_low, low), path(&at_high, high));
        let (place, other) = (self.layers.place(&low), self.layers.place(&high));
        let (low, high) = (low.join("."), high.join("."));
        let problem =
            format!("`{low}` = {less} contradicts `{high}` = {more} ({other}): it must be lower");
        self.found
            .push(Diagnostic::error(place, problem).with_key(low));
    }

    /// `align` applies to `keep_tokens` only.
    fn align(&mut self) {
        let other = [
            ("keep_messages", self.own.keep_messages.is_some()),
            ("keep_share", self.own.keep_share.is_some()),
        ];
        let other = other.into_iter().find(|(_, set)| *set);
        if let (Some(_), Some((key, _))) = (self.own.align, other) {
            self.contradict("align", key, "it belongs to keep_tokens");
        }
    }

    /// A preset that never starts, with a number for its start.
    fn off(&mut self) {
        if self.own.preset.as_deref() != Some(Preset::Off.name()) {
            return;
        }
        let triggers = [
            ("trigger_tokens", self.own.trigger_tokens.is_some()),
            ("trigger_of_window", self.own.trigger_of_window.is_some()),
            ("trigger_of_usable", self.own.trigger_of_usable.is_some()),
        ];
        let same_origin = |key: &str| {
            let at = |key| self.layers.place(&path(&self.scope, key)).origin;
            at(key) == at("preset")
        };
        // Another layer may disable a project's compaction without unsetting its numbers.
        let found = triggers
            .into_iter()
            .find(|(key, set)| *set && same_origin(key));
        if let Some((key, _)) = found {
            self.contradict(key, "preset", "`off` never compacts");
        }
    }

    /// The shares of the tiers must add up to one. A share that is missing in this table is the
    /// common one, or the preset's.
    fn shares(&mut self) {
        let preset = Tiers::DEFAULT;
        let presets = [preset.topic, preset.topics, preset.bulks];
        let own = self.own.tiers.shares();
        let all = self.all.tiers.shares();
        let each = own.into_iter().zip(all).zip(presets);
        let shares: Vec<(&str, Ppm)> = each
            .map(|(((key, own), (_, all)), preset)| {
                let set = own.or(all).and_then(Ppm::from_fraction);
                (key, set.unwrap_or(preset))
            })
            .collect();
        let Some((first, _)) = own.into_iter().find(|(_, share)| share.is_some()) else {
            return;
        };
        let sum: u64 = shares.iter().map(|(_, share)| u64::from(share.0)).sum();
        if sum.abs_diff(u64::from(Ppm::ONE.0)) <= SHARES_OFF_PPM {
            return;
        }
        let named: Vec<String> = shares
            .iter()
            .map(|(key, share)| {
                let key = path(&self.scope, key).join(".");
                format!("`{key}` = {}", share.as_fraction())
            })
            .collect();
        let sum = sum as f64 / 1e6;
        let problem = format!(
            "{} add up to {sum}, they must add up to 1",
            named.join(", ")
        );
        let key = path(&self.scope, first);
        let place = self.layers.place(&key);
        let help = "set all three in one place";
        self.found.push(
            Diagnostic::error(place, problem)
                .with_key(key.join("."))
                .help(help),
        );
    }

    /// The current topic stays, and there is only one way to cut.
    fn tiers(&mut self) {
        let keeps = [
            ("keep_messages", self.own.keep_messages.is_some()),
            ("keep_tokens", self.own.keep_tokens.is_some()),
            ("keep_share", self.own.keep_share.is_some()),
        ];
        let keep = keeps.into_iter().find(|(_, set)| *set);
        let tiered = self.own.preset.as_deref() == Some(Preset::Tiered.name());
        if let (true, Some((key, _))) = (tiered, keep) {
            self.contradict(key, "preset", "`tiered` keeps the current topic");
        }
        let topics = self.own.tiers.first_set();
        if let (Some((key, _)), Some(topics)) = (keep.filter(|_| !tiered), topics) {
            self.contradict(
                topics,
                key,
                "only `tiered` has topics, and it keeps the current one",
            );
        }
        let caps = (
            self.own
                .tiers
                .topic_cap_tokens
                .or(self.all.tiers.topic_cap_tokens),
            self.own
                .tiers
                .bulk_cap_tokens
                .or(self.all.tiers.bulk_cap_tokens),
        );
        let merge = self.own.tiers.bulk_merge.or(self.all.tiers.bulk_merge);
        let merge = u64::from(merge.unwrap_or(Tiers::DEFAULT.merge));
        if let (Some(topic), Some(bulk)) = caps
            && bulk >= topic.saturating_mul(merge)
        {
            let why =
                format!("a bulk of {merge} topics of {topic} tokens must be smaller than these");
            self.contradict("bulk_cap_tokens", "topic_cap_tokens", &why);
        }
    }

    fn contradict(&mut self, key: &str, other: &str, why: &str) {
        let (key, other) = (path(&self.scope, key), path(&self.scope, other));
        let (place, at) = (self.layers.place(&key), self.layers.place(&other));
        let (key, other) = (key.join("."), other.join("."));
        let problem = format!("`{key}` contradicts `{other}` ({at}): {why}");
        let help = "keep one of the two";
        self.found
            .push(Diagnostic::error(place, problem).with_key(key).help(help));
    }
}

fn path<'p>(scope: &[&'p str], key: &'p str) -> Vec<&'p str> {
    scope.iter().copied().chain([key]).collect()
}

/// A number as written. Token numbers are far below its exact range.
fn amount(numbers: &Numbers, key: &str) -> Option<f64> {
    let tokens = match key {
        "minimum_tokens" => numbers.minimum_tokens,
        "trigger_tokens" => numbers.trigger_tokens,
        "keep_tokens" => numbers.keep_tokens,
        "summary_cap_tokens" => numbers.summary_cap_tokens,
        "keep_share" => return numbers.keep_share,
        "target" => return numbers.target,
        _ => None,
    };
    tokens.map(|tokens| tokens as f64)
}
