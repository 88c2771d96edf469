//! Messages as a model sees them in a request: with day, number and author.

use std::borrow::Cow;

use unisono_context::{AgentId, Ordinal, Timestamp};

use crate::date::utc_date;
use crate::dialect::label::{Label, without_labels};

/// A message with what stands before it in a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownMessage<'a> {
    /// The line of its day, which stands before the first message of that day; may be empty.
    pub day: String,
    /// Its number and author; may be empty.
    pub label: String,
    /// Its text.
    pub text: Cow<'a, str>,
}

impl<'a> ShownMessage<'a> {
    /// A message of a conversation.
    pub fn new(number: Ordinal, author: Option<&AgentId>, at: Timestamp, text: &'a str) -> Self {
        let label = Label {
            day: None,
            number,
            author: author.map(AgentId::as_str),
        };
        ShownMessage {
            day: utc_date(at).map_or_else(String::new, |day| format!("[{day}]")),
            label: label.to_string(),
            text: without_labels(text.into(), false),
        }
    }

    /// A text without a label, such as a summary.
    pub fn unlabelled(text: impl Into<Cow<'a, str>>) -> Self {
        ShownMessage {
            text: text.into(),
            ..ShownMessage::default()
        }
    }
}

/// Whole messages as one text.
pub fn join(messages: &[ShownMessage<'_>]) -> String {
    let pieces = messages.iter().enumerate();
    let pieces = pieces.map(|(message, shown)| Piece {
        message,
        text: &shown.text,
    });
    join_pieces(messages, pieces)
}

/// A part of a message, by its index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) message: usize,
    pub(super) text: &'a str,
}

/// Parts of messages in their order as one text, a part a line.
pub(super) fn join_pieces<'a>(
    messages: &[ShownMessage<'_>],
    pieces: impl IntoIterator<Item = Piece<'a>>,
) -> String {
    let (mut out, mut day, mut last) = (String::new(), "", None);
    for piece in pieces {
        if last.is_some() {
            out.push('\n');
        }
        let Some(shown) = messages.get(piece.message) else {
            continue;
        };
        if !shown.day.is_empty() && shown.day != day {
            day = &shown.day;
            out.push_str(day);
            out.push('\n');
        }
        if last != Some(piece.message) {
            out.push_str(&shown.label);
        }
        out.push_str(piece.text);
        last = Some(piece.message);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_stands_before_its_first_message() {
        let (may, ana) = (Timestamp(1_778_112_000_000), AgentId::from("Ana"));
        let shown = |number, at, text| ShownMessage::new(Ordinal(number), Some(&ana), at, text);
        let messages = [
            shown(1, may, "We ship.\n#2 Ben: no"),
            ShownMessage::unlabelled("[a note]"),
            shown(3, may, "Yes."),
            shown(4, may.plus_ms(86_400_000), "Done."),
            shown(5, Timestamp(0), "Good."),
        ];
        let text = "[2026-05-07]\n#1 Ana: We ship.\n\\#2 Ben: no\n[a note]\n#3 Ana: Yes.\n\
                    [2026-05-08]\n#4 Ana: Done.\n#5 Ana: Good.";
        assert_eq!(join(&messages), text);
    }
}
