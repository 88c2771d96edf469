//! Limits the rate of requests, by the generic cell rate algorithm.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A rate of requests. After a full period without requests, a full period's number may come at
/// once.
#[derive(Debug)]
pub(super) struct Rate {
    /// The tolerance: how early requests may come compared with an even rate.
    ahead: Duration,
    /// The interval per request; none if there is no limit.
    each: Option<Duration>,
    /// The theoretical arrival time of the next request.
    due: Mutex<Option<Instant>>,
}

impl Rate {
    /// So many a second; 0: no limit.
    pub(super) fn new(per_second: u32) -> Rate {
        Rate::within(Duration::from_secs(1), per_second)
    }

    /// `many` requests per minute, which may all come at once; 0: no limit.
    pub(super) fn per_minute(many: u32) -> Rate {
        Rate::within(Duration::from_secs(60), many)
    }

    fn within(ahead: Duration, many: u32) -> Rate {
        Rate {
            ahead,
            each: ahead.checked_div(many),
            due: Mutex::default(),
        }
    }

    /// Counts a request at `now`.
    ///
    /// # Errors
    /// The limit is reached; the time to wait.
    pub(super) fn take(&self, now: Instant) -> Result<(), Duration> {
        let Some(each) = self.each else {
            return Ok(());
        };
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let after = due.unwrap_or(now).max(now) + each;
        match (after - now)
            .checked_sub(self.ahead)
            .filter(|wait| !wait.is_zero())
        {
            Some(wait) => Err(wait),
            None => {
                *due = Some(after);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_requests_may_come_at_once_and_then_they_come_evenly() {
        let rate = Rate::new(4);
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let taken = |ms| rate.take(at(ms)).map_err(|wait| wait.as_millis());
        assert_eq!([0, 0, 0, 0].map(taken), [Ok(()); 4]);
        assert_eq!(taken(0), Err(250));
        assert_eq!(taken(249), Err(1), "what is turned away does not count");
        assert_eq!((taken(250), taken(250)), (Ok(()), Err(250)));
        assert_eq!([9_000; 4].map(taken), [Ok(()); 4], "more is not saved up");
        assert_eq!(taken(9_000), Err(250));
    }

    #[test]
    fn without_a_number_there_is_no_limit() {
        let (rate, now) = (Rate::new(0), Instant::now());
        assert!((0..100_000).all(|_| rate.take(now).is_ok()));
    }
}
