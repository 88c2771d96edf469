//! Encodes rows as bytes and decodes them: bincode 1.3.3, always with the same options. No other
//! module does so.
//!
//! Fixed-width integers, a byte limit and a refusal of trailing bytes are part of the format; the
//! golden files in the tests keep it unchanged. Rows must not rely on self-description (no
//! `flatten`, no untagged enums), because bincode writes fields in order and nothing else.

use bincode::Options as _;
use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// The codec number written into every envelope: bincode 1.3 with the options of this module.
pub(crate) const BINCODE_FIXINT: u8 = 1;

/// Largest size of a row, encoded or decoded: a payload of the largest size and its frame.
pub(crate) const ROW_LIMIT_BYTES: u64 = 72 << 20;

fn options() -> impl bincode::Options {
    bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .with_limit(ROW_LIMIT_BYTES)
        .reject_trailing_bytes()
}

#[cfg(test)]
pub(crate) fn encode<T: Serialize>(row: &T) -> Result<Vec<u8>, String> {
    options().serialize(row).map_err(|error| error.to_string())
}

/// Appends the encoding of a row to `bytes`.
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
/// The reason, as text, if the bytes are not exactly one row of this type.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    options()
        .deserialize(bytes)
        .map_err(|error| error.to_string())
}

/// Appends a number or a text to `bytes`. Its size is not checked, as that of a row is: the size of
/// the record that contains it is checked when that is complete.
///
/// # Errors
/// The reason, as text; encoding a number or a text never fails.
#[inline]
pub(crate) fn put<T: Serialize + ?Sized>(bytes: &mut Vec<u8>, value: &T) -> Result<(), String> {
    let mut serializer = bincode::Serializer::new(bytes, options());
    let put = value.serialize(&mut serializer);
    put.map_err(|error| error.to_string())
}

/// Decodes a number from the front of these bytes; its encoding is as long as the number is in
/// memory.
///
/// # Errors
/// The reason, as text, if the bytes do not start with a number.
#[inline]
pub(crate) fn take<T: DeserializeOwned>(bytes: &mut &[u8]) -> Result<T, String> {
    let ends = || "it ends early".to_owned();
    let (number, rest) = bytes.split_at_checked(size_of::<T>()).ok_or_else(ends)?;
    let mut deserializer = bincode::Deserializer::from_slice(number, options());
    let number = T::deserialize(&mut deserializer).map_err(|error| error.to_string())?;
    *bytes = rest;
    Ok(number)
}

/// Decodes a text from the front of these bytes, without a copy.
pub(crate) fn take_text<'a>(bytes: &mut &'a [u8]) -> Result<&'a str, String> {
    const LENGTH_BYTES: usize = size_of::<u64>();
    let mut deserializer = bincode::Deserializer::from_slice(bytes, options());
    let text = <&'a str>::deserialize(&mut deserializer).map_err(|error| error.to_string())?;
    *bytes = &bytes[LENGTH_BYTES + text.len()..];
    Ok(text)
}

/// Bytes that serde handles as one block instead of a sequence of numbers.
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
