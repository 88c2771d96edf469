//! An import: converts the agents of several files and writes their definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use unisono_api::agent::{AgentImport, FileNote, ImportedAgent};
use unisono_config::agents::EMBEDDED;
use unisono_config::settings::Loaded;
use unisono_config::skills::Skills;

use super::rule::key_change;
use super::skills::{self, Found, SKILLS};
use super::{ConvertedAgent, Error, Format, LocalNames, find, read};

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
    /// The directory above which no skills are searched; none: up to three directories above a file.
    pub within: Option<&'i Path>,
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

unisono_context::names!(Status.name {
    Written = "written",
    WouldWrite = "would_write",
    Exists = "exists",
    Twice = "twice",
});

impl Import<'_> {
    /// Converts the agents of these files, and writes their definitions. The skills beside them that
    /// they name are copied to the directory of skills; their new folders are returned too. `name`
    /// names the files of the other program.
    ///
    /// # Errors
    /// A definition or a skill cannot be written; the error names its file.
    pub fn carry_out(
        self,
        files: &[Candidate],
        loaded: &Loaded,
        name: impl Fn(&Path) -> String,
    ) -> io::Result<(AgentImport, Vec<PathBuf>)> {
        let own = Skills::names_of(&loaded.sources().skills());
        let mut known = LocalNames {
            catalogue: &loaded.catalogue,
            servers: &loaded.tools.names,
            skills: &own,
            refused_skills: &BTreeMap::new(),
            agents: &BTreeSet::new(),
        };
        let agents_in = |file: &Candidate| read(&file.path, self.format, known);
        let each = files.iter().flat_map(agents_in);
        let ids = each.flatten().flatten().map(|agent| agent.id);
        let there: BTreeSet<String> = names_in_use(self.to).chain(ids).collect();
        known.agents = &there;
        let (mut report, mut new_skills) = (AgentImport::default(), Vec::new());
        let note = |file: &Path, error: &Error| FileNote {
            file: name(file),
            reason: error.to_string(),
        };
        let mut taken = BTreeSet::new();
        for Candidate { path: from, named } in files {
            let beside = skills::beside(from, self.within);
            let (usable, refused) = skills::usable(&own, &beside);
            let known = LocalNames {
                skills: &usable,
                refused_skills: &refused,
                ..known
            };
            let agents = match read(from, self.format, known) {
                Ok(agents) => agents,
                Err(error) => {
                    let list = match error.is_no_agent() && !*named {
                        true => &mut report.skipped,
                        false => &mut report.problems,
                    };
                    list.push(note(from, &error));
                    continue;
                }
            };
            for agent in agents {
                let agent = match agent {
                    Ok(agent) => agent,
                    Err(error) => {
                        report.problems.push(note(from, &error));
                        continue;
                    }
                };
                let is_new = taken.insert(agent.id.clone());
                let (agent, copied) = self.place(agent, is_new, name(from), (&beside, loaded))?;
                report.agents.push(agent);
                new_skills.extend(copied);
            }
        }
        Ok((report, new_skills))
    }

    /// Writes the definition of an agent, unless another one of that name came before it, and
    /// copies its skills. Returns their new folders too.
    fn place(
        self,
        mut agent: ConvertedAgent,
        is_new: bool,
        from: String,
        (beside, loaded): (&BTreeMap<String, Found>, &Loaded),
    ) -> io::Result<(ImportedAgent, Vec<PathBuf>)> {
        let file = self.to.join(format!("{}.md", agent.id));
        let status = match is_new {
            true => self.write(&file, &agent)?,
            false => Status::Twice,
        };
        let copied = match status {
            Status::Written | Status::WouldWrite => self.copy_skills(&mut agent, beside, loaded)?,
            Status::Exists | Status::Twice => Vec::new(),
        };
        let imported = ImportedAgent {
            agent: agent.id,
            format: agent.format.name().to_owned(),
            from,
            file: file.display().to_string(),
            text: agent.text,
            state: status.name().to_owned(),
            lost: agent.lost,
            changed: agent.changed,
        };
        Ok((imported, copied))
    }

    /// Copies the skills of an agent that are beside it, unless there are skills of these names.
    /// Returns the new folders.
    fn copy_skills(
        self,
        agent: &mut ConvertedAgent,
        beside: &BTreeMap<String, Found>,
        loaded: &Loaded,
    ) -> io::Result<Vec<PathBuf>> {
        let sources = loaded.sources();
        let to = match self.to.file_name().is_some_and(|name| name == "agents") {
            true => self.to.with_file_name(SKILLS),
            false => loaded
                .project
                .as_ref()
                .unwrap_or(&sources.directory)
                .join(SKILLS),
        };
        let mut places = sources.skills();
        places.push(to.clone());
        let mut copied = Vec::new();
        for name in agent.skills.clone() {
            let Some(Ok(folder)) = beside.get(&name) else {
                continue;
            };
            let mut there = places.iter().map(|place| place.join(&name));
            let copy = to.join(&name);
            let shown = copy.display();
            let note = match there.find(|there| there.exists()) {
                Some(there) if folder.is_same(&there) => continue,
                Some(there) => {
                    let there = there.display();
                    format!(
                        "another skill `{name}` is in {there}: it is kept, and the agent uses it"
                    )
                }
                None if self.writes == Writes::Nothing => {
                    format!("the skill `{name}` would be copied to {shown}")
                }
                None => {
                    folder.copy(&copy).map_err(|error| {
                        let named = format!("cannot write {shown}: {error}");
                        io::Error::new(error.kind(), named)
                    })?;
                    copied.push(copy.clone());
                    format!("the skill `{name}` was copied to {shown}")
                }
            };
            agent.changed.push(key_change("skills", None, &note));
        }
        Ok(copied)
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
