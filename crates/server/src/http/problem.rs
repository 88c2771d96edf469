//! Why a request was not carried out, as its response.

use std::fmt::{self, Display};

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use unisono_api::{Code, Problem, service};
use unisono_runtime::Error as RuntimeError;

use super::extract::Path;
use super::openai::{self, FieldError};
use crate::a2a;
use unisono::context::{self, estimate};
use unisono::history;

/// Seconds after which a retry may succeed.
const RETRY_AFTER_SECONDS: u64 = 1;

/// Why a request was not carried out.
#[derive(Clone, Debug)]
pub(crate) struct ApiError(Box<Problem>);

impl Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.detail)
    }
}

impl ApiError {
    pub(super) fn new(code: Code, detail: impl Into<String>) -> ApiError {
        Problem::new(code, detail).into()
    }

    /// Sets the seconds after which a retry may succeed.
    pub(super) fn retry_after(mut self, seconds: u64) -> ApiError {
        self.0.retry_after = Some(seconds);
        self
    }

    pub(super) fn not_found(what: &str, id: impl Display) -> ApiError {
        ApiError::new(Code::NotFound, format!("there is no {what} {id}"))
    }

    pub(super) fn status(&self) -> StatusCode {
        let status = StatusCode::from_u16(self.0.code.status());
        status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(super) fn problem(&self) -> &Problem {
        &self.0
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> ApiError {
        ApiError(Box::new(problem))
    }
}

impl From<service::Error> for ApiError {
    fn from(error: service::Error) -> ApiError {
        match error {
            service::Error::Problem(problem) => ApiError(problem),
            error => ApiError::new(error.code(), error.to_string()),
        }
    }
}

/// Converts errors of the library, and the errors that they wrap.
macro_rules! through_local {
    ($($error:ty),+ $(,)?) => {$(
        impl From<$error> for ApiError {
            fn from(error: $error) -> ApiError {
                Problem::from(unisono::Error::from(error)).into()
            }
        }
    )+};
}

through_local!(
    unisono::Error,
    unisono::ChangeError,
    RuntimeError,
    unisono_store::Error,
    context::Error,
    estimate::Error,
    history::Error,
);

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let code = self.0.code;
        if code == Code::Failed {
            tracing::error!(detail = self.0.detail, "a request failed");
        }
        let mut response = (self.status(), Json(&*self.0)).into_response();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, json);
        match code {
            Code::Busy | Code::Unavailable => {
                let after = HeaderValue::from(self.0.retry_after.unwrap_or(RETRY_AFTER_SECONDS));
                headers.insert(header::RETRY_AFTER, after);
            }
            Code::Unauthorized => {
                let how = HeaderValue::from_static("Bearer realm=\"unisono\"");
                headers.insert(header::WWW_AUTHENTICATE, how);
            }
            _ => {}
        }
        response
    }
}

/// Whether the client of a request shows pages.
pub(super) fn is_browser(headers: &HeaderMap) -> bool {
    let accepts = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    accepts.is_some_and(|accept| accept.contains("text/html"))
}

pub(super) async fn not_found(uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path();
    if is_browser(&headers) && !is_of_programs(path) {
        return unisono_web::unknown(path);
    }
    let detail = format!("nothing is at {path}; /v1/openapi.json lists all addresses");
    format_for(&uri, ApiError::new(Code::NotFound, detail))
}

/// The answer to a method that an address does not take.
pub(super) async fn method_not_allowed(method: Method, uri: Uri) -> Response {
    let path = uri.path();
    let fault = ApiError::new(
        Code::MethodNotAllowed,
        format!("{path} does not take {method}"),
    );
    format_for(&uri, fault)
}

/// Whether an address is one of an interface for programs.
fn is_of_programs(path: &str) -> bool {
    let programs = ["/v1", openai::BASE, "/mcp"];
    a2a::is_under(path) || programs.iter().any(|start| path.starts_with(start))
}

/// A fault in the shape that the client of a request knows: a browser gets a page also at an address
/// that is no page.
pub(super) fn format_for_client(uri: &Uri, is_browser: bool, fault: ApiError) -> Response {
    match is_browser && !is_of_programs(uri.path()) {
        true => unisono_web::problem(&fault.0),
        false => format_for(uri, fault),
    }
}

/// A fault in the shape that clients of that address know.
pub(super) fn format_for(uri: &Uri, fault: ApiError) -> Response {
    match uri.path() {
        path if path.starts_with(openai::BASE) => FieldError::from(fault).into_response(),
        path if a2a::is_under(path) => a2a::refused(path, fault.problem()),
        path if unisono_web::is_page(path) => unisono_web::problem(&fault.0),
        _ => fault.into_response(),
    }
}

/// The meaning of an error code, and the remedy.
#[utoipa::path(
    get, path = "/problems/{code}", tag = "about",
    params(("code" = String, Path, description = "The problem's `code`")),
    responses((status = 200, description = "The page", body = String, content_type = "text/plain"))
)]
pub(super) async fn problem_page(Path(code): Path<String>) -> Result<String, ApiError> {
    let found = Code::from_name(&code);
    let code = found.ok_or_else(|| ApiError::not_found("kind of problem", code))?;
    let (name, status) = (code.name(), code.status());
    Ok(format!(
        "{name} (HTTP {status}): {}.\n\n{}\n",
        code.title(),
        code.help()
    ))
}
