//! The format of a file, detected by its first object; and the conversion of its pieces.

use std::collections::HashMap;

use super::draft::{ConversationBuilder, Draft};
use super::json::{Object, Value};
use super::shape::{Shape, is_conversation_object, shape};
use super::source::{Place, Problem, Problems, split_before};
use super::{Format, LineError, anthropic, chatgpt, claude, claude_code, codex, gemini_cli};
use super::{fields, messenger, openai, sharegpt, slack, telegram, text, unisono};
use unisono_context::Digest;

/// A callback with each piece of a file, its position, and its offset.
pub(super) type OnPiece<'i> = &'i mut dyn FnMut(&str, Place, u64);

/// Processes the pieces of a file in order.
pub(super) struct Reader<'i> {
    pub(super) builder: ConversationBuilder<'i>,
    wanted: Option<Format>,
    pub(super) format: Option<Format>,
    /// Whether there was an object; the first one determines the format.
    pub(super) has_object: bool,
    /// Whether there is anything except white space.
    pub(super) seen: bool,
    /// The number of objects with a conversation, and of values next to them.
    pub(super) conversations: usize,
    /// Whether the current pieces are the messages of such an object.
    inside: bool,
    /// The number of pieces so far.
    items: usize,
    /// The elements of a channel in Slack, which are read once the names in all of them are known, or the
    /// messages of a chat in Messenger, which are read once all of them can be put in order.
    held: Vec<(String, Place)>,
    /// The reason why the file is not a conversation.
    refused: Option<String>,
    bad: Vec<LineError>,
    /// The number of these that are parts of messages, whose other parts are kept.
    bad_parts: usize,
    undecoded: Vec<LineError>,
    /// The problems of pieces before the first object.
    strange: Vec<LineError>,
    pub(super) warnings: Vec<LineError>,
    /// The digest of the conversation's text.
    digest: Option<Digest>,
    /// If set, gets each piece instead of reading it.
    pub(super) on_piece: Option<OnPiece<'i>>,
}

/// Why a file is not one conversation.
pub(super) enum Refusal {
    /// It has this many conversations.
    Several(usize),
    Other(String),
}

/// The result of reading a file.
pub(super) struct ReadOutcome<'i> {
    pub(super) builder: ConversationBuilder<'i>,
    pub(super) format: Format,
    pub(super) bad: Vec<LineError>,
    pub(super) skipped_parts: usize,
    pub(super) warnings: Vec<LineError>,
    pub(super) digest: Option<Digest>,
}

impl<'i> Reader<'i> {
    pub(super) fn new(builder: ConversationBuilder<'i>, wanted: Option<Format>) -> Reader<'i> {
        Reader {
            builder,
            wanted,
            format: None,
            has_object: false,
            seen: false,
            conversations: 0,
            inside: false,
            items: 0,
            held: Vec::new(),
            refused: None,
            bad: Vec::new(),
            bad_parts: 0,
            undecoded: Vec::new(),
            strange: Vec::new(),
            warnings: Vec::new(),
            digest: None,
            on_piece: None,
        }
    }

    /// Processes a line or an element of a list.
    pub(super) fn item(&mut self, text: &str, begin: Place, offset: u64) {
        let value = match Value::parse(text) {
            Ok(value) => value,
            Err(problem) => return self.bad.extend(placed(problem, text, begin)),
        };
        if self.refused.is_some() {
            return self.behind_unknown(value);
        }
        if let Some(on_piece) = &mut self.on_piece {
            self.has_object |= value.is_object();
            on_piece(text, begin, offset);
            return;
        }
        if self.conversations > 0 && !self.inside {
            self.conversations += 1;
        } else if self.has_object {
            self.message(value, text, begin);
        } else {
            match value.object() {
                Ok(object) => self.first(&object, value, text, begin),
                Err(problem) => {
                    self.items += 1;
                    self.strange.extend(placed(problem, text, begin));
                }
            }
        }
    }

    fn first(&mut self, object: &Object<'_>, value: Value<'_>, text: &str, begin: Place) {
        self.has_object = true;
        match shape(object) {
            Some(Shape::Item(format)) => {
                self.recognised(format);
                self.message(value, text, begin);
            }
            Some(Shape::Wrapper(format, messages)) => {
                self.begin_wrapper(format);
                match messages.array() {
                    Ok(items) => self.messages(items, text, begin),
                    Err(problem) => self.bad.extend(placed(problem, text, begin)),
                }
                self.end_wrapper();
                self.outer_title(fields::first_text(object, &fields::TITLES));
            }
            Some(Shape::Conversation(format)) => {
                self.conversations = 1;
                self.digest = Some(Digest(*blake3::hash(text.as_bytes()).as_bytes()));
                self.recognised(format);
                self.message(value, text, begin);
            }
            None if self.wanted.is_some() => {
                let is_whole = matches!(self.wanted, Some(Format::ChatGpt | Format::Claude));
                self.conversations = usize::from(is_whole);
                self.format = self.wanted;
                self.message(value, text, begin);
            }
            None => {
                self.items += 1;
                self.refuse(unknown(object));
            }
        }
    }

    /// Looks at a piece behind an unknown object, which may be an empty conversation of several.
    fn behind_unknown(&mut self, value: Value<'_>) {
        self.items += 1;
        let reason = self.refused.as_deref().unwrap_or_default();
        let is_unknown = self.format.is_none() && reason.starts_with(UNKNOWN);
        let object = value.object().ok().filter(|_| is_unknown);
        if object.is_some_and(|object| is_conversation_object(&object)) {
            self.refused = None;
            self.conversations = self.items;
        }
    }

    fn recognised(&mut self, format: Format) {
        match self.wanted {
            // The messages so far fit both formats.
            Some(Format::Anthropic | Format::GeminiCli | Format::Messenger | Format::Telegram)
                if format == Format::OpenAi =>
            {
                self.format = self.wanted;
            }
            Some(wanted) if wanted != format => {
                self.refuse(format!("it looks like {format}, not like {wanted}"));
            }
            _ => self.format = Some(format),
        }
    }

    /// Begins the messages of an object with a conversation. Of two lists the last one is used.
    pub(super) fn begin_wrapper(&mut self, format: Format) {
        self.builder.forget();
        self.held.clear();
        self.has_object = true;
        self.conversations = 1;
        self.inside = true;
        self.recognised(format);
    }

    /// Ends the messages of such an object.
    pub(super) fn end_wrapper(&mut self) {
        self.inside = false;
    }

    /// Sets the title next to the messages, if there is one.
    pub(super) fn outer_title(&mut self, title: Option<String>) {
        if let Some(title) = title {
            self.builder.import.title = title.into();
        }
    }

    /// Sets the system text next to the messages. OpenAI's format has it in the messages.
    pub(super) fn outer_system(&mut self, text: &str, begin: Place) {
        if (self.format, self.wanted) == (Some(Format::OpenAi), None) {
            self.format = Some(Format::Anthropic);
        }
        let value = Value::parse(text);
        match value.and_then(|value| match (value.is_null(), self.format) {
            (true, _) | (_, Some(Format::OpenAi)) => Ok(String::new()),
            (false, Some(Format::Anthropic)) => anthropic::system(value),
            (false, _) => value.text().map(String::from),
        }) {
            Ok(system) if system.is_empty() => {}
            Ok(system) => self.builder.add_first_system(&system),
            Err(problem) => self.bad.extend(placed(problem, text, begin)),
        }
    }

    /// Processes the messages in a piece, each with its own place, so that lines are counted once.
    fn messages<'t>(&mut self, items: Vec<Value<'t>>, text: &'t str, mut at: Place) {
        let mut rest = text;
        for item in items {
            let (before, from) = split_before(rest, item.raw());
            (at, rest) = (at.after_bytes(before.as_bytes()), from);
            self.message(item, item.raw(), at);
        }
    }

    fn message(&mut self, value: Value<'_>, text: &str, begin: Place) {
        let (Some(format), None) = (self.format, &self.refused) else {
            return;
        };
        let format = self.refined(format, value);
        match format {
            Format::Slack | Format::Messenger => self.held.push((text.to_owned(), begin)),
            format => self.convert(format, value, text, begin),
        }
    }

    /// Reads the pieces of Slack or Messenger.
    fn convert_held(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        let Some(format) = self.format.filter(|_| !held.is_empty()) else {
            return;
        };
        if format == Format::Messenger {
            // Messages of the same time are the newest first, too.
            held.reverse();
            held.sort_by_cached_key(|(text, _)| messenger::sent_at(text));
            let title = messenger::decoded(&self.builder.import.title);
            self.builder.import.title = title.into();
        } else {
            let texts = held.iter().map(|(text, _)| text.as_str());
            let names = slack::names(texts);
            self.builder.line_context.names = names.shown;
            self.builder.line_context.real_names = names.real;
        }
        for (text, begin) in &held {
            match Value::parse(text) {
                Ok(value) => self.convert(format, value, text, *begin),
                Err(problem) => self.bad.extend(placed(problem, text, *begin)),
            }
        }
    }

    fn convert(&mut self, format: Format, value: Value<'_>, text: &str, begin: Place) {
        let (index, has_bad) = (self.items, self.has_bad());
        self.items += 1;
        let mut draft = Draft::new(text, &mut self.builder);
        let read = match format {
            Format::Unisono => {
                unisono::read(value, (index, has_bad), &mut draft);
                Ok(())
            }
            format => value
                .shallow()
                .and_then(|()| read_foreign(format, value, &mut draft)),
        };
        if let Err(problem) = read {
            draft.bad(problem);
        }
        let (bad, parts, warnings) = draft.into_problems();
        self.bad_parts += parts;
        self.bad.extend(bad.with_places(text, begin));
        self.warnings.extend(warnings.with_places(text, begin));
    }

    /// Refines the format with this message: messages of only text are equal in several formats.
    fn refined(&mut self, format: Format, value: Value<'_>) -> Format {
        let is_open = format == Format::OpenAi && self.wanted.is_none();
        let object = value.object().ok().filter(|_| is_open);
        let format = match object {
            Some(object) if anthropic::is_own(&object) => Format::Anthropic,
            Some(object) if gemini_cli::is_message(&object) => Format::GeminiCli,
            Some(object) if telegram::is_message(&object) => Format::Telegram,
            Some(object) if messenger::is_message(&object) => Format::Messenger,
            _ => format,
        };
        self.format = Some(format);
        format
    }

    /// Whether the file is read as a text: the caller requests it, or its first line has a speaker
    /// with a time or in brackets.
    pub(super) fn wants_text(&self, begin: &[u8]) -> bool {
        let is_open = self.wanted.is_none() && self.on_piece.is_none();
        self.wanted == Some(Format::Text) || is_open && text::has_first_speaker(begin)
    }

    /// Reads a whole file that is not JSON. Returns whether it is a conversation.
    pub(super) fn text(&mut self, all: &str, begin: Place) -> bool {
        self.seen |= !all.trim().is_empty();
        let is_wanted = self.wanted == Some(Format::Text);
        let is_open = self.wanted.is_none() && self.on_piece.is_none();
        let is_one = is_wanted || is_open && text::is_clear(all);
        if !self.seen || !is_one {
            return false;
        }
        self.format = Some(Format::Text);
        let mut draft = Draft::new(all, &mut self.builder);
        text::read(all, &mut draft);
        let (bad, _, warnings) = draft.into_problems();
        self.bad.extend(bad.with_places(all, begin));
        self.warnings.extend(warnings.with_places(all, begin));
        true
    }

    /// Whether a part of it is not valid text.
    pub(super) fn has_undecoded(&self) -> bool {
        !self.undecoded.is_empty()
    }

    fn has_bad(&self) -> bool {
        !self.bad.is_empty() || !self.undecoded.is_empty()
    }

    /// Rejects the file: it is not a conversation.
    pub(super) fn refuse(&mut self, reason: String) {
        self.refused.get_or_insert(reason);
    }

    /// Reports a part that is not valid text.
    pub(super) fn push_undecoded(&mut self, at: Place, reason: impl Into<String>) {
        self.undecoded.push(at.error(reason));
    }

    /// Reports that the single value of the file is not valid JSON, and drops everything read so
    /// far.
    pub(super) fn broken(&mut self, at: Place, reason: String) {
        self.builder.forget();
        self.refused = None;
        self.conversations = 0;
        self.warnings.clear();
        self.strange.clear();
        self.held.clear();
        self.bad_parts = 0;
        self.bad = vec![at.error(reason)];
    }

    /// Whether the list under `messages` is another program's: other chats have such lists, too.
    fn is_foreign(&mut self) -> bool {
        let is_empty = Draft::new("", &mut self.builder).import.messages.is_empty();
        let mut bad = self.bad.iter();
        let is_open = self.wanted.is_none() && self.conversations == 1;
        is_open && is_empty && !self.bad.is_empty() && bad.all(|bad| bad.reason == NO_ROLE)
    }

    /// The result; `None` for an empty file. `Err` is the reason why it is not one conversation.
    pub(super) fn finish(mut self) -> Result<Option<ReadOutcome<'i>>, Refusal> {
        self.convert_held();
        gemini_cli::place_pending("", &mut Draft::new("", &mut self.builder));
        claude_code::place_typed("", &mut Draft::new("", &mut self.builder));
        claude_code::count_unsent(&mut Draft::new("", &mut self.builder));
        claude_code::name_by_summary(&mut Draft::new("", &mut self.builder));
        if self.conversations > 1 {
            return Err(Refusal::Several(self.conversations));
        }
        if self.is_foreign() {
            return Err(Refusal::Other("no message in it has a `role`".to_owned()));
        }
        let broken = self.has_bad();
        if let Some(reason) = self.refused.take() {
            // A broken piece may be the one that would have determined the format.
            if !(broken && self.format.is_none() && reason.starts_with(UNKNOWN)) {
                return Err(Refusal::Other(reason));
            }
        }
        if self.has_object || self.wanted.is_some() {
            self.bad.append(&mut self.strange);
        }
        self.bad.append(&mut self.undecoded);
        self.bad.sort_by_key(|error| (error.line, error.column));
        let format = self.format.or(self.wanted);
        if !self.seen && !broken {
            return Ok(None);
        }
        if format.is_none() && !broken {
            return Err(Refusal::Other("it holds no object".to_owned()));
        }
        Ok(Some(ReadOutcome {
            builder: self.builder,
            format: format.unwrap_or(Format::OpenAi),
            bad: self.bad,
            skipped_parts: self.bad_parts,
            warnings: counted(self.warnings),
            digest: self.digest,
        }))
    }
}

/// Reads a piece in the format of another program.
fn read_foreign<'t>(
    format: Format,
    value: Value<'t>,
    draft: &mut Draft<'t, '_, '_>,
) -> Result<(), Problem<'t>> {
    match format {
        Format::OpenAi => openai::read(value, draft),
        Format::ShareGpt => sharegpt::read(value, draft),
        Format::Anthropic => anthropic::read(value, draft),
        Format::ChatGpt => chatgpt::read(value, draft),
        Format::Claude => claude::read(value, draft),
        Format::ClaudeCode => claude_code::read(value, draft),
        Format::Codex => codex::read(value, draft),
        Format::GeminiCli => gemini_cli::read(value, draft),
        Format::Slack => slack::read(value, draft),
        Format::Telegram => telegram::read(value, draft),
        Format::Messenger => messenger::read(value, draft),
        // Their pieces are not JSON of another program.
        Format::Unisono | Format::Text => Ok(()),
    }
}

/// The first of equal warnings, with their number.
fn counted(warnings: Vec<LineError>) -> Vec<LineError> {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for warning in &warnings {
        *numbers.entry(warning.reason.clone()).or_default() += 1;
    }
    let first = warnings.into_iter().filter_map(|warning| {
        let number = numbers.remove(&warning.reason)?;
        let reason = match number {
            1 => warning.reason,
            _ => format!("{} ({number} times)", warning.reason),
        };
        Some(LineError { reason, ..warning })
    });
    first.collect()
}

fn placed(problem: Problem<'_>, text: &str, begin: Place) -> impl Iterator<Item = LineError> {
    let mut problems = Problems::default();
    problems.add(text, problem);
    problems.with_places(text, begin)
}

/// The problem of a message without the key `role`.
const NO_ROLE: &str = "`role` is missing";

const UNKNOWN: &str = "its first object has the keys";

fn unknown(object: &Object<'_>) -> String {
    let keys: Vec<&str> = object.fields().map(|(key, _)| key).take(8).collect();
    format!("{UNKNOWN} {}", keys.join(", "))
}
