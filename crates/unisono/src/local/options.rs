//! The settings that the runtime is started with.

use std::time::Duration;

use unisono_model::calibration::Calibrations;
use unisono_runtime::Options;

use crate::current::{self, Current};
use unisono_config::setup::Setup;

/// The default time limit of one compaction.
const DEADLINE_SECONDS: u64 = 30;

pub(super) fn compaction_deadline(setup: &Setup) -> Duration {
    let seconds = setup.loaded.config.compaction.all.deadline_seconds;
    Duration::from_secs(seconds.unwrap_or(DEADLINE_SECONDS))
}

pub(super) fn of_settings(current: &Current, calibrations: &Calibrations) -> Options {
    let setup = &*current.now();
    let config = &setup.loaded.config;
    let bounds = &config.runtime;
    let number = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    let defaults = Options::default();
    Options {
        pool_queue: number(bounds.queue_per_agent),
        session_queue: number(bounds.queue_per_session),
        compactions: number(bounds.compactions),
        compaction_queue: number(bounds.compaction_queue),
        countings: number(bounds.countings),
        passivate_after: Duration::from_secs(bounds.passivate_after_seconds),
        resident: unisono_runtime::ResidenceBounds {
            sessions: number(bounds.sessions_in_memory),
            bytes: bounds.session_bytes_in_memory,
        },
        compaction_deadline: compaction_deadline(setup).into(),
        summarisers: current::chains(current, calibrations),
        servers: setup.loaded.tools.servers.clone(),
        hooks: setup.loaded.hooks.endpoints.clone(),
        budget: config.budget.rules(),
        budget_owners: config.budget.owner_budgets().into(),
        stuck_after: Duration::from_secs(bounds.stuck_after_seconds),
        live_runs: config.budget.live_runs(),
        recall: bounds.recall,
        attachments: config.attachments.limits(),
        ..defaults
    }
}
