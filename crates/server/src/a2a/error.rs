//! Why an operation was not carried out, as both bindings of the protocol have it.

use std::fmt::{self, Display, Formatter};

use a2a::{ERROR_INFO_TYPE, PROTOCOL_DOMAIN, error_code};
use serde_json::{Value, json};
use unisono_api::{Code, Problem, service};

use crate::http::ApiError;

/// The domain of reasons that are not the protocol's own.
const OWN_DOMAIN: &str = "unisono";
/// The code of JSON-RPC for what the protocol has no code of its own for.
const SERVER_ERROR: i32 = -32000;

/// What kind of error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    TaskNotFound,
    TaskNotCancelable,
    PushNotificationNotSupported,
    UnsupportedOperation,
    ContentTypeNotSupported,
    VersionNotSupported,
    /// The text is no JSON.
    Parse,
    /// The JSON is no request.
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    Unauthenticated,
    PermissionDenied,
    /// Nothing is at that address.
    NotFound,
    MethodNotAllowed,
    TooLarge,
    MediaType,
    Busy,
    Unavailable,
    Internal,
}

impl Kind {
    /// Its code of JSON-RPC, its status of HTTP, its name in Google's RPC, its reason, and whether the
    /// reason is the protocol's.
    const fn row(self) -> (i32, u16, &'static str, &'static str, bool) {
        use error_code as code;
        match self {
            Kind::TaskNotFound => (
                code::TASK_NOT_FOUND,
                404,
                "NOT_FOUND",
                "TASK_NOT_FOUND",
                true,
            ),
            Kind::TaskNotCancelable => (
                code::TASK_NOT_CANCELABLE,
                400,
                "FAILED_PRECONDITION",
                "TASK_NOT_CANCELABLE",
                true,
            ),
            Kind::PushNotificationNotSupported => (
                code::PUSH_NOTIFICATION_NOT_SUPPORTED,
                400,
                "FAILED_PRECONDITION",
                "PUSH_NOTIFICATION_NOT_SUPPORTED",
                true,
            ),
            Kind::UnsupportedOperation => (
                code::UNSUPPORTED_OPERATION,
                400,
                "FAILED_PRECONDITION",
                "UNSUPPORTED_OPERATION",
                true,
            ),
            Kind::ContentTypeNotSupported => (
                code::CONTENT_TYPE_NOT_SUPPORTED,
                400,
                "INVALID_ARGUMENT",
                "CONTENT_TYPE_NOT_SUPPORTED",
                true,
            ),
            Kind::VersionNotSupported => (
                code::VERSION_NOT_SUPPORTED,
                400,
                "FAILED_PRECONDITION",
                "VERSION_NOT_SUPPORTED",
                true,
            ),
            Kind::Parse => (
                code::PARSE_ERROR,
                400,
                "INVALID_ARGUMENT",
                "PARSE_ERROR",
                false,
            ),
            Kind::InvalidRequest => (
                code::INVALID_REQUEST,
                400,
                "INVALID_ARGUMENT",
                "INVALID_REQUEST",
                false,
            ),
            Kind::MethodNotFound => (
                code::METHOD_NOT_FOUND,
                404,
                "UNIMPLEMENTED",
                "METHOD_NOT_FOUND",
                false,
            ),
            Kind::InvalidParams => (
                code::INVALID_PARAMS,
                400,
                "INVALID_ARGUMENT",
                "INVALID_PARAMS",
                false,
            ),
            Kind::Unauthenticated => (
                SERVER_ERROR,
                401,
                "UNAUTHENTICATED",
                "UNAUTHENTICATED",
                false,
            ),
            Kind::PermissionDenied => (
                SERVER_ERROR,
                403,
                "PERMISSION_DENIED",
                "PERMISSION_DENIED",
                false,
            ),
            Kind::NotFound => (SERVER_ERROR, 404, "NOT_FOUND", "NOT_FOUND", false),
            Kind::MethodNotAllowed => (
                SERVER_ERROR,
                405,
                "UNIMPLEMENTED",
                "METHOD_NOT_ALLOWED",
                false,
            ),
            Kind::TooLarge => (
                code::INVALID_REQUEST,
                413,
                "INVALID_ARGUMENT",
                "TOO_LARGE",
                false,
            ),
            Kind::MediaType => (
                code::INVALID_REQUEST,
                415,
                "INVALID_ARGUMENT",
                "UNSUPPORTED_MEDIA_TYPE",
                false,
            ),
            Kind::Busy => (SERVER_ERROR, 429, "RESOURCE_EXHAUSTED", "BUSY", false),
            Kind::Unavailable => (SERVER_ERROR, 503, "UNAVAILABLE", "UNAVAILABLE", false),
            Kind::Internal => (
                code::INTERNAL_ERROR,
                500,
                "INTERNAL",
                "INTERNAL_ERROR",
                false,
            ),
        }
    }

    /// Whether HTTP itself says so, also where JSON-RPC is spoken over it.
    const fn is_of_http(self) -> bool {
        matches!(
            self,
            Kind::Unauthenticated
                | Kind::PermissionDenied
                | Kind::NotFound
                | Kind::MethodNotAllowed
                | Kind::TooLarge
                | Kind::MediaType
                | Kind::Busy
                | Kind::Unavailable
        )
    }

    const fn of_code(code: Code) -> Kind {
        match code {
            Code::InvalidRequest | Code::Conflict | Code::Refused | Code::KeyReused => {
                Kind::InvalidParams
            }
            Code::Unauthorized => Kind::Unauthenticated,
            Code::Forbidden => Kind::PermissionDenied,
            Code::NotFound => Kind::NotFound,
            Code::MethodNotAllowed => Kind::MethodNotAllowed,
            Code::TooLarge => Kind::TooLarge,
            Code::UnsupportedMediaType => Kind::MediaType,
            Code::BudgetExceeded | Code::Busy => Kind::Busy,
            Code::Unavailable | Code::DiskFull => Kind::Unavailable,
            Code::Failed => Kind::Internal,
        }
    }
}

/// Why an operation was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Error {
    pub(super) kind: Kind,
    message: String,
    /// More of it, by name.
    about: Vec<(&'static str, String)>,
    /// The field of the request that is wrong.
    field: Option<String>,
    /// Seconds after which it is worth asking again.
    pub(super) retry_after: Option<u64>,
}

impl Error {
    pub(super) fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error {
            kind,
            message: message.into(),
            about: Vec::new(),
            field: None,
            retry_after: None,
        }
    }

    /// A field of the request is wrong.
    pub(super) fn field(name: impl Into<String>, why: impl Display) -> Error {
        let name = name.into();
        Error {
            message: format!("{name}: {why}"),
            field: Some(name),
            ..Error::new(Kind::InvalidParams, "")
        }
    }

    pub(super) fn task_not_found(id: &str) -> Error {
        let error = Error::new(Kind::TaskNotFound, format!("there is no task {id:?}"));
        error.about("taskId", id)
    }

    /// Adds what a program may want to know.
    pub(super) fn about(mut self, name: &'static str, what: impl Into<String>) -> Error {
        self.about.push((name, what.into()));
        self
    }

    /// Another kind, where what was asked for is not there.
    pub(super) fn or_missing(self, missing: impl FnOnce() -> Error) -> Error {
        match self.kind {
            Kind::NotFound => missing(),
            _ => self,
        }
    }

    /// The status of HTTP.
    pub(super) const fn status(&self) -> u16 {
        self.kind.row().1
    }

    /// The same where JSON-RPC is spoken over it.
    pub(super) const fn rpc_status(&self) -> u16 {
        match self.kind.is_of_http() {
            true => self.kind.row().1,
            false => 200,
        }
    }

    fn details(&self) -> Vec<Value> {
        let (.., reason, is_of_protocol) = self.kind.row();
        let about = self.about.iter();
        let about = about.map(|(name, what)| ((*name).to_owned(), Value::from(what.as_str())));
        let domain = match is_of_protocol {
            true => PROTOCOL_DOMAIN,
            false => OWN_DOMAIN,
        };
        let info = json!({"@type": ERROR_INFO_TYPE, "reason": reason, "domain": domain,
            "metadata": about.collect::<serde_json::Map<_, _>>()});
        let wrong = self.field.as_ref().map(|field| {
            let violation = json!({"field": field, "description": self.message});
            json!({"@type": a2a::BAD_REQUEST_TYPE, "fieldViolations": [violation]})
        });
        std::iter::once(info).chain(wrong).collect()
    }

    /// The error object of JSON-RPC.
    pub(super) fn to_rpc(&self) -> Value {
        json!({"code": self.kind.row().0, "message": self.message, "data": self.details()})
    }

    /// The body of the binding to HTTP.
    pub(super) fn to_http(&self) -> Value {
        let (_, code, status, ..) = self.kind.row();
        json!({"error": {"code": code, "status": status, "message": self.message,
            "details": self.details()}})
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<&Problem> for Error {
    fn from(problem: &Problem) -> Error {
        Error {
            retry_after: problem.retry_after,
            ..Error::new(Kind::of_code(problem.code), problem.detail.clone())
        }
    }
}

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Error {
        error.problem().into()
    }
}

impl From<service::Error> for Error {
    fn from(error: service::Error) -> Error {
        match error {
            service::Error::Problem(problem) => (&*problem).into(),
            error => Error::new(Kind::of_code(error.code()), error.to_string()),
        }
    }
}

impl From<unisono::Error> for Error {
    fn from(error: unisono::Error) -> Error {
        (&Problem::from(error)).into()
    }
}

impl From<unisono_runtime::Error> for Error {
    fn from(error: unisono_runtime::Error) -> Error {
        unisono::Error::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of section 5.4 of the protocol.
    #[test]
    fn each_error_of_the_protocol_has_its_codes() {
        let rows = [
            (Kind::TaskNotFound, -32001, "NOT_FOUND", 404),
            (Kind::TaskNotCancelable, -32002, "FAILED_PRECONDITION", 400),
            (
                Kind::PushNotificationNotSupported,
                -32003,
                "FAILED_PRECONDITION",
                400,
            ),
            (
                Kind::UnsupportedOperation,
                -32004,
                "FAILED_PRECONDITION",
                400,
            ),
            (
                Kind::ContentTypeNotSupported,
                -32005,
                "INVALID_ARGUMENT",
                400,
            ),
            (
                Kind::VersionNotSupported,
                -32009,
                "FAILED_PRECONDITION",
                400,
            ),
        ];
        for (kind, code, status, http) in rows {
            let error = Error::new(kind, "it is so");
            let rpc = error.to_rpc();
            assert_eq!((&rpc["code"], error.rpc_status()), (&json!(code), 200));
            let body = error.to_http();
            assert_eq!(body["error"]["status"], status);
            assert_eq!(
                (&body["error"]["code"], error.status()),
                (&json!(http), http)
            );
            let info = &body["error"]["details"][0];
            assert_eq!(info["domain"], "a2a-protocol.org");
            let named = a2a::reason_to_error_code(info["reason"].as_str().unwrap());
            assert_eq!(named, Some(code));
        }
    }

    #[test]
    fn what_http_says_keeps_its_status_where_json_rpc_is_spoken() {
        for code in Code::ALL {
            let error = Error::from(&Problem::new(code, "so"));
            match code {
                Code::InvalidRequest | Code::Conflict | Code::Refused | Code::KeyReused => {
                    assert_eq!((error.status(), error.rpc_status()), (400, 200));
                }
                Code::Failed => assert_eq!((error.status(), error.rpc_status()), (500, 200)),
                _ => assert_eq!(error.status(), error.rpc_status()),
            }
        }
        let wrong = Error::field("message.parts", "there is none");
        assert_eq!(wrong.to_rpc()["code"], -32602);
        let violation = &wrong.to_http()["error"]["details"][1]["fieldViolations"][0];
        assert_eq!(violation["field"], "message.parts");
    }
}
