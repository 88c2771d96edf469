//! Collects the warnings of the thread it was started on.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// The warnings so far, until it is dropped.
pub(super) struct Watch {
    warnings: Arc<Mutex<Vec<String>>>,
    _guard: DefaultGuard,
    /// As long as there is only one subscriber, a log statement is registered by the thread that
    /// reaches it first. That may be the thread of another test without a subscriber, and then it
    /// would stay disabled.
    _other: Dispatch,
}

impl Watch {
    pub(super) fn start() -> Watch {
        let warnings = Arc::<Mutex<Vec<String>>>::default();
        let collector = Collector(warnings.clone());
        Watch {
            warnings,
            _guard: tracing::subscriber::set_default(collector),
            _other: Dispatch::new(NoSubscriber::new()),
        }
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap().clone()
    }
}

struct Collector(Arc<Mutex<Vec<String>>>);

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}
