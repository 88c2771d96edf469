//! The follower: a task that indexes committed messages and commits the index periodically.
//!
//! Its queue is bounded and nobody waits for a place in it: messages that do not fit are dropped,
//! and the journal is read instead. Failures here affect no append and no turn; the index is
//! repaired later, or rebuilt.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use unisono_context::SessionId;
use unisono_store::Journal;

use crate::committed::CommittedMessages;
use crate::directory::remove;
use crate::error::{Error, Result};
use crate::index::{Cursor, Index};
use crate::shared::Shared;
use crate::writer::Writer;

/// The time before indexed messages and removed sessions are committed, for each live program on the store:
/// a kill loses no more, and the next opening finds both. A search commits before it reads. Each commit costs
/// several syncs, and nearly the same processor time for few and many messages; daemons on one machine share
/// its disk, often with the database.
const COMMIT_AFTER: Duration = Duration::from_secs(5);
const COMMIT_AT_MOST: Duration = Duration::from_secs(30);
/// After a failure of the disk, the next try is not made before this.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(5);

pub(crate) enum Command {
    /// Messages, and the bytes of their texts.
    Committed(CommittedMessages, usize),
    Removed(SessionId),
    /// Removes all data of deleted sessions from the disk.
    Purge(oneshot::Sender<Result<()>>),
    /// Indexes everything, at least of this session, and makes it searchable. `reported` is the number
    /// of reports before it.
    Settle {
        session: Option<SessionId>,
        reported: u64,
        reply: oneshot::Sender<Result<()>>,
    },
    /// Rebuilds the index: a search found damage.
    Distrust(String),
    Close(oneshot::Sender<()>),
}

/// The only writer of the index.
pub(crate) struct Follower {
    pub(crate) journal: Journal,
    /// Its directory; none: in memory, created on first use.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) writer: Option<Writer>,
    /// The time of the next commit.
    pub(crate) due: Option<Instant>,
    /// Not before this is another try made.
    pub(crate) rest_until: Option<Instant>,
    /// Set while the disk is full: earlier commits stay intact.
    pub(crate) full: Option<Error>,
    /// What is added with the next commit.
    pub(crate) collected: Vec<CommittedMessages>,
}

impl Follower {
    /// Works until it is closed, or all senders are dropped.
    pub(crate) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        if self.directory.is_some() {
            let opened = self.settle(None).await;
            self.note(opened).await;
        }
        loop {
            let command = match self.due {
                Some(due) => tokio::time::timeout_at(due, commands.recv()).await,
                None => Ok(commands.recv().await),
            };
            // Everything else concerns what was committed before it.
            if !matches!(command, Ok(Some(Command::Committed(..)))) {
                let added = self.add_collected().await;
                self.note(added).await;
            }
            let done = match command {
                Err(_) => self.commit().await,
                Ok(None) => break,
                Ok(Some(Command::Close(reply))) => {
                    let committed = self.commit().await;
                    self.note(committed).await;
                    self.drop_writer().await;
                    // The caller may no longer wait.
                    let _ = reply.send(());
                    return;
                }
                Ok(Some(Command::Committed(committed, bytes))) => {
                    self.shared.remove_waiting(bytes);
                    self.collect(committed).await
                }
                Ok(Some(Command::Removed(session))) => self.removed(session).await,
                Ok(Some(Command::Purge(reply))) => {
                    let purged = self.purge().await;
                    answer(reply, purged)
                }
                Ok(Some(Command::Distrust(reason))) => Err(Error::Damaged { reason }),
                Ok(Some(Command::Settle {
                    session,
                    reported,
                    reply,
                })) => {
                    let settled = self.settle(session).await;
                    if settled.is_ok() && self.hears_of_all() {
                        self.shared.set_settled(Some(reported));
                    }
                    answer(reply, settled)
                }
            };
            self.note(done).await;
        }
        let committed = self.commit().await;
        self.note(committed).await;
        self.drop_writer().await;
    }

    /// Rebuilds the index after damage. After any other failure committed data stays searchable;
    /// indexing is retried later and reads uncommitted messages from the journal.
    async fn note(&mut self, done: Result<()>) {
        let Err(error) = done else { return };
        if error.is_disk_full() && self.still_full().is_some() {
            return;
        }
        tracing::warn!(%error, "the search index does not follow");
        self.shared.behind.store(true, Ordering::Release);
        self.collected.clear();
        self.due = None;
        self.drop_writer().await;
        if matches!(error, Error::Damaged { .. }) {
            self.shared.publish(None);
            if let Some(directory) = self.directory.clone() {
                self.shared.set_rebuild_reason(error.to_string());
                if let Ok(Err(error)) = off_thread(move || remove(&directory)).await {
                    tracing::warn!(%error, "the damaged search index is in the way");
                }
            }
        }
        self.full = error.is_disk_full().then_some(error);
        self.rest_until = Some(Instant::now() + TRY_AGAIN_AFTER);
    }

    fn rests(&self) -> bool {
        self.rest_until.is_some_and(|until| Instant::now() < until)
    }

    /// The disk was full a moment ago: indexing would fail again.
    fn still_full(&self) -> Option<Error> {
        let full = self.full.as_ref().filter(|_| self.rests());
        full.map(Error::copy)
    }

    async fn drop_writer(&mut self) {
        if let Some(writer) = self.writer.take() {
            // Ends threads, which takes time.
            let _ = off_thread(move || drop(writer)).await;
        }
    }

    /// Whether all commits are reported to it: those of other programs are not, and an index in memory
    /// gets no reports.
    fn hears_of_all(&self) -> bool {
        self.directory.is_some() && self.journal.cluster().is_none()
    }

    /// Indexes missing messages and commits: everything, or only this session for an index in
    /// memory.
    async fn settle(&mut self, session: Option<SessionId>) -> Result<()> {
        self.shared.set_settled(None);
        if let Some(full) = self.still_full() {
            return Err(full);
        }
        self.open().await?;
        let must_read = !self.hears_of_all();
        match session {
            Some(session) if must_read => self.index_session(session).await?,
            _ if self.shared.behind.swap(false, Ordering::AcqRel) || must_read => {
                self.sweep().await?;
            }
            _ => {}
        }
        self.commit().await
    }

    /// Opens the index, unless it is open. The missing messages are then unknown.
    async fn open(&mut self) -> Result<()> {
        if self.writer.is_some() {
            return Ok(());
        }
        let directory = self.directory.clone();
        let kept = self.full.take().and_then(|_| self.shared.index());
        let opened = off_thread(move || match (kept, &directory) {
            (Some(index), _) => Ok((index, None)),
            (None, Some(directory)) => Index::open(directory),
            (None, None) => Ok((Index::in_memory()?, None)),
        });
        let (index, rebuilt_because) = opened.await??;
        if let Some(reason) = rebuilt_because {
            self.shared.set_rebuild_reason(reason);
        }
        // It can be searched even if it cannot be written.
        self.shared.publish(Some(index.clone()));
        self.writer = Some(off_thread(move || Writer::open(index)).await??);
        self.shared.behind.store(true, Ordering::Release);
        self.rest_until = None;
        Ok(())
    }

    /// Indexes the committed messages of a session if they follow the indexed ones.
    pub(crate) async fn committed(&mut self, committed: CommittedMessages) -> Result<()> {
        let CommittedMessages {
            session,
            seq,
            from,
            mut messages,
        } = committed;
        if self.writer.is_none() {
            return match self.rests() {
                true => Ok(()),
                false => self.settle(None).await,
            };
        }
        let cursor = match self.cursor(session) {
            Some(cursor) => cursor,
            None if from == 0 => match self.info(session).await? {
                Some(info) => Cursor::start(info.created_unix_ms),
                // Deleted meanwhile.
                None => return Ok(()),
            },
            None => return self.index_session(session).await,
        };
        let Some(known) = cursor.messages.checked_sub(from as u64) else {
            return self.index_session(session).await;
        };
        messages.drain(
            ..messages
                .len()
                .min(usize::try_from(known).unwrap_or(usize::MAX)),
        );
        let some = !messages.is_empty();
        // A long import does not hold up the end of the program: the rest is read from the journal.
        if some && !self.add_parts(session, cursor, messages).await? {
            self.shared.behind.store(true, Ordering::Release);
            return Ok(());
        }
        let cursor = self.cursor(session).unwrap_or(cursor);
        // No commit of its own is needed: the next one includes it.
        if let Some(writer) = &mut self.writer {
            let seq = seq.max(cursor.seq);
            writer.set(session, Cursor { seq, ..cursor });
        }
        if some {
            self.commit_later();
        }
        Ok(())
    }

    pub(crate) fn commit_later(&mut self) {
        if self.due.is_none() {
            let cluster = self.journal.cluster();
            let alive = cluster.map_or(1, |cluster| cluster.beats().borrow().alive);
            self.due = Some(Instant::now() + commit_after(alive));
        }
    }

    /// Removes a deleted session with the next commit: each one starts a thread of the writer.
    async fn removed(&mut self, session: SessionId) -> Result<()> {
        if self.writer.is_some() {
            self.write(move |writer| writer.remove(session)).await?;
            self.commit_later();
        }
        Ok(())
    }

    /// Indexes missing messages, so that removals are known, and rewrites the index.
    async fn purge(&mut self) -> Result<()> {
        if self.directory.is_none() {
            return Ok(());
        }
        self.shared.behind.store(true, Ordering::Release);
        self.settle(None).await?;
        self.write(Writer::purge).await
    }

    pub(crate) fn cursor(&self, session: SessionId) -> Option<Cursor> {
        self.writer.as_ref()?.cursor(session)
    }

    /// Commits, on a thread only if there is something to commit: each search settles the index first.
    pub(crate) async fn commit(&mut self) -> Result<()> {
        self.due = None;
        let has_changes = self.writer.as_ref().is_some_and(Writer::has_changes);
        if !has_changes {
            return Ok(());
        }
        self.write(Writer::commit).await
    }

    /// Runs the writer on a thread. After a failure it is dropped, with its uncommitted changes.
    pub(crate) async fn write(
        &mut self,
        work: impl FnOnce(&mut Writer) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let Some(mut writer) = self.writer.take() else {
            return Err(Error::Closed);
        };
        let working = off_thread(move || {
            let done = work(&mut writer);
            (done.is_ok().then_some(writer), done)
        });
        let (writer, done) = working.await?;
        self.writer = writer;
        done
    }
}

/// The time between two commits if so many programs use the store: together they commit as often as one.
fn commit_after(alive: usize) -> Duration {
    let alive = u32::try_from(alive.max(1)).unwrap_or(u32::MAX);
    COMMIT_AFTER.saturating_mul(alive).min(COMMIT_AT_MOST)
}

/// Runs a blocking function on a thread.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Damaged {
        reason: error.to_string(),
    })
}

/// Answers a caller, who may have stopped waiting.
fn answer(reply: oneshot::Sender<Result<()>>, done: Result<()>) -> Result<()> {
    let _ = reply.send(done.as_ref().copied().map_err(Error::copy));
    done
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use unisono_context::message::NewMessage;
    use unisono_context::{MessageId, Part, Role, Timestamp};
    use unisono_session::{Event, Fact, State};
    use unisono_store::Memory;

    use super::*;

    const MESSAGES: usize = 1_500;

    #[test]
    fn the_programs_on_a_store_together_commit_as_often_as_one() {
        for (alive, seconds) in [(0, 5), (1, 5), (3, 15), (6, 30), (99, 30)] {
            assert_eq!(commit_after(alive).as_secs(), seconds, "{alive}");
        }
    }

    fn events(session: SessionId) -> Vec<Event> {
        let at = Timestamp(0);
        let id = |n: usize| MessageId::from_u128(n as u128);
        let said = |n: usize| Fact::Appended {
            branch: Some("main".into()),
            parent: (n > 1).then(|| id(n - 1)),
            message: NewMessage::text(id(n), Role::User, "a kestrel", at),
        };
        let created = Fact::Created {
            session,
            title: "a talk".into(),
            system: "".into(),
            labels: [].into(),
        };
        let facts = std::iter::once(created).chain((1..=MESSAGES).map(said));
        facts.map(|fact| Event { at, fact }).collect()
    }

    async fn written(events: &[Event]) -> (Journal, State) {
        let journal = Journal::new(Arc::new(Memory::new()));
        let session = SessionId::from_u128(1);
        let claim = journal.claim(session).await.unwrap();
        let appended = journal.append(session, claim.epoch, 0, events, 0);
        appended.await.unwrap();
        let mut state = State::default();
        events.iter().for_each(|event| state.apply(event).unwrap());
        (journal, state)
    }

    fn committed(state: &State) -> CommittedMessages {
        CommittedMessages {
            session: SessionId::from_u128(1),
            seq: state.events(),
            from: 0,
            messages: crate::PlacedMessage::messages_after(state, 0).collect(),
        }
    }

    fn follower(journal: Journal, directory: &Path) -> Follower {
        Follower {
            journal,
            directory: Some(directory.to_owned()),
            shared: Arc::default(),
            writer: None,
            due: None,
            rest_until: None,
            full: None,
            collected: Vec::new(),
        }
    }

    #[tokio::test]
    async fn an_index_without_changes_settles_without_another_thread() {
        let dir = tempfile::tempdir().unwrap();
        let mut follower = follower(Journal::new(Arc::new(Memory::new())), dir.path());
        follower.settle(None).await.unwrap();
        let mut now = Context::from_waker(Waker::noop());
        let settled = pin!(follower.settle(None)).poll(&mut now);
        assert!(matches!(settled, Poll::Ready(Ok(()))), "{settled:?}");
        follower.drop_writer().await;
    }

    #[tokio::test]
    async fn commits_are_added_together_and_a_gap_is_read_from_the_journal() {
        let (dir, session) = (tempfile::tempdir().unwrap(), SessionId::from_u128(1));
        let journal = Journal::new(Arc::new(Memory::new()));
        // The first event creates the session.
        let events = &events(session)[..31];
        let claim = journal.claim(session).await.unwrap();
        let append = async |from: usize, until: usize| {
            let events = &events[from..until];
            let appended = journal.append(session, claim.epoch, from as u64, events, 0);
            appended.await.unwrap();
        };
        append(0, 11).await;
        let mut follower = follower(journal.clone(), dir.path());
        follower.settle(None).await.unwrap();
        append(11, 31).await;
        let mut state = State::default();
        events.iter().for_each(|event| state.apply(event).unwrap());
        let commit = |from: usize| CommittedMessages {
            session,
            seq: from as u64 + 2,
            from,
            messages: crate::PlacedMessage::messages_after(&state, from)
                .take(1)
                .collect(),
        };
        let taken = |follower: &Follower| follower.cursor(session).unwrap();
        for from in 9..14 {
            follower.collect(commit(from)).await.unwrap();
        }
        assert_eq!(taken(&follower).messages, 10, "they are added one by one");
        assert!(follower.due.is_some());
        follower.add_collected().await.unwrap();
        let cursor = taken(&follower);
        let last = Some(MessageId::from_u128(14));
        assert_eq!((cursor.messages, cursor.seq, cursor.last), (14, 15, last));
        // Some were dropped.
        follower.collect(commit(20)).await.unwrap();
        follower.add_collected().await.unwrap();
        assert_eq!((taken(&follower).messages, taken(&follower).seq), (30, 31));
        follower.drop_writer().await;
    }

    #[tokio::test]
    async fn a_large_message_is_added_at_once() {
        let session = SessionId::from_u128(1);
        for (words, added) in [(1, 0), (10_000, 1)] {
            let dir = tempfile::tempdir().unwrap();
            let mut events = events(session);
            events.truncate(2);
            for event in &mut events {
                if let Fact::Appended { message, .. } = &mut event.fact {
                    message.parts = vec![Part::text("a kestrel ".repeat(words))];
                }
            }
            let (journal, state) = written(&events).await;
            let mut follower = follower(journal, dir.path());
            follower.open().await.unwrap();
            follower.collect(committed(&state)).await.unwrap();
            let taken = follower.cursor(session).map_or(0, |at| at.messages);
            assert_eq!(taken, added, "{words}");
            follower.drop_writer().await;
        }
    }

    #[tokio::test]
    async fn removed_sessions_share_a_commit() {
        let dir = tempfile::tempdir().unwrap();
        let mut follower = follower(Journal::new(Arc::new(Memory::new())), dir.path());
        follower.settle(None).await.unwrap();
        let committed = || std::fs::read(dir.path().join("meta.json")).unwrap();
        let before = committed();
        for n in 1..20 {
            follower.removed(SessionId::from_u128(n)).await.unwrap();
        }
        assert!(follower.due.is_some() && committed() == before);
        follower.commit().await.unwrap();
        assert!(follower.due.is_none() && committed() != before);
        follower.drop_writer().await;
    }

    #[tokio::test]
    async fn a_long_import_does_not_hold_up_the_end_and_is_taken_in_later() {
        let (dir, session) = (tempfile::tempdir().unwrap(), SessionId::from_u128(1));
        let events = events(session);
        let (journal, state) = written(&events).await;
        let mut follower = follower(journal, dir.path());
        follower.open().await.unwrap();
        follower.shared.behind.store(false, Ordering::Release);
        follower.shared.closing.store(true, Ordering::Release);
        follower.committed(committed(&state)).await.unwrap();
        let taken = |follower: &Follower| follower.cursor(session).map_or(0, |at| at.messages);
        assert_eq!(taken(&follower), 0, "the end is waited for");
        assert!(follower.shared.behind.load(Ordering::Acquire));
        follower.shared.closing.store(false, Ordering::Release);
        follower.settle(None).await.unwrap();
        assert_eq!(taken(&follower), MESSAGES as u64);
        follower.drop_writer().await;
    }
}
