//! The cool-down that all requests to a provider share: if one is told to wait, its siblings wait
//! too, so that one refusal does not become one per sibling.
//!
//! Times are durations since a fixed start.

use std::time::Duration;

/// Requests that were held back start again within this time.
const LONGEST_SPREAD: Duration = Duration::from_secs(5);

/// The cool-down of one provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoolDown {
    until: Duration,
    /// Over which time those held back start again.
    spread: Duration,
}

impl CoolDown {
    /// Holds requests back for so long from now on. A longer hold stays as it is.
    pub fn hold(&mut self, now: Duration, wait: Duration) {
        let until = now.saturating_add(wait);
        if until > self.until {
            self.until = until;
            self.spread = (wait / 4).min(LONGEST_SPREAD);
        }
    }

    /// How long a request waits that wants to start now; none: it need not. Those that wait are
    /// spread out by `draw`, a random number from 0 up to 1, so that they do not start at once.
    pub fn wait(&self, now: Duration, draw: f64) -> Option<Duration> {
        let left = self.until.checked_sub(now).filter(|left| !left.is_zero())?;
        Some(left + self.spread.mul_f64(draw))
    }
}

#[cfg(test)]
mod tests;
