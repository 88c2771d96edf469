//! The sizes, times and permissions of the files that define agents: enough to notice a change.
//!
//! The files are polled instead of being watched by the system: this needs no handle for each
//! directory, works on shared and on mounted directories, and supports editors that replace a file.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Roster, files};
use crate::settings::Loaded;
use crate::skills;

/// The existing files, each with what changes when its text or its readers change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileStates(BTreeMap<PathBuf, FileState>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FileState {
    bytes: u64,
    changed: Option<SystemTime>,
    /// Permissions, owner and group: a file that could not be read may be readable now.
    access: [u32; 3],
}

impl FileState {
    fn now(path: &Path) -> Option<FileState> {
        let about = std::fs::metadata(path).ok()?;
        Some(FileState {
            bytes: about.len(),
            changed: about.modified().ok(),
            access: [about.mode(), about.uid(), about.gid()],
        })
    }
}

impl FileStates {
    /// The current files of agents, the schemas of these definitions, skills and settings. After
    /// definitions were refused, the schemas of the refused definitions count: one of them may be the
    /// reason. Reads directories: not for an async thread.
    pub fn now(loaded: &Loaded, roster: &Roster, were_refused: bool) -> FileStates {
        let skills = loaded.sources().skills();
        let refused = were_refused.then(|| Roster::read(&loaded.with_agents_of_now().0).0);
        let defined = refused.as_ref().unwrap_or(roster);
        let all = files::of_agents(loaded).into_iter();
        let all = all.chain(defined.schema_files());
        let all = all.chain(loaded.sources().files());
        let all = all.chain(skills::main_files(&skills));
        let seen = all.filter_map(|path| {
            let state = FileState::now(&path)?;
            Some((path, state))
        });
        FileStates(seen.collect())
    }
}

#[cfg(test)]
mod tests {
    //! A changed file.

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::paths::Home;
    use crate::settings::{self, Sources};

    #[test]
    fn what_is_written_is_noticed_and_what_is_none_of_it_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir_all(at("agents")).unwrap();
        std::fs::create_dir_all(at("config")).unwrap();
        std::fs::write(at("config/unisono.toml"), "").unwrap();
        let home = directory.path().join("home");
        let sources = Sources {
            directory: directory.path().to_owned(),
            home: Home::from_variables(move |_| Some(home.clone())),
            ..Sources::default()
        };
        std::fs::write(at("answer.json"), "{}").unwrap();
        let answers = "description = \"x\"\noutput_schema = \"answer.json\"\n";
        std::fs::write(at("agents/answers.toml"), answers).unwrap();
        let loaded = settings::load(sources).unwrap();
        let (roster, _) = Roster::load(&loaded).unwrap();
        let mut last = FileStates::now(&loaded, &roster, false);
        let mut is_noticed = || {
            let now = FileStates::now(&loaded, &roster, false);
            std::mem::replace(&mut last, now.clone()) != now
        };
        assert!(!is_noticed());
        std::fs::write(at("agents/a.md"), "one").unwrap();
        assert!(is_noticed());
        assert!(!is_noticed());
        std::fs::write(at("agents/a.md"), "three").unwrap();
        assert!(is_noticed());
        std::fs::write(at("config/unisono.toml"), "[agents]\n").unwrap();
        assert!(is_noticed());
        std::fs::write(at("answer.json"), "{\"type\": \"object\"}").unwrap();
        assert!(is_noticed());
        for other in ["agents/.a.md.swp", "agents/README.md", "agents/notes.txt"] {
            std::fs::write(at(other), "x").unwrap();
            assert!(!is_noticed(), "{other}");
        }
        // A file that another user has written becomes readable.
        let others = std::fs::Permissions::from_mode(0o444);
        std::fs::set_permissions(at("agents/a.md"), others).unwrap();
        assert!(is_noticed());
        std::fs::remove_file(at("agents/a.md")).unwrap();
        assert!(is_noticed());
    }

    #[test]
    fn the_schema_that_a_refused_definition_lacks_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir_all(at("agents")).unwrap();
        let home = directory.path().join("home");
        let sources = Sources {
            directory: directory.path().to_owned(),
            home: Home::from_variables(move |_| Some(home.clone())),
            ..Sources::default()
        };
        let loaded = settings::load(sources).unwrap();
        let (roster, _) = Roster::load(&loaded).unwrap();
        let answers = "description = \"x\"\noutput_schema = \"answer.json\"\n";
        std::fs::write(at("agents/answers.toml"), answers).unwrap();
        let refused = FileStates::now(&loaded, &roster, true);
        std::fs::write(at("answer.json"), "{}").unwrap();
        assert_ne!(FileStates::now(&loaded, &roster, true), refused);
    }
}
