//! A provider as settings: its address, its dialect, and the timeouts of its client.
//!
//! Everything here is a value. Nothing shows an API key: [`Key`] and the values of extra headers
//! print `[redacted]`.

mod address;
mod header;
mod key;
mod policies;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderName;

use crate::dialect::Dialect;
use crate::sse;

pub use address::{Address, Error as AddressError};
pub use header::{Error as HeaderError, Header};
pub use key::{Error as KeyError, Key, Source as KeySource, Warning as KeyWarning};
pub use policies::{BreakerPolicy, Limits, RetryPolicy};

/// One provider.
#[derive(Clone)]
pub struct Settings {
    /// Its name, as in `provider/model`.
    pub name: Arc<str>,
    /// Its kind.
    pub kind: Kind,
    /// Its address.
    pub address: Address,
    /// Its wire format.
    pub dialect: Dialect,
    /// Its authentication.
    pub auth: Auth,
    /// Additional headers; one with the name of a dialect's header replaces it.
    pub headers: Vec<Header>,
    /// The timeouts.
    pub timeouts: Timeouts,
    /// The size limits of replies.
    pub caps: Caps,
    /// The retry policy.
    pub retry: RetryPolicy,
    /// The rate limits.
    pub limits: Limits,
    /// The circuit breaker.
    pub breaker: BreakerPolicy,
}

/// The kinds of providers, with their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// OpenAI.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Google's Gemini.
    Gemini,
    /// OpenAI's models at Azure.
    Azure,
    /// Any server with OpenAI's Chat Completions: Ollama, vLLM, llama.cpp and others.
    Compatible,
}

/// The authentication at a provider.
#[derive(Clone)]
pub enum Auth {
    /// None.
    None,
    /// `Authorization: Bearer` and the key.
    Bearer(Key),
    /// A header with the key as its value: `x-api-key`, `api-key`, `x-goog-api-key`.
    Header(HeaderName, Key),
}

/// The timeouts of a call. None may be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection is established, TLS included.
    pub connect: Duration,
    /// From the start of an attempt until the first byte of the reply's body, connecting and
    /// sending included.
    pub first_byte: Duration,
    /// Between two pieces of a reply.
    pub idle: Duration,
    /// The whole call, with its waits and retries.
    pub total: Duration,
}

/// The size limits of a reply, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The whole reply.
    pub response: usize,
    /// One event or line of its stream.
    pub stream: sse::Caps,
}

/// Invalid settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kind has no default address, and none is set.
    #[error("provider `{provider}`: {kind} has no default address; set its base URL")]
    NoAddress {
        /// The provider.
        provider: Arc<str>,
        /// Its kind.
        kind: Kind,
    },
    /// The address is invalid.
    #[error("provider `{provider}`: {error}")]
    Address {
        /// The provider.
        provider: Arc<str>,
        /// The problem.
        error: AddressError,
    },
    /// A timeout, cap or limit is zero.
    #[error("provider `{provider}`: {setting} is zero; no request could ever be answered")]
    Zero {
        /// The provider.
        provider: Arc<str>,
        /// The setting.
        setting: &'static str,
    },
}

impl Settings {
    /// The defaults of a kind. `address` is optional if the kind has a default address.
    ///
    /// # Errors
    /// There is no address, or it is invalid.
    pub fn new(
        name: impl Into<Arc<str>>,
        kind: Kind,
        address: Option<&str>,
        key: Option<Key>,
    ) -> Result<Settings, Error> {
        let provider = name.into();
        let Some(address) = address.or(kind.address()) else {
            return Err(Error::NoAddress { provider, kind });
        };
        let address = match Address::parse(address) {
            Ok(address) => address,
            Err(error) => return Err(Error::Address { provider, error }),
        };
        let auth = key.map_or(Auth::None, |key| kind.auth(key));
        Ok(Settings {
            auth,
            ..Settings::with_defaults(provider, kind, address)
        })
    }

    /// The settings of an HTTP endpoint that is not a provider; its address is used verbatim.
    pub fn for_endpoint(name: impl Into<Arc<str>>, address: Address) -> Settings {
        Settings::with_defaults(name.into(), Kind::Compatible, address)
    }

    fn with_defaults(name: Arc<str>, kind: Kind, address: Address) -> Settings {
        Settings {
            name,
            kind,
            address,
            dialect: kind.dialect(),
            auth: Auth::None,
            headers: Vec::new(),
            timeouts: Timeouts::default(),
            caps: Caps::default(),
            retry: RetryPolicy::default(),
            limits: Limits::default(),
            breaker: BreakerPolicy::default(),
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// A timeout, cap or limit is zero.
    pub fn check(&self) -> Result<(), Error> {
        let (timeouts, caps) = (self.timeouts, self.caps);
        let zero = [
            ("the connect timeout", timeouts.connect.is_zero()),
            ("the first-byte timeout", timeouts.first_byte.is_zero()),
            ("the idle timeout", timeouts.idle.is_zero()),
            ("the total timeout", timeouts.total.is_zero()),
            ("the response cap", caps.response == 0),
            ("the event cap", caps.stream.event == 0),
            ("the line cap", caps.stream.line == 0),
            (
                "the number of requests at once",
                self.limits.concurrent == Some(0),
            ),
            (
                "the number of requests a minute",
                self.limits.requests_per_minute == Some(0),
            ),
            (
                "the number of tokens a minute",
                self.limits.tokens_per_minute == Some(0),
            ),
        ];
        match zero.into_iter().find(|(_, zero)| *zero) {
            Some((setting, _)) => Err(Error::Zero {
                provider: self.name.clone(),
                setting,
            }),
            None => Ok(()),
        }
    }
}

unisono_context::names!(Kind {
    OpenAi = "openai",
    Anthropic = "anthropic",
    Gemini = "gemini",
    Azure = "azure",
    Compatible = "openai-compatible",
});

impl Kind {
    /// The default address, if there is one.
    pub const fn address(self) -> Option<&'static str> {
        match self {
            Kind::OpenAi => Some("https://api.openai.com/v1"),
            Kind::Anthropic => Some("https://api.anthropic.com"),
            Kind::Gemini => Some("https://generativelanguage.googleapis.com"),
            Kind::Azure | Kind::Compatible => None,
        }
    }

    /// The environment variables of the API key, in order of preference.
    pub const fn key_variables(self) -> &'static [&'static str] {
        match self {
            Kind::OpenAi => &["OPENAI_API_KEY"],
            Kind::Anthropic => &["ANTHROPIC_API_KEY"],
            Kind::Gemini => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
            Kind::Azure => &["AZURE_OPENAI_API_KEY"],
            Kind::Compatible => &[],
        }
    }

    /// Whether it requires an API key.
    pub const fn needs_key(self) -> bool {
        !matches!(self, Kind::Compatible)
    }

    /// Its default wire format.
    pub const fn dialect(self) -> Dialect {
        match self {
            Kind::OpenAi | Kind::Azure | Kind::Compatible => Dialect::OpenAiChat,
            Kind::Anthropic => Dialect::Anthropic,
            Kind::Gemini => Dialect::Gemini,
        }
    }

    /// Its authentication with a key.
    pub fn auth(self, key: Key) -> Auth {
        let header = match self {
            Kind::OpenAi | Kind::Compatible => return Auth::Bearer(key),
            Kind::Anthropic => HeaderName::from_static("x-api-key"),
            Kind::Gemini => HeaderName::from_static("x-goog-api-key"),
            Kind::Azure => HeaderName::from_static("api-key"),
        };
        Auth::Header(header, key)
    }
}

impl Auth {
    /// The key, if there is one.
    pub fn key(&self) -> Option<&Key> {
        match self {
            Auth::None => None,
            Auth::Bearer(key) | Auth::Header(_, key) => Some(key),
        }
    }

    pub(crate) fn with_key(&self, key: Key) -> Auth {
        match self {
            Auth::None => Auth::None,
            Auth::Bearer(_) => Auth::Bearer(key),
            Auth::Header(name, _) => Auth::Header(name.clone(), key),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            // A model that reasons may be silent for longer than a minute after its first event.
            idle: Duration::from_secs(120),
            total: Duration::from_secs(600),
        }
    }
}

impl Default for Caps {
    fn default() -> Caps {
        Caps {
            response: 32 << 20,
            stream: sse::Caps {
                line: 4 << 20,
                event: 4 << 20,
            },
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Auth::None => f.write_str("None"),
            Auth::Bearer(key) => f.debug_tuple("Bearer").field(key).finish(),
            Auth::Header(name, key) => f.debug_tuple("Header").field(name).field(key).finish(),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("address", &self.address)
            .field("dialect", &self.dialect)
            .field("auth", &self.auth)
            .field("headers", &self.headers)
            .field("timeouts", &self.timeouts)
            .field("caps", &self.caps)
            .field("retry", &self.retry)
            .field("limits", &self.limits)
            .field("breaker", &self.breaker)
            .finish()
    }
}

#[cfg(test)]
mod tests;
