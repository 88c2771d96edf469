//! A directory with a home, a machine's settings and a project.

use std::fs;
use std::path::{Path, PathBuf};

use unisono_config::diagnostic::Diagnostics;
use unisono_config::paths::Home;
use unisono_config::settings::{Override, Program, Sources, Variables};
use unisono_config::setup::{self, Setup};

pub(crate) struct Sandbox {
    root: tempfile::TempDir,
    pub(crate) sources: Sources,
}

impl Sandbox {
    pub(crate) fn new() -> Sandbox {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("project")).unwrap();
        let sources = Sources {
            directory: at("project"),
            file: None,
            system: Some(at("etc/unisono.toml")),
            home: Home {
                home: Some(at("home")),
                config: Some(at("home/.config")),
                data: Some(at("home/.local/share")),
            },
            env: Vec::new(),
            variables: Variables::default(),
            overrides: Vec::new(),
            stored: None,
            program: Program {
                kinds: ["echo".to_owned()].into(),
                ..Program::default()
            },
            ..Sources::default()
        };
        Sandbox { root, sources }
    }

    pub(crate) fn with_config(text: &str) -> Sandbox {
        Sandbox::new().file("project/config/unisono.toml", text)
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub(crate) fn file(self, path: &str, text: &str) -> Sandbox {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Sandbox {
        self.sources.env.push((name.to_owned(), value.into()));
        self
    }

    /// Environment variables that hold keys.
    pub(crate) fn keys(mut self, keys: &'static [(&'static str, &'static str)]) -> Sandbox {
        self.sources.variables = Variables::new(|name| {
            let found = keys.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.into())
        });
        self
    }

    pub(crate) fn flag(mut self, flag: &str, key: &str, value: &str) -> Sandbox {
        self.sources.overrides.push(Override::new(flag, key, value));
        self
    }

    pub(crate) fn load(&self) -> Result<Setup, Diagnostics> {
        Setup::load(self.sources.clone())
    }

    pub(crate) fn setup(&self) -> Setup {
        self.load().unwrap_or_else(|found| panic!("{found}"))
    }

    /// What `config check` says, with the sandbox's own path left out.
    pub(crate) fn check(&self) -> String {
        self.shown(setup::check(self.sources.clone()))
    }

    /// What is said when running, errors and warnings.
    pub(crate) fn complaints(&self) -> String {
        match self.load() {
            Ok(setup) => self.shown(setup.warnings),
            Err(found) => self.shown(found),
        }
    }

    pub(crate) fn shown(&self, text: impl ToString) -> String {
        let root: &Path = self.root.path();
        text.to_string().replace(&*root.to_string_lossy(), "")
    }
}
