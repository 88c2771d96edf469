//! A file piece by piece: lines, or the elements of one JSON value. The whole file is in memory only
//! if it is a text or in UTF-16 (`whole`).
//!
//! | the file begins with | it is read as |
//! |---|---|
//! | `[` | the elements of a list; the first may be an object around a conversation |
//! | `{` | an object around a conversation, or one object per line |
//!
//! An object around a conversation is recognised by its key before its list is read, so that each
//! message is a separate piece.

mod chats;
mod track;
mod whole;

use std::borrow::Cow;
use std::io::{self, BufRead, Cursor, Read};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::detect::Reader;
use super::json::{self, Value};
use super::source::{Place, not_utf8};
use super::{Format, encoding, fields, shape};
use chats::Chats;
use track::{OBJECT_BYTES, SharedTracker};
use whole::{utf_16, whole_text};

const MARK: &[u8] = b"\xef\xbb\xbf";
/// The beginnings of compressed files, each with the reason why it is refused.
const COMPRESSED: [(&[u8], &str); 3] = [
    (b"PK\x03\x04", "it is a zip archive, unpack it first"),
    (
        b"\x1f\x8b",
        "it is compressed with gzip, unpack it first with `gunzip`",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "it is compressed with zstd, unpack it first with `unzstd`",
    ),
];

/// Passes every piece of a file to the reader; `place` is the position of its beginning.
pub(super) fn read(
    input: &mut dyn BufRead,
    place: Place,
    reader: &mut Reader<'_>,
) -> io::Result<()> {
    let begin = input.fill_buf()?;
    let mut kinds = COMPRESSED.iter();
    if let Some((_, reason)) = kinds.find(|(mark, _)| begin.starts_with(mark)) {
        reader.refuse((*reason).to_owned());
        return Ok(());
    }
    if encoding::is_utf16(begin) {
        return utf_16(input, place, reader);
    }
    if let Some(code) = encoding::unmarked_utf16(begin) {
        let conversion = encoding::conversion(Some(code));
        let reason = format!("it looks like UTF-16 without a byte order mark; {conversion}");
        reader.refuse(reason);
        return Ok(());
    }
    let skipped = if begin.starts_with(MARK) {
        MARK.len()
    } else {
        0
    };
    input.consume(skipped);
    let track = SharedTracker::default();
    track.start(place);
    track.skip(skipped);
    let mut text = Text {
        input,
        track: track.clone(),
    };
    if reader.wants_text(text.input.fill_buf()?) {
        return whole_text(text, Vec::new(), (place, skipped as u64), reader);
    }
    let first = text.peek()?;
    reader.seen = first.is_some();
    match first {
        None => Ok(()),
        Some(b'[') => list(text, &track, reader),
        Some(b'{') => objects(text, &track, reader),
        Some(_) => non_json(text, &track, reader),
    }
}

fn list(text: Text<'_>, track: &SharedTracker, reader: &mut Reader<'_>) -> io::Result<()> {
    let mut json = serde_json::Deserializer::from_reader(text);
    let elements = Elements {
        reader,
        track,
        first: true,
    };
    let read = json.deserialize_seq(elements).and_then(|()| json.end());
    report_error(read, track, reader)
}

/// Reads an object with a conversation, or one object per line.
fn objects(mut text: Text<'_>, track: &SharedTracker, reader: &mut Reader<'_>) -> io::Result<()> {
    track.start_keeping(OBJECT_BYTES);
    let mut json = serde_json::Deserializer::from_reader(&mut text);
    let first = FirstValue { reader, track }.deserialize(&mut json);
    match first {
        Ok(ValueKind::Wrapper) => return after_wrapper(text, track, reader),
        Ok(ValueKind::Other) => {}
        // The messages were passed on and not kept.
        Err(error) if error.is_io() || reader.conversations > 0 => {
            return report_error(Err(error), track, reader);
        }
        Err(error) => {
            let whole = (track.last(), json::reason(&error));
            return lines(text, track, reader, whole);
        }
    }
    if text.peek()?.is_none() {
        let (begin, bytes) = track.take();
        let offset = track.offset() - bytes.len() as u64;
        pass_piece(reader, (begin, offset), bytes.trim_ascii());
        return Ok(());
    }
    let whole = (track.next(), json::reason_of("trailing characters"));
    lines(text, track, reader, whole)
}

/// Checks the text after an object with a conversation.
fn after_wrapper(
    mut text: Text<'_>,
    track: &SharedTracker,
    reader: &mut Reader<'_>,
) -> io::Result<()> {
    if text.peek()?.is_none() {
        return Ok(());
    }
    let at = track.next();
    let mut line = Vec::new();
    let mut more = 0;
    while text.input.read_until(b'\n', &mut line)? > 0 {
        let json = std::str::from_utf8(&line).map(Value::parse);
        more += usize::from(matches!(json, Ok(Ok(_))));
        line.clear();
    }
    match more {
        0 => reader.broken(at, json::reason_of("trailing characters")),
        more => reader.conversations += more,
    }
    Ok(())
}

/// Reads a file that is not JSON: as a text, or by lines if the first one is not valid text and the
/// second one may be JSON.
fn non_json(text: Text<'_>, track: &SharedTracker, reader: &mut Reader<'_>) -> io::Result<()> {
    let at = track.next();
    let mut line = Vec::new();
    text.input.read_until(b'\n', &mut line)?;
    let offset = track.offset();
    let next = text.input.fill_buf()?.trim_ascii_start().first();
    if std::str::from_utf8(&line).is_ok() || !matches!(next, Some(b'{' | b'[')) {
        return whole_text(text, line, (at, offset), reader);
    }
    let input = Cursor::new(line).chain(text.input);
    each_line(input, (at, offset), reader)
}

/// Reads one object per line, beginning with the kept text. `whole` is the problem if it is a
/// single object.
fn lines(
    text: Text<'_>,
    track: &SharedTracker,
    reader: &mut Reader<'_>,
    whole: (Place, String),
) -> io::Result<()> {
    let (begin, kept) = track.take();
    let offset = track.offset() - kept.len() as u64;
    let input = Cursor::new(kept).chain(text.input);
    each_line(input, (begin, offset), reader)?;
    if !reader.has_object && !reader.has_undecoded() {
        // A single broken object over several lines.
        reader.broken(whole.0, whole.1);
    }
    Ok(())
}

fn each_line(
    mut input: impl BufRead,
    (mut begin, mut offset): (Place, u64),
    reader: &mut Reader<'_>,
) -> io::Result<()> {
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        match std::str::from_utf8(&line) {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => {
                let text = text.strip_suffix('\n').unwrap_or(text);
                let text = text.strip_suffix('\r').unwrap_or(text);
                pass_text(reader, (begin, offset), text);
            }
            Err(error) => {
                let reason = not_utf8(&line, offset, &error);
                reader.push_undecoded(begin.after_bytes(&line[..error.valid_up_to()]), reason);
            }
        }
        offset += line.len() as u64;
        begin = begin.next_line();
        line.clear();
    }
    Ok(())
}

/// Passes on a kept element.
fn pass_piece(reader: &mut Reader<'_>, (begin, offset): (Place, u64), bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => pass_text(reader, (begin, offset), text),
        Err(error) => {
            let reason = "this is not UTF-8";
            reader.push_undecoded(begin.after_bytes(&bytes[..error.valid_up_to()]), reason);
        }
    }
}

/// Passes on the text of a piece. A piece of a list of conversations is read later; this program's own
/// format comes back as it went.
fn pass_text(reader: &mut Reader<'_>, (begin, offset): (Place, u64), text: &str) {
    let is_own = reader.format == Some(Format::Unisono);
    let whole = match is_own || reader.on_piece.is_some() {
        true => Cow::Borrowed(text),
        false => json::without_halves(text),
    };
    if matches!(whole, Cow::Owned(_)) {
        let reason = "half of a character, which a program cut, became U+FFFD";
        reader.warnings.push(begin.error(reason));
    }
    reader.item(&whole, begin, offset);
}

/// Reports the error of an incompletely parsed value.
fn report_error(
    read: Result<(), serde_json::Error>,
    track: &SharedTracker,
    reader: &mut Reader<'_>,
) -> io::Result<()> {
    match read {
        Err(error) if error.is_io() => Err(error.into()),
        Err(error) => {
            reader.broken(track.last(), json::reason(&error));
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// The kind of an object or element.
enum ValueKind {
    /// An object with a conversation, whose messages were passed on.
    Wrapper,
    /// Anything else, whose text was kept.
    Other,
}

/// The first object of a file.
struct FirstValue<'a, 'i> {
    reader: &'a mut Reader<'i>,
    track: &'a SharedTracker,
}

impl<'de> DeserializeSeed<'de> for FirstValue<'_, '_> {
    type Value = ValueKind;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<ValueKind, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FirstValue<'_, '_> {
    type Value = ValueKind;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ValueKind, A::Error> {
        let FirstValue { reader, track } = self;
        let (mut is_line, mut has_chats, mut found, mut system) = (false, false, None, None);
        let mut titles = [None, None];
        while let Some(key) = map.next_key::<String>()? {
            let format = shape::wrapper_format(&key).filter(|format| {
                !is_line
                    && reader.on_piece.is_none()
                    && found
                        .as_ref()
                        .is_none_or(|known| *known == (key.clone(), *format))
            });
            if let Some(format) = format {
                let messages = Messages {
                    reader,
                    track,
                    format,
                };
                if map.next_value_seed(messages)? {
                    found = Some((key, format));
                }
            } else if found.is_none() && Chats::is_key(&key) {
                has_chats |= map.next_value_seed(Chats { reader, track })?;
            } else if key == "system" || key == "type" {
                track.expect_value();
                let value: Box<RawValue> = map.next_value()?;
                let line = ["\"session\"", "\"branch\"", "\"checkpoint\""];
                is_line |= key == "type" && line.contains(&value.get());
                system = (key == "system")
                    .then(|| (track.value_start(), value))
                    .or(system);
            } else if let Some(at) = fields::TITLES.iter().position(|title| *title == key) {
                track.record();
                map.next_value::<IgnoredAny>()?;
                titles[at] = text_of_value(&track.recorded());
            } else {
                is_line |= key == "unisono";
                map.next_value::<IgnoredAny>()?;
            }
        }
        if found.is_none() && !has_chats {
            return Ok(ValueKind::Other);
        }
        if let Some((begin, text)) = system {
            reader.outer_system(&json::without_halves(text.get()), begin);
        }
        reader.outer_title(titles.into_iter().flatten().find(|title| !title.is_empty()));
        Ok(ValueKind::Wrapper)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ValueKind, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(ValueKind::Other)
    }

    fn visit_str<E>(self, _: &str) -> Result<ValueKind, E> {
        Ok(ValueKind::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<ValueKind, E> {
        Ok(ValueKind::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<ValueKind, E> {
        Ok(ValueKind::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<ValueKind, E> {
        Ok(ValueKind::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<ValueKind, E> {
        Ok(ValueKind::Other)
    }

    fn visit_unit<E>(self) -> Result<ValueKind, E> {
        Ok(ValueKind::Other)
    }
}

/// The text that is the value of a key; `recorded` begins after the key.
fn text_of_value(recorded: &[u8]) -> Option<String> {
    let value = std::str::from_utf8(recorded).ok()?.trim_start();
    let value = Value::parse(value.strip_prefix(':')?).ok()?;
    value.text().ok().map(String::from)
}

/// The value of a key with a conversation's messages; the result is whether it is a list.
struct Messages<'a, 'i> {
    reader: &'a mut Reader<'i>,
    track: &'a SharedTracker,
    format: Format,
}

impl<'de> DeserializeSeed<'de> for Messages<'_, '_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Messages<'_, '_> {
    type Value = bool;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<bool, A::Error> {
        self.track.drop_kept();
        self.reader.begin_wrapper(self.format);
        let elements = Elements {
            reader: &mut *self.reader,
            track: self.track,
            first: false,
        };
        elements.visit_seq(list)?;
        self.reader.end_wrapper();
        Ok(true)
    }
}

/// The elements of a list, the `first` of which may be an object with a conversation.
struct Elements<'a, 'i> {
    reader: &'a mut Reader<'i>,
    track: &'a SharedTracker,
    first: bool,
}

impl<'de> Visitor<'de> for Elements<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Elements {
            reader,
            track,
            mut first,
        } = self;
        loop {
            track.start_keeping(usize::MAX);
            let kind = if std::mem::take(&mut first) {
                list.next_element_seed(FirstValue { reader, track })?
            } else {
                let ignored = list.next_element::<IgnoredAny>()?;
                ignored.map(|_| ValueKind::Other)
            };
            match kind {
                None => break,
                Some(ValueKind::Wrapper) => {}
                Some(ValueKind::Other) => {
                    let (begin, bytes) = track.take();
                    // The end of a number is known only from the next byte.
                    let ends =
                        |byte: &u8| matches!(byte, b',' | b']') || byte.is_ascii_whitespace();
                    let number = bytes.first().is_some_and(|first| !b"[{\"".contains(first));
                    let end = match number {
                        true => bytes.iter().position(ends).unwrap_or(bytes.len()),
                        false => bytes.len(),
                    };
                    let offset = track.offset() - bytes.len() as u64;
                    pass_piece(reader, (begin, offset), &bytes[..end]);
                }
            }
        }
        track.drop_kept();
        Ok(())
    }
}

/// The text of a file that is parsed as JSON, with the current position.
struct Text<'r> {
    input: &'r mut dyn BufRead,
    track: SharedTracker,
}

impl Text<'_> {
    /// The next byte that is not white space, without consuming it.
    fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.input.fill_buf()?.first() {
                Some(byte) if byte.is_ascii_whitespace() => {
                    self.track.advance(*byte);
                    self.input.consume(1);
                }
                next => return Ok(next.copied()),
            }
        }
    }
}

impl Read for Text<'_> {
    /// Returns one byte at a time, so that the kept text ends at the current position.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (Some(next), Some(place)) = (self.input.fill_buf()?.first(), into.first_mut()) else {
            return Ok(0);
        };
        *place = *next;
        let fits = self.track.advance(*next);
        self.input.consume(1);
        match fits {
            true => Ok(1),
            // As if the file ended here: it is then read by lines.
            false => Ok(0),
        }
    }
}
