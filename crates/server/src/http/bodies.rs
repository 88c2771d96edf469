//! Limits the bytes of request bodies in memory, of all requests together.
//!
//! A body and the values parsed from it count from its first part until its request is answered, or
//! the turn has begun whose end the response waits for. A body that does not fit is refused with 503,
//! and one that is larger than a body may be with 413. If its length is declared, this happens before
//! its first part: a client that expects `100 Continue` then sends no body.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, header};
use futures_util::StreamExt;
use tokio::sync::Semaphore;
use unisono_api::Code;

use super::problem::ApiError;
use crate::body_share::BodyShare;

/// Seconds after which a retry may succeed.
const RETRY_AFTER_SECONDS: u64 = 2;

/// The room for all bodies.
#[derive(Clone, Debug)]
pub(super) struct Bodies {
    /// The free bytes.
    room: Arc<Semaphore>,
    /// Maximum bytes of one body.
    largest: u64,
}

/// The room that one body takes.
#[derive(Clone, Debug)]
pub(super) struct BodyPermit {
    bodies: Bodies,
    taken: BodyShare,
    refused: Arc<AtomicBool>,
}

impl Bodies {
    /// Room for so many bytes, and at least for one body of at most `largest` bytes.
    pub(super) fn new(bytes: u64, largest: u64) -> Bodies {
        let bytes = usize::try_from(bytes.max(largest)).unwrap_or(usize::MAX);
        Bodies {
            room: Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))),
            largest,
        }
    }

    /// Reserves room for a body, part by part.
    ///
    /// # Errors
    /// The body is compressed, or its declared length exceeds the limit of a body or the free room.
    pub(super) fn hold(&self, headers: &HeaderMap) -> Result<BodyPermit, ApiError> {
        if is_compressed(headers) {
            let detail = "the body has a `Content-Encoding`: send it without compression";
            return Err(ApiError::new(Code::UnsupportedMediaType, detail));
        }
        let length = declared_length(headers).unwrap_or(0);
        if length > self.largest {
            return Err(too_large());
        }
        if length > self.room.available_permits() as u64 {
            return Err(full());
        }
        Ok(BodyPermit {
            bodies: self.clone(),
            taken: BodyShare::default(),
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

    /// The room that the body has taken so far.
    pub(super) fn share(&self) -> BodyShare {
        self.taken.clone()
    }

    /// Why the request is refused, if its body did not fit.
    pub(super) fn refusal(&self) -> Option<ApiError> {
        self.refused.load(Ordering::Relaxed).then(full)
    }

    fn take(&self, part: &Bytes) -> Result<(), axum::Error> {
        let bytes = u32::try_from(part.len()).unwrap_or(u32::MAX);
        let Ok(more) = self.bodies.room.clone().try_acquire_many_owned(bytes) else {
            self.refused.store(true, Ordering::Relaxed);
            return Err(axum::Error::new(std::io::Error::other(DETAIL)));
        };
        self.taken.add(more);
        Ok(())
    }
}

const DETAIL: &str = "the bodies of other requests take all the memory that `server.bodies_bytes` \
                      allows: send it again";

/// Whether a request says that its body is compressed.
fn is_compressed(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(header::CONTENT_ENCODING).iter();
    let mut codings = codings.flat_map(|codings| codings.as_bytes().split(|byte| *byte == b','));
    codings.any(|coding| {
        let coding = coding.trim_ascii();
        !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")
    })
}

pub(super) fn declared_length(headers: &HeaderMap) -> Option<u64> {
    let length = headers.get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

/// The refusal of a body that is larger than a body may be.
pub(super) fn too_large() -> ApiError {
    let detail = "the body is larger than `server.body_limit_bytes`";
    ApiError::new(Code::TooLarge, detail)
}

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
    fn a_compressed_body_is_refused_by_name() {
        let bodies = Bodies::new(10, 8);
        for (codings, is_refused) in [
            ("gzip", true),
            ("identity, zstd", true),
            ("Identity", false),
            ("", false),
        ] {
            let mut headers = headers(8);
            headers.insert(header::CONTENT_ENCODING, codings.parse().unwrap());
            let refused = bodies.hold(&headers).err();
            let status = refused.map(|refused| refused.status().as_u16());
            assert_eq!(status, is_refused.then_some(415), "{codings}");
        }
    }

    #[test]
    fn what_came_of_a_body_counts_until_its_request_is_answered_or_releases_it() {
        let bodies = Bodies::new(10, 8);
        let one = bodies.hold(&headers(8)).unwrap();
        one.take(&Bytes::from_static(b"12345")).unwrap();
        one.take(&Bytes::from_static(b"678")).unwrap();
        assert!(bodies.hold(&headers(3)).is_err(), "2 bytes are free");
        let other = bodies.hold(&HeaderMap::new()).unwrap();
        other.take(&Bytes::from_static(b"12")).unwrap();
        assert!(other.take(&Bytes::from_static(b"3")).is_err());
        assert!(other.refusal().is_some() && one.refusal().is_none());
        one.share().release();
        bodies.hold(&headers(8)).unwrap();
        drop((one, other));
        assert_eq!(bodies.room.available_permits(), 10);
        let refused = bodies.hold(&headers(9)).unwrap_err();
        assert_eq!(refused.status(), 413);
    }
}
