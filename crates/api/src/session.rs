//! Conversations.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::store::LostEvents;
use crate::turn::{Fault, Member, Settings};
use crate::usage::Budget;

/// Which sessions of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "description", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct SessionQuery {
    /// Only sessions with this label: `name=value`, or `name` with any value. A part may then have
    /// fewer than asked for, and still `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Only the sessions whose id begins or ends with this text, hyphens aside; `latest`: the one
    /// that changed last, those of MCP clients aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Only sessions that may have open turns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// Whether the session that changed last comes first, not the one that was made last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_change: bool,
    /// `next` of the part before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many at most: 50, and no more than 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(value_type = Option<usize>, minimum = 1))]
    pub limit: Option<NonZeroUsize>,
}

/// A session as a list has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Listed {
    /// Its id.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// A title for people.
    pub title: String,
    /// Labels: platform, channel, owner.
    pub labels: BTreeMap<String, String>,
    /// Events in its journal.
    pub events: u64,
    /// Their size on disk, in bytes.
    pub bytes: u64,
    /// When it was made.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub created: String,
    /// When its journal last grew.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub updated: String,
    /// What a repair of the store has lost of it, until that is acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostEvents>,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Session {
    /// Its id.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: String,
    /// A title for people.
    pub title: String,
    /// The system text every agent sees first.
    pub system: String,
    /// Labels: platform, channel, owner.
    pub labels: BTreeMap<String, String>,
    /// Its own settings: by key, dotted, as on a command line.
    pub settings: BTreeMap<String, String>,
    /// Events in its journal: where to follow it from.
    pub events: u64,
    /// Messages on all branches.
    pub messages: u64,
    /// Its branches, by name.
    pub branches: Few<Branch>,
    /// Checkpoints made so far.
    pub checkpoints: u64,
    /// Turns that have not ended, oldest first.
    pub open_turns: Few<String>,
    /// What the agents of those turns are at.
    #[serde(default)]
    pub open_runs: Vec<OpenRun>,
    /// Turns that have, newest first.
    pub ended_turns: Few<EndedTurn>,
    /// Its bounds, and those of its oldest open turn.
    #[serde(default)]
    pub budgets: Vec<Budget>,
    /// What a repair of the store has lost of it, until that is acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostEvents>,
}

/// The first items of a list that another route has whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Few<T> {
    /// How many there are in all.
    pub count: u64,
    /// The first of them: no more than 20.
    pub items: Vec<T>,
    /// Whether there are more than these.
    pub has_more: bool,
    /// The address of the list, which has all, a part at a time.
    pub url: String,
}

impl<T> Few<T> {
    const MOST: usize = 20;

    /// The first of so many.
    pub fn of(count: usize, all: impl IntoIterator<Item = T>, url: String) -> Few<T> {
        let items: Vec<T> = all.into_iter().take(Self::MOST).collect();
        Few {
            count: count as u64,
            has_more: count > items.len(),
            items,
            url,
        }
    }
}

/// A turn that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct EndedTurn {
    /// Its id.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
    /// How it ended: `answered`, `compacted`, `restored`, `failed` or `cancelled`.
    pub state: String,
    /// Why it failed.
    pub error: Option<Fault>,
    /// The ordinal of the answer's message.
    pub answer_message: Option<u32>,
    /// For `compacted` and `restored`: what the context took before, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_before: Option<u64>,
    /// What it took then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_after: Option<u64>,
}

/// What an agent of an open turn is at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct OpenRun {
    /// The turn.
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub turn: String,
    /// Its branch.
    pub branch: String,
    /// The agent.
    #[serde(flatten)]
    pub agent: Member,
}

/// How a session is written to a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "description", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ExportQuery {
    /// `unisono` (everything), `openai` or `sharegpt` (one branch): `unisono`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The branch; without it `main`, or all of them where the format holds all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// A conversation as it stands in a file.
#[derive(Debug)]
pub struct ImportFile {
    /// What the file is called.
    pub name: String,
    /// The format's name, such as `openai`; none: it is recognised.
    pub format: Option<String>,
    /// Which of several conversations, by number or id; none: there is one.
    pub pick: Option<String>,
    /// Whether bad lines are left out.
    pub skip_bad: bool,
    /// Whether it becomes another session where it says which one it is.
    pub copy: bool,
    /// What is in it.
    pub content: Content,
}

/// The session that a file became, and what is not in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Imported {
    /// The session.
    #[serde(flatten)]
    pub session: Session,
    /// Bad messages that were left out, and lines that are none.
    pub left_out: u64,
    /// Bad parts of messages that were taken without them.
    pub left_out_parts: u64,
    /// What a session has no place for, by kind in the singular, and how often.
    pub left_behind: BTreeMap<String, u64>,
}

/// What is in a file.
#[derive(Debug)]
pub enum Content {
    /// Bytes in memory.
    Bytes(Vec<u8>),
    /// A file, from where it stands.
    File(std::fs::File),
}

/// A link by which one browser can come in, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Link {
    /// Its address.
    pub url: String,
}

/// Which part of what there is on a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "description", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct BranchPageQuery {
    /// The branch: `main`.
    #[serde(default = "main_branch")]
    pub branch: String,
    /// `next` of the part before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many at most: 50, and no more than 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(value_type = Option<usize>, minimum = 1))]
    pub limit: Option<NonZeroUsize>,
}

/// A path through the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Branch {
    /// Its name.
    pub name: String,
    /// The id of its last message.
    pub head: String,
    /// Messages on it.
    pub messages: u32,
    /// Topics on it; 0 where nothing was ever decided about topics.
    #[serde(default)]
    pub topics: u32,
}

/// Which part of the tree of messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "description", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct TreeQuery {
    /// Whether each message is a stretch of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
    /// `next` of the part before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many at most: 50, and no more than 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(value_type = Option<usize>, minimum = 1))]
    pub limit: Option<NonZeroUsize>,
}

/// A message of the tree, whichever branches have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct TreeMessage {
    /// Its id.
    pub id: String,
    /// The id of the message before it; none for the first one.
    pub parent: Option<String>,
    /// Its place on its branches, from 1.
    pub ordinal: u32,
    /// Who says it.
    pub role: String,
    /// The agent that wrote it.
    pub author: Option<String>,
    /// When.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: String,
    /// What it says.
    pub text: String,
}

/// Messages one after the other, up to where something happens: a fork, an end, a branch's head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Stretch {
    /// How many forks it is below.
    pub depth: u32,
    /// The id of its first message.
    pub first: String,
    /// The id of its last one.
    pub last: String,
    /// The first one's place on its branches.
    pub first_ordinal: u32,
    /// The last one's.
    pub last_ordinal: u32,
    /// How many there are.
    pub messages: u64,
    /// Who says the first one.
    pub role: String,
    /// How it begins.
    pub text: String,
    /// The branches that end with the last one.
    pub branches: Vec<String>,
}

/// A branch to be started, or set elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewBranch {
    /// Its name.
    pub name: String,
    /// The message it ends in: an id, or `#n` on `from`.
    #[cfg_attr(
        feature = "description",
        schema(
            pattern = "^(#[1-9][0-9]{0,8}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$"
        )
    )]
    pub at: String,
    /// The branch on which `#n` is counted.
    #[serde(default = "main_branch")]
    pub from: String,
}

/// A conversation to be kept.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSession {
    /// A title for people.
    #[serde(default)]
    pub title: Option<String>,
    /// The system text every agent sees first; in place of leading system messages.
    #[serde(default)]
    pub system: Option<String>,
    /// Labels: platform, channel, owner. Names that begin with `unisono.` are refused.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Settings of its own, by key, dotted; see `PATCH /v1/sessions/{session}/settings`.
    #[serde(default)]
    #[cfg_attr(feature = "description", schema(value_type = Object))]
    pub settings: Settings,
    /// What was said so far: OpenAI chat messages, as they were written.
    #[serde(default)]
    #[cfg_attr(feature = "description", schema(value_type = Vec<Object>))]
    pub messages: Vec<Box<RawValue>>,
}

/// The name of the branch a session starts with.
pub fn main_branch() -> String {
    "main".to_owned()
}
