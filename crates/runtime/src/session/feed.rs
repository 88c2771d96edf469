//! The channel from a session to its followers.
//!
//! Owned by the supervisor and by the session's actor. It outlives the actor as long as there are
//! followers, so a followed session can leave memory. It keeps the newest events for all followers:
//! only a follower that has fallen behind reads the journal.

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{broadcast, watch};
use unisono_context::RunId;
use unisono_session::event::LateOutput;
use unisono_session::run::{Step, is_blank};
use unisono_session::{Event, Fact};

use super::Progress;

/// Progress messages that are kept for a slow follower.
const PROGRESS_KEPT: usize = 256;
/// Events that are kept for all followers.
const EVENTS_KEPT: usize = 64;
/// Maximum bytes of a reply that are kept until it is complete, without the mark of a cut text.
const REPLY_KEPT: usize = 64 * 1024;

/// The sending end.
#[derive(Debug)]
pub(crate) struct Feed {
    /// The sequence number up to which the journal is on disk.
    durable: watch::Sender<u64>,
    /// Created for the first follower, because its buffer takes memory.
    progress: OnceLock<broadcast::Sender<ProgressUpdate>>,
    recent: Recent,
    replies: Mutex<Replies>,
}

/// The texts of replies that are not complete, by run, also if nobody followed.
#[derive(Debug, Default)]
struct Replies {
    /// What was sent of the current replies.
    current: HashMap<RunId, ReplyText>,
    /// The last text of a reply that broke off, until a later reply is complete.
    broken_off: HashMap<RunId, ReplyText>,
}

/// The text of a reply, or its beginning.
#[derive(Debug, Default)]
struct ReplyText {
    text: String,
    is_cut: bool,
    /// Whether its run has ended: the text is kept for the end of the cancelled attempt only.
    is_over: bool,
}

/// The receiving end. Closed after the session was deleted or the runtime has stopped.
#[derive(Debug)]
pub(crate) struct FeedReceiver {
    pub(super) durable: watch::Receiver<u64>,
    pub(super) recent: Recent,
    pub(super) progress: broadcast::Receiver<ProgressUpdate>,
    pub(super) begun: BegunReplies,
}

/// The replies of whose text some was sent before a follower came.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BegunReplies {
    /// The last event on disk at that time: the texts belong after it, and before all progress.
    pub after: u64,
    /// The text of each so far. One of more than [`BegunReplies::WHOLE_BYTES`] is the beginning with a
    /// mark.
    pub texts: Vec<(RunId, Arc<str>)>,
}

impl BegunReplies {
    /// Bytes of the longest text that is not cut off.
    pub const WHOLE_BYTES: usize = REPLY_KEPT;
}

/// Progress, and its position among the events.
#[derive(Clone, Debug)]
#[non_exhaustive]
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
            replies: Mutex::default(),
        }
    }

    pub(crate) fn follow(&self) -> FeedReceiver {
        let progress = self
            .progress
            .get_or_init(|| broadcast::channel(PROGRESS_KEPT).0);
        // Under one lock with the pieces, so that each is either in the texts or progress.
        let replies = self.replies();
        let texts = replies.current.iter().filter(|(_, text)| !text.is_over);
        let texts = texts.map(|(run, text)| (*run, text.shown())).collect();
        FeedReceiver {
            durable: self.durable.subscribe(),
            recent: self.recent.clone(),
            progress: progress.subscribe(),
            begun: BegunReplies {
                after: *self.durable.borrow(),
                texts,
            },
        }
    }

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
        let mut replies = self.replies();
        replies.current.entry(run).or_default().add(piece);
        self.publish_progress(|| Progress::TextDelta {
            run,
            text: piece.into(),
        });
    }

    /// The current reply of a run broke off or was rejected: the next text begins another one.
    pub(super) fn break_off(&self, run: RunId) {
        let mut replies = self.replies();
        let text = replies.current.remove(&run);
        if let Some(text) = text.filter(|text| !is_blank(&text.text)) {
            replies.broken_off.insert(run, text);
        }
    }

    /// No reply is in progress: the actor whose runs spoke is gone.
    pub(super) fn clear_replies(&self) {
        *self.replies() = Replies::default();
    }

    /// The text of the last reply of a run, if that is not complete.
    pub(super) fn incomplete_text(&self, run: RunId) -> Option<Arc<str>> {
        let replies = self.replies();
        let current = replies.current.get(&run);
        let current = current.filter(|text| !is_blank(&text.text));
        let text = current.or_else(|| replies.broken_off.get(&run))?;
        Some(text.shown())
    }

    /// An attempt of a run is over: its texts are no longer kept. Of a cancelled one some may have come
    /// after the end of the run was on disk.
    pub(super) fn end_attempt(&self, run: RunId) {
        self.replies().remove(run);
    }

    /// Removes the texts of replies that are complete, or belong to an earlier attempt. A run that was
    /// cancelled ends before its attempt, which has the text.
    fn end_replies(&self, events: &[Event]) {
        let mut replies = self.replies();
        if replies.current.is_empty() && replies.broken_off.is_empty() {
            return;
        }
        for event in events {
            match &event.fact {
                // The usage of a reply that broke off: the next one may have begun.
                Fact::RunStepped { step, .. } if matches!(**step, Step::Spent(_)) => {}
                Fact::RunStepped { run, .. }
                | Fact::ToolsAnswered { run, .. }
                | Fact::RunRetried { run, .. }
                | Fact::LateOutputReceived {
                    run,
                    late: LateOutput::Reply(_),
                    ..
                } => replies.remove(*run),
                Fact::RunEnded { run, .. } => {
                    if let Some(text) = replies.current.get_mut(run) {
                        text.is_over = true;
                    }
                }
                _ => {}
            }
        }
    }

    /// No change of it can be interrupted, so a poisoned lock is fine.
    fn replies(&self) -> MutexGuard<'_, Replies> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }

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

impl Replies {
    fn remove(&mut self, run: RunId) {
        self.current.remove(&run);
        self.broken_off.remove(&run);
    }
}

impl ReplyText {
    fn add(&mut self, piece: &str) {
        if self.is_cut {
            return;
        }
        let mut end = piece.len().min(REPLY_KEPT - self.text.len());
        while !piece.is_char_boundary(end) {
            end -= 1;
        }
        self.text.push_str(&piece[..end]);
        self.is_cut = end < piece.len();
    }

    /// The text, marked if it is not all of it.
    fn shown(&self) -> Arc<str> {
        match self.is_cut {
            true => format!("{} …", self.text).into(),
            false => self.text.as_str().into(),
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

type Numbered = VecDeque<(u64, Arc<SharedEvent>)>;

/// The newest events without a gap.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent(Arc<Mutex<Numbered>>);

impl Recent {
    /// The approximate number of followers: the feed itself holds one reference.
    pub(super) fn followers(&self) -> usize {
        Arc::strong_count(&self.0).saturating_sub(1)
    }

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
    use unisono_session::run::{AuxiliaryUsage, Ending, Reply, Usage};

    fn sorted_runs(feed: &Feed) -> Vec<RunId> {
        let begun = feed.follow().begun.texts.into_iter();
        let mut runs: Vec<RunId> = begun.map(|(run, _)| run).collect();
        runs.sort();
        runs
    }

    fn event(fact: Fact) -> Event {
        let at = Timestamp(0);
        Event { at, fact }
    }

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
        assert_eq!(sorted_runs(&feed), []);
        for run in runs {
            feed.publish_text(run, "Hel");
        }
        assert_eq!(sorted_runs(&feed), runs);
        let retried = Fact::RunRetried {
            run: runs[0],
            attempt: 2,
            not_before: Timestamp(0),
            reason: "the stream broke".into(),
        };
        feed.publish(1, &[event(retried)]);
        assert_eq!(sorted_runs(&feed), [runs[1]]);
    }

    #[test]
    fn the_text_of_a_reply_is_kept_until_a_reply_is_complete() {
        let (feed, run) = (Feed::new(), RunId::from_u128(1));
        let text = || feed.incomplete_text(run);
        let stepped = |step| {
            let step = Arc::new(step);
            event(Fact::RunStepped { run, step })
        };
        assert_eq!(text(), None);
        for piece in ["The move ", "is"] {
            feed.publish_text(run, piece);
        }
        assert_eq!(text().as_deref(), Some("The move is"));
        feed.break_off(run);
        assert_eq!(sorted_runs(&feed), []);
        feed.publish_text(run, " ");
        let begun = feed.follow().begun;
        assert_eq!(begun.texts, vec![(run, Arc::<str>::from(" "))]);
        assert_eq!(text().as_deref(), Some("The move is"), "no text yet");
        feed.publish_text(run, "On");
        let spent = Step::Spent(AuxiliaryUsage {
            usage: Usage::NONE,
            fallback: None,
        });
        feed.publish(1, &[stepped(spent)]);
        assert_eq!(text().as_deref(), Some(" On"));
        feed.publish(2, &[stepped(Step::Model(Reply::default()))]);
        assert_eq!(text(), None);
        // A long one is cut between two characters, and not continued behind a gap.
        feed.publish_text(run, "w");
        for _ in 0..REPLY_KEPT {
            feed.publish_text(run, "é");
        }
        feed.publish_text(run, "more");
        let long = text().unwrap();
        assert_eq!(long.len(), REPLY_KEPT - 1 + " …".len());
        assert!(long.ends_with("éé …"), "{long}");
        feed.clear_replies();
        assert_eq!(text(), None);
        feed.publish_text(run, "late");
        feed.break_off(run);
        feed.publish_text(run, "later");
        feed.end_attempt(run);
        assert_eq!((text(), sorted_runs(&feed)), (None, Vec::new()));
    }

    #[test]
    fn the_text_of_a_cancelled_run_is_kept_for_the_end_of_its_attempt_alone() {
        let (feed, run) = (Feed::new(), RunId::from_u128(1));
        let ended = || {
            let ending = Arc::new(Ending::Cancelled);
            event(Fact::RunEnded { run, ending })
        };
        let text = || feed.incomplete_text(run);
        feed.publish_text(run, "The move ");
        feed.publish(1, &[ended()]);
        feed.publish_text(run, "is");
        assert_eq!(text().as_deref(), Some("The move is"));
        assert_eq!(
            sorted_runs(&feed),
            [],
            "nobody who comes now waits for more"
        );
        feed.end_attempt(run);
        assert_eq!(text(), None);
        // A reply that was complete all the same is recorded as such.
        feed.publish_text(run, "The move is on Friday.");
        feed.publish(2, &[ended()]);
        let late = event(Fact::LateOutputReceived {
            run,
            attempt: 1,
            late: LateOutput::Reply(Reply::default()),
        });
        feed.publish(3, &[late]);
        assert_eq!(text(), None);
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
