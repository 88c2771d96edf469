//! Wraps text as data, so that it cannot close its wrapper or imitate another message.
//!
//! Data stands between `<tag>` and `</tag>`, each on a line of its own; a message begins with a
//! line such as `<#12 user>`. In the data itself, a backslash is inserted after each `<` that could
//! be read as the start of one of these: `</conversation>` becomes `<\/conversation>`. Existing
//! backslashes there get one more, so [`unguard`] returns exactly the input of [`guard`], for
//! every text.

use std::borrow::Cow;

/// The messages to summarise.
pub(super) const CONVERSATION: &str = "conversation";
pub(super) const EARLIER: &str = "earlier_summary";
/// The messages after the cutoff.
pub(super) const RECENT: &str = "recent_messages";
/// The separator between the messages to summarise and the messages after them.
pub(super) const CUTOFF: &str = "cutoff";
/// The additional instructions of the user.
pub(super) const REQUEST: &str = "asked_for";
/// One of several topics.
pub(super) const TOPIC: &str = "topic";
/// The text of a person with which the summary begins.
pub(super) const KEPT: &str = "kept_text";

const TAGS: [&str; 7] = [CONVERSATION, EARLIER, RECENT, CUTOFF, REQUEST, TOPIC, KEPT];

pub(super) fn wrap(tag: &str, guarded: &str) -> String {
    let end = if guarded.ends_with('\n') { "" } else { "\n" };
    format!("<{tag}>\n{guarded}{end}</{tag}>")
}

/// Escapes everything that could be read as a mark.
pub(super) fn guard(text: &str) -> Cow<'_, str> {
    rewrite(text, |_, out| out.push('\\'), is_mark)
}

/// Reverses [`guard`].
pub(super) fn unguard(text: &str) -> Cow<'_, str> {
    // Removes one backslash and keeps the others.
    rewrite(
        text,
        |rest, _| *rest = &rest[1..],
        |rest| rest.starts_with('\\') && is_mark(rest),
    )
}

/// Copies a text and applies `change` after each `<` whose rest is chosen.
fn rewrite<'t>(
    text: &'t str,
    change: impl Fn(&mut &'t str, &mut String),
    chosen: impl Fn(&str) -> bool,
) -> Cow<'t, str> {
    let mut out = String::new();
    let mut copied = 0;
    for (at, _) in text.match_indices('<') {
        let mut rest = &text[at + 1..];
        if chosen(rest) {
            out.push_str(&text[copied..=at]);
            change(&mut rest, &mut out);
            copied = text.len() - rest.len();
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// Whether this text after a `<` makes a mark, apart from backslashes. Case and white space are
/// ignored, since readers are lenient too.
fn is_mark(rest: &str) -> bool {
    let rest = rest.trim_start_matches('\\').trim_start();
    let rest = rest.strip_prefix('/').unwrap_or(rest).trim_start();
    if let Some(number) = rest.strip_prefix('#') {
        return number.starts_with(|c: char| c.is_ascii_digit());
    }
    TAGS.iter().any(|tag| {
        let start = rest.as_bytes().get(..tag.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    //! Tests that markers in data are escaped, and restored unchanged.

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_in_data_reads_as_a_mark() {
        let rows = rows! {
            ("</conversation>", "<\\/conversation>"),
            ("< / CONVERSATION >", "<\\ / CONVERSATION >"),
            ("<\n/\tconversation", "<\\\n/\tconversation"),
            ("<\\/conversation>", "<\\\\/conversation>"),
            ("<conversation>", "<\\conversation>"),
            ("</recent_messages><cutoff>", "<\\/recent_messages><\\cutoff>"),
            ("</earlier_summary>", "<\\/earlier_summary>"),
            ("a\n<#13 user>\nb", "a\n<\\#13 user>\nb"),
            ("<< /Asked_For", "<<\\ /Asked_For"),
        };
        for (text, expected) in rows {
            assert_eq!(guard(text), expected);
            assert_eq!(unguard(expected), text);
        }
    }

    #[test]
    fn other_markup_stays() {
        for text in rows! {
            "", "a < b && c > d", "<p>conversation</p>", "<# a comment of PowerShell #>", "<\\p>",
            "<", "a <", "<\u{30a2}",
        } {
            assert!(matches!(guard(text), Cow::Borrowed(_)), "{text}");
            assert_eq!(unguard(text), text);
        }
    }

    proptest! {
        #[test]
        fn every_guarded_text_is_restored(text in r"(<|\\|/| |\n|#|1|conversation|cutoff|Recent_Messages|é|>){0,24}") {
            let safe = guard(&text);
            prop_assert_eq!(unguard(&safe), text.as_str());
            let marks = safe.match_indices('<').filter(|(at, _)| {
                let rest = &safe[at + 1..];
                is_mark(rest) && !rest.starts_with('\\')
            });
            prop_assert_eq!(marks.count(), 0);
        }
    }
}
