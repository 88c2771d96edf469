//! BLAKE3 digests over a canonical, length-prefixed encoding.
//!
//! Every digest of the project starts with a domain string and a version, and every variable
//! length field is preceded by its length, so that no two different values share an encoding.

use std::fmt;
use std::str::FromStr;

/// A 256-bit BLAKE3 digest, shown as lower-case hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of raw bytes, without a domain: for byte strings that are themselves canonical.
    pub fn of_bytes(bytes: &[u8]) -> Digest {
        Digest(*blake3::hash(bytes).as_bytes())
    }

    /// The first 12 hex digits, for people.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

impl FromStr for Digest {
    type Err = blake3::HexError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Ok(Digest(*blake3::Hash::from_hex(s)?.as_bytes()))
    }
}

/// Builds a digest field by field. Each method writes an unambiguous encoding.
#[derive(Debug)]
pub struct Hasher(blake3::Hasher);

impl Hasher {
    /// Starts a digest of the named domain; bump `version` when the encoding changes.
    pub fn new(domain: &'static str, version: u16) -> Self {
        let mut hasher = Hasher(blake3::Hasher::new());
        hasher.str(domain).u64(u64::from(version));
        hasher
    }

    /// A string or byte string with its length.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.u64(value.len() as u64);
        self.0.update(value);
        self
    }

    /// A string with its length in bytes.
    pub fn str(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }

    /// A number, eight bytes little-endian.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.0.update(&value.to_le_bytes());
        self
    }

    /// A digest, 32 bytes.
    pub fn digest(&mut self, value: &Digest) -> &mut Self {
        self.0.update(&value.0);
        self
    }

    /// An optional string: a presence byte, then the string.
    pub fn opt_str(&mut self, value: Option<&str>) -> &mut Self {
        match value {
            Some(text) => self.u64(1).str(text),
            None => self.u64(0),
        }
    }

    /// The digest of all written fields.
    pub fn finish(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}
