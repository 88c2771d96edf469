//! Writes that go to disk together. Each is checked against the session's head, and then added to
//! the batch or refused at once.

use std::collections::HashMap;

use tokio::sync::oneshot;

use crate::admit;
use crate::disk::batch::Batch;
use crate::disk::log::{Log, SessionState};
use crate::disk::trees::Trees;
use crate::engine::{Append, Checkpoint, Claim, DELETED_USAGE, Deletion, SessionId, now_unix_ms};
use crate::error::{Error, Result};
use crate::row::{self, Hash, Head};

/// A write, and the sender for its answer.
#[derive(Debug)]
pub(super) enum Command {
    Claim {
        session: SessionId,
        reply: Reply<Claim>,
    },
    Append {
        append: Append,
        /// The payloads' hashes. The caller computes them, because the writer thread is shared by
        /// all.
        digests: Vec<Hash>,
        reply: Reply<Appended>,
    },
    PutCheckpoint {
        session: SessionId,
        epoch: u64,
        checkpoint: Checkpoint,
        reply: Reply<()>,
    },
    Delete {
        deletion: Deletion,
        reply: Reply<bool>,
    },
}

#[derive(Debug)]
pub(super) struct Appended {
    pub(super) last_seq: u64,
    /// The data of the request. The caller drops it where it was allocated, which is cheaper for
    /// the allocator and takes no time of the writer thread.
    _spent: (Vec<Vec<u8>>, Vec<Hash>),
}

pub(super) type Reply<T> = oneshot::Sender<Result<T>>;
/// Called once with the result of writing the group.
pub(super) type Waiter = Box<dyn FnOnce(Result<()>)>;

/// A group that is being assembled.
pub(super) struct Group<'a> {
    trees: &'a Trees,
    log: &'a Log,
    batch: &'a mut Batch,
    /// The state of the changed sessions after the group, with the locations of the group's own
    /// events only.
    pub(super) changes: HashMap<SessionId, SessionState>,
    /// The sessions of which only the checkpoint is changed.
    pub(super) checkpointed: Vec<SessionId>,
    pub(super) waiters: Vec<Waiter>,
}

impl<'a> Group<'a> {
    /// Creates a group that fills this empty batch, with capacity for this many writes.
    pub(super) fn new(trees: &'a Trees, log: &'a Log, batch: &'a mut Batch, room: usize) -> Self {
        Self {
            trees,
            log,
            batch,
            changes: HashMap::with_capacity(room),
            checkpointed: Vec::new(),
            waiters: Vec::with_capacity(room),
        }
    }

    /// The approximate number of bytes that it will write.
    pub(super) fn bytes(&self) -> usize {
        self.batch.bytes()
    }

    /// Checks a command and adds it, or answers it at once.
    pub(super) fn stage(&mut self, command: Command) {
        match command {
            Command::Claim { session, reply } => {
                let staged = self.claim(session);
                self.answer(reply, staged);
            }
            Command::Append {
                append,
                digests,
                reply,
            } => {
                let staged = self.append(append, digests);
                self.answer(reply, staged);
            }
            Command::PutCheckpoint {
                session,
                epoch,
                checkpoint,
                reply,
            } => {
                let staged = self.put_checkpoint(session, epoch, checkpoint);
                self.answer(reply, staged);
            }
            Command::Delete { deletion, reply } => {
                let staged = self.delete(deletion);
                self.answer(reply, staged);
            }
        }
    }

    /// Sends a refusal at once, and a success when the group is on disk.
    fn answer<T: Send + 'static>(&mut self, reply: Reply<T>, staged: Result<T>) {
        match staged {
            // The caller may no longer be waiting; the write is made nevertheless.
            Ok(value) => self.waiters.push(Box::new(move |written| {
                drop(reply.send(written.map(|()| value)));
            })),
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    /// The state of a session after the commands of this group so far.
    fn known(&self, session: SessionId) -> Result<Option<SessionState>> {
        match self.changes.get(&session) {
            Some(known) => Ok(Some(known.clone())),
            None => self.trees.pinned(session),
        }
    }

    /// Writes the head of a session, and sets its state.
    fn change(&mut self, session: SessionId, known: SessionState) -> Result<()> {
        self.batch.put_head(session, &known.written)?;
        self.changes.insert(session, known);
        Ok(())
    }

    fn claim(&mut self, session: SessionId) -> Result<Claim> {
        let before = self.known(session)?;
        let head = before.as_ref().map(|known| known.head.clone());
        let head = Head::claimed(session, head, now_unix_ms());
        let claim = head.claim();
        let known = match before {
            Some(mut known) if !known.head.deleted => {
                known.written.epoch = head.epoch;
                known.head = head;
                known
            }
            _ => SessionState::new(head),
        };
        self.change(session, known).map(|()| claim)
    }

    fn append(&mut self, append: Append, digests: Vec<Hash>) -> Result<Appended> {
        let mut known = admit::append(&append, self.known(append.session)?)?;
        let Append {
            session, payloads, ..
        } = append;
        let now = now_unix_ms();
        self.batch.make_room(&payloads);
        for (payload, digest) in payloads.iter().zip(&digests) {
            let (_, stamp) = known.head.push_digest(*digest, payload.len(), now);
            self.batch
                .put_event(self.log, session, &mut known, stamp, payload)?;
        }
        let last_seq = known.head.last_seq;
        self.changes.insert(session, known);
        Ok(Appended {
            last_seq,
            _spent: (payloads, digests),
        })
    }

    fn put_checkpoint(
        &mut self,
        session: SessionId,
        epoch: u64,
        checkpoint: Checkpoint,
    ) -> Result<()> {
        admit::checkpoint(session, epoch, checkpoint.seq, self.known(session)?)?;
        self.checkpointed.push(session);
        self.batch
            .put_checkpoint(self.log, session, epoch, checkpoint)
    }

    fn delete(&mut self, deletion: Deletion) -> Result<bool> {
        let session = deletion.session;
        let Some(SessionState { head, .. }) = admit::deletion(&deletion, self.known(session)?)?
        else {
            return Ok(false);
        };
        self.batch.remove(session, head.last_seq);
        let known = SessionState::new(head.deleted(session, now_unix_ms()));
        self.change(session, known)?;
        deletion
            .deleted_usage
            .map_or(Ok(()), |left| self.keep(left))?;
        Ok(true)
    }

    /// Adds the usage of a deleted session.
    fn keep(&mut self, deleted_usage: Vec<u8>) -> Result<()> {
        let known = self
            .known(DELETED_USAGE)?
            .filter(|known| !known.head.deleted);
        let claim = match known {
            Some(known) => known.head.claim(),
            None => self.claim(DELETED_USAGE)?,
        };
        let digests = vec![row::digest(&deleted_usage)];
        let append = Append::to(DELETED_USAGE, claim, deleted_usage);
        self.append(append, digests).map(drop)
    }
}

pub(super) fn refuse(command: Command, reason: &str) {
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
