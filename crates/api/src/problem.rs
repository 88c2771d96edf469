//! Why a request was not carried out: `application/problem+json` (RFC 9457).

use serde::{Deserialize, Serialize};

/// What kind of problem it is. Stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request is not understood: its JSON, a parameter, an id.
    InvalidRequest,
    /// There is no token, or a wrong one.
    Unauthorized,
    /// The request comes from a place it may not come from.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// The address does not take that method.
    MethodNotAllowed,
    /// It cannot be done as things stand now.
    Conflict,
    /// The body is larger than is taken.
    TooLarge,
    /// The body is not JSON.
    UnsupportedMediaType,
    /// It is understood and refused: an unknown agent, an empty task.
    Refused,
    /// A budget has not enough left; asking again does not help.
    BudgetExceeded,
    /// Another request was made under the same `Idempotency-Key`.
    KeyReused,
    /// Too many requests wait; after `Retry-After` seconds there may be room.
    Busy,
    /// It did not work, and that is not the request's fault.
    Failed,
    /// The program is stopping, or its store takes no writes.
    Unavailable,
    /// The disk of the store is full: what is there can be read, and writing goes on by itself when
    /// there is room.
    DiskFull,
}

impl Code {
    /// Every code.
    pub const ALL: [Code; 15] = [
        Code::InvalidRequest,
        Code::Unauthorized,
        Code::Forbidden,
        Code::NotFound,
        Code::MethodNotAllowed,
        Code::Conflict,
        Code::TooLarge,
        Code::UnsupportedMediaType,
        Code::Refused,
        Code::BudgetExceeded,
        Code::KeyReused,
        Code::Busy,
        Code::Failed,
        Code::Unavailable,
        Code::DiskFull,
    ];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Code::InvalidRequest => "invalid_request",
            Code::Unauthorized => "unauthorized",
            Code::Forbidden => "forbidden",
            Code::NotFound => "not_found",
            Code::MethodNotAllowed => "method_not_allowed",
            Code::Conflict => "conflict",
            Code::TooLarge => "too_large",
            Code::UnsupportedMediaType => "unsupported_media_type",
            Code::Refused => "refused",
            Code::BudgetExceeded => "budget_exceeded",
            Code::KeyReused => "key_reused",
            Code::Busy => "busy",
            Code::Failed => "failed",
            Code::Unavailable => "unavailable",
            Code::DiskFull => "disk_full",
        }
    }

    /// The code of that name.
    pub fn from_name(name: &str) -> Option<Code> {
        Code::ALL.into_iter().find(|code| code.name() == name)
    }

    /// The HTTP status it is answered with.
    pub const fn status(self) -> u16 {
        match self {
            Code::InvalidRequest => 400,
            Code::Unauthorized => 401,
            Code::BudgetExceeded => 402,
            Code::Forbidden => 403,
            Code::NotFound => 404,
            Code::MethodNotAllowed => 405,
            Code::Conflict => 409,
            Code::TooLarge => 413,
            Code::UnsupportedMediaType => 415,
            Code::Refused | Code::KeyReused => 422,
            Code::Busy => 429,
            Code::Failed => 500,
            Code::Unavailable => 503,
            Code::DiskFull => 507,
        }
    }

    /// For people, the same for every problem of this kind.
    pub const fn title(self) -> &'static str {
        match self {
            Code::InvalidRequest => "the request is not understood",
            Code::Unauthorized => "a valid token is missing",
            Code::Forbidden => "this may not be asked from there",
            Code::NotFound => "there is no such thing",
            Code::MethodNotAllowed => "this address does not take that method",
            Code::Conflict => "this cannot be done as things stand now",
            Code::TooLarge => "the body is too large",
            Code::UnsupportedMediaType => "the body must be JSON",
            Code::Refused => "the request is refused",
            Code::BudgetExceeded => "the budget is used up",
            Code::KeyReused => "the key stands for another request",
            Code::Busy => "too many requests wait",
            Code::Failed => "it did not work",
            Code::Unavailable => "this cannot be had now",
            Code::DiskFull => "the disk of the store is full",
        }
    }

    /// What to do about it, for the page of the code.
    pub const fn help(self) -> &'static str {
        match self {
            Code::InvalidRequest => {
                "Compare the request with /v1/openapi.json; `detail` names the field."
            }
            Code::Unauthorized => {
                "Send `Authorization: Bearer <token>`; `unisono serve` prints the file that holds \
                 the token."
            }
            Code::Forbidden => {
                "Use the address that `unisono serve` prints. Other host names are listed in \
                 `server.hosts`; pages of other origins are never served."
            }
            Code::NotFound => "Look it up: `GET /v1/sessions` lists sessions.",
            Code::MethodNotAllowed => "The header `Allow` lists the methods.",
            Code::Conflict => "Look at the state again, then decide anew.",
            Code::TooLarge => "Send less, or raise `server.body_limit_bytes`.",
            Code::UnsupportedMediaType => "Send `Content-Type: application/json`.",
            Code::Refused => "`detail` says what is wrong with what was asked.",
            Code::BudgetExceeded => {
                "`detail` names the budget and what is left of it. Raise it in the tables \
                 `[budget.…]`, or wait for its next period; the same request fails again until then."
            }
            Code::KeyReused => {
                "Send the request as it was the first time to have its result again, or another \
                 `Idempotency-Key` with another request."
            }
            Code::Busy => "Wait as long as `Retry-After` says, then ask again.",
            Code::Failed => "The program's log has more; `unisono doctor` checks the store.",
            Code::Unavailable => "`GET /readyz` says when it can be had again.",
            Code::DiskFull => {
                "Free some space on the disk of the store; `detail` says how much is missing. \
                 Nothing acknowledged is lost, reads go on, and writes are taken again as soon as \
                 there is room, open turns with them."
            }
        }
    }
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Problem {
    /// The address of the page about this kind of problem.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind, for people.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The kind, for programs.
    pub code: Code,
    /// What happened here, and what to do.
    pub detail: String,
    /// Seconds after which it is worth asking again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

impl Problem {
    /// A problem of that kind.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem {
            kind: format!("/problems/{}", code.name()),
            title: code.title().to_owned(),
            status: code.status(),
            code,
            detail: detail.into(),
            retry_after: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_written_as_its_name() {
        for code in Code::ALL {
            let written = serde_json::to_value(code).unwrap();
            assert_eq!(written, code.name());
            assert_eq!(Code::from_name(code.name()), Some(code));
            assert!((400..600).contains(&code.status()));
        }
        assert_eq!(Code::from_name("teapot"), None);
    }
}
