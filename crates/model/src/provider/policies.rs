//! When requests are repeated, and how many are sent.

use std::time::Duration;

/// The number of attempts and the waits between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in all; 0 counts as 1.
    pub attempts: u32,
    /// The bound of the first wait.
    pub base: Duration,
    /// The bound of every wait.
    pub cap: Duration,
    /// The longest wait that a provider may request; a longer one ends the call.
    pub longest_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            attempts: 4,
            base: Duration::from_millis(500),
            cap: Duration::from_secs(30),
            longest_wait: Duration::from_secs(120),
        }
    }
}

/// The limits of requests to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests per minute; `None`: no limit.
    pub requests_per_minute: Option<u32>,
    /// Tokens per minute, input and output together; `None`: no limit.
    pub tokens_per_minute: Option<u64>,
    /// Concurrent requests; `None`: no limit.
    pub concurrent: Option<usize>,
    /// The maximum wait in the queue.
    pub queue: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            requests_per_minute: None,
            tokens_per_minute: None,
            concurrent: None,
            queue: Duration::from_secs(60),
        }
    }
}

/// When the breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// Consecutive failures that open it; 0: never.
    pub failures: u32,
    /// The first time that it stays open. The time doubles until a request is answered.
    pub cool_down: Duration,
    /// The maximum time that it stays open.
    pub cool_down_max: Duration,
}

impl Default for BreakerPolicy {
    fn default() -> BreakerPolicy {
        BreakerPolicy {
            failures: 5,
            cool_down: Duration::from_secs(5),
            cool_down_max: Duration::from_secs(30),
        }
    }
}
