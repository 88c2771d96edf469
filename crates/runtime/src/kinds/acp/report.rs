//! The reports of a coding agent that are journaled with its answer, within bounds.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::protocol::{CallContent, Content, Location, PlanEntry, Resource, Usage};

/// The maximum number of characters of the input of a call, and of its output.
const MAX_INPUT_CHARS: usize = 4_000;
/// The maximum number of locations, and of diffs, of a call.
const MAX_LOCATIONS: usize = 32;
/// The maximum number of characters of a path, a name, an address, and of an item of a plan.
const MAX_TEXT_CHARS: usize = 500;
const MAX_PLAN_ITEMS: usize = 100;
/// The maximum number of calls without an end.
const MAX_OPEN_CALLS: usize = 50;
/// The maximum number of bytes of thoughts, and of the text before the last call.
const MAX_TEXT_BYTES: usize = 32_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EndedCall {
    pub(super) title: String,
    pub(super) kind: String,
    pub(super) status: String,
    /// The beginning of its input, as JSON.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) input: String,
    /// The beginning of its output: texts, otherwise JSON.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) output: String,
    /// The places in files that it read or changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) locations: Vec<String>,
    /// The sizes of its changes to files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) diffs: Vec<DiffSize>,
}

/// The sizes of a change to a file, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DiffSize {
    pub(super) path: String,
    /// None: the file is new.
    pub(super) before: Option<usize>,
    pub(super) after: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PlanItem {
    pub(super) content: String,
    pub(super) status: String,
}

/// The reports of a try besides its answer and its ended calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Report {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) plan: Vec<PlanItem>,
    /// The beginning of its thoughts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) thoughts: String,
    /// The beginning of its text before the last call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) text: String,
    /// The last usage: the tokens in its context, the size of its window, the cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Usage>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) open_calls: Vec<EndedCall>,
}

impl Report {
    pub(super) fn is_empty(&self) -> bool {
        *self == Report::default()
    }

    pub(super) fn set_plan(&mut self, entries: Vec<PlanEntry>) {
        let items = entries
            .into_iter()
            .take(MAX_PLAN_ITEMS)
            .map(|entry| PlanItem {
                content: beginning(&entry.content, MAX_TEXT_CHARS),
                status: beginning(&entry.status, MAX_TEXT_CHARS),
            });
        self.plan = items.collect();
    }

    pub(super) fn set_usage(&mut self, mut usage: Usage) {
        if let Some(cost) = &mut usage.cost {
            cost.currency = beginning(&cost.currency, MAX_TEXT_CHARS);
        }
        // The cost is that of the whole session: a report without one does not change it.
        let before = self.usage.take().and_then(|before| before.cost);
        usage.cost = usage.cost.or(before);
        self.usage = Some(usage);
    }

    pub(super) fn add_thought(&mut self, text: &str) {
        let room = MAX_TEXT_BYTES.saturating_sub(self.thoughts.len());
        self.thoughts.push_str(within(text, room));
    }

    /// The complete report at the end of a try.
    #[must_use]
    pub(super) fn ended<'c>(
        &self,
        before: &str,
        calls: impl IntoIterator<Item = &'c EndedCall>,
    ) -> Report {
        let mut open: Vec<EndedCall> = calls.into_iter().cloned().collect();
        open.sort_by(|a, b| a.title.cmp(&b.title));
        open.truncate(MAX_OPEN_CALLS);
        Report {
            text: within(before.trim(), MAX_TEXT_BYTES).to_owned(),
            open_calls: open,
            ..self.clone()
        }
    }
}

/// The input of a call, as JSON.
pub(super) fn input(raw: &Value) -> String {
    beginning(&raw.to_string(), MAX_INPUT_CHARS)
}

pub(super) fn output(content: &[CallContent]) -> String {
    let texts = content.iter().filter_map(|part| match part {
        CallContent::Content { content } => {
            let content = Content::deserialize(content).ok()?;
            text_of(content)
        }
        CallContent::Diff { .. } | CallContent::Unknown => None,
    });
    let texts: Vec<String> = texts.collect();
    beginning(&texts.join("\n"), MAX_INPUT_CHARS)
}

/// The text of a part; a note for a file, whose content is not kept.
pub(super) fn text_of(content: Content) -> Option<String> {
    let short = |text: &str| beginning(text, MAX_TEXT_CHARS);
    match content {
        Content::Text { text } => Some(text),
        Content::ResourceLink { name, uri } => Some(format!("[{}]({})", short(&name), short(&uri))),
        Content::Resource {
            resource: Resource { uri, text },
        } => Some(text.unwrap_or_else(|| format!("[file {}: not kept]", short(&uri)))),
        Content::Image {} => Some("[image: not kept]".to_owned()),
        Content::Audio {} => Some("[audio: not kept]".to_owned()),
        Content::Unknown => None,
    }
}

/// Locations as `path` or `path:line`.
pub(super) fn locations(all: &[Location]) -> Vec<String> {
    let each = all.iter().take(MAX_LOCATIONS).map(|at| {
        let path = beginning(&at.path, MAX_TEXT_CHARS);
        match at.line {
            Some(line) => format!("{path}:{line}"),
            None => path,
        }
    });
    each.collect()
}

pub(super) fn diffs(content: &[CallContent]) -> Vec<DiffSize> {
    let each = content.iter().filter_map(|content| match content {
        CallContent::Diff {
            path,
            old_text,
            new_text,
        } => Some(DiffSize {
            path: beginning(path, MAX_TEXT_CHARS),
            before: old_text.as_ref().map(String::len),
            after: new_text.len(),
        }),
        CallContent::Content { .. } | CallContent::Unknown => None,
    });
    each.take(MAX_LOCATIONS).collect()
}

/// Arguments of a bounded size: of a large input and of many paths only the beginning.
pub(super) fn bounded(mut arguments: Value) -> Value {
    if let Some(Value::Array(paths)) = arguments.get_mut("path") {
        paths.truncate(MAX_LOCATIONS);
        for path in paths {
            *path = beginning(path.as_str().unwrap_or_default(), MAX_TEXT_CHARS).into();
        }
    }
    if let Some(input) = arguments.get_mut("input") {
        let text = input.to_string();
        if text.len() > MAX_TEXT_BYTES {
            *input = format!("{} … [{} bytes]", within(&text, MAX_TEXT_BYTES), text.len()).into();
        }
    }
    arguments
}

pub(super) fn beginning(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

/// The first bytes of a text, cut between characters.
fn within(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
