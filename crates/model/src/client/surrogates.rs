//! Characters that a provider splits: JSON writes characters beyond the basic plane as two escapes,
//! and some servers send the first in one piece of a reply and the second in the next. A single one
//! is not valid text, so the piece could not be parsed.

use std::borrow::Cow;

/// What stands for a half whose other half never comes.
const UNKNOWN: &str = "\\ufffd";

/// The half at the end of a piece, until the piece with the other half comes.
#[derive(Debug, Default)]
pub(super) struct Halves {
    /// The escape, as it was written.
    held: Option<String>,
}

impl Halves {
    /// The JSON of an event with whole characters alone. A half at the end of a text is kept for the
    /// beginning of one in a later event.
    pub(super) fn joined<'d>(&mut self, data: &'d str) -> Cow<'d, str> {
        if !data.contains("\\ud") && !data.contains("\\uD") {
            return Cow::Borrowed(data);
        }
        let mut out = String::with_capacity(data.len());
        let mut rest = data;
        while let Some(at) = rest.find('\\') {
            let (before, escape) = rest.split_at(at);
            out.push_str(before);
            rest = match half(escape) {
                None => {
                    // A backslash and what it escapes.
                    let length = 1 + escape[1..].chars().next().map_or(0, char::len_utf8);
                    let (whole, rest) = escape.split_at(length);
                    out.push_str(whole);
                    rest
                }
                Some((Half::First, first, after)) => match half(after) {
                    Some((Half::Second, second, after)) => {
                        out.push_str(first);
                        out.push_str(second);
                        after
                    }
                    _ if after.starts_with('"') => {
                        self.held = Some(first.to_owned());
                        after
                    }
                    _ => {
                        out.push_str(UNKNOWN);
                        after
                    }
                },
                Some((Half::Second, second, after)) => {
                    let held = self.held.take_if(|_| out.ends_with('"'));
                    match held {
                        Some(first) => {
                            out.push_str(&first);
                            out.push_str(second);
                        }
                        None => out.push_str(UNKNOWN),
                    }
                    after
                }
            };
        }
        out.push_str(rest);
        Cow::Owned(out)
    }
}

enum Half {
    First,
    Second,
}

/// The half of a character that a text begins with, as an escape; what follows it.
fn half(text: &str) -> Option<(Half, &str, &str)> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let unit = u16::from_str_radix(digits, 16).ok()?;
    let half = match unit {
        0xD800..=0xDBFF => Half::First,
        0xDC00..=0xDFFF => Half::Second,
        _ => return None,
    };
    let (escape, after) = text.split_at(6);
    Some((half, escape, after))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The texts of pieces, as they are read one after the other.
    fn read(pieces: &[&str]) -> String {
        let mut halves = Halves::default();
        let texts = pieces.iter().map(|piece| {
            let joined = halves.joined(piece);
            let value: Value = serde_json::from_str(&joined).expect("JSON");
            value["text"].as_str().expect("a text").to_owned()
        });
        texts.collect()
    }

    #[test]
    fn a_character_in_two_pieces_is_one() {
        let rows: [(&[&str], &str); 7] = [
            (
                &[r#"{"text":"so \ud83d"}"#, r#"{"text":"\ude00!"}"#],
                "so 😀!",
            ),
            (
                &[
                    r#"{"text":"\uD83D"}"#,
                    r#"{"text":""}"#,
                    r#"{"text":"\uDE00"}"#,
                ],
                "😀",
            ),
            (&[r#"{"text":"\ud83d\ude00 \u00e4 \n"}"#], "😀 ä \n"),
            (&[r#"{"text":"\ud83d alone"}"#], "\u{fffd} alone"),
            (&[r#"{"text":"\ude00"}"#], "\u{fffd}"),
            (&[r#"{"text":"C:\\ud83d\\"}"#], "C:\\ud83d\\"),
            (&[r#"{"text":"\ud83d\ud83d\ude00"}"#], "\u{fffd}😀"),
        ];
        for (pieces, text) in rows {
            assert_eq!(read(pieces), text, "{pieces:?}");
        }
    }

    #[test]
    fn what_has_no_halves_is_passed_on_as_it_is() {
        let mut halves = Halves::default();
        for data in [r#"{"text":"ä 😀 \n \u00e4"}"#, "[DONE]", ""] {
            assert!(matches!(halves.joined(data), Cow::Borrowed(same) if same == data));
        }
    }
}
