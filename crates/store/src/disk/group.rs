//! Writes that go to disk together: each is checked against the session's head and taken into the
//! batch, or refused at once.

use std::collections::HashMap;

use tokio::sync::oneshot;

use crate::admit;
use crate::disk::batch::Batch;
use crate::disk::ledger::Extent;
use crate::disk::log::{Known, Log};
use crate::disk::trees::Trees;
use crate::engine::{Append, Checkpoint, Claim, SessionId, now_unix_ms};
use crate::error::{Error, Result};
use crate::row::{Hash, Head};

/// The record of a head is written with every so many events; the rest is read on from it.
const HEAD_EVERY: u64 = 32;

/// A write, and where its answer goes.
#[derive(Debug)]
pub(super) enum Command {
    Claim {
        session: SessionId,
        reply: Reply<Claim>,
    },
    Append {
        append: Append,
        /// The payloads' hashes, made by the asker: the writer's time is everybody's.
        digests: Vec<Hash>,
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

pub(super) type Reply<T> = oneshot::Sender<Result<T>>;
/// Told once whether the group is on disk.
pub(super) type Waiter = Box<dyn FnOnce(Result<()>)>;

/// A group in the making.
pub(super) struct Group<'a> {
    trees: &'a Trees,
    log: &'a Log,
    pub(super) batch: Batch,
    pub(super) changes: HashMap<SessionId, Change>,
    pub(super) waiters: Vec<Waiter>,
}

/// What a group does to a session's head.
pub(super) struct Change {
    pub(super) before: Option<Known>,
    pub(super) after: Known,
}

impl<'a> Group<'a> {
    pub(super) fn new(trees: &'a Trees, log: &'a Log) -> Self {
        let (changes, waiters) = (HashMap::new(), Vec::new());
        Self {
            trees,
            log,
            batch: Batch::default(),
            changes,
            waiters,
        }
    }

    /// Checks a command and takes it in, or answers it at once.
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
            Command::Delete { session, reply } => {
                let staged = self.delete(session);
                self.answer(reply, staged);
            }
        }
    }

    /// A refusal goes out at once, a success when the group is on disk.
    fn answer<T: Send + 'static>(&mut self, reply: Reply<T>, staged: Result<T>) {
        match staged {
            // The asker may have gone; the write is made all the same.
            Ok(value) => self.waiters.push(Box::new(move |written| {
                drop(reply.send(written.map(|()| value)));
            })),
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    fn known(&self, session: SessionId) -> Result<Option<Known>> {
        match self.changes.get(&session) {
            Some(change) => Ok(Some(change.after.clone())),
            None => self.trees.known(session),
        }
    }

    fn head(&self, session: SessionId) -> Result<Option<Head>> {
        Ok(self.known(session)?.map(|known| known.head))
    }

    /// Puts a session's new head, and its record if that has to be written.
    fn change(&mut self, session: SessionId, head: Head) -> Result<()> {
        let before = self.known(session)?;
        let now = Extent::of(&head);
        let written = before
            .as_ref()
            .map(|known| known.written)
            .filter(|written| {
                (written.epoch, written.deleted) == (now.epoch, now.deleted)
                    && now.last_seq < written.last_seq + HEAD_EVERY
            });
        if written.is_none() {
            self.batch.put_head(session, &head)?;
        }
        let after = Known {
            head,
            written: written.unwrap_or(now),
        };
        match self.changes.get_mut(&session) {
            Some(change) => change.after = after,
            None => drop(self.changes.insert(session, Change { before, after })),
        }
        Ok(())
    }

    fn claim(&mut self, session: SessionId) -> Result<Claim> {
        let head = Head::claimed(session, self.head(session)?, now_unix_ms());
        let claim = head.claim();
        self.change(session, head).map(|()| claim)
    }

    fn append(&mut self, append: Append, digests: Vec<Hash>) -> Result<u64> {
        let mut head = admit::append(&append, self.head(append.session)?)?;
        let Append {
            session, payloads, ..
        } = append;
        let now = now_unix_ms();
        for (payload, digest) in payloads.into_iter().zip(digests) {
            let event = head.push_digest(digest, payload.len(), now);
            self.batch.put_event(self.log, session, event, payload)?;
        }
        let last_seq = head.last_seq;
        self.change(session, head).map(|()| last_seq)
    }

    fn put_checkpoint(
        &mut self,
        session: SessionId,
        epoch: u64,
        checkpoint: Checkpoint,
    ) -> Result<()> {
        admit::checkpoint(session, epoch, checkpoint.seq, self.head(session)?)?;
        self.batch
            .put_checkpoint(self.log, session, epoch, checkpoint)
    }

    fn delete(&mut self, session: SessionId) -> Result<bool> {
        let Some(head) = self.head(session)?.filter(|head| !head.deleted) else {
            return Ok(false);
        };
        self.batch.remove(session, head.last_seq);
        self.change(session, head.deleted(session, now_unix_ms()))
            .map(|()| true)
    }
}

/// Answers a command without doing it.
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
