//! The receiving end of the writer's queue, and the decision when a group is complete.
//!
//! Callers that received the answers of the last group, and those that were queued already, are
//! about to write again. The writer yields the processor to them, because then all of them wait for
//! the disk once, in one group. If 64 sessions write one event after the other, groups that close
//! early make each of them wait for almost two groups. A group is complete when all expected
//! commands have arrived, or when no more arrive. No timer is needed: if no other thread is
//! runnable, yielding returns at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::disk::group::Command;

/// Number of commands that are taken from the queue at a time. Taking them singly would change
/// counters that all senders read, each time.
const TAKE_COMMANDS: usize = 64;
/// Number of consecutive yields without a new command after which no more are expected.
const QUIET_YIELDS: u32 = 32;
/// Longest time that a group waits for more commands: on a busy machine, yielding may take
/// milliseconds.
const PATIENCE: Duration = Duration::from_millis(1);

/// The receiving end of the writer's queue.
#[derive(Debug)]
pub(super) struct Intake {
    queue: mpsc::Receiver<Command>,
    /// Commands taken from the queue and not yet returned.
    taken: VecDeque<Command>,
    taking: Vec<Command>,
    /// Number of commands that are expected for this group.
    expected: usize,
    /// Number of commands that have arrived.
    came: usize,
    opened: Instant,
}

impl Intake {
    pub(super) fn new(queue: mpsc::Receiver<Command>) -> Self {
        Self {
            queue,
            taken: VecDeque::with_capacity(TAKE_COMMANDS),
            taking: Vec::with_capacity(TAKE_COMMANDS),
            expected: 0,
            came: 0,
            opened: Instant::now(),
        }
    }

    /// Number of commands that are expected for the next group.
    pub(super) fn expected(&self) -> usize {
        self.expected
    }

    /// Sets that this many callers are about to be answered: they may write again, in addition to
    /// the queued ones.
    pub(super) fn answering(&mut self, waiters: usize) {
        self.expected = waiters + self.taken.len() + self.queue.len();
    }

    /// Waits for the first command of a group; `None` when all senders are dropped.
    pub(super) fn first(&mut self) -> Option<Command> {
        let first = match self.taken.pop_front() {
            Some(command) => Some(command),
            None => self.queue.blocking_recv(),
        };
        (self.came, self.opened) = (1, Instant::now());
        first
    }

    /// Waits for the next command, at most this long; returns whether none has come.
    pub(super) fn is_quiet_for(&mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        while self.taken.is_empty() {
            let came = self
                .queue
                .poll_recv_many(&mut context, &mut self.taking, TAKE_COMMANDS);
            match came {
                // All senders are dropped.
                Poll::Ready(0) => return false,
                Poll::Ready(_) => self.taken.extend(self.taking.drain(..)),
                Poll::Pending => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return true;
                    }
                    std::thread::park_timeout(left);
                }
            }
        }
        false
    }

    /// The next command of the group; `None` if it is complete.
    pub(super) fn next(&mut self) -> Option<Command> {
        let mut quiet = 0;
        loop {
            if let Some(command) = self.taken.pop_front() {
                self.came += 1;
                return Some(command);
            }
            if self.take() {
                continue;
            }
            if is_complete(self.came, self.expected, quiet, self.opened.elapsed()) {
                return None;
            }
            quiet += 1;
            std::thread::yield_now();
        }
    }

    /// Takes the queued commands; returns whether there were any.
    fn take(&mut self) -> bool {
        if self.queue.is_empty() {
            return false;
        }
        let mut now = Context::from_waker(Waker::noop());
        let taken = self
            .queue
            .poll_recv_many(&mut now, &mut self.taking, TAKE_COMMANDS);
        self.taken.extend(self.taking.drain(..));
        taken.is_ready() && !self.taken.is_empty()
    }
}

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Whether a group is complete: `came` of `expected` commands have arrived, and the processor was
/// yielded `quiet` times since the last of them.
fn is_complete(came: usize, expected: usize, quiet: u32, waited: Duration) -> bool {
    came >= expected || quiet >= QUIET_YIELDS || waited > PATIENCE
}

#[cfg(test)]
mod tests {
    //! Tests of which commands make a group, and when it is complete.

    use tokio::sync::oneshot;

    use super::*;
    use crate::engine::SessionId;

    fn claim(n: u128) -> Command {
        let (reply, _) = oneshot::channel();
        let session = SessionId::from_u128(n);
        Command::Claim { session, reply }
    }

    fn session(command: Option<Command>) -> Option<u128> {
        match command? {
            Command::Claim { session, .. } => Some(session.0.as_u128()),
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn a_group_is_all_that_is_queued_in_order() {
        let (sender, queue) = mpsc::channel(1024);
        let mut intake = Intake::new(queue);
        // More than are taken from the queue at a time.
        let all: Vec<u128> = (0..150).collect();
        for &n in &all {
            sender.try_send(claim(n)).unwrap();
        }
        let mut group = vec![session(intake.first()).unwrap()];
        group.extend(std::iter::from_fn(|| session(intake.next())));
        assert_eq!(group, all);
        drop(sender);
        assert_eq!(session(intake.first()), None);
    }

    #[test]
    fn what_a_group_leaves_comes_with_the_next() {
        let (sender, queue) = mpsc::channel(8);
        let mut intake = Intake::new(queue);
        (0..3).for_each(|n| sender.try_send(claim(n)).unwrap());
        assert_eq!(session(intake.first()), Some(0));
        assert_eq!(session(intake.next()), Some(1));
        sender.try_send(claim(3)).unwrap();
        intake.answering(2);
        assert_eq!(intake.expected(), 4, "two again, one taken, one queued");
        drop(sender);
        assert_eq!(session(intake.first()), Some(2));
        assert_eq!(session(intake.next()), Some(3));
        assert_eq!(session(intake.first()), None);
    }

    #[test]
    fn the_wait_for_a_command_ends_with_it_or_with_the_patience() {
        let (sender, queue) = mpsc::channel(8);
        let mut intake = Intake::new(queue);
        assert!(intake.is_quiet_for(Duration::ZERO));
        let long = Duration::from_secs(600);
        let waiting = std::thread::spawn(move || (intake.is_quiet_for(long), intake));
        sender.try_send(claim(1)).unwrap();
        let (is_quiet, mut intake) = waiting.join().unwrap();
        assert!(!is_quiet);
        assert_eq!(session(intake.first()), Some(1), "it is kept");
        drop(sender);
        assert!(!intake.is_quiet_for(long), "the queue is closed");
        assert_eq!(session(intake.first()), None);
    }

    #[test]
    fn a_group_waits_for_those_who_may_come_but_not_for_ever() {
        let short = Duration::from_micros(20);
        for (came, expected, quiet, waited, complete) in [
            (1, 0, 0, short, true),
            (1, 1, 0, short, true),
            (1, 64, 0, short, false),
            (63, 64, QUIET_YIELDS - 1, short, false),
            (64, 64, 0, short, true),
            (70, 64, 0, short, true),
            (1, 64, QUIET_YIELDS, short, true),
            (1, 64, 0, PATIENCE + short, true),
        ] {
            assert_eq!(
                is_complete(came, expected, quiet, waited),
                complete,
                "{came} of {expected}, quiet {quiet}, {waited:?}"
            );
        }
    }
}
