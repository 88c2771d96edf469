//! The names that settings and agents can use: built-in names, and names of a program's extensions.

use std::collections::{BTreeMap, BTreeSet};

use unisono_context::Tokens;
use unisono_model::catalogue::{Catalogue, EXTRACTIVE};
use unisono_runtime::mcp::{LONGEST_NAME, SEPARATOR};
use unisono_runtime::{Extensions, schema_fault};

use crate::diagnostic::{Diagnostic, Diagnostics, Origin, Place};
use crate::skills;

/// The built-in tools of agents.
pub const TOOLS: [&str; 5] = {
    let [compact, delegate, read_message, recall] = unisono_runtime::tools::BUILT_IN;
    [compact, delegate, read_message, recall, skills::TOOL]
};

/// The kinds of agents that need no registration.
pub(crate) const BUILT_IN_KINDS: [&str; 7] = [
    "llm", EXTRACTIVE, "command", "http", "a2a", "acp", "pipeline",
];

/// The names of a program's extensions in Rust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Agent kinds.
    pub kinds: BTreeSet<String>,
    /// Tools.
    pub tools: BTreeSet<String>,
    /// Why the schemas of some tools cannot be used, by tool.
    pub bad_schemas: BTreeMap<String, String>,
    /// Language models, as `provider/model`, with their windows and their longest replies.
    pub models: BTreeMap<String, (Tokens, Tokens)>,
}

impl From<&Extensions> for Program {
    fn from(extensions: &Extensions) -> Program {
        let models = extensions.models().iter();
        let model = models.map(|(name, model)| {
            let size = (model.window(), model.max_output());
            (name.to_string(), size)
        });
        let offers = extensions.offers().into_iter();
        let bad_schemas = offers.filter_map(|offer| {
            let fault = fault_of(&offer.spec.input_schema)?;
            Some((offer.spec.name.to_string(), fault))
        });
        Program {
            kinds: extensions.kinds().map(str::to_owned).collect(),
            tools: extensions.tools().map(str::to_owned).collect(),
            bad_schemas: bad_schemas.collect(),
            models: model.collect(),
        }
    }
}

/// Why a tool cannot have this schema for its arguments. Each request with the tool contains the schema.
fn fault_of(schema: &str) -> Option<String> {
    let object: Result<serde_json::Map<String, serde_json::Value>, _> =
        serde_json::from_str(schema);
    match object {
        Ok(_) => schema_fault(schema),
        Err(error) => Some(error.to_string()),
    }
}

impl Program {
    /// The catalogue with the program's models.
    pub(super) fn added_to(&self, catalogue: Catalogue, found: &mut Diagnostics) -> Catalogue {
        let mut all = catalogue.clone();
        for (name, &(window, max_output)) in &self.models {
            let provider = name.split_once('/').map(|(provider, _)| provider);
            let problem = match provider {
                Some(provider) if catalogue.has_provider(provider) => {
                    format!(
                        "model `{name}` cannot be the program's own: `{provider}` is a provider"
                    )
                }
                Some(provider) if !provider.is_empty() => {
                    all = all.with_program_model(name, window, max_output);
                    continue;
                }
                _ => format!("model `{name}` must have a name such as provider/model"),
            };
            found.push(wrong(problem));
        }
        all
    }

    /// Checks that agents can name its tools and kinds, and that models can be told of its tools.
    pub(super) fn check(&self, found: &mut Diagnostics) {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        for name in &self.tools {
            let spelt = name.chars().all(fits) && !name.is_empty() && name.len() <= LONGEST_NAME;
            if !spelt || name.contains(SEPARATOR) {
                let rule = format!("[a-zA-Z0-9_-]{{1,{LONGEST_NAME}}} without {SEPARATOR}");
                found.push(wrong(format!("tool `{name}` has to be named {rule}")));
            } else if TOOLS.contains(&name.as_str()) {
                found.push(wrong(format!(
                    "tool `{name}` is built in: name it otherwise"
                )));
            }
        }
        for (name, fault) in &self.bad_schemas {
            let problem = format!("the schema of tool `{name}` is not a JSON schema: {fault}");
            found.push(wrong(problem));
        }
        for name in &self.kinds {
            if BUILT_IN_KINDS.contains(&name.as_str()) {
                let problem = format!("kind `{name}` of agents is built in: name it otherwise");
                found.push(wrong(problem));
            }
        }
    }
}

fn wrong(problem: String) -> Diagnostic {
    Diagnostic::error(Place::of_origin(Origin::Program), problem)
}
