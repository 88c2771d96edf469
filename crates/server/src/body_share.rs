//! The share that the body of a request has in the memory of all bodies (`server.bodies_bytes`).

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::Extensions;
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
}
