//! Compaction numbers that exceed a model's window: more than the tokens for the conversation, or
//! than the share of them that starts a compaction.

use std::collections::BTreeSet;

use unisono_context::budget::{Budget, Limits};
use unisono_context::policy::Trigger;
use unisono_context::{Ppm, Tokens};
use unisono_model::catalogue::Entry;

use crate::agents::Roster;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::settings::{ConfiguredNumber, Loaded};

/// Reports them for the model of the lead and for models with their own numbers, each key once.
pub(crate) fn check(loaded: &Loaded, roster: &Roster, found: &mut Diagnostics) {
    let lead = roster.get(&loaded.config.turn.lead).ok();
    let lead = lead.map(|lead| lead.model.to_string());
    let own = loaded.config.compaction.models.keys().cloned();
    let mut reported = BTreeSet::new();
    for name in lead.into_iter().chain(own) {
        let Ok(model) = loaded.catalogue.get(None, &name) else {
            continue;
        };
        for given in loaded.config.compaction.amounts(&model) {
            if let Some(diagnostic) = misfit(loaded, &model, &given)
                && reported.insert(given.path.join("."))
            {
                found.push(diagnostic);
            }
        }
    }
}

fn misfit(loaded: &Loaded, model: &Entry, given: &ConfiguredNumber<'_>) -> Option<Diagnostic> {
    let compaction = &loaded.config.compaction;
    let resolved = compaction.resolve(model);
    // A preset that never compacts does not use the number.
    resolved.policy.trigger?;
    let usable = budget(model, resolved.safety);
    let name = &model.model;
    let key = given.path.join(".");
    let amount = Tokens(given.value);
    let (problem, help) = if amount >= usable.usable {
        let (left, window) = (usable.usable, usable.window);
        (
            format!(
                "`{key}` = {amount} is more than `{name}` leaves for a conversation: {left} tokens \
                 of its window of {window}"
            ),
            "lower it, or choose a model with a larger window",
        )
    } else {
        if matches!(resolved.policy.trigger, Some(Trigger::Tokens(_))) {
            return None; // the reader of the keys reports it
        }
        let share = compaction.trigger_share(model)?;
        let trigger = resolved.policy.trigger_amount(&usable)?;
        if amount < trigger {
            return None;
        }
        let other = share.path.join(".");
        let at = loaded.place(&share.path);
        (
            format!(
                "`{key}` = {amount} contradicts `{other}` = {} ({at}): that is {trigger} tokens of \
                 `{name}`, and it must be lower",
                share.value
            ),
            "lower the first or raise the second",
        )
    };
    let place = loaded.place(&given.path);
    Some(Diagnostic::error(place, problem).with_key(key).help(help))
}

fn budget(model: &Entry, safety: Ppm) -> Budget {
    let limits = Limits {
        window: model.window,
        max_output: model.max_output,
        encoding: model.encoding,
        per_message: model.per_message(),
        files: Default::default(),
    };
    Budget::new(limits, safety, Tokens::ZERO)
}
