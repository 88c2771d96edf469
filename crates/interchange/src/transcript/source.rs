//! Positions in a file, and errors there.

use super::LineError;

/// A position in a file's text: line and column from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: u32,
    pub(super) column: u32,
}

impl Default for Place {
    fn default() -> Place {
        Place::FIRST
    }
}

impl From<(u32, u32)> for Place {
    fn from((line, column): (u32, u32)) -> Place {
        Place { line, column }
    }
}

impl Place {
    pub(super) const FIRST: Place = Place { line: 1, column: 1 };

    pub(super) fn after_byte(self, byte: u8) -> Place {
        match byte {
            b'\n' => self.next_line(),
            // A character is counted once, by its first byte.
            byte if byte & 0xc0 == 0x80 => self,
            _ => Place {
                column: self.column.saturating_add(1),
                ..self
            },
        }
    }

    pub(super) fn after_bytes(self, bytes: &[u8]) -> Place {
        bytes.iter().fold(self, |at, byte| at.after_byte(*byte))
    }

    pub(super) fn next_line(self) -> Place {
        Place {
            line: self.line.saturating_add(1),
            column: 1,
        }
    }

    pub(super) fn error(self, reason: impl Into<String>) -> LineError {
        LineError {
            line: self.line,
            column: self.column,
            reason: reason.into(),
        }
    }
}

/// A value, or why a part of the text is not one.
pub(super) type Result<'t, T> = std::result::Result<T, Problem<'t>>;

/// A problem at the start of a part of a piece's text.
#[derive(Clone, Debug)]
pub(super) struct Problem<'t> {
    pub(super) at: &'t str,
    pub(super) reason: String,
}

impl<'t> Problem<'t> {
    pub(super) fn new(at: &'t str, reason: impl Into<String>) -> Problem<'t> {
        Problem {
            at,
            reason: reason.into(),
        }
    }

    /// Its offset in the piece's `text`, of which it must be a part.
    fn offset(&self, text: &str) -> usize {
        offset(self.at, text)
    }
}

fn offset(part: &str, text: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

pub(super) fn split_before<'t>(text: &'t str, part: &str) -> (&'t str, &'t str) {
    text.split_at_checked(offset(part, text))
        .unwrap_or((text, ""))
}

/// The problems of a piece of a file. Lines and columns are computed in one pass.
#[derive(Clone, Debug, Default)]
pub(super) struct Problems(Vec<(usize, String)>);

impl Problems {
    pub(super) fn add(&mut self, text: &str, problem: Problem<'_>) {
        self.0.push((problem.offset(text), problem.reason));
    }

    /// The problems of a piece that begins at `begin`, in order.
    pub(super) fn with_places(
        mut self,
        text: &str,
        begin: Place,
    ) -> impl Iterator<Item = LineError> {
        self.0.sort_by_key(|(offset, _)| *offset);
        let (mut place, mut at) = (begin, 0);
        self.0.into_iter().map(move |(offset, reason)| {
            let between = text.as_bytes().get(at..offset).unwrap_or_default();
            place = place.after_bytes(between);
            at = at.max(offset);
            place.error(reason)
        })
    }
}

/// The text with empty lines in place of those that are not UTF-8, and why these are not.
pub(super) fn valid_lines(
    bytes: &[u8],
    (at, mut offset): (Place, u64),
) -> (String, Vec<(Place, String)>) {
    let (mut text, mut broken, mut begin) = (String::with_capacity(bytes.len()), Vec::new(), at);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match std::str::from_utf8(line) {
            Ok(line) => text.push_str(line),
            Err(error) => {
                let reason = not_utf8(line, offset, &error);
                broken.push((begin.after_bytes(&line[..error.valid_up_to()]), reason));
                text.push('\n');
            }
        }
        offset += line.len() as u64;
        begin = begin.next_line();
    }
    (text, broken)
}

/// The message for a line that is not UTF-8 and begins at this byte of the file.
pub(super) fn not_utf8(line: &[u8], offset: u64, error: &std::str::Utf8Error) -> String {
    let valid = error.valid_up_to();
    let byte = line.get(valid).copied().unwrap_or_default();
    let position = offset + valid as u64;
    format!("this is not UTF-8: byte 0x{byte:02x} at offset {position} of the file")
}
