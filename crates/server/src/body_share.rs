//! The share that the body of a request has in the memory of all bodies (`server.bodies_bytes`).

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, HttpBody as _};
use axum::http::Extensions;
use futures_util::{StreamExt as _, stream};
use tokio::sync::OwnedSemaphorePermit;

/// The share of a request, in its extensions.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodyShare(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl BodyShare {
    /// The share of a request; an empty one if the request has none.
    pub(crate) fn from_extensions(extensions: &Extensions) -> BodyShare {
        extensions.get::<BodyShare>().cloned().unwrap_or_default()
    }

    /// Adds the room of a part.
    pub(crate) fn add(&self, more: OwnedSemaphorePermit) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *taken {
            Some(taken) => taken.merge(more),
            none => *none = Some(more),
        }
    }

    /// Returns the room before the request is answered: a turn has the content, and the caller has
    /// dropped it.
    pub(crate) fn release(&self) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(taken.take());
    }

    /// The same body, for another daemon. The room is returned when it is sent.
    pub(crate) fn until_sent(self, body: Body) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let parts = (body.into_data_stream(), Sending(self));
        let parts = stream::unfold(parts, |(mut parts, sending)| async move {
            let part = parts.next().await?;
            Some((part, (parts, sending)))
        });
        Body::from_stream(parts)
    }
}

/// Returns the room when it is dropped.
struct Sending(BodyShare);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn a_body_that_was_sent_to_another_daemon_has_no_room_here() {
        let (room, share) = (Arc::new(Semaphore::new(5)), BodyShare::default());
        share.add(room.clone().try_acquire_many_owned(5).unwrap());
        let body = share.clone().until_sent(Body::from("12345"));
        assert_eq!(room.available_permits(), 0);
        let sent = to_bytes(body, 5).await.unwrap();
        assert_eq!((sent.len(), room.available_permits()), (5, 5));
    }
}
