//! Selecting sessions by their labels: platform, channel, owner.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use unisono_session::{Event, Fact, OWNER, State};

/// The label of a session that an MCP client created.
pub const MCP_CHANNEL: (&str, &str) = ("channel", "mcp");
/// The label of a session that a client of the Agent2Agent protocol made.
pub const A2A_CHANNEL: (&str, &str) = ("channel", "a2a");

/// The label for the directory whose instructions a session has.
pub(crate) const INSTRUCTIONS_FROM: &str = "instructions_from";

/// The directory whose instructions the session has. A session with an owner has none: its owner may
/// not read the files of this machine.
pub(crate) fn directory(state: &State) -> Option<PathBuf> {
    let labels = state.labels();
    if labels.contains_key(OWNER) {
        return None;
    }
    let directory = PathBuf::from(&**labels.get(INSTRUCTIONS_FROM)?);
    directory.is_absolute().then_some(directory)
}

/// A required label of sessions: `name=value`, or `name` with any value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    name: String,
    value: Option<String>,
}

impl FromStr for Label {
    type Err = String;

    fn from_str(text: &str) -> Result<Label, String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let name = name.trim().to_owned();
        if name.is_empty() {
            return Err(format!(
                "{text:?} is not a label: write name=value, or a name"
            ));
        }
        Ok(Label { name, value })
    }
}

impl Label {
    /// Whether a session with these labels has it.
    pub fn is_of<K, V>(&self, labels: &BTreeMap<K, V>) -> bool
    where
        K: std::borrow::Borrow<str> + Ord,
        V: AsRef<str>,
    {
        let found = labels.get(self.name.as_str()).map(AsRef::as_ref);
        found.is_some_and(|found| self.value.as_deref().is_none_or(|value| value == found))
    }
}

/// The labels of the session that begins with this event.
pub fn created_with(first: &Event) -> Option<&BTreeMap<Arc<str>, Arc<str>>> {
    match &first.fact {
        Fact::Created { labels, .. } => Some(labels),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_name_with_one_value_or_any() {
        let of = BTreeMap::from([("team", "shop=a"), ("empty", "")]);
        let has = |text: &str| text.parse::<Label>().unwrap().is_of(&of);
        assert!(has("team") && has("team=shop=a") && has(" team=shop=a") && has("empty="));
        assert!(!has("team=shop") && !has("owner") && !has("empty=a") && !has("Team"));
        assert!("=a".parse::<Label>().is_err() && "".parse::<Label>().is_err());
    }
}
