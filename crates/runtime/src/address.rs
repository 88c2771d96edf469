//! The address of an actor. It outlives the actor, which may be restarted.

use std::fmt;
use std::time::Duration;

use ractor::{ActorProcessingErr, ActorRef, Message, MessagingErr};
use tokio::sync::watch;

/// The time that a caller waits for an actor that is being restarted.
const RESTART_WAIT: Duration = Duration::from_secs(10);

pub(crate) type ActorResult<T = ()> = Result<T, ActorProcessingErr>;

/// The address has no actor, and will not get one soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoActor;

pub(crate) struct ActorAddress<M>(watch::Receiver<Option<ActorRef<M>>>);

impl<M> fmt::Debug for ActorAddress<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot")
    }
}

impl<M> Clone for ActorAddress<M> {
    fn clone(&self) -> Self {
        ActorAddress(self.0.clone())
    }
}

/// The supervisor's end of an address.
pub(crate) struct Registration<M>(watch::Sender<Option<ActorRef<M>>>);

impl<M: Message> Registration<M> {
    /// An address without an actor.
    pub(crate) fn new() -> Registration<M> {
        Registration(watch::channel(None).0)
    }

    pub(crate) fn fill(&self, actor: ActorRef<M>) {
        self.0.send_replace(Some(actor));
    }

    /// Removes the actor until another one is started.
    pub(crate) fn clear(&self) {
        self.0.send_replace(None);
    }

    pub(crate) fn address(&self) -> ActorAddress<M> {
        ActorAddress(self.0.subscribe())
    }
}

impl<M: Message> ActorAddress<M> {
    /// Waits until the registration is dropped.
    #[cfg(test)]
    pub(crate) async fn closed(&self) {
        let mut place = self.0.clone();
        while place.changed().await.is_ok() {}
    }

    /// Sends to the current actor; returns the message if there is none.
    pub(crate) fn send_now(&self, message: M) -> Result<(), M> {
        let actor = self.0.borrow().clone();
        let Some(actor) = actor else {
            return Err(message);
        };
        match actor.send_message(message) {
            Ok(()) => Ok(()),
            Err(MessagingErr::SendErr(back)) => Err(back),
            // Impossible for a message that is sent to an actor of its own type.
            Err(_) => Ok(()),
        }
    }

    /// Sends to the current actor, and waits while it is being restarted.
    pub(crate) async fn send(&self, message: M) -> Result<(), NoActor> {
        let mut place = self.0.clone();
        let seek = async move {
            let mut message = message;
            loop {
                let occupied = place
                    .wait_for(Option::is_some)
                    .await
                    .map(|actor| actor.clone());
                let Ok(Some(actor)) = occupied else {
                    return Err(NoActor);
                };
                match actor.send_message(message) {
                    Ok(()) => return Ok(()),
                    // The actor has died, and its supervisor has not noticed yet.
                    Err(MessagingErr::SendErr(back)) => message = back,
                    Err(_) => return Err(NoActor),
                }
                place.changed().await.map_err(|_| NoActor)?;
            }
        };
        tokio::time::timeout(RESTART_WAIT, seek)
            .await
            .unwrap_or(Err(NoActor))
    }
}
