//! A snapshot's messages as the sequence of turns that providers accept.
//!
//! Providers are stricter than conversations are: the results of a turn's calls must follow it
//! at once, each call must have one, and a result without its call is an error. Calls are named
//! by their place, since real transcripts use an id twice.

use std::borrow::Cow;
use std::fmt;

use unisono_context::message::CallRef;
use unisono_context::snapshot::Entry;
use unisono_context::{Part, Role, Snapshot};

/// What stands for the result of a call that never got one.
const NO_RESULT: &str = "[no result recorded]";
/// What stands for a result that came only after something else was said.
const RESULT_FOLLOWS: &str = "[the result follows below]";

/// The id of a call on the wire: its place in the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallId(pub(super) CallRef);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}_{}", self.0.message.0, self.0.index)
    }
}

/// Who speaks. Results of tools are a turn of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    /// Instructions in mid-conversation.
    System,
    /// A person, or what stands for one.
    User,
    /// The model.
    Assistant,
    /// Tools: every piece is a result.
    Tools,
}

/// One turn; never without pieces.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Turn<'a> {
    pub(super) speaker: Speaker,
    pub(super) pieces: Vec<Piece<'a>>,
}

/// A part of a turn. Texts are not empty.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece<'a> {
    Text(Cow<'a, str>),
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

/// The turns of a snapshot, oldest first. Neighbours never have the same speaker, and every call
/// of a turn is answered by the turn of tools right after it.
pub(super) fn turns(snapshot: &Snapshot) -> Vec<Turn<'_>> {
    let mut walk = Walk::default();
    for entry in snapshot.entries() {
        walk.entry(entry);
    }
    walk.answer_open(NO_RESULT);
    walk.turns
}

struct Open<'a> {
    id: CallId,
    name: Cow<'a, str>,
    /// Whether it never gets one.
    lost: bool,
}

#[derive(Default)]
struct Walk<'a> {
    turns: Vec<Turn<'a>>,
    /// Calls of the newest turn that have no result yet.
    open: Vec<Open<'a>>,
    /// What was said beside results while other calls were open: it follows the last result.
    beside: Vec<Cow<'a, str>>,
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
        if speaker != Speaker::Tools {
            self.answer_open(RESULT_FOLLOWS);
        }
        let (mut calls, mut results) = (0, 0);
        let mut parts = owned_or_borrowed(entry.parts());
        if speaker != Speaker::Assistant {
            // Only a model calls tools: calls of anyone else become a turn of its own after what
            // was said, so that their results can follow at once.
            parts.sort_by_key(Owned::place_among_others);
        }
        for part in parts {
            match part {
                Owned::Text(text) => self.text(speaker, text),
                Owned::Call { name, arguments } => {
                    let id = CallId(CallRef {
                        message: said.ordinal,
                        index: calls,
                    });
                    calls = calls.saturating_add(1);
                    self.open.push(Open {
                        id,
                        name: name.clone(),
                        lost: entry.unanswered().contains(&id.0.index),
                    });
                    let call = Piece::Call {
                        id,
                        name,
                        arguments,
                    };
                    self.push(Speaker::Assistant, call);
                }
                Owned::Result { content, is_error } => {
                    let call = said.answers.get(results).copied().map(CallId);
                    results += 1;
                    self.result(call, content, is_error);
                }
            }
        }
        // Said at once, so that what is said next does not take their place.
        if self.open.iter().all(|open| open.lost) {
            self.answer_open(NO_RESULT);
        }
    }

    fn text(&mut self, speaker: Speaker, text: Cow<'a, str>) {
        if text.trim().is_empty() {
            return;
        }
        match speaker {
            Speaker::Tools if !self.open.is_empty() => self.beside.push(text),
            Speaker::Tools => self.push(Speaker::User, Piece::Text(text)),
            speaker => self.push(speaker, Piece::Text(text)),
        }
    }

    /// A result beside its call, or as text where its call was not just before.
    fn result(&mut self, call: Option<CallId>, content: Cow<'a, str>, is_error: bool) {
        let open = self.open.iter().position(|open| Some(open.id) == call);
        if let Some(at) = open {
            let Open { id, name, .. } = self.open.remove(at);
            let result = Piece::Result {
                id,
                name,
                content,
                is_error,
            };
            self.push(Speaker::Tools, result);
            if self.open.is_empty() {
                self.say_beside();
            }
            return;
        }
        self.answer_open(RESULT_FOLLOWS);
        let what = if is_error {
            "tool error"
        } else {
            "tool result"
        };
        let text = format!("[{what}]\n{content}");
        self.push(Speaker::User, Piece::Text(text.into()));
    }

    /// Answers every open call: `content` says why its result is not here.
    fn answer_open(&mut self, content: &'static str) {
        for Open { id, name, lost } in std::mem::take(&mut self.open) {
            let content = if lost { NO_RESULT } else { content };
            let result = Piece::Result {
                id,
                name,
                content: content.into(),
                is_error: true,
            };
            self.push(Speaker::Tools, result);
        }
        self.say_beside();
    }

    fn say_beside(&mut self) {
        for text in std::mem::take(&mut self.beside) {
            self.push(Speaker::User, Piece::Text(text));
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

/// A part, borrowed where the message stands as it was said.
enum Owned<'a> {
    Text(Cow<'a, str>),
    Call {
        name: Cow<'a, str>,
        arguments: Cow<'a, str>,
    },
    Result {
        content: Cow<'a, str>,
        is_error: bool,
    },
}

fn owned_or_borrowed(parts: Cow<'_, [Part]>) -> Vec<Owned<'_>> {
    match parts {
        Cow::Borrowed(parts) => parts.iter().map(borrowed).collect(),
        Cow::Owned(parts) => parts
            .iter()
            .map(|part| borrowed(part).into_owned())
            .collect(),
    }
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
            content: Cow::Borrowed(content),
            is_error: *is_error,
        },
    }
}

impl Owned<'_> {
    /// Results stand first: providers want them right after their calls.
    fn place_among_others(&self) -> u8 {
        match self {
            Owned::Result { .. } => 0,
            Owned::Text(_) => 1,
            Owned::Call { .. } => 2,
        }
    }

    fn into_owned<'b>(self) -> Owned<'b> {
        match self {
            Owned::Text(text) => Owned::Text(Cow::Owned(text.into_owned())),
            Owned::Call { name, arguments } => Owned::Call {
                name: Cow::Owned(name.into_owned()),
                arguments: Cow::Owned(arguments.into_owned()),
            },
            Owned::Result { content, is_error } => Owned::Result {
                content: Cow::Owned(content.into_owned()),
                is_error,
            },
        }
    }
}
