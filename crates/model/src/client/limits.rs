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

/// What a provider is sent at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests a minute; none: no limit.
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute, input and output together; none: no limit.
    pub tokens_per_minute: Option<u64>,
    /// Requests under way at once; none: no limit.
    pub concurrent: Option<usize>,
    /// How long a request waits for its turn.
    pub queue: Duration,
}

/// What a provider's headers say of one of its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// What the whole limit is, where it says so.
    pub limit: Option<u64>,
    /// What is left of it.
    pub remaining: u64,
    /// When all of it is free again, from now on.
    pub reset: Option<Duration>,
}

/// Both limits of a provider, and who waits for them.
#[derive(Clone, Debug)]
pub struct Meter {
    requests: Lane,
    tokens: Lane,
    /// Those that wait, in the order of arrival, with their tokens.
    line: VecDeque<(Ticket, u64)>,
    next: u64,
    /// The tokens that requests took whose replies are under way.
    under_way: u64,
    /// By how many programs the limits are shared.
    programs: u32,
}

/// A place in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// How long a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// If nothing is given back.
    pub time: Duration,
    /// If replies under way give all back that was taken for them, and nobody stood before it:
    /// never less than that.
    pub at_best: Duration,
    /// What for.
    pub what: &'static str,
}

/// One limit: what is set, and what the provider told.
#[derive(Clone, Debug, Default)]
struct Lane {
    set: Option<Bucket>,
    told: Option<UsedUp>,
}

/// A limit of the provider's that is used up.
#[derive(Clone, Debug)]
struct UsedUp {
    /// When it no longer is.
    until: Duration,
    /// How it fills up until then; none: not before.
    bucket: Option<Bucket>,
}

#[derive(Clone, Debug)]
struct Bucket {
    capacity: f64,
    per_second: f64,
    /// At `at`; below zero after a request that was larger than the bucket.
    level: f64,
    at: Duration,
}

impl Meter {
    /// The meter of a provider that has not been asked yet.
    pub fn new(limits: &Limits) -> Meter {
        let per_minute = |limit: f64| Bucket {
            capacity: limit,
            per_second: limit / 60.0,
            level: limit,
            at: Duration::ZERO,
        };
        let lane = |limit: Option<f64>| Lane {
            set: limit.map(per_minute),
            told: None,
        };
        Meter {
            requests: lane(limits.requests_per_minute.map(f64::from)),
            tokens: lane(limits.tokens_per_minute.map(|limit| limit as f64)),
            line: VecDeque::new(),
            next: 0,
            under_way: 0,
            programs: 1,
        }
    }

    /// The limits are shared by so many programs from now on.
    pub fn share(&mut self, now: Duration, programs: u32) {
        let programs = programs.max(1);
        if programs == self.programs {
            return;
        }
        let scale = f64::from(self.programs) / f64::from(programs);
        self.programs = programs;
        for lane in [&mut self.requests, &mut self.tokens] {
            if let Some(bucket) = &mut lane.set {
                bucket.fill(now);
                bucket.capacity *= scale;
                bucket.per_second *= scale;
                bucket.level = bucket.level.min(bucket.capacity);
            }
        }
    }

    /// How long a request of so many tokens waits, behind those before it in line.
    pub fn wait(&self, now: Duration, tokens: u64, ticket: Option<Ticket>) -> Wait {
        let mine = |(other, _): &&(Ticket, u64)| Some(*other) != ticket;
        let before = self.line.iter().take_while(mine);
        let (ahead, theirs) = before.fold((0.0, 0.0), |(ahead, theirs), (_, tokens)| {
            (ahead + 1.0, theirs + *tokens as f64)
        });
        let tokens = tokens as f64;
        let for_request = self.requests.wait(now, ahead + 1.0, 1.0);
        let for_tokens = self.tokens.wait(now, theirs + tokens, tokens);
        let hoped = self
            .tokens
            .wait(now, tokens - self.under_way as f64, tokens);
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

    /// A request of so many tokens stands in line, behind all others.
    pub fn join(&mut self, tokens: u64) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.line.push_back((ticket, tokens));
        ticket
    }

    /// A request no longer stands in line.
    pub fn leave(&mut self, ticket: Ticket) {
        self.line.retain(|(other, _)| *other != ticket);
    }

    /// A request is sent, and takes its share.
    pub fn take(&mut self, now: Duration, tokens: u64, ticket: Option<Ticket>) {
        if let Some(ticket) = ticket {
            self.leave(ticket);
        }
        self.requests.take(now, 1.0);
        self.tokens.take(now, tokens as f64);
        self.under_way = self.under_way.saturating_add(tokens);
    }

    /// A request has ended, and what it took is put right where it is known what it used.
    pub fn ended(&mut self, taken: u64, used: Option<u64>) {
        self.under_way = self.under_way.saturating_sub(taken);
        if let Some(used) = used {
            self.tokens.give(taken as f64 - used as f64);
        }
    }

    /// Learns from a provider's headers.
    pub fn learn(&mut self, now: Duration, requests: Option<Reported>, tokens: Option<Reported>) {
        for (lane, told) in [(&mut self.requests, requests), (&mut self.tokens, tokens)] {
            if let Some(told) = told {
                lane.learn(now, told);
            }
        }
    }
}

impl Lane {
    /// How long until so much is there, the last of which is for a request of that amount.
    fn wait(&self, now: Duration, all: f64, amount: f64) -> Duration {
        let set = self.set.as_ref();
        let set = set.map(|bucket| bucket.wait(now, all, amount));
        let told = self.told.as_ref().map(|told| {
            let left = told.until.saturating_sub(now);
            match &told.bucket {
                Some(bucket) => bucket.wait(now, all, amount).min(left),
                None => left,
            }
        });
        set.max(told).unwrap_or_default()
    }

    fn take(&mut self, now: Duration, amount: f64) {
        self.told = self.told.take().filter(|told| now < told.until);
        let told = self.told.as_mut().and_then(|told| told.bucket.as_mut());
        for bucket in self.set.as_mut().into_iter().chain(told) {
            bucket.fill(now);
            bucket.level -= amount;
        }
    }

    fn give(&mut self, amount: f64) {
        let told = self.told.as_mut().and_then(|told| told.bucket.as_mut());
        for bucket in self.set.as_mut().into_iter().chain(told) {
            bucket.level = (bucket.level + amount).min(bucket.capacity);
        }
    }

    fn learn(&mut self, now: Duration, told: Reported) {
        if let Some(bucket) = &mut self.set {
            bucket.fill(now);
            bucket.level = bucket.level.min(told.remaining as f64);
        }
        let reset = told.reset.filter(|reset| !reset.is_zero());
        let (0, Some(reset)) = (told.remaining, reset) else {
            return;
        };
        // What is owed stays so.
        let before = self.told.as_ref().and_then(|told| told.bucket.as_ref());
        let level = before.map_or(0.0, |bucket| bucket.level(now).min(0.0));
        self.told = Some(UsedUp {
            until: now.saturating_add(reset),
            bucket: told.limit.filter(|&limit| limit > 0).map(|limit| Bucket {
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

    /// How long until so much is there, of which more than a full bucket need not be there for a
    /// request of that amount.
    fn wait(&self, now: Duration, all: f64, amount: f64) -> Duration {
        let missing = all - (amount - self.capacity).max(0.0) - self.level(now);
        if missing <= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(missing / self.per_second).unwrap_or(Duration::MAX)
    }
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

#[cfg(test)]
mod tests;
