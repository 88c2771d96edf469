//! Who works, and on which models.

use serde::{Deserialize, Serialize};

use crate::turn::{Settings, settings_text};

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
    /// Words by which it is found.
    #[serde(default)]
    pub tags: Vec<String>,
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

/// A model of the catalogue, or one that agents name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Whether no catalogue has it: its window and output are assumed.
    pub assumed: bool,
    /// Tokens in and out together.
    pub window_tokens: u64,
    /// The same where its provider named another number: what turns keep within.
    #[serde(default)]
    pub learnt_window_tokens: Option<u64>,
    /// Tokens out at most.
    pub max_output_tokens: u64,
    /// The encoding its tokens are counted in.
    pub encoding: String,
    /// Whether that is only an estimate.
    pub estimated: bool,
    /// What its replies showed of the estimate; none: there were none yet.
    #[serde(default)]
    pub calibration: Option<Calibration>,
    /// The date on which it is retired.
    #[serde(default)]
    pub retires: Option<String>,
    /// The model that follows it.
    #[serde(default)]
    pub successor: Option<String>,
    /// Dollars for a million tokens that are read; none: the price is not known.
    pub input_usd_per_million: Option<String>,
    /// Dollars for a million tokens that are written.
    pub output_usd_per_million: Option<String>,
    /// Dollars for a million tokens that are read from the provider's cache.
    pub cache_read_usd_per_million: Option<String>,
    /// Dollars for a million tokens that are written to the provider's cache.
    pub cache_write_usd_per_million: Option<String>,
    /// What to know, and to do, before it is asked, where it is configured: it is retired soon, or no
    /// catalogue has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

/// How a model's tokens differ from their estimate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Calibration {
    /// Its tokens, divided by the estimate.
    pub ratio: f64,
    /// How far that may be off, as a share.
    pub error: f64,
    /// Replies that showed it.
    pub replies: u64,
}

/// Who would be asked, and with which settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "description", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct AgentQuery {
    /// The session that would be asked, whose settings count; none: a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The agent that would answer; none: as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lead: Option<String>,
    /// The agents that would work before it, with commas between them; none: as configured; empty:
    /// the lead alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<String>,
    /// Settings of its own, as a turn may have them: an object in JSON.
    #[serde(
        default,
        with = "settings_text",
        skip_serializing_if = "Settings::is_empty"
    )]
    #[cfg_attr(feature = "description", param(value_type = Option<String>))]
    pub settings: Settings,
}
