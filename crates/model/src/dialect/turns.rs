//! A snapshot's messages as a sequence of turns that providers accept.
//!
//! Providers require that the results of a turn's calls follow it at once, that each call has one,
//! and that no result is without its call. Calls are identified by their place, because ids repeat
//! in real transcripts.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use unisono_context::alteration::Form;
use unisono_context::attachment::{Extent, document_text};
use unisono_context::message::{CallRef, Message, prefetch};
use unisono_context::snapshot::Entry;
use unisono_context::{Part, Role, Snapshot};

use super::label::{Labels, without_labels};
use crate::media::Accepts;

/// The text for a missing result of a call.
const NO_RESULT: &str = "[no result recorded]";
/// The text for a result that came later, after other messages.
const RESULT_FOLLOWS: &str = "[the result follows below]";

/// The id of a call on the wire: its place in the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallId(pub(super) CallRef);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}_{}", self.0.message.0, self.0.index)
    }
}

/// The speaker. Tool results are a separate turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    /// Instructions within the conversation.
    System,
    /// A person, or text in a person's place.
    User,
    /// The model.
    Assistant,
    /// Tools: every part is a result.
    Tools,
}

/// One turn; it has at least one part.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Turn<'a> {
    pub(super) speaker: Speaker,
    pub(super) pieces: Vec<Piece<'a>>,
}

/// A part of a turn. Texts are not empty.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece<'a> {
    Text(Cow<'a, str>),
    File(File<'a>),
    Call {
        id: CallId,
        name: Cow<'a, str>,
        /// JSON text, as the model wrote it: it may not be valid.
        arguments: Cow<'a, str>,
    },
    Result {
        id: CallId,
        /// The tool that was called.
        name: Cow<'a, str>,
        content: Cow<'a, str>,
        is_error: bool,
    },
}

/// An attachment that the model accepts. The text before it has its name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct File<'a> {
    pub(super) name: Arc<str>,
    pub(super) mime: Arc<str>,
    pub(super) bytes: &'a [u8],
    pub(super) is_image: bool,
}

impl File<'_> {
    /// Its bytes in a request, without framing.
    pub(super) fn written_bytes(&self) -> usize {
        self.bytes.len().div_ceil(3) * 4 + self.name.len() + self.mime.len()
    }
}

/// The turns of a snapshot, oldest first, with the attachments that the model takes. Neighbours
/// never have the same speaker, and the turn of tools after a turn answers every call of it.
pub(super) fn turns(snapshot: &Snapshot, accepts: Accepts) -> Vec<Turn<'_>> {
    let mut walk = Walk {
        shown: Shown { snapshot, accepts },
        turns: Vec::new(),
        open: Vec::new(),
        held: Vec::new(),
        labels: Labels::default(),
    };
    prefetch(snapshot.entries().iter().map(|entry| &**entry.message()));
    for entry in snapshot.entries() {
        walk.entry(entry);
    }
    walk.close_calls();
    walk.turns
}

/// Whether a text has nothing but white space. It reads no further than the first other character.
fn is_blank(text: &str) -> bool {
    text.chars().all(char::is_whitespace)
}

/// The result of a tool as one text, for dialects without an error flag.
pub(super) fn result_text<'r>(content: &'r str, is_error: bool) -> Cow<'r, str> {
    if is_error && content != NO_RESULT && content != RESULT_FOLLOWS {
        Cow::Owned(format!("[tool error]\n{content}"))
    } else {
        Cow::Borrowed(content)
    }
}

/// The accepted attachments.
#[derive(Clone, Copy)]
struct Shown<'a> {
    snapshot: &'a Snapshot,
    accepts: Accepts,
}

struct Walk<'a> {
    shown: Shown<'a>,
    turns: Vec<Turn<'a>>,
    /// Calls of the newest turn without results. While there are any, only results may follow.
    open: Vec<Open<'a>>,
    /// Parts beside results while calls were open; they follow the last result.
    held: Vec<Piece<'a>>,
    labels: Labels,
}

/// A call whose result may come next.
struct Open<'a> {
    id: CallId,
    name: Cow<'a, str>,
    /// The text in the result's place if something else comes first.
    otherwise: &'static str,
}

impl<'a> Walk<'a> {
    fn entry(&mut self, entry: &'a Entry) {
        let said = entry.message();
        let speaker = match said.role {
            Role::System => Speaker::System,
            Role::User => Speaker::User,
            Role::Assistant => Speaker::Assistant,
            Role::Tool => Speaker::Tools,
        };
        let parts = self.labelled(entry);
        let rest = self.results(said, parts);
        let calls = rest.iter().any(|part| matches!(part, Owned::Call { .. }));
        if calls || speaker != Speaker::Tools {
            self.close_calls();
        }
        let mut index = 0;
        for part in rest {
            match part {
                Owned::Text(text) => self.text(speaker, text),
                Owned::File(file) => self.file(speaker, file),
                Owned::FileText(text) => self.file_text(speaker, text),
                Owned::Result {
                    label,
                    content,
                    is_error,
                } => self.detached(&label, content, is_error),
                Owned::Call { name, arguments } => {
                    let id = CallId(CallRef {
                        message: said.ordinal,
                        index,
                    });
                    index = index.saturating_add(1);
                    self.call(id, name, arguments, entry.unanswered());
                }
            }
        }
    }

    /// The parts with the message's label before its first text and for each result. A call has the
    /// number in its id, a mask in its text.
    fn labelled(&mut self, entry: &'a Entry) -> Vec<Owned<'a>> {
        let mut parts = owned_or_borrowed(entry.parts(), self.shown);
        if matches!(entry.form(), Some(Form::Masked { .. })) {
            return parts;
        }
        let said = entry.message();
        let mut label = None;
        let mut texts = 0;
        for part in &mut parts {
            let text = match part {
                Owned::Text(text) if is_blank(text) => continue,
                Owned::Text(text) => {
                    *text = without_labels(std::mem::take(text), texts > 0);
                    texts += 1;
                    if texts > 1 {
                        continue;
                    }
                    text
                }
                Owned::Result { label, content, .. } if !is_blank(content) => label,
                Owned::FileText(text) => {
                    *text = without_labels(std::mem::take(text), true);
                    continue;
                }
                Owned::Result { .. } | Owned::Call { .. } | Owned::File(_) => continue,
            };
            let label = label.get_or_insert_with(|| self.labels.next(said));
            *text = Cow::Owned(label.with_text(text));
            label.day = None;
        }
        parts
    }

    /// Puts results right after their calls, from messages of any author. The rest has no calls
    /// before it.
    fn results(&mut self, said: &Message, parts: Vec<Owned<'a>>) -> Vec<Owned<'a>> {
        let mut answers = said.answers.iter();
        let mut rest = Vec::with_capacity(parts.len());
        for part in parts {
            let Owned::Result {
                label,
                content,
                is_error,
            } = part
            else {
                rest.push(part);
                continue;
            };
            let call = answers.next();
            let open = self.open.iter().position(|open| Some(&open.id.0) == call);
            let Some(at) = open else {
                rest.push(Owned::Result {
                    label,
                    content,
                    is_error,
                });
                continue;
            };
            let Open { id, name, .. } = self.open.remove(at);
            let result = Piece::Result {
                id,
                name,
                content: match label.is_empty() {
                    true => content,
                    false => format!("{label}{content}").into(),
                },
                is_error,
            };
            self.push(Speaker::Tools, result);
        }
        if self.open.is_empty() {
            self.say_held();
        }
        rest
    }

    /// Tool calls belong to the model, in messages of any author.
    fn call(&mut self, id: CallId, name: Cow<'a, str>, arguments: Cow<'a, str>, lost: &[u16]) {
        let otherwise = if lost.contains(&id.0.index) {
            NO_RESULT
        } else {
            RESULT_FOLLOWS
        };
        self.open.push(Open {
            id,
            name: name.clone(),
            otherwise,
        });
        let call = Piece::Call {
            id,
            name,
            arguments,
        };
        self.push(Speaker::Assistant, call);
    }

    fn text(&mut self, speaker: Speaker, text: Cow<'a, str>) {
        if is_blank(&text) {
            return;
        }
        match speaker {
            Speaker::Assistant => self.push(speaker, Piece::Text(text)),
            _ if !self.open.is_empty() => self.held.push(Piece::Text(text)),
            Speaker::Tools => self.push(Speaker::User, Piece::Text(text)),
            speaker => self.push(speaker, Piece::Text(text)),
        }
    }

    /// No model accepts a file in its own message, so the message has only the note.
    fn file(&mut self, speaker: Speaker, file: File<'a>) {
        match speaker {
            Speaker::Assistant | Speaker::System => {}
            _ if !self.open.is_empty() => self.held.push(Piece::File(file)),
            Speaker::User | Speaker::Tools => self.push(Speaker::User, Piece::File(file)),
        }
    }

    /// Puts the text of a document in the place of the document.
    fn file_text(&mut self, speaker: Speaker, text: Cow<'a, str>) {
        if matches!(speaker, Speaker::User | Speaker::Tools) {
            self.text(speaker, text);
        }
    }

    /// Renders a result without a call right before it as text: none of its lines looks like another
    /// message.
    fn detached(&mut self, label: &str, content: Cow<'a, str>, is_error: bool) {
        let what = if is_error {
            "tool error"
        } else {
            "tool result"
        };
        let content = without_labels(content, label.is_empty());
        let text = format!("[{what}]\n{label}{content}");
        self.text(Speaker::Tools, text.into());
    }

    /// Fills the place of each missing result with the reason.
    fn close_calls(&mut self) {
        for open in std::mem::take(&mut self.open) {
            let result = Piece::Result {
                id: open.id,
                name: open.name,
                content: open.otherwise.into(),
                is_error: true,
            };
            self.push(Speaker::Tools, result);
        }
        self.say_held();
    }

    fn say_held(&mut self) {
        for piece in std::mem::take(&mut self.held) {
            self.push(Speaker::User, piece);
        }
    }

    fn push(&mut self, speaker: Speaker, piece: Piece<'a>) {
        match self.turns.last_mut() {
            Some(turn) if turn.speaker == speaker => turn.pieces.push(piece),
            _ => self.turns.push(Turn {
                speaker,
                pieces: vec![piece],
            }),
        }
    }
}

/// A part, borrowed from an unchanged message.
enum Owned<'a> {
    Text(Cow<'a, str>),
    File(File<'a>),
    FileText(Cow<'a, str>),
    Call {
        name: Cow<'a, str>,
        arguments: Cow<'a, str>,
    },
    Result {
        /// Empty without a label.
        label: Cow<'a, str>,
        content: Cow<'a, str>,
        is_error: bool,
    },
}

fn owned_or_borrowed<'a>(parts: Cow<'a, [Part]>, shown: Shown<'a>) -> Vec<Owned<'a>> {
    let mut all = Vec::with_capacity(parts.len());
    match parts {
        Cow::Borrowed(parts) => {
            for part in parts {
                all.push(borrowed(part));
                all.extend(file(part, shown));
            }
        }
        Cow::Owned(parts) => {
            for part in &parts {
                all.push(copied(part));
                all.extend(file(part, shown));
            }
        }
    }
    all
}

/// The content of an attachment, if it is loaded: the file if the model accepts it, else the text
/// of a document that has one.
fn file<'a>(part: &Part, shown: Shown<'a>) -> Option<Owned<'a>> {
    let (filename, mime, content) = part.file()?;
    if !shown.accepts.takes(content.extent) {
        let text = shown.snapshot.file_text(content)?;
        let text = document_text(filename, text);
        return Some(Owned::FileText(text.into()));
    }
    Some(Owned::File(File {
        name: filename.clone(),
        mime: mime.clone(),
        bytes: shown.snapshot.file(&content.digest)?,
        is_image: matches!(content.extent, Extent::Pixels { .. }),
    }))
}

fn borrowed(part: &Part) -> Owned<'_> {
    match part {
        Part::Text(text) => Owned::Text(Cow::Borrowed(text)),
        Part::Attachment { .. } => Owned::Text(Cow::Owned(part.countable_text().into_owned())),
        Part::ToolCall {
            name, arguments, ..
        } => Owned::Call {
            name: Cow::Borrowed(name),
            arguments: Cow::Borrowed(arguments),
        },
        Part::ToolResult {
            content, is_error, ..
        } => Owned::Result {
            label: Cow::Borrowed(""),
            content: Cow::Borrowed(content),
            is_error: *is_error,
        },
    }
}

/// The same without a borrow of the part.
fn copied<'b>(part: &Part) -> Owned<'b> {
    let copy = |text: &str| Cow::Owned(text.to_owned());
    match part {
        Part::Text(text) => Owned::Text(copy(text)),
        Part::Attachment { .. } => Owned::Text(copy(&part.countable_text())),
        Part::ToolCall {
            name, arguments, ..
        } => Owned::Call {
            name: copy(name),
            arguments: copy(arguments),
        },
        Part::ToolResult {
            content, is_error, ..
        } => Owned::Result {
            label: Cow::Borrowed(""),
            content: copy(content),
            is_error: *is_error,
        },
    }
}

#[cfg(test)]
mod tests;
