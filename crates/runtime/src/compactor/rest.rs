//! Which summarisers are left alone for a while. Pure: time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unisono_context::Timestamp;

/// A model that failed so often in a row is not asked …
const FAILURES_MOST: u32 = 3;
/// … for this long. Then one failure is enough for another rest.
const REST_MS: i64 = 5 * 60_000;

/// How the models did that were asked for summaries.
#[derive(Debug, Default)]
pub(super) struct Rest(BTreeMap<Arc<str>, Record>);

#[derive(Debug, Default)]
struct Record {
    /// Failures in a row.
    failures: u32,
    until: Option<Timestamp>,
}

impl Rest {
    /// Takes note of how a model did.
    pub(super) fn note(&mut self, model: Arc<str>, succeeded: bool, now: Timestamp) {
        if succeeded {
            self.0.remove(&model);
            return;
        }
        let record = self.0.entry(model).or_default();
        record.failures = record.failures.saturating_add(1);
        if record.failures >= FAILURES_MOST {
            record.until = Some(now.plus_ms(REST_MS));
        }
    }

    /// The models that are not to be asked now.
    pub(super) fn resting(&self, now: Timestamp) -> BTreeSet<Arc<str>> {
        let rests = |record: &Record| {
            let left = record.until.map_or(0, |until| until.ms_since(now));
            // Further ahead than a rest is long: the clock was set back.
            left > 0 && left <= REST_MS
        };
        let resting = self.0.iter().filter(|(_, record)| rests(record));
        resting.map(|(model, _)| model.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    //! Three failures in a row are followed by a rest, a success ends the row.

    use super::*;

    fn rests(rest: &Rest, at: i64) -> bool {
        rest.resting(Timestamp(at)).contains("m")
    }

    #[test]
    fn a_model_rests_after_three_failures_in_a_row() {
        let mut rest = Rest::default();
        for at in [0, 1, 2] {
            assert!(!rests(&rest, at));
            rest.note("m".into(), false, Timestamp(at));
        }
        rest.note("other".into(), false, Timestamp(2));
        assert_eq!(rest.resting(Timestamp(3)), ["m".into()].into());
        assert!(rests(&rest, 2 + REST_MS - 1));
        assert!(!rests(&rest, 2 + REST_MS));
        assert!(!rests(&rest, 1), "the clock was set back");
    }

    #[test]
    fn after_a_rest_one_failure_is_enough_and_a_success_ends_it_all() {
        let mut rest = Rest::default();
        for _ in 0..3 {
            rest.note("m".into(), false, Timestamp(0));
        }
        rest.note("m".into(), false, Timestamp(REST_MS));
        assert!(rests(&rest, REST_MS + 1));
        rest.note("m".into(), true, Timestamp(2 * REST_MS));
        assert!(!rests(&rest, 2 * REST_MS));
        rest.note("m".into(), false, Timestamp(2 * REST_MS));
        rest.note("m".into(), false, Timestamp(2 * REST_MS));
        assert!(!rests(&rest, 2 * REST_MS + 1), "the row began anew");
    }
}
