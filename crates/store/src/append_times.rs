//! The time that appends of sessions take, until they are on disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets, in microseconds.
const BOUNDS: [u64; 12] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    5_000_000,
];

/// A histogram of successful appends.
#[derive(Debug, Default)]
pub struct AppendTimes {
    /// By the smallest bound that is not below; the last is above all.
    counts: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

/// The state of such a histogram.
#[derive(Clone, Debug, PartialEq)]
pub struct AppendHistogram {
    /// The upper bounds of buckets in seconds, and the number of appends up to each.
    pub buckets: Vec<(f64, u64)>,
    /// The number of all appends.
    pub count: u64,
    /// Their time together, in seconds.
    pub seconds: f64,
}

impl AppendTimes {
    pub(crate) fn record(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| *bound < micros);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// The current state.
    pub fn histogram(&self) -> AppendHistogram {
        let mut count = 0;
        let mut counts = self.counts.iter().map(|bucket| {
            count += bucket.load(Ordering::Relaxed);
            count
        });
        let bounds = BOUNDS.iter().map(|bound| *bound as f64 / 1e6);
        let buckets = bounds.zip(counts.by_ref()).collect();
        counts.for_each(drop);
        AppendHistogram {
            buckets,
            count,
            seconds: self.micros.load(Ordering::Relaxed) as f64 / 1e6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_append_is_in_its_bucket_and_all_later_ones() {
        let times = AppendTimes::default();
        for micros in [1, 500, 501, 60_000_000] {
            times.record(Duration::from_micros(micros));
        }
        let found = times.histogram();
        assert_eq!(found.count, 4);
        assert_eq!(found.buckets[..2], [(0.0005, 2), (0.001, 3)]);
        assert_eq!(found.buckets.last(), Some(&(5.0, 3)));
        assert!((found.seconds - 60.001_002).abs() < 1e-9);
    }
}
