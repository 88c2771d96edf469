//! What a program starts from: configuration and agents, read and checked together.

use crate::agents::Roster;
use crate::config::{self, Loaded, Sources};
use crate::diagnostic::Diagnostics;
use crate::{summarisers, thresholds};

/// Configuration and agents.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The configuration.
    pub loaded: Loaded,
    /// The agents.
    pub roster: Roster,
    /// Models that open turns were begun with, beside those that settings and agents name: a turn
    /// goes on with the model it was recorded with, whatever is configured now.
    pub recorded_models: Vec<String>,
    /// Everything that is wrong but keeps nothing from working.
    pub warnings: Diagnostics,
}

impl Setup {
    /// Reads both. `kinds` are the agent kinds implemented in Rust and registered.
    ///
    /// # Errors
    /// Something is wrong that a person must put right; the list says what, where, and how.
    pub fn load<'k>(
        sources: Sources,
        kinds: impl IntoIterator<Item = &'k str>,
    ) -> Result<Setup, Diagnostics> {
        let (loaded, mut found) = config::read(sources);
        let Some(loaded) = loaded else {
            return Err(found);
        };
        let (roster, more) = Roster::read(&loaded, kinds);
        found.extend(more);
        let mut setup = Setup {
            loaded,
            roster,
            recorded_models: Vec::new(),
            warnings: Diagnostics::default(),
        };
        summarisers::check(&setup, &mut found);
        thresholds::check(&setup, &mut found);
        found.sort();
        setup.warnings = found.into_result()?;
        Ok(setup)
    }
}

/// Everything that is wrong with configuration and agents, unknown keys as errors.
pub fn check<'k>(sources: Sources, kinds: impl IntoIterator<Item = &'k str>) -> Diagnostics {
    match Setup::load(sources, kinds) {
        Ok(setup) => setup.warnings,
        Err(found) => found,
    }
    .strict()
}
