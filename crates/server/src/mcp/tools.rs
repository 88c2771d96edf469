//! The tools and their parameters.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use unisono_api::compaction::{NewCompaction, OnFailure};
use unisono_api::session::MAIN_BRANCH;
use unisono_api::token::Scope;
use unisono_api::turn::Settings;

pub(super) const ASK: &str = "ask";
pub(super) const DELEGATE: &str = "delegate";
pub(super) const COMPACT: &str = "compact";
pub(super) const RECALL: &str = "recall";
pub(super) const SEARCH: &str = "search";
pub(super) const SESSIONS: &str = "sessions";
pub(super) const WAIT: &str = "wait";
/// The names of all tools.
pub(super) const NAMES: [&str; 7] = [ASK, DELEGATE, COMPACT, RECALL, SEARCH, SESSIONS, WAIT];

/// The scope that a tool requires.
pub(super) fn scope(name: &str) -> Scope {
    match name {
        RECALL | SEARCH | SESSIONS | WAIT => Scope::Read,
        ASK | DELEGATE | COMPACT => Scope::Ask,
        _ => Scope::Admin,
    }
}

/// The name of a tool, as the audit log has it.
pub(super) fn name(name: &str) -> &'static str {
    let mut names = NAMES.iter();
    names.find(|known| **known == name).copied().unwrap_or("-")
}

/// A task for a session's team.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskArgs {
    pub(super) task: String,
    pub(super) session: Option<String>,
    #[serde(default = "main")]
    pub(super) branch: String,
    pub(super) lead: Option<String>,
    pub(super) agents: Option<Vec<String>>,
}

/// Tasks for agents.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DelegateArgs {
    pub(super) tasks: Vec<TaskArgs>,
    pub(super) task: Option<String>,
    pub(super) session: Option<String>,
    #[serde(default = "main")]
    pub(super) branch: String,
}

/// A task for an agent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskArgs {
    pub(super) agent: String,
    pub(super) task: Option<String>,
}

/// A compaction.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompactArgs {
    pub(super) session: String,
    #[serde(default = "main")]
    branch: String,
    instructions: Option<String>,
    summariser: Option<String>,
    #[serde(default)]
    on_failure: OnFailure,
    keep_messages: Option<u32>,
    keep_tokens: Option<u64>,
    topic: Option<u32>,
    #[serde(default)]
    attention: bool,
    #[serde(default)]
    large_messages: bool,
    over_tokens: Option<u64>,
}

impl From<CompactArgs> for NewCompaction {
    fn from(compacted: CompactArgs) -> NewCompaction {
        NewCompaction {
            branch: compacted.branch,
            instructions: compacted.instructions,
            summariser: compacted.summariser,
            on_failure: compacted.on_failure,
            keep_messages: compacted.keep_messages,
            keep_tokens: compacted.keep_tokens,
            topic: compacted.topic,
            attention: compacted.attention,
            large_messages: compacted.large_messages,
            over_tokens: compacted.over_tokens,
            settings: Settings::new(),
            wait: true,
        }
    }
}

/// An open turn.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitArgs {
    pub(super) session: String,
    pub(super) turn: String,
}

/// A search within a session.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecallArgs {
    pub(super) session: String,
    #[serde(default = "main")]
    pub(super) branch: String,
    pub(super) query: Option<String>,
    pub(super) from: Option<u32>,
    pub(super) to: Option<u32>,
    pub(super) limit: Option<usize>,
}

/// A search over all sessions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchArgs {
    pub(super) query: String,
    pub(super) limit: Option<usize>,
}

/// A part of the list of sessions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListArgs {
    pub(super) label: Option<String>,
    pub(super) cursor: Option<String>,
    pub(super) limit: Option<usize>,
}

fn main() -> String {
    MAIN_BRANCH.to_owned()
}

/// Reads arguments.
pub(super) fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| format!("the arguments do not fit: {error}"))
}

/// The descriptions of the tools.
pub(super) fn specs() -> Vec<Tool> {
    let session = json!({"type": "string", "description": "The session's id; without it, a new one is begun"});
    let known = json!({"type": "string", "description": "The session's id"});
    let branch = json!({"type": "string", "default": MAIN_BRANCH, "description": "The branch"});
    let asks = ToolAnnotations::new()
        .read_only(false)
        .destructive(false)
        .open_world(true);
    let looks = || ToolAnnotations::new().read_only(true).open_world(false);
    vec![
        tool(
            ASK,
            "Gives a session's agents a task and waits for the answer. They all work on one frozen snapshot of the conversation; task and answer become part of it.",
            json!({
                "task": {"type": "string", "description": "The task"},
                "session": session, "branch": branch,
                "lead": {"type": "string", "description": "The agent that answers; without it, the configured one"},
                "agents": {"type": "array", "items": {"type": "string"}, "description": "Agents that work before it, each `agent` or `agent=task`; empty: it answers alone; without it, the configured ones"},
            }),
            &["task"],
            asks.clone(),
        ),
        tool(
            DELEGATE,
            "Gives tasks to agents by name, all at once and on the same frozen snapshot of a session, and waits for their results; the configured lead joins them.",
            json!({
                "tasks": {"type": "array", "minItems": 1, "description": "The agents and their tasks", "items": {
                    "type": "object", "additionalProperties": false, "required": ["agent"],
                    "properties": {
                        "agent": {"type": "string", "description": "The agent's name"},
                        "task": {"type": "string", "description": "The task of this agent (default: the common task)"},
                    },
                }},
                "task": {"type": "string", "description": "What all of it is for; without it, the tasks themselves"},
                "session": session, "branch": branch,
            }),
            &["tasks"],
            asks.clone(),
        ),
        tool(
            COMPACT,
            "Summarises the older part of a session's conversation. The messages themselves are not changed.",
            compaction_properties(&known, &branch),
            &["session"],
            asks,
        ),
        tool(
            WAIT,
            "Waits for the end of a turn that was begun before, such as one that waited for a person, and gives the results of its delegates and its answer.",
            json!({
                "session": known,
                "turn": {"type": "string", "description": "The turn's id"},
            }),
            &["session", "turn"],
            looks(),
        ),
        tool(
            RECALL,
            "Returns messages of a session, complete or as excerpts: the best matches of a query, or the messages with numbers from `from` to `to`. Summarised messages are included.",
            json!({
                "session": known, "branch": branch,
                "query": {"type": "string", "description": "Words; the best messages come first"},
                "from": {"type": "integer", "minimum": 1, "description": "The first message's number"},
                "to": {"type": "integer", "minimum": 1, "description": "The last message's number"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 20, "default": 8, "description": "Messages that a query finds, at most"},
            }),
            &["session"],
            looks(),
        ),
        tool(
            SEARCH,
            "Full-text search over all sessions: words, \"phrases\", -without, role:user, agent:risks, agent:\"Maria Kowalski\", session:ID, after:2026-01-31, before:7d.",
            json!({
                "query": {"type": "string", "description": "What to look for"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10, "description": "Messages at most"},
            }),
            &["query"],
            looks(),
        ),
        tool(
            SESSIONS,
            "The sessions there are, the newest first.",
            json!({
                "label": {"type": "string", "description": "Only sessions with this label, `name=value`, or with a label of this name"},
                "cursor": {"type": "string", "description": "`next` of the part before"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 200, "default": 50, "description": "Sessions at most"},
            }),
            &[],
            looks(),
        ),
    ]
}

fn compaction_properties(known: &Value, branch: &Value) -> Value {
    json!({
        "session": known, "branch": branch,
        "instructions": {"type": "string", "description": "Instructions for the summariser"},
        "summariser": {"type": "string", "description": "Who writes it: a model as provider/model, or `extractive`, which takes quotes; without it, those that are configured"},
        "on_failure": {"enum": OnFailure::ALL, "default": OnFailure::Leave, "description": "What is done where no model writes one that can be taken: they are asked again, quotes are taken, or all is left as it is"},
        "keep_messages": {"type": "integer", "minimum": 1, "description": "How many of the newest messages stay; without this and `keep_tokens`, all from the newest user message on do"},
        "keep_tokens": {"type": "integer", "minimum": 1, "description": "How many tokens of the newest messages stay"},
        "topic": {"type": "integer", "minimum": 1, "description": "In place of all that is older: the topic that this message belongs to, if it has ended"},
        "attention": {"type": "boolean", "default": false, "description": "In place of all that is older: the middle of the current topic"},
        "large_messages": {"type": "boolean", "default": false, "description": "In place of a summary: the middle of messages that are too large is cut out"},
        "over_tokens": {"type": "integer", "minimum": 64, "description": "With `large_messages`: messages with more tokens are too large"},
    })
}

fn tool(
    name: &'static str,
    about: &'static str,
    properties: Value,
    required: &[&str],
    kind: ToolAnnotations,
) -> Tool {
    let schema = json!({
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": false,
    });
    let Value::Object(schema) = schema else {
        return Tool::new(name, about, Arc::default());
    };
    Tool::new(name, about, Arc::new(schema)).with_annotations(kind)
}
