//! The sizes and times of the files that define agents: enough to notice a change.
//!
//! The files are polled instead of being watched by the system: this needs no handle for each
//! directory, works on shared and on mounted directories, and supports editors that replace a file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use super::{Roster, files};
use crate::settings::Loaded;
use crate::skills;

/// The existing files, each with its size in bytes and the time of its last change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileStates(BTreeMap<PathBuf, (u64, Option<SystemTime>)>);

impl FileStates {
    /// The current files of agents, the schemas of these definitions, skills and settings. After
    /// definitions were refused, the schemas are those of the files and not of the roster: one of them
    /// may be what is wrong. Reads directories: not for an async thread.
    pub fn now(loaded: &Loaded, roster: &Roster, were_refused: bool) -> FileStates {
        let refused = were_refused.then(|| Roster::read(&loaded.with_agents_of_now().0).0);
        let defined = refused.as_ref().unwrap_or(roster);
        let all = files::of_agents(loaded).into_iter();
        let all = all.chain(defined.schema_files());
        let all = all.chain(loaded.sources().files());
        let seen = all.filter_map(|path| {
            let about = std::fs::metadata(&path).ok()?;
            Some((path, (about.len(), about.modified().ok())))
        });
        FileStates(
            seen.chain(skills::file_states(&loaded.sources().skills()))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    //! A changed file.

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
