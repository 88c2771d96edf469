//! The channel from a session to its followers.
//!
//! Owned by the supervisor and by the session's actor. It outlives the actor as long as there are
//! followers, so a followed session can leave memory. It keeps the newest events for all followers:
//! only a follower that has fallen behind reads the journal.

use std::collections::{HashSet, VecDeque};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{broadcast, watch};
use unisono_context::RunId;
use unisono_session::{Event, Fact};

use super::Progress;

/// Progress messages that are kept for a slow follower.
const PROGRESS_KEPT: usize = 256;
/// Events that are kept for all followers.
const EVENTS_KEPT: usize = 64;

/// The sending end.
#[derive(Debug)]
pub(crate) struct Feed {
    /// The sequence number up to which the journal is on disk.
    durable: watch::Sender<u64>,
    /// Created for the first follower, because its buffer takes memory.
    progress: OnceLock<broadcast::Sender<ProgressUpdate>>,
    recent: Recent,
    /// The runs of whose current replies some text was sent, also if nobody followed.
    streaming: Mutex<HashSet<RunId>>,
}

/// The receiving end. Closed after the session was deleted or the runtime has stopped.
#[derive(Debug)]
pub(crate) struct FeedReceiver {
    pub(super) durable: watch::Receiver<u64>,
    pub(super) recent: Recent,
    pub(super) progress: broadcast::Receiver<ProgressUpdate>,
    /// The runs of whose current replies some text was sent before.
    pub(super) streaming: Vec<RunId>,
}

/// Progress, and its position among the events.
#[derive(Clone, Debug)]
pub struct ProgressUpdate {
    /// The last event on disk at that time: a follower of the events gets the progress after this
    /// one.
    pub after: u64,
    /// The progress.
    pub progress: Progress,
}

impl Feed {
    /// A feed that knows no event.
    pub(crate) fn new() -> Feed {
        Feed {
            durable: watch::channel(0).0,
            progress: OnceLock::new(),
            recent: Recent::default(),
            streaming: Mutex::default(),
        }
    }

    /// Follows it.
    pub(crate) fn follow(&self) -> FeedReceiver {
        let progress = self
            .progress
            .get_or_init(|| broadcast::channel(PROGRESS_KEPT).0);
        FeedReceiver {
            durable: self.durable.subscribe(),
            recent: self.recent.clone(),
            progress: progress.subscribe(),
            // After the subscription, so that no text is overlooked.
            streaming: self.streaming().iter().copied().collect(),
        }
    }

    /// Whether there are followers.
    pub(crate) fn is_followed(&self) -> bool {
        self.durable.receiver_count() > 0
    }

    /// The journal is on disk at least up to this event.
    pub(crate) fn set_durable(&self, seq: u64) {
        self.durable.send_if_modified(|durable| {
            let grows = *durable < seq;
            *durable = seq.max(*durable);
            grows
        });
    }

    /// These events are on disk; the last of them has the number `last`.
    pub(super) fn publish(&self, last: u64, events: &[Event]) {
        self.end_replies(events);
        match self.is_followed() {
            true => self.recent.extend(last, events),
            false => self.recent.clear(),
        }
        self.set_durable(last);
    }

    /// Publishes the next part of a run's reply.
    pub(super) fn publish_text(&self, run: RunId, piece: &str) {
        self.streaming().insert(run);
        self.publish_progress(|| Progress::TextDelta {
            run,
            text: piece.into(),
        });
    }

    /// Removes the runs whose replies are complete.
    fn end_replies(&self, events: &[Event]) {
        let mut streaming = self.streaming();
        if streaming.is_empty() {
            return;
        }
        for event in events {
            if let Fact::RunStepped { run, .. }
            | Fact::ToolsAnswered { run, .. }
            | Fact::RunRetried { run, .. }
            | Fact::RunEnded { run, .. } = &event.fact
            {
                streaming.remove(run);
            }
        }
    }

    /// No change of it can be interrupted, so a poisoned lock is fine.
    fn streaming(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.streaming
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes progress, if there are followers.
    pub(super) fn publish_progress(&self, progress: impl FnOnce() -> Progress) {
        if let Some(followers) = self.progress.get()
            && followers.receiver_count() > 0
        {
            let said = ProgressUpdate {
                after: *self.durable.borrow(),
                progress: progress(),
            };
            // The last follower may have left just now.
            let _ = followers.send(said);
        }
    }
}

/// An event that all followers share, with its text once one of them has written it.
#[derive(Debug)]
pub struct SharedEvent {
    event: Event,
    text: OnceLock<Box<str>>,
}

impl SharedEvent {
    /// Its text. All followers write the same text.
    pub fn text(&self, write: impl FnOnce(&Event) -> String) -> &str {
        self.text.get_or_init(|| write(&self.event).into())
    }
}

impl From<Event> for SharedEvent {
    fn from(event: Event) -> SharedEvent {
        SharedEvent {
            event,
            text: OnceLock::new(),
        }
    }
}

impl Deref for SharedEvent {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}

/// Events with their sequence numbers.
type Numbered = VecDeque<(u64, Arc<SharedEvent>)>;

/// The newest events without a gap.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent(Arc<Mutex<Numbered>>);

impl Recent {
    /// The approximate number of followers: the feed itself holds one reference.
    pub(super) fn followers(&self) -> usize {
        Arc::strong_count(&self.0).saturating_sub(1)
    }

    /// The event with this number, if it is kept.
    pub(super) fn get(&self, seq: u64) -> Option<Arc<SharedEvent>> {
        let kept = self.kept();
        let (first, _) = kept.front()?;
        let place = usize::try_from(seq.checked_sub(*first)?).ok()?;
        kept.get(place).map(|(_, event)| event.clone())
    }

    fn extend(&self, last: u64, events: &[Event]) {
        let events = &events[events.len().saturating_sub(EVENTS_KEPT)..];
        let first = (last + 1).saturating_sub(events.len() as u64);
        let mut kept = self.kept();
        if kept.back().is_some_and(|(seq, _)| *seq + 1 != first) {
            kept.clear();
        }
        let shared = events.iter().cloned().map(SharedEvent::from).map(Arc::new);
        kept.extend((first..).zip(shared));
        let over = kept.len().saturating_sub(EVENTS_KEPT);
        kept.drain(..over);
    }

    fn clear(&self) {
        let mut kept = self.kept();
        if !kept.is_empty() {
            *kept = VecDeque::new();
        }
    }

    /// The kept events; no change of them can be interrupted, so a poisoned lock is fine.
    fn kept(&self) -> MutexGuard<'_, Numbered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unisono_context::Timestamp;

    fn events(numbers: std::ops::RangeInclusive<u64>) -> Vec<Event> {
        let seal = |n| Event {
            at: Timestamp(n),
            fact: Fact::Pinned {
                messages: Vec::new(),
            },
        };
        numbers.map(|n| seal(i64::try_from(n).unwrap())).collect()
    }

    fn numbers(recent: &Recent) -> Vec<u64> {
        let kept = recent.kept();
        assert!(
            kept.iter()
                .all(|(seq, event)| event.at.0 == i64::try_from(*seq).unwrap())
        );
        kept.iter().map(|(seq, _)| *seq).collect()
    }

    #[test]
    fn the_newest_events_are_kept_without_a_gap_while_there_are_followers() {
        let feed = Feed::new();
        feed.publish(3, &events(1..=3));
        assert_eq!(numbers(&feed.recent), [0; 0], "nobody follows");
        let following = feed.follow();
        assert_eq!(*following.durable.borrow(), 3);
        feed.publish(5, &events(4..=5));
        feed.publish(6, &events(6..=6));
        assert_eq!(numbers(&feed.recent), [4, 5, 6]);
        assert_eq!(following.recent.get(5).unwrap().at, Timestamp(5));
        assert!(following.recent.get(3).is_none() && following.recent.get(7).is_none());
        feed.publish(9, &events(8..=9));
        assert_eq!(numbers(&feed.recent), [8, 9], "7 is not known here");
        feed.publish(300, &events(10..=300));
        assert_eq!(numbers(&feed.recent), (237..=300).collect::<Vec<_>>());
        drop(following);
        feed.publish(301, &events(301..=301));
        assert_eq!(numbers(&feed.recent), [0; 0]);
    }

    #[test]
    fn all_followers_share_an_event_and_its_text_is_written_once() {
        let feed = Feed::new();
        let following = [feed.follow(), feed.follow()];
        feed.publish(1, &events(1..=1));
        assert_eq!(following[0].recent.followers(), 2);
        let [first, second] = following.map(|one| one.recent.get(1).unwrap());
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(first.text(|event| event.at.0.to_string()), "1");
        assert_eq!(second.text(|_| unreachable!("it is written")), "1");
    }

    #[test]
    fn a_follower_knows_the_replies_that_began_before_it() {
        let feed = Feed::new();
        let runs = [1, 2].map(RunId::from_u128);
        let sorted = |following: FeedReceiver| {
            let mut streaming = following.streaming;
            streaming.sort();
            streaming
        };
        assert_eq!(sorted(feed.follow()), []);
        for run in runs {
            feed.publish_text(run, "Hel");
        }
        assert_eq!(sorted(feed.follow()), runs);
        let retried = Event {
            at: Timestamp(0),
            fact: Fact::RunRetried {
                run: runs[0],
                attempt: 2,
                not_before: Timestamp(0),
                reason: "the stream broke".into(),
            },
        };
        feed.publish(1, &[retried]);
        assert_eq!(sorted(feed.follow()), [runs[1]]);
    }

    #[test]
    fn the_durable_position_never_decreases() {
        let feed = Feed::new();
        feed.set_durable(7);
        feed.set_durable(4);
        assert_eq!(*feed.durable.borrow(), 7);
    }

    #[test]
    fn progress_costs_nothing_without_followers() {
        let feed = Feed::new();
        feed.publish_progress(|| unreachable!("nobody follows"));
        assert!(feed.progress.get().is_none());
    }
}
