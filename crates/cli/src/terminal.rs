//! The terminal: its width, and texts that are safe for it. Only the marks of [`Paint`] become
//! control sequences.

use std::borrow::Cow;
use std::fmt::Display;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use unisono_api::harmless;

/// Columns of the terminal on stdout; 80 if it does not report a width.
pub(crate) fn columns() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let columns = size.map(|size| usize::from(size.ws_col));
    Some(columns.filter(|n| *n > 0).unwrap_or(80))
}

/// Whether a whole line was typed that nothing has read.
pub(crate) fn is_typed_ahead() -> bool {
    rustix::io::ioctl_fionread(io::stdin()).is_ok_and(|bytes| bytes > 0)
}

/// Discards what a person typed before now, so that it answers no question that was not seen yet.
/// Returns whether there was a whole line.
pub(crate) fn discard_input() -> bool {
    let is_typed = is_typed_ahead();
    // A failure cannot be handled; standard input may be no terminal.
    let flushed = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
    is_typed && flushed.is_ok()
}

/// The mark before a colour until the text is written; text from elsewhere cannot contain it.
const MARK: char = '\u{fdd0}';

/// A number that differs from one call of the program to the next.
fn secret() -> &'static str {
    static SECRET: OnceLock<String> = OnceLock::new();
    SECRET.get_or_init(|| format!("{:016x}", RandomState::new().build_hasher().finish()))
}

/// A text made safe for a terminal: control characters are escaped, except the colours of
/// [`Paint`].
pub(crate) fn terminal_safe(text: &str) -> String {
    let mark = format!("{MARK}{}", secret());
    let mut pieces = text.split(mark.as_str());
    let first = pieces.next().unwrap_or_default();
    let mut out = harmless::for_terminal(first).into_owned();
    for piece in pieces {
        let (code, rest) = piece.split_once('m').unwrap_or_default();
        out.push_str(&format!("\x1b[{code}m"));
        out.push_str(&harmless::for_terminal(rest));
    }
    out
}

pub(crate) fn without_colours(text: &str) -> Cow<'_, str> {
    let mark = format!("{MARK}{}", secret());
    if !text.contains(&mark) {
        return Cow::Borrowed(text);
    }
    let mut pieces = text.split(mark.as_str());
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        out.push_str(piece.split_once('m').map_or("", |(_, rest)| rest));
    }
    Cow::Owned(out)
}

/// Colours, or none. They are marks in the text until [`terminal_safe`] writes them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    fn with(self, code: &str, text: impl Display) -> String {
        if self.0 {
            let secret = secret();
            format!("{MARK}{secret}{code}m{text}{MARK}{secret}0m")
        } else {
            text.to_string()
        }
    }

    pub(crate) fn bold(self, text: impl Display) -> String {
        self.with("1", text)
    }

    pub(crate) fn italic(self, text: impl Display) -> String {
        self.with("3", text)
    }

    pub(crate) fn dim(self, text: impl Display) -> String {
        self.with("2", text)
    }

    pub(crate) fn red(self, text: impl Display) -> String {
        self.with("31", text)
    }

    pub(crate) fn green(self, text: impl Display) -> String {
        self.with("32", text)
    }

    pub(crate) fn yellow(self, text: impl Display) -> String {
        self.with("33", text)
    }

    pub(crate) fn orange(self, text: impl Display) -> String {
        self.with("38;5;208", text)
    }

    pub(crate) fn cyan(self, text: impl Display) -> String {
        self.with("36", text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_colours_reach_a_terminal() {
        let evil = "a\u{1b}[31mb\u{9b}8m\u{202e}c\u{fdd0}0m";
        let text = format!("{} {evil}", Paint(true).red(evil));
        let plain = "a[31mb8mc\u{fdd0}0m";
        assert_eq!(
            terminal_safe(&text),
            format!("\x1b[31m{plain}\x1b[0m {plain}")
        );
        let text = format!("{} {evil}", Paint(false).red(evil));
        assert_eq!(terminal_safe(&text), format!("{plain} {plain}"));
    }
}
