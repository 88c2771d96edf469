//! Masked and cut messages of the context. The original message never changes.

use std::collections::BTreeMap;

use crate::budget::Budget;
use crate::ids::{MessageId, Ordinal};
use crate::message::{Message, Part};
use crate::tokens::{Count, Counts, Encoding, Tokens};
use crate::tree::{MessagesCost, Node};

/// The end of a text of which only the head is shown.
pub const TRUNCATED: &str = "[truncated]";

/// How a message is shortened in the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Its tool results are replaced by a reference.
    Masked {
        /// Tokens of the message before.
        tokens: Tokens,
    },
    /// Its long texts and tool results keep head and tail; of attachments only the names stay.
    Cut {
        /// The length each longer one is cut to, in Unicode scalars, marker included.
        target_chars: u32,
    },
    /// Its long texts and tool results keep their head; of attachments only the names stay.
    Truncated {
        /// The length each longer one is cut to, in Unicode scalars, marker included.
        target_chars: u32,
    },
}

/// One shortened message. Journaled, and stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alteration {
    /// The message.
    pub message: MessageId,
    /// Its position.
    pub ordinal: Ordinal,
    /// How it is shortened.
    pub form: Form,
    /// Its tokens now, per encoding.
    pub counts: Counts,
}

impl Alteration {
    /// The tokens of its message now, under a budget; none while they are not counted.
    pub fn count(&self, node: &Node, budget: &Budget) -> Option<Count> {
        let counted = self.counts.get(budget.encoding)?;
        Some(match self.keeps_files() {
            true => node.recounted(counted, budget),
            false => counted,
        })
    }

    /// Replaces the tokens of its message in a cost by those that it has now. None, and no change, while
    /// they are not counted.
    pub fn shorten(&self, cost: &mut MessagesCost, node: &Node, encoding: Encoding) -> Option<()> {
        let now = self.counts.get(encoding)?;
        cost.replace(node, (encoding, now), self.keeps_files())
    }

    /// Whether its message still shows its attachments: a cut one has notes of them.
    fn keeps_files(&self) -> bool {
        matches!(self.form, Form::Masked { .. })
    }
}

/// The parts of a message in that form.
pub fn altered_parts(message: &Message, form: Form) -> Vec<Part> {
    let mut parts = message.parts.clone();
    for part in &mut parts {
        match (form, part) {
            (Form::Masked { tokens }, Part::ToolResult { content, .. }) => {
                *content = mask_text(tokens, message.ordinal).into();
            }
            (
                Form::Cut { target_chars },
                Part::Text(text) | Part::ToolResult { content: text, .. },
            ) => {
                *text = cut(text, target_chars as usize).into();
            }
            (
                Form::Truncated { target_chars },
                Part::Text(text) | Part::ToolResult { content: text, .. },
            ) => {
                *text = with_note(text, target_chars as usize).into();
            }
            // A note of it stays.
            (Form::Cut { .. } | Form::Truncated { .. }, Part::Attachment { content, .. }) => {
                *content = None;
            }
            _ => {}
        }
    }
    parts
}

/// The lengths of the texts of a message in that form that a cut may shorten, in Unicode scalars.
pub fn cuttable_chars(message: &Message, form: Option<Form>) -> Vec<u64> {
    let limit = match form {
        Some(Form::Cut { target_chars } | Form::Truncated { target_chars }) => {
            u64::from(target_chars)
        }
        Some(Form::Masked { .. }) | None => u64::MAX,
    };
    let texts = message.parts.iter().filter_map(|part| match part {
        Part::Text(text) | Part::ToolResult { content: text, .. } => Some(text),
        Part::ToolCall { .. } | Part::Attachment { .. } => None,
    });
    texts
        .map(|text| (text.chars().count() as u64).min(limit))
        .collect()
}

/// The reference that replaces a masked tool result.
pub fn mask_text(tokens: Tokens, ordinal: Ordinal) -> String {
    format!("[tool result: {tokens} tokens, recall {ordinal}]")
}

/// Shortens a text to exactly `target` Unicode scalars: head and tail around `[...N...]`, where
/// N is the number of scalars removed, the head longer by one when the rest is odd. A plain cut
/// where the target leaves no room for the marker and one scalar each side; the text itself
/// where it is short enough.
pub fn cut(text: &str, target: usize) -> String {
    let length = text.chars().count();
    if length <= target {
        return text.to_owned();
    }
    let Some((marker, kept)) = fit_marker(length, target) else {
        return text.chars().take(target).collect();
    };
    let tail = kept / 2;
    let head = kept - tail;
    let mut out: String = text.chars().take(head).collect();
    out.push_str(&marker);
    out.extend(text.chars().skip(length - tail));
    out
}

/// Shortens a text to exactly `target` Unicode scalars: its head and [`TRUNCATED`]. A plain cut
/// where the target leaves no room for the marker and one scalar; the text itself where it is
/// short enough.
pub fn with_note(text: &str, target: usize) -> String {
    if text.chars().count() <= target {
        return text.to_owned();
    }
    let head = target.checked_sub(TRUNCATED.len()).filter(|head| *head > 0);
    let mut out: String = text.chars().take(head.unwrap_or(target)).collect();
    if head.is_some() {
        out.push_str(TRUNCATED);
    }
    out
}

/// The marker and the number of scalars kept. The marker's own length depends on the number of
/// scalars removed, so it is found by trying its digits, fewest first.
fn fit_marker(length: usize, target: usize) -> Option<(String, usize)> {
    (1..=20).find_map(|digits| {
        let marker_length = "[......]".len() + digits;
        let kept = target
            .checked_sub(marker_length)
            .filter(|kept| *kept >= 2)?;
        let removed = (length - kept).to_string();
        (removed.len() == digits).then(|| (format!("[...{removed}...]"), kept))
    })
}

/// The altered messages of a session, by position, with all their earlier alterations.
#[derive(Clone, Debug, Default)]
pub struct Alterations(BTreeMap<Ordinal, Vec<TimedAlteration>>);

#[derive(Clone, Debug)]
struct TimedAlteration {
    alteration: Alteration,
    /// Number of the session's newest checkpoint at that time; 0: there was none.
    after: u32,
    /// Whether it was reverted with a checkpoint.
    undone: bool,
}

impl Alterations {
    /// Adds an alteration, which replaces the earlier one of its message; `newest` is the number of
    /// the session's newest checkpoint, 0 if there is none.
    pub fn set(&mut self, alteration: Alteration, newest: u32) {
        let slot = self.0.entry(alteration.ordinal).or_default();
        slot.push(TimedAlteration {
            alteration,
            after: newest,
            undone: false,
        });
    }

    /// All alterations that are still valid, in chronological order, each with the number of the
    /// session's newest checkpoint at that time (0: there was none).
    pub fn current(&self) -> Vec<(u32, &Alteration)> {
        let status = self.0.values().flatten().filter(|made| !made.undone);
        let mut all: Vec<_> = status.map(|made| (made.after, &made.alteration)).collect();
        all.sort_by_key(|(after, _)| *after);
        all
    }

    /// How the message is shortened, if it is.
    pub fn get(&self, ordinal: Ordinal, message: MessageId) -> Option<&Alteration> {
        self.0.get(&ordinal).and_then(|slot| current(slot, message))
    }

    /// How the message of a node is shortened, if it is.
    pub(crate) fn of_node(&self, node: &Node) -> Option<&Alteration> {
        self.get(node.ordinal(), node.message.id)
    }

    /// The alterations of a range of ordinals, over all branches.
    pub fn range(&self, first: Ordinal, last: Ordinal) -> impl Iterator<Item = &Alteration> {
        let range = (first <= last).then(|| self.0.range(first..=last));
        let slots = range.into_iter().flatten().map(|(_, slot)| slot);
        slots.flat_map(|slot| {
            let newest = move |made: &&TimedAlteration| {
                let message = made.alteration.message;
                current(slot, message).is_some_and(|now| std::ptr::eq(now, &made.alteration))
            };
            slot.iter().filter(newest).map(|made| &made.alteration)
        })
    }

    /// All alterations of a message, the newest first.
    pub fn ever(&self, ordinal: Ordinal, message: MessageId) -> impl Iterator<Item = &Alteration> {
        let slot = self.0.get(&ordinal).into_iter().flatten().rev();
        let own = slot.filter(move |made| made.alteration.message == message);
        own.map(|made| &made.alteration)
    }

    /// Reverts the alterations since the checkpoint of that number was made, for the messages that
    /// `whose` accepts; their earlier alterations become valid again.
    pub(crate) fn undo_since(&mut self, number: u32, whose: impl Fn(&Alteration) -> bool) {
        for made in self.0.values_mut().flatten() {
            made.undone |= made.after >= number && whose(&made.alteration);
        }
    }
}

fn current(slot: &[TimedAlteration], message: MessageId) -> Option<&Alteration> {
    let status = |made: &&TimedAlteration| !made.undone && made.alteration.message == message;
    slot.iter().rfind(status).map(|made| &made.alteration)
}
