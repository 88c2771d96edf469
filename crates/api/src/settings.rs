//! Settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Setting {
    /// Its dotted key.
    pub key: String,
    /// Its value, as TOML.
    pub value: String,
    /// The meaning of the key, from the comments of the defaults; absent if there is no comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Its origin: `defaults`, a file, `session`, a variable, a flag.
    pub origin: String,
    /// The line in that file, from 1.
    pub line: Option<u32>,
    /// The column in that line, from 1.
    pub column: Option<u32>,
    /// Whether it can be changed while the daemon runs; for a session: whether the session can
    /// override it.
    pub changeable: bool,
}

impl Setting {
    /// Its origin, with line and column.
    pub fn place(&self) -> String {
        match (self.line, self.column) {
            (Some(line), Some(column)) => format!("{}:{line}:{column}", self.origin),
            _ => self.origin.clone(),
        }
    }
}

/// The keys that can be changed while the daemon runs, including keys without a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct SettingKeys {
    /// Dotted keys for all sessions.
    pub daemon: Vec<String>,
    /// Dotted keys that one session can override.
    pub session: Vec<String>,
    /// The keys of `compaction` that one provider or one model can override.
    pub model: Vec<String>,
}

/// Changes of settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// By dotted key; `null` removes the change, so that the settings files apply again.
    #[cfg_attr(feature = "description", schema(value_type = Object))]
    pub changes: BTreeMap<String, Option<Value>>,
    /// Whether the changes are only checked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// Settings by dotted key.
pub type Settings = BTreeMap<String, Value>;

/// Settings as one query parameter: a JSON object.
pub(crate) mod settings_text {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use serde_json::{Map, Value};

    use super::Settings;

    pub(crate) fn serialize<S: Serializer>(settings: &Settings, to: S) -> Result<S::Ok, S::Error> {
        let each = settings.iter();
        let each = each.map(|(key, value)| (key.clone(), value.clone()));
        let object = Value::Object(each.collect::<Map<_, _>>());
        to.serialize_str(&object.to_string())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Settings, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = |error| D::Error::custom(format!("settings: no object in JSON: {error}"));
        serde_json::from_str(&text).map_err(wrong)
    }
}
