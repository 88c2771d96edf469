//! Extractors of requests. Their rejection is a problem that names the invalid part.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use unisono_api::Code;
use unisono_api::session::main_branch;

use super::bodies;
use super::problem::ApiError;

/// The body: a JSON object.
pub(super) struct Json<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Json<T>, ApiError> {
        if !is_json(request.headers()) {
            let detail = "the body must be sent as `Content-Type: application/json`";
            return Err(ApiError::new(Code::UnsupportedMediaType, detail));
        }
        let Content(bytes) = Content::from_request(request, state).await?;
        // Fields could also be read from an array, by their order: nobody means that.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            let detail = "the body must be a JSON object";
            return Err(ApiError::new(Code::InvalidRequest, detail));
        }
        match axum::Json::from_bytes(&bytes) {
            Ok(axum::Json(body)) => Ok(Json(body)),
            Err(rejection) => Err(ApiError::new(
                Code::InvalidRequest,
                reason("the body", &rejection.body_text()),
            )),
        }
    }
}

/// The body: bytes of any type.
pub(super) struct Content(pub(super) Bytes);

impl<S: Send + Sync> FromRequest<S> for Content {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Content, ApiError> {
        match Bytes::from_request(request, state).await {
            Ok(bytes) => Ok(Content(bytes)),
            Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                Err(bodies::too_large())
            }
            Err(rejection) => Err(ApiError::new(Code::InvalidRequest, rejection.body_text())),
        }
    }
}

/// Why a part of a request is invalid, without the words with which the parser begins.
fn reason(part: &str, rejection: &str) -> String {
    let rest = rejection.strip_prefix("Failed to ");
    match rest.and_then(|rest| rest.split_once(": ")) {
        Some((_, why)) => format!("{part} is invalid: {why}"),
        None => rejection.to_owned(),
    }
}

/// Whether a request says that its body is JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let essence = kind
        .and_then(|kind| kind.split(';').next())
        .unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

pub(super) struct Path<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, ApiError> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(path)) => Ok(Path(path)),
            Err(rejection) => Err(ApiError::new(Code::InvalidRequest, rejection.body_text())),
        }
    }
}

pub(super) struct Query<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Query<T>, ApiError> {
        match axum::extract::Query::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(query)) => Ok(Query(query)),
            Err(rejection) => Err(ApiError::new(
                Code::InvalidRequest,
                reason("the query", &rejection.body_text()),
            )),
        }
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct BranchQuery {
    /// The branch: `main` by default.
    #[serde(default = "main_branch")]
    pub(super) branch: String,
}

pub(super) fn id<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, ApiError> {
    let wrong = |_| {
        ApiError::new(
            Code::InvalidRequest,
            format!("{text:?} is not the id of a {what}"),
        )
    };
    text.parse().map_err(wrong)
}
