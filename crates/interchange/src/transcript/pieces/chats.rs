//! The lists of chats in Telegram's export of an account: `{"chats": {"list": […]}, "left_chats": …}`.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Elements;
use super::track::SharedTracker;
use crate::transcript::detect::Reader;

/// The value of a key with chats; the result is whether it has a list of them.
pub(super) struct Chats<'a, 'i> {
    pub(super) reader: &'a mut Reader<'i>,
    pub(super) track: &'a SharedTracker,
}

impl Chats<'_, '_> {
    pub(super) fn is_key(key: &str) -> bool {
        matches!(key, "chats" | "left_chats")
    }
}

impl<'de> DeserializeSeed<'de> for Chats<'_, '_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Chats<'_, '_> {
    type Value = bool;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E>(self, _: &str) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<bool, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(false)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut has_list = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "list" {
                let reader = &mut *self.reader;
                let track = self.track;
                map.next_value_seed(List { reader, track })?;
                has_list = true;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(has_list)
    }
}

/// A list of chats.
struct List<'a, 'i> {
    reader: &'a mut Reader<'i>,
    track: &'a SharedTracker,
}

impl<'de> DeserializeSeed<'de> for List<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        self.track.drop_kept();
        json.deserialize_seq(Elements {
            first: self.reader.conversations == 0,
            reader: self.reader,
            track: self.track,
        })
    }
}
