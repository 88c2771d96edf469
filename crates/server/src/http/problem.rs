//! Why a request was not carried out, as its response.

use std::fmt::{self, Display};

use axum::Json;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use unisono_api::{Code, Problem};
use unisono_runtime::Error as RuntimeError;
use unisono_session::Refusal;

use super::extract::Path;
use super::openai::{self, Refused};
use super::page;
use unisono::context::{self, estimate};
use unisono::daemon;
use unisono::past;

/// Seconds after which it is worth asking again.
const RETRY_AFTER_SECONDS: u64 = 1;

/// Why a request was not carried out.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    problem: Box<Problem>,
    /// Seconds after which it is worth asking again.
    retry_after: u64,
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem.detail)
    }
}

impl Fault {
    pub(super) fn new(code: Code, detail: impl Into<String>) -> Fault {
        Problem::new(code, detail).into()
    }

    /// Says when it is worth asking again.
    pub(super) fn retry_after(self, seconds: u64) -> Fault {
        Fault {
            retry_after: seconds,
            ..self
        }
    }

    pub(super) fn not_found(what: &str, id: impl Display) -> Fault {
        Fault::new(Code::NotFound, format!("there is no {what} {id}"))
    }

    pub(super) fn status(&self) -> StatusCode {
        let status = StatusCode::from_u16(self.problem.code.status());
        status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(super) fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Fault {
        Fault {
            problem: Box::new(problem),
            retry_after: RETRY_AFTER_SECONDS,
        }
    }
}

/// What kind of problem an error is for programs, over HTTP and on a command line.
pub fn code(error: daemon::Error) -> Code {
    Fault::from(error).problem.code
}

impl From<daemon::Error> for Fault {
    fn from(error: daemon::Error) -> Fault {
        use daemon::Error;
        let code = match error {
            Error::Runtime(error) => return error.into(),
            Error::Store(error) => return error.into(),
            Error::Settings(error) => return error.into(),
            // Of a setup that is read for a request, what the request sets is wrong.
            Error::Agents(_)
            | Error::Model(_)
            | Error::Price(_)
            | Error::Summariser(_)
            | Error::Setup(_) => Code::Refused,
            Error::Lent(_) => Code::InvalidRequest,
            Error::Tools(_) => Code::Unavailable,
            Error::Directory(_) | Error::Search(_) => Code::Failed,
        };
        Fault::new(code, error.to_string())
    }
}

impl From<RuntimeError> for Fault {
    fn from(error: RuntimeError) -> Fault {
        let code = match &error {
            RuntimeError::UnknownSession(_) => Code::NotFound,
            RuntimeError::Busy(_) => Code::Busy,
            RuntimeError::Overloaded { retry_after_ms, .. } => {
                let seconds = retry_after_ms.div_ceil(1_000).max(1);
                return Fault::new(Code::Busy, error.to_string()).retry_after(seconds);
            }
            RuntimeError::Unavailable(_) => Code::Unavailable,
            RuntimeError::Store(error) => store_code(error),
            RuntimeError::Broken { .. } | RuntimeError::Unpurged(_) => Code::Failed,
            RuntimeError::Refused(refusal) => match refusal {
                Refusal::AlreadyCreated
                | Refusal::BranchBusy(_)
                | Refusal::BranchMoved(_)
                | Refusal::NothingToSeal { .. }
                | Refusal::Decided(_)
                | Refusal::WrongDecision { .. } => Code::Conflict,
                Refusal::NotCreated
                | Refusal::UnknownBranch(_)
                | Refusal::UnknownTurn(_)
                | Refusal::UnknownCall(_)
                | Refusal::UnknownRun(_) => Code::NotFound,
                Refusal::Fold(_) => Code::Failed,
                Refusal::KeyReused(_) => Code::KeyReused,
                _ => Code::Refused,
            },
        };
        Fault::new(code, error.to_string())
    }
}

impl From<unisono_store::Error> for Fault {
    fn from(error: unisono_store::Error) -> Fault {
        Fault::new(store_code(&error), error.to_string())
    }
}

fn store_code(error: &unisono_store::Error) -> Code {
    match error {
        unisono_store::Error::ReadOnly { .. } | unisono_store::Error::Unwritable { .. } => {
            Code::Unavailable
        }
        error if error.is_disk_full() => Code::DiskFull,
        _ => Code::Failed,
    }
}

impl From<context::Error> for Fault {
    fn from(error: context::Error) -> Fault {
        Fault::new(Code::Failed, error.to_string())
    }
}

impl From<estimate::Error> for Fault {
    fn from(error: estimate::Error) -> Fault {
        use estimate::Error;
        let code = match error {
            Error::Branch(_) => Code::NotFound,
            Error::Agents(_) | Error::Plan(_) | Error::Summariser(_) => Code::Refused,
            Error::Count(_) => Code::Failed,
        };
        Fault::new(code, error.to_string())
    }
}

impl From<past::Error> for Fault {
    fn from(error: past::Error) -> Fault {
        match error {
            past::Error::Store(error) => error.into(),
            past::Error::Session(error) => error.into(),
            past::Error::Unfit { .. } => Fault::new(Code::Failed, error.to_string()),
        }
    }
}

impl From<unisono_search::Error> for Fault {
    fn from(error: unisono_search::Error) -> Fault {
        use unisono_search::Error;
        let code = match error {
            Error::Store(error) => return error.into(),
            Error::Behind | Error::Closed => Code::Unavailable,
            Error::Query(_) => Code::Refused,
            _ => Code::Failed,
        };
        Fault::new(code, error.to_string())
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let code = self.problem.code;
        if code == Code::Failed {
            tracing::error!(detail = self.problem.detail, "a request failed");
        }
        let mut response = (self.status(), Json(&*self.problem)).into_response();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, json);
        match code {
            Code::Busy | Code::Unavailable => {
                let after = HeaderValue::from(self.retry_after);
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

/// The answer at an address where nothing is.
pub(super) async fn not_found(uri: Uri) -> Response {
    let path = uri.path();
    let detail = format!("nothing is at {path}; /v1/openapi.json lists all addresses");
    shaped(&uri, Fault::new(Code::NotFound, detail))
}

/// The answer to a method that an address does not take.
pub(super) async fn method_not_allowed(method: Method, uri: Uri) -> Response {
    let path = uri.path();
    let fault = Fault::new(
        Code::MethodNotAllowed,
        format!("{path} does not take {method}"),
    );
    shaped(&uri, fault)
}

/// A fault in the shape that clients of that address know.
pub(super) fn shaped(uri: &Uri, fault: Fault) -> Response {
    match uri.path() {
        path if path.starts_with(openai::BASE) => Refused::from(fault).into_response(),
        path if page::is_one(path) => page::trouble(fault),
        _ => fault.into_response(),
    }
}

/// What a kind of problem means and what to do about it.
#[utoipa::path(
    get, path = "/problems/{code}", tag = "about",
    params(("code" = String, Path, description = "The problem's `code`")),
    responses((status = 200, description = "The page", body = String, content_type = "text/plain"))
)]
pub(super) async fn about(Path(code): Path<String>) -> Result<String, Fault> {
    let found = Code::from_name(&code);
    let code = found.ok_or_else(|| Fault::not_found("kind of problem", code))?;
    let (name, status) = (code.name(), code.status());
    Ok(format!(
        "{name} (HTTP {status}): {}.\n\n{}\n",
        code.title(),
        code.help()
    ))
}
