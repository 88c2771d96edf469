//! The text of a file, and what is wrong with it by line.

use std::borrow::Cow;

use super::LineError;
/// Something wrong at the start of a piece of the file's text.
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

    /// Where it is in the file's `text`, of which it must be a piece.
    fn offset(&self, text: &str) -> usize {
        (self.at.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
    }
}

/// What is wrong with a file. Lines and columns are found once for all of it, in one pass: a
/// large file may be bad in every line.
#[derive(Clone, Debug, Default)]
pub(super) struct Problems {
    /// Lines that are no text at all.
    undecoded: Vec<LineError>,
    /// Lines that cannot be taken, by their offset.
    bad: Vec<(usize, String)>,
    /// How many of these are parts of messages that can be taken without them.
    parts: usize,
    /// What may not be meant, by its offset.
    warnings: Vec<(usize, String)>,
}

impl Problems {
    pub(super) fn is_empty(&self) -> bool {
        self.undecoded.is_empty() && self.bad.is_empty() && self.warnings.is_empty()
    }

    pub(super) fn has_bad(&self) -> bool {
        !self.undecoded.is_empty() || !self.bad.is_empty()
    }

    /// A line of `text` cannot be taken.
    pub(super) fn bad(&mut self, text: &str, problem: Problem<'_>) {
        self.bad.push((problem.offset(text), problem.reason));
    }

    /// A part of a message cannot be taken; the rest of the message can.
    pub(super) fn bad_part(&mut self, text: &str, problem: Problem<'_>) {
        self.parts += 1;
        self.bad(text, problem);
    }

    /// How many parts of messages cannot be taken.
    pub(super) fn parts(&self) -> usize {
        self.parts
    }

    /// Something of `text` may not be meant.
    pub(super) fn warn(&mut self, text: &str, problem: Problem<'_>) {
        self.warnings.push((problem.offset(text), problem.reason));
    }

    /// Bad lines and warnings of `text`, in order.
    pub(super) fn placed(self, text: &str) -> (Vec<LineError>, Vec<LineError>) {
        let mut bad = place(text, self.bad);
        bad.extend(self.undecoded);
        bad.sort_by_key(|error| (error.line, error.column));
        (bad, place(text, self.warnings))
    }
}

/// Lines and columns of offsets, in one pass over the text.
fn place(text: &str, mut found: Vec<(usize, String)>) -> Vec<LineError> {
    found.sort_by_key(|(offset, _)| *offset);
    let (mut line, mut column, mut at) = (1, 1, 0);
    let placed = found.into_iter().map(|(offset, reason)| {
        for character in text.get(at..offset).unwrap_or_default().chars() {
            (line, column) = if character == '\n' {
                (line + 1, 1)
            } else {
                (line, column + 1)
            };
        }
        at = at.max(offset);
        LineError {
            line,
            column,
            reason,
        }
    });
    placed.collect()
}

/// The text of a file without a byte order mark. Lines that are not UTF-8 are reported and left
/// empty, so that all others keep their numbers.
pub(super) fn decode<'b>(bytes: &'b [u8], problems: &mut Problems) -> Cow<'b, str> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        problems.undecoded.push(LineError {
            line: 1,
            column: 1,
            reason: "the file is UTF-16; convert it to UTF-8".to_owned(),
        });
        return Cow::Borrowed("");
    }
    let mut text = String::with_capacity(bytes.len());
    let mut offset = 0;
    for (number, line) in (1u32..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        match std::str::from_utf8(line) {
            Ok(line) => text.push_str(line),
            Err(error) => {
                problems
                    .undecoded
                    .push(not_utf8(number, line, offset, &error));
                text.push('\n');
            }
        }
        offset += line.len();
    }
    Cow::Owned(text)
}

fn not_utf8(number: u32, line: &[u8], offset: usize, error: &std::str::Utf8Error) -> LineError {
    let valid = &line[..error.valid_up_to()];
    let column = String::from_utf8_lossy(valid).chars().count() + 1;
    let byte = line.get(valid.len()).copied().unwrap_or_default();
    let position = offset + valid.len();
    LineError {
        line: number,
        column: u32::try_from(column).unwrap_or(u32::MAX),
        reason: format!("this is not UTF-8: byte 0x{byte:02x} at offset {position} of the file"),
    }
}
