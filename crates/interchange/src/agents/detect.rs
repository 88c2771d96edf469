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
/// The maximum depth of the search: a crew of a flow of CrewAI is five levels deep in its project,
/// which may be one of several in a repository.
const DEPTH: usize = 8;

/// Keys of an agent of opencode that a page does not have.
const OWN_KEYS: [&str; 5] = ["mode", "model", "permission", "permissions", "tools"];

/// The directories of each program.
const PLACES: [(&str, Format); 5] = [
    (".claude", Format::Claude),
    (".codex", Format::Codex),
    (".github", Format::Copilot),
    (".opencode", Format::OpenCode),
    (".gemini", Format::Gemini),
];

/// The files below a directory that may define agents, and the directories there that this user may
/// not read, by name. Links are not followed.
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
            match search(&path, own, depth + 1, found) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => found.push(path),
                searched => searched?,
            }
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
    let is_place = |part: &str| PLACES.iter().any(|(place, _)| part == *place);
    // A project may itself be in a directory `agents`.
    let in_place = parts.iter().rposition(|part| is_place(part));
    let below = in_place.map(|at| &parts[at + 1..]).unwrap_or_default();
    let is_below = below.iter().any(|part| part == "agents" || part == "agent");
    is_below || named
}

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
        // There may be a page about agents next to them. Only opencode's need no description.
        "md" if !["name", "description"].iter().any(|key| has(key)) => by_place(path)
            .filter(|format| *format == Format::OpenCode && OWN_KEYS.iter().any(|key| has(key))),
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

fn by_keys(has: &dyn Fn(&str) -> bool) -> Option<Format> {
    let any = |keys: &[&str]| keys.iter().any(|key| has(key));
    if any(&["mode", "permission", "permissions", "steps", "maxSteps"]) {
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

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_crew_of_a_flow_is_found_from_the_top_of_its_repository() {
        let place = tempfile::tempdir().unwrap();
        let config = place.path().join("flows/a/src/a/crews/b/config");
        std::fs::create_dir_all(&config).unwrap();
        std::fs::write(config.join("agents.yaml"), "a: {}").unwrap();
        assert_eq!(find(place.path()).unwrap(), [config.join("agents.yaml")]);
    }

    #[test]
    fn a_directory_of_another_user_hides_no_agents_beside_it() {
        let place = tempfile::tempdir().unwrap();
        let at = |path: &str| place.path().join(path);
        fs::create_dir_all(at(".claude/agents")).unwrap();
        fs::write(at(".claude/agents/a.md"), "").unwrap();
        let closed = at("data");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, Permissions::from_mode(0o0)).unwrap();
        let expected = match fs::read_dir(&closed) {
            // The administrator may read all.
            Ok(_) => vec![at(".claude/agents/a.md")],
            Err(_) => vec![at(".claude/agents/a.md"), closed.clone()],
        };
        assert_eq!(find(place.path()).unwrap(), expected);
        fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn agents_are_below_the_directory_of_their_program() {
        let cases = [
            ("/p/.claude/agents/a.md", true),
            ("/p/.claude/agents/team/a.md", true),
            ("/p/.opencode/agent/a.md", true),
            ("/agents/p/.claude/agents/a.md", true),
            ("/agents/p/.claude/commands/a.md", false),
            ("/agents/.github/ISSUE_TEMPLATE/bug.md", false),
            ("/p/.claude/agents/README.md", false),
            ("/p/agents/a.md", false),
            ("/p/src/config/agents.yaml", true),
        ];
        for (path, expected) in cases {
            let path = Path::new(path);
            let name = path.file_name().unwrap().to_string_lossy();
            assert_eq!(may_define(path, &name, false), expected, "{path:?}");
        }
    }
}
