//! An import: converts the agents of several files and writes their definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use unisono_api::agent::{AgentImport, FileNote, ImportedAgent};
use unisono_config::agents::EMBEDDED;
use unisono_config::settings::Loaded;
use unisono_config::skills::Skills;

use super::{ConvertedAgent, Format, LocalNames, find, read};

/// A file that may define agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Where it is.
    pub path: PathBuf,
    /// Whether a person named it; else it was found in a directory, and need not define an agent.
    pub named: bool,
}

impl Candidate {
    /// The file at a path, or those that are found in the directory there.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn from_path(path: &Path) -> io::Result<Vec<Candidate>> {
        if !fs::metadata(path)?.is_dir() {
            let (path, named) = (path.to_owned(), true);
            return Ok(vec![Candidate { path, named }]);
        }
        let found = find(path)?.into_iter();
        let named = false;
        Ok(found.map(|path| Candidate { path, named }).collect())
    }
}

/// Which definitions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// None.
    Nothing,
    /// The definitions of new agents.
    New,
    /// All; existing files are overwritten.
    All,
}

/// The options of an import.
#[derive(Clone, Copy, Debug)]
pub struct Import<'i> {
    /// The format of all files; none: it is detected.
    pub format: Option<Format>,
    /// The directory of the definitions.
    pub to: &'i Path,
    /// The definitions that are written there.
    pub writes: Writes,
}

/// The outcome for an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Its definition was written.
    Written,
    /// It would be written.
    WouldWrite,
    /// Its file was kept as it is.
    Exists,
    /// Another file of the import defines an agent of that name.
    Twice,
}

impl Status {
    /// The stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Written => "written",
            Status::WouldWrite => "would_write",
            Status::Exists => "exists",
            Status::Twice => "twice",
        }
    }
}

/// An imported agent and its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedAgent {
    /// The agent.
    pub agent: ConvertedAgent,
    /// The file that it is from.
    pub from: PathBuf,
    /// The file of its definition.
    pub file: PathBuf,
    /// The outcome.
    pub status: Status,
}

/// The outcome of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The agents, in the order of their files.
    pub agents: Vec<PlacedAgent>,
    /// Files, or agents in them, that cannot be imported, with the reason.
    pub problems: Vec<(PathBuf, String)>,
    /// Files of directories that define no agent, with the reason.
    pub skipped: Vec<(PathBuf, String)>,
}

impl Report {
    /// The report in the types of the API. `name` names the files of the other program.
    pub fn to_api(&self, name: impl Fn(&Path) -> String) -> AgentImport {
        let notes = |all: &[(PathBuf, String)]| {
            let all = all.iter().map(|(file, reason)| FileNote {
                file: name(file),
                reason: reason.clone(),
            });
            all.collect()
        };
        let agents = self.agents.iter().map(|placed| ImportedAgent {
            agent: placed.agent.id.clone(),
            format: placed.agent.format.name().to_owned(),
            from: name(&placed.from),
            file: placed.file.display().to_string(),
            text: placed.agent.text.clone(),
            state: placed.status.name().to_owned(),
            lost: placed.agent.lost.clone(),
            changed: placed.agent.changed.clone(),
        });
        AgentImport {
            agents: agents.collect(),
            problems: notes(&self.problems),
            skipped: notes(&self.skipped),
            reload: None,
        }
    }
}

impl Import<'_> {
    /// Converts the agents of these files, and writes their definitions.
    ///
    /// # Errors
    /// A definition cannot be written; the error names its file.
    pub fn carry_out(self, files: &[Candidate], loaded: &Loaded) -> io::Result<Report> {
        let mut known = LocalNames {
            catalogue: &loaded.catalogue,
            servers: &loaded.tools.names,
            skills: &Skills::names_of(&loaded.sources().skills()),
            agents: &BTreeSet::new(),
        };
        let each = files
            .iter()
            .flat_map(|file| read(&file.path, self.format, known));
        let ids = each.flatten().flatten().map(|agent| agent.id);
        let there: BTreeSet<String> = names_in_use(self.to).chain(ids).collect();
        known.agents = &there;
        let mut report = Report::default();
        let mut taken: BTreeMap<String, PathBuf> = BTreeMap::new();
        for Candidate { path: from, named } in files {
            let agents = match read(from, self.format, known) {
                Ok(agents) => agents,
                Err(error) => {
                    let list = match error.is_no_agent() && !named {
                        true => &mut report.skipped,
                        false => &mut report.problems,
                    };
                    list.push((from.clone(), error.to_string()));
                    continue;
                }
            };
            for agent in agents {
                let agent = match agent {
                    Ok(agent) => agent,
                    Err(error) => {
                        report.problems.push((from.clone(), error.to_string()));
                        continue;
                    }
                };
                let file = self.to.join(format!("{}.md", agent.id));
                let status = match taken.insert(agent.id.clone(), from.clone()) {
                    Some(_) => Status::Twice,
                    None => self.write(&file, &agent)?,
                };
                let from = from.clone();
                report.agents.push(PlacedAgent {
                    agent,
                    from,
                    file,
                    status,
                });
            }
        }
        Ok(report)
    }

    /// Writes a definition, unless one of that name is there.
    fn write(self, file: &Path, agent: &ConvertedAgent) -> io::Result<Status> {
        // Two files may not define one agent.
        let other = self.to.join(format!("{}.toml", agent.id));
        if other.exists() || (file.exists() && self.writes != Writes::All) {
            return Ok(Status::Exists);
        }
        let mut options = fs::OpenOptions::new();
        options.write(true);
        match self.writes {
            Writes::Nothing => return Ok(Status::WouldWrite),
            Writes::New => options.create_new(true),
            Writes::All => options.create(true).truncate(true),
        };
        let written = fs::create_dir_all(self.to)
            .and_then(|()| options.open(file))
            .and_then(|mut file| file.write_all(agent.text.as_bytes()));
        match written {
            Ok(()) => Ok(Status::Written),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Status::Exists),
            Err(error) => {
                let named = format!("cannot write {}: {error}", file.display());
                Err(io::Error::new(error.kind(), named))
            }
        }
    }
}

/// The names of the built-in agents, and of those in the output directory.
fn names_in_use(to: &Path) -> impl Iterator<Item = String> {
    let built_in = EMBEDDED.iter().map(|(file, _)| PathBuf::from(file));
    let files = fs::read_dir(to).into_iter().flatten().flatten();
    let files = built_in.chain(files.map(|file| file.path()));
    let names = files.map(|file| file.file_stem().unwrap_or_default().to_owned());
    let names: Vec<String> = names.map(|name| name.to_string_lossy().into()).collect();
    names.into_iter()
}
