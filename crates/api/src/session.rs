//! Sessions, their branches and their messages.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::run::{ErrorInfo, Member};
use crate::settings::Settings;
use crate::store::LostEvents;
use crate::usage::Budget;

/// Selects sessions of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct SessionQuery {
    /// Only sessions with this label: `name=value`, or `name` with any value. A page may then have
    /// fewer items than requested and still have `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Only sessions whose id begins or ends with this text, ignoring hyphens; `latest`: the
    /// session that changed last, except those of MCP clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Only sessions that may have open turns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// Whether the most recently changed session comes first, instead of the newest one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_change: bool,
    /// `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Size of a page, at most 500 (default: 50).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(value_type = Option<usize>, minimum = 1))]
    pub limit: Option<NonZeroUsize>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct SessionListItem {
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
    /// When it was created.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub created_at: String,
    /// When its journal last grew.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub updated_at: String,
    /// Events lost in a repair of the store, until the loss is acknowledged.
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
    /// The system text at the beginning of every agent's prompt.
    pub system: String,
    /// Labels: platform, channel, owner.
    pub labels: BTreeMap<String, String>,
    /// Its own settings, by dotted key, as on a command line.
    pub settings: BTreeMap<String, String>,
    /// Number of events in its journal: the position from which to follow it.
    pub events: u64,
    /// Messages on all branches.
    pub messages: u64,
    /// Its branches, by name.
    pub branches: Preview<Branch>,
    /// Number of checkpoints.
    pub checkpoints: u64,
    /// Open turns, oldest first.
    pub open_turns: Preview<String>,
    /// The agents of these turns.
    #[serde(default)]
    pub open_runs: Vec<OpenRun>,
    /// Ended turns, newest first.
    pub ended_turns: Preview<EndedTurn>,
    /// The budgets of its open turns, oldest first, at most of 20 that do not wait in a queue; then its
    /// own.
    #[serde(default)]
    pub budgets: Vec<Budget>,
    /// Events lost in a repair of the store, until the loss is acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostEvents>,
}

/// The first items of a list; another route has the whole list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Preview<T> {
    /// Number of all items.
    pub count: u64,
    /// The first items, at most 20.
    pub items: Vec<T>,
    /// Whether there are more than these.
    pub has_more: bool,
    /// The address of the whole list, which is paged.
    pub url: String,
}

impl<T> Preview<T> {
    const MAX: usize = 20;

    /// The first items of a list with this number of items.
    pub fn new(count: usize, all: impl IntoIterator<Item = T>, url: String) -> Preview<T> {
        let items: Vec<T> = all.into_iter().take(Self::MAX).collect();
        Preview {
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
    /// Its end: `answered`, `compacted`, `reverted`, `failed` or `cancelled`.
    pub state: String,
    /// Why it failed.
    pub error: Option<ErrorInfo>,
    /// The ordinal of the answer's message.
    pub answer_message: Option<u32>,
    /// For `compacted` and `reverted`: tokens of the context before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_before: Option<u64>,
    /// Tokens of the context afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_after: Option<u64>,
}

/// An agent of an open turn.
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

/// The format of an exported session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ExportQuery {
    /// `unisono` (everything), `openai`, `anthropic` or `sharegpt` (one branch); default: `unisono`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The branch; absent: `main`, or all branches if the format supports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// A conversation in a file.
#[derive(Debug)]
pub struct ImportFile {
    /// The name of the file.
    pub name: String,
    /// The name of the format, such as `openai`; none: detected.
    pub format: Option<String>,
    /// One of several conversations, by number or id; none: the file has only one.
    pub pick: Option<String>,
    /// Whether bad lines are skipped.
    pub skip_bad: bool,
    /// Whether it becomes a new session although it names an existing one.
    pub copy: bool,
    /// Whether it may have at most `server.import_messages` messages; a daemon asks that of every
    /// file.
    pub bounded: bool,
    /// The contents of the file.
    pub content: Content,
}

/// The imported session, and what was not imported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ImportResult {
    /// The session.
    #[serde(flatten)]
    pub session: Session,
    /// What was not imported.
    #[serde(flatten)]
    pub losses: ImportLosses,
}

/// The parts of a conversation that were not imported, or may have been misread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ImportLosses {
    /// Number of bad messages and invalid lines that were skipped.
    pub skipped_messages: u64,
    /// Number of bad message parts that were skipped.
    pub skipped_parts: u64,
    /// The first of these, each as `line:column: reason`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// The first places that may have been misread, each as `line:column: reason`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Number of items that a session cannot hold, by kind in the singular.
    pub dropped_content: BTreeMap<String, u64>,
}

/// The contents of a file.
#[derive(Debug)]
pub enum Content {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A file, from its start.
    File(std::fs::File),
}

/// A conversation in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct FileConversation {
    /// Its number, from 1.
    pub number: u64,
    /// Its id in the program that wrote the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its title; may be empty.
    pub title: String,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: Option<String>,
    /// Number of its valid messages.
    pub messages: u64,
    /// The session that an earlier import made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", schema(format = "uuid"))]
    pub session: Option<String>,
}

/// The outcome for a conversation in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct ConversationImport {
    /// The conversation; it has a session if that could be made.
    #[serde(flatten)]
    pub conversation: FileConversation,
    /// Whether an earlier import made the session.
    pub known: bool,
    /// What was not imported.
    #[serde(flatten)]
    pub losses: ImportLosses,
    /// Why it has no session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Number of its lines that cannot be read, if it has no session because of them; `skip_bad`
    /// skips them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bad_lines: Option<u64>,
}

impl ConversationImport {
    /// A conversation that was imported before.
    pub fn known(conversation: FileConversation) -> ConversationImport {
        ConversationImport {
            conversation,
            known: true,
            losses: ImportLosses::default(),
            error: None,
            bad_lines: None,
        }
    }
}

/// A link with which one browser can log in once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Link {
    /// Its address.
    pub url: String,
}

/// Selects a page of a list of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct BranchPageQuery {
    /// The branch (default: `main`).
    #[serde(default = "main_branch")]
    pub branch: String,
    /// `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Size of a page, at most 500 (default: 50).
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
    /// The id of the last message that an earlier branch has too; null: it begins at no other branch.
    pub parent: Option<String>,
    /// Messages on it.
    pub messages: u32,
    /// Topics on it; 0 if topics were never decided.
    #[serde(default)]
    pub topics: u32,
}

/// Selects a page of the tree of messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct TreeQuery {
    /// Whether each message is a separate stretch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
    /// `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Size of a page, at most 500 (default: 50).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "description", param(value_type = Option<usize>, minimum = 1))]
    pub limit: Option<NonZeroUsize>,
}

/// A message of the tree, on any branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct TreeMessage {
    /// Its id.
    pub id: String,
    /// The id of the previous message; null for the first one.
    pub parent: Option<String>,
    /// Its position on its branches, from 1.
    pub ordinal: u32,
    /// Its role.
    pub role: String,
    /// The agent or the person who wrote it.
    pub author: Option<String>,
    /// When it was written; null if that is unknown.
    #[cfg_attr(feature = "description", schema(format = "date-time"))]
    pub at: Option<String>,
    /// Its text.
    pub text: String,
}

/// Consecutive messages up to a fork, an end, or a branch's head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct BranchSegment {
    /// Number of forks above it.
    pub depth: u32,
    /// The id of the message before it; null: it is a beginning.
    pub parent: Option<String>,
    /// The id of its first message.
    pub first: String,
    /// The id of its last message.
    pub last: String,
    /// The position of its first message.
    pub first_ordinal: u32,
    /// The position of its last message.
    pub last_ordinal: u32,
    /// Number of its messages.
    pub messages: u64,
    /// The role of its first message.
    pub role: String,
    /// The beginning of its text.
    pub text: String,
    /// The branches whose head is its last message.
    pub branches: Vec<String>,
}

/// A branch to create or to move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewBranch {
    /// Its name.
    pub name: String,
    /// Its last message: an id, or `#n` on `from`.
    #[cfg_attr(
        feature = "description",
        schema(
            pattern = "^(#[1-9][0-9]{0,8}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$"
        )
    )]
    pub at: String,
    /// The branch to which `#n` refers.
    #[serde(default = "main_branch")]
    pub from: String,
}

/// A conversation to store.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSession {
    /// A title for people.
    pub title: Option<String>,
    /// The system text at the beginning of every agent's prompt, of at most 4 MiB; it replaces leading
    /// system messages.
    pub system: Option<String>,
    /// Labels: platform, channel, owner. Empty names and names that begin with `unisono.` are
    /// refused, and so are more than 256 KiB together with the title.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Its own settings, by dotted key; see `PATCH /v1/sessions/{session}/settings`.
    #[serde(default)]
    #[cfg_attr(feature = "description", schema(value_type = Object))]
    pub settings: Settings,
    /// The previous messages: OpenAI chat messages, unchanged.
    #[serde(default)]
    #[cfg_attr(feature = "description", schema(value_type = Vec<Object>))]
    pub messages: Vec<Box<RawValue>>,
}

/// The name of the first branch of a session.
pub const MAIN_BRANCH: &str = "main";

/// [`MAIN_BRANCH`], as the default of a field.
pub fn main_branch() -> String {
    MAIN_BRANCH.to_owned()
}

/// `true`, as the default of a field.
pub(crate) fn yes() -> bool {
    true
}
