//! How many requests in a time are taken, by the generic cell rate algorithm.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A number of requests in a time; as many may come at once after such a time without any.
#[derive(Debug)]
pub(super) struct Rate {
    /// How far ahead of an even rate requests may come.
    ahead: Duration,
    /// The time that one request stands for; none where there is no limit.
    each: Option<Duration>,
    /// When all that was taken would have come, had it come evenly.
    due: Mutex<Option<Instant>>,
}

impl Rate {
    /// So many a second; 0: no limit.
    pub(super) fn new(per_second: u32) -> Rate {
        Rate::within(Duration::from_secs(1), per_second)
    }

    /// So many a minute, which may all come at once; 0: no limit.
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

    /// Takes a request at `now`; where there were too many before it, how long it should wait.
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
