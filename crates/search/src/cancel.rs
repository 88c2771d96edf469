//! Searches that end when nobody waits for their result any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tantivy::collector::{Collector, SegmentCollector};
use tantivy::query::Weight;
use tantivy::schema::Schema;
use tantivy::{SegmentOrdinal, SegmentReader, TantivyError};

/// Whether the result of a search is still wanted, as its thread sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted(Arc<AtomicBool>);

/// Held by whoever waits for a result; the search ends soon after this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting(Arc<AtomicBool>);

impl Wanted {
    /// A result that is wanted until [`Waiting`] is dropped.
    pub(crate) fn by() -> (Wanted, Waiting) {
        let wanted = Wanted::default();
        let waiting = Waiting(wanted.0.clone());
        (wanted, waiting)
    }

    /// Collects while the result is wanted.
    pub(crate) fn collect<C>(&self, collector: C) -> While<C> {
        While {
            wanted: self.clone(),
            collector,
        }
    }

    /// Ends a search whose result nobody waits for.
    pub(crate) fn check(&self) -> tantivy::Result<()> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(TantivyError::SystemError("cancelled".to_owned())),
            false => Ok(()),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A collector that stops before the next segment once its result is not wanted any more.
pub(crate) struct While<C> {
    wanted: Wanted,
    collector: C,
}

impl<C: Collector> Collector for While<C> {
    type Fruit = C::Fruit;
    type Child = C::Child;

    fn check_schema(&self, schema: &Schema) -> tantivy::Result<()> {
        self.collector.check_schema(schema)
    }

    fn for_segment(
        &self,
        ordinal: SegmentOrdinal,
        segment: &SegmentReader,
    ) -> tantivy::Result<C::Child> {
        self.wanted.check()?;
        self.collector.for_segment(ordinal, segment)
    }

    fn requires_scoring(&self) -> bool {
        self.collector.requires_scoring()
    }

    fn merge_fruits(
        &self,
        fruits: Vec<<C::Child as SegmentCollector>::Fruit>,
    ) -> tantivy::Result<C::Fruit> {
        self.collector.merge_fruits(fruits)
    }

    fn collect_segment(
        &self,
        weight: &dyn Weight,
        ordinal: u32,
        segment: &SegmentReader,
    ) -> tantivy::Result<<C::Child as SegmentCollector>::Fruit> {
        self.wanted.check()?;
        self.collector.collect_segment(weight, ordinal, segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_wanted_as_long_as_somebody_waits_for_it() {
        let (wanted, waiting) = Wanted::by();
        let on_its_thread = wanted.clone();
        assert!(on_its_thread.check().is_ok());
        drop(waiting);
        assert!(on_its_thread.check().is_err());
    }
}
