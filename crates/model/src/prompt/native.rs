//! The native rendering of a context, for programs and the embedded model.

use unisono_context::message::{CallRef, Message};
use unisono_context::snapshot::{Block, Entry, ToolSpec};
use unisono_context::{Part, Snapshot};

use super::json::{self, Json};
use super::{Group, Persona, VERSION};

/// Replaces the missing result of a call.
const NO_RESULT: &str = "[no result recorded]";

/// Renders the document up to its tail.
pub(super) fn render(snapshot: Option<&Snapshot>, group: &Group) -> Vec<u8> {
    let snapshot = snapshot.filter(|_| *group != Group::TaskOnly);
    let mut json = Json::with_capacity(snapshot.map_or(64, expected_bytes));
    json.raw(r#"{"unisono":"#).number(VERSION.into());
    if let Group::Own(own) = group {
        persona(&mut json, own);
    }
    if let Some(snapshot) = snapshot {
        context(&mut json, snapshot);
    }
    json.into_bytes()
}

/// `,"agent":{…}`
pub(super) fn persona(json: &mut Json, persona: &Persona) {
    json.raw(r#","agent":{"id":"#)
        .string(persona.agent.as_str());
    json.raw(r#","description":"#).string(&persona.description);
    json.raw(r#","instructions":"#)
        .string(&persona.instructions);
    json.raw("}");
}

fn context(json: &mut Json, snapshot: &Snapshot) {
    json.raw(r#","context":{"snapshot":"#)
        .string(&snapshot.id().to_string());
    let preamble = snapshot.preamble();
    json.raw(r#","system":"#).string(preamble.system());
    json.raw(r#","tools":"#).list(preamble.tools().iter(), tool);
    json.raw(r#","summaries":"#)
        .list(snapshot.blocks(), summary);
    json.raw(r#","messages":"#)
        .list(snapshot.entries(), message);
    json.raw("}");
}

fn tool(out: &mut Json, tool: &ToolSpec) {
    out.raw(r#"{"name":"#).string(&tool.name);
    out.raw(r#","description":"#).string(&tool.description);
    out.raw(r#","input_schema":"#);
    // An invalid schema must not make the document invalid.
    if json::is_object(&tool.input_schema) {
        out.raw(&tool.input_schema);
    } else {
        out.string(&tool.input_schema);
    }
    out.raw("}");
}

fn summary(json: &mut Json, block: &Block) {
    let checkpoint = block.checkpoint();
    let last = checkpoint
        .covers
        .last()
        .map_or(checkpoint.cutoff, |span| span.last);
    json.raw(r#"{"from":"#).number(checkpoint.first().0.into());
    json.raw(r#","to":"#).number(last.0.into());
    json.raw(r#","text":"#).string(block.text()).raw("}");
}

fn message(json: &mut Json, entry: &Entry) {
    let message = entry.message();
    json.raw(r#"{"n":"#).number(message.ordinal.0.into());
    json.raw(r#","role":"#).string(message.role.name());
    if let Some(author) = &message.author {
        json.raw(r#","author":"#).string(author.as_str());
    }
    let written = entry.parts();
    let mut parts = Parts {
        message,
        detached: entry.is_detached(),
        calls: 0,
        results: 0,
    };
    let spoken = written.iter().map(Piece::Part);
    let missing = entry.unanswered().iter().map(|index| {
        Piece::Missing(CallRef {
            message: message.ordinal,
            index: *index,
        })
    });
    json.raw(r#","parts":"#)
        .list(spoken.chain(missing), |json, piece| match piece {
            Piece::Part(part) => parts.write(json, part),
            Piece::Missing(call) => result(json, call, NO_RESULT, true),
        });
    json.raw("}");
}

enum Piece<'a> {
    Part(&'a Part),
    Missing(CallRef),
}

/// Writes the parts of one message. Calls are identified by their position, not by the provider's
/// id: real transcripts contain duplicate ids.
struct Parts<'a> {
    message: &'a Message,
    detached: bool,
    calls: u16,
    results: usize,
}

impl Parts<'_> {
    fn write(&mut self, json: &mut Json, part: &Part) {
        match part {
            Part::Text(text) => {
                json.raw(r#"{"type":"text","text":"#).string(text).raw("}");
            }
            Part::ToolCall {
                name, arguments, ..
            } => {
                let call = CallRef {
                    message: self.message.ordinal,
                    index: self.calls,
                };
                self.calls = self.calls.saturating_add(1);
                json.raw(r#"{"type":"tool_call","id":"#);
                call_id(json, call).raw(r#","name":"#).string(name);
                json.raw(r#","arguments":"#).string(arguments).raw("}");
            }
            Part::ToolResult {
                content, is_error, ..
            } => self.tool_result(json, content, *is_error),
            Part::Attachment {
                filename,
                mime,
                size_bytes,
                content,
            } => {
                json.raw(r#"{"type":"attachment","filename":"#)
                    .string(filename);
                json.raw(r#","mime":"#).string(mime);
                json.raw(r#","size_bytes":"#).number(*size_bytes);
                if let Some(content) = content {
                    json.raw(r#","digest":"#)
                        .string(&content.digest.to_string());
                }
                json.raw("}");
            }
        }
    }

    /// Writes a result; as text if its call is no longer in the context.
    fn tool_result(&mut self, json: &mut Json, content: &str, is_error: bool) {
        let answers = self.message.answers.get(self.results).copied();
        self.results += 1;
        if let Some(call) = answers.filter(|_| !self.detached) {
            return result(json, call, content, is_error);
        }
        let what = if is_error {
            "tool error"
        } else {
            "tool result"
        };
        json.raw(r#"{"type":"text","text":"#)
            .string(&format!("[{what}]\n{content}"))
            .raw("}");
    }
}

fn result(json: &mut Json, call: CallRef, content: &str, is_error: bool) {
    json.raw(r#"{"type":"tool_result","call":"#);
    call_id(json, call).raw(r#","content":"#).string(content);
    json.raw(r#","is_error":"#).bool(is_error).raw("}");
}

/// `"c<ordinal>_<index>"`
fn call_id(json: &mut Json, call: CallRef) -> &mut Json {
    json.raw("\"c").number(call.message.0.into());
    json.raw("_").number(call.index.into()).raw("\"")
}

/// The expected size: the text, an eighth more for escapes, and the overhead of each part.
fn expected_bytes(snapshot: &Snapshot) -> usize {
    let preamble = snapshot.preamble();
    let tool = |t: &ToolSpec| t.name.len() + t.description.len() + t.input_schema.len() + 64;
    let part = |part: &Part| match part {
        Part::Text(text) | Part::ToolResult { content: text, .. } => text.len() + 80,
        Part::ToolCall {
            name, arguments, ..
        } => name.len() + arguments.len() + 80,
        Part::Attachment { filename, mime, .. } => filename.len() + mime.len() + 80,
    };
    let entry = |entry: &Entry| {
        let message = entry.message();
        64 + 80 * entry.unanswered().len() + message.parts.iter().map(part).sum::<usize>()
    };
    let text = preamble.system().len()
        + preamble.tools().iter().map(tool).sum::<usize>()
        + snapshot
            .blocks()
            .iter()
            .map(|b| b.text().len() + 64)
            .sum::<usize>()
        + snapshot.entries().iter().map(entry).sum::<usize>();
    256 + text + text / 8
}
