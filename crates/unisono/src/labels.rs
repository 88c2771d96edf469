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

/// A required label of sessions: `name=value`, or `name` with any value. A name or a value may have
/// a `=` as well: a session has the label if its name, `=` and its value together are the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label(String);

impl FromStr for Label {
    type Err = String;

    fn from_str(text: &str) -> Result<Label, String> {
        let begin = text.trim_start();
        if begin.is_empty() || begin.starts_with('=') {
            return Err(format!(
                "{text:?} is not a label: write name=value, or a name"
            ));
        }
        Ok(Label(text.to_owned()))
    }
}

impl Label {
    /// Whether a session with these labels has it.
    pub fn is_of<K, V>(&self, labels: &BTreeMap<K, V>) -> bool
    where
        K: AsRef<str>,
        V: AsRef<str>,
    {
        let mut labels = labels.iter();
        labels.any(|(name, value)| self.is_label(name.as_ref(), value.as_ref()))
    }

    /// Whether it is the label with this name and value. Blanks around its own text may be meant or
    /// not; those of the session's label count, so that no other name passes for a reserved one.
    fn is_label(&self, name: &str, value: &str) -> bool {
        let mut texts = [self.0.as_str(), self.0.trim()].into_iter();
        texts.any(|text| match text.strip_prefix(name) {
            Some("") => !name.contains('='),
            Some(rest) => rest.strip_prefix('=') == Some(value),
            None => false,
        })
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
        let of = BTreeMap::from([("team", "shop=a"), ("empty", ""), (" wide ", " a b ")]);
        let has = |text: &str| text.parse::<Label>().unwrap().is_of(&of);
        assert!(has("team") && has("team=shop=a") && has(" team=shop=a") && has("empty="));
        assert!(has("team ") && has(" wide ") && has(" wide = a b "));
        assert!(!has("team=shop") && !has("owner") && !has("empty=a") && !has("Team"));
        assert!(!has("tea") && !has("team=") && !has(" wide =a b"));
        assert!("=a".parse::<Label>().is_err() && " ".parse::<Label>().is_err());
    }

    #[test]
    fn a_name_with_blanks_passes_for_no_other_one() {
        for name in [" owner", "owner ", "\towner"] {
            let of = BTreeMap::from([(name, "ada")]);
            let has = |text: &str| text.parse::<Label>().unwrap().is_of(&of);
            assert!(!has("owner=ada") && !has("owner"), "{name:?}");
            assert!(has(name) && has(&format!("{name}=ada")), "{name:?}");
        }
    }

    #[test]
    fn a_name_with_an_equals_sign_is_found_with_its_value_only() {
        let of = BTreeMap::from([("owner=ada", "x=y"), ("a=", "=b"), ("", "blank")]);
        let has = |text: &str| text.parse::<Label>().unwrap().is_of(&of);
        assert!(has("owner=ada=x=y") && has("a===b"));
        // That is the label of another name.
        assert!(!has("owner=ada") && !has("owner") && !has("a=") && !has("blank"));
    }
}
