//! Follows a turn until it ends, times out, or is interrupted.

use std::collections::BTreeSet;
use std::future::{Future, pending};
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::{Instant, sleep_until};
use unisono::Service;
use unisono_api::approval::Approval;
use unisono_api::service::TurnUpdates;
use unisono_api::turn_event::TurnEvent;
use unisono_config::settings::Compaction;
use unisono_session::turn::TIMED_OUT;

use super::asking::{Answers, Reply};
use super::watch::Watch;
use crate::output::Out;
use crate::problem::{Exit, Problem, Result};

/// The time a cancelled turn gets to end.
const CANCELLED_WITHIN: Duration = Duration::from_secs(10);

/// The time in which the signals of one interruption come: `timeout` sends one to the program, and one to
/// its group.
const ONE_INTERRUPTION: Duration = Duration::from_millis(200);

/// Whether a signal is a second interruption, by the time since the first one, which nobody has noticed.
fn is_second(since_first: Duration) -> bool {
    since_first > ONE_INTERRUPTION
}

/// Signals that stop the program, one at a time.
#[derive(Debug)]
pub(crate) struct Interrupts(mpsc::Receiver<Interrupt>);

impl Interrupts {
    /// A second interruption that comes before the first one was noticed ends the program: it waits
    /// for something else, which may never come.
    pub(crate) fn listen() -> Result<Interrupts> {
        Interrupts::forwarded(false)
    }

    /// Further interruptions change nothing: for a daemon, which drains, and beside a program that
    /// gets the same signals.
    pub(crate) fn listen_patiently() -> Result<Interrupts> {
        Interrupts::forwarded(true)
    }

    fn forwarded(is_patient: bool) -> Result<Interrupts> {
        let on = |kind| {
            signal(kind)
                .map_err(|error| Problem::failed(format!("cannot listen for signals: {error}")))
        };
        let mut int = on(SignalKind::interrupt())?;
        let mut term = on(SignalKind::terminate())?;
        let mut hup = match is_hangup_ignored() {
            true => None,
            false => Some(on(SignalKind::hangup())?),
        };
        let (send, interrupts) = mpsc::channel(1);
        tokio::spawn(async move {
            let mut first = Instant::now();
            loop {
                let who = tokio::select! {
                    _ = int.recv() => Interrupt::Person,
                    _ = term.recv() => Interrupt::System,
                    () = hung_up(&mut hup) => Interrupt::System,
                };
                match send.try_send(who) {
                    Ok(()) => first = Instant::now(),
                    Err(TrySendError::Full(_)) if !is_patient && is_second(first.elapsed()) => {
                        std::process::exit(Exit::Interrupted as i32);
                    }
                    Err(_) => {}
                }
            }
        });
        Ok(Interrupts(interrupts))
    }

    pub(crate) async fn next(&mut self) -> Interrupt {
        match self.0.recv().await {
            Some(who) => who,
            // The runtime ends.
            None => pending().await,
        }
    }
}

/// Whether the program was started with SIGHUP ignored, as `nohup` does: then a handler would make it end
/// with its terminal. True if the system does not say.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|signals| u64::from_str_radix(signals.trim(), 16).ok());
    ignored.is_none_or(|signals| signals & 1 == 1)
}

/// Waits until the terminal closes; forever if nobody listens for that.
async fn hung_up(hup: &mut Option<Signal>) {
    match hup {
        Some(hup) => {
            hup.recv().await;
        }
        None => pending().await,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// A person at the terminal (SIGINT).
    Person,
    /// The manager of the process (SIGTERM), or the end of its terminal (SIGHUP).
    System,
}

/// The effect of a person's interruption on the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interrupted {
    /// The turn stays open, and following stops.
    Leave,
    /// The turn is cancelled and followed to its end; a second interruption stops following.
    Cancel,
}

pub(crate) trait Show {
    /// Shows a change, with the new state of the turn. Progress before an event comes before the
    /// event.
    fn update(&mut self, event: &TurnEvent, watch: &Watch);

    fn on_waiting_call(&mut self, call: &Approval, watch: &Watch);

    /// Asks the person at the terminal; false without a terminal.
    fn show_question(&mut self, _question: &str) -> bool {
        false
    }

    /// Waits for the person's answer; forever if nobody was asked. It is safe to drop and repeat.
    fn reply(&mut self) -> impl Future<Output = Reply> + Send {
        pending()
    }
}

/// The conditions that end following.
#[derive(Debug)]
pub(crate) struct Limits<'i> {
    /// The time that the turn may take. It does not count while a person decides; none for no limit.
    timeout: Option<Duration>,
    /// When the command ends, also while a person decides; none for no limit.
    deadline: Option<Instant>,
    interrupts: &'i mut Interrupts,
    interrupted: Interrupted,
}

impl<'i> Limits<'i> {
    /// An interruption leaves the turn open.
    pub(crate) fn leaving(interrupts: &'i mut Interrupts) -> Limits<'i> {
        Limits {
            timeout: None,
            deadline: None,
            interrupts,
            interrupted: Interrupted::Leave,
        }
    }

    /// Sets when the command ends.
    pub(crate) fn until(self, deadline: Option<Instant>) -> Limits<'i> {
        Limits { deadline, ..self }
    }

    /// Sets a time limit of the turn, unless the command has a deadline.
    pub(crate) fn with_timeout(self, timeout: Duration) -> Limits<'i> {
        Limits {
            timeout: Some(timeout).filter(|_| self.deadline.is_none()),
            ..self
        }
    }

    /// A person's interruption cancels the turn.
    pub(crate) fn cancelling(
        timeout: Option<Duration>,
        interrupts: &'i mut Interrupts,
    ) -> Limits<'i> {
        Limits {
            timeout,
            deadline: None,
            interrupts,
            interrupted: Interrupted::Cancel,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Ended,
    /// The turn was cancelled at its time limit.
    TimedOut,
    /// A person stopped following; the turn is open.
    Interrupted,
}

/// A followed turn: its state and its updates.
pub(crate) struct FollowedTurn<'s> {
    pub(crate) watch: Watch,
    pub(crate) updates: TurnUpdates<'s>,
    /// Notices of a daemon about the models of a turn that began.
    pub(crate) notices: Vec<String>,
}

impl FollowedTurn<'_> {
    /// Reports compactions if the settings ask for it.
    pub(crate) fn notifying(self, compaction: &Compaction) -> Self {
        let watch = self.watch.notifying(compaction);
        FollowedTurn { watch, ..self }
    }

    /// Reports the notices about its models that are not in `reported`, and adds them.
    pub(crate) fn report_notices(&self, out: &Out, reported: &mut BTreeSet<String>) {
        for notice in &self.notices {
            if reported.insert(notice.clone()) {
                out.warn(notice);
            }
        }
    }

    pub(crate) fn leave(self) -> Watch {
        self.watch
    }
}

const ENDED_EARLY: &str =
    "the stream of the turn's events ended early; `unisono resume` follows the turn again";

pub(crate) async fn follow(
    service: &dyn Service,
    FollowedTurn { watch, updates, .. }: &mut FollowedTurn<'_>,
    screen: &mut impl Show,
    limits: Limits<'_>,
) -> Result<End> {
    let (timeout, deadline) = (limits.timeout, limits.deadline);
    let (mut end, mut cancelled) = (End::Ended, false);
    let mut late = deadline.or(timeout.map(|timeout| Instant::now() + timeout));
    let mut answers = Answers::default();
    for call in &watch.waiting {
        screen.on_waiting_call(call, watch);
    }
    while watch.end.is_none() {
        if !cancelled {
            answers.ask(watch, screen);
        }
        let due = late.unwrap_or_else(Instant::now);
        let may_decide = !cancelled && deadline.is_none() && !watch.waiting.is_empty();
        let stops = tokio::select! {
            biased;
            who = limits.interrupts.next() => Some(who),
            update = updates.next() => {
                let update = update.ok_or_else(|| Problem::failed(ENDED_EARLY))??;
                watch.apply(&update.event);
                screen.update(&update.event, watch);
                None
            }
            reply = screen.reply() => answers.take(reply, service).await?,
            // The time limit of the turn begins again while a person decides; a deadline stays.
            () = sleep_until(due), if may_decide && late.is_some() => {
                late = timeout.map(|timeout| Instant::now() + timeout);
                None
            }
            () = sleep_until(due), if late.is_some() => {
                if cancelled {
                    return Err(Problem::failed("the turn was cancelled but did not stop"));
                }
                (end, cancelled) = (End::TimedOut, true);
                late = Some(cancel(service, watch).await);
                None
            }
        };
        let Some(who) = stops else { continue };
        let leave = limits.interrupted == Interrupted::Leave || who == Interrupt::System;
        if leave || cancelled {
            return Ok(End::Interrupted);
        }
        cancelled = true;
        late = Some(cancel(service, watch).await);
    }
    // The program that runs the turn also applies the limit.
    match watch.error() {
        Some((TIMED_OUT, _)) => Ok(End::TimedOut),
        _ => Ok(end),
    }
}

/// Cancels a turn, unless it has ended, and returns the deadline for its end.
async fn cancel(service: &dyn Service, watch: &Watch) -> Instant {
    let late = Instant::now() + CANCELLED_WITHIN;
    let cancelled = service.cancel_turn(&watch.session, &watch.turn).await;
    if let Err(error) = cancelled {
        tracing::debug!(%error, "the turn cannot be cancelled");
    }
    late
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_signals_at_once_are_one_interruption() {
        assert!(!is_second(Duration::from_millis(1)));
        assert!(is_second(Duration::from_secs(1)));
    }
}
