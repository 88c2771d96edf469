//! Errors in the words of each provider.
//!
//! Sources: the error pages of the four API references, and replies as they were reported to the
//! trackers of the providers' own clients where the references give no wording.

use crate::dialect::Dialect;
use crate::render::quote;
use crate::sse::Frame;

/// Why the provider does not answer. Rendered with its status and wording in the dialect that a
/// request is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The key is wrong: 401, at Gemini 400.
    Unauthorised,
    /// The key may not do this: 403.
    Forbidden,
    /// There is no such model: 404.
    UnknownModel(String),
    /// The input is longer than the model's window: 400.
    Overflow {
        /// The window, tokens.
        limit: u64,
        /// The input, tokens.
        actual: u64,
    },
    /// The request is not valid, for that reason: 400.
    BadRequest(String),
    /// The account has nothing left to spend: 429, at Anthropic 400.
    OutOfQuota,
    /// Too many requests: 429.
    RateLimited {
        /// Seconds to wait, named in the message and in Gemini's `RetryInfo`. The header is
        /// [`Act::retry_after`](crate::Act::retry_after)'s matter.
        seconds: Option<u64>,
    },
    /// The provider failed: 500.
    Internal,
    /// The provider is overloaded: 503, at Anthropic 529.
    Overloaded,
}

/// How OpenAI's Responses tells of an error in mid-stream. The other dialects have one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorEvent {
    /// `error` with its fields in an object `error`, as the API sends it.
    #[default]
    Nested,
    /// `error` with its fields at the top, as the reference has it.
    Flat,
    /// `response.failed` with the error in the response.
    Failed,
}

/// A refusal in one provider's words.
struct Wording {
    status: u16,
    /// `type` at OpenAI and Anthropic, `status` at Gemini.
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<&'static str>,
    message: String,
}

impl Refusal {
    /// The status in that dialect.
    pub fn status(&self, dialect: Dialect) -> u16 {
        self.wording(dialect).status
    }

    /// The body in that dialect: JSON.
    pub fn body(&self, dialect: Dialect) -> String {
        let said = self.wording(dialect);
        match dialect {
            Dialect::OpenAiChat | Dialect::OpenAiResponses => {
                format!(r#"{{"error":{}}}"#, openai_error(&said))
            }
            Dialect::Anthropic => format!(
                r#"{{"type":"error","error":{{"type":"{}","message":{}}},"request_id":"req_fake"}}"#,
                said.kind,
                quote(&said.message),
            ),
            Dialect::Gemini => format!(
                r#"{{"error":{{"code":{},"message":{},"status":"{}"{}}}}}"#,
                said.status,
                quote(&said.message),
                said.kind,
                self.gemini_details(),
            ),
        }
    }

    /// The refusal as an event of a stream. `number`: how many events came before it.
    pub(crate) fn frame(&self, dialect: Dialect, form: ErrorEvent, number: usize) -> Frame {
        let (event, data) = match dialect {
            Dialect::OpenAiChat | Dialect::Gemini => (None, self.body(dialect)),
            Dialect::Anthropic => (Some("error"), self.body(dialect)),
            Dialect::OpenAiResponses => self.responses_event(form, number),
        };
        Frame { event, data }
    }

    fn responses_event(&self, form: ErrorEvent, number: usize) -> (Option<&'static str>, String) {
        let said = self.wording(Dialect::OpenAiResponses);
        let code = quote(said.code.unwrap_or("server_error"));
        let message = quote(&said.message);
        match form {
            ErrorEvent::Nested => (
                Some("error"),
                format!(
                    r#"{{"type":"error","sequence_number":{number},"error":{}}}"#,
                    openai_error(&said)
                ),
            ),
            ErrorEvent::Flat => (
                Some("error"),
                format!(
                    r#"{{"type":"error","code":{code},"message":{message},"param":null,"sequence_number":{number}}}"#
                ),
            ),
            ErrorEvent::Failed => (
                Some("response.failed"),
                format!(
                    r#"{{"type":"response.failed","sequence_number":{number},"response":{{"id":"resp_fake","object":"response","created_at":1700000000,"status":"failed","error":{{"code":{code},"message":{message}}},"incomplete_details":null,"model":"fake-model","output":[],"usage":null}}}}"#
                ),
            ),
        }
    }

    fn wording(&self, dialect: Dialect) -> Wording {
        match dialect {
            Dialect::OpenAiChat | Dialect::OpenAiResponses => self.openai(dialect),
            Dialect::Anthropic => self.anthropic(),
            Dialect::Gemini => self.gemini(),
        }
    }

    fn openai(&self, dialect: Dialect) -> Wording {
        const INVALID: &str = "invalid_request_error";
        let (status, kind, code, param) = match self {
            Refusal::Unauthorised => (401, INVALID, Some("invalid_api_key"), None),
            Refusal::Forbidden => (
                403,
                INVALID,
                Some("unsupported_country_region_territory"),
                None,
            ),
            Refusal::UnknownModel(_) => (404, INVALID, Some("model_not_found"), None),
            Refusal::Overflow { .. } => {
                let param = match dialect {
                    Dialect::OpenAiChat => "messages",
                    _ => "input",
                };
                (400, INVALID, Some("context_length_exceeded"), Some(param))
            }
            Refusal::BadRequest(_) => (400, INVALID, None, None),
            Refusal::OutOfQuota => (429, "insufficient_quota", Some("insufficient_quota"), None),
            Refusal::RateLimited { .. } => (429, "requests", Some("rate_limit_exceeded"), None),
            Refusal::Internal => (500, "server_error", None, None),
            Refusal::Overloaded => (503, "server_error", Some("server_is_overloaded"), None),
        };
        let message = match self {
            Refusal::Unauthorised => {
                "Incorrect API key provided: sk-***. You can find your API key at https://platform.openai.com/account/api-keys.".into()
            }
            Refusal::Forbidden => "Country, region, or territory not supported".into(),
            Refusal::UnknownModel(model) => {
                format!("The model `{model}` does not exist or you do not have access to it.")
            }
            Refusal::Overflow { limit, actual } if dialect == Dialect::OpenAiChat => format!(
                "This model's maximum context length is {limit} tokens. However, your messages resulted in {actual} tokens. Please reduce the length of the messages."
            ),
            Refusal::Overflow { .. } => {
                "Your input exceeds the context window of this model. Please adjust your input and try again.".into()
            }
            Refusal::BadRequest(reason) => reason.clone(),
            Refusal::OutOfQuota => {
                "You exceeded your current quota, please check your plan and billing details.".into()
            }
            Refusal::RateLimited { seconds } => {
                let wait = seconds.map(|s| format!(" Please try again in {s}s."));
                format!(
                    "Rate limit reached for fake-model in organization org-fake on requests per min (RPM): Limit 3, Used 3, Requested 1.{}",
                    wait.unwrap_or_default(),
                )
            }
            Refusal::Internal => {
                "The server had an error while processing your request. Sorry about that!".into()
            }
            Refusal::Overloaded => {
                "Our servers are currently overloaded. Please try again later.".into()
            }
        };
        Wording {
            status,
            kind,
            code,
            param,
            message,
        }
    }

    fn anthropic(&self) -> Wording {
        const INVALID: &str = "invalid_request_error";
        let (status, kind, message) = match self {
            Refusal::Unauthorised => (401, "authentication_error", "invalid x-api-key".into()),
            Refusal::Forbidden => (
                403,
                "permission_error",
                "Your API key does not have permission to use the specified resource.".into(),
            ),
            Refusal::UnknownModel(model) => (404, "not_found_error", format!("model: {model}")),
            Refusal::Overflow { limit, actual } => (
                400,
                INVALID,
                format!("prompt is too long: {actual} tokens > {limit} maximum"),
            ),
            Refusal::BadRequest(reason) => (400, INVALID, reason.clone()),
            Refusal::OutOfQuota => (
                400,
                INVALID,
                "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.".into(),
            ),
            Refusal::RateLimited { .. } => (
                429,
                "rate_limit_error",
                "This request would exceed your organization's rate limit of 3 requests per minute.".into(),
            ),
            Refusal::Internal => (500, "api_error", "Internal server error".into()),
            Refusal::Overloaded => (529, "overloaded_error", "Overloaded".into()),
        };
        Wording {
            status,
            kind,
            code: None,
            param: None,
            message,
        }
    }

    fn gemini(&self) -> Wording {
        const INVALID: &str = "INVALID_ARGUMENT";
        let (status, kind, message) = match self {
            Refusal::Unauthorised => {
                (400, INVALID, "API key not valid. Please pass a valid API key.".into())
            }
            Refusal::Forbidden => (
                403,
                "PERMISSION_DENIED",
                "The caller does not have permission".into(),
            ),
            Refusal::UnknownModel(model) => (
                404,
                "NOT_FOUND",
                format!(
                    "models/{model} is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods."
                ),
            ),
            Refusal::Overflow { limit, actual } => (
                400,
                INVALID,
                format!(
                    "The input token count ({actual}) exceeds the maximum number of tokens allowed ({limit})."
                ),
            ),
            Refusal::BadRequest(reason) => (400, INVALID, reason.clone()),
            Refusal::OutOfQuota => (
                429,
                "RESOURCE_EXHAUSTED",
                "You exceeded your current quota, please check your plan and billing details.".into(),
            ),
            Refusal::RateLimited { seconds } => {
                let wait = seconds.map(|s| format!(" Please retry in {s}s."));
                (
                    429,
                    "RESOURCE_EXHAUSTED",
                    format!(
                        "Resource has been exhausted (e.g. check quota).{}",
                        wait.unwrap_or_default(),
                    ),
                )
            }
            Refusal::Internal => (
                500,
                "INTERNAL",
                "An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting".into(),
            ),
            Refusal::Overloaded => (
                503,
                "UNAVAILABLE",
                "The model is overloaded. Please try again later.".into(),
            ),
        };
        Wording {
            status,
            kind,
            code: None,
            param: None,
            message,
        }
    }

    /// What Gemini adds to an error, as a field with a comma before it.
    fn gemini_details(&self) -> String {
        let detail = match self {
            Refusal::Unauthorised => {
                r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com","metadata":{"service":"generativelanguage.googleapis.com"}}"#.into()
            }
            Refusal::OutOfQuota => {
                r#"{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_requests","quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaValue":"50"}]}"#.into()
            }
            Refusal::RateLimited { seconds: Some(seconds) } => format!(
                r#"{{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"{seconds}s"}}"#
            ),
            _ => return String::new(),
        };
        format!(r#","details":[{detail}]"#)
    }
}

fn openai_error(said: &Wording) -> String {
    let or_null = |text: Option<&str>| text.map_or_else(|| "null".into(), quote);
    format!(
        r#"{{"message":{},"type":"{}","param":{},"code":{}}}"#,
        quote(&said.message),
        said.kind,
        or_null(said.param),
        or_null(said.code),
    )
}
