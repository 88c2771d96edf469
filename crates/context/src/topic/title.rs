//! A title for a topic: the first request in it, shortened.

use crate::checkpoint::Span;
use crate::ids::{MessageId, Ordinal};
use crate::message::{Part, Role};
use crate::tree::{Node, Tree};

/// Maximum Unicode scalars of a title.
const LENGTH: usize = 60;
/// Number of messages of a topic that are searched for a title.
const LOOKED_AT: u32 = 16;
/// A point after a word of so few Unicode scalars is of an abbreviation, such as `Dr. Wu`.
const SHORT_WORD: usize = 3;

/// The title of the topic of those messages on the branch that ends in `head`: the first sentence
/// of a user in it, otherwise of any role; equal on every machine. None if its first messages have
/// no text. The cost depends on their number.
pub fn title(tree: &Tree, head: MessageId, topic: Span) -> Option<String> {
    let last = topic.last.min(Ordinal(topic.first.0 + LOOKED_AT - 1));
    let nodes = tree.range(head, topic.first..=last);
    let said = |node: &&Node| first_text(node).is_some();
    let asked = |node: &&Node| node.role() == Role::User && said(node);
    let opener = nodes.iter().copied().find(asked);
    let opener = opener.or_else(|| nodes.iter().copied().find(said))?;
    first_text(opener).map(sentence)
}

fn first_text(node: &Node) -> Option<&str> {
    node.message.parts.iter().find_map(|part| match part {
        Part::Text(text) => Some(text.trim()).filter(|text| !text.is_empty()),
        _ => None,
    })
}

/// The first sentence of a text on one line, cut between words if it is long.
fn sentence(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    let line = line.unwrap_or_default();
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    let mut ends = line.char_indices().filter_map(|(at, c)| {
        let after = at + c.len_utf8();
        let next = line[after..].chars().next();
        let latin = next.is_none_or(char::is_whitespace);
        match c {
            '.' => (next.is_none() || latin && may_end(&line[..at])).then_some(at),
            '?' | '!' => latin.then_some(after),
            '。' | '।' | '۔' => Some(at),
            '？' | '！' | '؟' => Some(after),
            _ => None,
        }
    });
    let whole = ends.next().map_or(line.as_str(), |end| &line[..end]);
    if whole.chars().count() <= LENGTH {
        return whole.trim().to_owned();
    }
    let cut: String = whole.chars().take(LENGTH - 1).collect();
    // A language without spaces is cut anywhere.
    let between = cut.rfind(char::is_whitespace);
    let between = between.filter(|at| *at > cut.len() / 2);
    let cut = between.map_or(cut.as_str(), |at| &cut[..at]);
    format!("{}…", cut.trim_end())
}

/// Whether a text before a point may be a sentence: it ends with no abbreviation and is no number of a list.
fn may_end(text: &str) -> bool {
    let mut words = text.rsplit(|c: char| !c.is_alphanumeric());
    let last = words.next().unwrap_or_default();
    match last.starts_with(|c: char| c.is_ascii_digit()) {
        true => last.len() < text.len(),
        false => !is_abbreviation(last),
    }
}

/// Whether a word before a point is abbreviated: a letter as in `e.g.`, a title such as `Dr`, or one of
/// some words.
fn is_abbreviation(word: &str) -> bool {
    let mut chars = word.chars();
    let (first, second) = (chars.next(), chars.next());
    let is_title = first.is_some_and(char::is_uppercase) && second.is_some_and(char::is_lowercase);
    let is_short = word.chars().nth(SHORT_WORD).is_none();
    let is_letter = first.is_some() && second.is_none();
    is_letter || is_title && is_short || ["bzw", "ca", "cf", "etc", "usw", "vs"].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::{LENGTH, sentence};

    #[test]
    fn a_title_is_the_first_sentence_on_one_line() {
        let rows = [
            (
                "New topic: the budget. How much is left?",
                "New topic: the budget",
            ),
            ("How much is left? And who asks?", "How much is left?"),
            ("\n  Ship it\nnow", "Ship it"),
            ("Version 1.2 is out", "Version 1.2 is out"),
            (
                "1. Ask Dr. Wu, e.g. today. 2. Ship it.",
                "1. Ask Dr. Wu, e.g. today",
            ),
            ("Ship it.", "Ship it"),
            ("Fix the bug. It crashes on start.", "Fix the bug"),
            ("Deploy to `prod`. Then wait.", "Deploy to `prod`"),
            ("We plan hall 1. It is cold.", "We plan hall 1"),
            ("预算还剩多少？谁来问？", "预算还剩多少？"),
            ("बैठक कल है। रमेश आएगा।", "बैठक कल है"),
            ("a\u{7}b", "ab"),
        ];
        for (text, title) in rows {
            assert_eq!(sentence(text), title, "{text:?}");
        }
    }

    #[test]
    fn a_long_one_is_cut_between_words() {
        let title = sentence(&"word ".repeat(40));
        let length = title.chars().count();
        assert!(title.ends_with("word…") && length <= LENGTH, "{title}");
        let title = sentence(&"话".repeat(100));
        assert_eq!(title.chars().count(), LENGTH, "{title}");
    }
}
