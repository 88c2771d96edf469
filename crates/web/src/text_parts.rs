//! A long text as a whole, a part at a time: its page stays small.

use maud::{Markup, html};

use crate::parts::{number, truncate};

/// Maximum bytes of a part.
const PART: usize = 40 * 1024;

/// The part of a text that begins at a byte, or at the character around it. `to` is the address of the
/// part that begins at another byte.
pub(crate) fn part(text: &str, from: usize, to: impl Fn(usize) -> String) -> Markup {
    let last = text.len().saturating_sub(1);
    let (before, _) = truncate(text, from.min(last));
    let from = before.len();
    let (shown, left) = truncate(&text[from..], PART);
    let end = from + shown.len();
    html! {
        @if from > 0 || left > 0 {
            p class="quiet" { "Bytes " (number(from as u64 + 1)) " to " (number(end as u64)) " of "
                (number(text.len() as u64)) }
        }
        // A browser leaves out the first line end.
        pre { "\n" (shown) }
        @if from > 0 || left > 0 {
            p class="links" {
                @if from > 0 { a href=(to(from.saturating_sub(PART))) { "Earlier part" } }
                @if left > 0 { a href=(to(end)) { "Next part" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str, from: usize) -> String {
        part(text, from, |from| format!("?from={from}")).into_string()
    }

    /// The text of a part, and where the next one begins.
    fn read(part: &str) -> (&str, Option<usize>) {
        let (_, rest) = part.split_once("<pre>\n").unwrap();
        let (text, links) = rest.split_once("</pre>").unwrap();
        let next = links.split_once("\">Next part").map(|(before, _)| {
            let (_, at) = before.rsplit_once("?from=").unwrap();
            at.parse().unwrap()
        });
        (text, next)
    }

    #[test]
    fn a_short_text_is_one_part_without_links() {
        assert_eq!(shown("<b>", 0), "<pre>\n&lt;b&gt;</pre>");
        assert_eq!(shown("", 7), "<pre>\n</pre>");
    }

    #[test]
    fn a_part_begins_at_a_character_and_leads_to_its_neighbours() {
        let text = "é".repeat(PART);
        let middle = shown(&text, PART + 1);
        assert!(
            middle.contains("Bytes 40,961 to 81,920 of 81,920"),
            "{}",
            &middle[..40]
        );
        assert!(middle.contains("?from=0\">Earlier part") && !middle.contains("Next part"));
        let behind = shown(&text, usize::MAX);
        assert!(behind.contains("<pre>\né</pre>"), "{behind}");
    }

    proptest! {
        #[test]
        fn the_parts_together_are_the_text(text in "[a-zé€🦀\n]{0,40}", times in 1usize..800) {
            let text = text.repeat(times);
            let (mut all, mut from) = (String::new(), Some(0));
            while let Some(at) = from {
                let part = shown(&text, at);
                let (text, next) = read(&part);
                prop_assert!(text.len() <= PART);
                all.push_str(text);
                from = next;
            }
            prop_assert_eq!(all, text);
        }
    }
}
