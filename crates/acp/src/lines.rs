//! Lines of bounded length from a client.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// The buffer size of each read, in bytes.
const READ: usize = 64 << 10;
/// The byte order mark of UTF-8, with which some shells begin what they write to a program.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// A line that has no text. The lines after it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadLine {
    /// It is longer than the maximum, in bytes.
    TooLong(usize),
    /// It is not UTF-8.
    NotUtf8,
}

impl std::fmt::Display for BadLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadLine::TooLong(longest) => {
                write!(f, "the message is longer than {} MiB", longest >> 20)
            }
            BadLine::NotUtf8 => f.write_str("the message is not UTF-8"),
        }
    }
}

impl BadLine {
    /// The error code of JSON-RPC for it.
    pub const fn code(self) -> i64 {
        match self {
            BadLine::TooLong(_) => crate::client::INVALID_REQUEST,
            BadLine::NotUtf8 => crate::client::UNREADABLE,
        }
    }
}

/// Reads lines. The memory for a line is bounded, whatever the client sends.
#[derive(Debug)]
pub struct Lines<R> {
    input: BufReader<R>,
    longest: usize,
    /// The beginning of the next line.
    line: Vec<u8>,
    /// Whether the next line is too long and is skipped up to its end.
    is_skipped: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most `longest` bytes.
    pub fn new(input: R, longest: usize) -> Lines<R> {
        Lines {
            input: BufReader::with_capacity(READ, input),
            longest,
            line: Vec::new(),
            is_skipped: false,
        }
    }

    /// The next line without its end and without a byte order mark; none at the end of the input.
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// The input cannot be read.
    pub async fn next(&mut self) -> io::Result<Option<Result<String, BadLine>>> {
        loop {
            let read = self.input.fill_buf().await?;
            if read.is_empty() {
                let is_nothing = self.line.is_empty() && !self.is_skipped;
                return Ok((!is_nothing).then(|| self.take()));
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let piece = &read[..end.unwrap_or(read.len())];
            let used = piece.len() + usize::from(end.is_some());
            if self.line.len() + piece.len() > self.longest {
                self.is_skipped = true;
            }
            match self.is_skipped {
                true => self.line = Vec::new(),
                false => self.line.extend_from_slice(piece),
            }
            self.input.consume(used);
            if end.is_some() {
                return Ok(Some(self.take()));
            }
        }
    }

    fn take(&mut self) -> Result<String, BadLine> {
        let mut line = std::mem::take(&mut self.line);
        if line.starts_with(MARK) {
            line.drain(..MARK.len());
        }
        match std::mem::take(&mut self.is_skipped) {
            true => Err(BadLine::TooLong(self.longest)),
            false => String::from_utf8(line).map_err(|_| BadLine::NotUtf8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_bad_line_is_skipped_and_the_next_one_is_read() {
        let input = b"one\n12345\n123456\r\n\xff\n\ntwo".as_slice();
        let mut lines = Lines::new(input, 5);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            read.push(line);
        }
        let text = |text: &str| Ok(text.to_owned());
        let long = Err(BadLine::TooLong(5));
        let bad = Err(BadLine::NotUtf8);
        assert_eq!(
            read,
            [
                text("one"),
                text("12345"),
                long.clone(),
                bad,
                text(""),
                text("two")
            ]
        );
        let mut lines = Lines::new("\u{feff}{}\n\u{feff}".as_bytes(), 5);
        assert_eq!(lines.next().await.unwrap(), Some(text("{}")));
        assert_eq!(lines.next().await.unwrap(), Some(text("")));
        let mut lines = Lines::new([b'x'; 9].as_slice(), 5);
        assert_eq!(lines.next().await.unwrap(), Some(long));
        assert_eq!(lines.next().await.unwrap(), None);
    }
}
