//! Agents and their models.

use serde::{Deserialize, Serialize};

use crate::settings::{Settings, settings_text};

/// An available agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Agent {
    /// Its id.
    pub agent: String,
    /// Its purpose.
    pub description: String,
    /// `llm`, `extractive`, `command`, `http`, `a2a`, `acp`, or the name of a custom kind.
    pub kind: String,
    /// Its model; null: its kind uses none.
    pub model: Option<String>,
    /// Tools it may call.
    pub tools: Vec<String>,
    /// Tags for people.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Where it is defined.
    pub origin: String,
    /// Its role in such a turn: `lead`, `delegate`, or `available` to the lead; null: none.
    pub role: Option<String>,
}

/// An agent with its definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct AgentDetail {
    /// The agent.
    #[serde(flatten)]
    pub agent: Agent,
    /// Whether its model can be asked; true for programs and servers, which are not asked here.
    pub usable: bool,
    /// What is missing for that.
    pub unavailable_reason: Option<String>,
    /// Its instructions, which precede its task.
    pub instructions: String,
    /// Its skills, whose texts follow the instructions.
    pub skills: Vec<String>,
    /// Agents that always work before it.
    pub delegates: Vec<String>,
    /// Agents that work before it, one after the other.
    pub pipeline: Vec<String>,
    /// The known properties of the tools that it may call.
    pub calls: Vec<AgentTool>,
    /// Input and output tokens of its model together.
    pub window_tokens: u64,
    /// Maximum model calls of one run.
    pub max_model_calls: u32,
    /// Maximum milliseconds of one attempt.
    pub timeout_ms: u64,
    /// Attempts after the first.
    pub retries: u32,
    /// Digest of its definition.
    pub digest: String,
    /// The file that defines it, for callers with the scope `admin`, because it may have secrets; null:
    /// it is built in, or defined by settings or the program, or the caller has another scope.
    pub file: Option<AgentFile>,
}

/// A tool that an agent may call, or a pattern of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct AgentTool {
    /// The name or the pattern, as in the definition.
    pub name: String,
    /// The tool server; null: it is built in, or of the program.
    pub server: Option<String>,
    /// The contracts of its calls in the settings, as `tool: contract`; the hints of the server
    /// determine all others.
    pub contracts: Vec<String>,
    /// The rules by which its calls wait for a person.
    pub approvals: Vec<String>,
}

/// The file that defines an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct AgentFile {
    /// Its path.
    pub path: String,
    /// Its text.
    pub text: String,
    /// The digest of the text, which a change names.
    pub digest: String,
    /// Whether it can be changed by a request (`web.edit_agents`).
    pub editable: bool,
}

/// A new text for the file of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewAgentFile {
    /// The text; at most 256 KiB.
    pub text: String,
    /// The digest of the text that was read and changed.
    pub digest: String,
}

/// The outcome of a check of a new text, before it is saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct AgentCheck {
    /// Whether it could be saved.
    pub valid: bool,
    /// Errors and warnings.
    pub problems: Vec<String>,
    /// Whether the file has changed since it was read.
    pub outdated: bool,
}

/// Files of another program, whose agents are to be imported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewAgentImport {
    /// The files: those that define agents, and those that they name. At most 64, with 1 MiB together.
    pub files: Vec<ImportedFile>,
    /// `claude`, `codex`, `copilot`, `opencode`, `gemini` or `crewai`; absent: it is recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Whether nothing is written.
    #[serde(default)]
    pub dry_run: bool,
}

/// A file of another program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ImportedFile {
    /// Its name, or its path below the directory that the files are from: formats are recognised by
    /// it too.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// The outcome of an import of agents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct AgentImport {
    /// The agents, in the order of their files.
    pub agents: Vec<ImportedAgent>,
    /// Files, or agents in them, that cannot be imported.
    pub problems: Vec<FileNote>,
    /// Files that define no agent.
    pub skipped: Vec<FileNote>,
    /// The differences for later turns; null: nothing was written.
    pub reload: Option<Reload>,
}

/// An imported agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ImportedAgent {
    /// Its name here.
    pub agent: String,
    /// The program that it is from.
    pub format: String,
    /// The file that it is from.
    pub from: String,
    /// The file of its definition.
    pub file: String,
    /// The text of its definition.
    pub text: String,
    /// `written`; `would_write`; `exists`: a file of that name is kept; `twice`: another of the files
    /// defines an agent of that name.
    pub state: String,
    /// The keys that did not carry over.
    pub lost: Vec<KeyChange>,
    /// The keys that carried over in another form.
    pub changed: Vec<KeyChange>,
}

/// A key of another program that was lost or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct KeyChange {
    /// The key, with dots between its parts.
    pub key: String,
    /// Its line; null: it is not known.
    pub line: Option<u32>,
    /// The reason, and what to do instead.
    pub reason: String,
}

/// A file with a note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct FileNote {
    /// The file.
    pub file: String,
    /// The reason.
    pub reason: String,
}

/// The outcome of a reload of the agent definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Reload {
    /// Whether later turns use the new definitions; if not, nothing changed.
    pub applied: bool,
    /// New agents.
    pub added: Vec<String>,
    /// Agents with a changed definition.
    pub changed: Vec<String>,
    /// Removed agents.
    pub removed: Vec<String>,
    /// Warnings about the definitions and, if they were not accepted, also errors.
    pub problems: Vec<String>,
}

/// A model of the catalogue, or a model that agents name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Model {
    /// `provider/model`, or `extractive`.
    pub model: String,
    /// Whether it can be used.
    pub usable: bool,
    /// What is missing for its use.
    pub unavailable_reason: Option<String>,
    /// Whether agents without a model use it.
    pub default: bool,
    /// Whether no catalogue has it: its window and output are assumed.
    pub assumed: bool,
    /// Input and output tokens together.
    pub window_tokens: u64,
    /// The window that its provider reported, if it differs: turns stay within it.
    pub reported_window_tokens: Option<u64>,
    /// Maximum output tokens.
    pub max_output_tokens: u64,
    /// The encoding in which its tokens are counted.
    pub encoding: String,
    /// Whether that is only an estimate.
    pub estimated: bool,
    /// How the estimate compares with its replies; null: there were no replies yet.
    pub calibration: Option<Calibration>,
    /// Its retirement date.
    pub retires: Option<String>,
    /// Its successor.
    pub successor: Option<String>,
    /// Dollars per million input tokens; null: the price is unknown.
    pub input_usd_per_million: Option<String>,
    /// Dollars per million output tokens.
    pub output_usd_per_million: Option<String>,
    /// Dollars per million tokens read from the provider's cache.
    pub cache_read_usd_per_million: Option<String>,
    /// Dollars per million tokens written to the provider's cache.
    pub cache_write_usd_per_million: Option<String>,
    /// A notice about a configured model, with a remedy: it retires soon, or no catalogue has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

/// How a model's tokens differ from their estimate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Calibration {
    /// Its tokens, divided by the estimate.
    pub ratio: f64,
    /// The possible error of this ratio, as a share.
    pub error: f64,
    /// Number of replies that it is computed from.
    pub replies: u64,
}

/// A turn to describe, and its settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct AgentQuery {
    /// The session of the turn, whose settings apply; absent: a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The agent that would answer; absent: as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lead: Option<String>,
    /// The agents that would work before it, separated by commas; absent: as configured; empty:
    /// only the lead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<String>,
    /// Its own settings, as in a turn: a JSON object.
    #[serde(
        default,
        with = "settings_text",
        skip_serializing_if = "Settings::is_empty"
    )]
    #[cfg_attr(feature = "description", param(value_type = Option<String>))]
    pub settings: Settings,
}
