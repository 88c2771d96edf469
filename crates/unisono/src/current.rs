//! Configuration and agents as they are now, and the chains of summarisers that follow from them.

use std::sync::{Arc, PoisonError, RwLock};

use unisono_config::settings;
use unisono_config::setup::Setup;
use unisono_config::summarisers::chain;
use unisono_model::calibration::Calibrations;
use unisono_runtime::Chains;

/// Configuration and agents as they are now. Clones are one: settings and agents are changed while
/// others look.
#[derive(Clone, Debug)]
pub(crate) struct Current(Arc<RwLock<Arc<Setup>>>);

impl Current {
    pub(crate) fn new(setup: Setup) -> Current {
        Current(Arc::new(RwLock::new(Arc::new(setup))))
    }

    /// Those that count for what begins now.
    pub(crate) fn now(&self) -> Arc<Setup> {
        let setup = self.0.read().unwrap_or_else(PoisonError::into_inner);
        setup.clone()
    }

    /// Takes others from now on.
    pub(crate) fn set(&self, setup: Setup) {
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *held = Arc::new(setup);
    }
}

/// The chain for the conversations of each model that leads one, made when it is asked for, as the
/// settings are then.
pub(crate) fn chains(current: &Current, calibrations: &Calibrations) -> Chains {
    let (current, calibrations) = (current.clone(), calibrations.clone());
    Chains::default().made_by(move |lead, summariser, own| {
        // Settings may have changed since the last one was made.
        let setup = current.now();
        let loaded = &setup.loaded;
        // Most sessions say nothing of it.
        let own = settings::own::of_writers(own);
        let with = match own.is_empty() {
            true => None,
            false => loaded.with(&own, &[]).0,
        };
        let loaded = with.as_ref().unwrap_or(loaded);
        chain(loaded, &calibrations, lead, summariser)
    })
}
