//! What clients hold of a session.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use ractor::ActorRef;
use tokio::sync::{Semaphore, broadcast, oneshot};
use unisono_context::{CallId, MessageId, RunId, SessionId, TurnId};
use unisono_session::append::Appended;
use unisono_session::event::{RequestKey, Work};
use unisono_session::machine::{Append, Import, NewTurn, Preceding};
use unisono_session::run::calls::Decision;
use unisono_session::state::EndedTurn;
use unisono_session::{Input, Refusal, State};

use crate::address::ActorAddress;
use crate::runtime::{Env, Error};
use crate::supervisor;

use super::{Events, Following, Msg, Said};

/// A session that leaves memory or dies this often over one request is not to be had.
const ASKED_AT_MOST: u32 = 8;

/// What is being done.
#[derive(Clone, Debug)]
pub enum Progress {
    /// An agent's own words.
    Run {
        /// Its run.
        run: RunId,
        /// Its words.
        text: Arc<str>,
    },
    /// A piece of the reply that the model of a run is giving.
    Piece {
        /// The run.
        run: RunId,
        /// What comes next of it.
        text: Arc<str>,
    },
    /// How a compaction step goes on.
    Compaction {
        /// The turn.
        turn: TurnId,
        /// What is being done, or what did not work.
        text: Arc<str>,
        /// Whether something did not work.
        trouble: bool,
    },
}

/// Where a session is found.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) address: ActorAddress<Msg>,
    pub(crate) permits: Arc<Semaphore>,
}

/// A session, live or not: a request to one that left memory brings it back.
#[derive(Clone, Debug)]
pub struct Handle {
    id: SessionId,
    address: ActorAddress<Msg>,
    permits: Arc<Semaphore>,
    supervisor: ActorRef<supervisor::Msg>,
    env: Arc<Env>,
}

impl Handle {
    pub(crate) fn new(
        id: SessionId,
        entry: Entry,
        supervisor: ActorRef<supervisor::Msg>,
        env: Arc<Env>,
    ) -> Handle {
        Handle {
            id,
            address: entry.address,
            permits: entry.permits,
            supervisor,
            env,
        }
    }

    /// The session's id.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Waits until the session has left memory, and its supervisor has forgotten it.
    #[cfg(test)]
    pub(crate) async fn left_memory(&self) {
        self.address.given_up().await;
    }

    pub(crate) async fn import(&self, import: Import) -> Result<(), Error> {
        self.request(Input::Import(import)).await
    }

    /// Hands in a turn. On disk when it returns; handing the same turn in again changes nothing.
    ///
    /// # Errors
    /// The turn is refused, too many requests or runs of its agents wait, or the store fails.
    pub async fn accept(&self, turn: NewTurn) -> Result<(), Error> {
        if matches!(turn.work, Work::Answer { .. }) {
            self.has_room(&turn)?;
        }
        self.request(Input::Accept(Box::new(turn))).await
    }

    /// The same under a key: asked again under it, the turn that it was first given to is kept.
    /// Gives the turn that is kept.
    ///
    /// # Errors
    /// Something else was asked for under the key, or as [`Handle::accept`].
    pub async fn accept_keyed(&self, key: RequestKey, turn: NewTurn) -> Result<TurnId, Error> {
        if matches!(turn.work, Work::Answer { .. }) {
            self.has_room(&turn)?;
        }
        let (id, name) = (turn.id, key.name.clone());
        let turn = Box::new(turn);
        self.request(Input::AcceptKeyed { key, turn }).await?;
        self.kept(id, name).await
    }

    /// Hands in a turn behind messages that are appended with it, under a key or without. All of it
    /// is on disk when it returns; where it is refused, nothing. Gives the turn that is kept.
    ///
    /// # Errors
    /// The branch does not end where the messages begin or is busy, or as
    /// [`Handle::accept_keyed`].
    pub async fn accept_after(
        &self,
        preceding: Preceding,
        key: Option<RequestKey>,
        turn: NewTurn,
    ) -> Result<TurnId, Error> {
        self.has_room(&turn)?;
        let (id, name) = (turn.id, key.as_ref().map(|key| key.name.clone()));
        let turn = Box::new(turn);
        self.request(Input::AcceptAfter {
            preceding,
            key,
            turn,
        })
        .await?;
        match name {
            Some(name) => self.kept(id, name).await,
            None => Ok(id),
        }
    }

    /// The turn that a key stands for, else the one of that id.
    async fn kept(&self, id: TurnId, name: Arc<str>) -> Result<TurnId, Error> {
        let look = move |state: &State| state.keyed(&name).map(|(_, turn)| turn);
        Ok(self.inspect(look).await?.unwrap_or(id))
    }

    /// The turn that was handed in under a key before, if one was.
    ///
    /// # Errors
    /// Something else was asked for under the key, or the session cannot be opened.
    pub async fn keyed(&self, key: &RequestKey) -> Result<Option<TurnId>, Error> {
        let name = key.name.clone();
        let look = move |state: &State| state.keyed(&name);
        match self.inspect(look).await? {
            Some((request, _)) if request != key.request => {
                Err(Refusal::KeyReused(key.name.clone()).into())
            }
            known => Ok(known.map(|(_, turn)| turn)),
        }
    }

    /// Whether the agents that surely work in a turn take more runs.
    fn has_room(&self, turn: &NewTurn) -> Result<(), Error> {
        let delegates = turn.team.delegates.iter().map(|delegate| &delegate.agent);
        let mut agents = std::iter::once(&turn.team.lead).chain(delegates);
        let full = agents.find_map(|agent| {
            let pool = self.env.pools.of(agent)?;
            Some((agent.id.clone(), pool.gauge.full_for()?))
        });
        full.map_or(Ok(()), |(agent, wait)| {
            Err(Error::Overloaded {
                agent,
                retry_after_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            })
        })
    }

    /// Appends a message without a turn. On disk when it returns; where a turn is open on its
    /// branch, it stands there once that has ended. Gives where it is.
    ///
    /// # Errors
    /// It is refused, something else was asked for under its key, or the store fails.
    pub async fn append(&self, new: Append) -> Result<Appended, Error> {
        let (id, key) = (new.message.id, new.key.clone());
        self.request(Input::Append(new)).await?;
        self.inspect(move |state| Appended::find(state, id, key.as_ref()))
            .await
    }

    /// Stops a turn and its runs. On disk when it returns.
    ///
    /// # Errors
    /// The turn is not open, or the store fails.
    pub async fn cancel(&self, turn: TurnId) -> Result<(), Error> {
        self.request(Input::Cancel { turn }).await
    }

    /// Stops a run and what it gave to others; the turn goes on without it, unless it is the
    /// lead's. On disk when it returns.
    ///
    /// # Errors
    /// The run is not open, or the store fails.
    pub async fn cancel_run(&self, run: RunId) -> Result<(), Error> {
        self.request(Input::CancelRun { run }).await
    }

    /// Takes what a person decided about a call that waits for them, with the name of who decided. On
    /// disk when it returns.
    ///
    /// # Errors
    /// No such call waits, it was decided about before, or the store fails.
    pub async fn decide(
        &self,
        call: CallId,
        decision: Decision,
        by: Option<Arc<str>>,
    ) -> Result<(), Error> {
        self.request(Input::Decide { call, decision, by }).await
    }

    /// Starts a branch at a message, or sets it there.
    ///
    /// # Errors
    /// The message does not exist, the branch is busy, or the store fails.
    pub async fn fork(&self, branch: &str, at: MessageId) -> Result<(), Error> {
        self.request(Input::Fork {
            branch: branch.into(),
            at,
        })
        .await
    }

    /// Pins messages of a branch, or takes their pins away: a pinned message always stands
    /// verbatim. On disk when it returns.
    ///
    /// # Errors
    /// A message is not on the branch, or the store fails.
    pub async fn pin(
        &self,
        branch: &str,
        messages: Vec<MessageId>,
        pinned: bool,
    ) -> Result<(), Error> {
        self.request(Input::Pin {
            branch: branch.into(),
            messages,
            pinned,
        })
        .await
    }

    /// Lets the current topic of a branch end.
    ///
    /// # Errors
    /// There is no topic to end, the branch is busy or unknown, or the store fails.
    pub async fn seal(&self, branch: &str) -> Result<(), Error> {
        let branch = branch.into();
        self.request(Input::Seal { branch }).await
    }

    /// Changes the session's own settings, which count for turns that are accepted from now on: by
    /// key, dotted, as on a command line; without a value it has none of its own any more. What they
    /// mean is not looked at. On disk when it returns.
    ///
    /// # Errors
    /// The store fails.
    pub async fn set(&self, changes: BTreeMap<Arc<str>, Option<Arc<str>>>) -> Result<(), Error> {
        self.request(Input::Set { changes }).await
    }

    /// Waits until a turn has ended and its end is on disk.
    ///
    /// # Errors
    /// There is no such turn, or the session is gone.
    pub async fn wait(&self, turn: TurnId) -> Result<EndedTurn, Error> {
        self.ask(|reply| Msg::Wait { turn, reply }).await?
    }

    /// Looks at the session's state, inside its actor: keep it short. It is told what was seen once
    /// all of that is on disk.
    ///
    /// # Errors
    /// The session cannot be opened.
    pub async fn inspect<T: Send + 'static>(
        &self,
        look: impl Fn(&State) -> T + Clone + Send + 'static,
    ) -> Result<T, Error> {
        let seen = Arc::new(Mutex::new(None));
        let slot = seen.clone();
        let make = move |reply| {
            let (look, seen) = (look.clone(), slot.clone());
            let look = move |state: &State| {
                *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(look(state));
            };
            Msg::Inspect(Box::new(look), reply)
        };
        self.ask(make).await??;
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.take().ok_or(Error::Unavailable("session"))
    }

    /// The session's durable events after sequence number `after` (0: all), and those to come.
    ///
    /// # Errors
    /// There is no such session any more, or the store fails.
    pub async fn events(&self, after: u64) -> Result<Events, Error> {
        Ok(self.follow(after).await?.0)
    }

    /// The same, and what is being done from now on. That is lossy: a slow listener misses some.
    /// Both end when the session is deleted. Following a session does not keep it in memory.
    ///
    /// # Errors
    /// There is no such session any more, or the store fails.
    pub async fn follow(&self, after: u64) -> Result<(Events, broadcast::Receiver<Said>), Error> {
        let (feed, following) = supervisor::follow(&self.supervisor, self.id).await?;
        if *following.durable.borrow() == 0 {
            // It is not in memory, or is being loaded.
            let engine = self.env.journal.engine();
            let known = engine.session(self.id.into()).await?;
            let known = known.ok_or(Error::UnknownSession(self.id))?;
            feed.is_durable(known.last_seq);
        }
        let Following {
            durable,
            recent,
            progress,
        } = following;
        let events = Events::new(self.env.clone(), self.id, after, durable, recent);
        Ok((events, progress))
    }

    async fn request(&self, input: Input) -> Result<(), Error> {
        let permit = self.permits.try_acquire();
        let _permit = permit.map_err(|_| Error::Busy(self.id))?;
        self.ask(|reply| Msg::Request {
            input: input.clone(),
            reply,
        })
        .await?
    }

    /// Asks the session. One that left memory, or died over the question, is brought back and
    /// asked again: every request may be made twice.
    async fn ask<T>(&self, make: impl Fn(oneshot::Sender<T>) -> Msg) -> Result<T, Error> {
        let mut address = self.address.clone();
        for _ in 0..ASKED_AT_MOST {
            let (reply, answer) = oneshot::channel();
            if address.send(make(reply)).await.is_ok()
                && let Ok(answer) = answer.await
            {
                return Ok(answer);
            }
            address = supervisor::activate(&self.supervisor, self.id)
                .await?
                .address;
        }
        Err(Error::Unavailable("session"))
    }
}
