//! The available prompts, by name: the built-in ones, and a person's own above them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::prompt::{Error, Prompt};

const BUILT_IN: [(&str, &str); 5] = [
    ("general", include_str!("../../embedded/prompts/general.md")),
    ("code", include_str!("../../embedded/prompts/code.md")),
    ("handoff", include_str!("../../embedded/prompts/handoff.md")),
    ("topic", include_str!("../../embedded/prompts/topic.md")),
    ("bulk", include_str!("../../embedded/prompts/bulk.md")),
];

/// The default prompt of rolling summaries.
pub const GENERAL: &str = "general";
/// The prompt that summarises one topic.
pub const TOPIC: &str = "topic";
/// The prompt that merges several old topics.
pub const BULK: &str = "bulk";

/// Prompts by name.
#[derive(Clone, Debug)]
pub struct Prompts(BTreeMap<Box<str>, Arc<Prompt>>);

impl Prompts {
    /// The built-in prompts.
    ///
    /// # Errors
    /// Never for the files that this crate was built and tested with.
    pub fn built_in() -> Result<Prompts, Error> {
        let mut prompts = Prompts(BTreeMap::new());
        for (name, text) in BUILT_IN {
            prompts = prompts.with_file(name, &format!("config/prompts/{name}.md"), text)?;
        }
        Ok(prompts)
    }

    /// Adds the prompt of a file. It replaces one of the same name.
    ///
    /// # Errors
    /// The file is not a valid prompt; the error names its line.
    pub fn with_file(mut self, name: &str, file: &str, text: &str) -> Result<Prompts, Error> {
        self.0
            .insert(name.into(), Arc::new(Prompt::parse(file, text)?));
        Ok(self)
    }

    /// The prompt of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Prompt>> {
        self.0.get(name)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
    }
}
