//! The handle of the index: it receives committed messages, and searches.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot};
use unisono_context::SessionId;
use unisono_store::Journal;

use crate::answer::{Answer, Condition, FoundMessage, RecallResult, Scope};
use crate::branch::Branch;
use crate::cancel::CancelFlag;
use crate::committed::CommittedMessages;
use crate::error::{Error, Result};
use crate::find;
use crate::follow::{Command, Follower, off_thread};
use crate::index::Index;
use crate::query::Query;
use crate::recall;
use crate::shared::Shared;
use crate::writer::Writer;

/// Maximum queued commits. Further ones are read from the journal later.
const QUEUE: usize = 1_024;
/// The time that a search waits for current indexing.
const PATIENCE: Duration = Duration::from_secs(10);

/// Searches at the same time, a thread each; more wait for their turn.
const AT_A_TIME: usize = 4;

/// The index of a journal. Clones share it and are cheap.
#[derive(Clone, Debug)]
pub struct Search {
    commands: mpsc::Sender<Command>,
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
    follows: bool,
    /// Only sessions of this owner are searched.
    only: Option<Arc<str>>,
}

impl Search {
    /// The index in this directory, for this process only. It is opened, checked and updated in the
    /// background. Must be called on an async runtime.
    pub fn on_disk(journal: Journal, directory: PathBuf) -> Search {
        Search::start(journal, Some(directory))
    }

    /// An index in memory, which indexes sessions when they are searched. Must be called on an
    /// async runtime.
    pub fn in_memory(journal: Journal) -> Search {
        Search::start(journal, None)
    }

    fn start(journal: Journal, directory: Option<PathBuf>) -> Search {
        let (commands, queue) = mpsc::channel(QUEUE);
        let shared = Arc::new(Shared::default());
        let follows = directory.is_some();
        let follower = Follower {
            journal,
            directory,
            shared: shared.clone(),
            writer: None,
            due: None,
            rest_until: None,
            full: None,
            collected: Vec::new(),
        };
        tokio::spawn(follower.run(queue));
        Search {
            commands,
            shared,
            places: Arc::new(Semaphore::new(AT_A_TIME)),
            follows,
            only: None,
        }
    }

    /// The same index, limited to the sessions of one owner.
    #[must_use]
    pub fn of_owner(&self, owner: Arc<str>) -> Search {
        Search {
            only: Some(owner),
            ..self.clone()
        }
    }

    /// Whether it needs notices of commits.
    pub fn follows(&self) -> bool {
        self.follows
    }

    /// Reports a commit. Never waits and never fails.
    pub fn committed(&self, committed: CommittedMessages) {
        if self.follows {
            let bytes = committed.text_bytes();
            let has_room = self.shared.add_waiting(bytes);
            let command = Command::Committed(committed, bytes);
            if !has_room || self.commands.try_send(command).is_err() {
                self.shared.remove_waiting(bytes);
                self.shared.behind.store(true, Ordering::Release);
            }
        }
        self.shared.report();
    }

    /// Reports that a session was deleted. Never waits and never fails.
    pub fn removed(&self, session: SessionId) {
        if self.commands.try_send(Command::Removed(session)).is_err() {
            self.shared.behind.store(true, Ordering::Release);
        }
        self.shared.report();
    }

    /// Waits until everything on disk is searchable; for an index in memory, only this session.
    ///
    /// # Errors
    /// The index cannot be written, or is closed.
    pub async fn settle(&self, session: Option<SessionId>) -> Result<()> {
        if self.shared.is_settled() {
            return Ok(());
        }
        let (reply, settled) = oneshot::channel();
        let reported = self.shared.reported();
        let command = Command::Settle {
            session,
            reported,
            reply,
        };
        self.commands
            .send(command)
            .await
            .map_err(|_| Error::Closed)?;
        settled.await.map_err(|_| Error::Closed)?
    }

    /// Removes all data of deleted sessions from the disk.
    ///
    /// # Errors
    /// The index cannot be written, or is closed.
    pub async fn purge(&self) -> Result<()> {
        let (reply, purged) = oneshot::channel();
        let sent = self.commands.send(Command::Purge(reply)).await;
        sent.map_err(|_| Error::Closed)?;
        purged.await.map_err(|_| Error::Closed)?
    }

    /// The best `limit` messages, limited to the named sessions, if any. The search ends when the
    /// future is dropped.
    ///
    /// # Errors
    /// The index cannot be read, or is closed.
    pub async fn find(
        &self,
        query: &Query,
        sessions: &[SessionId],
        limit: usize,
    ) -> Result<Answer> {
        let (query, sessions) = (query.clone().merged(), sessions.to_vec());
        let only = self.only.clone();
        let search = move |index: &Index, wanted: &CancelFlag| {
            find::find(index, &query, &sessions, only.as_deref(), limit, wanted)
        };
        let (found, missing) = self.ask(None, search).await?;
        let complete = missing.is_none();
        Ok(Answer { found, complete })
    }

    /// The best `limit` messages of a branch, up to its head, for an agent's question. The search
    /// ends when the future is dropped.
    ///
    /// # Errors
    /// The question is larger than a query may be, or the index cannot be read, is closed, or is
    /// not up to date.
    pub async fn recall(&self, branch: &Branch, text: &str, limit: usize) -> Result<RecallResult> {
        let session = branch.session;
        let (branch, question) = (branch.clone(), recall::question(text)?);
        let search = move |index: &Index, wanted: &CancelFlag| {
            recall::recall(index, &branch, question.clone(), limit, wanted)
        };
        match self.ask(Some(session), search).await? {
            (recalled, None) => Ok(recalled),
            (_, Some(why)) => Err(why),
        }
    }

    /// The best `limit` messages of one session or of all sessions of an owner, for an agent's
    /// question: messages with more of its words come first. The search ends when the future is
    /// dropped.
    ///
    /// # Errors
    /// The question is larger than a query may be, or the index cannot be read, is closed, or is
    /// not up to date.
    pub async fn recall_in(
        &self,
        scope: Scope,
        text: &str,
        limit: usize,
    ) -> Result<Vec<FoundMessage>> {
        let query = recall::question(text)?;
        if query.clauses.is_empty() {
            return Ok(Vec::new());
        }
        // An index in memory indexes everything if all sessions of an owner are searched.
        let (one, owner) = match scope {
            Scope::Session(session) => (Some(session), None),
            Scope::Owner(owner) => (None, Some(owner)),
        };
        let search = move |index: &Index, wanted: &CancelFlag| {
            let only: Vec<SessionId> = one.into_iter().collect();
            let mut query = query.clone();
            if !query.mentions.is_empty() {
                query.reference = find::newest_day(index, &only, owner.as_deref(), wanted)?;
            }
            find::find(index, &query, &only, owner.as_deref(), limit, wanted)
        };
        match self.ask(one, search).await? {
            (found, None) => Ok(found),
            (_, Some(why)) => Err(why),
        }
    }

    /// The condition of the index, once it is up to date.
    ///
    /// # Errors
    /// The index cannot be read or written, or is closed.
    pub async fn condition(&self) -> Result<Condition> {
        self.settle(None).await?;
        let index = self.shared.index().ok_or(Error::Closed)?;
        let rebuilt_because = self.shared.rebuild_reason();
        off_thread(move || {
            let sessions = index.cursors()?.len() as u64;
            Ok(Condition {
                sessions,
                messages: index.searcher().num_docs().saturating_sub(sessions),
                rebuilt_because,
            })
        })
        .await?
    }

    /// Commits the indexed messages and closes the directory. The rest is indexed after the next
    /// opening.
    pub async fn close(&self) {
        self.shared.closing.store(true, Ordering::Release);
        let (reply, closed) = oneshot::channel();
        if self.commands.send(Command::Close(reply)).await.is_ok() {
            // Uncommitted messages are indexed again later.
            let _ = tokio::time::timeout(PATIENCE, closed).await;
        }
    }

    /// Searches when everything is indexed, or searches the committed part and returns why the rest
    /// is missing. A damaged index is rebuilt and searched again.
    async fn ask<T: Send + 'static>(
        &self,
        session: Option<SessionId>,
        search: impl Fn(&Index, &CancelFlag) -> Result<T> + Clone + Send + 'static,
    ) -> Result<(T, Option<Error>)> {
        for again in [true, false] {
            let missing = match tokio::time::timeout(PATIENCE, self.settle(session)).await {
                Ok(Err(Error::Behind)) if again => continue,
                Ok(Err(Error::Closed)) => return Err(Error::Closed),
                Ok(settled) => settled.err(),
                Err(_) => Some(Error::Behind),
            };
            let Some(index) = self.shared.index() else {
                return Err(missing.unwrap_or(Error::Behind));
            };
            let search = search.clone();
            let place = self.places.clone().acquire_owned().await;
            let (wanted, _waiting) = CancelFlag::new();
            let searching = move || {
                let _place = place;
                search(&index, &wanted)
            };
            match off_thread(searching).await? {
                Err(Error::Damaged { reason }) if again => {
                    let distrust = Command::Distrust(reason);
                    self.commands
                        .send(distrust)
                        .await
                        .map_err(|_| Error::Closed)?;
                    self.shared.report();
                }
                done => return Ok((done?, missing)),
            }
        }
        Err(Error::Behind)
    }
}

/// Frees the space of removed documents. Blocking; no other process may use the index.
///
/// # Errors
/// It cannot be read or written.
pub fn compact(directory: &Path) -> Result<()> {
    if !directory.exists() {
        return Ok(());
    }
    let (index, _) = Index::open(directory)?;
    Writer::open(index)?.compact()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};
    use std::thread;
    use std::time::Instant;

    use tokio::sync::mpsc::unbounded_channel;
    use unisono_context::message::{NewMessage, Role};
    use unisono_context::{MessageId, Timestamp, Tree};
    use unisono_store::Memory;

    use super::*;
    use crate::committed::PlacedMessage;
    use crate::shared::WAITING_BYTES;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_search_waits_only_for_what_was_reported() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::new(Arc::new(Memory::new()));
        let search = Search::on_disk(journal, dir.path().join("search"));
        let is_settled = || {
            let mut now = Context::from_waker(Waker::noop());
            let settled = pin!(search.settle(None)).poll(&mut now);
            settled.is_ready()
        };
        assert!(!is_settled(), "it is not open yet");
        search.settle(None).await.unwrap();
        assert!(is_settled());
        search.removed(SessionId::from_u128(1));
        assert!(!is_settled(), "the removal is not committed yet");
        search.settle(None).await.unwrap();
        assert!(is_settled());
        search.close().await;
        assert!(matches!(search.settle(None).await, Err(Error::Closed)));
    }

    #[tokio::test]
    async fn few_bytes_wait_for_the_index() {
        let (commands, mut queue) = mpsc::channel(QUEUE);
        let search = Search {
            commands,
            shared: Arc::default(),
            places: Arc::new(Semaphore::new(AT_A_TIME)),
            follows: true,
            only: None,
        };
        let text = "a".repeat(WAITING_BYTES / 2);
        let id = MessageId::from_u128(1);
        let mut tree = Tree::default();
        let message = NewMessage::text(id, Role::User, &*text, Timestamp(1));
        tree.append(None, message).unwrap();
        let placed = tree.iter().map(|node| PlacedMessage {
            message: node.message.clone(),
            strand: node.strand(),
            owner: None,
        });
        let committed = CommittedMessages {
            session: SessionId::from_u128(1),
            seq: 2,
            from: 0,
            messages: placed.collect(),
        };
        let is_behind = || search.shared.behind.swap(false, Ordering::AcqRel);
        for behind in [false, false, true] {
            search.committed(committed.clone());
            assert_eq!(is_behind(), behind);
        }
        assert_eq!(queue.len(), 2);
        let Some(Command::Committed(_, bytes)) = queue.recv().await else {
            panic!("nothing waits");
        };
        search.shared.remove_waiting(bytes);
        search.committed(committed);
        assert!(!is_behind());
    }

    #[test]
    fn a_search_ends_when_nobody_waits_for_it_any_more() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let search = Search::in_memory(Journal::new(Arc::new(Memory::new())));
            let (begin, mut begun) = unbounded_channel();
            let (end, mut ended) = unbounded_channel();
            let endless = move |_: &Index, wanted: &CancelFlag| {
                begin.send(()).unwrap();
                let start = Instant::now();
                while wanted.check().is_ok() && start.elapsed() < PATIENCE {
                    thread::yield_now();
                }
                end.send(wanted.check().is_err()).unwrap();
                Ok(())
            };
            let asked = search.clone();
            let asking = tokio::spawn(async move { asked.ask(None, endless).await });
            begun.recv().await.unwrap();
            asking.abort();
            assert!(ended.recv().await.unwrap(), "it went on");
        });
    }
}
