//! The binary layout of values: which fields each type has in a record, in which order, and how a
//! type may be extended.
//!
//! Numbers, lengths and texts are encoded as by bincode ([`codec`]). Structs and enums are listed
//! with [`layout!`], which defines their encoding completely:
//!
//! ```text
//! struct TurnCaps { session, turn, run, agents; limit_ms }
//! enum Work { 0 Answer { input; client_options }, 3 Revert { checkpoint } }
//! codes Tier { 0 Conversation, 1 Topic, 2 Bulk }
//! ```
//!
//! - A struct is encoded as its fields in the order of the list, then one byte with the number of
//!   *optional* fields (those after the semicolon) that follow, then these fields. Optional fields
//!   at the end that have their default are not written. So a field is added at the end of the
//!   list: old records lack it and decode to its default, and new records have it only if it
//!   differs from that.
//! - A variant is encoded as its number in one byte, then like a struct. A number is never reused.
//! - Codes are encoded as a number only.
//!
//! A program that finds more optional fields or a higher number than it knows refuses the record as
//! [`Fault::Newer`]: the state of a session follows from all of its facts, so a partly decoded one
//! would be a wrong value.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::checkpoint::Span;
use unisono_context::cost::Cost;
use unisono_context::tokens::{Count, Counts};
use unisono_context::{
    AgentId, CheckpointId, Digest, MessageId, Ordinal, Ppm, RunId, SessionId, SnapshotId,
    Timestamp, Tokens, TurnId,
};

use crate::codec;
use crate::error::Fault;

/// A type that can be encoded in a record.
pub(crate) trait Layout: Sized {
    /// Appends the encoding of the value.
    ///
    /// # Errors
    /// The reason, as text, why it could not be decoded again.
    fn put(&self, to: &mut Vec<u8>) -> Result<(), String>;

    /// Decodes a value from the front of the bytes.
    fn take(from: &mut &[u8]) -> Result<Self, Fault>;
}

/// A field that is not written if it has its default.
pub(crate) trait Optional {
    /// Whether it has the value of a field that was not written.
    fn is_default(&self) -> bool;

    /// As [`Layout::put`].
    fn put_field(&self, to: &mut Vec<u8>) -> Result<(), String>;
}

impl<T: Layout + Default + PartialEq> Optional for T {
    fn is_default(&self) -> bool {
        *self == T::default()
    }

    fn put_field(&self, to: &mut Vec<u8>) -> Result<(), String> {
        self.put(to)
    }
}

/// Appends the optional fields of a struct or variant: their number, then the fields.
pub(crate) fn put_optional(fields: &[&dyn Optional], to: &mut Vec<u8>) -> Result<(), String> {
    let last = fields.iter().rposition(|field| !field.is_default());
    let written = &fields[..last.map_or(0, |last| last + 1)];
    to.push(u8::try_from(written.len()).map_err(|_| "it has too many fields")?);
    written.iter().try_for_each(|field| field.put_field(to))
}

/// Decodes the optional fields of one struct or variant.
pub(crate) struct Fields {
    left: u8,
    ends_in_default: bool,
}

impl Fields {
    pub(crate) fn begin(from: &mut &[u8]) -> Result<Self, Fault> {
        Ok(Self {
            left: u8::take(from)?,
            ends_in_default: false,
        })
    }

    /// Decodes the next field.
    pub(crate) fn take<T: Layout + Default + PartialEq>(
        &mut self,
        from: &mut &[u8],
    ) -> Result<T, Fault> {
        if self.left == 0 {
            return Ok(T::default());
        }
        self.left -= 1;
        let field = T::take(from)?;
        self.ends_in_default = field.is_default();
        Ok(field)
    }

    /// Checks that no field is left, and that the last one differs from its default.
    pub(crate) fn end(self, of: &str) -> Result<(), Fault> {
        if self.left > 0 {
            return Err(Fault::Newer {
                what: format!("{} more fields of {of} than are known", self.left),
            });
        }
        if self.ends_in_default {
            return Err(undecodable(format!(
                "{of} ends in a field that says nothing"
            )));
        }
        Ok(())
    }
}

/// Implements [`Layout`] for types: see the module's documentation.
macro_rules! layout {
    () => {};
    (struct $type:path { $($must:ident),* $(; $($may:ident),+)? } $($rest:tt)*) => {
        impl Layout for $type {
            fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
                let Self { $($must,)* $($($may,)+)? } = self;
                $(Layout::put($must, to)?;)*
                put_optional(&[$($($may),+)?], to)
            }

            #[allow(unused_mut)]
            fn take(from: &mut &[u8]) -> Result<Self, Fault> {
                $(let $must = Layout::take(from)?;)*
                let mut fields = Fields::begin(from)?;
                $($(let $may = fields.take(from)?;)+)?
                fields.end(stringify!($type))?;
                Ok(Self { $($must,)* $($($may,)+)? })
            }
        }
        layout! { $($rest)* }
    };
    (enum $type:path { $(
        $number:literal $variant:ident
            $(( $($place:ident),+ ))?
            $({ $($must:ident),* $(; $($may:ident),+)? })?
    ),+ $(,)? } $($rest:tt)*) => {
        impl Layout for $type {
            fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
                match self {
                    $(Self::$variant $(( $($place),+ ))? $({ $($must,)* $($($may,)+)? })? => {
                        to.push($number);
                        $($(Layout::put($place, to)?;)+)?
                        $($(Layout::put($must, to)?;)*)?
                        put_optional(&[$($($($may),+)?)?], to)
                    })+
                }
            }

            #[allow(unused_mut)]
            fn take(from: &mut &[u8]) -> Result<Self, Fault> {
                match u8::take(from)? {
                    $($number => {
                        $($(let $place = Layout::take(from)?;)+)?
                        $($(let $must = Layout::take(from)?;)*)?
                        let mut fields = Fields::begin(from)?;
                        $($($(let $may = fields.take(from)?;)+)?)?
                        fields.end(concat!(stringify!($type), "::", stringify!($variant)))?;
                        Ok(Self::$variant $(( $($place),+ ))? $({ $($must,)* $($($may,)+)? })?)
                    })+
                    number => Err(unknown(stringify!($type), number)),
                }
            }
        }
        layout! { $($rest)* }
    };
    (codes $type:path { $($number:literal $variant:ident),+ $(,)? } $($rest:tt)*) => {
        impl Layout for $type {
            fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
                to.push(match self { $(Self::$variant => $number),+ });
                Ok(())
            }

            fn take(from: &mut &[u8]) -> Result<Self, Fault> {
                match u8::take(from)? {
                    $($number => Ok(Self::$variant),)+
                    number => Err(unknown(stringify!($type), number)),
                }
            }
        }
        layout! { $($rest)* }
    };
}

pub(crate) use layout;

/// The fault of a number that this build does not know.
pub(crate) fn unknown(of: &str, number: u8) -> Fault {
    Fault::Newer {
        what: format!("number {number} of {of}"),
    }
}

pub(crate) fn undecodable(reason: impl Into<String>) -> Fault {
    Fault::Undecodable {
        reason: reason.into(),
    }
}

macro_rules! numbers {
    ($($type:ty),+) => {$(
        impl Layout for $type {
            fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
                codec::put(to, self)
            }

            #[inline]
            fn take(from: &mut &[u8]) -> Result<Self, Fault> {
                codec::take(from).map_err(undecodable)
            }
        }
    )+};
}

numbers!(bool, u8, u16, u32, u64, u128, i64);

/// Implements [`Layout`] for types with one part, from their accessor and their constructor.
macro_rules! wrapped {
    ($($type:ident($part:ty) = $new:expr, $get:expr);+ $(;)?) => {$(
        impl Layout for $type {
            fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
                let get: fn(&Self) -> &$part = $get;
                Layout::put(get(self), to)
            }

            fn take(from: &mut &[u8]) -> Result<Self, Fault> {
                <$part>::take(from).map($new)
            }
        }
    )+};
}

wrapped! {
    Tokens(u64) = Tokens, |it| &it.0;
    Ppm(u32) = Ppm, |it| &it.0;
    Ordinal(u32) = Ordinal, |it| &it.0;
    Timestamp(i64) = Timestamp, |it| &it.0;
    Cost(u128) = Cost, |it| &it.0;
    Digest([u8; 32]) = Digest, |it| &it.0;
    SnapshotId(Digest) = SnapshotId, |it| &it.0;
}

macro_rules! ids {
    ($($type:ident),+) => {$(
        impl Layout for $type {
            fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
                self.as_u128().put(to)
            }

            fn take(from: &mut &[u8]) -> Result<Self, Fault> {
                u128::take(from).map(Self::from_u128)
            }
        }
    )+};
}

ids!(SessionId, TurnId, RunId, MessageId, CheckpointId);

impl Layout for AgentId {
    fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
        codec::put(to, self.as_str())
    }

    fn take(from: &mut &[u8]) -> Result<Self, Fault> {
        codec::take_text(from).map(Self::new).map_err(undecodable)
    }
}

impl Layout for Arc<str> {
    fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
        codec::put(to, &**self)
    }

    fn take(from: &mut &[u8]) -> Result<Self, Fault> {
        codec::take_text(from).map(Self::from).map_err(undecodable)
    }
}

impl<const N: usize> Layout for [u8; N] {
    fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
        to.extend_from_slice(self);
        Ok(())
    }

    fn take(from: &mut &[u8]) -> Result<Self, Fault> {
        let (bytes, rest) = from.split_first_chunk().ok_or(Fault::Truncated)?;
        *from = rest;
        Ok(*bytes)
    }
}

impl<T: Layout> Layout for Option<T> {
    fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
        self.is_some().put(to)?;
        self.as_ref().map_or(Ok(()), |value| value.put(to))
    }

    fn take(from: &mut &[u8]) -> Result<Self, Fault> {
        bool::take(from)?.then(|| T::take(from)).transpose()
    }
}

/// Largest number of values for which memory is allocated before they are read.
const AT_ONCE: u64 = 64;

impl<T: Layout> Layout for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
        put_all(self.iter(), to)
    }

    fn take(from: &mut &[u8]) -> Result<Self, Fault> {
        let len = u64::take(from)?;
        // A value is encoded in at least one byte, and may need more memory than its bytes.
        if len > from.len() as u64 {
            return Err(Fault::Truncated);
        }
        let mut values = Vec::with_capacity(len.min(AT_ONCE) as usize);
        for _ in 0..len {
            values.push(T::take(from)?);
        }
        Ok(values)
    }
}

pub(crate) fn put_all<'a, T: Layout + 'a>(
    values: impl ExactSizeIterator<Item = &'a T>,
    to: &mut Vec<u8>,
) -> Result<(), String> {
    (values.len() as u64).put(to)?;
    let mut values = values;
    values.try_for_each(|value| value.put(to))
}

impl<A: Layout, B: Layout> Layout for (A, B) {
    fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
        self.0.put(to)?;
        self.1.put(to)
    }

    fn take(from: &mut &[u8]) -> Result<Self, Fault> {
        Ok((A::take(from)?, B::take(from)?))
    }
}

macro_rules! boxes {
    ($($pointer:ident),+) => {$(
        impl<T: Layout> Layout for $pointer<T> {
            fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
                (**self).put(to)
            }

            fn take(from: &mut &[u8]) -> Result<Self, Fault> {
                T::take(from).map(Self::new)
            }
        }
    )+};
}

boxes!(Arc, Box);

/// Texts in ascending order of their names, each name once.
impl Layout for BTreeMap<Arc<str>, Arc<str>> {
    fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
        (self.len() as u64).put(to)?;
        self.iter().try_for_each(|(name, text)| {
            name.put(to)?;
            text.put(to)
        })
    }

    fn take(from: &mut &[u8]) -> Result<Self, Fault> {
        let pairs = Vec::<(Arc<str>, Arc<str>)>::take(from)?;
        ascending(pairs, "names")
    }
}

impl Layout for Count {
    fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
        self.tokens.put(to)?;
        self.at_most.put(to)
    }

    fn take(from: &mut &[u8]) -> Result<Self, Fault> {
        Ok(Self {
            tokens: Tokens::take(from)?,
            at_most: Tokens::take(from)?,
        })
    }
}

/// In ascending order of the encodings, each once.
impl Layout for Counts {
    fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
        self.iter().collect::<Vec<_>>().put(to)
    }

    fn take(from: &mut &[u8]) -> Result<Self, Fault> {
        ascending(Vec::take(from)?, "counts")
    }
}

/// Builds a map from its decoded entries, which must be in ascending order.
fn ascending<K: PartialOrd, V, T: FromIterator<(K, V)>>(
    pairs: Vec<(K, V)>,
    table: &str,
) -> Result<T, Fault> {
    if pairs.is_sorted_by(|a, b| a.0 < b.0) {
        Ok(pairs.into_iter().collect())
    } else {
        Err(undecodable(format!(
            "its {table} are not in ascending order"
        )))
    }
}

/// Checks that the length of a range does not overflow.
fn checked(first: u32, last: u32) -> Result<(), String> {
    if first <= last && last < u32::MAX {
        Ok(())
    } else {
        Err(format!(
            "there is no range of messages from {first} to {last}"
        ))
    }
}

impl Layout for Span {
    fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
        checked(self.first.0, self.last.0)?;
        self.first.put(to)?;
        self.last.put(to)
    }

    fn take(from: &mut &[u8]) -> Result<Self, Fault> {
        let (first, last) = (u32::take(from)?, u32::take(from)?);
        checked(first, last).map_err(undecodable)?;
        Ok(Self::new(Ordinal(first), Ordinal(last)))
    }
}
