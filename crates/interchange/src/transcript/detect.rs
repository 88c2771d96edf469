//! The format of a file, detected by its first object; and the conversion of its pieces.

use super::draft::{Draft, Kept};
use super::json::{Object, Value};
use super::source::{Place, Problem, Problems};
use super::{Format, LineError, anthropic, chatgpt, claude, claude_code, codex, gemini_cli};
use super::{openai, sharegpt, slack, text, unisono};
use unisono_context::Digest;

/// What an object tells of the file it is in.
enum Shape<'t> {
    /// It is a message or line of that format.
    Item(Format),
    /// It holds a conversation of that format, whose messages these are.
    Whole(Format, Value<'t>),
    /// It is a conversation of that format.
    One(Format),
}

/// What is given pieces of a file.
pub(super) type Each<'i> = &'i mut dyn FnMut(&str, Place, u64);

/// Takes the pieces of a file, one after the other.
pub(super) struct Reader<'i> {
    pub(super) kept: Kept<'i>,
    wanted: Option<Format>,
    pub(super) format: Option<Format>,
    /// Whether there was an object; the first of them says which format it is.
    pub(super) has_object: bool,
    /// Whether there is anything but space.
    pub(super) seen: bool,
    /// Objects around a conversation, and what stands beside them.
    pub(super) conversations: usize,
    /// Whether the pieces are the messages of such an object.
    inside: bool,
    /// Pieces so far.
    items: usize,
    /// What the file is instead of a conversation.
    refused: Option<String>,
    bad: Vec<LineError>,
    /// How many of these are parts of messages that can be taken without them.
    bad_parts: usize,
    undecoded: Vec<LineError>,
    /// What is wrong with pieces before the first object, if there is one.
    strange: Vec<LineError>,
    warnings: Vec<LineError>,
    /// Of the text that is the conversation.
    digest: Option<Digest>,
    /// Is given each piece, its place, and its offset in the file; then nothing is read of it.
    pub(super) each: Option<Each<'i>>,
}

/// Why a file is no conversation.
pub(super) enum Refusal {
    /// There are so many.
    Several(usize),
    /// It is something else.
    Other(String),
}

/// What came of a file.
pub(super) struct Found<'i> {
    pub(super) kept: Kept<'i>,
    pub(super) format: Format,
    pub(super) bad: Vec<LineError>,
    pub(super) skipped_parts: usize,
    pub(super) warnings: Vec<LineError>,
    pub(super) digest: Option<Digest>,
}

impl<'i> Reader<'i> {
    pub(super) fn new(kept: Kept<'i>, wanted: Option<Format>) -> Reader<'i> {
        Reader {
            kept,
            wanted,
            format: None,
            has_object: false,
            seen: false,
            conversations: 0,
            inside: false,
            items: 0,
            refused: None,
            bad: Vec::new(),
            bad_parts: 0,
            undecoded: Vec::new(),
            strange: Vec::new(),
            warnings: Vec::new(),
            digest: None,
            each: None,
        }
    }

    /// Takes a line, or an element of a list, and its offset in the file.
    pub(super) fn item(&mut self, text: &str, begin: Place, offset: u64) {
        let value = match Value::parse(text) {
            Ok(value) => value,
            Err(problem) => return self.bad.extend(placed(problem, text, begin)),
        };
        if self.refused.is_some() {
            return;
        }
        if let Some(each) = &mut self.each {
            self.has_object |= value.is_object();
            each(text, begin, offset);
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
            Some(Shape::Whole(format, messages)) => {
                self.begin_whole(format);
                match messages.array() {
                    Ok(items) => items
                        .into_iter()
                        .for_each(|item| self.message(item, text, begin)),
                    Err(problem) => self.bad.extend(placed(problem, text, begin)),
                }
                self.end_whole();
            }
            Some(Shape::One(format)) => {
                self.conversations = 1;
                self.digest = Some(Digest(*blake3::hash(text.as_bytes()).as_bytes()));
                self.recognised(format);
                self.message(value, text, begin);
            }
            None if self.wanted.is_some() => {
                self.format = self.wanted;
                self.message(value, text, begin);
            }
            None => self.refuse(unknown(object)),
        }
    }

    fn recognised(&mut self, format: Format) {
        match self.wanted {
            // One where no message tells that it is the other.
            Some(Format::Anthropic | Format::GeminiCli) if format == Format::OpenAi => {
                self.format = self.wanted;
            }
            Some(wanted) if wanted != format => {
                self.refuse(format!("it looks like {format}, not like {wanted}"));
            }
            _ => self.format = Some(format),
        }
    }

    /// The messages of an object around a conversation follow. Of two lists the last one counts.
    pub(super) fn begin_whole(&mut self, format: Format) {
        self.kept.forget();
        self.has_object = true;
        self.conversations = 1;
        self.inside = true;
        self.recognised(format);
    }

    /// That were all of its messages.
    pub(super) fn end_whole(&mut self) {
        self.inside = false;
    }

    /// The system text beside the messages, which OpenAI's have among them.
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
            Ok(system) => self.kept.add_first_system(&system),
            Err(problem) => self.bad.extend(placed(problem, text, begin)),
        }
    }

    fn message(&mut self, value: Value<'_>, text: &str, begin: Place) {
        let (Some(format), None) = (self.format, &self.refused) else {
            return;
        };
        let format = self.refined(format, value);
        let (index, has_bad) = (self.items, self.has_bad());
        self.items += 1;
        let mut draft = Draft::new(text, &mut self.kept);
        let read = match format {
            Format::Unisono => {
                unisono::read(value, (index, has_bad), &mut draft);
                Ok(())
            }
            Format::OpenAi => openai::read(value, &mut draft),
            Format::ShareGpt => sharegpt::read(value, &mut draft),
            Format::Anthropic => anthropic::read(value, &mut draft),
            Format::ChatGpt => chatgpt::read(value, &mut draft),
            Format::Claude => claude::read(value, &mut draft),
            Format::ClaudeCode => claude_code::read(value, &mut draft),
            Format::Codex => codex::read(value, &mut draft),
            Format::GeminiCli => gemini_cli::read(value, &mut draft),
            Format::Slack => slack::read(value, &mut draft),
            // Its pieces are no JSON.
            Format::Text => Ok(()),
        };
        if let Err(problem) = read {
            draft.bad(problem);
        }
        let (bad, parts, warnings) = draft.into_problems();
        self.bad_parts += parts;
        self.bad.extend(bad.placed(text, begin));
        self.warnings.extend(warnings.placed(text, begin));
    }

    /// The format, now that this message is known too: text alone reads the same in several.
    fn refined(&mut self, format: Format, value: Value<'_>) -> Format {
        let is_open = format == Format::OpenAi && self.wanted.is_none();
        let object = value.object().ok().filter(|_| is_open);
        let format = match object {
            Some(object) if anthropic::is_own(&object) => Format::Anthropic,
            Some(object) if gemini_cli::is_message(&object) => Format::GeminiCli,
            _ => format,
        };
        self.format = Some(format);
        format
    }

    /// Whether the file is read as a text: the caller asks for it, or its first line begins with
    /// a time.
    pub(super) fn wants_text(&self, begin: &[u8]) -> bool {
        let is_open = self.wanted.is_none() && self.each.is_none();
        self.wanted == Some(Format::Text) || is_open && text::is_stamped(begin)
    }

    /// Takes all of a file that is no JSON; whether it is a conversation.
    pub(super) fn text(&mut self, all: &str, begin: Place) -> bool {
        self.seen |= !all.trim().is_empty();
        let is_wanted = self.wanted == Some(Format::Text);
        let is_open = self.wanted.is_none() && self.each.is_none();
        let is_one = is_wanted || is_open && text::is_clear(all);
        if !self.seen || !is_one {
            return false;
        }
        self.format = Some(Format::Text);
        let mut draft = Draft::new(all, &mut self.kept);
        text::read(all, &mut draft);
        let (bad, _, warnings) = draft.into_problems();
        self.bad.extend(bad.placed(all, begin));
        self.warnings.extend(warnings.placed(all, begin));
        true
    }

    /// Whether something of it cannot be read as text.
    pub(super) fn has_undecoded(&self) -> bool {
        !self.undecoded.is_empty()
    }

    fn has_bad(&self) -> bool {
        !self.bad.is_empty() || !self.undecoded.is_empty()
    }

    /// It is no conversation.
    pub(super) fn refuse(&mut self, reason: String) {
        self.refused.get_or_insert(reason);
    }

    /// A part of it is no text.
    pub(super) fn undecoded(&mut self, at: Place, reason: impl Into<String>) {
        self.undecoded.push(at.error(reason));
    }

    /// It is one value, and that is no JSON: nothing of it counts.
    pub(super) fn broken(&mut self, at: Place, reason: String) {
        self.kept.forget();
        self.refused = None;
        self.conversations = 0;
        self.warnings.clear();
        self.strange.clear();
        self.bad_parts = 0;
        self.bad = vec![at.error(reason)];
    }

    /// What came of all of it; none if there was nothing in it. `Err` says what the file is instead.
    pub(super) fn finish(mut self) -> Result<Option<Found<'i>>, Refusal> {
        gemini_cli::place_pending("", &mut Draft::new("", &mut self.kept));
        if self.conversations > 1 {
            return Err(Refusal::Several(self.conversations));
        }
        let broken = self.has_bad();
        if let Some(reason) = self.refused.take() {
            // What is broken may be what would have told.
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
        Ok(Some(Found {
            kept: self.kept,
            format: format.unwrap_or(Format::OpenAi),
            bad: self.bad,
            skipped_parts: self.bad_parts,
            warnings: self.warnings,
            digest: self.digest,
        }))
    }
}

fn placed(problem: Problem<'_>, text: &str, begin: Place) -> impl Iterator<Item = LineError> {
    let mut problems = Problems::default();
    problems.add(text, problem);
    problems.placed(text, begin)
}

const UNKNOWN: &str = "its first object has the keys";

fn unknown(object: &Object<'_>) -> String {
    let keys: Vec<&str> = object.fields().map(|(key, _)| key).take(8).collect();
    format!("{UNKNOWN} {}", keys.join(", "))
}

/// The format of an object around a conversation, by the key that its messages are under.
pub(super) fn whole(key: &str) -> Option<Format> {
    match key {
        "messages" => Some(Format::OpenAi),
        "conversations" | "conversation" => Some(Format::ShareGpt),
        "history" => Some(Format::GeminiCli),
        _ => None,
    }
}

/// Whether it is around a conversation.
pub(super) fn is_around(object: &Object<'_>) -> bool {
    matches!(shape(object), Some(Shape::Whole(..) | Shape::One(_)))
}

fn shape<'t>(object: &Object<'t>) -> Option<Shape<'t>> {
    let kind = object.get("type").and_then(|kind| kind.text().ok());
    let is_line = match kind.as_deref() {
        Some("session" | "branch" | "checkpoint") => true,
        Some("message") => object.has("parts"),
        _ => false,
    };
    if is_line || object.has("unisono") {
        return Some(Shape::Item(Format::Unisono));
    }
    if slack::is_element(object) {
        return Some(Shape::Item(Format::Slack));
    }
    if codex::is_line(object) {
        return Some(Shape::Item(Format::Codex));
    }
    if claude_code::is_line(object) {
        return Some(Shape::Item(Format::ClaudeCode));
    }
    for key in ["messages", "conversations", "conversation", "history"] {
        if let (Some(format), Some(messages)) = (whole(key), object.get(key)) {
            return Some(Shape::Whole(format, messages));
        }
    }
    for (key, format) in [
        ("mapping", Format::ChatGpt),
        ("chat_messages", Format::Claude),
    ] {
        if object.has(key) {
            return Some(Shape::One(format));
        }
    }
    if gemini_cli::is_message(object) || object.has("projectHash") {
        return Some(Shape::Item(Format::GeminiCli));
    }
    let item = [("role", Format::OpenAi), ("from", Format::ShareGpt)];
    let item = item.into_iter().find(|(key, _)| object.has(key));
    item.map(|(_, format)| Shape::Item(format))
}
