//! Why an operation was not carried out, as both bindings of the protocol have it.

use std::fmt::{self, Display, Formatter};

use a2a::{ERROR_INFO_TYPE, PROTOCOL_DOMAIN, error_code};
use serde_json::{Value, json};
use unisono_api::{Code, Problem, service};

/// The domain of error reasons that the protocol does not define.
const OWN_DOMAIN: &str = "unisono";
/// The JSON-RPC code for errors without a code of the protocol.
const SERVER_ERROR: i32 = -32000;

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
    /// Its code of JSON-RPC.
    const fn code(self) -> i32 {
        match self {
            Kind::TaskNotFound => error_code::TASK_NOT_FOUND,
            Kind::TaskNotCancelable => error_code::TASK_NOT_CANCELABLE,
            Kind::PushNotificationNotSupported => error_code::PUSH_NOTIFICATION_NOT_SUPPORTED,
            Kind::UnsupportedOperation => error_code::UNSUPPORTED_OPERATION,
            Kind::ContentTypeNotSupported | Kind::MediaType => {
                error_code::CONTENT_TYPE_NOT_SUPPORTED
            }
            Kind::VersionNotSupported => error_code::VERSION_NOT_SUPPORTED,
            Kind::Parse => error_code::PARSE_ERROR,
            Kind::InvalidRequest | Kind::TooLarge => error_code::INVALID_REQUEST,
            Kind::MethodNotFound => error_code::METHOD_NOT_FOUND,
            Kind::InvalidParams => error_code::INVALID_PARAMS,
            Kind::Internal => error_code::INTERNAL_ERROR,
            Kind::Unauthenticated
            | Kind::PermissionDenied
            | Kind::NotFound
            | Kind::MethodNotAllowed
            | Kind::Busy
            | Kind::Unavailable => SERVER_ERROR,
        }
    }

    /// Its status of HTTP, and its name in Google's RPC.
    const fn status(self) -> (u16, &'static str) {
        match self {
            Kind::TaskNotFound | Kind::NotFound => (404, "NOT_FOUND"),
            Kind::TaskNotCancelable
            | Kind::PushNotificationNotSupported
            | Kind::UnsupportedOperation
            | Kind::VersionNotSupported => (400, "FAILED_PRECONDITION"),
            Kind::ContentTypeNotSupported
            | Kind::Parse
            | Kind::InvalidRequest
            | Kind::InvalidParams => (400, "INVALID_ARGUMENT"),
            Kind::TooLarge => (413, "INVALID_ARGUMENT"),
            Kind::MediaType => (415, "INVALID_ARGUMENT"),
            Kind::MethodNotFound => (404, "UNIMPLEMENTED"),
            Kind::MethodNotAllowed => (405, "UNIMPLEMENTED"),
            Kind::Unauthenticated => (401, "UNAUTHENTICATED"),
            Kind::PermissionDenied => (403, "PERMISSION_DENIED"),
            Kind::Busy => (429, "RESOURCE_EXHAUSTED"),
            Kind::Unavailable => (503, "UNAVAILABLE"),
            Kind::Internal => (500, "INTERNAL"),
        }
    }

    /// Its reason, and the domain of that.
    const fn reason(self) -> (&'static str, &'static str) {
        match self {
            Kind::TaskNotFound => ("TASK_NOT_FOUND", PROTOCOL_DOMAIN),
            Kind::TaskNotCancelable => ("TASK_NOT_CANCELABLE", PROTOCOL_DOMAIN),
            Kind::PushNotificationNotSupported => {
                ("PUSH_NOTIFICATION_NOT_SUPPORTED", PROTOCOL_DOMAIN)
            }
            Kind::UnsupportedOperation => ("UNSUPPORTED_OPERATION", PROTOCOL_DOMAIN),
            Kind::ContentTypeNotSupported | Kind::MediaType => {
                ("CONTENT_TYPE_NOT_SUPPORTED", PROTOCOL_DOMAIN)
            }
            Kind::VersionNotSupported => ("VERSION_NOT_SUPPORTED", PROTOCOL_DOMAIN),
            Kind::Parse => ("PARSE_ERROR", OWN_DOMAIN),
            Kind::InvalidRequest => ("INVALID_REQUEST", OWN_DOMAIN),
            Kind::MethodNotFound => ("METHOD_NOT_FOUND", OWN_DOMAIN),
            Kind::InvalidParams => ("INVALID_PARAMS", OWN_DOMAIN),
            Kind::Unauthenticated => ("UNAUTHENTICATED", OWN_DOMAIN),
            Kind::PermissionDenied => ("PERMISSION_DENIED", OWN_DOMAIN),
            Kind::NotFound => ("NOT_FOUND", OWN_DOMAIN),
            Kind::MethodNotAllowed => ("METHOD_NOT_ALLOWED", OWN_DOMAIN),
            Kind::TooLarge => ("TOO_LARGE", OWN_DOMAIN),
            Kind::Busy => ("BUSY", OWN_DOMAIN),
            Kind::Unavailable => ("UNAVAILABLE", OWN_DOMAIN),
            Kind::Internal => ("INTERNAL_ERROR", OWN_DOMAIN),
        }
    }

    /// Whether the error is an HTTP status, also with JSON-RPC.
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
            Code::Failed | Code::ProviderRejected => Kind::Internal,
        }
    }
}

/// Why an operation was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Error {
    pub(super) kind: Kind,
    message: String,
    /// Further details, by name.
    about: Vec<(&'static str, String)>,
    /// The invalid field of the request.
    field: Option<String>,
    /// Seconds after which a retry may succeed.
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
        error.with_detail("taskId", id)
    }

    /// Adds details for programs.
    pub(super) fn with_detail(mut self, name: &'static str, what: impl Into<String>) -> Error {
        self.about.push((name, what.into()));
        self
    }

    /// Replaces the kind of an error about a missing object.
    pub(super) fn or_missing(self, missing: impl FnOnce() -> Error) -> Error {
        match self.kind {
            Kind::NotFound => missing(),
            _ => self,
        }
    }

    /// The status of HTTP.
    pub(super) const fn status(&self) -> u16 {
        self.kind.status().0
    }

    /// The same for JSON-RPC.
    pub(super) const fn rpc_status(&self) -> u16 {
        match self.kind.is_of_http() {
            true => self.kind.status().0,
            false => 200,
        }
    }

    fn details(&self) -> Vec<Value> {
        let (reason, domain) = self.kind.reason();
        let about = self.about.iter();
        let about = about.map(|(name, what)| ((*name).to_owned(), Value::from(what.as_str())));
        let info = json!({"@type": ERROR_INFO_TYPE, "reason": reason, "domain": domain,
            "metadata": about.collect::<serde_json::Map<_, _>>()});
        let wrong = self.field.as_ref().map(|field| {
            let violation = json!({"field": field, "description": self.message});
            json!({"@type": a2a::BAD_REQUEST_TYPE, "fieldViolations": [violation]})
        });
        std::iter::once(info).chain(wrong).collect()
    }

    pub(super) fn to_rpc(&self) -> Value {
        json!({"code": self.kind.code(), "message": self.message, "data": self.details()})
    }

    /// The body of the binding to HTTP.
    pub(super) fn to_http(&self) -> Value {
        let (code, status) = self.kind.status();
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
        let rows = rows! {
            (Kind::TaskNotFound, -32001, "NOT_FOUND", 404),
            (Kind::TaskNotCancelable, -32002, "FAILED_PRECONDITION", 400),
            (Kind::PushNotificationNotSupported, -32003, "FAILED_PRECONDITION", 400),
            (Kind::UnsupportedOperation, -32004, "FAILED_PRECONDITION", 400),
            (Kind::ContentTypeNotSupported, -32005, "INVALID_ARGUMENT", 400),
            (Kind::VersionNotSupported, -32009, "FAILED_PRECONDITION", 400),
        };
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
                Code::Failed | Code::ProviderRejected => {
                    assert_eq!((error.status(), error.rpc_status()), (500, 200));
                }
                _ => assert_eq!(error.status(), error.rpc_status()),
            }
        }
        let wrong = Error::field("message.parts", "the list is empty");
        assert_eq!(wrong.to_rpc()["code"], -32602);
        let violation = &wrong.to_http()["error"]["details"][1]["fieldViolations"][0];
        assert_eq!(violation["field"], "message.parts");
    }
}
