//! What is going on, for those who watch from outside: how much works and waits, and what
//! was committed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use unisono_context::SessionId;
use unisono_session::Event;

/// How much is going on now.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// Attempts of runs, over all agents.
    pub attempts: Gauge,
    /// Compaction steps.
    pub compactions: Gauge,
}

/// How many work, and how many wait for a place.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    working: AtomicI64,
    waiting: AtomicI64,
}

impl Gauge {
    /// How many work.
    pub fn working(&self) -> u64 {
        read(&self.0.working)
    }

    /// How many wait.
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

/// The part of a gauge that is one lane's; taken out of it with the queue.
#[derive(Debug, Default)]
pub(crate) struct GaugePart {
    gauge: Gauge,
    working: i64,
    waiting: i64,
}

impl GaugePart {
    pub(crate) fn of(gauge: &Gauge) -> GaugePart {
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

/// Told of the session and the events of each append once they are on disk.
#[derive(Clone, Default)]
pub struct Observer(Option<Arc<ObserverFn>>);

type ObserverFn = dyn Fn(SessionId, &[Event]) + Send + Sync;

impl Observer {
    /// Tells that function, which must not wait.
    pub fn new(callback: impl Fn(SessionId, &[Event]) + Send + Sync + 'static) -> Observer {
        Observer(Some(Arc::new(callback)))
    }

    /// Tells the other as well, after this one.
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
