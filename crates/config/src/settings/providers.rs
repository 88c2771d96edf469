//! Who serves models: addresses, keys, times and limits, as they are written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::TimeText;

/// `[providers.<name>]`. What is left out is as the provider of that name has it, or the one it
/// is like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Provider {
    /// The built-in provider that it is like. Required for a name that is not built in.
    pub like: Option<String>,
    /// Which of OpenAI's interfaces it is asked by.
    pub api: Option<Api>,
    /// Its address, with the path that comes before the dialect's own.
    pub base_url: Option<String>,
    /// Azure's `api-version`.
    pub api_version: Option<String>,
    /// The environment variable that holds its key.
    pub api_key_env: Option<String>,
    /// The file that holds its key, absolute. Comes before the variable.
    pub api_key_file: Option<PathBuf>,
    /// Sent with each request.
    pub headers: BTreeMap<String, String>,
    /// The model of agents that name none, when this provider is chosen.
    pub default_model: Option<String>,
    /// Until the connection stands.
    pub connect_timeout: Option<TimeText>,
    /// From the request to the first byte of the reply.
    pub first_byte_timeout: Option<TimeText>,
    /// Between two pieces of a reply.
    pub idle_timeout: Option<TimeText>,
    /// The whole reply.
    pub total_timeout: Option<TimeText>,
    /// Attempts at one request, the first included.
    pub attempts: Option<u32>,
    /// The largest reply that is read, in bytes.
    pub reply_cap_bytes: Option<u64>,
    /// Requests a minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute.
    pub tokens_per_minute: Option<u64>,
    /// Requests at the same time.
    pub max_concurrent: Option<u32>,
    /// How long a request waits for these limits.
    pub queue_timeout: Option<TimeText>,
    /// The slots of its server, each of which has a cache of its own: for one that does not tell.
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
