//! The starting point of a program: configuration and agents, read and checked together.

use std::path::PathBuf;

use crate::agents::Roster;
use crate::diagnostic::{Diagnostics, Origin};
use crate::log;
use crate::paths;
use crate::project;
use crate::settings::{self, Loaded, Override, SessionOverrides, Sources};
use crate::summarisers;
use crate::telemetry;
use crate::thresholds;

/// Configuration and agents.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The configuration.
    pub loaded: Loaded,
    /// The agents.
    pub roster: Roster,
    /// All warnings.
    pub warnings: Diagnostics,
    /// The directory whose `AGENTS.md` files the agents get; none: the working directory.
    pub directory: Option<PathBuf>,
}

impl Setup {
    /// Reads both.
    ///
    /// # Errors
    /// There are errors that a person must correct; the list says what, where, and how.
    pub fn load(sources: Sources) -> Result<Setup, Diagnostics> {
        let (loaded, found) = settings::read(sources);
        let Some(loaded) = loaded else {
            return Err(found);
        };
        Setup::checked(loaded, found)
    }

    /// Reads the configuration again from the texts of its sources, with the current definitions of
    /// agents. Older definitions in these texts may name files that were deleted since.
    ///
    /// # Errors
    /// There are errors that a person must correct; the list says what, where, and how.
    pub fn load_again(sources: Sources) -> Result<Setup, Diagnostics> {
        let (started, found) = settings::read(sources);
        let mut found = found.into_result()?;
        let Some(started) = started else {
            return Err(found);
        };
        let (loaded, newer) = started.with_agents_of_now();
        found.extend(newer);
        Setup::checked(loaded, found)
    }

    /// The same setup with these flags for requests to a daemon, which checks them by its own
    /// settings. They change nothing here.
    #[must_use]
    pub fn with_request_overrides(self, overrides: Vec<Override>) -> Setup {
        let loaded = self.loaded.with_request_overrides(overrides);
        Setup { loaded, ..self }
    }

    /// The same configuration with the current definitions of agents, in files and in tables of the
    /// configuration, checked as at a start.
    ///
    /// # Errors
    /// There are errors that a person must correct; the list says what, where, and how.
    pub fn with_agents_of_now(&self) -> Result<Setup, Diagnostics> {
        let (loaded, found) = self.loaded.with_agents_of_now();
        Setup::checked(loaded, found)
    }

    /// The same setup with a draft for a file of an agent, checked as by
    /// [`Setup::with_agents_of_now`]; an unknown key of the draft is an error, as in [`check`].
    /// Nothing is written.
    ///
    /// # Errors
    /// There are errors that a person must correct; the list has the problem, the position and the
    /// fix.
    pub fn with_agent_draft(&self, file: PathBuf, text: String) -> Result<Setup, Diagnostics> {
        let (loaded, found) = self.loaded.with_agents_of_now();
        let origin = Origin::File(paths::display_path(&file, &loaded.sources().directory));
        let setup = Setup::checked(loaded.with_draft(file, text), found)
            .map_err(|found| found.strict_in(&origin))?;
        let warnings = setup.warnings.strict_in(&origin).into_result()?;
        Ok(Setup { warnings, ..setup })
    }

    /// The same setup with the settings of a session, and with settings above all others, checked
    /// as at a start. No file is read, so later changes of files are not seen.
    ///
    /// # Errors
    /// The settings cause errors; the list says what, where, and how. It has no warnings, because
    /// they concern other settings.
    pub fn with(
        &self,
        own: &SessionOverrides,
        settings: &[Override],
    ) -> Result<Setup, Diagnostics> {
        let with = self.checked_with(own, settings);
        with.map_err(|found| found.errors())
    }

    fn checked_with(
        &self,
        own: &SessionOverrides,
        settings: &[Override],
    ) -> Result<Setup, Diagnostics> {
        let (loaded, found) = self.loaded.with(own, settings);
        let Some(mut loaded) = loaded else {
            return Err(found);
        };
        // A request may lower the budget of its turn, not raise it.
        let budget = &mut loaded.config.budget;
        budget.turn = budget.turn.at_most(&self.loaded.config.budget.turn);
        let (roster, more) = self.roster.under(&loaded);
        Setup::from_parts(loaded, roster, found, more)
    }

    /// The instructions of every agent: the current text of the files of the directory's project, and
    /// the list of skills. `lines` describe the skills of tool servers; they follow the skills of folders.
    pub fn instructions(&self, lines: &[String]) -> String {
        let (sources, turn) = (self.loaded.sources(), &self.loaded.config.turn);
        let directory = self.directory.as_ref().unwrap_or(&sources.directory);
        let project = self.loaded.project.as_deref();
        let said = project::instructions(directory, project, turn.agents_md_bytes);
        let skills = self.skills(lines);
        let gap = if said.is_empty() || skills.is_empty() {
            ""
        } else {
            "\n\n"
        };
        format!("{said}{gap}{skills}")
    }

    /// The list of skills. Skills of tool servers come last. Without skills it is empty.
    pub fn skills(&self, lines: &[String]) -> String {
        let most = self.loaded.config.turn.skills_bytes;
        self.roster.skills().catalogue(lines, most)
    }

    /// Whether there is a list of skills.
    pub fn has_skills(&self) -> bool {
        !self.roster.skills().is_empty() && self.loaded.config.turn.skills_bytes > 0
    }

    fn checked(loaded: Loaded, found: Diagnostics) -> Result<Setup, Diagnostics> {
        let (roster, more) = Roster::read(&loaded);
        Setup::from_parts(loaded, roster, found, more)
    }

    fn from_parts(
        loaded: Loaded,
        roster: Roster,
        mut found: Diagnostics,
        more: Diagnostics,
    ) -> Result<Setup, Diagnostics> {
        found.extend(more);
        summarisers::check(&loaded, &roster, &mut found);
        thresholds::check(&loaded, &roster, &mut found);
        telemetry::check(&loaded, &mut found);
        log::check(&loaded, &mut found);
        found.sort();
        Ok(Setup {
            loaded,
            roster,
            warnings: found.into_result()?,
            directory: None,
        })
    }
}

/// All errors and warnings of configuration and agents, with unknown keys as errors.
pub fn check(sources: Sources) -> Diagnostics {
    match Setup::load(sources) {
        Ok(setup) => setup.warnings,
        Err(found) => found,
    }
    .strict()
}
