//! Follows a turn until it ends, its time is over, or somebody interrupts.

use std::future::{Future, pending};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};
use unisono_context::SessionId;
use unisono_runtime::Progress;
use unisono_session::Event;
use unisono_session::event::Outcome;
use unisono_session::run::calls::Waiting;
use unisono_session::turn::TIMED_OUT;

use super::asking::{Answers, Reply};
use super::feed::Next;
use super::watch::{News, Watch};
use crate::host::Host;
use crate::problem::{Problem, Result};

/// How long a cancelled turn may take to say so.
const CANCELLED_WITHIN: Duration = Duration::from_secs(10);

/// Signals that stop the program.
#[derive(Debug)]
pub(crate) struct Interrupts {
    int: Signal,
    term: Signal,
}

impl Interrupts {
    pub(crate) fn listen() -> Result<Interrupts> {
        let on = |kind| {
            signal(kind)
                .map_err(|error| Problem::failed(format!("cannot listen for signals: {error}")))
        };
        Ok(Interrupts {
            int: on(SignalKind::interrupt())?,
            term: on(SignalKind::terminate())?,
        })
    }

    pub(crate) async fn next(&mut self) -> Interrupt {
        tokio::select! {
            _ = self.int.recv() => Interrupt::Person,
            _ = self.term.recv() => Interrupt::System,
        }
    }
}

/// Who interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// A person at the terminal (SIGINT).
    Person,
    /// Whoever looks after the process (SIGTERM).
    System,
}

/// What becomes of the turn when a person interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interrupted {
    /// It stays open and is not followed any more.
    Leave,
    /// It is cancelled, and followed to its end; interrupted again, it is left.
    Cancel,
}

/// Whoever shows a turn as it goes on.
pub(crate) trait Show {
    /// An event of the session, and what of it people care about.
    fn event(&mut self, event: &Event, news: Option<&News>, watch: &Watch);

    /// What is being done. All that was said before an event comes before it.
    fn said(&mut self, said: &Progress, watch: &Watch);

    /// A call of a tool waits for a person.
    fn waits(&mut self, waiting: &Waiting, watch: &Watch);

    /// Asks the person at the terminal; false where there is none who could answer.
    fn asks(&mut self, _question: &str) -> bool {
        false
    }

    /// What they answer; for ever where nobody was asked. May be dropped and waited for again.
    fn reply(&mut self) -> impl Future<Output = Reply> + Send {
        pending()
    }

    /// Some of what was said was missed: it is not heard out when it comes too fast.
    fn missed(&mut self) {}
}

/// What a turn is stopped by.
#[derive(Debug)]
pub(crate) struct Limits<'i> {
    /// The turn is cancelled then; none: it may take as long as it wants.
    timeout: Option<Duration>,
    interrupts: &'i mut Interrupts,
    interrupted: Interrupted,
}

impl<'i> Limits<'i> {
    /// Interrupted, the turn stays open.
    pub(crate) fn leaving(timeout: Option<Duration>, interrupts: &'i mut Interrupts) -> Limits<'i> {
        Limits {
            timeout,
            interrupts,
            interrupted: Interrupted::Leave,
        }
    }

    /// The same, with this limit where there is none.
    pub(crate) fn within(self, timeout: Duration) -> Limits<'i> {
        Limits {
            timeout: self.timeout.or(Some(timeout)),
            ..self
        }
    }

    /// Interrupted by a person, the turn is cancelled.
    pub(crate) fn cancelling(
        timeout: Option<Duration>,
        interrupts: &'i mut Interrupts,
    ) -> Limits<'i> {
        Limits {
            timeout,
            interrupts,
            interrupted: Interrupted::Cancel,
        }
    }
}

/// Why following ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The turn ended.
    Ended,
    /// It was stopped because its time was over.
    TimedOut,
    /// A person does not want to wait; the turn is open.
    Interrupted,
}

/// Follows the turn and shows it.
pub(crate) async fn follow(
    host: &Host,
    session: SessionId,
    watch: &mut Watch,
    screen: &mut impl Show,
    limits: Limits<'_>,
) -> Result<End> {
    let Limits {
        timeout,
        interrupts,
        interrupted,
    } = limits;
    let mut feed = host.feed(session, watch).await?;
    let (mut end, mut cancelled) = (End::Ended, false);
    let mut late = timeout.map(|timeout| Instant::now() + timeout);
    let mut answers = Answers::default();
    for waiting in watch.waiting() {
        screen.waits(&waiting, watch);
    }
    while watch.outcome.is_none() {
        if !cancelled {
            answers.ask(watch, screen);
        }
        let stops = tokio::select! {
            biased;
            who = interrupts.next() => Some(who),
            next = feed.next(watch.events()) => {
                match next? {
                    Next::Event(event) => {
                        let news = watch.apply(&event)?;
                        screen.event(&event, news.as_ref(), watch);
                    }
                    Next::Said(said) => screen.said(&said, watch),
                    Next::Missed => screen.missed(),
                }
                None
            }
            reply = screen.reply() => answers.take(reply, host, session).await,
            // A person's time is not the turn's.
            () = at(late), if !cancelled && watch.waiting().next().is_some() => {
                late = timeout.map(|timeout| Instant::now() + timeout);
                None
            }
            () = at(late) => {
                if cancelled {
                    return Err(Problem::failed("the turn was cancelled but did not stop"));
                }
                (end, cancelled) = (End::TimedOut, true);
                late = Some(Instant::now() + CANCELLED_WITHIN);
                host.cancel(session, watch.turn).await;
                None
            }
        };
        let Some(who) = stops else { continue };
        let leave = interrupted == Interrupted::Leave || who == Interrupt::System;
        if leave || cancelled {
            return Ok(End::Interrupted);
        }
        cancelled = true;
        late = Some(Instant::now() + CANCELLED_WITHIN);
        host.cancel(session, watch.turn).await;
    }
    // Whoever works on it looks at the clock as well.
    match &watch.outcome {
        Some(Outcome::Failed { code, .. }) if **code == *TIMED_OUT => Ok(End::TimedOut),
        _ => Ok(end),
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}
