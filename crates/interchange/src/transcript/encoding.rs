//! Texts that are not UTF-8: UTF-16 with a byte order mark is decoded; for others there is advice.

const UTF_16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];
/// The part of a text that shows whether it is UTF-16.
const SAMPLE_BYTES: usize = 4_096;
/// Bytes without a character in Windows-1252.
const UNDEFINED: [u8; 5] = [0x81, 0x8d, 0x8f, 0x90, 0x9d];

/// Whether a file begins with the byte order mark of UTF-16.
pub(super) fn is_utf16(begin: &[u8]) -> bool {
    UTF_16.iter().any(|mark| begin.starts_with(mark))
}

/// The text of a file in UTF-16 behind its byte order mark; `None` if it is damaged or cut off.
pub(super) fn from_utf16(bytes: &[u8]) -> Option<String> {
    let (mark, rest) = bytes.split_first_chunk::<2>()?;
    let pairs = rest.chunks_exact(2);
    let is_whole = pairs.remainder().is_empty();
    let unit = |pair: &[u8]| match (pair, mark) {
        ([first, second], [0xff, 0xfe]) => u16::from_le_bytes([*first, *second]),
        ([first, second], _) => u16::from_be_bytes([*first, *second]),
        _ => 0,
    };
    let text: Result<String, _> = char::decode_utf16(pairs.map(unit)).collect();
    text.ok().filter(|_| is_whole)
}

/// The name of UTF-16 in the order of these bytes, if every other byte of a text is zero.
pub(super) fn unmarked_utf16(bytes: &[u8]) -> Option<&'static str> {
    let sample = bytes.get(..SAMPLE_BYTES).unwrap_or(bytes);
    let zeros = |from: usize| {
        let bytes = sample.iter().skip(from).step_by(2);
        bytes.filter(|byte| **byte == 0).count()
    };
    let least = sample.len() / 4 + 1;
    match (zeros(0), zeros(1)) {
        (0, zeros) if zeros >= least => Some("UTF-16LE"),
        (zeros, 0) if zeros >= least => Some("UTF-16BE"),
        _ => None,
    }
}

/// How to convert a file in this encoding, or in one that is not known.
pub(super) fn conversion(encoding: Option<&str>) -> String {
    let name = encoding.unwrap_or("ENCODING");
    format!("convert it with `iconv -f {name} -t UTF-8 FILE`")
}

/// Advice for a file that is not UTF-8; empty if only a few of its characters are not. An image is no text in
/// any encoding.
pub(super) fn advice(bytes: &[u8]) -> String {
    let (mut good, mut broken) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        good += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        broken += chunk.invalid().len();
    }
    if good > broken {
        return String::new();
    }
    if bytes.contains(&0) {
        return "; it is not a text".to_owned();
    }
    match is_windows_1252(bytes) {
        true => format!(
            "; it looks like Windows-1252: {}",
            conversion(Some("WINDOWS-1252"))
        ),
        false => format!("; {}, with its encoding", conversion(None)),
    }
}

/// Whether a text is in Latin letters, with every byte a character of Windows-1252.
fn is_windows_1252(bytes: &[u8]) -> bool {
    let high = bytes.iter().filter(|byte| !byte.is_ascii()).count();
    let letters = bytes.iter().filter(|byte| byte.is_ascii_alphabetic());
    high <= letters.count() && !bytes.iter().any(|byte| UNDEFINED.contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_the_likely_encoding() {
        let windows = "; it looks like Windows-1252: convert it with \
                       `iconv -f WINDOWS-1252 -t UTF-8 FILE`";
        let unknown = "; convert it with `iconv -f ENCODING -t UTF-8 FILE`, with its encoding";
        let rows: [(&[u8], &str); 6] = [
            (b"Anna: Sch\xf6n, \x84gut\x93.", windows),
            (b"Anna: \xcf\xf0\xe8\xe2\xe5\xf2, \xca\xe0\xea", unknown),
            (b"Anna: \x81\x40", unknown),
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "; it is not a text"),
            ("Anna: Schön, größer\u{fffd}".as_bytes(), ""),
            (b"Anna: Sch\xc3\xb6n, gr\xc3\xb6\xc3\x9fer, cut \xc3", ""),
        ];
        for (bytes, expected) in rows {
            assert_eq!(advice(bytes), expected, "{bytes:?}");
        }
        let bytes = utf16("Anna: Schön\u{e9}", u16::to_le_bytes);
        assert_eq!(unmarked_utf16(&bytes), Some("UTF-16LE"));
        let bytes = utf16("Anna: Schön", u16::to_be_bytes);
        assert_eq!(unmarked_utf16(&bytes), Some("UTF-16BE"));
        assert_eq!(unmarked_utf16(b"Anna: a\0b"), None);
        assert_eq!(unmarked_utf16(b""), None);
    }

    fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn utf16_is_decoded_in_both_orders() {
        let text = "Anna: Schön 🎉";
        let little = utf16(&format!("\u{feff}{text}"), u16::to_le_bytes);
        let big = utf16(&format!("\u{feff}{text}"), u16::to_be_bytes);
        assert!(is_utf16(&little) && is_utf16(&big) && !is_utf16(text.as_bytes()));
        assert_eq!(from_utf16(&little).as_deref(), Some(text));
        assert_eq!(from_utf16(&big).as_deref(), Some(text));
        assert_eq!(from_utf16(&little[..little.len() - 1]), None);
        assert_eq!(from_utf16(&little[..little.len() - 2]), None, "half a pair");
        assert_eq!(from_utf16(b"\xff"), None);
    }
}
