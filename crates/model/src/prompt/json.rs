//! Writes compact JSON into one buffer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The maximum nesting of embedded JSON: parsers limit the nesting of a whole document.
const MAX_NESTING: usize = 64;

/// A buffer of JSON under construction.
#[derive(Debug)]
pub(crate) struct Json(Vec<u8>);

impl Json {
    pub(crate) fn with_capacity(bytes: usize) -> Json {
        Json(Vec::with_capacity(bytes))
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Writes punctuation and keys verbatim.
    pub(crate) fn raw(&mut self, json: &str) -> &mut Json {
        self.0.extend_from_slice(json.as_bytes());
        self
    }

    pub(crate) fn number(&mut self, value: u64) -> &mut Json {
        // The largest number has twenty digits.
        let mut digits = [0; 20];
        let (mut at, mut rest) = (digits.len(), value);
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.0.extend_from_slice(&digits[at..]);
        self
    }

    /// A number given in thousandths, without trailing zeros: 700 is `0.7`.
    pub(crate) fn thousandths(&mut self, value: u32) -> &mut Json {
        self.number((value / 1_000).into());
        if !value.is_multiple_of(1_000) {
            let fraction = format!(".{:03}", value % 1_000);
            self.raw(fraction.trim_end_matches('0'));
        }
        self
    }

    /// `true` or `false`.
    pub(crate) fn bool(&mut self, value: bool) -> &mut Json {
        self.raw(if value { "true" } else { "false" })
    }

    /// A string literal (RFC 8259, section 7) with the necessary escapes only.
    pub(crate) fn string(&mut self, text: &str) -> &mut Json {
        self.0.push(b'"');
        self.inside(text);
        self.0.push(b'"');
        self
    }

    pub(crate) fn string_or_null(&mut self, text: Option<&str>) -> &mut Json {
        match text {
            Some(text) => self.string(text),
            None => self.raw("null"),
        }
    }

    /// The content of a string literal, without the quotes.
    pub(crate) fn inside(&mut self, text: &str) -> &mut Json {
        let bytes = text.as_bytes();
        let mut from = 0;
        while let Some(at) = next_special(bytes, from) {
            self.0.extend_from_slice(&bytes[from..at]);
            self.escape(bytes[at]);
            from = at + 1;
        }
        self.0.extend_from_slice(&bytes[from..]);
        self
    }

    /// Bytes in base64 (RFC 4648, section 4), without quotes.
    pub(crate) fn base64(&mut self, bytes: &[u8]) -> &mut Json {
        let from = self.0.len();
        let length = bytes.len().div_ceil(3) * 4;
        self.0.resize(from + length, 0);
        if let Some(room) = self.0.get_mut(from..) {
            // There is room for all of it.
            let _ = STANDARD.encode_slice(bytes, room);
        }
        self
    }

    /// A list whose items are written by `write`.
    pub(crate) fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Json, T),
    ) -> &mut Json {
        self.0.push(b'[');
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.0.push(b',');
            }
            write(self, item);
        }
        self.0.push(b']');
        self
    }

    fn escape(&mut self, byte: u8) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let short = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            _ => {
                self.0.extend_from_slice(b"\\u00");
                self.0.push(HEX[usize::from(byte >> 4)]);
                self.0.push(HEX[usize::from(byte & 15)]);
                return;
            }
        };
        self.0.extend_from_slice(&[b'\\', short]);
    }
}

/// Whether a text can be embedded verbatim: a JSON object without surrounding text, not nested too
/// deeply.
pub(crate) fn is_object(text: &str) -> bool {
    text.starts_with('{')
        && text.ends_with('}')
        && nesting(text) <= MAX_NESTING
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// The depth of nested brackets, including those in strings.
fn nesting(json: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    for byte in json.bytes() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// The next byte at or after `from` that must be escaped: a quote, a backslash or a control
/// character. It checks eight bytes at a time, since nearly all text has none.
fn next_special(bytes: &[u8], mut from: usize) -> Option<usize> {
    while let Some(word) = bytes.get(from..).and_then(<[u8]>::first_chunk::<8>) {
        let found = specials(u64::from_le_bytes(*word));
        if found != 0 {
            return Some(from + (found.trailing_zeros() / 8) as usize);
        }
        from += 8;
    }
    let rest = bytes.get(from..)?;
    let special = |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\\');
    rest.iter().position(special).map(|at| from + at)
}

/// Sets the high bit of each special byte of the word; exact for the lowest such byte, the only one
/// used (see "Bit Twiddling Hacks", "determine if a word has a byte less than n").
const fn specials(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = word ^ (ONES * b'"' as u64);
    let quote = quote.wrapping_sub(ONES) & !quote;
    let backslash = word ^ (ONES * b'\\' as u64);
    let backslash = backslash.wrapping_sub(ONES) & !backslash;
    (control | quote | backslash) & HIGH
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn literal(text: &str) -> String {
        let mut json = Json::with_capacity(0);
        json.string(text);
        String::from_utf8(json.into_bytes()).unwrap()
    }

    #[test]
    fn every_character_below_256_is_written_like_serde_json_reads_it() {
        for byte in 0..=255u8 {
            for padding in 0..9 {
                let text = format!("{}{}{}", "x".repeat(padding), char::from(byte), "ÿ\"");
                let read: String = serde_json::from_str(&literal(&text)).unwrap();
                assert_eq!(read, text);
            }
        }
    }

    #[test]
    fn numbers() {
        let mut json = Json::with_capacity(0);
        json.list([0, 7, 10, 65_536, u64::MAX], |json, n| {
            json.number(n);
        });
        assert_eq!(json.into_bytes(), b"[0,7,10,65536,18446744073709551615]");
    }

    #[test]
    fn thousandths() {
        let mut json = Json::with_capacity(0);
        json.list([0, 7, 700, 1_000, 1_250, 2_010], |json, n| {
            json.thousandths(n);
        });
        assert_eq!(json.into_bytes(), b"[0,0.007,0.7,1,1.25,2.01]");
    }

    proptest! {
        #[test]
        fn any_text_survives_a_round_trip(text in any::<String>()) {
            prop_assert_eq!(serde_json::from_str::<String>(&literal(&text)).unwrap(), text);
        }

        #[test]
        fn text_with_many_escapes_survives_a_round_trip(text in "[\\x00-\\x7f\"\\\\é]{0,64}") {
            prop_assert_eq!(serde_json::from_str::<String>(&literal(&text)).unwrap(), text);
        }
    }
}
