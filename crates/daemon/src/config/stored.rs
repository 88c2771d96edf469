//! Settings that are changed while the daemon runs: a file beside the journal, which is a layer above
//! the project's.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::keys::{ALL, EXCLUSIVE, POLICY};
use crate::diagnostic::nearest;
use crate::document::Value as Node;
use crate::schema::{self, Key, Kind};

/// The file's name, in the directory of the store.
pub const STORED: &str = "settings.toml";
/// Its first line.
const HEAD: &str =
    "# Changed while the daemon ran; what is here wins over the project's settings.\n";

/// Sections whose keys all concern turns that begin later.
const SECTIONS: [&str; 3] = ["run", "delegation", "agent_defaults"];
/// Keys of a compaction policy that are read when the program starts.
const AT_START: [&str; 2] = ["summarisers", "prompt"];

/// Why settings cannot be changed so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unchangeable {
    /// There is no such key.
    #[error(
        "unknown key `{key}`{}",
        .meant.as_ref().map(|key| format!(", did you mean `{key}`?")).unwrap_or_default()
    )]
    Unknown {
        /// What was written.
        key: String,
        /// The key that may be meant.
        meant: Option<String>,
    },
    /// The key is read when the program starts.
    #[error(
        "`{0}` cannot be changed while the daemon runs: set it in a settings file and start again; \
         keys of `run`, `delegation`, `agent_defaults` and of the policy in `compaction` can"
    )]
    Key(String),
    /// The file is not what was written.
    #[error("the stored settings cannot be read: {0}")]
    File(String),
}

/// Whether a key, dotted, can be changed while the program runs.
pub fn is_changeable(key: &str) -> bool {
    let Some((section, key)) = key.split_once('.') else {
        return false;
    };
    let known = |keys: &[Key]| keys.iter().any(|known| known.name == key);
    if section == "compaction" {
        let policy = known(POLICY) && !AT_START.contains(&key);
        return policy || key == "notice";
    }
    let sections = ALL.iter().filter(|known| known.name == section);
    let mut keys = sections.filter_map(|section| match section.kind {
        Kind::Section(keys) => Some(keys),
        _ => None,
    });
    SECTIONS.contains(&section) && keys.any(known)
}

/// Every key, dotted, that can be changed while the program runs.
pub fn changeable() -> impl Iterator<Item = String> {
    let sections = ALL.iter().filter_map(|section| match section.kind {
        Kind::Section(keys) => Some((section.name, keys)),
        _ => None,
    });
    let dotted = sections.flat_map(|(section, keys)| {
        keys.iter()
            .map(move |key| format!("{section}.{}", key.name))
    });
    dotted.filter(|key| is_changeable(key))
}

fn unchangeable(dotted: &str) -> Unchangeable {
    let key = dotted.to_owned();
    let path: Vec<String> = dotted.split('.').map(str::to_owned).collect();
    if schema::kind_at(ALL, &path).is_some() {
        return Unchangeable::Key(key);
    }
    let known: Vec<String> = changeable().collect();
    let meant = nearest(dotted, known.iter().map(String::as_str)).map(str::to_owned);
    Unchangeable::Unknown { key, meant }
}

/// A value of a key, dotted, as a person writes it: items of a list are separated by commas.
pub fn typed(key: &str, text: &str) -> Value {
    let path: Vec<String> = key.split('.').map(str::to_owned).collect();
    match schema::kind_at(ALL, &path) {
        Some(Kind::Texts) => {
            let items = schema::coerce_list(text).map(|item| Value::String(item.to_owned()));
            Value::Array(items.collect())
        }
        kind => match schema::coerce(text, kind) {
            Node::Integer(n) => Value::Integer(n),
            Node::Float(n) => Value::Float(n),
            Node::Bool(flag) => Value::Boolean(flag),
            _ => Value::String(text.to_owned()),
        },
    }
}

/// The file's text with these keys set, or left to the other layers where there is no value.
pub(crate) fn changed(
    text: &str,
    changes: &BTreeMap<String, Option<Value>>,
) -> Result<String, Unchangeable> {
    let mut all: Table = text
        .parse()
        .map_err(|error: toml::de::Error| Unchangeable::File(error.message().to_owned()))?;
    for (dotted, value) in changes {
        let unchangeable = || unchangeable(dotted);
        if !is_changeable(dotted) {
            return Err(unchangeable());
        }
        let (section, key) = dotted.split_once('.').ok_or_else(unchangeable)?;
        let table = all.entry(section).or_insert_with(|| Table::new().into());
        let Value::Table(table) = table else {
            return Err(Unchangeable::File(format!("`{section}` is no table")));
        };
        // Of keys that say the same thing the newest stands.
        let groups = EXCLUSIVE.iter().filter(|group| group.contains(&key));
        for same in groups.copied().flatten() {
            table.remove(*same);
        }
        match value {
            Some(value) => table.insert(key.to_owned(), value.clone()),
            None => table.remove(key),
        };
        if table.is_empty() {
            all.remove(section);
        }
    }
    Ok(format!("{HEAD}{all}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str, changes: &[(&str, Option<Value>)]) -> Result<String, Unchangeable> {
        let changes = changes.iter().cloned();
        let changes = changes.map(|(key, value)| (key.to_owned(), value));
        changed(text, &changes.collect())
    }

    #[test]
    fn no_path_of_a_file_can_be_set_by_who_only_has_the_token() {
        for key in changeable() {
            let path: Vec<String> = key.split('.').map(str::to_owned).collect();
            let kind = schema::kind_at(ALL, &path);
            assert!(!matches!(kind, Some(Kind::Path | Kind::Prompt)), "{key}");
        }
    }

    #[test]
    fn keys_are_set_replaced_and_left_again() {
        let one = with("", &[("run.lead", Some("facts".into()))]).unwrap();
        assert_eq!(one, format!("{HEAD}[run]\nlead = \"facts\"\n"));
        let share = [("compaction.trigger_of_window", Some(0.5.into()))];
        let two = with(&one, &share).unwrap();
        let tokens = [("compaction.trigger_tokens", Some(9_000.into()))];
        let three = with(&two, &tokens).unwrap();
        assert!(three.contains("trigger_tokens = 9000"), "{three}");
        assert!(!three.contains("trigger_of_window"), "{three}");
        let none = [("compaction.trigger_tokens", None), ("run.lead", None)];
        assert_eq!(with(&three, &none).unwrap(), HEAD);
    }

    #[test]
    fn a_value_has_the_type_of_its_key() {
        let cases = [
            (
                "run.agents",
                "risks, facts",
                Value::from(vec!["risks", "facts"]),
            ),
            ("run.agents", "", Value::Array(Vec::new())),
            ("run.lead", "facts", "facts".into()),
            ("compaction.trigger_tokens", "9_000", 9_000.into()),
            ("compaction.trigger_tokens", "many", "many".into()),
            ("compaction.trigger_of_window", "0.5", 0.5.into()),
            ("nothing.at_all", "7", "7".into()),
        ];
        for (key, text, value) in cases {
            assert_eq!(typed(key, text), value, "{key} = {text}");
        }
    }

    #[test]
    fn what_is_read_at_the_start_is_not_changed() {
        let refused = [
            "server.bind",
            "store.path",
            "compaction.summarisers",
            "compaction.deadline_seconds",
            "run",
            "agents.lead.model",
        ];
        for key in refused {
            let change = with("", &[(key, Some(1.into()))]);
            assert_eq!(change, Err(Unchangeable::Key(key.to_owned())), "{key}");
        }
        for (key, meant) in [
            ("run.agnets", Some("run.agents")),
            ("nowhere.near", None),
            ("", None),
        ] {
            let (key, meant) = (key.to_owned(), meant.map(str::to_owned));
            let change = with("", &[(&key, Some(1.into()))]);
            assert_eq!(change, Err(Unchangeable::Unknown { key, meant }));
        }
        for key in ["run.agents", "compaction.preset", "compaction.notice"] {
            assert!(is_changeable(key), "{key}");
        }
        assert!(matches!(with("lead = ", &[]), Err(Unchangeable::File(_))));
    }
}
