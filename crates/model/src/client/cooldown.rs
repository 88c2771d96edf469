//! The cool-down that all requests to a provider share: if one must wait, its siblings wait
//! too, so that one refusal does not become one per sibling.
//!
//! Times are durations since a fixed start.

use std::time::Duration;

/// The maximum time over which delayed requests are spread.
const LONGEST_SPREAD: Duration = Duration::from_secs(5);

/// The cool-down of one provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoolDown {
    until: Duration,
    /// The time over which delayed requests are spread.
    spread: Duration,
}

impl CoolDown {
    /// Delays requests by `wait` from now on. A longer delay is not shortened.
    pub fn hold(&mut self, now: Duration, wait: Duration) {
        let until = now.saturating_add(wait);
        if until > self.until {
            self.until = until;
            self.spread = (wait / 4).min(LONGEST_SPREAD);
        }
    }

    /// The wait of a request that starts now; `None` if there is none. `draw`, a random number from
    /// 0 to below 1, spreads the delayed requests.
    pub fn wait(&self, now: Duration, draw: f64) -> Option<Duration> {
        let left = self.until.checked_sub(now).filter(|left| !left.is_zero())?;
        Some(left + self.spread.mul_f64(draw))
    }
}

#[cfg(test)]
mod tests;
