//! A file piece by piece: lines, or the elements of one JSON value. The whole file is never in
//! memory.
//!
//! | the file begins with | it is read as |
//! |---|---|
//! | `[` | the elements of a list; the first may be an object around a conversation |
//! | `{` | an object around a conversation, or one object per line |
//!
//! An object around a conversation is recognised by its key before its list is read, so that each
//! message is a separate piece.

mod track;

use std::io::{self, BufRead, Cursor, Read};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Format;
use super::detect::{self, Reader};
use super::json::{self, Value};
use super::source::{Place, not_utf8};
use track::Shared;

const MARK: &[u8] = b"\xef\xbb\xbf";
/// A conversation as a text has so many bytes at most.
const TEXT_BYTES: u64 = 64 << 20;
const ZIP: &[u8] = b"PK\x03\x04";
const UTF_16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// Hands every piece of a file to the reader; `place` is where it begins.
///
/// # Errors
/// The file cannot be read.
pub(super) fn read(
    input: &mut dyn BufRead,
    place: Place,
    reader: &mut Reader<'_>,
) -> io::Result<()> {
    let begin = input.fill_buf()?;
    if UTF_16.iter().any(|mark| begin.starts_with(mark)) {
        reader.undecoded(Place::FIRST, "the file is UTF-16; convert it to UTF-8");
        return Ok(());
    }
    if begin.starts_with(ZIP) {
        reader.refuse("it is a zip archive, unpack it first".to_owned());
        return Ok(());
    }
    let skipped = if begin.starts_with(MARK) {
        MARK.len()
    } else {
        0
    };
    input.consume(skipped);
    let track = Shared::default();
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
        Some(_) => other(text, &track, reader),
    }
}

/// One list.
fn list(text: Text<'_>, track: &Shared, reader: &mut Reader<'_>) -> io::Result<()> {
    let mut json = serde_json::Deserializer::from_reader(text);
    let elements = Elements {
        reader,
        track,
        first: true,
    };
    let read = json.deserialize_seq(elements).and_then(|()| json.end());
    settle(read, track, reader)
}

/// One object around a conversation, or one a line.
fn objects(mut text: Text<'_>, track: &Shared, reader: &mut Reader<'_>) -> io::Result<()> {
    track.mark();
    let mut json = serde_json::Deserializer::from_reader(&mut text);
    let first = First { reader, track }.deserialize(&mut json);
    match first {
        Ok(Kind::Whole) => return behind(text, track, reader),
        Ok(Kind::Other) => {}
        // The messages were handed on, and not kept.
        Err(error) if error.is_io() || reader.conversations > 0 => {
            return settle(Err(error), track, reader);
        }
        Err(error) => {
            let whole = (track.last(), json::reason(&error));
            return lines(text, track, reader, whole);
        }
    }
    if text.peek()?.is_none() {
        let (begin, bytes) = track.take();
        let offset = track.offset() - bytes.len() as u64;
        piece(reader, (begin, offset), bytes.trim_ascii());
        return Ok(());
    }
    let whole = (track.next(), json::reason_of("trailing characters"));
    lines(text, track, reader, whole)
}

/// What is behind an object around a conversation.
fn behind(mut text: Text<'_>, track: &Shared, reader: &mut Reader<'_>) -> io::Result<()> {
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

/// Something that is no JSON, unless its first line is no text at all.
fn other(text: Text<'_>, track: &Shared, reader: &mut Reader<'_>) -> io::Result<()> {
    let at = track.next();
    let mut line = Vec::new();
    text.input.read_until(b'\n', &mut line)?;
    let offset = track.offset();
    if std::str::from_utf8(&line).is_ok() {
        return whole_text(text, line, (at, offset), reader);
    }
    let input = Cursor::new(line).chain(text.input);
    each_line(input, (at, offset), reader)
}

/// Reads a conversation that is a text. `read` is what was read of it before. The whole text is held.
fn whole_text(
    text: Text<'_>,
    mut read: Vec<u8>,
    (at, offset): (Place, u64),
    reader: &mut Reader<'_>,
) -> io::Result<()> {
    text.input.take(TEXT_BYTES).read_to_end(&mut read)?;
    if read.len() as u64 > TEXT_BYTES {
        reader.refuse("it is no JSON, and longer than a text may be".to_owned());
        return Ok(());
    }
    match std::str::from_utf8(&read) {
        Ok(all) if reader.text(all, at) => {}
        Ok(all) => {
            if let Some(first) = all.trim_start().chars().next() {
                reader.refuse(format!("it starts with {first:?}, not with `{{` or `[`"));
            }
        }
        Err(error) => {
            let reason = not_utf8(&read, offset, &error);
            let at = at.after_bytes(&read[..error.valid_up_to()]);
            reader.refuse(format!("{}:{}: {reason}", at.line, at.column));
        }
    }
    Ok(())
}

/// One object a line; what was read of the first is kept. `whole` is why it is not one object alone.
fn lines(
    text: Text<'_>,
    track: &Shared,
    reader: &mut Reader<'_>,
    whole: (Place, String),
) -> io::Result<()> {
    let (begin, kept) = track.take();
    let offset = track.offset() - kept.len() as u64;
    let input = Cursor::new(kept).chain(text.input);
    each_line(input, (begin, offset), reader)?;
    if !reader.has_object && !reader.has_undecoded() {
        // One object over several lines, and a broken one.
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
                reader.item(text.strip_suffix('\r').unwrap_or(text), begin, offset);
            }
            Err(error) => {
                let reason = not_utf8(&line, offset, &error);
                reader.undecoded(begin.after_bytes(&line[..error.valid_up_to()]), reason);
            }
        }
        offset += line.len() as u64;
        begin = begin.next_line();
        line.clear();
    }
    Ok(())
}

/// Hands on an element that was kept.
fn piece(reader: &mut Reader<'_>, (begin, offset): (Place, u64), bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => reader.item(text, begin, offset),
        Err(error) => {
            let reason = "this is not UTF-8";
            reader.undecoded(begin.after_bytes(&bytes[..error.valid_up_to()]), reason);
        }
    }
}

/// Takes note of why a value was not read to its end.
fn settle(
    read: Result<(), serde_json::Error>,
    track: &Shared,
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

/// What an object or an element is.
enum Kind {
    /// An object around a conversation, whose messages were handed on.
    Whole,
    /// Anything else: its text was kept.
    Other,
}

/// The first object of a file.
struct First<'a, 'i> {
    reader: &'a mut Reader<'i>,
    track: &'a Shared,
}

impl<'de> DeserializeSeed<'de> for First<'_, '_> {
    type Value = Kind;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Kind, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for First<'_, '_> {
    type Value = Kind;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Kind, A::Error> {
        let First { reader, track } = self;
        let (mut is_line, mut found, mut system) = (false, None, None);
        while let Some(key) = map.next_key::<String>()? {
            let format = detect::whole(&key).filter(|format| {
                !is_line
                    && reader.each.is_none()
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
            } else if key == "system" || key == "type" {
                track.begin();
                let value: Box<RawValue> = map.next_value()?;
                let line = ["\"session\"", "\"branch\"", "\"checkpoint\""];
                is_line |= key == "type" && line.contains(&value.get());
                system = (key == "system").then(|| (track.begun(), value)).or(system);
            } else {
                is_line |= key == "unisono";
                map.next_value::<IgnoredAny>()?;
            }
        }
        if found.is_none() {
            return Ok(Kind::Other);
        }
        if let Some((begin, text)) = system {
            reader.outer_system(text.get(), begin);
        }
        Ok(Kind::Whole)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Kind, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Kind::Other)
    }

    fn visit_str<E>(self, _: &str) -> Result<Kind, E> {
        Ok(Kind::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Kind, E> {
        Ok(Kind::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Kind, E> {
        Ok(Kind::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Kind, E> {
        Ok(Kind::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Kind, E> {
        Ok(Kind::Other)
    }

    fn visit_unit<E>(self) -> Result<Kind, E> {
        Ok(Kind::Other)
    }
}

/// The value of a key that has a conversation's messages; whether there are any.
struct Messages<'a, 'i> {
    reader: &'a mut Reader<'i>,
    track: &'a Shared,
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
        self.reader.begin_whole(self.format);
        let elements = Elements {
            reader: &mut *self.reader,
            track: self.track,
            first: false,
        };
        elements.visit_seq(list)?;
        self.reader.end_whole();
        Ok(true)
    }
}

/// The elements of a list, of which the `first` may be around a conversation.
struct Elements<'a, 'i> {
    reader: &'a mut Reader<'i>,
    track: &'a Shared,
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
            track.mark();
            let kind = if std::mem::take(&mut first) {
                list.next_element_seed(First { reader, track })?
            } else {
                let ignored = list.next_element::<IgnoredAny>()?;
                ignored.map(|_| Kind::Other)
            };
            match kind {
                None => break,
                Some(Kind::Whole) => {}
                Some(Kind::Other) => {
                    let (begin, bytes) = track.take();
                    // The end of a number is known by what is behind it.
                    let ends =
                        |byte: &u8| matches!(byte, b',' | b']') || byte.is_ascii_whitespace();
                    let number = bytes.first().is_some_and(|first| !b"[{\"".contains(first));
                    let end = match number {
                        true => bytes.iter().position(ends).unwrap_or(bytes.len()),
                        false => bytes.len(),
                    };
                    let offset = track.offset() - bytes.len() as u64;
                    piece(reader, (begin, offset), &bytes[..end]);
                }
            }
        }
        track.drop_kept();
        Ok(())
    }
}

/// The text of a file that is read as JSON, and where in it one is.
struct Text<'r> {
    input: &'r mut dyn BufRead,
    track: Shared,
}

impl Text<'_> {
    /// The next byte that is no space, which is still to be read.
    fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.input.fill_buf()?.first() {
                Some(byte) if byte.is_ascii_whitespace() => {
                    self.track.saw(*byte);
                    self.input.consume(1);
                }
                next => return Ok(next.copied()),
            }
        }
    }
}

impl Read for Text<'_> {
    /// A byte at a time, as the deserializer asks for it: what is kept ends where it is.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (Some(next), Some(place)) = (self.input.fill_buf()?.first(), into.first_mut()) else {
            return Ok(0);
        };
        *place = *next;
        let fits = self.track.saw(*next);
        self.input.consume(1);
        match fits {
            true => Ok(1),
            // As if the file ended here: it is read by lines then.
            false => Ok(0),
        }
    }
}
