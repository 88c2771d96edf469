//! `/blobs/{digest}`: the content of an attachment, for a page or a download.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use unisono_api::Service;

use crate::error::PageError;
use crate::extract::Path;

/// The image types that a page shows. All other types are downloads.
pub(crate) const SHOWN: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// Prevents a browser from running, loading or embedding anything in a content.
const POLICY: &str = "sandbox; default-src 'none'";

/// The content with that digest.
pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Path(digest): Path<String>,
) -> Result<Response, PageError> {
    let content = service.blob(&digest).await?;
    let image_type = SHOWN.iter().find(|mime| **mime == content.mime);
    let (mime, place) = match image_type {
        Some(mime) => (*mime, "inline"),
        None => ("application/octet-stream", "attachment"),
    };
    let headers: [(HeaderName, &'static str); 5] = [
        (header::CONTENT_TYPE, mime),
        (header::CONTENT_DISPOSITION, place),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (
            header::CACHE_CONTROL,
            "private, max-age=31536000, immutable",
        ),
    ];
    let mut response = content.bytes.into_response();
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}
