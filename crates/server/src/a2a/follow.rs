//! Follows tasks: as a stream of events, or until the task ends or requires input.

use std::collections::VecDeque;
use std::sync::Arc;

use a2a::StreamResponse;
use futures_util::{Stream, stream};
use tokio::sync::OwnedSemaphorePermit;
use unisono::tasks::TaskId;
use unisono::{Local, values};
use unisono_api::turn_event::TurnEvent;
use unisono_runtime::clock;

use super::A2a;
use super::error::{Error, Kind};
use super::send::TaskHandle;
use super::task::Extent;
use super::updates;
use crate::turn_follower::TurnFollower;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// With the task.
    End,
    /// The task ends or requires input. The input is another message.
    EndOrQuestion,
}

/// The events of a task; its current state comes first.
pub(super) struct Updates {
    a2a: Arc<A2a>,
    follower: TurnFollower,
    updates: updates::Updates,
    ready: VecDeque<StreamResponse>,
    until: StreamEnd,
    is_done: bool,
    _place: OwnedSemaphorePermit,
}

impl Updates {
    pub(super) async fn new(
        a2a: &Arc<A2a>,
        sent: TaskHandle,
        until: StreamEnd,
        place: OwnedSemaphorePermit,
        extent: Extent<'_>,
    ) -> Result<Updates, Error> {
        let follower = match sent.follower {
            Some(follower) => follower,
            None => follower(&a2a.local, sent.id).await?,
        };
        // The state is read after the follower has begun, so that no event between the two is
        // missed.
        let look = a2a.look(sent.id).await?;
        let task = look.task(extent);
        Ok(Updates {
            a2a: a2a.clone(),
            follower,
            updates: updates::Updates::new(&task, look.waiting),
            ready: [StreamResponse::Task(task)].into(),
            until,
            is_done: false,
            _place: place,
        })
    }

    /// One after the other.
    pub(super) fn stream(self) -> impl Stream<Item = Result<StreamResponse, Error>> + Send {
        stream::unfold(self, |mut this| async {
            let next = this.next().await?;
            Some((next, this))
        })
    }

    async fn next(&mut self) -> Option<Result<StreamResponse, Error>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(Ok(ready));
            }
            let asks = self.until == StreamEnd::EndOrQuestion && self.updates.is_waiting();
            if self.is_done || self.updates.is_ended() || asks {
                return None;
            }
            match next(&self.a2a.local, &mut self.follower).await {
                Ok(Some(event)) => {
                    let now = values::instant(clock::now());
                    self.ready.extend(self.updates.take(event, &now));
                }
                Ok(None) => return None,
                Err(error) => {
                    self.is_done = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Waits until a task has ended, or asks a person.
pub(super) async fn settled(local: &Local, id: TaskId) -> Result<(), Error> {
    let mut follower = follower(local, id).await?;
    while let Some(event) = next(local, &mut follower).await? {
        let is_settled = match &event {
            TurnEvent::Ended(_) => true,
            TurnEvent::State(state) => !state.waiting.is_empty(),
            TurnEvent::Waiting { calls } => !calls.is_empty(),
            _ => false,
        };
        if is_settled {
            break;
        }
    }
    Ok(())
}

/// A follower of a task whose session this daemon owns.
pub(super) async fn follower(local: &Local, id: TaskId) -> Result<TurnFollower, Error> {
    let of = (id.session, id.turn);
    Ok(TurnFollower::open(local, of, None, None).await?)
}

/// The next event of a task; none at the end.
pub(super) async fn next(
    local: &Local,
    follower: &mut TurnFollower,
) -> Result<Option<TurnEvent>, Error> {
    tokio::select! {
        next = follower.next() => Ok(next?.map(|update| update.event)),
        reason = local.failed() => {
            let message = format!("the runtime gave up: {reason}");
            Err(Error::new(Kind::Unavailable, message))
        }
    }
}

impl A2a {
    /// Reserves a place for a stream.
    ///
    /// # Errors
    /// Too many streams are open.
    pub(super) fn reserve_stream(&self) -> Result<OwnedSemaphorePermit, Error> {
        let full = |_| {
            let message = "as many streams as `server.streams` allows are open";
            Error::new(Kind::Busy, message)
        };
        self.streams.clone().try_acquire_owned().map_err(full)
    }
}
