//! The settings of a session: journaled with it, a layer above what is stored for all sessions and
//! below variables and flags. What it says of compaction counts for whichever model leads.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_session::State;
pub use unisono_session::state::Settings as Own;

use super::keys::EXCLUSIVE;
use super::stored::{changeable, is_changeable, path_of};
use crate::diagnostic::nearest;

/// Changes of such settings; none: the session has none of its own any more.
pub type OwnChanges = BTreeMap<Arc<str>, Option<Arc<str>>>;

/// The model of agents that name none: a setting that is kept for no store but can be chosen for a
/// session, or for one request.
pub const DEFAULT_MODEL: &str = "models.default";
/// The model of all agents, likewise.
pub const MODEL_OVERRIDE: &str = "models.override";
/// Whether a turn says what was compacted by itself. Conversations that were brought before
/// sessions had settings say `off` in a label of that name.
const NOTICE: &str = "compaction.notice";

/// Who writes the summaries of a session, and how: what is read of a turn that compacts.
const WRITERS: [&str; 4] = [
    "compaction.summarisers",
    "compaction.prompt",
    "compaction.summariser_retries",
    STYLE,
];
/// How detailed summaries are: how long they may be is read of the turn, too.
const STYLE: &str = "compaction.style";
/// What counts for all compactions alike.
const DEADLINE: &str = "compaction.deadline_seconds";

/// A setting that a session cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{key}` cannot be set for a session: keys of `run`, `delegation`, `agent_defaults`, those of \
     `compaction` but its deadline, `{DEFAULT_MODEL}` and `{MODEL_OVERRIDE}` can{}",
    .meant.as_ref().map(|key| format!("; did you mean `{key}`?")).unwrap_or_default()
)]
pub struct NotOwn {
    /// Its key.
    pub key: String,
    /// The key that may be meant.
    pub meant: Option<String>,
}

impl NotOwn {
    fn of(key: &str) -> NotOwn {
        let known: Vec<String> = settable().collect();
        NotOwn {
            key: key.to_owned(),
            meant: nearest(key, known.iter().map(String::as_str)).map(str::to_owned),
        }
    }
}

/// Whether a key, dotted, can be set for one request.
pub fn is_of_request(key: &str) -> bool {
    let of_compaction = is_of_all_models(key) && (!WRITERS.contains(&key) || key == STYLE);
    of_compaction || [DEFAULT_MODEL, MODEL_OVERRIDE].contains(&key)
}

/// Whether a key can be changed while the program runs, and counts for whichever model leads.
fn is_of_all_models(key: &str) -> bool {
    is_changeable(key) && key != DEADLINE && path_of(key).len() == 2
}

/// Whether a key, dotted, can be set for a session.
pub fn is_settable(key: &str) -> bool {
    is_of_request(key) || WRITERS.contains(&key)
}

/// Every key, dotted, that can be set for a session.
pub fn settable() -> impl Iterator<Item = String> {
    let more = [DEFAULT_MODEL, MODEL_OVERRIDE].map(str::to_owned);
    changeable().filter(|key| is_of_all_models(key)).chain(more)
}

/// Those of a session's settings that say who writes its summaries, and how.
pub fn of_writers(own: &Own) -> Own {
    let own = own.iter().filter(|(key, _)| WRITERS.contains(&&***key));
    own.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The settings of a session.
pub fn own(state: &State) -> Arc<Own> {
    let (settings, label) = (state.settings(), state.labels().get(NOTICE));
    let mut all = settings.clone();
    if let Some(off) = label.filter(|word| &***word == "off")
        && !settings.contains_key(NOTICE)
    {
        Arc::make_mut(&mut all).insert(NOTICE.into(), off.clone());
    }
    all
}

/// What is to be changed so that these settings hold, and of keys that say the same thing the
/// newest alone.
///
/// # Errors
/// A session cannot have one of them.
pub fn changes(
    wanted: impl IntoIterator<Item = (String, Option<String>)>,
) -> Result<OwnChanges, NotOwn> {
    let mut all = OwnChanges::new();
    for (key, value) in wanted {
        // What is there of an older version's goes as well.
        if value.is_some() && !is_settable(&key) {
            return Err(NotOwn::of(&key));
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

/// The other keys that say the same thing in another unit.
fn saying_the_same(dotted: &str) -> impl Iterator<Item = String> {
    let key = dotted.strip_prefix("compaction.").unwrap_or_default();
    let group = EXCLUSIVE.iter().find(|group| group.contains(&key));
    let others = group.copied().unwrap_or_default().iter();
    others
        .filter(move |other| **other != key)
        .map(|other| format!("compaction.{other}"))
}

/// Those settings once they are changed.
pub fn changed(before: &Own, changes: &OwnChanges) -> Own {
    let mut all = before.clone();
    for (key, value) in changes {
        match value {
            Some(value) => all.insert(key.clone(), value.clone()),
            None => all.remove(key),
        };
    }
    all
}

/// Whether a session can have them all, by their keys.
///
/// # Errors
/// It cannot have one of them.
pub fn check(own: &Own) -> Result<(), NotOwn> {
    let wrong = own.keys().find(|key| !is_settable(key));
    wrong.map_or(Ok(()), |key| Err(NotOwn::of(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(wanted: &[(&str, Option<&str>)]) -> Result<OwnChanges, NotOwn> {
        let wanted = wanted.iter();
        changes(wanted.map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned))))
    }

    #[test]
    fn the_newest_of_keys_that_say_the_same_stands() {
        let before = of(&[("compaction.trigger_tokens", Some("9000"))]).unwrap();
        let before = changed(&Own::new(), &before);
        let share = of(&[("compaction.trigger_of_window", Some("0.5"))]).unwrap();
        let now = changed(&before, &share);
        let expected: Own = [("compaction.trigger_of_window".into(), "0.5".into())].into();
        assert_eq!(now, expected);
        let none = of(&[("compaction.trigger_of_window", None)]).unwrap();
        assert_eq!(changed(&now, &none), Own::new());
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
            let refused = of(&[(key, Some("7"))]).unwrap_err();
            assert_eq!(refused.key, key);
            if let Some(meant) = meant {
                assert_eq!(refused.meant.as_deref(), Some(meant));
            }
            // A session that has it all the same is rid of it so.
            assert!(of(&[(key, None)]).is_ok(), "{key}");
        }
        for key in [
            "models.default",
            "run.agents",
            "compaction.notice",
            "compaction.prompt",
        ] {
            assert!(is_settable(key), "{key}");
        }
        assert!(!is_of_request("compaction.prompt"));
    }
}
