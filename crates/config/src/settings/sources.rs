//! The sources of settings.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use unisono_model::provider::{Key, KeyError};

use super::Program;
use crate::paths::Home;

/// The name of a settings file.
pub const FILE: &str = "unisono.toml";
/// The settings of a machine.
pub const SYSTEM: &str = "/etc/unisono/unisono.toml";
/// The directories of skills in a project; the first one also in a person's directory.
const SKILLS: [&str; 3] = ["skills", ".agents/skills", ".claude/skills"];
/// Environment variables that start with this are settings: `UNISONO__SECTION__KEY`.
pub const PREFIX: &str = "UNISONO__";

/// A setting given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The flag, as the person wrote it: `--preset`.
    pub flag: String,
    /// The key, dotted: `compaction.preset`.
    pub key: String,
    /// Its value; a list is a TOML array, or its items with commas between them.
    pub value: String,
}

impl Override {
    /// `flag` sets `key` to `value`.
    pub fn new(
        flag: impl Into<String>,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Override {
        Override {
            flag: flag.into(),
            key: key.into(),
            value: value.into(),
        }
    }
}

/// All sources of settings.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The working directory, absolute. The search for a project goes upwards from here.
    pub directory: PathBuf,
    /// The file given with `--config`, instead of the project's own.
    pub file: Option<PathBuf>,
    /// The machine's file.
    pub system: Option<PathBuf>,
    /// The person's directories.
    pub home: Home,
    /// Environment variables; those that start with [`PREFIX`] are settings.
    pub env: Vec<(String, OsString)>,
    /// Environment variables that may hold API keys of providers.
    pub variables: Variables,
    /// Settings given on the command line; the last one has precedence.
    pub overrides: Vec<Override>,
    /// The settings changed at run time, instead of the stored ones.
    pub stored: Option<String>,
    /// The program's extensions in Rust.
    pub program: Program,
    /// Drafts of agent files by path, read instead of the files.
    pub drafts: BTreeMap<PathBuf, String>,
    /// Texts of settings files by path, as they were read first; none: there was no such file.
    pub texts: BTreeMap<PathBuf, Option<String>>,
}

/// Access to environment variables that may hold API keys. Its debug output shows none of them.
#[derive(Clone)]
pub struct Variables(Arc<Find>);

/// The value of a variable, if it is set.
type Find = dyn Fn(&str) -> Option<OsString> + Send + Sync;

impl Variables {
    /// An access through `find`.
    pub fn new(find: impl Fn(&str) -> Option<OsString> + Send + Sync + 'static) -> Variables {
        Variables(Arc::new(find))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        (self.0)(name).is_some()
    }

    /// The value of that variable, if it is set to text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        (self.0)(name)?.into_string().ok()
    }

    /// The API key in the first of these variables that is set.
    pub(crate) fn key(&self, names: &[impl AsRef<str>]) -> Result<Option<Key>, KeyError> {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        Key::from_variables(&names, |name| (self.0)(name))
    }
}

/// No variable is set.
impl Default for Variables {
    fn default() -> Variables {
        Variables::new(|_| None)
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Variables")
    }
}

/// The value of a variable that names a directory. If `HOME` is not set, as in containers and systemd
/// units, the home directory comes from the system's user database.
fn directory_variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).map(PathBuf::from);
    value.or_else(|| std::env::home_dir().filter(|_| name == "HOME"))
}

impl Sources {
    /// The sources of this process.
    pub fn of_process(directory: impl Into<PathBuf>) -> Sources {
        let env = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| name.starts_with(PREFIX));
        Sources {
            directory: directory.into(),
            file: None,
            system: Some(PathBuf::from(SYSTEM)),
            home: Home::from_variables(directory_variable),
            env: env.collect(),
            variables: Variables::new(|name| std::env::var_os(name)),
            overrides: Vec::new(),
            stored: None,
            program: Program::default(),
            drafts: BTreeMap::new(),
            texts: BTreeMap::new(),
        }
    }

    /// The same with the texts of its settings files. Texts that it has stay: settings are read once.
    pub(crate) fn with_texts(mut self) -> Sources {
        let files: Vec<PathBuf> = self.files().collect();
        for path in files {
            let text = match std::fs::read_to_string(&path) {
                Ok(text) => Some(text),
                Err(error) if error.kind() == io::ErrorKind::NotFound && !is_there(&path) => None,
                // The error is reported when the file is read.
                Err(_) => continue,
            };
            self.texts.entry(path).or_insert(text);
        }
        self
    }

    /// The project's directory: the nearest one upwards with `config/unisono.toml`, else with
    /// `agents/`; with `--config`, the directory of that file, or the one above its `config/`.
    pub fn project(&self) -> Option<PathBuf> {
        if let Some(file) = &self.file {
            let file = self.directory.join(file);
            let directory = file.parent()?;
            let is_config = directory.file_name().is_some_and(|name| name == "config");
            let above = directory.parent().filter(|_| is_config);
            return Some(above.unwrap_or(directory).to_owned());
        }
        let upwards = || self.directory.ancestors();
        let configured = upwards().find(|dir| is_there(&project_file(dir)));
        let with_agents = || upwards().find(|dir| dir.join("agents").is_dir());
        configured.or_else(with_agents).map(Path::to_owned)
    }

    /// Every settings file, whether or not it exists.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let person = self.home.settings().map(|dir| dir.join(FILE));
        let files = [self.system.clone(), person, self.project_path()];
        files.into_iter().flatten()
    }

    /// The directories of skills: the project's, then the person's.
    pub fn skills(&self) -> Vec<PathBuf> {
        let project = self.project().unwrap_or_else(|| self.directory.clone());
        let of_project = SKILLS.into_iter().map(|place| project.join(place));
        let of_person = self.home.settings().map(|base| base.join(SKILLS[0]));
        of_project.chain(of_person).collect()
    }

    /// The project's settings: the file given, or the one found.
    pub(crate) fn project_path(&self) -> Option<PathBuf> {
        match &self.file {
            Some(file) => Some(self.directory.join(file)),
            None => self.project().map(|dir| project_file(&dir)),
        }
    }
}

/// Whether a settings file is there, readable or not. A link without its target is no missing file.
pub(crate) fn is_there(path: &Path) -> bool {
    let entry = std::fs::symlink_metadata(path);
    entry.is_ok_and(|entry| entry.is_file() || entry.is_dir() || entry.is_symlink())
}

fn project_file(directory: &Path) -> PathBuf {
    directory.join("config").join(FILE)
}
