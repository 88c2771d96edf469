//! The current load and the commits, for observers: the numbers of working and waiting jobs, and
//! committed events.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use unisono_context::SessionId;
use unisono_session::Event;

/// The current load.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// Attempts of runs, over all agents.
    pub attempts: Gauge,
    /// Compaction steps.
    pub compactions: Gauge,
}

/// The numbers of working and waiting jobs.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    working: AtomicI64,
    waiting: AtomicI64,
}

impl Gauge {
    /// The number of working jobs.
    pub fn working(&self) -> u64 {
        read(&self.0.working)
    }

    /// The number of waiting jobs.
    pub fn waiting(&self) -> u64 {
        read(&self.0.waiting)
    }

    fn add(&self, working: i64, waiting: i64) {
        self.0.working.fetch_add(working, Ordering::Relaxed);
        self.0.waiting.fetch_add(waiting, Ordering::Relaxed);
    }
}

fn read(number: &AtomicI64) -> u64 {
    u64::try_from(number.load(Ordering::Relaxed)).unwrap_or(0)
}

/// The share of one queue in a gauge; removed with the queue.
#[derive(Debug, Default)]
pub(crate) struct GaugePart {
    gauge: Gauge,
    working: i64,
    waiting: i64,
}

impl GaugePart {
    pub(crate) fn new(gauge: &Gauge) -> GaugePart {
        GaugePart {
            gauge: gauge.clone(),
            ..GaugePart::default()
        }
    }

    pub(crate) fn set(&mut self, working: usize, waiting: usize) {
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let (working, waiting) = (number(working), number(waiting));
        self.gauge
            .add(working - self.working, waiting - self.waiting);
        (self.working, self.waiting) = (working, waiting);
    }
}

impl Drop for GaugePart {
    fn drop(&mut self) {
        self.set(0, 0);
    }
}

/// Called with the session and the events of each append after they are on disk.
#[derive(Clone, Default)]
pub struct Observer(Option<Arc<ObserverFn>>);

type ObserverFn = dyn Fn(SessionId, &[Event]) + Send + Sync;

impl Observer {
    /// Calls this function, which must not block.
    pub fn new(callback: impl Fn(SessionId, &[Event]) + Send + Sync + 'static) -> Observer {
        Observer(Some(Arc::new(callback)))
    }

    /// Calls the other observer after this one.
    #[must_use]
    pub fn and(self, other: Observer) -> Observer {
        Observer::new(move |session, events| {
            self.notify(session, events);
            other.notify(session, events);
        })
    }

    pub(crate) fn notify(&self, session: SessionId, events: &[Event]) {
        if let Some(callback) = &self.0 {
            callback(session, events);
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer(..)")
    }
}
