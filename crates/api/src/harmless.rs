//! Removes control characters from texts of conversations, names and errors before display:
//! characters that control a terminal or change the order of the text. There is one function for
//! each kind of surface.
//!
//! All of them process one character at a time, so a text that arrives in pieces can be displayed
//! piece by piece.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character controls its display: control characters except tabs and line breaks (ESC
/// and the C1 controls included), and characters that set the text direction.
pub const fn is_harmful(c: char) -> bool {
    match c {
        '\t' | '\n' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => (c as u32) < 0x20 || (0x7f <= c as u32 && c as u32 <= 0x9f),
    }
}

/// For a terminal: harmful characters are removed.
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return text.into();
    }
    text.chars().filter(|c| !is_harmful(*c)).collect()
}

/// For the markup of a page: harmful characters become U+FFFD, so that a reader sees the
/// replacement.
pub fn for_html(markup: &str) -> Cow<'_, str> {
    let harmful = |c: char| is_harmful(c) && c != '\r';
    if !markup.contains(harmful) {
        return markup.into();
    }
    markup.replace(harmful, "\u{fffd}").into()
}

/// For JSON in a file or a terminal: harmful characters become `\u` escapes, which parse as the
/// same text. They occur only in its strings.
pub fn for_json(json: &str) -> Cow<'_, str> {
    // Those below the space stand in no JSON text but as line breaks between values.
    let harmful = |c: char| is_harmful(c) && c > ' ';
    if !json.contains(harmful) {
        return json.into();
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if harmful(c) {
            // Writing to a string does not fail.
            let _ = write!(out, "\\u{:04x}", c as u32);
        } else {
            out.push(c);
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: &str = "a\u{1b}[31mb\u{9b}2Jc\u{202e}gnp.exe\u{2066}d\u{7f}\u{0}\r\ne\tf";

    #[test]
    fn each_surface_is_given_what_it_can_show() {
        assert_eq!(for_terminal(BAD), "a[31mb2Jcgnp.exed\ne\tf");
        assert_eq!(
            for_html("a\u{1b}[31m\u{202e}b\r\n"),
            "a\u{fffd}[31m\u{fffd}b\r\n"
        );
        let json = serde_json::to_string(BAD).unwrap();
        let written = for_json(&json);
        assert!(!written.contains(is_harmful), "{written}");
        assert!(written.contains("\\u202e") && written.contains("\\u009b"));
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), BAD);
        // What people write is left alone, emoji and right-to-left text with its marks too.
        for text in ["Zoë 👩‍👩‍👧", "שלום\u{200f}!", "a\u{a0}b"] {
            assert_eq!(for_terminal(text), text);
            assert_eq!(for_html(text), text);
            assert_eq!(for_json(text), text);
        }
    }
}
