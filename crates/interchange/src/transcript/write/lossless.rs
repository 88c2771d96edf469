//! Writes unisono JSONL: everything that an import reads.

mod checkpoint;
mod shortened;
mod topics;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;
use unisono_context::attachment::Files;
use unisono_context::message::{NewMessage, Part, ReportedUsage};
use unisono_context::tree::Node;
use unisono_context::{Message, MessageId, Ordinal, Timestamp};
use unisono_session::State;

use super::{Section, WriteError, line};
use crate::transcript::unisono::VERSION;
use checkpoint::CheckpointLine;
use shortened::ShortenedLine;
use topics::{SealedLine, TopicsLine};
use unisono_api::harmless::is_harmful;
use unisono_config::settings::SessionOverrides;

/// All messages, branches, checkpoints, shortened messages and topic ends.
pub(super) fn session(state: &State) -> Result<Vec<Section>, WriteError> {
    let mut sections = vec![Section::Text(head_line(state)?)];
    let messages = state.tree().iter().map(|node| node.message.id);
    sections.extend(messages.map(Section::Message));
    let branches: Vec<_> = state.tree().branches().collect();
    let mut heads = Vec::with_capacity(branches.len());
    for (name, head) in branches {
        heads.push((name, add_waiting(&mut sections, state, name, head)));
    }
    let mut out = String::new();
    for (name, head) in heads {
        line(&mut out, &BranchLine::new(name, head))?;
    }
    for checkpoint in state.checkpoints().iter() {
        line(&mut out, &CheckpointLine::new(checkpoint, state))?;
    }
    for (after, shortened) in state.alterations().current() {
        line(&mut out, &ShortenedLine::new(shortened, after))?;
    }
    let nodes: Vec<&Node> = state.tree().iter().collect();
    topics(&mut out, state, &nodes)?;
    sections.push(Section::Text(out));
    Ok(sections)
}

/// The line of a message.
pub(super) fn message(
    state: &State,
    message: &Message,
    files: &Files,
) -> Result<String, WriteError> {
    let mut out = String::new();
    line(&mut out, &MessageLine::new(message, (state, files)))?;
    Ok(out)
}

/// The line of a waiting message that will follow `parent`.
pub(super) fn waiting_message(
    message: &NewMessage,
    parent: MessageId,
    files: &Files,
) -> Result<String, WriteError> {
    let mut out = String::new();
    line(&mut out, &MessageLine::for_waiting(message, parent, files))?;
    Ok(out)
}

/// Adds the messages that wait on a branch for the end of its open turn, after its head: an
/// export contains no open turns, so nothing waits after an import. Returns the branch's last
/// message.
fn add_waiting(
    sections: &mut Vec<Section>,
    state: &State,
    branch: &str,
    head: MessageId,
) -> MessageId {
    let mut last = head;
    for message in state.waiting_messages(branch) {
        sections.push(Section::Waiting(Box::new(message.clone()), last));
        last = message.id;
    }
    last
}

/// Writes the topic decisions and sealed topics of these messages, parents first.
fn topics(out: &mut String, state: &State, nodes: &[&Node]) -> Result<(), WriteError> {
    let known = state.topics();
    for decided in known.decisions(state.tree(), nodes.iter().copied()) {
        line(out, &TopicsLine::new(&decided, state))?;
    }
    let ids = nodes.iter().map(|node| node.message.id);
    for last in ids.filter(|id| known.is_sealed(*id)) {
        line(out, &SealedLine::new(last, state))?;
    }
    Ok(())
}

/// Like [`session`], for one branch.
pub(super) fn branch(
    state: &State,
    name: &str,
    head: MessageId,
) -> Result<Vec<Section>, WriteError> {
    let tree = state.tree();
    let mut sections = vec![Section::Text(head_line(state)?)];
    let last = tree
        .get(head)
        .map_or(Ordinal(0), |node| node.message.ordinal);
    let nodes = tree.range(head, Ordinal::FIRST..=last);
    let messages = nodes.iter().map(|node| node.message.id);
    sections.extend(messages.map(Section::Message));
    let last = add_waiting(&mut sections, state, name, head);
    let mut out = String::new();
    line(&mut out, &BranchLine::new(name, last))?;
    let on_branch = |id: MessageId| {
        let ordinal = tree.get(id).map(|node| node.message.ordinal);
        ordinal
            .and_then(|at| tree.node_at(head, at))
            .is_some_and(|node| node.message.id == id)
    };
    let checkpoints = state.checkpoints().iter();
    for checkpoint in checkpoints.filter(|c| c.applies_to(tree, head)) {
        let mut line_of = CheckpointLine::new(checkpoint, state);
        if !on_branch(checkpoint.parent) {
            // Made on a sibling branch: placed at the common cutoff of this branch.
            let cutoff = tree
                .node_at(head, checkpoint.cutoff)
                .map(|node| node.message.id);
            line_of.parent = cutoff.unwrap_or(head).to_string();
        }
        line(&mut out, &line_of)?;
    }
    let shortened = state.alterations().current().into_iter();
    for (after, shortened) in shortened.filter(|(_, a)| on_branch(a.message)) {
        line(&mut out, &ShortenedLine::new(shortened, after))?;
    }
    topics(&mut out, state, &nodes)?;
    sections.push(Section::Text(out));
    Ok(sections)
}

fn head_line(state: &State) -> Result<String, WriteError> {
    let mut out = String::new();
    let session = SessionLine {
        r#type: "session",
        unisono: VERSION,
        id: state.id().ok_or(WriteError::NoSession)?.to_string(),
        title: state.title(),
        system: state.system(),
        labels: state.own_labels().collect(),
        settings: texts(state.settings()),
    };
    line(&mut out, &session)?;
    Ok(out)
}

fn texts(settings: &SessionOverrides) -> BTreeMap<&str, &str> {
    let each = settings.iter();
    each.map(|(key, value)| (&**key, &**value)).collect()
}

#[derive(Serialize)]
struct SessionLine<'s> {
    r#type: &'static str,
    unisono: u32,
    id: String,
    title: &'s str,
    system: &'s str,
    labels: BTreeMap<&'s str, &'s str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    settings: BTreeMap<&'s str, &'s str>,
}

#[derive(Serialize)]
struct MessageLine<'m> {
    r#type: &'static str,
    id: String,
    parent: Option<String>,
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<&'m str>,
    at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pinned: bool,
    parts: Vec<PartLine<'m>>,
}

fn parts<'m>(parts: &'m [Part], files: &Files) -> Vec<PartLine<'m>> {
    parts
        .iter()
        .map(|part| PartLine::new(part, files))
        .collect()
}

impl<'m> MessageLine<'m> {
    fn new(message: &'m Message, (state, files): (&State, &Files)) -> MessageLine<'m> {
        MessageLine {
            r#type: "message",
            id: message.id.to_string(),
            parent: message.parent.map(|id| id.to_string()),
            role: message.role.name(),
            author: message.author.as_ref().map(|author| author.as_str()),
            at: Time::new(message.at),
            usage: message.usage.map(Usage::new),
            pinned: state.pinned().contains(&message.id),
            parts: parts(&message.parts, files),
        }
    }

    /// A waiting message that will follow `parent`.
    fn for_waiting(message: &'m NewMessage, parent: MessageId, files: &Files) -> MessageLine<'m> {
        MessageLine {
            r#type: "message",
            id: message.id.to_string(),
            parent: Some(parent.to_string()),
            role: message.role.name(),
            author: message.author.as_ref().map(|author| author.as_str()),
            at: Time::new(message.at),
            usage: message.usage.map(Usage::new),
            pinned: false,
            parts: parts(&message.parts, files),
        }
    }
}

#[derive(Serialize)]
struct Usage {
    input: u64,
    output: u64,
}

impl Usage {
    fn new(usage: ReportedUsage) -> Usage {
        Usage {
            input: usage.input.0,
            output: usage.output.0,
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum PartLine<'m> {
    Text {
        text: &'m str,
    },
    ToolCall {
        id: &'m str,
        name: &'m str,
        #[serde(skip_serializing_if = "Option::is_none")]
        arguments: Option<&'m RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        arguments_text: Option<&'m str>,
    },
    ToolResult {
        call_id: &'m str,
        content: &'m str,
        is_error: bool,
    },
    Attachment {
        filename: &'m str,
        mime: &'m str,
        size_bytes: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<String>,
    },
}

impl<'m> PartLine<'m> {
    fn new(part: &'m Part, files: &Files) -> PartLine<'m> {
        match part {
            Part::Text(text) => PartLine::Text { text },
            Part::ToolCall {
                id,
                name,
                arguments,
            } => {
                let raw = verbatim_json(arguments);
                PartLine::ToolCall {
                    id,
                    name,
                    arguments: raw,
                    arguments_text: raw.is_none().then_some(&**arguments),
                }
            }
            Part::ToolResult {
                call_id,
                content,
                is_error,
            } => PartLine::ToolResult {
                call_id,
                content,
                is_error: *is_error,
            },
            Part::Attachment {
                filename,
                mime,
                size_bytes,
                content,
            } => {
                let digest = content.as_ref().map(|content| content.digest);
                let bytes = digest.and_then(|digest| files.get(&digest));
                PartLine::Attachment {
                    filename,
                    mime,
                    size_bytes: *size_bytes,
                    digest: digest.map(|digest| digest.to_string()),
                    data: bytes.map(|bytes| STANDARD.encode(bytes)),
                }
            }
        }
    }
}

/// Arguments that can be written verbatim: JSON on one line that is not a text, which would be read
/// as arguments in a text.
pub(super) fn verbatim_json(arguments: &str) -> Option<&RawValue> {
    let breaks = arguments.contains(['\n', '\r']);
    // Escaping would change the arguments, except within a text.
    if arguments.starts_with('"') || breaks || arguments.contains(is_harmful) {
        return None;
    }
    let raw: &RawValue = serde_json::from_str(arguments).ok()?;
    (raw.get() == arguments).then_some(raw)
}

#[derive(Serialize)]
struct BranchLine<'b> {
    r#type: &'static str,
    name: &'b str,
    head: String,
}

impl<'b> BranchLine<'b> {
    fn new(name: &'b str, head: MessageId) -> BranchLine<'b> {
        BranchLine {
            r#type: "branch",
            name,
            head: head.to_string(),
        }
    }
}

/// RFC 3339; milliseconds for a time out of the calendar's range.
#[derive(Serialize)]
#[serde(untagged)]
enum Time {
    Text(String),
    Ms(i64),
}

impl Time {
    fn new(at: Timestamp) -> Time {
        match jiff::Timestamp::from_millisecond(at.0) {
            Ok(time) => Time::Text(time.to_string()),
            Err(_) => Time::Ms(at.0),
        }
    }
}
