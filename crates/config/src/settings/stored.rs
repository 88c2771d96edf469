//! Settings that are changed while the daemon runs: a file beside the journal, which is a layer
//! above the project's.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

use super::keys::{ALL, EXCLUSIVE, POLICY};
use super::sources::Sources;
use crate::diagnostic::{Diagnostics, Origin, Place, nearest};
use crate::document::Value as Node;
use crate::paths;
use crate::schema::{self, Key, Kind};

/// The file's name, in the directory of the store.
pub const STORED: &str = "settings.toml";
/// Its first line.
const HEAD: &str = "# Changed while the daemon ran; these values override the settings files.\n";

/// Sections in which every key applies to turns that begin later.
const SECTIONS: [&str; 3] = ["turn", "delegation", "agent_defaults"];
/// The tables of `[compaction]` with the policy keys of a provider, or of one model.
const SCOPES: [&str; 2] = ["providers", "models"];
/// Keys of `[compaction]` outside its policy.
const BESIDE: [&str; 4] = [
    "notice",
    "prepare",
    "deadline_seconds",
    "summariser_retries",
];
/// The key that names the prompt of summarisers. A path is accepted from settings files only: a
/// client with the token must not cause a file to be read.
const PROMPT: &str = "prompt";

/// Why settings cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnchangeableKey {
    /// There is no such key.
    #[error(
        "unknown key `{key}`{}",
        .meant.as_ref().map(|key| format!(", did you mean `{key}`?")).unwrap_or_default()
    )]
    Unknown {
        /// The written key.
        key: String,
        /// The most similar key.
        meant: Option<String>,
    },
    /// The key is read only when the program starts.
    #[error(
        "`{0}` cannot be changed here: set it in a settings file and start again; \
         keys of `turn`, `delegation`, `agent_defaults` and `compaction` can, those of \
         `compaction.providers.NAME` and `compaction.models.\"PROVIDER/MODEL\"` too"
    )]
    Key(String),
    /// The change would require reading a file.
    #[error(
        "`{0}` takes the name of a prompt here, not a path: name a prompt file in a settings file and \
          start again, then use its name"
    )]
    Path(String),
    /// The file is invalid.
    #[error("the stored settings cannot be read: {0}")]
    File(String),
}

/// The path of a dotted key. The name of a provider or a model may be quoted and may contain dots:
/// `compaction.models.openai/gpt-4.1.preset`.
pub(super) fn path_of(dotted: &str) -> Vec<String> {
    let scoped = SCOPES.iter().find_map(|table| {
        let rest = dotted.strip_prefix("compaction.")?.strip_prefix(table)?;
        let (name, key) = rest.strip_prefix('.')?.rsplit_once('.')?;
        Some(["compaction", table, name.trim_matches('"'), key].map(str::to_owned))
    });
    match scoped {
        Some(path) => path.into(),
        None => split(dotted),
    }
}

/// The parts of a dotted key; a dot between quotes does not separate.
fn split(dotted: &str) -> Vec<String> {
    let mut quoted = false;
    let parts = dotted.split(|c| {
        quoted ^= c == '"';
        c == '.' && !quoted
    });
    parts
        .map(|part| part.trim_matches('"').to_owned())
        .collect()
}

/// The key in the form for display.
pub fn canonical(dotted: &str) -> String {
    schema::dotted(&path_of(dotted))
}

/// Whether a dotted key can be changed while the program runs.
pub fn is_changeable(key: &str) -> bool {
    let path = path_of(key);
    let known = |keys: &[Key], name: &str| keys.iter().any(|known| known.name == name);
    match &path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["compaction", scope, name, key] => {
            SCOPES.contains(scope) && !name.is_empty() && known(POLICY, key)
        }
        ["compaction", key] => known(POLICY, key) || BESIDE.contains(key),
        [section, key] => {
            let sections = ALL.iter().filter(|known| known.name == *section);
            let mut keys = sections.filter_map(|section| match section.kind {
                Kind::Section(keys) => Some(keys),
                _ => None,
            });
            SECTIONS.contains(section) && keys.any(|keys| known(keys, key))
        }
        _ => false,
    }
}

/// The policy keys, which a provider or a model can override.
pub fn scoped() -> impl Iterator<Item = &'static str> {
    POLICY.iter().map(|key| key.name)
}

/// Every dotted key that can be changed while the program runs, except those of a provider or of
/// one model.
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

fn unchangeable(dotted: &str) -> UnchangeableKey {
    let key = dotted.to_owned();
    if schema::kind_at(ALL, &path_of(dotted)).is_some() {
        return UnchangeableKey::Key(key);
    }
    UnchangeableKey::Unknown {
        key,
        meant: meant(dotted),
    }
}

/// The most similar key: key by key; in no known table, among those that can be changed.
fn meant(dotted: &str) -> Option<String> {
    let path = path_of(dotted);
    if let Some(meant) = schema::similar_path(ALL, &path) {
        return Some(schema::dotted(&meant));
    }
    if ALL
        .iter()
        .any(|key| path.first().is_some_and(|first| key.name == first))
    {
        return None;
    }
    let known: Vec<String> = changeable().collect();
    nearest(dotted, known.iter().map(String::as_str)).map(str::to_owned)
}

/// A value of a dotted key, from a person's text: a list is a TOML array, or its items with
/// commas between them.
pub fn parse_value(key: &str, text: &str) -> Value {
    match schema::kind_at(ALL, &path_of(key)) {
        Some(Kind::Texts) => {
            let items = schema::coerce_list(text).into_iter();
            Value::Array(items.map(Value::String).collect())
        }
        kind => match schema::coerce(text, kind) {
            Node::Integer(n) => Value::Integer(n),
            Node::Float(n) => Value::Float(n),
            Node::Bool(flag) => Value::Boolean(flag),
            _ => Value::String(text.to_owned()),
        },
    }
}

/// The file's text with these keys set, or removed if there is no value.
pub fn changed(
    text: &str,
    changes: &BTreeMap<String, Option<Value>>,
) -> Result<String, UnchangeableKey> {
    let mut all: Table = text
        .parse()
        .map_err(|error: toml::de::Error| UnchangeableKey::File(error.message().to_owned()))?;
    for (dotted, value) in changes {
        if !is_changeable(dotted) {
            return Err(unchangeable(dotted));
        }
        let path = path_of(dotted);
        if path.last().is_some_and(|key| key == PROMPT)
            && value.as_ref().and_then(Value::as_str).is_some_and(is_path)
        {
            return Err(UnchangeableKey::Path(dotted.clone()));
        }
        change(&mut all, &path, value.as_ref())?;
    }
    Ok(format!("{HEAD}{all}"))
}

/// Diagnostics of changes that were not written to the file. They name the key and the value instead of
/// a line, because the file has no such line.
pub fn name_written_values(
    found: &Diagnostics,
    sources: &Sources,
    store: &Path,
    changes: &BTreeMap<String, Option<Value>>,
) -> Diagnostics {
    let shown = paths::display_path(&store.join(STORED), &sources.directory);
    let file = Origin::File(shown);
    let each = found.iter().cloned().map(|mut one| {
        if *one.place.origin == file {
            let written = written_change(one.key.as_deref(), changes);
            one.place = Place::of_origin(Origin::Flag(written));
        }
        one
    });
    each.collect()
}

/// The change of a key, or the only one, as a person wrote it.
fn written_change(key: Option<&str>, changes: &BTreeMap<String, Option<Value>>) -> String {
    let of_key = changes
        .iter()
        .find(|(changed, _)| key == Some(canonical(changed).as_str()));
    let only = || changes.iter().next().filter(|_| changes.len() == 1);
    match of_key.or_else(only) {
        Some((key, Some(value))) => format!("{} = {value}", canonical(key)),
        Some((key, None)) => format!("{} is removed", canonical(key)),
        None => "the changed settings".to_owned(),
    }
}

/// Whether a prompt is named by its file.
fn is_path(prompt: &str) -> bool {
    prompt.contains(['/', '\\'])
}

/// Sets the key at a path, or removes it. Tables that become empty are removed.
fn change(
    table: &mut Table,
    path: &[String],
    value: Option<&Value>,
) -> Result<(), UnchangeableKey> {
    let Some((key, rest)) = path.split_first() else {
        return Ok(());
    };
    if rest.is_empty() {
        // Of keys for the same value, the newest stays.
        let groups = EXCLUSIVE.iter().filter(|group| group.contains(&&**key));
        for same in groups.copied().flatten() {
            table.remove(*same);
        }
        match value {
            Some(value) => table.insert(key.clone(), value.clone()),
            None => table.remove(key),
        };
        return Ok(());
    }
    let inner = table.entry(key).or_insert_with(|| Table::new().into());
    let Value::Table(inner) = inner else {
        return Err(UnchangeableKey::File(format!("`{key}` is not a table")));
    };
    change(inner, rest, value)?;
    if inner.is_empty() {
        table.remove(key);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Diagnostic;

    fn with(text: &str, changes: &[(&str, Option<Value>)]) -> Result<String, UnchangeableKey> {
        let changes = changes.iter().cloned();
        let changes = changes.map(|(key, value)| (key.to_owned(), value));
        changed(text, &changes.collect())
    }

    #[test]
    fn no_path_of_a_file_can_be_set_by_who_only_has_the_token() {
        for key in changeable() {
            let kind = schema::kind_at(ALL, &path_of(&key));
            assert!(!matches!(kind, Some(Kind::Path)), "{key}");
            if matches!(kind, Some(Kind::Prompt)) {
                let refused = with("", &[(&key, Some("/etc/passwd".into()))]);
                assert_eq!(refused, Err(UnchangeableKey::Path(key.clone())));
                assert!(with("", &[(&key, Some("code".into()))]).is_ok());
            }
        }
        let of_model = "compaction.models.a/b.prompt";
        let refused = with("", &[(of_model, Some("./mine.md".into()))]);
        assert_eq!(refused, Err(UnchangeableKey::Path(of_model.to_owned())));
    }

    #[test]
    fn a_provider_and_a_model_have_keys_of_their_own() {
        let (model, provider) = (
            "compaction.models.openai/gpt-4.1.trigger_tokens",
            "compaction.providers.local.preset",
        );
        let quoted = "compaction.models.\"openai/gpt-4.1\".trigger_tokens";
        assert_eq!(canonical(model), quoted);
        assert_eq!(canonical(quoted), quoted);
        assert_eq!(canonical("turn.lead"), "turn.lead");
        let set = with(
            "",
            &[(model, Some(9_000.into())), (provider, Some("off".into()))],
        )
        .unwrap();
        let read: Table = set.parse().unwrap();
        let of_model = &read["compaction"]["models"]["openai/gpt-4.1"];
        assert_eq!(of_model["trigger_tokens"], 9_000.into());
        assert_eq!(
            read["compaction"]["providers"]["local"]["preset"],
            "off".into()
        );
        let share = "compaction.models.openai/gpt-4.1.trigger_of_window";
        let other = with(&set, &[(share, Some(0.5.into()))]).unwrap();
        assert!(!other.contains("trigger_tokens"), "{other}");
        assert_eq!(
            with(&set, &[(quoted, None), (provider, None)]).unwrap(),
            HEAD
        );
        for wrong in [
            "compaction.models.a/b.deadline_seconds",
            "compaction.models..preset",
        ] {
            assert!(with("", &[(wrong, Some(1.into()))]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_unknown_key_is_answered_with_the_one_that_may_be_meant_in_every_table() {
        for (wrong, meant) in rows! {
            ("turn.agnets", Some("turn.agents")),
            ("compation.preset", Some("compaction.preset")),
            ("models.defualt", Some("models.default")),
            ("agents.risks.modle", Some("agents.risks.model")),
            ("agents.risks.max_turns", Some("agents.risks.max_model_calls")),
            ("provders.own.base_ur", Some("providers.own.base_url")),
            ("compaction.models.a/b.prest", Some("compaction.models.\"a/b\".preset")),
            ("compaction.models.\"openai/gpt-5-mini\".triger_tokens",
             Some("compaction.models.\"openai/gpt-5-mini\".trigger_tokens")),
            ("compaction.providers.local.prest", Some("compaction.providers.local.preset")),
            ("compaction.models.a/b.zzz", None),
            ("nowhere.near", None),
            ("", None),
        } {
            let (key, meant) = (wrong.to_owned(), meant.map(str::to_owned));
            let expected = UnchangeableKey::Unknown { key, meant };
            assert_eq!(with("", &[(wrong, Some("x".into()))]), Err(expected));
        }
    }

    #[test]
    fn keys_are_set_replaced_and_left_again() {
        let one = with("", &[("turn.lead", Some("facts".into()))]).unwrap();
        assert_eq!(one, format!("{HEAD}[turn]\nlead = \"facts\"\n"));
        let share = [("compaction.trigger_of_window", Some(0.5.into()))];
        let two = with(&one, &share).unwrap();
        let tokens = [("compaction.trigger_tokens", Some(9_000.into()))];
        let three = with(&two, &tokens).unwrap();
        assert!(three.contains("trigger_tokens = 9000"), "{three}");
        assert!(!three.contains("trigger_of_window"), "{three}");
        let none = [("compaction.trigger_tokens", None), ("turn.lead", None)];
        assert_eq!(with(&three, &none).unwrap(), HEAD);
    }

    #[test]
    fn an_error_names_what_was_written_and_no_line_of_the_file() {
        let sources = Sources {
            directory: "/work".into(),
            ..Sources::default()
        };
        let at = |file: &str, key: &str| {
            let place = Place {
                at: Some((3, 1)),
                ..Place::file(Path::new(file))
            };
            Diagnostics::from(Diagnostic::error(place, "it is wrong").with_key(key))
        };
        let (lead, preset) = (
            ("turn.lead".to_owned(), Some(Value::from("nobody"))),
            ("compaction.preset".to_owned(), None),
        );
        let one = BTreeMap::from([lead.clone()]);
        let two = BTreeMap::from([lead, preset]);
        let said = |found: &Diagnostics, changes: &BTreeMap<String, Option<Value>>| {
            name_written_values(found, &sources, Path::new("/work/store"), changes).to_string()
        };
        let stored = "store/settings.toml";
        let rows = rows! {
            (stored, "turn.lead", &two, "turn.lead = \"nobody\""),
            (stored, "compaction.preset", &two, "compaction.preset is removed"),
            (stored, "compaction", &two, "the changed settings"),
            (stored, "compaction", &one, "turn.lead = \"nobody\""),
            ("a.toml", "turn.lead", &one, "a.toml:3:1"),
        };
        for (file, key, changes, place) in rows {
            let expected = format!("{place}: error: it is wrong");
            assert_eq!(said(&at(file, key), changes), expected);
        }
    }

    #[test]
    fn a_value_has_the_type_of_its_key() {
        let cases = rows! {
            ("turn.agents", "risks, facts", Value::from(vec!["risks", "facts"])),
            ("turn.agents", "", Value::Array(Vec::new())),
            ("turn.agents", "[]", Value::Array(Vec::new())),
            ("compaction.summarisers", r#" ["extractive"] "#, Value::from(vec!["extractive"])),
            ("turn.agents", r#"["risks=money, time", 'facts']"#,
             Value::from(vec!["risks=money, time", "facts"])),
            // No array of texts, and one key more.
            ("turn.agents", "[1, 2]", Value::from(vec!["[1", "2]"])),
            ("turn.agents", "[]\nb = 1", Value::from(vec!["[]\nb = 1"])),
            ("turn.lead", "facts", "facts".into()),
            ("compaction.trigger_tokens", "9_000", 9_000.into()),
            ("compaction.trigger_tokens", "many", "many".into()),
            ("compaction.trigger_of_window", "0.5", 0.5.into()),
            ("nothing.at_all", "7", "7".into()),
        };
        for (key, text, value) in cases {
            assert_eq!(parse_value(key, text), value, "{key} = {text}");
        }
    }

    #[test]
    fn what_is_read_at_the_start_is_not_changed() {
        let refused = ["server.bind", "store.path", "turn", "agents.lead.model"];
        for key in refused {
            let change = with("", &[(key, Some(1.into()))]);
            assert_eq!(change, Err(UnchangeableKey::Key(key.to_owned())), "{key}");
        }
        for key in [
            "turn.agents",
            "compaction.preset",
            "compaction.deadline_seconds",
        ] {
            assert!(is_changeable(key), "{key}");
        }
        assert!(matches!(
            with("lead = ", &[]),
            Err(UnchangeableKey::File(_))
        ));
    }
}
