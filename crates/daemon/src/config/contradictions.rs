//! Numbers that are right each by itself and wrong together.

use unisono_context::policy::Preset;

use super::compaction::{Compaction, Numbers};
use super::layers::Layers;
use crate::diagnostic::{Diagnostic, Diagnostics};

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
    /// `low` must be below `high`; a number that this table leaves out is the one for all.
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
        self.found.push(Diagnostic::error(place, problem).on(low));
    }

    /// `align` says something about `keep_tokens` only.
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

    /// A preset that never starts, with a number that says when it does.
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
        // Another layer may switch a project's compaction off without unsetting its numbers.
        let found = triggers
            .into_iter()
            .find(|(key, set)| *set && same_origin(key));
        if let Some((key, _)) = found {
            self.contradict(key, "preset", "`off` never compacts");
        }
    }

    fn contradict(&mut self, key: &str, other: &str, why: &str) {
        let (key, other) = (path(&self.scope, key), path(&self.scope, other));
        let (place, at) = (self.layers.place(&key), self.layers.place(&other));
        let (key, other) = (key.join("."), other.join("."));
        let problem = format!("`{key}` contradicts `{other}` ({at}): {why}");
        let help = "keep one of the two";
        self.found
            .push(Diagnostic::error(place, problem).on(key).help(help));
    }
}

fn path<'p>(scope: &[&'p str], key: &'p str) -> Vec<&'p str> {
    scope.iter().copied().chain([key]).collect()
}

/// A number as it was written. Tokens are far below what it holds exactly.
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
