//! The only writer: a thread behind a bounded queue.
//!
//! It takes all that is queued (no timer: what arrives during a sync is the next group), checks each
//! command against the heads, applies the good ones as one atomic batch, flushes, syncs the log file,
//! and only then answers. sled is flushed from this thread alone. If any of it fails, the store is
//! read-only from then on: after a failed sync nobody knows what is on disk, so it is never retried.

use std::collections::HashMap;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use crate::disk::batch::Batch;
use crate::disk::files;
use crate::disk::ledger::{Extent, Ledger};
use crate::disk::trees::{Log, Trees, panic_text};
use crate::engine::{Append, Checkpoint, Claim, SessionId, now_unix_ms};
use crate::error::{Error, Result};
use crate::row::{self, Head};

/// A group takes no further command beyond this many bytes.
const GROUP_LIMIT_BYTES: usize = 16 << 20;

/// A write, and where its answer goes.
#[derive(Debug)]
pub(super) enum Command {
    Claim {
        session: SessionId,
        reply: Reply<Claim>,
    },
    Append {
        append: Append,
        reply: Reply<u64>,
    },
    PutCheckpoint {
        session: SessionId,
        epoch: u64,
        checkpoint: Checkpoint,
        reply: Reply<()>,
    },
    Delete {
        session: SessionId,
        reply: Reply<bool>,
    },
}

type Reply<T> = oneshot::Sender<Result<T>>;
/// Told once whether the group is on disk.
type Waiter = Box<dyn FnOnce(Result<()>)>;

/// The writer thread's state.
pub(super) struct Writer {
    trees: Arc<Trees>,
    log_file: File,
    ledger: Ledger,
    queue: mpsc::Receiver<Command>,
}

/// Commands that go to disk together.
#[derive(Default)]
struct Group {
    batch: Batch,
    /// Heads as this group leaves them.
    heads: HashMap<SessionId, Head>,
    /// Last events as this group found them.
    before: HashMap<SessionId, u64>,
    waiters: Vec<Waiter>,
}

impl Writer {
    /// Starts the thread. It ends when all senders of the queue are gone.
    pub(super) fn start(
        trees: Arc<Trees>,
        queue: mpsc::Receiver<Command>,
    ) -> Result<JoinHandle<()>> {
        let path = files::data(&trees.root).join("db");
        let log_file = File::open(&path).map_err(|error| Error::io("open", &path, error))?;
        let ledger = Ledger::open(&trees.root)?;
        let root = trees.root.clone();
        let writer = Self {
            trees,
            log_file,
            ledger,
            queue,
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || writer.run());
        thread.map_err(|error| Error::io("start the writer thread of", &root, error))
    }

    fn run(mut self) {
        while let Some(first) = self.queue.blocking_recv() {
            if let Some(reason) = self.trees.read_only() {
                refuse(first, &reason);
                continue;
            }
            // A panic drops the group's replies; their askers then see why the store is closed.
            let trees = Arc::clone(&self.trees);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.serve(first))) {
                trees.set_read_only(format!(
                    "the storage engine panicked: {}",
                    panic_text(panic.as_ref())
                ));
            }
        }
    }

    fn serve(&mut self, first: Command) {
        let trees = Arc::clone(&self.trees);
        let Ok(log) = trees.log() else { return };
        let mut group = Group::default();
        group.stage(log, first);
        while group.batch.bytes() < GROUP_LIMIT_BYTES {
            let Ok(command) = self.queue.try_recv() else {
                break;
            };
            group.stage(log, command);
        }
        if !group.waiters.is_empty() {
            self.commit(log, group);
        }
    }

    fn commit(&mut self, log: &Log, group: Group) {
        let Group {
            batch,
            heads,
            before,
            waiters,
        } = group;
        self.trees.hide(before);
        // A panic in here must be known as the reason before the waiters hear of it.
        let written = catch_unwind(AssertUnwindSafe(|| self.write(log, batch)));
        let written = written.unwrap_or_else(|panic| {
            Err(format!(
                "the storage engine panicked: {}",
                panic_text(panic.as_ref())
            ))
        });
        match written {
            Ok(()) => {
                self.ledger.note(
                    heads
                        .iter()
                        .map(|(session, head)| (*session, Extent::of(head))),
                );
                self.trees.reveal();
                waiters.into_iter().for_each(|waiter| waiter(Ok(())));
            }
            Err(reason) => {
                self.trees.set_read_only(reason.clone());
                waiters.into_iter().for_each(|waiter| {
                    waiter(Err(Error::ReadOnly {
                        reason: reason.clone(),
                    }))
                });
            }
        }
    }

    fn write(&self, log: &Log, batch: Batch) -> Result<(), String> {
        batch
            .apply(log)
            .map_err(|error| format!("a write to the log failed ({error})"))?;
        log.db
            .flush()
            .map_err(|error| format!("a flush of the log failed ({error})"))?;
        self.log_file
            .sync_data()
            .map_err(|error| format!("a sync of the log failed ({error})"))
    }
}

impl Group {
    /// Checks a command and takes it into the group, or answers it at once.
    fn stage(&mut self, log: &Log, command: Command) {
        match command {
            Command::Claim { session, reply } => {
                let staged = self.claim(log, session);
                self.answer(reply, staged);
            }
            Command::Append { append, reply } => {
                let staged = self.append(log, append);
                self.answer(reply, staged);
            }
            Command::PutCheckpoint {
                session,
                epoch,
                checkpoint,
                reply,
            } => {
                let staged = self.put_checkpoint(log, session, epoch, checkpoint);
                self.answer(reply, staged);
            }
            Command::Delete { session, reply } => {
                let staged = self.delete(log, session);
                self.answer(reply, staged);
            }
        }
    }

    /// A refusal goes out at once, a success when the group is on disk.
    fn answer<T: Send + 'static>(&mut self, reply: Reply<T>, staged: Result<T>) {
        match staged {
            // The asker may have gone; the write is made all the same.
            Ok(value) => self.waiters.push(Box::new(move |written| {
                drop(reply.send(written.map(|()| value)))
            })),
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    fn head(&mut self, log: &Log, session: SessionId) -> Result<Option<Head>> {
        if let Some(head) = self.heads.get(&session) {
            return Ok(Some(head.clone()));
        }
        log.head(session)
    }

    /// Puts a session's new head; `found` is where the session stood before.
    fn set_head(&mut self, session: SessionId, found: u64, head: Head) -> Result<()> {
        self.batch.put_head(session, &head)?;
        self.before.entry(session).or_insert(found);
        self.heads.insert(session, head);
        Ok(())
    }

    fn claim(&mut self, log: &Log, session: SessionId) -> Result<Claim> {
        let before = self.head(log, session)?;
        let found = before.as_ref().map_or(0, |head| head.last_seq);
        let head = Head::claimed(session, before, now_unix_ms());
        let claim = head.claim();
        self.set_head(session, found, head)?;
        Ok(claim)
    }

    fn append(&mut self, log: &Log, append: Append) -> Result<u64> {
        let mut head = row::admit_append(&append, self.head(log, append.session)?)?;
        let Append {
            session,
            epoch,
            expected_seq,
            payloads,
        } = append;
        for payload in payloads {
            let (seq, previous) = head.push(&payload);
            self.batch
                .put_event(log, session, seq, epoch, previous, payload)?;
        }
        head.updated_unix_ms = now_unix_ms();
        let last_seq = head.last_seq;
        self.set_head(session, expected_seq, head)?;
        Ok(last_seq)
    }

    fn put_checkpoint(
        &mut self,
        log: &Log,
        session: SessionId,
        epoch: u64,
        checkpoint: Checkpoint,
    ) -> Result<()> {
        row::admit_checkpoint(session, epoch, checkpoint.seq, self.head(log, session)?)?;
        self.batch.put_checkpoint(log, session, epoch, checkpoint)
    }

    fn delete(&mut self, log: &Log, session: SessionId) -> Result<bool> {
        let Some(head) = self.head(log, session)?.filter(|head| !head.deleted) else {
            return Ok(false);
        };
        let found = head.last_seq;
        self.batch.remove(session, found);
        self.set_head(session, found, head.deleted(session, now_unix_ms()))?;
        Ok(true)
    }
}

fn refuse(command: Command, reason: &str) {
    let error = || Error::ReadOnly {
        reason: reason.to_owned(),
    };
    match command {
        Command::Claim { reply, .. } => drop(reply.send(Err(error()))),
        Command::Append { reply, .. } => drop(reply.send(Err(error()))),
        Command::PutCheckpoint { reply, .. } => drop(reply.send(Err(error()))),
        Command::Delete { reply, .. } => drop(reply.send(Err(error()))),
    }
}
