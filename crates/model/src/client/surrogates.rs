//! Characters that a program splits: JSON writes characters beyond the basic plane as two escapes,
//! and some servers and coding agents send the first in one piece of a reply and the second in the
//! next. A single one is not valid text, so the piece could not be parsed.

use std::borrow::Cow;

/// Replaces a half without its other half.
const UNKNOWN: &str = "\\ufffd";

/// Joins the halves of characters that were split between pieces.
#[derive(Debug, Default)]
pub struct SurrogateJoiner {
    /// The first half as an escape, until the second arrives.
    held: Option<String>,
}

impl SurrogateJoiner {
    /// The JSON of an event with complete characters only. A half at the end of a text is held for
    /// the beginning of a text in a later event.
    pub fn join_halves<'d>(&mut self, data: &'d str) -> Cow<'d, str> {
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
                    // A backslash and the escaped character.
                    let length = 1 + escape[1..].chars().next().map_or(0, char::len_utf8);
                    let (whole, rest) = escape.split_at(length);
                    out.push_str(whole);
                    rest
                }
                Some((Surrogate::First, first, after)) => match half(after) {
                    Some((Surrogate::Second, second, after)) => {
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
                Some((Surrogate::Second, second, after)) => {
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

enum Surrogate {
    First,
    Second,
}

/// The half at the beginning of a text: which half, its escape, and the rest.
fn half(text: &str) -> Option<(Surrogate, &str, &str)> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let unit = u16::from_str_radix(digits, 16).ok()?;
    let half = match unit {
        0xD800..=0xDBFF => Surrogate::First,
        0xDC00..=0xDFFF => Surrogate::Second,
        _ => return None,
    };
    let (escape, after) = text.split_at(6);
    Some((half, escape, after))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn read(pieces: &[&str]) -> String {
        let mut halves = SurrogateJoiner::default();
        let texts = pieces.iter().map(|piece| {
            let joined = halves.join_halves(piece);
            let value: Value = serde_json::from_str(&joined).expect("JSON");
            value["text"].as_str().expect("a text").to_owned()
        });
        texts.collect()
    }

    #[test]
    fn a_character_split_between_pieces_is_joined() {
        let rows: [(&[&str], &str); 7] = rows! {
            (&[r#"{"text":"so \ud83d"}"#, r#"{"text":"\ude00!"}"#], "so 😀!"),
            (&[r#"{"text":"\uD83D"}"#, r#"{"text":""}"#, r#"{"text":"\uDE00"}"#], "😀"),
            (&[r#"{"text":"\ud83d\ude00 \u00e4 \n"}"#], "😀 ä \n"),
            (&[r#"{"text":"\ud83d alone"}"#], "\u{fffd} alone"),
            (&[r#"{"text":"\ude00"}"#], "\u{fffd}"),
            (&[r#"{"text":"C:\\ud83d\\"}"#], "C:\\ud83d\\"),
            (&[r#"{"text":"\ud83d\ud83d\ude00"}"#], "\u{fffd}😀"),
        };
        for (pieces, text) in rows {
            assert_eq!(read(pieces), text, "{pieces:?}");
        }
    }

    #[test]
    fn text_without_halves_is_unchanged() {
        let mut halves = SurrogateJoiner::default();
        for data in [r#"{"text":"ä 😀 \n \u00e4"}"#, "[DONE]", ""] {
            assert!(matches!(halves.join_halves(data), Cow::Borrowed(same) if same == data));
        }
    }
}
