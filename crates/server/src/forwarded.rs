//! The mark of requests that another daemon has passed on.

use axum::http::HeaderMap;
use axum::http::header::HeaderName;

/// Marks a forwarded request.
pub(crate) const FORWARDED: HeaderName = HeaderName::from_static("unisono-forwarded");

/// Whether another daemon has forwarded the request.
pub(crate) fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(&FORWARDED)
}
