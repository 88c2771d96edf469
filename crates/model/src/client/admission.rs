//! The queue of requests to a provider: the shell around [`Gate`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout};

use super::gate::{AdmissionRequest, Gate, SentRequest, Step};
use super::headers::ResponseHeaders;
use super::limits::Ticket;
use super::share::{LimitShare, PauseTarget};
use crate::dialect::Failure;
use crate::language::Class;
use crate::provider::Settings;

/// The reasons of pauses.
const ASKED_PAUSE: &str = "the provider asked for a pause";
const LIMIT_REACHED: &str = "the limit of requests or tokens a minute is reached";
const AWAITS_PROBE: &str =
    "the provider failed too often; one request is testing whether it is available again";

/// Admits requests to one provider.
#[derive(Debug)]
pub(super) struct Admission {
    gate: Mutex<Gate>,
    /// Wakes the queued requests after a request ended or left the queue.
    released: Notify,
    /// One permit for each concurrent request.
    permits: Option<Semaphore>,
    queue_timeout: Duration,
    start: Instant,
    provider: Arc<str>,
    share: LimitShare,
    /// The version of the other programs' pauses that the gate has applied.
    holds_version: AtomicU64,
}

/// A request that may be sent. If it is dropped without a report, it counts as abandoned.
#[derive(Debug)]
pub(super) struct Admitted<'e> {
    admission: &'e Admission,
    sent: Option<SentRequest>,
    _permit: Option<SemaphorePermit<'e>>,
}

/// A place in the queue, which is left on drop.
struct QueuePlace<'e> {
    admission: &'e Admission,
    ticket: Option<Ticket>,
}

impl Admission {
    pub(super) fn new(settings: &Settings, share: LimitShare) -> Admission {
        Admission {
            gate: Mutex::new(Gate::new(
                &settings.limits,
                &settings.retry,
                settings.breaker,
            )),
            released: Notify::new(),
            permits: settings
                .limits
                .concurrent
                .map(|most| Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            queue_timeout: settings.limits.queue,
            start: Instant::now(),
            provider: settings.name.clone(),
            share,
            holds_version: AtomicU64::new(0),
        }
    }

    /// Waits at most `left` until a request with this many tokens may be sent to the model.
    /// `on_pause` is called with each pause and its reason.
    pub(super) async fn admit(
        &self,
        model: &Arc<str>,
        tokens: u64,
        left: Duration,
        on_pause: impl Fn(Duration, &str),
    ) -> Result<Admitted<'_>, Failure> {
        let arrived = Instant::now();
        let queue = self.queue_timeout.min(left);
        let mut permit = self.permit(queue).await?;
        let mut probe_since: Option<Instant> = None;
        let mut place = QueuePlace {
            admission: self,
            ticket: None,
        };
        loop {
            // Registered before the check, so that no release in between is missed.
            let released = self.released.notified();
            let request = AdmissionRequest {
                model: model.clone(),
                tokens,
                ticket: place.ticket,
                patience: queue.saturating_sub(arrived.elapsed()),
                probe_wait: probe_since.map_or(Duration::ZERO, |since| since.elapsed()),
            };
            match self.step(&request, &on_pause) {
                Step::Go(passes) => {
                    place.ticket = None;
                    return Ok(Admitted {
                        admission: self,
                        sent: Some(SentRequest {
                            model: request.model,
                            passes,
                            taken: tokens,
                        }),
                        _permit: permit,
                    });
                }
                Step::Wait(wait) => sleep(wait).await,
                Step::Queued(ticket, wait) => {
                    place.ticket = Some(ticket);
                    // In both cases it checks again.
                    let _ = timeout(wait, released).await;
                }
                Step::AwaitProbe(wait) => {
                    probe_since.get_or_insert_with(Instant::now);
                    // Requests to other models do not wait for it.
                    drop(permit.take());
                    place.leave();
                    let _ = timeout(wait, released).await;
                    let left = queue.saturating_sub(arrived.elapsed());
                    permit = self.permit(left).await?;
                }
                Step::Refused(failure) => return Err(failure),
            }
        }
    }

    /// The next action of a request, by the newest state of the provider. Reports a pause that
    /// begins.
    fn step(&self, request: &AdmissionRequest, on_pause: &impl Fn(Duration, &str)) -> Step {
        self.apply_holds();
        let draw = fastrand::f64();
        let programs = self.share.programs();
        let step = self.with_gate(|gate, now| {
            gate.share(now, programs);
            gate.step(now, request, draw)
        });
        if let Some((pause, reason)) = begun_pause(&step, request) {
            on_pause(pause, reason);
        }
        step
    }

    async fn permit(&self, queue: Duration) -> Result<Option<SemaphorePermit<'_>>, Failure> {
        let Some(permits) = &self.permits else {
            return Ok(None);
        };
        match timeout(queue, permits.acquire()).await {
            Ok(Ok(permit)) => Ok(Some(permit)),
            Ok(Err(_)) | Err(_) => Err(Failure::new(
                Class::Busy,
                format!(
                    "the provider's limit of concurrent requests is reached, and none ended \
                     within {:.1} s",
                    queue.as_secs_f64()
                ),
            )),
        }
    }

    /// Applies new pauses of other programs.
    fn apply_holds(&self) {
        let seen = self.holds_version.load(Ordering::Relaxed);
        let Some((holds_version, holds)) = self.share.holds_since(&self.provider, seen) else {
            return;
        };
        self.with_gate(|gate, now| {
            for (model, wait) in &holds {
                gate.hold(now, model.as_ref(), *wait);
            }
        });
        self.holds_version.store(holds_version, Ordering::Relaxed);
    }

    /// The remaining time in which a breaker admits no request to the model.
    pub(super) fn pause_ms(&self, model: &Arc<str>) -> Option<u64> {
        self.with_gate(|gate, now| gate.pause_ms(now, model))
    }

    /// Learns the provider's limits from the headers of a response.
    pub(super) fn learn(&self, response_headers: &ResponseHeaders) {
        self.with_gate(|gate, now| gate.learn(now, response_headers));
    }

    fn with_gate<T>(&self, act: impl FnOnce(&mut Gate, Duration) -> T) -> T {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut gate, self.start.elapsed())
    }
}

/// The pause that begins with a step, and its reason.
fn begun_pause(step: &Step, request: &AdmissionRequest) -> Option<(Duration, &'static str)> {
    match step {
        Step::Wait(wait) => Some((*wait, ASKED_PAUSE)),
        Step::Queued(_, wait) if request.ticket.is_none() => Some((*wait, LIMIT_REACHED)),
        Step::AwaitProbe(wait) if request.probe_wait.is_zero() => Some((*wait, AWAITS_PROBE)),
        Step::Queued(..) | Step::AwaitProbe(_) | Step::Go(_) | Step::Refused(_) => None,
    }
}

impl Admitted<'_> {
    pub(super) fn response_started(&self) {
        if let Some(sent) = self.sent.as_ref().filter(|sent| sent.passes.is_probe()) {
            self.admission
                .with_gate(|gate, now| gate.response_started(now, sent));
            self.admission.released.notify_waiters();
        }
    }

    /// The attempt succeeded; `used` tokens, if known.
    pub(super) fn succeeded(mut self, used: Option<u64>) {
        self.end(|gate, now, sent| gate.succeeded(now, sent, used));
    }

    /// The attempt failed. `reached`: a connection to the provider was made.
    pub(super) fn failed(mut self, failure: &Failure, reached: bool) {
        let held = self.end(|gate, now, sent| gate.failed(now, sent, failure, reached));
        for (model, wait) in held.into_iter().flatten() {
            let provider = self.admission.provider.clone();
            self.admission
                .share
                .hold(PauseTarget { provider, model }, wait);
        }
    }

    fn end<T>(&mut self, report: impl FnOnce(&mut Gate, Duration, &SentRequest) -> T) -> Option<T> {
        let sent = self.sent.take()?;
        let holds_version = self
            .admission
            .with_gate(|gate, now| report(gate, now, &sent));
        self.admission.released.notify_waiters();
        Some(holds_version)
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.end(|gate, now, sent| gate.abandoned(now, sent));
    }
}

impl QueuePlace<'_> {
    fn leave(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.admission.with_gate(|gate, _| gate.leave(ticket));
            self.admission.released.notify_waiters();
        }
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests;
