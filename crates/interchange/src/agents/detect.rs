//! Detects the files with agents, and their format.

use std::io;
use std::path::{Path, PathBuf};

use super::Format;
use super::source::Document;
use unisono_config::document::Value;

/// Directories that are not searched.
const SKIPPED: [&str; 5] = [".git", "node_modules", "target", ".venv", "__pycache__"];
/// Names of files next to agents that are not agents.
const NO_AGENTS: [&str; 5] = ["readme", "agents", "claude", "gemini", "changelog"];
/// The maximum depth of the search.
const DEPTH: usize = 6;

/// The directories of each program.
const PLACES: [(&str, Format); 5] = [
    (".claude", Format::Claude),
    (".codex", Format::Codex),
    (".github", Format::Copilot),
    (".opencode", Format::OpenCode),
    (".gemini", Format::Gemini),
];

/// The files below a directory that may define agents, by name. Links are not followed.
///
/// # Errors
/// The directory cannot be read.
pub fn find(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let own = directory.canonicalize()?;
    search(directory, &own, 0, &mut found)?;
    found.sort();
    Ok(found)
}

fn search(directory: &Path, own: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let (path, kind) = {
            let entry = entry?;
            (entry.path(), entry.file_type()?)
        };
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if kind.is_dir() && depth < DEPTH && !SKIPPED.contains(&name.as_str()) {
            search(&path, own, depth + 1, found)?;
        } else if kind.is_file() && may_define(&own.join(&path), &name, depth == 0) {
            found.push(path);
        }
    }
    Ok(())
}

/// Whether the place and the name of a file are those of an agent.
fn may_define(path: &Path, name: &str, named: bool) -> bool {
    let stem = name.split('.').next().unwrap_or_default().to_lowercase();
    let ending = path
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default();
    if stem == "opencode" {
        return matches!(ending, "json" | "jsonc");
    }
    if stem == "agents" {
        return matches!(ending, "yaml" | "yml");
    }
    let known = matches!(ending, "md" | "toml");
    if !known || NO_AGENTS.contains(&stem.as_str()) {
        return false;
    }
    let parts: Vec<_> = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    let below = parts.iter().any(|part| part == "agents" || part == "agent");
    let place = PLACES
        .iter()
        .any(|(place, _)| parts.iter().any(|part| part == place));
    (below && place) || named
}

/// The format of a file.
pub(super) fn format(path: &Path, document: &Document) -> Option<Format> {
    let name = path.file_name()?.to_string_lossy();
    if name.ends_with(".agent.md") || name.ends_with(".chatmode.md") {
        return Some(Format::Copilot);
    }
    let has = |key: &str| document.table.get(key).is_some();
    let below = document
        .table
        .iter()
        .filter_map(|entry| match &entry.node.value {
            Value::Table(table) => Some(table),
            _ => None,
        });
    let mut below = below.peekable();
    match path.extension()?.to_str()? {
        "json" | "jsonc" => (has("agent") || has("agents")).then_some(Format::OpenCode),
        "yaml" | "yml" => {
            let whole = ["agents", "tasks"];
            if whole.iter().all(|key| document.table.table(key).is_some()) {
                return Some(Format::CrewAi);
            }
            let crew = below.peek().is_some()
                && below.all(|table| table.get("role").is_some() && table.get("goal").is_some());
            crew.then_some(Format::CrewAi)
        }
        "toml" if has("developer_instructions") => Some(Format::Codex),
        "toml" if has("prompts") => Some(Format::Gemini),
        // There may be a page about agents next to them.
        "md" if !["name", "description"].iter().any(|key| has(key)) => None,
        "md" => by_place(path).or_else(|| by_keys(&has)),
        _ => None,
    }
}

fn by_place(path: &Path) -> Option<Format> {
    let mut parts = path
        .components()
        .rev()
        .map(|part| part.as_os_str().to_string_lossy());
    parts.find_map(|part| {
        PLACES
            .iter()
            .find(|(place, _)| part == *place)
            .map(|(_, format)| *format)
    })
}

/// By keys that only one format has.
fn by_keys(has: &dyn Fn(&str) -> bool) -> Option<Format> {
    let any = |keys: &[&str]| keys.iter().any(|key| has(key));
    if any(&["mode", "permission", "steps", "maxSteps"]) {
        return Some(Format::OpenCode);
    }
    if any(&["kind", "max_turns", "timeout_mins", "display_name"]) {
        return Some(Format::Gemini);
    }
    if any(&[
        "target",
        "handoffs",
        "mcp-servers",
        "infer",
        "user-invocable",
        "argument-hint",
    ]) {
        return Some(Format::Copilot);
    }
    (has("name") && has("description")).then_some(Format::Claude)
}
