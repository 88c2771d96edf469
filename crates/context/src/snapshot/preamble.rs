//! The part of a prompt before the conversation: system text and tools.

use std::sync::Arc;

use crate::digest::{Digest, Hasher};

/// A tool in a prompt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolSpec {
    /// Its name, unique within a list.
    pub name: Arc<str>,
    /// Its purpose.
    pub description: Arc<str>,
    /// JSON schema of its arguments, as text with stable key order.
    pub input_schema: Arc<str>,
}

impl ToolSpec {
    /// A tool of that name; `input_schema` is the JSON schema of its arguments.
    pub fn new(
        name: impl Into<Arc<str>>,
        description: impl Into<Arc<str>>,
        input_schema: impl Into<Arc<str>>,
    ) -> ToolSpec {
        ToolSpec {
            name: name.into(),
            description: description.into(),
            input_schema: input_schema.into(),
        }
    }
}

/// The instructions every agent of a turn shares: session text and the sorted union of tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preamble {
    system: Arc<str>,
    tools: Arc<[ToolSpec]>,
    /// Computed once, because every token count of the preamble uses it.
    digest: Digest,
}

impl Preamble {
    /// Sorts the tools by name and keeps the first of each name.
    pub fn new(system: impl Into<Arc<str>>, mut tools: Vec<ToolSpec>) -> Preamble {
        tools.sort();
        tools.dedup_by(|a, b| a.name == b.name);
        let system = system.into();
        Preamble {
            digest: digest(&system, &tools),
            system,
            tools: tools.into(),
        }
    }

    /// The session's system text.
    pub fn system(&self) -> &Arc<str> {
        &self.system
    }

    /// The tools, sorted by name.
    pub fn tools(&self) -> &Arc<[ToolSpec]> {
        &self.tools
    }

    /// The text that counts as tokens: the system text, then the tools, one per line.
    pub fn countable_text(&self) -> String {
        let mut text = self.system.to_string();
        for tool in self.tools.iter() {
            let ToolSpec {
                name,
                description,
                input_schema,
            } = tool;
            text.push_str(&format!("\n{name} {description} {input_schema}"));
        }
        text
    }

    /// Its digest.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

fn digest(system: &str, tools: &[ToolSpec]) -> Digest {
    let mut hasher = Hasher::new("unisono/preamble", 1);
    hasher.str(system).u64(tools.len() as u64);
    for tool in tools {
        hasher
            .str(&tool.name)
            .str(&tool.description)
            .str(&tool.input_schema);
    }
    hasher.finish()
}
