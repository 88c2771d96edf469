//! Errors of requests: `application/problem+json` (RFC 9457).

use serde::{Deserialize, Serialize};

/// The kind of an error. Stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request is invalid: its JSON, a parameter, an id.
    InvalidRequest,
    /// The token is missing or wrong.
    Unauthorized,
    /// The host, the origin or the token of the request does not allow it.
    Forbidden,
    /// The resource does not exist.
    NotFound,
    /// The address does not support the method.
    MethodNotAllowed,
    /// The current state does not allow the request.
    Conflict,
    /// The body is too large.
    TooLarge,
    /// The body is not JSON.
    UnsupportedMediaType,
    /// The request is valid but refused: an unknown agent, an empty task.
    Refused,
    /// The budget has not enough left; a retry does not help.
    BudgetExceeded,
    /// A model's provider rejects the request: its API key, the model's name, the credit. A retry
    /// does not help.
    ProviderRejected,
    /// Another request used the same `Idempotency-Key`.
    KeyReused,
    /// Too many requests wait; retry after `Retry-After` seconds.
    Busy,
    /// The request is valid, but it failed.
    Failed,
    /// The program is stopping, or its store accepts no writes.
    Unavailable,
    /// The disk of the store is full: reads continue, and writes resume when there is space.
    DiskFull,
}

impl Code {
    /// Every code.
    pub const ALL: [Code; 16] = [
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
        Code::ProviderRejected,
        Code::KeyReused,
        Code::Busy,
        Code::Failed,
        Code::Unavailable,
        Code::DiskFull,
    ];

    /// Its name in JSON, its HTTP status and its title.
    const fn facts(self) -> (&'static str, u16, &'static str) {
        match self {
            Code::InvalidRequest => ("invalid_request", 400, "the request is invalid"),
            Code::Unauthorized => ("unauthorized", 401, "a valid token is missing"),
            Code::Forbidden => {
                let title = "the request is not allowed from this origin or for this token";
                ("forbidden", 403, title)
            }
            Code::NotFound => ("not_found", 404, "not found"),
            Code::MethodNotAllowed => {
                let title = "this address does not take that method";
                ("method_not_allowed", 405, title)
            }
            Code::Conflict => ("conflict", 409, "the current state does not allow this"),
            Code::TooLarge => ("too_large", 413, "the body is too large"),
            Code::UnsupportedMediaType => ("unsupported_media_type", 415, "the body must be JSON"),
            Code::Refused => ("refused", 422, "the request is refused"),
            Code::BudgetExceeded => ("budget_exceeded", 402, "the budget is used up"),
            Code::ProviderRejected => {
                let title = "the model's provider rejects the request";
                ("provider_rejected", 424, title)
            }
            Code::KeyReused => ("key_reused", 422, "the key was used for another request"),
            Code::Busy => ("busy", 429, "too many requests wait"),
            Code::Failed => ("failed", 500, "the request failed"),
            Code::Unavailable => ("unavailable", 503, "temporarily unavailable"),
            Code::DiskFull => ("disk_full", 507, "the disk of the store is full"),
        }
    }

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        self.facts().0
    }

    /// The code with that name.
    pub fn from_name(name: &str) -> Option<Code> {
        Code::ALL.into_iter().find(|code| code.name() == name)
    }

    /// Its HTTP status.
    pub const fn status(self) -> u16 {
        self.facts().1
    }

    /// A title for people, the same for every error of this kind.
    pub const fn title(self) -> &'static str {
        self.facts().2
    }

    /// The remedy, for the page of the code.
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
                "`detail` names the reason: a scope that the token lacks, a host that `server.hosts` \
                 does not list, or a page of another origin, which is never served."
            }
            Code::NotFound => "Look it up: `GET /v1/sessions` lists sessions.",
            Code::MethodNotAllowed => "The header `Allow` lists the methods.",
            Code::Conflict => "Read the current state, then decide again.",
            Code::TooLarge => "Send less; `detail` names the limit.",
            Code::UnsupportedMediaType => {
                "Send `Content-Type: application/json`, without `Content-Encoding`."
            }
            Code::Refused => "`detail` names the invalid part of the request.",
            Code::BudgetExceeded => {
                "`detail` names the budget and what is left of it. Raise it in the tables \
                 `[budget.…]`, or wait for its next period; the same request fails again until then."
            }
            Code::ProviderRejected => {
                "`detail` has the provider's reason: correct its API key, the name of the model or \
                 the credit of the account. The same request fails again until then."
            }
            Code::KeyReused => {
                "Send the request as it was the first time to have its result again, or another \
                 `Idempotency-Key` with another request."
            }
            Code::Busy => "Wait as long as `Retry-After` says, then ask again.",
            Code::Failed => "The program's log has more; `unisono doctor` checks the store.",
            Code::Unavailable => "Try again when `GET /readyz` answers 200.",
            Code::DiskFull => {
                "Free some space on the disk of the store; `detail` says how much is missing. \
                 Nothing acknowledged is lost. Reads continue. Writes and open turns resume as soon \
                 as there is space."
            }
        }
    }
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Problem {
    /// The address of the page about this kind of error.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind, for people.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The kind, for programs.
    pub code: Code,
    /// What happened, and what to do.
    pub detail: String,
    /// Seconds after which a retry makes sense.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// Number of lines of an imported file that cannot be read; `skip_bad` skips them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bad_lines: Option<u64>,
}

impl Problem {
    /// An error of that kind.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem {
            kind: format!("/problems/{}", code.name()),
            title: code.title().to_owned(),
            status: code.status(),
            code,
            detail: detail.into(),
            retry_after: None,
            bad_lines: None,
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
