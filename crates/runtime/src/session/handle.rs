//! The handle of a session for clients.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use ractor::ActorRef;
use tokio::sync::{Semaphore, broadcast, oneshot};
use unisono_context::{CallId, RunId, SessionId, Timestamp, TurnId};
use unisono_session::append::AppendedPosition;
use unisono_session::event::{RequestKey, Work};
use unisono_session::machine::{Append, Import, NewTurn, PrecedingMessages};
use unisono_session::run::calls::CallDecision;
use unisono_session::state::EndedTurn;
use unisono_session::{Input, Refusal, State};

use crate::address::ActorAddress;
use crate::attachments;
use crate::env::Env;
use crate::error::Error;

use super::{Events, FeedReceiver, Msg, ProgressUpdate, supervision};

/// The maximum number of tries of one request, if the session leaves memory or dies each time.
const REQUEST_TRIES: u32 = 8;

/// Live progress.
#[derive(Clone, Debug)]
pub enum Progress {
    /// A progress report of an agent.
    Run {
        /// Its run.
        run: RunId,
        /// Its text.
        text: Arc<str>,
    },
    /// A run pauses before it sends a request to its model.
    Pause {
        /// The run.
        run: RunId,
        /// The end of the pause, at the latest.
        until: Timestamp,
        /// The reason.
        reason: Arc<str>,
    },
    /// The next part of a reply of a run's model.
    TextDelta {
        /// The run.
        run: RunId,
        /// The new text.
        text: Arc<str>,
    },
    /// The progress of a compaction step.
    Compaction {
        /// The turn.
        turn: TurnId,
        /// The current action, or the problem.
        text: Arc<str>,
        /// Whether it is a problem.
        is_failure: bool,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) address: ActorAddress<Msg>,
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) attaching: Arc<tokio::sync::Mutex<()>>,
}

/// A session, live or not: a request to a session that left memory loads it again.
#[derive(Clone, Debug)]
pub struct Handle {
    id: SessionId,
    address: ActorAddress<Msg>,
    permits: Arc<Semaphore>,
    /// Locked by a request with attachments: the next one is compared with what the session then has.
    attaching: Arc<tokio::sync::Mutex<()>>,
    supervisor: ActorRef<supervision::Msg>,
    env: Arc<Env>,
}

impl Handle {
    pub(crate) fn new(
        id: SessionId,
        entry: Entry,
        supervisor: ActorRef<supervision::Msg>,
        env: Arc<Env>,
    ) -> Handle {
        Handle {
            id,
            address: entry.address,
            permits: entry.permits,
            attaching: entry.attaching,
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
        self.address.closed().await;
    }

    pub(crate) async fn import(&self, import: Import) -> Result<(), Error> {
        self.request(Input::Import(import)).await
    }

    /// Accepts a turn. On disk when it returns; repeating the same turn changes nothing.
    ///
    /// # Errors
    /// The turn is refused, too many requests or runs of its agents are waiting, or the store
    /// fails.
    pub async fn accept(&self, turn: NewTurn) -> Result<(), Error> {
        if matches!(turn.work, Work::Answer { .. }) {
            self.check_queues(&turn)?;
        }
        self.request(Input::Accept(Box::new(turn))).await
    }

    /// The same under a key: if the key is repeated, the first turn is kept. Returns the kept turn.
    ///
    /// # Errors
    /// The key was used with another request, or see [`Handle::accept`].
    pub async fn accept_keyed(&self, key: RequestKey, turn: NewTurn) -> Result<TurnId, Error> {
        if matches!(turn.work, Work::Answer { .. }) {
            self.check_queues(&turn)?;
        }
        let (id, name) = (turn.id, key.name.clone());
        let turn = Box::new(turn);
        self.request(Input::AcceptKeyed { key, turn }).await?;
        self.kept_turn(id, name).await
    }

    /// Accepts a turn after messages that are appended with it, optionally under a key. All of it
    /// is on disk when it returns; after a refusal, nothing is. Returns the kept turn.
    ///
    /// # Errors
    /// The branch does not end where the messages begin or is busy, or see
    /// [`Handle::accept_keyed`].
    pub async fn accept_after(
        &self,
        preceding: PrecedingMessages,
        key: Option<RequestKey>,
        turn: NewTurn,
    ) -> Result<TurnId, Error> {
        self.check_queues(&turn)?;
        let (id, name) = (turn.id, key.as_ref().map(|key| key.name.clone()));
        let turn = Box::new(turn);
        self.request(Input::AcceptAfter {
            preceding,
            key,
            turn,
        })
        .await?;
        match name {
            Some(name) => self.kept_turn(id, name).await,
            None => Ok(id),
        }
    }

    /// The turn of a key, otherwise the turn with this id.
    async fn kept_turn(&self, id: TurnId, name: Arc<str>) -> Result<TurnId, Error> {
        let look = move |state: &State| state.turn_by_key(&name).map(|(_, turn)| turn);
        Ok(self.inspect(look).await?.unwrap_or(id))
    }

    /// The turn that was accepted under a key, if there is one.
    ///
    /// # Errors
    /// The key was used with another request, or the session cannot be opened.
    pub async fn turn_by_key(&self, key: &RequestKey) -> Result<Option<TurnId>, Error> {
        let name = key.name.clone();
        let look = move |state: &State| state.turn_by_key(&name);
        match self.inspect(look).await? {
            Some((request, _)) if request != key.request => {
                Err(Refusal::KeyReused(key.name.clone()).into())
            }
            known => Ok(known.map(|(_, turn)| turn)),
        }
    }

    /// Checks that the agents that certainly work in a turn accept more runs.
    fn check_queues(&self, turn: &NewTurn) -> Result<(), Error> {
        let delegates = turn.team.delegates.iter().map(|delegate| &delegate.agent);
        let mut agents = std::iter::once(&turn.team.lead).chain(delegates);
        let full = agents.find_map(|agent| {
            let pool = self.env.pools.get(agent)?;
            Some((agent.id.clone(), pool.gauge.full_for()?))
        });
        full.map_or(Ok(()), |(agent, wait)| {
            Err(Error::Overloaded {
                agent,
                retry_after_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            })
        })
    }

    /// Appends a message without a turn. On disk when it returns; if a turn is open on its branch,
    /// the message is appended at its end. Returns the position of the message.
    ///
    /// # Errors
    /// It is refused, its key was used with another request, or the store fails.
    pub async fn append(&self, new: Append) -> Result<AppendedPosition, Error> {
        let (id, key) = (new.message.id, new.key.clone());
        self.request(Input::Append(new)).await?;
        self.inspect(move |state| AppendedPosition::find(state, id, key.as_ref()))
            .await
    }

    /// Cancels a turn and its runs. On disk when it returns.
    ///
    /// # Errors
    /// The turn is not open, or the store fails.
    pub async fn cancel(&self, turn: TurnId) -> Result<(), Error> {
        self.request(Input::Cancel { turn }).await
    }

    /// Records a decision about a waiting call; `by`: the name of the token that decided. On disk
    /// when it returns.
    ///
    /// # Errors
    /// No such call waits, it was already decided, or the store fails.
    pub async fn decide(
        &self,
        call: CallId,
        decision: CallDecision,
        by: Option<Arc<str>>,
    ) -> Result<(), Error> {
        self.request(Input::Decide { call, decision, by }).await
    }

    /// Waits until a turn has ended and its end is on disk.
    ///
    /// # Errors
    /// There is no such turn, or the session is gone.
    pub async fn wait(&self, turn: TurnId) -> Result<EndedTurn, Error> {
        self.request_reply(|reply| Msg::Wait { turn, reply })
            .await?
    }

    /// Inspects the session's state inside its actor: keep it short. Returns after everything that
    /// was seen is on disk. A panic of `look` is passed on to the caller.
    pub async fn inspect<T: Send + 'static>(
        &self,
        look: impl Fn(&State) -> T + Clone + Send + 'static,
    ) -> Result<T, Error> {
        let seen = Arc::new(Mutex::new(None));
        let slot = seen.clone();
        let make = move |reply| {
            let (look, seen) = (look.clone(), slot.clone());
            let look = move |state: &State| {
                // A panic is the caller's: the session has other clients, and works.
                let looked = catch_unwind(AssertUnwindSafe(|| look(state)));
                *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(looked);
            };
            Msg::Inspect(Box::new(look), reply)
        };
        self.request_reply(make).await??;
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).take();
        match seen.ok_or(Error::Unavailable("session"))? {
            Ok(seen) => Ok(seen),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// The session's durable events after sequence number `after` (0: all), and later ones.
    ///
    /// # Errors
    /// There is no such session any more, or the store fails.
    pub async fn events(&self, after: u64) -> Result<Events, Error> {
        Ok(self.follow(after).await?.0)
    }

    /// The same, and progress from now on. Progress is lossy: a slow receiver misses some. Both end
    /// when the session is deleted, or another program may own it. Following a session does not keep
    /// it in memory.
    ///
    /// # Errors
    /// There is no such session any more, another program has to work on it, or the store fails.
    pub async fn follow(
        &self,
        after: u64,
    ) -> Result<(Events, broadcast::Receiver<ProgressUpdate>), Error> {
        let (feed, following) = supervision::follow(&self.supervisor, self.id).await?;
        if *following.durable.borrow() == 0 {
            // It is not in memory, or is being loaded.
            let engine = self.env.journal.engine();
            let known = engine.session(self.id.into()).await?;
            let known = known.ok_or(Error::UnknownSession(self.id))?;
            feed.set_durable(known.last_seq);
        }
        if self.env.journal.cluster().is_some() {
            // Another program's events do not come to this feed. After this the session is this
            // program's, or the feed has ended.
            self.inspect(|_| ()).await?;
        }
        let FeedReceiver {
            durable,
            recent,
            progress,
            begun,
        } = following;
        let mut events = Events::new(self.env.clone(), self.id, after, durable, recent);
        events.begun = begun;
        Ok((events, progress))
    }

    /// Carries out an input. On disk when it returns.
    ///
    /// # Errors
    /// The input is refused, too many requests are waiting, or the store fails.
    pub fn request(
        &self,
        mut input: Input,
    ) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + '_>> {
        // Boxed: callers' crates do not compile it again.
        Box::pin(async move {
            let permit = self.permits.try_acquire();
            let _permit = permit.map_err(|_| Error::Busy(self.id))?;
            let is_new = matches!(input, Input::Import(_));
            let (_alone, attached) = match is_new || input.contents_mut().is_empty() {
                true => (None, 0),
                false => {
                    let alone = self.attaching.lock().await;
                    (Some(alone), self.inspect(State::attached_bytes).await?)
                }
            };
            let limits = self.env.options.attachments;
            attachments::store(&self.env.journal, self.id, limits, &mut input, attached).await?;
            self.request_reply(|reply| Msg::Request {
                input: input.clone(),
                reply,
            })
            .await?
        })
    }

    /// Sends a request to the session. A session that left memory, or died during the request, is
    /// loaded and gets it again: every request may be made twice.
    async fn request_reply<T>(&self, make: impl Fn(oneshot::Sender<T>) -> Msg) -> Result<T, Error> {
        let mut address = self.address.clone();
        for _ in 0..REQUEST_TRIES {
            let (reply, answer) = oneshot::channel();
            if address.send(make(reply)).await.is_ok()
                && let Ok(answer) = answer.await
            {
                return Ok(answer);
            }
            address = supervision::activate(&self.supervisor, self.id)
                .await?
                .address;
        }
        Err(Error::Unavailable("session"))
    }
}
