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

pub use tail::{Delegated, Outcome, Tail};

/// Version of the rendering. The same snapshot gives other bytes under another version.
pub const VERSION: u16 = 1;

/// Who an agent is, as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persona {
    /// Its name.
    pub agent: AgentId,
    /// What it is for.
    pub description: Arc<str>,
    /// What it is told before its task.
    pub instructions: Arc<str>,
}

/// What runs have in common that share a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// The context; each agent's persona is in its tail.
    Shared,
    /// One agent's persona, then the context.
    Own(Persona),
    /// No context.
    TaskOnly,
}

/// What the rendered start of a request depends on, the model aside. Agents for which all of it
/// is equal share a prefix.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'a> {
    /// The frozen context; not used for [`Group::TaskOnly`].
    pub snapshot: Option<&'a Snapshot>,
    /// What the agents have in common.
    pub group: &'a Group,
    /// The tools of every agent of the turn, sorted by name.
    pub tools: &'a [ToolSpec],
    /// JSON schema that answers must fit.
    pub output_schema: Option<&'a str>,
}

impl<'a> Shared<'a> {
    /// The context that the prefix shows.
    pub fn context(&self) -> Option<&'a Snapshot> {
        self.snapshot.filter(|_| *self.group != Group::TaskOnly)
    }

    /// The persona that stands before the context.
    pub fn own(&self) -> Option<&'a Persona> {
        match self.group {
            Group::Own(persona) => Some(persona),
            Group::Shared | Group::TaskOnly => None,
        }
    }
}

/// The rendered start of a request, shared by every run of its group: reference-counted, never
/// copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    bytes: Bytes,
    digest: Digest,
}

impl Prefix {
    /// Wraps rendered bytes and remembers their digest.
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

    /// Their digest, made when they were rendered.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

/// Whether a task is the user's message that the context ends with: a request that shows the context
/// names that message and does not repeat it.
pub fn is_shown(context: Option<&Snapshot>, task: &str) -> bool {
    let Some(newest) = context.and_then(|snapshot| snapshot.entries().last()) else {
        return false;
    };
    let said = newest.message();
    if said.role != Role::User || newest.form().is_some() || task.trim().is_empty() {
        return false;
    }
    match &said.parts[..] {
        [Part::Text(text)] => **text == *task,
        parts => {
            let texts: Vec<_> = parts.iter().map(Part::countable_text).collect();
            texts.join("\n") == task
        }
    }
}

/// Renders what the runs of a group share: JSON whose outermost object is left open for
/// [`Tail::render`] to close. `snapshot` is left out for [`Group::TaskOnly`].
pub fn render(snapshot: Option<&Snapshot>, group: &Group) -> Prefix {
    Prefix::new(native::render(snapshot, group))
}

#[cfg(test)]
mod tests;
