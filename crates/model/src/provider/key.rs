//! A provider's API key: read from a variable or a file, sent, and never shown.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

/// The maximum length of a key, in bytes.
const LONGEST: u64 = 16 * 1024;

/// An API key and its source. Only the source is shown.
#[derive(Clone)]
pub struct Key {
    secret: SecretString,
    source: Source,
    warning: Option<Warning>,
}

/// The source of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An environment variable.
    Variable(Arc<str>),
    /// A file.
    File(Arc<Path>),
}

/// A problem with a usable key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// Other users can read the file.
    #[error("the key file {} can be read by others; make it private: chmod 600 {}", path.display(), path.display())]
    Exposed {
        /// The file.
        path: Arc<Path>,
    },
}

/// Why there is no key. Does not contain the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The source is empty.
    #[error("{from} is empty; put the key there")]
    Empty {
        /// The source.
        from: Source,
    },
    /// It cannot be sent in a header.
    #[error(
        "the key from {from} contains {what}; a key is one word of letters, digits and punctuation: put only the key there"
    )]
    Malformed {
        /// Its source.
        from: Source,
        /// The invalid characters.
        what: &'static str,
    },
    /// It is too long.
    #[error("{from} has more than {LONGEST} bytes; put only the key there")]
    TooLong {
        /// Its source.
        from: Source,
    },
    /// The file cannot be read.
    #[error("the key file {} cannot be read: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: Arc<Path>,
        /// The reason.
        reason: String,
    },
}

impl Key {
    /// The key in the first of these variables that is set and not empty; `None` if there is none.
    /// `variable` looks up a variable, like `std::env::var_os`.
    pub fn from_variables(
        names: &[&str],
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Key>, Error> {
        for name in names {
            let source = Source::Variable(Arc::from(*name));
            match variable(name) {
                None => {}
                Some(value) if value.to_string_lossy().trim().is_empty() => {}
                Some(value) => return Key::new(value.to_string_lossy().trim(), source).map(Some),
            }
        }
        Ok(None)
    }

    /// The key in a file, without surrounding white space.
    ///
    /// # Errors
    /// The file cannot be read, is empty, or does not contain a key.
    pub fn from_file(path: &Path) -> Result<Key, Error> {
        let path: Arc<Path> = Arc::from(path);
        let unreadable = |error: io::Error| Error::Unreadable {
            path: path.clone(),
            reason: error.to_string(),
        };
        let file = std::fs::File::open(&path).map_err(unreadable)?;
        let exposed = is_exposed(&file).map_err(unreadable)?;
        let mut bytes = Vec::new();
        file.take(LONGEST + 1)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        let text = SecretString::from(String::from_utf8_lossy(&bytes).into_owned());
        let mut key = Key::new(text.expose_secret().trim(), Source::File(path.clone()))?;
        key.warning = exposed.then_some(Warning::Exposed { path });
        Ok(key)
    }

    fn new(text: &str, from: Source) -> Result<Key, Error> {
        if text.is_empty() {
            return Err(Error::Empty { from });
        }
        if text.len() as u64 > LONGEST {
            return Err(Error::TooLong { from });
        }
        let what = text.chars().find_map(|char| match char {
            '!'..='~' => None,
            '\n' | '\r' => Some("a line break"),
            ' ' | '\t' => Some("a space"),
            char if char.is_control() => Some("a control character"),
            _ => Some("a character beyond ASCII"),
        });
        match what {
            Some(what) => Err(Error::Malformed { from, what }),
            None => Ok(Key {
                secret: SecretString::from(text),
                source: from,
                warning: None,
            }),
        }
    }

    /// Its source.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The problem of the key, if any.
    pub fn warning(&self) -> Option<&Warning> {
        self.warning.as_ref()
    }

    /// The key itself, for the header and for redaction.
    pub fn expose(&self) -> &str {
        self.secret.expose_secret()
    }
}

#[cfg(unix)]
fn is_exposed(file: &std::fs::File) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(file.metadata()?.permissions().mode() & 0o044 != 0)
}

#[cfg(not(unix))]
fn is_exposed(_file: &std::fs::File) -> io::Result<bool> {
    Ok(false)
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Variable(name) => write!(f, "the variable {name}"),
            Source::File(path) => write!(f, "the file {}", path.display()),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[redacted] from {}", self.source)
    }
}
