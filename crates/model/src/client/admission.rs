//! The queue of requests to a provider: the shell around [`Gate`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout};

use super::gate::{Ask, Gate, Sent, Step};
use super::headers::ResponseHeaders;
use super::limits::Ticket;
use super::share::{Held, Share};
use crate::dialect::Failure;
use crate::language::Class;
use crate::provider::Settings;

/// The entrance to one provider.
#[derive(Debug)]
pub(super) struct Admission {
    gate: Mutex<Gate>,
    /// Wakes those in line: one has ended, or left the line.
    freed: Notify,
    /// Requests that may be under way at once.
    slots: Option<Semaphore>,
    queue: Duration,
    start: Instant,
    provider: Arc<str>,
    share: Share,
    /// The news of other programs that the gate knows.
    told: AtomicU64,
}

/// A request that may be sent. Dropped without a report it counts as given up.
#[derive(Debug)]
pub(super) struct Admitted<'e> {
    admission: &'e Admission,
    sent: Option<Sent>,
    _slot: Option<SemaphorePermit<'e>>,
}

/// A place in line, left when it is dropped.
struct Place<'e> {
    admission: &'e Admission,
    ticket: Option<Ticket>,
}

impl Admission {
    pub(super) fn new(settings: &Settings, share: Share) -> Admission {
        Admission {
            gate: Mutex::new(Gate::new(
                &settings.limits,
                &settings.retry,
                settings.breaker,
            )),
            freed: Notify::new(),
            slots: settings
                .limits
                .concurrent
                .map(|most| Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            queue: settings.limits.queue,
            start: Instant::now(),
            provider: settings.name.clone(),
            share,
            told: AtomicU64::new(0),
        }
    }

    /// Waits until a request of so many tokens may be sent to that model, which has so much time
    /// left.
    pub(super) async fn admit(
        &self,
        model: &Arc<str>,
        tokens: u64,
        left: Duration,
    ) -> Result<Admitted<'_>, Failure> {
        let arrived = Instant::now();
        let queue = self.queue.min(left);
        let slot = self.slot(queue).await?;
        let mut place = Place {
            admission: self,
            ticket: None,
        };
        loop {
            // Before it asks: what is given back meanwhile is not missed.
            let freed = self.freed.notified();
            let ask = Ask {
                model: model.clone(),
                tokens,
                ticket: place.ticket,
                patience: queue.saturating_sub(arrived.elapsed()),
            };
            self.take_told();
            let draw = fastrand::f64();
            let programs = self.share.programs();
            let step = self.locked(|gate, now| {
                gate.share(now, programs);
                gate.step(now, &ask, draw)
            });
            match step {
                Step::Go(passes) => {
                    place.ticket = None;
                    return Ok(Admitted {
                        admission: self,
                        sent: Some(Sent {
                            model: ask.model,
                            passes,
                            taken: tokens,
                        }),
                        _slot: slot,
                    });
                }
                Step::Wait(wait) => sleep(wait).await,
                Step::Queued(ticket, wait) => {
                    place.ticket = Some(ticket);
                    // Whichever comes first, it asks again.
                    let _ = timeout(wait, freed).await;
                }
                Step::Refused(failure) => return Err(failure),
            }
        }
    }

    async fn slot(&self, queue: Duration) -> Result<Option<SemaphorePermit<'_>>, Failure> {
        let Some(slots) = &self.slots else {
            return Ok(None);
        };
        match timeout(queue, slots.acquire()).await {
            Ok(Ok(slot)) => Ok(Some(slot)),
            Ok(Err(_)) | Err(_) => Err(Failure::new(
                Class::Busy,
                format!(
                    "as many requests as the provider's settings allow at once are under way, \
                     and none ended within {:.1} s",
                    queue.as_secs_f64()
                ),
            )),
        }
    }

    /// Takes what other programs were told meanwhile.
    fn take_told(&self) {
        let seen = self.told.load(Ordering::Relaxed);
        let Some((told, holds)) = self.share.news_of(&self.provider, seen) else {
            return;
        };
        self.locked(|gate, now| {
            for (model, wait) in &holds {
                gate.hold(now, model.as_ref(), *wait);
            }
        });
        self.told.store(told, Ordering::Relaxed);
    }

    /// Takes what the headers of an answer say of the provider's limits.
    pub(super) fn learn(&self, told: &ResponseHeaders) {
        self.locked(|gate, now| gate.learn(now, told));
    }

    fn locked<T>(&self, act: impl FnOnce(&mut Gate, Duration) -> T) -> T {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut gate, self.start.elapsed())
    }
}

impl Admitted<'_> {
    /// The answer to the attempt has begun.
    pub(super) fn answers(&self) {
        if let Some(sent) = self.sent.as_ref().filter(|sent| sent.passes.is_probe()) {
            self.admission.locked(|gate, now| gate.answers(now, sent));
        }
    }

    /// The attempt has brought a reply, with so many tokens used.
    pub(super) fn succeeded(mut self, used: Option<u64>) {
        self.end(|gate, now, sent| gate.succeeded(now, sent, used));
    }

    /// The attempt has failed. `reached`: a connection to the provider was made.
    pub(super) fn failed(mut self, failure: &Failure, reached: bool) {
        let held = self.end(|gate, now, sent| gate.failed(now, sent, failure, reached));
        for (model, wait) in held.into_iter().flatten() {
            let provider = self.admission.provider.clone();
            self.admission.share.hold(Held { provider, model }, wait);
        }
    }

    fn end<T>(&mut self, report: impl FnOnce(&mut Gate, Duration, &Sent) -> T) -> Option<T> {
        let sent = self.sent.take()?;
        let told = self.admission.locked(|gate, now| report(gate, now, &sent));
        self.admission.freed.notify_waiters();
        Some(told)
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.end(|gate, now, sent| gate.abandoned(now, sent));
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.admission.locked(|gate, _| gate.leave(ticket));
            self.admission.freed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
