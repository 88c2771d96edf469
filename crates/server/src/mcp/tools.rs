//! The tools and their parameters.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use unisono_api::compaction::{NewCompaction, OnFailure};
use unisono_api::session::{MAIN_BRANCH, main_branch};
use unisono_api::token::Scope;
use unisono_api::turn::Settings;

pub(super) const ASK: &str = "ask";
pub(super) const DELEGATE: &str = "delegate";
pub(super) const COMPACT: &str = "compact";
pub(super) const RECALL: &str = "recall";
pub(super) const SEARCH: &str = "search";
pub(super) const SESSIONS: &str = "sessions";
pub(super) const WAIT: &str = "wait";
pub(super) const NAMES: [&str; 7] = [ASK, DELEGATE, COMPACT, RECALL, SEARCH, SESSIONS, WAIT];
/// Floats below this (2^53) represent every integer exactly.
const WHOLE_BELOW: f64 = 9_007_199_254_740_992.0;

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
    #[serde(default = "main_branch")]
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
    #[serde(default = "main_branch")]
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
    #[serde(default = "main_branch")]
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
    #[serde(default = "main_branch")]
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

/// Reads arguments. Clients with typed arguments send null for those that were not given; clients whose
/// numbers are all floats send `5.0`, which is an integer to JSON Schema.
pub(super) fn read<T: DeserializeOwned>(mut arguments: Value) -> Result<T, String> {
    if let Value::Object(all) = &mut arguments {
        all.retain(|_, argument| !argument.is_null());
        for argument in all.values_mut() {
            if let Some(whole) = whole_float(argument) {
                *argument = whole.into();
            }
        }
    }
    serde_json::from_value(arguments).map_err(|error| format!("the arguments do not fit: {error}"))
}

fn whole_float(argument: &Value) -> Option<i64> {
    let float = argument.as_f64().filter(|_| argument.is_f64())?;
    let is_whole = float.fract() == 0.0 && float.abs() < WHOLE_BELOW;
    is_whole.then_some(float as i64)
}

pub(super) fn specs() -> Vec<Tool> {
    vec![
        ask(),
        delegate(),
        compact(),
        wait(),
        recall(),
        search(),
        sessions(),
    ]
}

fn ask() -> Tool {
    tool(
        ASK,
        "Gives a task to the agents of a session and waits for the answer. All agents work on one frozen snapshot of the conversation. Task and answer become messages of the session.",
        json!({
            "task": {"type": "string", "description": "The task"},
            "session": session_or_new(), "branch": branch(),
            "lead": {"type": "string", "description": "The agent that answers (default: the configured lead)"},
            "agents": {"type": "array", "items": {"type": "string"}, "description": "The agents that work before the lead, each `agent` or `agent=task`; empty: the lead alone (default: the configured agents)"},
        }),
        &["task"],
        work_annotations(),
    )
}

fn delegate() -> Tool {
    tool(
        DELEGATE,
        "Gives tasks to agents by name and waits for their results. The agents work in parallel on one frozen snapshot of the session; then the configured lead answers with their results.",
        json!({
            "tasks": {"type": "array", "minItems": 1, "description": "The agents and their tasks", "items": {
                "type": "object", "additionalProperties": false, "required": ["agent"],
                "properties": {
                    "agent": {"type": "string", "description": "The agent's name"},
                    "task": {"type": "string", "description": "The task of this agent (default: the common task)"},
                },
            }},
            "task": {"type": "string", "description": "The common task, to which the lead answers (default: the tasks of the agents)"},
            "session": session_or_new(), "branch": branch(),
        }),
        &["tasks"],
        work_annotations(),
    )
}

fn compact() -> Tool {
    tool(
        COMPACT,
        "Summarises the older messages of a session in its context. The messages themselves are not changed.",
        compaction_properties(),
        &["session"],
        work_annotations(),
    )
}

fn wait() -> Tool {
    tool(
        WAIT,
        "Waits for the end of a turn that was started earlier, for example one that waited for a person, and returns the results of its delegates and its answer.",
        json!({
            "session": session(),
            "turn": {"type": "string", "description": "The turn's id"},
        }),
        &["session", "turn"],
        read_annotations(),
    )
}

fn recall() -> Tool {
    tool(
        RECALL,
        "Returns messages of a session, complete or as excerpts: the best matches of a query, or the messages with numbers from `from` to `to`. Summarised messages are included.",
        json!({
            "session": session(), "branch": branch(),
            "query": {"type": "string", "description": "Words; the best matches come first"},
            "from": {"type": "integer", "minimum": 1, "description": "The first message's number"},
            "to": {"type": "integer", "minimum": 1, "description": "The last message's number"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 20, "default": 8, "description": "Maximum number of messages for a query"},
        }),
        &["session"],
        read_annotations(),
    )
}

fn search() -> Tool {
    tool(
        SEARCH,
        "Full-text search over all sessions: words, \"phrases\", -without, role:user, agent:risks, agent:\"Maria Kowalski\", session:ID, since:2026-01-31, until:7d.",
        json!({
            "query": {"type": "string", "description": "The query"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10, "description": "Maximum number of messages"},
        }),
        &["query"],
        read_annotations(),
    )
}

fn sessions() -> Tool {
    tool(
        SESSIONS,
        "Lists the sessions, the newest first.",
        json!({
            "label": {"type": "string", "description": "Only sessions with this label, `name=value`, or with a label of this name"},
            "cursor": {"type": "string", "description": "`next` of the previous page"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 200, "default": 50, "description": "Maximum number of sessions"},
        }),
        &[],
        read_annotations(),
    )
}

fn session_or_new() -> Value {
    json!({"type": "string", "description": "The session's id (default: a new one)"})
}

fn session() -> Value {
    json!({"type": "string", "description": "The session's id"})
}

fn branch() -> Value {
    json!({"type": "string", "default": MAIN_BRANCH, "description": "The branch"})
}

/// The annotations of tools that give work to agents.
fn work_annotations() -> ToolAnnotations {
    ToolAnnotations::new()
        .read_only(false)
        .destructive(false)
        .open_world(true)
}

fn read_annotations() -> ToolAnnotations {
    ToolAnnotations::new().read_only(true).open_world(false)
}

fn compaction_properties() -> Value {
    json!({
        "session": session(), "branch": branch(),
        "instructions": {"type": "string", "description": "Instructions for the summariser"},
        "summariser": {"type": "string", "description": "The summariser: a model as provider/model, or `extractive` for quotes (default: the configured summarisers)"},
        "on_failure": {"type": "string", "enum": OnFailure::ALL, "default": OnFailure::Leave, "description": "If no model writes an acceptable summary: ask the models again, use quotes, or change nothing"},
        "keep_messages": {"type": "integer", "minimum": 1, "description": "Number of newest messages that stay verbatim (default, without `keep_tokens` too: all from the newest user message on)"},
        "keep_tokens": {"type": "integer", "minimum": 1, "description": "Tokens of the newest messages that stay verbatim"},
        "topic": {"type": "integer", "minimum": 1, "description": "Summarises only the topic of this message, if the topic has ended"},
        "attention": {"type": "boolean", "default": false, "description": "Summarises only the middle of the current topic"},
        "large_messages": {"type": "boolean", "default": false, "description": "Writes no summary, but cuts the middle out of messages that are too large"},
        "over_tokens": {"type": "integer", "minimum": 64, "description": "With `large_messages`: the number of tokens above which a message is too large"},
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_that_is_null_was_not_given() {
        let given = json!({"session": "s", "branch": null, "on_failure": null, "topic": null});
        let compacted: CompactArgs = read(given).unwrap();
        assert_eq!(compacted.branch, MAIN_BRANCH);
        let unknown = read::<WaitArgs>(json!({"session": "s", "turn": null})).unwrap_err();
        assert!(unknown.contains("missing field `turn`"), "{unknown}");
    }

    #[test]
    fn a_whole_float_is_an_integer() {
        for (limit, expected) in [
            (json!(5), Ok(5)),
            (json!(5.0), Ok(5)),
            (json!(5.5), Err("floating point `5.5`")),
            (json!(-5.0), Err("integer `-5`")),
            (json!(1e300), Err("floating point")),
            (json!("5"), Err("string \"5\"")),
        ] {
            let found = read::<SearchArgs>(json!({"query": "5.0", "limit": limit}));
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.limit, Some(expected)),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
                _ => panic!("{limit}"),
            }
        }
    }

    #[test]
    fn each_argument_has_a_type() {
        for tool in specs() {
            let arguments = tool.input_schema["properties"].as_object().unwrap();
            for (name, argument) in arguments {
                assert!(argument["type"].is_string(), "{} of {}", name, tool.name);
            }
        }
    }
}
