//! Agents of other programs, converted to our definitions, with a list of everything that does not
//! carry over.
//!
//! ```text
//! file ─► format (by place and keys) ─► table of keys ─► rules of the format ─► agents/<id>.md
//!         [`detect`]                    [`source`]        [`formats`], [`rule`]   [`write`]
//! ```
//!
//! Nothing is dropped silently: a key without a rule is reported as lost.

mod crew;
mod delegating;
mod detect;
mod formats;
mod import;
mod permissions;
mod rule;
mod script;
mod skills;
mod source;
mod tool_servers;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use unisono_model::catalogue::Catalogue;

pub use detect::find;
pub use import::{Candidate, Import, Status, Writes};
pub use unisono_api::agent::KeyChange;

use unisono_config::diagnostic::Diagnostic;

/// The maximum size of a file, in bytes.
pub const FILE_CAP_BYTES: u64 = 1 << 20;

/// The program whose agents a file defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Claude Code: `.claude/agents/*.md`.
    Claude,
    /// Codex: `.codex/agents/*.toml`.
    Codex,
    /// Copilot: `.github/agents/*.agent.md`.
    Copilot,
    /// opencode: `.opencode/agents/*.md`, and `agent` in `opencode.json`.
    OpenCode,
    /// Gemini CLI: `.gemini/agents/*.md` and `.toml`.
    Gemini,
    /// CrewAI: `config/agents.yaml`, and `tasks.yaml` beside it.
    CrewAi,
}

unisono_context::names!(Format {
    Claude = "claude",
    Codex = "codex",
    Copilot = "copilot",
    OpenCode = "opencode",
    Gemini = "gemini",
    CrewAi = "crewai",
});

/// A converted agent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvertedAgent {
    /// Its id here.
    pub id: String,
    /// Its original format.
    pub format: Format,
    /// The definition, as the text of `agents/<id>.md`.
    pub text: String,
    /// The skills that it names.
    pub skills: BTreeSet<String>,
    /// The keys that did not carry over.
    pub lost: Vec<KeyChange>,
    /// The keys that carried over in another form.
    pub changed: Vec<KeyChange>,
}

/// Why a file, or an agent in it, cannot be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is a directory that this user may not read.
    #[error("this directory cannot be searched: permission denied")]
    Closed,
    /// The file is too large.
    #[error("has {0} bytes; a definition has {FILE_CAP_BYTES} at most")]
    TooLarge(u64),
    /// It is malformed.
    #[error("{0}")]
    Malformed(Box<Diagnostic>),
    /// It is a Markdown file without front matter.
    #[error("there is no front matter")]
    NoFrontMatter,
    /// Its format is unknown.
    #[error(
        "is in no known format; name it with --from: claude, codex, copilot, opencode, gemini, crewai"
    )]
    Unknown,
    /// An agent in it cannot be converted.
    #[error("agent `{name}`: {reason}")]
    Refused {
        /// Its original name.
        name: String,
        /// The reason.
        reason: String,
    },
}

impl Error {
    /// Whether there is no agent's definition.
    pub const fn is_no_agent(&self) -> bool {
        matches!(self, Error::Closed | Error::NoFrontMatter | Error::Unknown)
    }
}

/// The names that references of an agent may use here.
#[derive(Clone, Copy, Debug)]
pub struct LocalNames<'k> {
    /// The models.
    pub catalogue: &'k Catalogue,
    /// The names of the configured MCP servers.
    pub servers: &'k BTreeSet<String>,
    /// The names of the available skills, and of those that are imported with the agent.
    pub skills: &'k BTreeSet<String>,
    /// Why other skills beside the agent cannot be imported, by name.
    pub refused_skills: &'k BTreeMap<String, String>,
    /// The agents that exist or are being imported, which may be delegates.
    pub agents: &'k BTreeSet<String>,
}

/// The agents of a file: each converted, or the reason why it cannot be.
pub type Agents = Vec<Result<ConvertedAgent, Error>>;

/// Reads the agents of a file. Without `format`, the format is detected.
///
/// # Errors
/// The file cannot be read, or has no agents.
pub fn read(path: &Path, format: Option<Format>, known: LocalNames<'_>) -> Result<Agents, Error> {
    let about = std::fs::metadata(path)?;
    if about.is_dir() {
        return Err(Error::Closed);
    }
    if about.len() > FILE_CAP_BYTES {
        return Err(Error::TooLarge(about.len()));
    }
    let text = std::fs::read_to_string(path)?;
    let include = |name: &str| {
        let base = path.parent().unwrap_or(Path::new(""));
        read_included(base, name)
    };
    read_text(path, &text, format, known, &include)
}

/// Reads the agents of a text; `include` reads the files that it names.
fn read_text(
    path: &Path,
    text: &str,
    format: Option<Format>,
    known: LocalNames<'_>,
    include: &dyn Fn(&str) -> io::Result<String>,
) -> Result<Agents, Error> {
    let document = source::parse(path, text)?;
    let whole = document.clone();
    let recognised = format.is_none();
    let format = format.or_else(|| detect::format(path, &document));
    let format = format.ok_or(Error::Unknown)?;
    if recognised && format == Format::Claude && document.table.get("name").is_none() {
        return Ok(vec![Err(Error::Refused {
            name: path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            reason: "there is no `name`, and Claude Code reads no agent without one: add it, or \
                     name the format with --from claude"
                .to_owned(),
        })]);
    }
    let importer = rule::Importer {
        format,
        known,
        include,
    };
    let agents = source::agents(format, path, document);
    if agents.is_empty() {
        return Err(Error::Unknown);
    }
    let mut agents = agents.iter().map(|agent| importer.import(agent)).collect();
    if format == Format::CrewAi {
        for crew in crew::find(path, &whole)? {
            crew.join(&mut agents);
        }
    }
    Ok(agents)
}

/// Reads a file that another file names; only within that file's directory.
fn read_included(base: &Path, name: &str) -> io::Result<String> {
    let confined = |path: PathBuf| {
        let (path, base) = (path.canonicalize()?, base.canonicalize()?);
        match path.starts_with(&base) && path.metadata()?.len() <= FILE_CAP_BYTES {
            true => Ok(path),
            false => Err(io::Error::other(
                "it is not below the file that names it, or too large",
            )),
        }
    };
    std::fs::read_to_string(confined(base.join(name))?)
}

#[cfg(test)]
mod tests;
