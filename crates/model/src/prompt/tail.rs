//! The part of one agent's prompt after the shared prefix.

use std::sync::Arc;

use bytes::Bytes;
use unisono_context::{AgentId, RunId};

use super::json::Json;
use super::{Group, Persona, native};

/// What a delegate came back with, as its lead is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegated {
    /// The delegate.
    pub agent: AgentId,
    /// What it was asked; none: the turn's input, or what the agent is asked that is told of it.
    pub task: Option<Arc<str>>,
    /// Its answer, or why there is none; or the beginning of it.
    pub outcome: Outcome,
    /// Where that is only the beginning: how much it is, and how the rest is read.
    pub rest: Option<Arc<str>>,
}

/// How a delegate's work ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A complete answer.
    Complete(Arc<str>),
    /// An answer that is not complete.
    Partial {
        /// The answer.
        text: Arc<str>,
        /// What it lacks.
        missing: Arc<str>,
    },
    /// Why there is no answer.
    Failed(Arc<str>),
}

impl Outcome {
    /// The answer, complete or not; none where it failed.
    pub fn answer(&self) -> Option<&str> {
        match self {
            Outcome::Complete(text) | Outcome::Partial { text, .. } => Some(text),
            Outcome::Failed(_) => None,
        }
    }
}

/// One attempt's own part of the prompt.
#[derive(Clone, Copy, Debug)]
pub struct Tail<'a> {
    /// The agent. Left out where the prefix has it ([`Group::Own`]).
    pub persona: &'a Persona,
    /// What it is to do; none: what the context's newest message says ([`super::is_shown`]).
    pub task: Option<&'a str>,
    /// For a lead: what its delegates came back with.
    pub results: &'a [Delegated],
    /// The run.
    pub run: RunId,
    /// The attempt, from 1.
    pub attempt: u32,
}

impl Tail<'_> {
    /// The bytes that close a prefix of that group.
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
        let result = |delegated: &Delegated| {
            let text = match &delegated.outcome {
                Outcome::Complete(text) | Outcome::Failed(text) => text.len(),
                Outcome::Partial { text, missing } => text.len() + missing.len() + 16,
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

fn delegated(json: &mut Json, delegated: &Delegated) {
    json.raw(r#"{"agent":"#).string(delegated.agent.as_str());
    json.raw(r#","task":"#)
        .string_or_null(delegated.task.as_deref());
    match &delegated.outcome {
        Outcome::Complete(text) => json.raw(r#","text":"#).string(text),
        Outcome::Partial { text, missing } => {
            json.raw(r#","text":"#).string(text);
            json.raw(r#","partial":"#).string(missing)
        }
        Outcome::Failed(reason) => json.raw(r#","error":"#).string(reason),
    };
    if let Some(rest) = &delegated.rest {
        json.raw(r#","rest":"#).string(rest);
    }
    json.raw("}");
}
