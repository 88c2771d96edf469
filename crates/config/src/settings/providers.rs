//! Providers of models: addresses, API keys, timeouts and limits, as configured.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::TimeText;

/// `[providers.<name>]`. Missing keys come from the built-in provider of that name, or from the one
/// that it is like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Provider {
    /// The built-in provider that it is like. Required for a name that is not built in.
    pub like: Option<String>,
    /// The OpenAI API that it uses.
    pub api: Option<Api>,
    /// Its address, with the path that comes before the dialect's own.
    pub base_url: Option<String>,
    /// Azure's `api-version`.
    pub api_version: Option<String>,
    /// The environment variable with its API key.
    pub api_key_env: Option<String>,
    /// The file with its API key, absolute. It overrides the variable.
    pub api_key_file: Option<PathBuf>,
    /// Sent with each request.
    pub headers: BTreeMap<String, String>,
    /// The model of agents that name no model, if this provider is selected.
    pub default_model: Option<String>,
    /// Until the connection is established.
    pub connect_timeout: Option<TimeText>,
    /// From the request to the first byte of the reply.
    pub first_byte_timeout: Option<TimeText>,
    /// Between two pieces of a reply.
    pub idle_timeout: Option<TimeText>,
    /// The whole reply.
    pub total_timeout: Option<TimeText>,
    /// Attempts per request, the first included.
    pub attempts: Option<u32>,
    /// The largest reply that is read, in bytes.
    pub reply_cap_bytes: Option<u64>,
    /// Requests per minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens per minute.
    pub tokens_per_minute: Option<u64>,
    /// Simultaneous requests.
    pub max_concurrent: Option<u32>,
    /// How long a request waits for these limits.
    pub queue_timeout: Option<TimeText>,
    /// The slots of its server, each with its own cache; for a server that does not report them.
    pub slots: Option<u32>,
}

/// OpenAI's two interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// Chat Completions.
    Chat,
    /// Responses.
    Responses,
}
