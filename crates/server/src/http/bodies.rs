//! Limits the bytes of request bodies in memory, of all requests together.
//!
//! A body and the values parsed from it count from its first part until its request is answered. A
//! body that does not fit is refused with 503, before its first part if its length is known.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, header};
use futures_util::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use unisono_api::Code;

use super::problem::ApiError;

/// Seconds after which a retry may succeed.
const RETRY_AFTER_SECONDS: u64 = 2;

/// The room for all bodies, in bytes.
#[derive(Clone, Debug)]
pub(super) struct Bodies(Arc<Semaphore>);

/// The room that one body takes.
#[derive(Clone, Debug)]
pub(super) struct BodyPermit {
    bodies: Bodies,
    taken: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
    refused: Arc<AtomicBool>,
}

impl Bodies {
    /// Room for so many bytes.
    pub(super) fn new(bytes: u64) -> Bodies {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        Bodies(Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))))
    }

    /// Reserves room for a body, part by part.
    ///
    /// # Errors
    ///
    /// The declared length exceeds the free room.
    pub(super) fn hold(&self, headers: &HeaderMap) -> Result<BodyPermit, ApiError> {
        let length = headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|length| length > self.0.available_permits()) {
            return Err(full());
        }
        Ok(BodyPermit {
            bodies: self.clone(),
            taken: Arc::default(),
            refused: Arc::default(),
        })
    }
}

impl BodyPermit {
    /// The same body. Reading fails if a part does not fit or is later than `stall` after the
    /// previous one.
    pub(super) fn body(&self, body: Body, stall: Duration) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let parts = (body.into_data_stream(), self.clone());
        let parts = futures_util::stream::try_unfold(parts, move |(mut parts, held)| async move {
            let part = tokio::time::timeout(stall, parts.next()).await;
            let part = part.map_err(|_| {
                let reason = format!("nothing more of the body came for {} s", stall.as_secs());
                axum::Error::new(std::io::Error::new(std::io::ErrorKind::TimedOut, reason))
            })?;
            let Some(part) = part.transpose()? else {
                return Ok::<_, axum::Error>(None);
            };
            held.take(&part)?;
            Ok(Some((part, (parts, held))))
        });
        Body::from_stream(parts)
    }

    /// Why the request is refused, if its body did not fit.
    pub(super) fn refusal(&self) -> Option<ApiError> {
        self.refused.load(Ordering::Relaxed).then(full)
    }

    fn take(&self, part: &Bytes) -> Result<(), axum::Error> {
        let bytes = u32::try_from(part.len()).unwrap_or(u32::MAX);
        let Ok(more) = self.bodies.0.clone().try_acquire_many_owned(bytes) else {
            self.refused.store(true, Ordering::Relaxed);
            return Err(axum::Error::new(std::io::Error::other(DETAIL)));
        };
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *taken {
            Some(taken) => taken.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }
}

const DETAIL: &str = "the bodies of other requests take all the memory that `server.bodies_bytes` \
                      allows: send it again";

fn full() -> ApiError {
    ApiError::new(Code::Unavailable, DETAIL).retry_after(RETRY_AFTER_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(length: usize) -> HeaderMap {
        HeaderMap::from_iter([(header::CONTENT_LENGTH, length.into())])
    }

    #[test]
    fn what_came_of_a_body_counts_until_its_request_is_answered() {
        let bodies = Bodies::new(10);
        let one = bodies.hold(&headers(8)).unwrap();
        one.take(&Bytes::from_static(b"12345")).unwrap();
        one.take(&Bytes::from_static(b"678")).unwrap();
        assert!(bodies.hold(&headers(3)).is_err(), "2 bytes are free");
        let other = bodies.hold(&HeaderMap::new()).unwrap();
        other.take(&Bytes::from_static(b"12")).unwrap();
        assert!(other.take(&Bytes::from_static(b"3")).is_err());
        assert!(other.refusal().is_some() && one.refusal().is_none());
        drop(one);
        bodies.hold(&headers(8)).unwrap();
        drop(other);
        assert_eq!(bodies.0.available_permits(), 10);
    }
}
