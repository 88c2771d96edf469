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

/// The number of bytes that are hashed together. BLAKE3 hashes up to 16 chunks of 1 KiB in parallel,
/// and a power of two of them at a time.
const PIECE_BYTES: usize = 16 << 10;
/// Most digests are of fewer bytes.
const FEW_BYTES: usize = 512;

/// Builds a digest field by field. Each method writes an unambiguous encoding.
///
/// Fields are collected and hashed together: hashed one by one, short ones take several times as long.
#[derive(Debug)]
pub struct Hasher {
    /// The fields before the last ones, once there are too many.
    hashed: Option<Box<blake3::Hasher>>,
    /// The last fields.
    fields: Vec<u8>,
}

impl Hasher {
    /// Starts a digest of the named domain; bump `version` when the encoding changes.
    pub fn new(domain: &'static str, version: u16) -> Self {
        let mut hasher = Hasher {
            hashed: None,
            fields: Vec::with_capacity(FEW_BYTES),
        };
        hasher.str(domain).u64(u64::from(version));
        hasher
    }

    fn add(&mut self, mut bytes: &[u8]) -> &mut Self {
        while self.fields.len() + bytes.len() > PIECE_BYTES {
            let (first, rest) = bytes.split_at(PIECE_BYTES - self.fields.len());
            self.fields.extend_from_slice(first);
            self.hashed.get_or_insert_default().update(&self.fields);
            self.fields.clear();
            bytes = rest;
        }
        self.fields.extend_from_slice(bytes);
        self
    }

    /// A string or byte string with its length.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.u64(value.len() as u64).add(value)
    }

    /// A string with its length in bytes.
    pub fn str(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }

    /// A number, eight bytes little-endian.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.add(&value.to_le_bytes())
    }

    /// A digest, 32 bytes.
    pub fn digest(&mut self, value: &Digest) -> &mut Self {
        self.add(&value.0)
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
        match self.hashed.clone() {
            None => Digest::of_bytes(&self.fields),
            Some(mut hashed) => Digest(*hashed.update(&self.fields).finalize().as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_all_fields_together() {
        let begun = |bytes: &mut Vec<u8>| {
            bytes.extend(4_u64.to_le_bytes());
            bytes.extend(b"test");
            bytes.extend(1_u64.to_le_bytes());
        };
        let piece = PIECE_BYTES;
        for size in [0, 1, piece - 29, piece - 28, piece, 3 * piece + 7] {
            let (text, mut bytes) = (vec![7_u8; size], Vec::new());
            let mut hasher = Hasher::new("test", 1);
            hasher.bytes(&text).digest(&Digest([9; 32]));
            begun(&mut bytes);
            bytes.extend((size as u64).to_le_bytes());
            bytes.extend(text);
            bytes.extend([9_u8; 32]);
            assert_eq!(hasher.finish(), Digest::of_bytes(&bytes), "{size}");
            assert_eq!(hasher.finish(), Digest::of_bytes(&bytes), "again");
        }
        for fields in [1, 2_000, 2_045, 2_046, 10_000_u64] {
            let (mut hasher, mut bytes) = (Hasher::new("test", 1), Vec::new());
            begun(&mut bytes);
            for number in 0..fields {
                hasher.u64(number);
                bytes.extend(number.to_le_bytes());
            }
            assert_eq!(hasher.finish(), Digest::of_bytes(&bytes), "{fields}");
        }
    }
}
