//! The current configuration and agents, and their chains of summarisers.

use std::sync::{Arc, PoisonError, RwLock};

use unisono_config::settings;
use unisono_config::setup::Setup;
use unisono_config::summarisers::chain;
use unisono_model::calibration::Calibrations;
use unisono_runtime::Chains;

/// The current configuration and agents. Clones share one value: settings and agents change while
/// others read them.
#[derive(Clone, Debug)]
pub(crate) struct Current(Arc<RwLock<Arc<Setup>>>);

impl Current {
    pub(crate) fn new(setup: Setup) -> Current {
        Current(Arc::new(RwLock::new(Arc::new(setup))))
    }

    pub(crate) fn now(&self) -> Arc<Setup> {
        let setup = self.0.read().unwrap_or_else(PoisonError::into_inner);
        setup.clone()
    }

    pub(crate) fn set(&self, setup: Setup) {
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *held = Arc::new(setup);
    }
}

/// The chain for the conversations of each model that leads one, made on demand from the current
/// settings.
pub(crate) fn chains(current: &Current, calibrations: &Calibrations) -> Chains {
    let (current, calibrations) = (current.clone(), calibrations.clone());
    Chains::default().with_maker(move |lead, summariser, own| {
        // Settings may have changed since the last chain was made.
        let setup = current.now();
        let loaded = &setup.loaded;
        // Most sessions do not override it.
        let own = settings::overrides::of_writers(own);
        let with = match own.is_empty() {
            true => None,
            false => loaded.with(&own, &[]).0,
        };
        let loaded = with.as_ref().unwrap_or(loaded);
        chain(loaded, &calibrations, lead, summariser)
    })
}
