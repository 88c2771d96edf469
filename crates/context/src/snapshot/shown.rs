//! The contents of a snapshot: messages in their form, and the blocks of summaries.

use std::borrow::Cow;
use std::sync::Arc;

use crate::alteration::{Form, altered_parts};
use crate::checkpoint::{Checkpoint, Span};
use crate::digest::{Digest, Hasher};
use crate::ids::MessageId;
use crate::message::{CallRef, Message, Part};
use crate::tree::Tree;

/// A message of the context, in its form.
#[derive(Clone, Debug)]
pub struct Entry {
    message: Arc<Message>,
    form: Option<Form>,
    unanswered: Vec<u16>,
    detached: bool,
}

impl Entry {
    /// The message in the context of `head`, which has the messages of `spans`.
    pub(super) fn new(
        message: Arc<Message>,
        form: Option<Form>,
        tree: &Tree,
        head: MessageId,
        spans: &[Span],
    ) -> Entry {
        let calls = message.tool_calls().next().is_some();
        let ordinal = message.ordinal;
        let shown = |call: &CallRef| {
            let at = spans.partition_point(|span| span.last < call.message);
            spans
                .get(at)
                .is_some_and(|span| span.contains(call.message))
        };
        Entry {
            unanswered: if calls {
                tree.open_calls_at(head, ordinal)
            } else {
                Vec::new()
            },
            detached: !message.answers.iter().all(shown),
            message,
            form,
        }
    }

    /// The original message.
    pub fn message(&self) -> &Arc<Message> {
        &self.message
    }

    /// How it is shortened, if it is.
    pub fn form(&self) -> Option<Form> {
        self.form
    }

    /// The tool calls that never got a result, by index from 0: the prompt marks them.
    pub fn unanswered(&self) -> &[u16] {
        &self.unanswered
    }

    /// Whether it is a tool result that arrived after its call was summarised. No model accepts a
    /// result without its call, so it is shown as text.
    pub fn is_detached(&self) -> bool {
        self.detached
    }

    /// Adds the content that a model sees, without the texts of documents. The message is represented
    /// by its content digest, which is computed once when a message is appended, its number and its day.
    pub(super) fn digest_into(&self, hasher: &mut Hasher) {
        hasher
            .digest(&self.message.content_digest)
            .u64(u64::from(self.message.ordinal.0))
            .u64(self.message.at.day().cast_unsigned())
            .u64(u64::from(self.detached))
            .u64(self.unanswered.len() as u64);
        for index in &self.unanswered {
            hasher.u64(u64::from(*index));
        }
        match self.form {
            None => hasher.u64(0),
            Some(Form::Masked { tokens }) => hasher.u64(1).u64(tokens.0),
            Some(Form::Cut { target_chars }) => hasher.u64(2).u64(u64::from(target_chars)),
            Some(Form::Truncated { target_chars }) => hasher.u64(3).u64(u64::from(target_chars)),
        };
    }

    /// The texts of the documents that it shows, each with the index of its part.
    pub(super) fn texts(&self) -> impl Iterator<Item = (usize, Digest)> {
        let parts = self.message.parts.iter().enumerate();
        let shown = parts.filter(move |_| self.shows_files());
        shown.filter_map(|(index, part)| Some((index, part.content()?.text?.digest)))
    }

    /// Whether it shows the contents of its attachments.
    pub fn shows_files(&self) -> bool {
        matches!(self.form, None | Some(Form::Masked { .. }))
    }

    /// Its parts in the context.
    pub fn parts(&self) -> Cow<'_, [Part]> {
        match self.form {
            None => Cow::Borrowed(&self.message.parts),
            Some(form) => Cow::Owned(altered_parts(&self.message, form)),
        }
    }
}

/// A summary in the context.
#[derive(Clone, Debug)]
pub struct Block {
    checkpoint: Arc<Checkpoint>,
    text: Arc<str>,
}

impl Block {
    pub(super) fn new(checkpoint: Arc<Checkpoint>) -> Block {
        Block {
            text: checkpoint.context_text().into(),
            checkpoint,
        }
    }

    /// Its checkpoint.
    pub fn checkpoint(&self) -> &Arc<Checkpoint> {
        &self.checkpoint
    }

    /// The text a model sees, marked as a summary with its range.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }
}
