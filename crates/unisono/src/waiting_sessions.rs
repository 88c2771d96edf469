//! The sessions with calls that wait for a person, and the positions of these calls.
//!
//! All sessions are read once, a page at a time; after that only those with new events are inspected.
//! The events of other programs on the store are not known here: with such programs all sessions are
//! read again after some seconds. An inspection that is interrupted continues where it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard};
use unisono_context::{CallId, SessionId, Timestamp};
use unisono_runtime::Observer;
use unisono_session::run::calls::{CallPlace, WaitingCall};

/// Maximum changed sessions between two inspections; if there are more, all sessions are read again.
const CHANGED: usize = 10_000;
/// The age at which the sessions of other programs are read again.
const OTHERS_AGE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct WaitingSessions {
    changed: Arc<Mutex<Changed>>,
    known: AsyncMutex<Known>,
}

/// The sessions with events since the last inspection.
#[derive(Debug, Default)]
struct Changed {
    /// Whether no such session is missing. They are not collected before the first inspection.
    is_complete: bool,
    sessions: BTreeSet<SessionId>,
}

/// The result of the last inspection.
#[derive(Debug, Default)]
pub(crate) struct Known {
    read: Read,
    /// The sessions to inspect.
    due: BTreeSet<SessionId>,
    waiting: BTreeMap<SessionId, Waiting>,
}

/// How far all sessions are read.
#[derive(Debug, PartialEq, Eq)]
enum Read {
    /// To this session; none: the first page is to be read.
    After(Option<SessionId>),
    /// To the end, which began at this time.
    At(Instant),
}

impl Default for Read {
    fn default() -> Read {
        Read::After(None)
    }
}

#[derive(Debug)]
struct Waiting {
    /// The last event of the session when it was inspected.
    seq: u64,
    calls: Vec<KnownCall>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownCall {
    id: CallId,
    place: Place,
}

impl KnownCall {
    pub(crate) fn from_waiting(waiting: &WaitingCall) -> KnownCall {
        KnownCall {
            id: waiting.id,
            place: Place::from_waiting(waiting),
        }
    }
}

/// The position of a call among waiting calls; it stays valid when the call has been decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    asked_at: Timestamp,
    call: CallPlace,
}

impl Place {
    pub(crate) fn from_waiting(waiting: &WaitingCall) -> Place {
        Place {
            asked_at: waiting.call.asked_at,
            call: waiting.place,
        }
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Place { asked_at, call } = self;
        write!(
            f,
            "{}.{}.{}.{}",
            asked_at.0, call.run, call.round, call.index
        )
    }
}

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Place, ()> {
        let parts: Vec<&str> = text.split('.').collect();
        let [asked_at, run, round, index] = parts[..] else {
            return Err(());
        };
        let number = |text: &str| text.parse().map_err(|_| ());
        Ok(Place {
            asked_at: Timestamp(asked_at.parse().map_err(|_| ())?),
            call: CallPlace {
                run: run.parse().map_err(|_| ())?,
                round: number(round)?,
                index: number(index)?,
            },
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NextPage {
    /// The session before it.
    pub(crate) after: Option<SessionId>,
}

impl WaitingSessions {
    /// Collects the sessions with new events.
    pub(crate) fn observer(&self) -> Observer {
        let changed = self.changed.clone();
        Observer::new(move |session, _| lock(&changed).add(session))
    }

    /// Makes a session due that has changed without an event: it was deleted.
    pub(crate) fn note(&self, session: SessionId) {
        lock(&self.changed).add(session);
    }

    /// Begins an inspection: the result of the last one, with the changed sessions due. `is_shared`:
    /// other programs use the store too.
    pub(crate) async fn begin(&self, is_shared: bool, now: Instant) -> AsyncMutexGuard<'_, Known> {
        let mut known = self.known.lock().await;
        let changed = lock(&self.changed).take();
        known.due.extend(changed.sessions);
        let is_old = match known.read {
            Read::At(read) => is_shared && now.saturating_duration_since(read) >= OTHERS_AGE,
            Read::After(_) => false,
        };
        if is_old || !changed.is_complete {
            known.read = Read::After(None);
        }
        known
    }
}

impl Changed {
    fn add(&mut self, session: SessionId) {
        if self.is_complete {
            self.sessions.insert(session);
        }
        if self.sessions.len() > CHANGED {
            *self = Changed::default();
        }
    }

    /// Takes the sessions; from now on all changed ones are collected.
    fn take(&mut self) -> Changed {
        let collecting = Changed {
            is_complete: true,
            sessions: BTreeSet::new(),
        };
        std::mem::replace(self, collecting)
    }
}

impl Known {
    /// The page of sessions to read before the due ones are inspected; none: all are read.
    pub(crate) fn next_page(&self) -> Option<NextPage> {
        match self.read {
            Read::After(after) => Some(NextPage { after }),
            Read::At(_) => None,
        }
    }

    /// Adds those sessions of a page that may have open turns. `last` is the last session of the page;
    /// none: the page is empty.
    pub(crate) fn add_page(
        &mut self,
        unfinished: impl IntoIterator<Item = SessionId>,
        last: Option<SessionId>,
        now: Instant,
    ) {
        self.due.extend(unfinished);
        self.read = match last {
            Some(last) => Read::After(Some(last)),
            None => {
                // Of a session whose calls another program answered no event came here.
                self.due.extend(self.waiting.keys());
                Read::At(now)
            }
        };
    }

    pub(crate) fn next_due(&self) -> Option<SessionId> {
        self.due.first().copied()
    }

    /// Whether a session was inspected at its last event.
    pub(crate) fn is_current(&self, session: SessionId, seq: u64) -> bool {
        let known = self.waiting.get(&session);
        known.is_some_and(|known| known.seq == seq)
    }

    /// The session has been inspected, and its calls are as they were.
    pub(crate) fn keep(&mut self, session: SessionId) {
        self.due.remove(&session);
    }

    /// The session has been inspected: its waiting calls at its last event.
    pub(crate) fn set(&mut self, session: SessionId, seq: u64, calls: Vec<KnownCall>) {
        self.due.remove(&session);
        match calls.is_empty() {
            true => self.waiting.remove(&session),
            false => self.waiting.insert(session, Waiting { seq, calls }),
        };
    }

    /// The sessions with waiting calls, and the number of these calls.
    pub(crate) fn waiting(&self) -> Vec<(SessionId, usize)> {
        let each = self.waiting.iter();
        each.map(|(session, waiting)| (*session, waiting.calls.len()))
            .collect()
    }

    /// The positions of the waiting calls after this one, in their order, with their sessions.
    pub(crate) fn places_after(&self, after: Option<Place>) -> Vec<(Place, SessionId)> {
        let each = self.waiting.iter().flat_map(|(session, waiting)| {
            let calls = waiting.calls.iter();
            calls.map(|call| (call.place, *session))
        });
        let mut places: Vec<_> = each
            .filter(|(place, _)| after.is_none_or(|after| *place > after))
            .collect();
        places.sort_unstable();
        places
    }

    pub(crate) fn session_of(&self, call: CallId) -> Option<SessionId> {
        let mut each = self.waiting.iter();
        let found = each.find(|(_, waiting)| waiting.calls.iter().any(|known| known.id == call));
        found.map(|(session, _)| *session)
    }
}

fn lock(changed: &Mutex<Changed>) -> MutexGuard<'_, Changed> {
    changed.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use unisono_context::RunId;

    use super::*;

    fn id(n: u128) -> SessionId {
        SessionId::from_u128(n)
    }

    fn call(n: u128, asked_at: i64) -> KnownCall {
        let call = CallPlace {
            run: RunId::from_u128(n),
            round: 1,
            index: 0,
        };
        KnownCall {
            id: CallId::from_u128(n),
            place: Place {
                asked_at: Timestamp(asked_at),
                call,
            },
        }
    }

    /// Reads all sessions: those with open turns.
    fn read_all(known: &mut Known, unfinished: &[SessionId], now: Instant) {
        assert_eq!(known.next_page(), Some(NextPage { after: None }));
        known.add_page(unfinished.iter().copied(), Some(id(9)), now);
        let next = NextPage { after: Some(id(9)) };
        assert_eq!(known.next_page(), Some(next));
        known.add_page([], None, now);
        assert_eq!(known.next_page(), None);
    }

    #[tokio::test]
    async fn after_the_first_inspection_only_changed_sessions_are_due() {
        let (sessions, now) = (WaitingSessions::default(), Instant::now());
        lock(&sessions.changed).add(id(7));
        {
            let mut known = sessions.begin(false, now).await;
            read_all(&mut known, &[id(1), id(2)], now);
            assert_eq!(known.next_due(), Some(id(1)));
            known.set(id(1), 5, vec![call(1, 0), call(2, 0)]);
            known.set(id(2), 5, Vec::new());
            assert_eq!(
                (known.next_due(), known.waiting()),
                (None, vec![(id(1), 2)])
            );
        }
        for changed in [1, 3, 3] {
            lock(&sessions.changed).add(id(changed));
        }
        {
            let mut known = sessions.begin(false, now + OTHERS_AGE).await;
            assert_eq!((known.next_page(), known.next_due()), (None, Some(id(1))));
            assert!(known.is_current(id(1), 5) && !known.is_current(id(1), 6));
            known.keep(id(1));
            // The inspection is interrupted here.
            assert_eq!(known.next_due(), Some(id(3)));
        }
        let mut known = sessions.begin(false, now).await;
        assert_eq!(known.next_due(), Some(id(3)));
        known.set(id(3), 1, vec![call(3, 0)]);
        assert_eq!(known.waiting(), [(id(1), 2), (id(3), 1)]);
    }

    #[tokio::test]
    async fn sessions_of_other_programs_are_read_again_later() {
        let (sessions, now) = (WaitingSessions::default(), Instant::now());
        {
            let mut known = sessions.begin(true, now).await;
            read_all(&mut known, &[id(1)], now);
            known.set(id(1), 5, vec![call(1, 0)]);
        }
        let soon = sessions.begin(true, now).await.next_page();
        assert_eq!(soon, None);
        let mut known = sessions.begin(true, now + OTHERS_AGE).await;
        read_all(&mut known, &[], now);
        assert_eq!(known.next_due(), Some(id(1)), "its turn may have ended");
    }

    #[tokio::test]
    async fn with_too_many_changes_all_sessions_are_read_again() {
        let (sessions, now) = (WaitingSessions::default(), Instant::now());
        let mut known = sessions.begin(false, now).await;
        read_all(&mut known, &[], now);
        drop(known);
        for n in 0..=CHANGED as u128 {
            lock(&sessions.changed).add(id(n));
        }
        let known = sessions.begin(false, now).await;
        assert_eq!(known.next_page(), Some(NextPage { after: None }));
        assert_eq!(known.next_due(), None);
    }
    #[test]
    fn waiting_calls_are_in_the_order_of_their_requests_and_lead_to_their_sessions() {
        let mut known = Known::default();
        known.set(id(1), 5, vec![call(1, 10), call(2, 30)]);
        known.set(id(2), 5, vec![call(3, 20)]);
        let all = known.places_after(None);
        let sessions: Vec<SessionId> = all.iter().map(|(_, session)| *session).collect();
        assert_eq!(sessions, [id(1), id(2), id(1)]);
        let (second, _) = all[1];
        assert_eq!(second.to_string().parse::<Place>(), Ok(second));
        assert_eq!(known.places_after(Some(second)), all[2..]);
        assert_eq!(known.session_of(CallId::from_u128(3)), Some(id(2)));
        // It stays a position when its call is decided.
        known.set(id(2), 6, Vec::new());
        assert_eq!(known.session_of(CallId::from_u128(3)), None);
        assert_eq!(known.places_after(Some(second)), all[2..]);
    }
}
