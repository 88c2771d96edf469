//! The calls of a coding agent that have not ended, as approval rules see them: complete, also if the
//! agent tells a part of a call before it asks for permission.

use std::collections::{BTreeSet, VecDeque};

use serde_json::{Value, json};

use super::protocol::{CallContent, CallUpdate};

/// The maximum size of all open calls together, in bytes. The oldest are forgotten first.
const MAX_BYTES: usize = 32 << 20;

/// The open calls by their ids, the newest last.
#[derive(Debug, Default)]
pub(super) struct OpenCalls {
    all: VecDeque<(String, OpenCall)>,
    bytes: usize,
}

/// What an agent has told of a call.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenCall {
    input: Option<Value>,
    paths: BTreeSet<String>,
    /// Whether it is not known any more.
    pub(super) is_forgotten: bool,
}

impl OpenCalls {
    /// Adds what an update tells of a call.
    pub(super) fn note(&mut self, update: &CallUpdate) {
        let known = self.end(&update.tool_call_id).unwrap_or_default();
        let call = known.with(update);
        self.bytes += call.bytes();
        self.all.push_back((update.tool_call_id.clone(), call));
        for (_, call) in &mut self.all {
            if self.bytes <= MAX_BYTES {
                break;
            }
            self.bytes -= call.bytes();
            *call = OpenCall {
                is_forgotten: true,
                ..OpenCall::default()
            };
        }
    }

    /// A call with what an update adds to it.
    pub(super) fn with(&self, update: &CallUpdate) -> OpenCall {
        let mut all = self.all.iter();
        let known = all.find(|(id, _)| *id == update.tool_call_id);
        let known = known.map(|(_, call)| call.clone());
        known.unwrap_or_default().with(update)
    }

    /// Removes a call.
    pub(super) fn end(&mut self, id: &str) -> Option<OpenCall> {
        let place = self.all.iter().position(|(known, _)| known == id)?;
        let (_, call) = self.all.remove(place)?;
        self.bytes -= call.bytes();
        Some(call)
    }
}

impl OpenCall {
    fn with(mut self, update: &CallUpdate) -> OpenCall {
        if self.is_forgotten {
            return self;
        }
        if let Some(raw) = &update.raw_input {
            self.input = Some(raw.clone());
        }
        let locations = update.locations.iter().flatten().map(|at| &at.path);
        let diffs = update.content.iter().flatten();
        let diffs = diffs.filter_map(|part| match part {
            CallContent::Diff { path, .. } => Some(path),
            CallContent::Content { .. } | CallContent::Unknown => None,
        });
        self.paths.extend(locations.chain(diffs).cloned());
        self
    }

    fn bytes(&self) -> usize {
        let input = self.input.as_ref();
        let input = input.map_or(0, |input| input.to_string().len());
        input + self.paths.iter().map(String::len).sum::<usize>()
    }

    /// The arguments of the call for approval rules and people.
    pub(super) fn arguments(self, title: &str) -> Value {
        let mut arguments = json!({"title": title});
        if !self.paths.is_empty() {
            arguments["path"] = json!(self.paths);
        }
        let input = self.input.filter(|input| !input.is_null() && *input != "");
        if let Some(input) = input {
            arguments["input"] = input;
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_calls_are_forgotten_until_they_end() {
        let update = |id: &str, bytes: usize| -> CallUpdate {
            let all = json!({"toolCallId": id, "rawInput": "x".repeat(bytes)});
            serde_json::from_value(all).unwrap()
        };
        let mut calls = OpenCalls::default();
        for id in ["1", "2", "3"] {
            calls.note(&update(id, MAX_BYTES / 3));
        }
        let is_known = |calls: &OpenCalls, id: &str| !calls.with(&update(id, 0)).is_forgotten;
        let known = ["1", "2", "3"].map(|id| is_known(&calls, id));
        assert_eq!(known, [false, true, true]);
        calls.note(&update("1", 0));
        assert!(!is_known(&calls, "1"), "its input is not known");
        for id in ["1", "2", "3"] {
            calls.end(id);
        }
        assert!(is_known(&calls, "1"));
        assert_eq!(calls.bytes, 0);
    }
}
