//! The body of a request that no daemon has begun to read.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, HttpBody as _};
use futures_util::{StreamExt as _, stream};

/// The body of a request until it is read. A daemon that cannot be connected does not read it, so that
/// another one can get it.
#[derive(Clone)]
pub(super) struct UnreadBody(Arc<Mutex<Option<Body>>>);

impl UnreadBody {
    pub(super) fn new(body: Body) -> UnreadBody {
        UnreadBody(Arc::new(Mutex::new(Some(body))))
    }

    /// The body for one daemon. It is empty if another one has begun to read it.
    pub(super) fn lend(&self) -> Body {
        let unread = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if unread.as_ref().is_none_or(|body| body.is_end_stream()) {
            return Body::empty();
        }
        drop(unread);
        let lent = self.clone();
        let read = stream::once(async move { lent.take() });
        Body::from_stream(read.flat_map(Body::into_data_stream))
    }

    fn take(&self) -> Body {
        let mut unread = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        unread.take().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    #[tokio::test]
    async fn a_body_that_a_daemon_has_not_read_is_lent_to_another_one() {
        let unread = UnreadBody::new(Body::from("12345"));
        drop(unread.lend());
        assert_eq!(to_bytes(unread.lend(), 5).await.unwrap(), "12345");
        assert!(unread.lend().is_end_stream());
        let empty = UnreadBody::new(Body::empty());
        assert!(empty.lend().is_end_stream());
    }
}
