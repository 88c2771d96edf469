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
mod rule;
mod script;
mod served;
mod source;
mod write;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use unisono_model::catalogue::Catalogue;

pub use detect::find;

use unisono_config::diagnostic::Diagnostic;

/// The largest file that is read, in bytes.
pub const FILE_CAP_BYTES: u64 = 1 << 20;

/// Whose agents they are.
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

impl Format {
    /// Every format.
    pub const ALL: [Format; 6] = [
        Format::Claude,
        Format::Codex,
        Format::Copilot,
        Format::OpenCode,
        Format::Gemini,
        Format::CrewAi,
    ];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Claude => "claude",
            Format::Codex => "codex",
            Format::Copilot => "copilot",
            Format::OpenCode => "opencode",
            Format::Gemini => "gemini",
            Format::CrewAi => "crewai",
        }
    }

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// An agent that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// What it is called here.
    pub id: String,
    /// Where it came from.
    pub format: Format,
    /// The definition, as the text of `agents/<id>.md`.
    pub text: String,
    /// What did not carry over.
    pub lost: Vec<Lost>,
    /// What carried over in another form.
    pub changed: Vec<Lost>,
}

/// A key that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The key, with dots between its parts.
    pub key: String,
    /// Its line, where that is known.
    pub line: Option<u32>,
    /// Why, and what to do instead.
    pub reason: String,
}

/// Why a file has no agent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is larger than any definition.
    #[error("has {0} bytes; a definition has {FILE_CAP_BYTES} at most")]
    TooLarge(u64),
    /// It is not what it claims to be.
    #[error("{0}")]
    Malformed(Box<Diagnostic>),
    /// It is a page, and no agent.
    #[error("there is no front matter")]
    NoFrontMatter,
    /// It is none of the known formats.
    #[error(
        "is in no known format; name it with --from: claude, codex, copilot, opencode, gemini, crewai"
    )]
    Unknown,
    /// An agent in it cannot be one of ours.
    #[error("agent `{name}`: {reason}")]
    Refused {
        /// What it is called there.
        name: String,
        /// Why.
        reason: String,
    },
}

impl Error {
    /// Whether the file is something else than an agent's definition.
    pub const fn is_no_agent(&self) -> bool {
        matches!(self, Error::NoFrontMatter | Error::Unknown)
    }
}

/// What is known here, against which agents are read.
#[derive(Clone, Copy, Debug)]
pub struct Known<'k> {
    /// The models.
    pub catalogue: &'k Catalogue,
    /// The names of the servers of tools that are configured.
    pub servers: &'k BTreeSet<String>,
    /// The names of the skills that are found.
    pub skills: &'k BTreeSet<String>,
    /// The agents that there are, or will be: those that may be given tasks.
    pub agents: &'k BTreeSet<String>,
}

/// What a file has: each of its agents, or why that one cannot be ours.
pub type Agents = Vec<Result<Imported, Error>>;

/// Reads the agents of a file. Without `format`, it is recognised.
///
/// # Errors
/// The file cannot be read, or has no agents.
pub fn read(path: &Path, format: Option<Format>, known: Known<'_>) -> Result<Agents, Error> {
    let bytes = std::fs::metadata(path)?.len();
    if bytes > FILE_CAP_BYTES {
        return Err(Error::TooLarge(bytes));
    }
    let text = std::fs::read_to_string(path)?;
    let include = |name: &str| {
        let base = path.parent().unwrap_or(Path::new(""));
        included(base, name)
    };
    read_text(path, &text, format, known, &include)
}

/// Reads the agents of a text; `include` gives the files that it names.
fn read_text(
    path: &Path,
    text: &str,
    format: Option<Format>,
    known: Known<'_>,
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
    let setting = rule::Setting {
        format,
        known,
        include,
    };
    let agents = source::agents(format, path, document);
    if agents.is_empty() {
        return Err(Error::Unknown);
    }
    let mut agents = agents.iter().map(|agent| setting.import(agent)).collect();
    if format == Format::CrewAi {
        for crew in crew::find(path, &whole)? {
            crew.join(&mut agents);
        }
    }
    Ok(agents)
}

/// A file beside the one that names it: never one outside of its directory.
fn included(base: &Path, name: &str) -> io::Result<String> {
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
