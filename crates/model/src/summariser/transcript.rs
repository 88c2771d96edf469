//! Messages as one text for a summariser, with the start of each message.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;

use unisono_context::alteration::{Form, altered_parts};
use unisono_context::checkpoint::Span;
use unisono_context::{Message, Ordinal, Part};

use super::wrap::guard;
use crate::date::{Date, utc_date};
use crate::dialect::label::shown_name;
use crate::redact::redact;

/// An item of a transcript: a message, or a summary of several.
#[derive(Clone, Debug)]
pub struct TranscriptItem<'a>(Source<'a>);

#[derive(Clone, Debug)]
enum Source<'a> {
    Message(&'a Message, Cow<'a, [Part]>),
    Summary(Span, &'a str),
}

impl<'a> TranscriptItem<'a> {
    /// A message with its original text.
    pub fn message(message: &'a Message) -> TranscriptItem<'a> {
        TranscriptItem(Source::Message(message, Cow::Borrowed(&message.parts)))
    }

    /// A message in its shortened form: masked or cut.
    pub fn shortened(message: &'a Message, form: Form) -> TranscriptItem<'a> {
        let parts = altered_parts(message, form);
        TranscriptItem(Source::Message(message, Cow::Owned(parts)))
    }

    /// A summary and the messages it covers.
    pub fn summary(span: Span, text: &'a str) -> TranscriptItem<'a> {
        TranscriptItem(Source::Summary(span, text))
    }

    fn first(&self) -> Ordinal {
        match &self.0 {
            Source::Message(message, _) => message.ordinal,
            Source::Summary(span, _) => span.first,
        }
    }

    /// The title in its first line: `#12 user`, `#1–#9 summary`.
    fn title(&self) -> String {
        match &self.0 {
            Source::Message(message, _) => match &message.author {
                Some(author) => {
                    let name = shown_name(author.as_str()).replace(['<', '>'], " ");
                    format!("{} {} {name}", message.ordinal, message.role)
                }
                None => format!("{} {}", message.ordinal, message.role),
            },
            Source::Summary(span, _) => format!("{span} summary"),
        }
    }

    /// The first message whose tool calls it answers, if any.
    fn answers(&self) -> Option<Ordinal> {
        match &self.0 {
            Source::Message(message, _) => message.answers.iter().map(|call| call.message).min(),
            Source::Summary(..) => None,
        }
    }
}

/// Messages as one text, with redacted credentials and guarded marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Transcript {
    pub(super) text: String,
    /// The starts of the messages, ascending.
    pub(super) starts: Vec<Start>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) at: usize,
    pub(super) ordinal: Ordinal,
    pub(super) title: String,
    /// Whether it begins a unit: an assistant message stays together with the results of its calls.
    pub(super) unit: bool,
}

impl Transcript {
    /// The transcript of messages, oldest first.
    pub(super) fn new(items: &[TranscriptItem<'_>]) -> Transcript {
        let mut transcript = Transcript::default();
        let tools = tools(items);
        let mut day = None;
        for item in items {
            transcript.push(item, &tools, &mut day);
        }
        transcript
    }

    fn push(&mut self, item: &TranscriptItem<'_>, tools: &Tools<'_>, day: &mut Option<Date>) {
        let call = item.answers().and_then(|call| self.position(call));
        if let Some(call) = call {
            // Everything after the call belongs to its unit.
            for start in self.starts.iter_mut().skip(call + 1) {
                start.unit = false;
            }
        }
        self.starts.push(Start {
            at: self.text.len(),
            ordinal: item.first(),
            title: item.title(),
            unit: call.is_none(),
        });
        let _ = write!(self.text, "<{}", item.title());
        if let Source::Message(message, _) = &item.0
            && let Some(today) = utc_date(message.at)
            && day.replace(today) != Some(today)
        {
            let _ = write!(self.text, ", {today}");
        }
        self.text.push_str(">\n");
        match &item.0 {
            Source::Message(message, parts) => self.parts(message, parts, tools),
            Source::Summary(_, text) => self.line(text),
        }
    }

    /// The index of a message in the transcript; `None` if it was summarised earlier.
    fn position(&self, ordinal: Ordinal) -> Option<usize> {
        let at = self.starts.partition_point(|start| start.ordinal < ordinal);
        let found = self.starts.get(at)?;
        (found.ordinal == ordinal).then_some(at)
    }

    fn parts(&mut self, message: &Message, parts: &[Part], tools: &Tools<'_>) {
        let mut answers = message.answers.iter();
        for part in parts {
            match part {
                Part::Text(text) => self.line(text),
                Part::ToolCall {
                    name, arguments, ..
                } => self.line(&format!("[calls {name}] {arguments}")),
                Part::ToolResult {
                    content, is_error, ..
                } => {
                    let what = if *is_error { "error" } else { "result" };
                    let call = answers.next();
                    let tool = call.and_then(|call| tools.get(&(call.message, call.index)));
                    let of = tool.map(|name| format!(" of {name}")).unwrap_or_default();
                    self.line(&format!("[{what}{of}] {content}"));
                }
                Part::Attachment { .. } => self.line(&part.countable_text()),
            }
        }
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(&guard(&redact(text)));
        if !text.ends_with('\n') {
            self.text.push('\n');
        }
    }
}

/// The names of the called tools, by the position of the call.
type Tools<'a> = HashMap<(Ordinal, u16), &'a str>;

fn tools<'a>(items: &'a [TranscriptItem<'_>]) -> Tools<'a> {
    let mut tools = HashMap::new();
    for item in items {
        if let Source::Message(message, _) = &item.0 {
            for (index, (_, name, _)) in (0..).zip(message.tool_calls()) {
                tools.insert((message.ordinal, index), &**name);
            }
        }
    }
    tools
}
