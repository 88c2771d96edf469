//! A starter project: a settings file, the shipped agents to change, and a line in `.gitignore`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::agents::EMBEDDED;

const CONFIG: &str = include_str!("init/unisono.toml");
const IGNORE_FILE: &str = ".gitignore";
/// The store's directory, as [`CONFIG`] names it.
const STORE: &str = ".unisono";
const IGNORE: &str = "# Conversations stay on this machine.\n/.unisono/\n";

/// The outcome for each file, by its path in the project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitReport {
    /// Files that are new or were overwritten.
    pub written: Vec<PathBuf>,
    /// Existing files that did not change.
    pub kept: Vec<PathBuf>,
}

/// Why the project is incomplete.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}; check that the directory exists and is writable")]
pub struct Error {
    /// The file or directory.
    pub path: PathBuf,
    /// What happened.
    pub source: io::Error,
}

/// The files of a starter project: path in the project, and text.
pub fn files() -> Vec<(PathBuf, &'static str)> {
    let agents = EMBEDDED.map(|(name, text)| (Path::new("agents").join(name), text));
    let own = [
        (PathBuf::from("config/unisono.toml"), CONFIG),
        (PathBuf::from(IGNORE_FILE), IGNORE),
    ];
    own.into_iter().chain(agents).collect()
}

/// Writes a starter project into `directory`, which is created if it does not exist. An existing
/// file is kept, unless `force` is set. A `.gitignore` always keeps its lines; the store is added.
///
/// # Errors
/// A file or directory cannot be written. The earlier ones are.
pub fn write(directory: &Path, force: bool) -> Result<InitReport, Error> {
    let mut done = InitReport::default();
    for (path, text) in files() {
        let target = directory.join(&path);
        let failed = |source| Error {
            path: target.clone(),
            source,
        };
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let failed = |source| Error {
            path: target.clone(),
            source,
        };
        let written = match path == Path::new(IGNORE_FILE) {
            true => ignore_store(&target, text),
            false => write_file(&target, text, force),
        };
        match written {
            Ok(()) => done.written.push(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => done.kept.push(path),
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(done)
}

fn write_file(path: &Path, text: &str, force: bool) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true);
    } else {
        // No check before the write: a file that appears in between stays too.
        options.create_new(true);
    }
    options.open(path)?.write_all(text.as_bytes())
}

/// Adds lines that exclude the store from git, unless one does.
fn ignore_store(path: &Path, lines: &str) -> io::Result<()> {
    let known = match fs::read(path) {
        Ok(known) => String::from_utf8_lossy(&known).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let mut all = known.lines();
    if all.any(|line| line.trim().trim_matches('/') == STORE) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let gap = match known.is_empty() || known.ends_with('\n') {
        true => "",
        false => "\n",
    };
    let mut options = fs::OpenOptions::new();
    let mut file = options.append(true).create(true).open(path)?;
    file.write_all(format!("{gap}{lines}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Sources;
    use crate::setup;

    #[test]
    fn a_starter_project_is_right_and_nothing_of_a_person_is_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let first = write(root, false).unwrap();
        assert_eq!(first.written.len(), files().len());
        fs::write(root.join("agents/risks.md"), "mine").unwrap();
        let second = write(root, false).unwrap();
        assert_eq!(
            (second.written.len(), second.kept.len()),
            (0, files().len())
        );
        assert_eq!(
            fs::read_to_string(root.join("agents/risks.md")).unwrap(),
            "mine"
        );
        let third = write(root, true).unwrap();
        assert_eq!(third.written.len(), files().len() - 1);
        assert_eq!(third.kept, [Path::new(IGNORE_FILE)]);
        let sources = Sources {
            directory: root.to_owned(),
            home: crate::paths::Home::from_variables(|name| {
                (name == "HOME").then(|| "/nobody".into())
            }),
            ..Sources::default()
        };
        let found = setup::check(sources.clone());
        assert!(found.is_empty(), "{found}");
        let setup = setup::Setup::load(sources).unwrap();
        assert_eq!(setup.loaded.config.store.path, root.join(".unisono"));
    }

    #[test]
    fn the_store_is_excluded_from_git_and_lines_of_a_person_stay() {
        for (before, after) in rows! {
            ("", IGNORE.to_owned()),
            ("/target", format!("/target\n{IGNORE}")),
            ("/target\n", format!("/target\n{IGNORE}")),
            (".unisono/\r\n/target", ".unisono/\r\n/target".to_owned()),
        } {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join(IGNORE_FILE);
            fs::write(&file, before).unwrap();
            for force in [false, true] {
                write(directory.path(), force).unwrap();
                assert_eq!(fs::read_to_string(&file).unwrap(), after, "{before:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("config"), "a file").unwrap();
        let error = write(directory.path(), false).unwrap_err().to_string();
        assert!(error.contains("config/unisono.toml"), "{error}");
    }
}
