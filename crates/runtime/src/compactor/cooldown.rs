//! The cool-downs of summarisers. Pure: time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unisono_context::Timestamp;

/// After this number of consecutive failures a model is not called …
const FAILURES_MOST: u32 = 3;
/// … for this time. After that, one failure starts the next cool-down.
const COOLDOWN_MS: i64 = 5 * 60_000;

/// The recent results of summarisers.
#[derive(Debug, Default)]
pub(super) struct Cooldowns(BTreeMap<Arc<str>, Record>);

#[derive(Debug, Default)]
struct Record {
    /// Consecutive failures.
    failures: u32,
    until: Option<Timestamp>,
}

impl Cooldowns {
    pub(super) fn record(&mut self, model: Arc<str>, succeeded: bool, now: Timestamp) {
        if succeeded {
            self.0.remove(&model);
            return;
        }
        let record = self.0.entry(model).or_default();
        record.failures = record.failures.saturating_add(1);
        if record.failures >= FAILURES_MOST {
            record.until = Some(now.plus_ms(COOLDOWN_MS));
        }
    }

    /// The models that are not called now.
    pub(super) fn cooling_down(&self, now: Timestamp) -> BTreeSet<Arc<str>> {
        let rests = |record: &Record| {
            let left = record.until.map_or(0, |until| until.ms_since(now));
            // A later time means that the clock was set back.
            left > 0 && left <= COOLDOWN_MS
        };
        let resting = self.0.iter().filter(|(_, record)| rests(record));
        resting.map(|(model, _)| model.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    //! Three consecutive failures start a cool-down, a success ends the series.

    use super::*;

    fn rests(rest: &Cooldowns, at: i64) -> bool {
        rest.cooling_down(Timestamp(at)).contains("m")
    }

    #[test]
    fn a_model_cools_down_after_three_consecutive_failures() {
        let mut rest = Cooldowns::default();
        for at in [0, 1, 2] {
            assert!(!rests(&rest, at));
            rest.record("m".into(), false, Timestamp(at));
        }
        rest.record("other".into(), false, Timestamp(2));
        assert_eq!(rest.cooling_down(Timestamp(3)), ["m".into()].into());
        assert!(rests(&rest, 2 + COOLDOWN_MS - 1));
        assert!(!rests(&rest, 2 + COOLDOWN_MS));
        assert!(!rests(&rest, 1), "the clock was set back");
    }

    #[test]
    fn after_a_cool_down_one_failure_is_enough_and_a_success_resets() {
        let mut rest = Cooldowns::default();
        for _ in 0..3 {
            rest.record("m".into(), false, Timestamp(0));
        }
        rest.record("m".into(), false, Timestamp(COOLDOWN_MS));
        assert!(rests(&rest, COOLDOWN_MS + 1));
        rest.record("m".into(), true, Timestamp(2 * COOLDOWN_MS));
        assert!(!rests(&rest, 2 * COOLDOWN_MS));
        rest.record("m".into(), false, Timestamp(2 * COOLDOWN_MS));
        rest.record("m".into(), false, Timestamp(2 * COOLDOWN_MS));
        assert!(!rests(&rest, 2 * COOLDOWN_MS + 1), "the row began anew");
    }
}
