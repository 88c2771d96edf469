//! The size of a YAML text whose aliases are replaced by the values that they name. A short text can
//! name a long list many times, and would fill the memory.

use std::cell::Cell;
use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};

/// Bytes that aliases may add.
const ADDED_BYTES: usize = 256 * 1024;

/// Checks that the aliases of a text do not multiply it. Nothing of it is kept.
///
/// # Errors
/// They do, or the text is not YAML.
pub(super) fn check(text: &str) -> Result<(), serde_norway::Error> {
    // Each value counts as one byte more, for the character that separates it from the next one.
    let left = Cell::new(2 * text.len() + ADDED_BYTES);
    Counter(&left).deserialize(serde_norway::Deserializer::from_str(text))
}

/// Counts the values of a text down from the bytes that are left.
#[derive(Clone, Copy)]
struct Counter<'c>(&'c Cell<usize>);

impl Counter<'_> {
    fn count<E: Error>(self, bytes: usize) -> Result<(), E> {
        let left = self.0.get().checked_sub(bytes + 1);
        let left = left.ok_or_else(|| E::custom("its aliases repeat too much of it"))?;
        self.0.set(left);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Counter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.count(0)
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.count(0)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.count(0)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.count(0)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.count(0)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.count(0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.count(text.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        self.count::<A::Error>(0)?;
        while values.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        self.count::<A::Error>(0)?;
        while entries.next_key_seed(self)?.is_some() {
            entries.next_value_seed(self)?;
        }
        Ok(())
    }

    /// A value with a tag.
    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<(), A::Error> {
        let ((), value) = tagged.variant_seed(self)?;
        value.newtype_variant_seed(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_that_multiply_a_text_are_refused() {
        let list = |one: &str, count| vec![one; count].join(",");
        let wide = format!("a: &a [{}]\nb: [{}]", list("x", 2_000), list("*a", 2_000));
        let long = format!("a: &a {}\nb: [{}]", "x".repeat(2_000), list("*a", 2_000));
        // The library itself refuses aliases of aliases.
        for bomb in [wide, long] {
            let refused = check(&bomb).unwrap_err().to_string();
            assert!(refused.contains("aliases"), "{refused}");
        }
    }

    #[test]
    fn other_texts_are_as_they_were() {
        let many = format!("[{}]", vec!["x"; 100_000].join(","));
        let empty = "- \n".repeat(100_000);
        for text in [
            "",
            "# nothing",
            "7",
            "base: &base {a: 1, b: [true, null, 2.5]}\nother: *base",
            "tagged: !own {a: !more [x]}\nplain: !word x",
            &many,
            &empty,
        ] {
            let read: serde_norway::Result<serde_norway::Value> = serde_norway::from_str(text);
            assert_eq!(check(text).is_ok(), read.is_ok(), "{text:.40}");
        }
        assert!(check("a: [").is_err());
    }
}
