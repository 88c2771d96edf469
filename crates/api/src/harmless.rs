//! Removes control characters from texts of conversations, names and errors before display:
//! characters that control a terminal or change the order of the text. There is one function for
//! each kind of surface.
//!
//! All of them process one character at a time, so a text that arrives in pieces can be displayed
//! piece by piece.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character controls its display: control characters except tabs and line breaks (ESC
/// and the C1 controls included), and characters that change the order of the text around them.
pub const fn is_harmful(c: char) -> bool {
    match c {
        '\t' | '\n' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => (c as u32) < 0x20 || (0x7f <= c as u32 && c as u32 <= 0x9f),
    }
}

/// Whether a character only sets the direction of text: the harmful ones that change its order, and
/// marks, which right-to-left text needs. Lines such as titles are shown without any of them.
pub const fn is_direction(c: char) -> bool {
    matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// For a terminal: harmful characters are removed.
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return text.into();
    }
    text.chars().filter(|c| !is_harmful(*c)).collect()
}

/// For the markup of a page: harmful characters become U+FFFD, so that a reader sees the
/// replacement. In what a form sends back, they become references, which a browser reads as the same
/// text; there is none for NUL and the C1 controls.
pub fn for_html(markup: &str) -> Cow<'_, str> {
    let harmful = |c: char| is_harmful(c) && c != '\r';
    if !markup.contains(harmful) {
        return markup.into();
    }
    let mut out = String::with_capacity(markup.len() + 64);
    let mut rest = markup;
    while let Some((before, sent, after)) = sent_back(rest) {
        out.push_str(&before.replace(harmful, "\u{fffd}"));
        for c in sent.chars() {
            match c {
                '\0' | '\u{80}'..='\u{9f}' => out.push('\u{fffd}'),
                // Writing to a string does not fail.
                c if harmful(c) => _ = write!(out, "&#{};", c as u32),
                c => out.push(c),
            }
        }
        rest = after;
    }
    out.push_str(&rest.replace(harmful, "\u{fffd}"));
    out.into()
}

/// The first text that a form sends back, with the markup before and after it: a `value`, or the
/// content of a text area. Quotes and angle brackets of texts are escaped in markup.
fn sent_back(markup: &str) -> Option<(&str, &str, &str)> {
    const VALUE: &str = " value=\"";
    const AREA: &str = "<textarea";
    let value = markup.find(VALUE).map(|at| at + VALUE.len());
    // Only up to the value, so that a page is read once.
    let earlier = &markup[..value.unwrap_or(markup.len())];
    let area = earlier.find(AREA).and_then(|at| {
        let inner = at + markup[at..].find('>')? + 1;
        Some((inner, '<'))
    });
    let (start, end) = area.or(value.map(|start| (start, '"')))?;
    let length = markup[start..].find(end)?;
    let (before, rest) = markup.split_at(start);
    let (sent, after) = rest.split_at(length);
    Some((before, sent, after))
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
        let form = "<p>a\u{202e}</p><input value=\"b\u{2067}c\"><textarea name=\"x\">\u{c}d\u{9b}</textarea>\u{2067}";
        let sent = "<p>a\u{fffd}</p><input value=\"b&#8295;c\"><textarea name=\"x\">&#12;d\u{fffd}</textarea>\u{fffd}";
        assert_eq!(for_html(form), sent);
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
