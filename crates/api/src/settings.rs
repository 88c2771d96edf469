//! What is set.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Setting {
    /// Its key, dotted.
    pub key: String,
    /// Its value, as TOML.
    pub value: String,
    /// Where it was written: `defaults`, a file, `session`, a variable, a flag.
    pub origin: String,
    /// The line in that file, from 1.
    #[serde(default)]
    pub line: Option<u32>,
    /// The column in that line, from 1.
    #[serde(default)]
    pub column: Option<u32>,
    /// Whether it can be changed while the daemon runs; of a session: whether it can have its own.
    pub changeable: bool,
}

impl Setting {
    /// Where it was written, with line and column.
    pub fn place(&self) -> String {
        match (self.line, self.column) {
            (Some(line), Some(column)) => format!("{}:{line}:{column}", self.origin),
            _ => self.origin.clone(),
        }
    }
}

/// The keys that can be changed while the daemon runs, also those without a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct SettingKeys {
    /// Those of all sessions, dotted.
    pub daemon: Vec<String>,
    /// Those that one session can have, dotted.
    pub session: Vec<String>,
    /// The keys of `compaction` that one provider or one model can have.
    pub model: Vec<String>,
}

/// Settings to be changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// By key, dotted; `null` leaves one to the settings files again.
    #[cfg_attr(feature = "description", schema(value_type = Object))]
    pub changes: BTreeMap<String, Option<Value>>,
}
