//! The content of an attachment, for an image in a page or a person who opens it.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use unisono_api::Service;

use crate::trouble::Trouble;

/// Images that a page shows. No other type is ever shown in one.
pub(crate) const SHOWN: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// A content never runs, loads or embeds anything, whatever a browser makes of it.
const POLICY: &str = "sandbox; default-src 'none'";

/// The content of that digest.
pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Path(digest): Path<String>,
) -> Result<Response, Trouble> {
    let content = service.blob(&digest).await?;
    let shown = SHOWN.iter().find(|mime| **mime == content.mime);
    let (mime, place) = match shown {
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
