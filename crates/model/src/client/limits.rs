//! Limits of requests and tokens per minute, as token buckets with a queue.
//!
//! A bucket contains the amount of a minute and is refilled evenly. A request takes its share when
//! it is sent, including the longest reply it asks for; the part that its reply did not use is
//! returned. If there is too little for a request, it waits in order of arrival until there is
//! enough for the earlier ones and itself. A request larger than the bucket waits for a full one.
//!
//! Besides the limits of the settings there are the limits in a provider's headers. They apply only
//! when they are used up, and only until the provider reports them as renewed: the provider counts
//! its limits itself, and an estimate should not hold back a request that would pass.
//!
//! Times are durations since a fixed start.

use std::collections::VecDeque;
use std::time::Duration;

use crate::provider::Limits;

/// A limit as reported in a provider's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedLimit {
    /// The whole limit, if reported.
    pub limit: Option<u64>,
    /// The remaining amount.
    pub remaining: u64,
    /// The time until the whole limit is available again.
    pub reset: Option<Duration>,
}

/// Both limits of a provider, and the queue of requests.
#[derive(Clone, Debug)]
pub struct RateLimiter {
    requests: RateLimit,
    tokens: RateLimit,
    /// The waiting requests in order of arrival, with their tokens.
    queue: VecDeque<(Ticket, u64)>,
    next: u64,
    /// The tokens taken by requests in flight.
    in_flight: u64,
    /// The number of programs that share the limits.
    programs: u32,
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// The wait of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The wait if no tokens are returned.
    pub time: Duration,
    /// The minimum wait: if all tokens in flight are returned, and no request is ahead.
    pub at_best: Duration,
    /// The limit that it waits for: `requests` or `tokens`.
    pub what: &'static str,
}

/// One limit: the configured bucket, and the exhausted limit that the provider reported.
#[derive(Clone, Debug, Default)]
struct RateLimit {
    configured: Option<Bucket>,
    reported: Option<ExhaustedLimit>,
}

#[derive(Clone, Debug)]
struct ExhaustedLimit {
    /// The time of its reset.
    until: Duration,
    /// Its refill until then; `None`: nothing is available before.
    bucket: Option<Bucket>,
}

#[derive(Clone, Debug)]
struct Bucket {
    capacity: f64,
    per_second: f64,
    /// The level at `at`; negative after a request larger than the bucket.
    level: f64,
    at: Duration,
}

impl RateLimiter {
    /// The initial state: full buckets.
    pub fn new(limits: &Limits) -> RateLimiter {
        let per_minute = |limit: f64| Bucket {
            capacity: limit,
            per_second: limit / 60.0,
            level: limit,
            at: Duration::ZERO,
        };
        let rate = |limit: Option<f64>| RateLimit {
            configured: limit.map(per_minute),
            reported: None,
        };
        RateLimiter {
            requests: rate(limits.requests_per_minute.map(f64::from)),
            tokens: rate(limits.tokens_per_minute.map(|limit| limit as f64)),
            queue: VecDeque::new(),
            next: 0,
            in_flight: 0,
            programs: 1,
        }
    }

    /// Sets the number of programs that share the limits.
    pub fn share(&mut self, now: Duration, programs: u32) {
        let programs = programs.max(1);
        if programs == self.programs {
            return;
        }
        let scale = f64::from(self.programs) / f64::from(programs);
        self.programs = programs;
        for rate in [&mut self.requests, &mut self.tokens] {
            if let Some(bucket) = &mut rate.configured {
                bucket.fill(now);
                bucket.capacity *= scale;
                bucket.per_second *= scale;
                bucket.level = bucket.level.min(bucket.capacity);
            }
        }
    }

    /// The wait of a request with this many tokens behind the earlier ones in the queue.
    pub fn wait(&self, now: Duration, tokens: u64, ticket: Option<Ticket>) -> Wait {
        let mine = |(other, _): &&(Ticket, u64)| Some(*other) != ticket;
        let before = self.queue.iter().take_while(mine);
        let (ahead, theirs) = before.fold((0.0, 0.0), |(ahead, theirs), (_, tokens)| {
            (ahead + 1.0, theirs + *tokens as f64)
        });
        let tokens = tokens as f64;
        let for_request = self.requests.wait(now, ahead + 1.0, 1.0);
        let for_tokens = self.tokens.wait(now, theirs + tokens, tokens);
        let hoped = self
            .tokens
            .wait(now, tokens - self.in_flight as f64, tokens);
        let (time, what) = if for_tokens > for_request {
            (for_tokens, "tokens")
        } else {
            (for_request, "requests")
        };
        Wait {
            time,
            at_best: hoped.max(self.requests.wait(now, 1.0, 1.0)),
            what,
        }
    }

    /// Adds a request with this many tokens at the end of the queue.
    pub fn join(&mut self, tokens: u64) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.queue.push_back((ticket, tokens));
        ticket
    }

    /// Removes a request from the queue.
    pub fn leave(&mut self, ticket: Ticket) {
        self.queue.retain(|(other, _)| *other != ticket);
    }

    /// A request is sent: takes its request and its tokens.
    pub fn take(&mut self, now: Duration, tokens: u64, ticket: Option<Ticket>) {
        if let Some(ticket) = ticket {
            self.leave(ticket);
        }
        self.requests.take(now, 1.0);
        self.tokens.take(now, tokens as f64);
        self.in_flight = self.in_flight.saturating_add(tokens);
    }

    /// A request has ended: corrects the taken tokens if the used ones are known.
    pub fn settle(&mut self, taken: u64, used: Option<u64>) {
        self.in_flight = self.in_flight.saturating_sub(taken);
        if let Some(used) = used {
            self.tokens.refund(taken as f64 - used as f64);
        }
    }

    /// Learns the limits in a provider's headers.
    pub fn learn(
        &mut self,
        now: Duration,
        requests: Option<ReportedLimit>,
        tokens: Option<ReportedLimit>,
    ) {
        for (rate, reported) in [(&mut self.requests, requests), (&mut self.tokens, tokens)] {
            if let Some(reported) = reported {
                rate.learn(now, reported);
            }
        }
    }
}

impl RateLimit {
    /// The time until `all` is available, of which the last `amount` belongs to this request.
    fn wait(&self, now: Duration, all: f64, amount: f64) -> Duration {
        let configured = self.configured.as_ref();
        let configured = configured.map(|bucket| bucket.wait(now, all, amount));
        let reported = self.reported.as_ref().map(|reported| {
            let left = reported.until.saturating_sub(now);
            match &reported.bucket {
                Some(bucket) => bucket.wait(now, all, amount).min(left),
                None => left,
            }
        });
        configured.max(reported).unwrap_or_default()
    }

    fn take(&mut self, now: Duration, amount: f64) {
        self.reported = self.reported.take().filter(|reported| now < reported.until);
        let reported = self
            .reported
            .as_mut()
            .and_then(|reported| reported.bucket.as_mut());
        for bucket in self.configured.as_mut().into_iter().chain(reported) {
            bucket.fill(now);
            bucket.level -= amount;
        }
    }

    fn refund(&mut self, amount: f64) {
        let reported = self
            .reported
            .as_mut()
            .and_then(|reported| reported.bucket.as_mut());
        for bucket in self.configured.as_mut().into_iter().chain(reported) {
            bucket.level = (bucket.level + amount).min(bucket.capacity);
        }
    }

    fn learn(&mut self, now: Duration, reported: ReportedLimit) {
        if let Some(bucket) = &mut self.configured {
            bucket.fill(now);
            bucket.level = bucket.level.min(reported.remaining as f64);
        }
        let reset = reported.reset.filter(|reset| !reset.is_zero());
        let (0, Some(reset)) = (reported.remaining, reset) else {
            return;
        };
        // A negative level is kept.
        let before = self
            .reported
            .as_ref()
            .and_then(|reported| reported.bucket.as_ref());
        let level = before.map_or(0.0, |bucket| bucket.level(now).min(0.0));
        self.reported = Some(ExhaustedLimit {
            until: now.saturating_add(reset),
            bucket: reported
                .limit
                .filter(|&limit| limit > 0)
                .map(|limit| Bucket {
                    capacity: limit as f64,
                    per_second: limit as f64 / reset.as_secs_f64(),
                    level,
                    at: now,
                }),
        });
    }
}

impl Bucket {
    fn level(&self, now: Duration) -> f64 {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        (self.level + passed * self.per_second).min(self.capacity)
    }

    fn fill(&mut self, now: Duration) {
        self.level = self.level(now);
        self.at = self.at.max(now);
    }

    /// The time until `all` is available, of which this request takes the last `amount`; the part
    /// of `amount` above the capacity need not be available.
    fn wait(&self, now: Duration, all: f64, amount: f64) -> Duration {
        let missing = all - (amount - self.capacity).max(0.0) - self.level(now);
        if missing <= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(missing / self.per_second).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests;
