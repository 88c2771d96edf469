//! Follows a turn until it ends, its time is over, or somebody interrupts.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};
use unisono_daemon::Daemon;
use unisono_runtime::{Handle, Progress};
use unisono_session::Event;
use unisono_session::run::calls::Waiting;

use super::asking::{Answers, decided};
use super::watch::{News, Watch};
use crate::problem::{Problem, Result};

/// How long a cancelled turn may take to say so.
pub(super) const CANCELLED_WITHIN: Duration = Duration::from_secs(10);

/// Signals that stop the program.
#[derive(Debug)]
pub(crate) struct Interrupts {
    int: Signal,
    term: Signal,
}

impl Interrupts {
    pub(crate) fn listen() -> Result<Interrupts> {
        let on = |kind| {
            signal(kind).map_err(|error| {
                Problem::failed(format!("signals cannot be listened for: {error}"))
            })
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
    fn waits(&mut self, waiting: &Waiting);

    /// Asks the person at the terminal; false where there is none who could answer.
    fn asks(&mut self, _question: &str) -> bool {
        false
    }

    /// Some of what was said was missed: it is not heard out when it comes too fast.
    fn missed(&mut self) {}
}

/// What a turn is stopped by.
#[derive(Debug)]
pub(crate) struct Limits<'i> {
    /// The turn is cancelled then; none: it may take as long as it wants.
    pub(super) timeout: Option<Duration>,
    pub(super) interrupts: &'i mut Interrupts,
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
    /// It was cancelled because its time was over.
    TimedOut,
    /// A person does not want to wait; the turn is open.
    Interrupted,
}

/// Follows the turn and shows it.
pub(crate) async fn follow(
    daemon: &Daemon,
    session: &Handle,
    watch: &mut Watch,
    screen: &mut impl Show,
    limits: Limits<'_>,
) -> Result<End> {
    let Limits {
        timeout,
        interrupts,
        interrupted,
    } = limits;
    let mut events = session.events(watch.events()).await?;
    let mut progress = session.progress();
    let gone = session.wait(watch.turn);
    tokio::pin!(gone);
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let (mut end, mut ended, mut cancelled) = (End::Ended, false, false);
    let mut late = deadline;
    let mut answers = Answers::default();
    for waiting in watch.waiting() {
        screen.waits(&waiting);
    }
    while watch.outcome.is_none() {
        answers.ask(watch, screen);
        tokio::select! {
            // What is said before an event is shown before it.
            biased;
            who = interrupts.next() => {
                let leave = interrupted == Interrupted::Leave || who == Interrupt::System;
                if leave || cancelled {
                    return Ok(End::Interrupted);
                }
                cancelled = true;
                late = Some(Instant::now() + CANCELLED_WITHIN);
                cancel(session, watch).await;
            }
            said = progress.recv() => match said {
                Ok(said) => screen.said(&said, watch),
                Err(RecvError::Lagged(_)) => screen.missed(),
                Err(RecvError::Closed) => progress = session.progress(),
            },
            event = events.next() => match event? {
                Some((_, event)) => {
                    let news = watch.apply(&event)?;
                    screen.event(&event, news.as_ref(), watch);
                }
                None => events = session.events(watch.events()).await?,
            },
            // Only its error matters: the end itself comes with the events.
            result = &mut gone, if !ended => {
                result?;
                ended = true;
            }
            (waiting, line) = answers.next() => {
                if let Some(decision) = decided(&waiting, &line)
                    && let Err(error) = session.decide(waiting.id, decision).await
                {
                    // Somebody else was faster, or its time was over.
                    tracing::info!(%error, "the answer is not taken");
                }
            }
            // A person's time is not the turn's.
            () = at(late), if !cancelled && watch.waiting().next().is_some() => {
                late = timeout.map(|timeout| Instant::now() + timeout);
            }
            () = at(late) => {
                if cancelled {
                    return Err(Problem::failed("the turn was cancelled but did not stop"));
                }
                (end, cancelled) = (End::TimedOut, true);
                late = Some(Instant::now() + CANCELLED_WITHIN);
                cancel(session, watch).await;
            }
            reason = daemon.runtime().failed() => {
                return Err(Problem::failed(format!("the runtime gave up: {reason}")));
            }
        }
    }
    Ok(end)
}

/// Cancels a turn. One that ended meanwhile needs no cancelling.
async fn cancel(session: &Handle, watch: &Watch) {
    if let Err(error) = session.cancel(watch.turn).await {
        tracing::debug!(%error, "the turn is not cancelled");
    }
}

pub(super) async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
