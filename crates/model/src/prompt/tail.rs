//! The part of one agent's prompt after the shared prefix.

use std::sync::Arc;

use bytes::Bytes;
use unisono_context::{AgentId, RunId};

use super::json::Json;
use super::{Group, Persona, native};

/// The result of a delegate, as its lead gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegateResult {
    /// The delegate.
    pub agent: AgentId,
    /// Its task; `None`: the turn's input, or the task of the agent that gets the result.
    pub task: Option<Arc<str>>,
    /// Its answer, or the reason why there is none; possibly only the beginning.
    pub outcome: DelegateOutcome,
    /// For a beginning: its length, and how to read the rest.
    pub rest: Option<Arc<str>>,
}

/// How a delegate's work ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DelegateOutcome {
    /// A complete answer.
    Complete(Arc<str>),
    /// An answer that is not complete.
    Partial {
        /// The answer.
        text: Arc<str>,
        /// The missing part.
        missing: Arc<str>,
    },
    /// The reason why there is no answer.
    Failed(Arc<str>),
}

impl DelegateOutcome {
    /// The answer, complete or not; `None` if it failed.
    pub fn answer(&self) -> Option<&str> {
        match self {
            DelegateOutcome::Complete(text) | DelegateOutcome::Partial { text, .. } => Some(text),
            DelegateOutcome::Failed(_) => None,
        }
    }
}

/// The part of the prompt of one attempt.
#[derive(Clone, Copy, Debug)]
pub struct Tail<'a> {
    /// The agent. Omitted if the prefix has it ([`Group::Own`]).
    pub persona: &'a Persona,
    /// Its task; `None`: the context's newest message ([`super::is_newest_message`]).
    pub task: Option<&'a str>,
    /// For a lead: the results of its delegates.
    pub results: &'a [DelegateResult],
    /// The run.
    pub run: RunId,
    /// The attempt, from 1.
    pub attempt: u32,
}

impl Tail<'_> {
    /// Renders the bytes after a prefix of this group.
    pub fn render(&self, group: &Group) -> Bytes {
        let mut json = Json::with_capacity(self.expected_bytes());
        if !matches!(group, Group::Own(_)) {
            native::persona(&mut json, self.persona);
        }
        json.raw(r#","task":"#).string_or_null(self.task);
        json.raw(r#","results":"#).list(self.results, delegated);
        json.raw(r#","run":"#).string(&self.run.to_string());
        json.raw(r#","attempt":"#)
            .number(self.attempt.into())
            .raw("}");
        json.into_bytes().into()
    }

    fn expected_bytes(&self) -> usize {
        let result = |delegated: &DelegateResult| {
            let text = match &delegated.outcome {
                DelegateOutcome::Complete(text) | DelegateOutcome::Failed(text) => text.len(),
                DelegateOutcome::Partial { text, missing } => text.len() + missing.len() + 16,
            };
            let task = delegated.task.as_ref().map_or(0, |task| task.len());
            64 + delegated.agent.as_str().len() + task + text
        };
        let text = self.persona.agent.as_str().len()
            + self.persona.description.len()
            + self.persona.instructions.len()
            + self.task.map_or(0, str::len)
            + self.results.iter().map(result).sum::<usize>();
        160 + text + text / 16
    }
}

fn delegated(json: &mut Json, delegated: &DelegateResult) {
    json.raw(r#"{"agent":"#).string(delegated.agent.as_str());
    json.raw(r#","task":"#)
        .string_or_null(delegated.task.as_deref());
    match &delegated.outcome {
        DelegateOutcome::Complete(text) => json.raw(r#","text":"#).string(text),
        DelegateOutcome::Partial { text, missing } => {
            json.raw(r#","text":"#).string(text);
            json.raw(r#","partial":"#).string(missing)
        }
        DelegateOutcome::Failed(reason) => json.raw(r#","error":"#).string(reason),
    };
    if let Some(rest) = &delegated.rest {
        json.raw(r#","rest":"#).string(rest);
    }
    json.raw("}");
}
