//! What is asked of a session, and what came of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compaction::{Again, Anew, NewCompaction, NewText, TakeBack};
use crate::run::CallResult;
use crate::session::main_branch;
use crate::usage::Amounts;

/// A task for a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewTurn {
    /// What is to be done; may be left out where there are `results`.
    #[serde(default)]
    pub task: String,
    /// The branch it continues.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// The agent that answers; none: as configured.
    #[serde(default)]
    pub lead: Option<String>,
    /// Agents that work before it, each `agent` or `agent=task`; none: as configured; empty: the
    /// lead alone.
    #[serde(default)]
    pub agents: Option<Vec<String>>,
    /// Functions that the lead is lent, as OpenAI's clients write them. It works alone. What it calls
    /// of them ends the turn: they are in its `calls`, for whoever asks to make.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "description", schema(value_type = Vec<Object>))]
    pub tools: Vec<Value>,
    /// `auto`, `none`, `required`, or one of these functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", schema(value_type = Option<crate::openai::ToolChoice>))]
    pub tool_choice: Option<Value>,
    /// Whether one reply may have several calls of them; none: it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// What the calls came back with that the newest turn of the branch has left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<CallResult>,
    /// Settings for this turn alone, by key, dotted: those that can be changed while the daemon
    /// runs, `models.default`, and `models.override`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "description", schema(value_type = Object))]
    pub settings: Settings,
    /// Whether to wait for the answer; otherwise the turn is accepted and can be followed.
    #[serde(default = "yes")]
    pub wait: bool,
}

impl NewTurn {
    /// A task for the agents that are configured, on the branch that a session starts with. It is
    /// accepted and not waited for.
    pub fn new(task: impl Into<String>) -> NewTurn {
        NewTurn {
            task: task.into(),
            branch: main_branch(),
            lead: None,
            agents: None,
            tools: Vec::new(),
            tool_choice: None,
            parallel_tool_calls: None,
            results: Vec::new(),
            settings: Settings::new(),
            wait: false,
        }
    }
}

/// Settings by key, dotted.
pub type Settings = BTreeMap<String, Value>;

/// Settings as one parameter of an address: an object in JSON.
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

/// All that a session can be asked for, each of which becomes a turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Asked {
    /// A task.
    Task(NewTurn),
    /// A summary of what is older.
    Compact(NewCompaction),
    /// Another text for a checkpoint's summary.
    Edit {
        /// The checkpoint's number or id.
        #[serde(skip)]
        checkpoint: String,
        /// The text.
        #[serde(flatten)]
        new: NewText,
    },
    /// A checkpoint's summary written anew.
    Regenerate {
        /// The checkpoint's number or id.
        #[serde(skip)]
        checkpoint: String,
        /// How.
        #[serde(flatten)]
        new: Anew,
    },
    /// A checkpoint taken back.
    Restore {
        /// The checkpoint's number or id.
        #[serde(skip)]
        checkpoint: String,
        /// Where.
        #[serde(flatten)]
        new: TakeBack,
    },
    /// The same compaction, or regeneration of a summary, as in a turn that failed.
    Again {
        /// The turn.
        #[serde(skip)]
        turn: String,
        /// How.
        #[serde(flatten)]
        new: Again,
    },
}

impl Asked {
    /// The same, of which the end is waited for, or not.
    #[must_use]
    pub fn waited_for(&self, waited: bool) -> Asked {
        let mut asked = self.clone();
        let wait = match &mut asked {
            Asked::Task(new) => &mut new.wait,
            Asked::Compact(new) => &mut new.wait,
            Asked::Edit { new, .. } => &mut new.wait,
            Asked::Regenerate { new, .. } => &mut new.wait,
            Asked::Restore { new, .. } => &mut new.wait,
            Asked::Again { new, .. } => &mut new.wait,
        };
        *wait = waited;
        asked
    }

    /// Settings of its own, where it may have some.
    pub fn settings_mut(&mut self) -> Option<&mut Settings> {
        match self {
            Asked::Task(new) => Some(&mut new.settings),
            Asked::Compact(new) => Some(&mut new.settings),
            Asked::Regenerate { new, .. } => Some(&mut new.settings),
            Asked::Edit { .. } | Asked::Restore { .. } | Asked::Again { .. } => None,
        }
    }

    /// The route that takes it.
    pub fn route(&self, session: &str) -> String {
        let of = |checkpoint: &str, what: &str| {
            format!("/v1/sessions/{session}/checkpoints/{checkpoint}/{what}")
        };
        match self {
            Asked::Task(_) => format!("/v1/sessions/{session}/turns"),
            Asked::Compact(_) => format!("/v1/sessions/{session}/compactions"),
            Asked::Edit { checkpoint, .. } => of(checkpoint, "edit"),
            Asked::Regenerate { checkpoint, .. } => of(checkpoint, "regenerate"),
            Asked::Restore { checkpoint, .. } => of(checkpoint, "restore"),
            Asked::Again { turn, .. } => format!("/v1/sessions/{session}/turns/{turn}/again"),
        }
    }
}

pub(crate) fn yes() -> bool {
    true
}

/// A turn, as far as it has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Turn {
    /// Its session.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// Its id.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
    /// Its branch.
    pub branch: String,
    /// What was asked; none for a compaction.
    pub task: Option<String>,
    /// `queued`, `preparing`, `working`, `answered`, `compacted`, `failed` or `cancelled`.
    pub state: String,
    /// Why it failed.
    pub error: Option<Fault>,
    /// The lead's answer.
    pub answer: Option<String>,
    /// Calls that it leaves to whoever asked, of tools that they lent it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<LeftCall>,
    /// The frozen context that its agents were given.
    pub snapshot: Option<String>,
    /// How many agents were given it.
    pub snapshot_agents: u32,
    /// Checkpoints that it made, by number.
    pub checkpoints: Vec<u32>,
    /// What compacting its context came to; none where nothing was compacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted: Option<Compacted>,
    /// Its runs, in the order in which they were opened.
    pub runs: Vec<Run>,
    /// What the runs that ended cost together; none where a price is not known.
    pub cost_usd: Option<f64>,
    /// When it was accepted.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub accepted: String,
    /// When it ended.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub ended: Option<String>,
}

/// An agent of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Member {
    /// Its place among the agents of the turn, from 0.
    pub place: u64,
    /// Its run; none before it begins.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: Option<String>,
    /// The agent.
    pub agent: String,
    /// `delegate`, `lead` or `child`.
    pub role: String,
    /// For a `delegate` of a pipeline: its place in that, from 1.
    pub stage: Option<u32>,
    /// The run that gave it its task, for a `child`.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub parent: Option<String>,
    /// `waiting` (to begin, or for those it gave tasks to), `running`, `done`, `partial`, `failed`
    /// or `cancelled`.
    pub state: String,
    /// The attempt, from 1; none where it does not run.
    pub attempt: Option<u32>,
    /// What it came back with.
    pub text: Option<String>,
    /// Why it failed, or is not complete.
    pub error: Option<Fault>,
    /// What it used, once it is done.
    pub usage: Option<Amounts>,
    /// How long it took, all attempts, in milliseconds.
    pub duration_ms: Option<u64>,
}

impl Member {
    /// Whether it is still to end.
    pub fn is_open(&self) -> bool {
        matches!(self.state.as_str(), "waiting" | "running")
    }
}

/// What compacting the context of a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Compacted {
    /// What the context took before.
    pub tokens_before: u64,
    /// What it takes since; none while that is not known.
    pub tokens_after: Option<u64>,
    /// The first divided by the second.
    pub compression_ratio: Option<f64>,
    /// Whether less was kept verbatim than the preset, or a person, asks for: otherwise the
    /// context would not have fitted.
    pub tightened: bool,
}

/// A call that an agent leaves to whoever asked it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct LeftCall {
    /// Its id.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// Arguments as JSON text.
    pub arguments: String,
}

/// Why a turn or a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Fault {
    /// A stable code, such as `context_overflow` or `timeout`.
    pub code: String,
    /// What happened.
    pub reason: String,
}

/// One agent working on one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Run {
    /// Its id.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub run: String,
    /// The agent.
    pub agent: String,
    /// Its model.
    pub model: Option<String>,
    /// `delegate`, `lead` or `child`.
    pub role: String,
    /// For a `delegate` of a pipeline: its place in that, from 1.
    pub stage: Option<u32>,
    /// The run that gave it its task, for a `child`.
    pub parent: Option<String>,
    /// For a `child`: the round of its parent that gave it its task, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// Its place among the delegates of its turn or the children of its round, from 0; none for a
    /// lead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// What it was given to do. In a list and in a turn: where it has a task of its own.
    pub task: Option<String>,
    /// `running`, `waiting` (for those it gave tasks to), `done`, `partial`, `failed` or
    /// `cancelled`.
    pub state: String,
    /// The attempt, from 1.
    pub attempt: u32,
    /// How many steps it has finished.
    #[serde(default)]
    pub step_count: u64,
    /// The frozen context it was given.
    pub snapshot: Option<String>,
    /// The digest of the prompt bytes it shares with others.
    pub prefix: String,
    /// Its answer.
    pub text: Option<String>,
    /// Why it failed, or is not complete.
    pub error: Option<Fault>,
    /// What it used.
    pub usage: crate::usage::Amounts,
    /// When it was opened.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub opened: String,
    /// When it ended.
    #[serde(default)]
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub ended: Option<String>,
    /// How long it took, all attempts, in milliseconds.
    pub duration_ms: Option<u64>,
}
