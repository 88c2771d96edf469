//! `/v1/blobs`: attachment contents.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use unisono_api::blob::{Blob, BlobContent};
use unisono_api::service::Messages as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::{Content, Path};
use super::problem::ApiError;

/// Prevents a browser from running, loading or embedding anything in a content.
const POLICY: &str = "sandbox; default-src 'none'";

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(put))
        .routes(routes!(get))
}

/// Stores an image (PNG, JPEG, GIF, WebP) or a PDF. Messages and tasks refer to it by its digest; a
/// file without a reference is deleted after an hour. Equal files are stored once.
#[utoipa::path(
    post, path = "/v1/blobs", tag = "messages",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 201, description = "The file is on disk", body = Blob))
)]
async fn put(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Content(body): Content,
) -> Result<(StatusCode, Json<Blob>), ApiError> {
    let mime = headers.get(header::CONTENT_TYPE);
    let mime = mime.and_then(|mime| mime.to_str().ok());
    let stored = shared.local.put_blob(body.to_vec(), mime).await?;
    Ok((StatusCode::CREATED, Json(stored)))
}

/// The content of a stored file, with the media type of its bytes.
#[utoipa::path(
    get, path = "/v1/blobs/{digest}", tag = "messages",
    params(("digest" = String, Path, description = "BLAKE3 of the content in hexadecimal digits")),
    responses((status = 200, description = "The content",
               content((Vec<u8> = "image/png"), (Vec<u8> = "image/jpeg"), (Vec<u8> = "image/gif"),
                       (Vec<u8> = "image/webp"), (Vec<u8> = "application/pdf"))))
)]
async fn get(
    State(shared): State<Arc<Shared>>,
    Path(digest): Path<String>,
) -> Result<Response, ApiError> {
    let BlobContent { mime, bytes } = shared.local.blob(&digest).await?;
    let caching = "private, max-age=31536000, immutable";
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_str(&mime)),
        (header::CACHE_CONTROL, Ok(HeaderValue::from_static(caching))),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            Ok(HeaderValue::from_static("nosniff")),
        ),
        (
            header::CONTENT_SECURITY_POLICY,
            Ok(HeaderValue::from_static(POLICY)),
        ),
    ];
    let mut response = bytes.into_response();
    for (name, value) in headers {
        if let Ok(value) = value {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(response)
}
