//! The prompt of an agent: a prefix rendered once and shared, and its own tail.
//!
//! ```text
//! prefix  {"unisono":1,"context":{"snapshot":"…","system":"…","tools":[…],"summaries":[…],"messages":[…]}
//! tail    ,"agent":{…},"task":"…","results":[…],"run":"…","attempt":1}
//! ```
//!
//! If the task is the turn's input, with which the context ends, `task` is null.
//!
//! Prefix and tail together are one JSON document. The prefix depends only on the snapshot and the
//! [`Group`]: it has no ids of a provider or this program, and no times. It is rendered once per
//! turn and group; every run of the group holds the same [`Bytes`].

pub(crate) mod json;
mod native;
mod tail;

use std::sync::Arc;

use bytes::Bytes;
use unisono_context::snapshot::ToolSpec;
use unisono_context::{AgentId, Digest, Part, Role, Snapshot};

pub use tail::{DelegateOutcome, DelegateResult, Tail};

/// Version of the rendering. The same snapshot gives other bytes under another version.
pub const VERSION: u16 = 1;

/// An agent in its prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persona {
    /// Its name.
    pub agent: AgentId,
    /// Its purpose.
    pub description: Arc<str>,
    /// Its instructions, before the task.
    pub instructions: Arc<str>,
}

/// The group of runs that share a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// The context; each agent's persona is in its tail.
    Shared,
    /// One agent's persona, then the context.
    Own(Persona),
    /// No context.
    TaskOnly,
}

/// The input of the rendered prefix, besides the model. Agents with equal values share a prefix.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'a> {
    /// The frozen context; not used for [`Group::TaskOnly`].
    pub snapshot: Option<&'a Snapshot>,
    /// The group.
    pub group: &'a Group,
    /// The tools of every agent of the turn, sorted by name.
    pub tools: &'a [ToolSpec],
    /// JSON schema of the answers.
    pub output_schema: Option<&'a str>,
}

impl<'a> Shared<'a> {
    /// The context in the prefix.
    pub fn context(&self) -> Option<&'a Snapshot> {
        self.snapshot.filter(|_| *self.group != Group::TaskOnly)
    }

    /// The persona before the context, if the prefix belongs to one agent.
    pub fn own(&self) -> Option<&'a Persona> {
        match self.group {
            Group::Own(persona) => Some(persona),
            Group::Shared | Group::TaskOnly => None,
        }
    }
}

/// The rendered start of a request, shared by all runs of its group without copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    bytes: Bytes,
    digest: Digest,
}

impl Prefix {
    /// Wraps rendered bytes and computes their digest.
    pub fn new(bytes: impl Into<Bytes>) -> Prefix {
        let bytes = bytes.into();
        Prefix {
            digest: Digest::of_bytes(&bytes),
            bytes,
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Their digest.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

/// Whether a task equals the user's message at the end of the context. A request with the context
/// refers to that message instead of repeating it.
pub fn is_newest_message(context: Option<&Snapshot>, task: &str) -> bool {
    let Some(newest) = context.and_then(|snapshot| snapshot.entries().last()) else {
        return false;
    };
    let message = newest.message();
    if message.role != Role::User || newest.form().is_some() || task.trim().is_empty() {
        return false;
    }
    match &message.parts[..] {
        [Part::Text(text)] => **text == *task,
        parts => {
            let texts: Vec<_> = parts.iter().map(Part::countable_text).collect();
            texts.join("\n") == task
        }
    }
}

/// Renders the shared prefix of a group: JSON whose outermost object is left open for
/// [`Tail::render`] to close. The snapshot is omitted for [`Group::TaskOnly`].
pub fn render(snapshot: Option<&Snapshot>, group: &Group) -> Prefix {
    Prefix::new(native::render(snapshot, group))
}

#[cfg(test)]
mod tests;
