//! The limits and timeouts of the runtime.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use unisono_session::budget::OwnerBudgets;
use unisono_session::budget::broker::DaemonBudget;

use crate::attachments::AttachmentLimits;
use crate::concurrency::LiveRuns;
use crate::hook::Hook;
use crate::load::{Load, Observer};
use crate::mcp;
use crate::residence::ResidenceBounds;
use crate::restart::Intensity;
use crate::session_port::RecallScope;
use crate::summarisers::Chains;

/// All limits and timeouts of the runtime.
#[derive(Clone, Debug)]
pub struct Options {
    /// The maximum number of waiting runs of one agent.
    pub pool_queue: usize,
    /// The maximum number of concurrent compactions.
    pub compactions: usize,
    /// The maximum number of waiting compactions. Further ones call no model, and as many of them
    /// as [`Options::compactions`] work at a time.
    pub compaction_queue: usize,
    /// The time limit of a turn's compaction with all its steps. After it no model is called; steps
    /// without a model are still carried out.
    pub compaction_deadline: Deadline,
    /// The summarisers.
    pub summarisers: Chains,
    /// The servers whose tools agents may use.
    pub servers: Vec<mcp::Server>,
    /// The hooks that sessions ask.
    pub hooks: Vec<Hook>,
    /// The maximum number of concurrent counting requests.
    pub countings: usize,
    /// The maximum number of waiting requests of one session, and of its open turns; further ones are
    /// answered with `busy`.
    pub session_queue: usize,
    /// The time after which an idle session leaves memory.
    pub passivate_after: Duration,
    /// The limits of sessions in memory; working sessions stay in any case.
    pub resident: ResidenceBounds,
    /// The maximum frequency of restarts of an actor.
    pub intensity: Intensity,
    /// The budget of all sessions together; none: unlimited.
    pub budget: Option<DaemonBudget>,
    /// The budgets of owners, each for all sessions of one owner; ignored without `budget`.
    pub budget_owners: Arc<OwnerBudgets>,
    /// The time without progress after which an attempt is stuck.
    pub stuck_after: Duration,
    /// The maximum numbers of active runs.
    pub live_runs: LiveRuns,
    /// Directory of the search index, used by this process only; none: searches index the messages
    /// in memory on demand.
    pub search_index: Option<PathBuf>,
    /// The scope of the tool `recall`.
    pub recall: RecallScope,
    /// The limits of attachments.
    pub attachments: AttachmentLimits,
    /// Updated with the numbers of working and waiting jobs.
    pub load: Load,
    /// Called with committed events.
    pub observer: Observer,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            pool_queue: 4_096,
            compactions: 2,
            compaction_queue: 256,
            compaction_deadline: Duration::from_secs(30).into(),
            summarisers: Chains::default(),
            servers: Vec::new(),
            hooks: Vec::new(),
            countings: 4,
            session_queue: 1_024,
            passivate_after: Duration::from_secs(300),
            resident: ResidenceBounds::default(),
            intensity: Intensity::default(),
            budget: None,
            budget_owners: Arc::default(),
            stuck_after: Duration::from_secs(180),
            live_runs: LiveRuns::default(),
            search_index: None,
            recall: RecallScope::default(),
            attachments: AttachmentLimits::default(),
            load: Load::default(),
            observer: Observer::default(),
        }
    }
}

/// The time limit of a turn's compaction. Clones share one value: a change applies to later
/// compactions.
#[derive(Clone, Debug)]
pub struct Deadline(Arc<AtomicU64>);

impl Deadline {
    /// Sets the deadline of later compactions.
    pub fn set(&self, deadline: Duration) {
        self.0.store(millis(deadline), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

impl From<Duration> for Deadline {
    fn from(deadline: Duration) -> Deadline {
        Deadline(Arc::new(AtomicU64::new(millis(deadline))))
    }
}

fn millis(deadline: Duration) -> u64 {
    u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX)
}
