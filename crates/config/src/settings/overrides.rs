//! The settings of a session: journaled with it, a layer above the stored settings of all sessions
//! and below variables and flags. Its compaction numbers apply to every model of the lead.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_session::State;
pub use unisono_session::state::Settings as SessionOverrides;

use super::keys::EXCLUSIVE;
use super::stored::{changeable, is_changeable, path_of};
use crate::diagnostic::nearest;

/// Changes of such settings; a value of none removes the setting from the session.
pub type OverrideChanges = BTreeMap<Arc<str>, Option<Arc<str>>>;

/// The model of agents that name no model: a setting that cannot be stored for all sessions but can
/// be set for a session, or for one request.
pub const DEFAULT_MODEL: &str = "models.default";
/// The model of all agents, likewise.
pub const MODEL_OVERRIDE: &str = "models.override";
/// Whether a turn reports an automatic compaction. Conversations from before the settings of
/// sessions have `off` in a label of that name.
const NOTICE: &str = "compaction.notice";

/// The keys of a session's summarisers and their options, read when a turn compacts.
const WRITERS: [&str; 4] = [
    "compaction.summarisers",
    "compaction.prompt",
    "compaction.summariser_retries",
    STYLE,
];
/// How detailed summaries are; their maximum length is read from the turn, too.
const STYLE: &str = "compaction.style";
/// The budget of a turn, which a request may lower.
const TURN_CAPS: [&str; 2] = ["budget.turn.max_cost_usd", "budget.turn.max_tokens"];
/// A setting of all compactions.
const DEADLINE: &str = "compaction.deadline_seconds";

/// A setting that a session cannot override.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{key}` cannot be set for a session: keys of `turn`, `delegation`, `agent_defaults`, those of \
     `compaction` but its deadline, `{DEFAULT_MODEL}` and `{MODEL_OVERRIDE}` can{}",
    .meant.as_ref().map(|key| format!("; did you mean `{key}`?")).unwrap_or_default()
)]
#[non_exhaustive]
pub struct OverrideError {
    /// Its key.
    pub key: String,
    /// The most similar key.
    pub meant: Option<String>,
}

impl OverrideError {
    fn for_key(key: &str) -> OverrideError {
        let known: Vec<String> = settable().collect();
        // A setting of all sessions is not misspelt.
        let meant = match is_changeable(key) {
            true => None,
            false => nearest(key, known.iter().map(String::as_str)),
        };
        OverrideError {
            key: key.to_owned(),
            meant: meant.map(str::to_owned),
        }
    }
}

/// Whether a dotted key can be set for one request.
pub fn is_of_request(key: &str) -> bool {
    is_of_policy(key) || TURN_CAPS.contains(&key)
}

fn is_of_policy(key: &str) -> bool {
    let of_compaction = is_of_all_models(key) && (!WRITERS.contains(&key) || key == STYLE);
    of_compaction || [DEFAULT_MODEL, MODEL_OVERRIDE].contains(&key)
}

/// The key that a misspelt one of a request may mean.
pub fn similar(key: &str) -> Option<String> {
    let caps = TURN_CAPS.map(str::to_owned);
    let known: Vec<String> = settable()
        .filter(|key| is_of_policy(key))
        .chain(caps)
        .collect();
    nearest(key, known.iter().map(String::as_str)).map(str::to_owned)
}

/// Whether a key can be changed while the program runs, and applies to every model of the lead.
fn is_of_all_models(key: &str) -> bool {
    is_changeable(key) && key != DEADLINE && path_of(key).len() == 2
}

/// Whether a dotted key can be set for a session.
pub fn is_settable(key: &str) -> bool {
    is_of_policy(key) || WRITERS.contains(&key)
}

/// Every dotted key that can be set for a session.
pub fn settable() -> impl Iterator<Item = String> {
    let more = [DEFAULT_MODEL, MODEL_OVERRIDE].map(str::to_owned);
    changeable().filter(|key| is_of_all_models(key)).chain(more)
}

/// The settings of a session about its summarisers.
pub fn of_writers(own: &SessionOverrides) -> SessionOverrides {
    let own = own.iter().filter(|(key, _)| WRITERS.contains(&&***key));
    own.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The settings of a session.
pub fn session_overrides(state: &State) -> Arc<SessionOverrides> {
    let (settings, label) = (state.settings(), state.labels().get(NOTICE));
    let mut all = settings.clone();
    if let Some(off) = label.filter(|word| &***word == "off")
        && !settings.contains_key(NOTICE)
    {
        Arc::make_mut(&mut all).insert(NOTICE.into(), off.clone());
    }
    all
}

/// The changes that establish these settings; of keys for the same value, only the newest.
///
/// # Errors
/// A session cannot override one of them.
pub fn changes(
    wanted: impl IntoIterator<Item = (String, Option<String>)>,
) -> Result<OverrideChanges, OverrideError> {
    let mut all = OverrideChanges::new();
    for (key, value) in wanted {
        // Settings of an older version are removed as well.
        if value.is_some() && !is_settable(&key) {
            return Err(OverrideError::for_key(&key));
        }
        if value.is_some() {
            for same in saying_the_same(&key) {
                all.entry(same.into()).or_insert(None);
            }
        }
        all.insert(key.into(), value.map(Into::into));
    }
    Ok(all)
}

/// The other keys for the same value in another unit.
fn saying_the_same(dotted: &str) -> impl Iterator<Item = String> {
    let key = dotted.strip_prefix("compaction.").unwrap_or_default();
    let group = EXCLUSIVE.iter().find(|group| group.contains(&key));
    let others = group.copied().unwrap_or_default().iter();
    others
        .filter(move |other| **other != key)
        .map(|other| format!("compaction.{other}"))
}

/// The settings after the changes.
pub fn apply(before: &SessionOverrides, changes: &OverrideChanges) -> SessionOverrides {
    let mut all = before.clone();
    for (key, value) in changes {
        match value {
            Some(value) => all.insert(key.clone(), value.clone()),
            None => all.remove(key),
        };
    }
    all
}

/// Checks whether a session can override all of them.
///
/// # Errors
/// It cannot override one of them.
pub fn check(own: &SessionOverrides) -> Result<(), OverrideError> {
    let wrong = own.keys().find(|key| !is_settable(key));
    wrong.map_or(Ok(()), |key| Err(OverrideError::for_key(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes_of(wanted: &[(&str, Option<&str>)]) -> Result<OverrideChanges, OverrideError> {
        let wanted = wanted.iter();
        changes(wanted.map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned))))
    }

    #[test]
    fn the_newest_of_keys_that_say_the_same_stands() {
        let before = changes_of(&[("compaction.trigger_tokens", Some("9000"))]).unwrap();
        let before = apply(&SessionOverrides::new(), &before);
        let share = changes_of(&[("compaction.trigger_of_window", Some("0.5"))]).unwrap();
        let now = apply(&before, &share);
        let expected: SessionOverrides =
            [("compaction.trigger_of_window".into(), "0.5".into())].into();
        assert_eq!(now, expected);
        let none = changes_of(&[("compaction.trigger_of_window", None)]).unwrap();
        assert_eq!(apply(&now, &none), SessionOverrides::new());
    }

    #[test]
    fn what_no_session_has_is_refused_with_what_may_be_meant() {
        let rows = [
            (
                "compaction.triger_tokens",
                Some("compaction.trigger_tokens"),
            ),
            ("server.bind", None),
            ("compaction.deadline_seconds", None),
            ("", None),
        ];
        for (key, meant) in rows {
            let refused = changes_of(&[(key, Some("7"))]).unwrap_err();
            assert_eq!(refused.key, key);
            assert_eq!(refused.meant.as_deref(), meant, "{key}");
            // A session that has such a setting anyway can remove it.
            assert!(changes_of(&[(key, None)]).is_ok(), "{key}");
        }
        for key in [
            "models.default",
            "turn.agents",
            "compaction.notice",
            "compaction.prompt",
        ] {
            assert!(is_settable(key), "{key}");
        }
        assert!(!is_of_request("compaction.prompt"));
        assert!(is_of_request("budget.turn.max_tokens") && !is_settable("budget.turn.max_tokens"));
        assert_eq!(
            similar("compaction.presett").as_deref(),
            Some("compaction.preset")
        );
        assert_eq!(similar("server.bind"), None);
    }
}
