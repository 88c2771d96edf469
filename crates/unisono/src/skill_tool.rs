//! The tool `skill`: an agent reads the instructions for a kind of task.

use std::fmt::Write as _;

use serde_json::Value;
use unisono_config::skills::{Skills, TOOL};
use unisono_context::snapshot::ToolSpec;
use unisono_runtime::tool::{Call, Tool};
use unisono_session::tool::Contract;

use crate::current::Current;
use crate::server_skills::ServerSkills;

/// Maximum characters of one result, without the note about the rest.
const MAX_CHARS: usize = 15_000;

/// Reads the current skills when it is called. Its result is journaled with its call.
pub(crate) struct SkillTool(pub(crate) Current, pub(crate) ServerSkills);

/// The tool as models see it.
pub(crate) fn spec() -> ToolSpec {
    ToolSpec::new(
        TOOL,
        "Reads a skill: how a kind of task is done. With `file` it reads a file of the skill.",
        r#"{"type":"object","properties":{"name":{"type":"string","description":"The skill's name, as the list of skills has it."},"file":{"type":"string","description":"A file of the skill, by its path in the skill's folder."},"skip":{"type":"integer","minimum":0,"description":"Characters to leave out at the start, to read on in a long text."}},"required":["name"],"additionalProperties":false}"#,
    )
}

impl Tool for SkillTool {
    fn spec(&self) -> ToolSpec {
        spec()
    }

    fn contract(&self) -> Contract {
        Contract::Pure
    }

    async fn call(&self, call: Call) -> Result<String, String> {
        let setup = self.0.now();
        let name = call.arguments["name"].as_str().unwrap_or_default();
        if name.contains('/') {
            let file = call.arguments["file"].as_str();
            let text = self.1.read(&setup, name, file).await?;
            return part(&text, skip(&call.arguments));
        }
        let skills = setup.roster.skills().clone();
        let read = tokio::task::spawn_blocking(move || read(&skills, &call.arguments));
        read.await.map_err(|error| error.to_string())?
    }
}

fn read(skills: &Skills, arguments: &Value) -> Result<String, String> {
    let name = arguments["name"].as_str().unwrap_or_default();
    let text = match arguments["file"].as_str() {
        Some(file) => skills.file(name, file)?,
        None => skills.instructions(name)?,
    };
    part(&text, skip(arguments))
}

/// The characters to leave out at the start.
fn skip(arguments: &Value) -> usize {
    let skip = arguments["skip"].as_u64().unwrap_or(0);
    usize::try_from(skip).unwrap_or(usize::MAX)
}

/// The part of a text that one call returns.
fn part(text: &str, skip: usize) -> Result<String, String> {
    let total = text.chars().count();
    if skip > 0 && skip >= total {
        return Err(format!(
            "it has {total} characters, so none are left after {skip}"
        ));
    }
    let mut given: String = text.chars().skip(skip).take(MAX_CHARS).collect();
    let end = skip + MAX_CHARS;
    if end < total {
        let _ = write!(
            given,
            "\n[characters {skip} to {end} of {total}; \"skip\":{end} reads on]"
        );
    }
    Ok(given)
}
