//! Which tool call a tool result answers: by position, because real transcripts reuse call ids.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use crate::ids::{MessageId, Ordinal};
use crate::message::{CallRef, Part};

use super::{Error, Node, Tree};

/// Maximum number of remembered unanswered calls of older messages; earlier calls count as never
/// answered. This limits the data of each message on a path.
const OPEN_CALLS_MAX: usize = 64;

/// A tool call on a path without a result so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenCall {
    pub(super) message: Ordinal,
    /// Start of the unit the call belongs to.
    pub(super) unit: Ordinal,
    pub(super) index: u16,
    pub(super) id: Arc<str>,
}

/// The calls on a path without a result so far, in chronological order. Results mostly arrive in
/// that order too: earlier results share the calls behind them.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenCalls {
    made: Arc<[OpenCall]>,
    /// Number of the first calls that are answered.
    answered: usize,
}

impl From<Vec<OpenCall>> for OpenCalls {
    fn from(calls: Vec<OpenCall>) -> OpenCalls {
        OpenCalls {
            made: calls.into(),
            answered: 0,
        }
    }
}

impl Deref for OpenCalls {
    type Target = [OpenCall];

    fn deref(&self) -> &[OpenCall] {
        self.made.get(self.answered..).unwrap_or_default()
    }
}

/// The effect of a message on the calls of its path.
pub(super) struct Pairing {
    /// Start of the unit the message belongs to.
    pub(super) unit_start: Ordinal,
    /// The calls without a result after it.
    pub(super) open: OpenCalls,
    /// The calls it answers, one for each of its results.
    pub(super) answers: Vec<CallRef>,
}

impl Tree {
    /// The message at `ordinal` on the path to `head` with all messages that a model requires
    /// beside it: the calls that it answers, and the results of its calls. The cost depends on the
    /// length of the path from the first of them on, if there are calls at all.
    pub fn unit(&self, head: MessageId, ordinal: Ordinal) -> Vec<&Node> {
        let (Some(own), Some(last)) = (self.node_at(head, ordinal), self.get(head)) else {
            return Vec::new();
        };
        if own.message.answers.is_empty() && own.message.tool_calls().next().is_none() {
            return vec![own];
        }
        let mut unit = BTreeSet::from([own.unit_start, ordinal]);
        loop {
            let (known, first) = (unit.len(), *unit.first().unwrap_or(&ordinal));
            for node in self.range(head, first..=last.ordinal) {
                let answered = node.message.answers.iter().map(|call| call.message);
                if unit.contains(&node.ordinal) || answered.clone().any(|at| unit.contains(&at)) {
                    unit.extend(answered.chain([node.ordinal]));
                }
            }
            if unit.len() == known {
                return unit
                    .iter()
                    .filter_map(|at| self.node_at(head, *at))
                    .collect();
            }
        }
    }
}

/// Pairs the results among `parts` with calls, and adds its own calls.
pub(super) fn pair(parts: &[Part], parent: Option<&Node>) -> Result<Pairing, Error> {
    let ordinal = parent.map_or(Ordinal::FIRST, |node| node.ordinal.next());
    let inherited = parent.map(|node| &node.open_calls);
    let has_tools = |p: &Part| matches!(p, Part::ToolCall { .. } | Part::ToolResult { .. });
    let mut pairing = Pairing {
        unit_start: ordinal,
        open: inherited.cloned().unwrap_or_default(),
        answers: Vec::new(),
    };
    if !parts.iter().any(has_tools) {
        return Ok(pairing);
    }
    for part in parts {
        if let Part::ToolResult { call_id, .. } = part {
            let call = pairing.open.take(call_id)?;
            pairing.unit_start = pairing.unit_start.min(call.unit);
            pairing.answers.push(CallRef {
                message: call.message,
                index: call.index,
            });
        }
    }
    pairing.open.forget_oldest();
    let calls = parts.iter().filter_map(|part| match part {
        Part::ToolCall { id, .. } => Some(id),
        _ => None,
    });
    let unit = pairing.unit_start;
    let mut made = calls.enumerate().map(|(index, id)| OpenCall {
        message: ordinal,
        unit,
        index: index as u16,
        id: id.clone(),
    });
    if let Some(first) = made.next() {
        let open = pairing.open.iter().cloned();
        pairing.open = open.chain([first]).chain(made).collect::<Vec<_>>().into();
    }
    Ok(pairing)
}

impl OpenCalls {
    /// Keeps all calls of the newest message with calls: their results are still to come.
    fn forget_oldest(&mut self) {
        let newest = self.last().map(|call| call.message);
        let older = self.partition_point(|call| Some(call.message) < newest);
        self.answered += self.len().saturating_sub(OPEN_CALLS_MAX).min(older);
    }

    /// Takes the call that a result answers: of the newest message with an unanswered call of that
    /// id, the first such call; otherwise the first unanswered call of the newest message with one.
    fn take(&mut self, call_id: &str) -> Result<OpenCall, Error> {
        let same_id = self.iter().rfind(|call| &*call.id == call_id);
        let by_id = same_id.map(|call| call.message).and_then(|message| {
            self.iter()
                .position(|call| call.message == message && &*call.id == call_id)
        });
        let newest = self.last().map(|call| call.message);
        let by_position = || self.iter().position(|call| Some(call.message) == newest);
        let at = by_id.or_else(by_position);
        let taken = at.and_then(|at| Some((at, self.get(at)?.clone())));
        let Some((at, call)) = taken else {
            return Err(Error::ResultWithoutCall {
                call_id: call_id.to_owned(),
            });
        };
        if at == 0 {
            self.answered += 1;
        } else {
            let mut open = self.to_vec();
            open.remove(at);
            *self = open.into();
        }
        Ok(call)
    }
}
