//! The one place that turns rows into bytes and back: bincode 1.3.3, always with the same options.
//!
//! Fixed-width integers, a byte limit and a refusal of trailing bytes are part of the format: the
//! golden files in the tests hold it still. Rows must not rely on self-description (no `flatten`,
//! no untagged enums), because bincode writes fields in order and nothing else.

use bincode::Options as _;
use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// The codec number written into every envelope: bincode 1.3 with the options of this module.
pub(crate) const BINCODE_FIXINT: u8 = 1;

/// The most bytes one row may take, encoded or decoded: a payload of the largest size and its frame.
pub(crate) const ROW_LIMIT_BYTES: u64 = 72 << 20;

fn options() -> impl bincode::Options {
    bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .with_limit(ROW_LIMIT_BYTES)
        .reject_trailing_bytes()
}

/// A row in bytes of its own.
#[cfg(test)]
pub(crate) fn encode<T: Serialize>(row: &T) -> Result<Vec<u8>, String> {
    options().serialize(row).map_err(|error| error.to_string())
}

/// Encodes a row behind what is there.
///
/// # Errors
/// The reason, as text, if the row is over the limit.
pub(crate) fn encode_onto<T: Serialize>(bytes: &mut Vec<u8>, row: &T) -> Result<(), String> {
    options()
        .serialize_into(bytes, row)
        .map_err(|error| error.to_string())
}

/// Decodes a row from exactly these bytes.
///
/// # Errors
/// The reason, as text, if the bytes are not one whole row of this type.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    options()
        .deserialize(bytes)
        .map_err(|error| error.to_string())
}

/// Puts a number, or a text, behind what is there. It is not measured before it is written, as a row
/// is: the record that it is a part of is, when it is whole.
///
/// # Errors
/// The reason, as text; there is none for a number or a text.
#[inline]
pub(crate) fn put<T: Serialize + ?Sized>(bytes: &mut Vec<u8>, value: &T) -> Result<(), String> {
    let mut serializer = bincode::Serializer::new(bytes, options());
    let put = value.serialize(&mut serializer);
    put.map_err(|error| error.to_string())
}

/// Takes a number off the front of these bytes, each of which is as long as it is in memory.
///
/// # Errors
/// The reason, as text, if they do not start with one.
#[inline]
pub(crate) fn take<T: DeserializeOwned>(bytes: &mut &[u8]) -> Result<T, String> {
    let ends = || "it ends early".to_owned();
    let (number, rest) = bytes.split_at_checked(size_of::<T>()).ok_or_else(ends)?;
    let mut deserializer = bincode::Deserializer::from_slice(number, options());
    let number = T::deserialize(&mut deserializer).map_err(|error| error.to_string())?;
    *bytes = rest;
    Ok(number)
}

/// Takes a text off the front of these bytes, without a copy of it.
///
/// # Errors
/// As [`take`].
pub(crate) fn take_text<'a>(bytes: &mut &'a [u8]) -> Result<&'a str, String> {
    const LENGTH_BYTES: usize = size_of::<u64>();
    let mut deserializer = bincode::Deserializer::from_slice(bytes, options());
    let text = <&'a str>::deserialize(&mut deserializer).map_err(|error| error.to_string())?;
    *bytes = &bytes[LENGTH_BYTES + text.len()..];
    Ok(text)
}

/// Bytes that serde handles as one block, not as a sequence of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block(pub(crate) Vec<u8>);

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Block;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a block of bytes")
            }
            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Block, E> {
                Ok(Block(bytes.to_vec()))
            }
            fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Block, E> {
                Ok(Block(bytes))
            }
        }
        deserializer.deserialize_byte_buf(Bytes)
    }
}
