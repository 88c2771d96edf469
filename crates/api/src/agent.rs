//! Who works, and on which models.

use serde::{Deserialize, Serialize};

use crate::turn::Settings;

/// An agent that can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Agent {
    /// Its id.
    pub agent: String,
    /// What it is for.
    pub description: String,
    /// `llm`, `extractive`, `command`, `http`, or the name of a kind of one's own.
    pub kind: String,
    /// Its model.
    pub model: String,
    /// Tools it may call.
    pub tools: Vec<String>,
    /// Where it is defined.
    pub origin: String,
    /// As what it takes part in what is asked: `lead`, `delegate`, or `available` to the lead; none:
    /// it does not.
    #[serde(default)]
    pub role: Option<String>,
}

/// What came of reading the definitions of agents again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Reload {
    /// Whether turns that begin from now on have what was read; if not, all is as it was.
    pub taken: bool,
    /// Agents there are now and were not before.
    pub added: Vec<String>,
    /// Agents that are defined otherwise.
    pub changed: Vec<String>,
    /// Agents there are no more.
    pub removed: Vec<String>,
    /// What is odd about the definitions, or, where they were not taken, also what is wrong.
    pub problems: Vec<String>,
}

/// A model of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Model {
    /// `provider/model`, or `extractive`.
    pub model: String,
    /// Whether it can be asked.
    pub usable: bool,
    /// What is missing for that.
    pub lacks: Option<String>,
    /// Whether agents that name none have it.
    pub default: bool,
    /// Tokens in and out together.
    pub window_tokens: u64,
    /// The same where the provider refused so many and named less: what turns keep within.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learnt_window_tokens: Option<u64>,
    /// Tokens out at most.
    pub max_output_tokens: u64,
    /// What is to be known before it is asked: that it retires soon, with what to use in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

/// Who would be asked, and with which settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Whom {
    /// The session, where that is not said otherwise; none: a new one.
    pub session: Option<String>,
    /// The agent that would answer; none: as configured.
    pub lead: Option<String>,
    /// The agents that would work before it, with commas between them; none: as configured.
    pub agents: Option<String>,
    /// Settings of its own, as a turn may have them.
    pub settings: Settings,
}

impl Whom {
    /// As the query of an address has it.
    pub fn query(&self) -> [(&'static str, Option<String>); 3] {
        let own = &self.settings;
        let own = own.iter().map(|(key, value)| (key.clone(), value.clone()));
        let own: serde_json::Map<_, _> = own.collect();
        let settings = (!own.is_empty()).then(|| serde_json::Value::Object(own).to_string());
        [
            ("lead", self.lead.clone()),
            ("agents", self.agents.clone()),
            ("settings", settings),
        ]
    }
}
