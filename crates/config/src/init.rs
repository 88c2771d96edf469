//! A starter project: a settings file, the shipped agents to change, and a `.gitignore`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::agents::EMBEDDED;

const CONFIG: &str = include_str!("init/unisono.toml");
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
        (PathBuf::from(".gitignore"), IGNORE),
    ];
    own.into_iter().chain(agents).collect()
}

/// Writes a starter project into `directory`, which is created if it does not exist. An existing
/// file is kept, unless `force` is set.
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
        match write_file(&target, text, force) {
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
        assert_eq!(write(root, true).unwrap().written.len(), files().len());
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
    fn what_cannot_be_written_is_named() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("config"), "a file").unwrap();
        let error = write(directory.path(), false).unwrap_err().to_string();
        assert!(error.contains("config/unisono.toml"), "{error}");
    }
}
