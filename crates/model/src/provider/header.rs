//! Headers that settings add to every request.

use std::fmt;

use reqwest::header::{HeaderName, HeaderValue};

/// Headers about the framing or the target of a message, which must not be changed.
const FRAMING: &[&str] = &[
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A header. Its value may be secret and is not shown.
#[derive(Clone)]
pub struct Header {
    name: HeaderName,
    value: HeaderValue,
}

/// An invalid header. Does not contain its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The name is invalid.
    #[error("`{name}` is not a header's name")]
    Name {
        /// The name.
        name: String,
    },
    /// The value is invalid.
    #[error("the value of header `{name}` has characters that a header cannot contain")]
    Value {
        /// The header.
        name: String,
    },
    /// The client sets this header itself.
    #[error("header `{name}` cannot be set; it follows from the request")]
    Framing {
        /// The header.
        name: String,
    },
}

impl Header {
    /// A header with this name and value.
    pub fn new(name: &str, value: &str) -> Result<Header, Error> {
        let owned = || name.to_owned();
        let parsed =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| Error::Name { name: owned() })?;
        if FRAMING.contains(&parsed.as_str()) {
            return Err(Error::Framing { name: owned() });
        }
        let mut value = HeaderValue::from_str(value).map_err(|_| Error::Value { name: owned() })?;
        value.set_sensitive(true);
        Ok(Header {
            name: parsed,
            value,
        })
    }

    /// The name, in lower case.
    pub fn name(&self) -> &HeaderName {
        &self.name
    }

    pub(crate) fn value(&self) -> &HeaderValue {
        &self.value
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: [redacted]", self.name)
    }
}
