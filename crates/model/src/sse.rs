//! Server-sent events (WHATWG HTML, section 9.2.6), parsed from bytes as they arrive.
//!
//! [`Parser::push`] takes pieces of a stream, cut anywhere, and passes each event on as soon as its
//! empty line has arrived. An event that is completely in one piece and has one `data` line is
//! borrowed from that piece without a copy. The buffered data is limited by [`Caps`].
//!
//! There are three differences from the standard: bytes that are not UTF-8 are an error instead of
//! being replaced, `id` and `retry` are ignored, because a model's reply cannot be resumed, and
//! [`Parser::finish`] passes on a last event without an empty line, because some servers close the
//! connection in its place.

use std::fmt;
use std::ops::ControlFlow;

use memchr::memchr2;

/// The byte order mark that a stream may begin with.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its `event` field; `message` if it has none.
    pub name: &'a str,
    /// Its `data` lines, joined by line feeds.
    pub data: &'a str,
}

/// The size limits of a stream, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// One line, without its end.
    pub line: usize,
    /// The data of one event.
    pub event: usize,
}

/// Why a stream cannot be parsed further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A line is not UTF-8.
    #[error("a line of the event stream is not UTF-8")]
    NotUtf8,
    /// A line is too long.
    #[error("a line of the event stream is longer than {cap} bytes")]
    Line {
        /// The cap.
        cap: usize,
    },
    /// An event is too long.
    #[error("an event of the stream is longer than {cap} bytes")]
    Event {
        /// The cap.
        cap: usize,
    },
}

/// Parses one stream.
pub struct Parser {
    caps: Caps,
    /// The number of bytes of the mark that were seen; `None` after the stream has begun.
    mark: Option<usize>,
    /// A carriage return was the last byte: a line feed after it belongs to it.
    after_return: bool,
    /// The beginning of a line whose end has not arrived yet.
    line: Vec<u8>,
    name: String,
    data: String,
    has_data: bool,
}

/// The parts of the current event that are borrowed from the current piece.
#[derive(Default)]
struct Borrowed<'c> {
    name: Option<&'c str>,
    data: Option<&'c str>,
}

/// A line, borrowed or joined.
enum Line<'c, 'l> {
    /// Completely in the piece.
    Whole(&'c str),
    /// Joined from several pieces.
    Joined(&'l str),
}

impl Parser {
    /// A parser at the start of a stream.
    pub fn new(caps: Caps) -> Parser {
        Parser {
            caps,
            mark: Some(0),
            after_return: false,
            line: Vec::new(),
            name: String::new(),
            data: String::new(),
            has_data: false,
        }
    }

    /// Parses the next piece and passes each event that ends in it to `on`, in order. If `on`
    /// breaks, the rest of the piece is not parsed, and the parser must not be used again.
    ///
    /// # Errors
    /// The errors of the stream and of `on`. Earlier events have been passed on.
    pub fn push<E: From<Error>>(
        &mut self,
        piece: &[u8],
        mut on: impl FnMut(Event<'_>) -> Result<ControlFlow<()>, E>,
    ) -> Result<ControlFlow<()>, E> {
        let mut rest = self.without_mark(piece);
        let mut borrowed = Borrowed::default();
        loop {
            if self.after_return
                && let Some((&first, others)) = rest.split_first()
            {
                self.after_return = false;
                if first == b'\n' {
                    rest = others;
                }
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                break;
            };
            let (line, tail) = rest.split_at(end);
            self.after_return = tail[0] == b'\r';
            rest = &tail[1..];
            if line.is_empty() && self.line.is_empty() {
                if let Some(event) = self.event(&borrowed)
                    && on(event)?.is_break()
                {
                    return Ok(ControlFlow::Break(()));
                }
                borrowed = Borrowed::default();
                self.clear();
            } else {
                self.end_line(line, &mut borrowed)?;
            }
        }
        self.keep(rest)?;
        self.keep_borrowed(borrowed);
        Ok(ControlFlow::Continue(()))
    }

    /// The stream has ended: passes on its last event if that has no empty line. The event may be
    /// incomplete.
    ///
    /// # Errors
    /// The errors of the stream and of `on`.
    pub fn finish<E: From<Error>>(
        mut self,
        on: impl FnMut(Event<'_>) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        self.push(b"\n\n", on).map(|_| ())
    }

    /// The piece without its part of the byte order mark.
    fn without_mark<'c>(&mut self, mut piece: &'c [u8]) -> &'c [u8] {
        while let Some(seen) = self.mark {
            let Some((&first, others)) = piece.split_first() else {
                break;
            };
            if first == MARK[seen] {
                piece = others;
                self.mark = Some(seen + 1).filter(|&seen| seen < MARK.len());
            } else {
                // It is not a mark: these bytes are the beginning of a line.
                self.line.extend_from_slice(&MARK[..seen]);
                self.mark = None;
            }
        }
        piece
    }

    /// Processes the line that ends with `end`.
    fn end_line<'c>(&mut self, end: &'c [u8], borrowed: &mut Borrowed<'c>) -> Result<(), Error> {
        if self.line.is_empty() {
            self.check_line(end.len())?;
            return self.field(Line::Whole(text(end)?), borrowed);
        }
        self.keep(end)?;
        let mut line = std::mem::take(&mut self.line);
        self.field(Line::Joined(text(&line)?), borrowed)?;
        line.clear();
        self.line = line;
        Ok(())
    }

    fn keep(&mut self, beginning: &[u8]) -> Result<(), Error> {
        self.check_line(self.line.len() + beginning.len())?;
        self.line.extend_from_slice(beginning);
        Ok(())
    }

    fn check_line(&self, length: usize) -> Result<(), Error> {
        let cap = self.caps.line;
        if length > cap {
            Err(Error::Line { cap })
        } else {
            Ok(())
        }
    }

    fn field<'c>(&mut self, line: Line<'c, '_>, borrowed: &mut Borrowed<'c>) -> Result<(), Error> {
        let (field, value) = split(line.text());
        match field {
            "data" => self.take_data(line.borrow_value(value), value, borrowed),
            "event" => {
                self.name.clear();
                borrowed.name = line.borrow_value(value);
                if borrowed.name.is_none() {
                    self.name.push_str(value);
                }
                Ok(())
            }
            // A comment, an id, a reconnection time, or an unknown field.
            _ => Ok(()),
        }
    }

    fn take_data<'c>(
        &mut self,
        borrowable: Option<&'c str>,
        value: &str,
        borrowed: &mut Borrowed<'c>,
    ) -> Result<(), Error> {
        let before = borrowed.data.map_or(self.data.len(), str::len);
        let first = borrowed.data.is_none() && !self.has_data;
        let cap = self.caps.event;
        if before + usize::from(!first) + value.len() > cap {
            return Err(Error::Event { cap });
        }
        if first && borrowable.is_some() {
            borrowed.data = borrowable;
            return Ok(());
        }
        if let Some(data) = borrowed.data.take() {
            self.data.push_str(data);
        }
        if !first {
            self.data.push('\n');
        }
        self.data.push_str(value);
        self.has_data = true;
        Ok(())
    }

    /// The current event; `None` if it has no data.
    fn event<'e>(&'e self, borrowed: &Borrowed<'e>) -> Option<Event<'e>> {
        let data = borrowed.data.or(self.has_data.then_some(&*self.data))?;
        let name = match borrowed.name.unwrap_or(&self.name) {
            "" => "message",
            name => name,
        };
        Some(Event { name, data })
    }

    fn clear(&mut self) {
        self.name.clear();
        self.data.clear();
        self.has_data = false;
    }

    /// Copies the borrowed parts before the piece is dropped.
    fn keep_borrowed(&mut self, borrowed: Borrowed<'_>) {
        if let Some(name) = borrowed.name {
            self.name.push_str(name);
        }
        if let Some(data) = borrowed.data {
            self.data.push_str(data);
            self.has_data = true;
        }
    }
}

/// Without the received data, which must not be logged.
impl fmt::Debug for Parser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parser")
            .field("caps", &self.caps)
            .field("held", &(self.line.len() + self.data.len()))
            .finish_non_exhaustive()
    }
}

impl<'c> Line<'c, '_> {
    fn text(&self) -> &str {
        match self {
            Line::Whole(line) => line,
            Line::Joined(line) => line,
        }
    }

    /// The end of the line with the length of `value`, if it is borrowed from the piece.
    fn borrow_value(&self, value: &str) -> Option<&'c str> {
        match self {
            Line::Whole(line) => line.get(line.len() - value.len()..),
            Line::Joined(_) => None,
        }
    }
}

fn text(line: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(line).map_err(|_| Error::NotUtf8)
}

/// Field and value of a line; a comment has an empty field.
fn split(line: &str) -> (&str, &str) {
    match line.split_once(':') {
        Some((field, value)) => (field, value.strip_prefix(' ').unwrap_or(value)),
        None => (line, ""),
    }
}

#[cfg(test)]
mod tests;
