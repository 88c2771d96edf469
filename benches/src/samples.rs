//! Samples of how long something took.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};

/// Times of the same thing, in the order in which they were taken.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<Duration>);

impl Samples {
    /// Adds one.
    pub fn push(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    /// Does it once and adds how long that took; letting go of the result is not counted.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> Duration {
        let start = Instant::now();
        let result = black_box(work());
        let took = start.elapsed();
        drop(result);
        self.0.push(took);
        took
    }

    /// All of them together.
    pub fn together(parts: &[Samples]) -> Samples {
        Samples(parts.iter().flat_map(|part| &part.0).copied().collect())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True before the first.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sample that so large a part of all do not exceed; zero where there is none.
    pub fn at(&self, part: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        let index = (last as f64 * part).round() as usize;
        sorted.get(index).copied().unwrap_or_default()
    }

    /// The middle one.
    pub fn median(&self) -> Duration {
        self.at(0.5)
    }

    /// The median of this in medians of `other`.
    pub fn ratio(&self, other: &Samples) -> f64 {
        self.median().as_secs_f64() / other.median().as_secs_f64()
    }
}

impl Extend<Duration> for Samples {
    fn extend<I: IntoIterator<Item = Duration>>(&mut self, samples: I) {
        self.0.extend(samples);
    }
}

/// Criterion with what the command line asks for; short, because a machine that is not idle
/// tells no more in a longer run.
pub fn criterion() -> Criterion {
    Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args()
}

/// Measures one thing with criterion, and keeps the samples for the table.
pub fn measure<T>(
    criterion: &mut Criterion,
    id: BenchmarkId,
    mut work: impl FnMut() -> T,
) -> Samples {
    let mut samples = Samples::default();
    criterion.bench_with_input(id, &(), |bencher, ()| {
        bencher.iter_custom(|times| (0..times).map(|_| samples.time(&mut work)).sum());
    });
    samples
}

/// Measures two things in turns. Criterion sees the first; the second should not take much
/// longer, because it is done as often.
pub fn in_turns<A, B>(
    criterion: &mut Criterion,
    id: BenchmarkId,
    mut first: impl FnMut() -> A,
    mut second: impl FnMut() -> B,
) -> (Samples, Samples) {
    let (mut a, mut b) = (Samples::default(), Samples::default());
    criterion.bench_with_input(id, &(), |bencher, ()| {
        bencher.iter_custom(|times| {
            let mut one = || {
                let took = a.time(&mut first);
                b.time(&mut second);
                took
            };
            (0..times).map(|_| one()).sum()
        });
    });
    (a, b)
}
