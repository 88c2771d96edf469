//! Parses a conversation file: a session line, then one message per line.

use std::path::Path;

use unisono_context::{Ordinal, Part, Role, Timestamp};
use unisono_model::extractive::Passage;
use unisono_model::retention::{Probe, parse};

/// The shipped conversations that have probes.
pub(crate) const SETS: [&str; 3] = [
    "orders-migration",
    "probes/clinic-scheduling",
    "probes/field-research",
];

/// A message in the format of the file.
pub(crate) struct Line {
    pub(crate) ordinal: Ordinal,
    pub(crate) role: Role,
    pub(crate) at: Timestamp,
    pub(crate) parts: Vec<Part>,
}

impl Line {
    /// All its text that a model is charged for.
    pub(crate) fn text(&self) -> String {
        let parts: Vec<_> = self.parts.iter().map(Part::countable_text).collect();
        parts.join("\n")
    }
}

pub(crate) fn messages(set: &str) -> Vec<Line> {
    read(&example(&format!("{set}.jsonl")))
}

/// The messages of a shipped conversation, and its probes.
pub(crate) fn probed(set: &str) -> (Vec<Line>, Vec<Probe>) {
    let lines = messages(set);
    let name = set.trim_start_matches("probes/");
    let probes = example(&format!("probes/{name}.probes.jsonl"));
    let probes = parse(&probes, lines.len() as u32).unwrap();
    (lines, probes)
}

fn example(path: &str) -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    std::fs::read_to_string(examples.join(path)).unwrap()
}

fn read(text: &str) -> Vec<Line> {
    let values = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let messages = values.filter(|value| value["type"] == "message");
    messages
        .enumerate()
        .map(|(index, value)| Line {
            ordinal: Ordinal(index as u32 + 1),
            role: Role::from_name(value["role"].as_str().unwrap()).unwrap(),
            at: Timestamp(
                value["at"]
                    .as_str()
                    .unwrap()
                    .parse::<jiff::Timestamp>()
                    .unwrap()
                    .as_millisecond(),
            ),
            parts: value["parts"]
                .as_array()
                .unwrap()
                .iter()
                .map(part)
                .collect(),
        })
        .collect()
}

fn part(value: &serde_json::Value) -> Part {
    let text = |key: &str| match &value[key] {
        serde_json::Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    };
    match value["type"].as_str().unwrap() {
        "text" => Part::Text(text("text")),
        "tool_call" => Part::tool_call(text("id"), text("name"), text("arguments")),
        "tool_result" => {
            Part::tool_result(text("call_id"), text("content"), value["is_error"] == true)
        }
        "attachment" => Part::Attachment {
            filename: text("filename"),
            mime: text("mime"),
            size_bytes: value["size_bytes"].as_u64().unwrap_or(0),
            content: None,
        },
        other => panic!("unknown part {other}"),
    }
}

/// The input for the extractive model.
pub(crate) fn passages(lines: &[Line]) -> Vec<Passage<'_>> {
    let parts = lines
        .iter()
        .flat_map(|line| line.parts.iter().map(move |part| (line, part)));
    parts
        .filter_map(|(line, part)| Passage::of_part(line.ordinal, line.role, None, line.at, part))
        .collect()
}
