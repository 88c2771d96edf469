//! Follows a turn until it ends, its time is over, or somebody interrupts.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep_until};
use unisono_daemon::Daemon;
use unisono_runtime::{Handle, Progress};

use super::screen::Screen;
use super::watch::Watch;
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
            signal(kind).map_err(|error| {
                Problem::failed(format!("signals cannot be listened for: {error}"))
            })
        };
        Ok(Interrupts {
            int: on(SignalKind::interrupt())?,
            term: on(SignalKind::terminate())?,
        })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.int.recv() => {}
            _ = self.term.recv() => {}
        }
    }
}

/// What a turn is stopped by.
#[derive(Debug)]
pub(crate) struct Limits<'i> {
    /// The turn is cancelled then; none: it may take as long as it wants.
    pub(crate) timeout: Option<Duration>,
    pub(crate) interrupts: &'i mut Interrupts,
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
    screen: &mut Screen<'_>,
    limits: Limits<'_>,
) -> Result<End> {
    let Limits {
        timeout,
        interrupts,
    } = limits;
    let mut events = session.events(watch.events()).await?;
    let mut progress = session.progress();
    let gone = session.wait(watch.turn);
    tokio::pin!(gone);
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let (mut end, mut ended) = (End::Ended, false);
    let mut late = deadline;
    while watch.outcome.is_none() {
        tokio::select! {
            event = events.next() => match event? {
                Some((_, event)) => if let Some(news) = watch.apply(&event)? {
                    screen.show(&news, watch);
                },
                None => events = session.events(watch.events()).await?,
            },
            // Only its error matters: the end itself comes with the events.
            result = &mut gone, if !ended => {
                result?;
                ended = true;
            }
            said = progress.recv() => say(said, screen, watch),
            () = at(late) => {
                if end == End::TimedOut {
                    return Err(Problem::failed("the turn was cancelled but did not stop"));
                }
                end = End::TimedOut;
                late = Some(Instant::now() + CANCELLED_WITHIN);
                // One that ended meanwhile needs no cancelling.
                if let Err(error) = session.cancel(watch.turn).await {
                    tracing::debug!(%error, "the turn is not cancelled");
                }
            }
            () = interrupts.next() => return Ok(End::Interrupted),
            reason = daemon.runtime().failed() => {
                return Err(Problem::failed(format!("the runtime gave up: {reason}")));
            }
        }
    }
    Ok(end)
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Shows what is being done. Whoever speaks faster than it is shown is not heard out.
fn say(
    said: std::result::Result<Progress, broadcast::error::RecvError>,
    screen: &Screen<'_>,
    watch: &Watch,
) {
    match said {
        Ok(Progress::Run { run, text }) => {
            let mut runs = watch.runs.iter();
            if let Some(index) = runs.position(|watched| watched.run == Some(run)) {
                screen.progress(index, &text, watch);
            }
        }
        Ok(Progress::Compaction {
            turn,
            text,
            trouble,
        }) if turn == watch.turn => screen.compacting(&text, trouble),
        Ok(Progress::Compaction { .. } | Progress::Piece { .. }) | Err(_) => {}
    }
}
