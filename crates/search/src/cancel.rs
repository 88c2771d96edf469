//! Cancellation of searches when nobody waits for their result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tantivy::collector::{Collector, SegmentCollector};
use tantivy::query::{Scorer, Weight};
use tantivy::schema::Schema;
use tantivy::{DocId, DocSet, SegmentOrdinal, SegmentReader, TERMINATED, TantivyError};

/// Documents between two checks for cancellation.
const EVERY: u32 = 1_024;

/// The cancellation flag of a search, for its thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct CancelFlag(Arc<AtomicBool>);

/// The guard of a waiting caller. Its drop cancels the search.
#[derive(Debug)]
pub(crate) struct Waiting(Arc<AtomicBool>);

impl CancelFlag {
    /// Makes a flag that the drop of [`Waiting`] sets.
    pub(crate) fn new() -> (CancelFlag, Waiting) {
        let wanted = CancelFlag::default();
        let waiting = Waiting(wanted.0.clone());
        (wanted, waiting)
    }

    /// Collects until cancelled. With pruning (`prunes`) it checks for cancellation only before each
    /// segment.
    pub(crate) fn collect<C>(&self, collector: C, prunes: bool) -> CancellableCollector<C> {
        CancellableCollector {
            wanted: self.clone(),
            collector,
            prunes,
        }
    }

    /// Iterates over documents until cancelled.
    pub(crate) fn each<D: DocSet + ?Sized>(
        &self,
        documents: &mut D,
        mut f: impl FnMut(&mut D, DocId),
    ) -> tantivy::Result<()> {
        let mut seen = 0_u32;
        let mut document = documents.doc();
        while document != TERMINATED {
            if seen.is_multiple_of(EVERY) {
                self.check()?;
            }
            seen = seen.wrapping_add(1);
            f(documents, document);
            document = documents.advance();
        }
        Ok(())
    }

    /// Ends a cancelled search with an error.
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

/// A collector that stops soon after cancellation.
pub(crate) struct CancellableCollector<C> {
    wanted: CancelFlag,
    collector: C,
    prunes: bool,
}

impl<C: Collector> Collector for CancellableCollector<C> {
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
        if self.prunes {
            return self.collector.collect_segment(weight, ordinal, segment);
        }
        let mut collecting = self.collector.for_segment(ordinal, segment)?;
        let scored = self.collector.requires_scoring();
        let mut matching = weight.scorer(segment, 1.0)?;
        let collect = |matching: &mut dyn Scorer, document| {
            if !segment.is_deleted(document) {
                let score = if scored { matching.score() } else { 0.0 };
                collecting.collect(document, score);
            }
        };
        self.wanted.each(&mut *matching, collect)?;
        Ok(collecting.harvest())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU32;

    use tantivy::query::AllQuery;
    use tantivy::schema::TEXT;
    use tantivy::{Index, Score, TantivyDocument};

    use super::*;

    /// Counts documents, and cancels after a number of them.
    struct Abandoned {
        after: u32,
        seen: Arc<AtomicU32>,
        waiting: Arc<Mutex<Option<Waiting>>>,
    }

    impl Collector for Abandoned {
        type Fruit = ();
        type Child = Abandoned;

        fn for_segment(&self, _: u32, _: &SegmentReader) -> tantivy::Result<Abandoned> {
            Ok(Abandoned {
                after: self.after,
                seen: self.seen.clone(),
                waiting: self.waiting.clone(),
            })
        }

        fn requires_scoring(&self) -> bool {
            true
        }

        fn merge_fruits(&self, _: Vec<()>) -> tantivy::Result<()> {
            Ok(())
        }
    }

    impl SegmentCollector for Abandoned {
        type Fruit = ();

        fn collect(&mut self, _: DocId, _: Score) {
            if self.seen.fetch_add(1, Ordering::Relaxed) + 1 == self.after {
                drop(self.waiting.lock().unwrap().take());
            }
        }

        fn harvest(self) {}
    }

    #[test]
    fn an_abandoned_search_ends_within_a_segment() {
        let mut schema = Schema::builder();
        let text = schema.add_text_field("text", TEXT);
        let index = Index::create_in_ram(schema.build());
        let mut writer = index.writer_with_num_threads(1, 32 << 20).unwrap();
        for _ in 0..8 * EVERY {
            let mut document = TantivyDocument::new();
            document.add_text(text, "orders");
            writer.add_document(document).unwrap();
        }
        writer.commit().unwrap();
        let searcher = index.reader().unwrap().searcher();
        assert_eq!(searcher.segment_readers().len(), 1);
        let (wanted, waiting) = CancelFlag::new();
        let seen = Arc::new(AtomicU32::new(0));
        let collector = Abandoned {
            after: EVERY + 1,
            seen: seen.clone(),
            waiting: Arc::new(Mutex::new(Some(waiting))),
        };
        let done = searcher.search(&AllQuery, &wanted.collect(collector, false));
        assert!(done.is_err(), "it went on to the end");
        assert_eq!(seen.load(Ordering::Relaxed), 2 * EVERY);
    }

    #[test]
    fn a_result_is_wanted_as_long_as_somebody_waits_for_it() {
        let (wanted, waiting) = CancelFlag::new();
        let on_its_thread = wanted.clone();
        assert!(on_its_thread.check().is_ok());
        drop(waiting);
        assert!(on_its_thread.check().is_err());
    }
}
