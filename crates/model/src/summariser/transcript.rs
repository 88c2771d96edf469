//! Messages as one text for a summariser, with the start of each message.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;

use unisono_context::alteration::{Form, altered_parts};
use unisono_context::checkpoint::Span;
use unisono_context::{Message, Ordinal, Part};

use super::wrap::guarded;
use crate::date::{Date, utc_date};
use crate::redact::redact;

/// What a summariser is given to read: a message, or a summary that stands for several.
#[derive(Clone, Debug)]
pub struct Said<'a>(Source<'a>);

#[derive(Clone, Debug)]
enum Source<'a> {
    Message(&'a Message, Cow<'a, [Part]>),
    Summary(Span, &'a str),
}

impl<'a> Said<'a> {
    /// A message as it was said.
    pub fn message(message: &'a Message) -> Said<'a> {
        Said(Source::Message(message, Cow::Borrowed(&message.parts)))
    }

    /// A message as it stands in the context: masked or cut.
    pub fn shortened(message: &'a Message, form: Form) -> Said<'a> {
        let parts = altered_parts(message, form);
        Said(Source::Message(message, Cow::Owned(parts)))
    }

    /// A summary, and the messages it stands for.
    pub fn summary(span: Span, text: &'a str) -> Said<'a> {
        Said(Source::Summary(span, text))
    }

    fn first(&self) -> Ordinal {
        match &self.0 {
            Source::Message(message, _) => message.ordinal,
            Source::Summary(span, _) => span.first,
        }
    }

    /// Who says it, as its first line names it: `#12 user`, `#1–#9 summary`.
    fn title(&self) -> String {
        match &self.0 {
            Source::Message(message, _) => match &message.author {
                Some(author) => format!("{} {} {author}", message.ordinal, message.role),
                None => format!("{} {}", message.ordinal, message.role),
            },
            Source::Summary(span, _) => format!("{span} summary"),
        }
    }

    /// The first message whose calls it answers, if it answers any.
    fn answers(&self) -> Option<Ordinal> {
        match &self.0 {
            Source::Message(message, _) => message.answers.iter().map(|call| call.message).min(),
            Source::Summary(..) => None,
        }
    }
}

/// Messages as one text, with credentials left out and marks guarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Transcript {
    pub(super) text: String,
    /// Where messages begin, ascending.
    pub(super) starts: Vec<Start>,
}

/// Where a message begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) at: usize,
    pub(super) ordinal: Ordinal,
    /// As its first line names it.
    pub(super) title: String,
    /// Whether a unit begins with it: an assistant message stays together with the results of its
    /// calls.
    pub(super) unit: bool,
}

impl Transcript {
    /// The transcript of messages, oldest first.
    pub(super) fn of(said: &[Said<'_>]) -> Transcript {
        let mut transcript = Transcript::default();
        let tools = tools(said);
        let mut day = None;
        for said in said {
            transcript.push(said, &tools, &mut day);
        }
        transcript
    }

    fn push(&mut self, said: &Said<'_>, tools: &Tools<'_>, day: &mut Option<Date>) {
        let call = said.answers().and_then(|call| self.position(call));
        if let Some(call) = call {
            // From the call on all that stands between is one unit.
            for start in self.starts.iter_mut().skip(call + 1) {
                start.unit = false;
            }
        }
        self.starts.push(Start {
            at: self.text.len(),
            ordinal: said.first(),
            title: said.title(),
            unit: call.is_none(),
        });
        let _ = write!(self.text, "<{}", said.title());
        if let Source::Message(message, _) = &said.0
            && let Some(today) = utc_date(message.at)
            && day.replace(today) != Some(today)
        {
            let _ = write!(self.text, ", {today}");
        }
        self.text.push_str(">\n");
        match &said.0 {
            Source::Message(message, parts) => self.parts(message, parts, tools),
            Source::Summary(_, text) => self.line(text),
        }
    }

    /// Where the message is in the transcript; it may have been summarised before.
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
        self.text.push_str(&guarded(&redact(text)));
        if !text.ends_with('\n') {
            self.text.push('\n');
        }
    }
}

/// The tools called, by the place of the call.
type Tools<'a> = HashMap<(Ordinal, u16), &'a str>;

fn tools<'a>(said: &'a [Said<'_>]) -> Tools<'a> {
    let mut tools = HashMap::new();
    for said in said {
        if let Source::Message(message, _) = &said.0 {
            for (index, (_, name, _)) in (0..).zip(message.tool_calls()) {
                tools.insert((message.ordinal, index), &**name);
            }
        }
    }
    tools
}
