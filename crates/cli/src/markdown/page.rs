//! Shows a text during its stream.
//!
//! Words are shown as soon as their style is certain. If a block turns out to be of another kind (a
//! title is underlined later), it is erased and rendered again.

use super::render;
use crate::terminal::Paint;

/// Maximum text held back for an open mark; after that the mark is a plain character.
const HELD_BYTES: usize = 400;
/// Longer blocks are shown line by line.
const LONG_BYTES: usize = 16 << 10;

/// A text on a terminal.
#[derive(Debug, Default)]
pub(crate) struct Page {
    width: usize,
    paint: Paint,
    block: String,
    /// Its text on the screen.
    shown: String,
    /// Whether a block precedes it.
    goes_on: bool,
    /// The bytes of the block when it was last rendered.
    looked: usize,
}

impl Page {
    pub(crate) fn new(width: usize, paint: Paint) -> Page {
        Page {
            width,
            paint,
            ..Page::default()
        }
    }

    /// Appends text and returns the output.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        self.block.push_str(piece);
        let mut out = String::new();
        while let Some(end) = block_end(&self.block) {
            let rest = self.block.split_off(end);
            out += &self.end_block();
            self.block = rest;
        }
        // A long block is rendered less often, so that the total cost stays linear.
        let grown = self.block.len().saturating_sub(self.looked);
        if grown > self.block.len() / 64 {
            self.looked = self.block.len();
            let certain = final_bytes(&self.block);
            out += &self.show(certain);
        }
        out
    }

    /// Ends the text and returns the rest of the output, with the final newline.
    pub(crate) fn finish(&mut self) -> String {
        let out = self.end_block();
        self.goes_on = false;
        out
    }

    fn end_block(&mut self) -> String {
        let out = self.show(self.block.len());
        self.goes_on |= !self.shown.is_empty();
        self.block.clear();
        self.shown.clear();
        self.looked = 0;
        out
    }

    /// Shows so many bytes of the block.
    fn show(&mut self, bytes: usize) -> String {
        let wanted = render(&self.block[..bytes], self.width, self.paint);
        let mut out = String::new();
        if self.shown.is_empty() && !wanted.is_empty() && self.goes_on {
            out.push_str("\n\n");
        }
        match wanted.strip_prefix(self.shown.as_str()) {
            Some(more) => out.push_str(more),
            None => {
                let up = self.shown.matches('\n').count();
                if up > 0 {
                    out += &format!("\x1b[{up}A");
                }
                out += "\r\x1b[J";
                out += &wanted;
            }
        }
        self.shown = wanted;
        out
    }
}

/// The end of the first block of a text: after an empty line that is followed by another block. An
/// empty line in fenced code ends nothing.
fn block_end(text: &str) -> Option<usize> {
    let (mut at, mut fence, mut empty) = (0, None, false);
    for line in text.split_inclusive('\n') {
        let bare = line.trim_start();
        let begins = line.len() == bare.len() && !bare.is_empty();
        if empty && begins && at > 0 && fence.is_none() && !is_item(bare) {
            return Some(at);
        }
        let is_whole = line.ends_with('\n');
        match fence {
            None => fence = is_whole.then(|| opened(bare)).flatten(),
            Some(mark) if is_whole && bare.trim_end() == mark => fence = None,
            Some(_) => {}
        }
        empty = is_whole && bare.is_empty() && fence.is_none();
        at += line.len();
    }
    // A list may be long as well.
    let long = text.len() > LONG_BYTES && fence.is_none();
    long.then(|| text.rfind('\n').map(|at| at + 1)).flatten()
}

fn opened(line: &str) -> Option<&'static str> {
    ["```", "~~~"]
        .into_iter()
        .find(|mark| line.starts_with(mark))
}

/// Whether a line is, or may become, an item of a list: a list continues after an empty line.
fn is_item(line: &str) -> bool {
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered =
        digits.len() < line.len() && (digits.is_empty() || digits.starts_with(['.', ')']));
    numbered || line.starts_with(['-', '*', '+'])
}

/// The bytes of a block whose rendering is final: complete words outside open marks, and complete
/// tables.
fn final_bytes(block: &str) -> usize {
    let words = block.rfind(char::is_whitespace).unwrap_or(0);
    let (mut at, mut line, mut table) = (0, 0, None);
    for text in block[..words].split_inclusive('\n') {
        line = at;
        let is_row = text.trim_start().starts_with('|');
        table = is_row.then(|| table.unwrap_or(line));
        at += text.len();
    }
    if let Some(table) = table {
        return table;
    }
    match open_mark(&block[line..words]) {
        Some(at) if words - line - at < HELD_BYTES => line + at,
        _ => words,
    }
}

/// The position of a mark that is not closed in its line.
fn open_mark(line: &str) -> Option<usize> {
    let (mut code, mut bold, mut link) = (None, None, None);
    let mut signs = line.char_indices().peekable();
    while let Some((at, c)) = signs.next() {
        match c {
            '`' => code = code.is_none().then_some(at),
            _ if code.is_some() => {}
            '*' if signs.peek().is_some_and(|(_, next)| *next == '*') => {
                signs.next();
                bold = bold.is_none().then_some(at);
            }
            '[' => link = Some(at),
            ']' if signs.peek().is_none_or(|(_, next)| *next != '(') => link = None,
            ')' => link = None,
            _ => {}
        }
    }
    [code, bold, link].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Well. The **ten big migrations** wait, and `cargo fmt` was [not run](https://x.y/z) \
        at all so that this line is broken twice.\n\n- one\n- two *three*\n\n- four\n\nTitle\n=====\n\n\
        ```sh\ncargo test\n\ncargo doc\n```\n\n| a | b |\n|---|---|\n| longer | b |\n\nEnd **never closed";

    /// The content of a terminal after the output: text, and lines that are overwritten.
    fn seen(written: &str) -> String {
        let mut lines: Vec<String> = vec![String::new()];
        let mut rest = written;
        while let Some(c) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("\x1b[J") {
                rest = after;
                continue;
            }
            if let Some((up, after)) = rest.strip_prefix("\x1b[").and_then(|r| r.split_once('A'))
                && let Ok(up) = up.parse::<usize>()
            {
                lines.truncate(lines.len() - up);
                rest = after;
                continue;
            }
            match c {
                '\n' => lines.push(String::new()),
                '\r' => lines.last_mut().unwrap().clear(),
                c => lines.last_mut().unwrap().push(c),
            }
            rest = &rest[c.len_utf8()..];
        }
        lines.join("\n")
    }

    #[test]
    fn however_it_comes_it_looks_as_it_does_at_once() {
        for paint in [Paint(false), Paint(true)] {
            let whole = render(TEXT, 40, paint);
            for size in [1, 2, 3, 7, 50, 10_000] {
                let mut page = Page::new(40, paint);
                let mut written = String::new();
                let chars: Vec<char> = TEXT.chars().collect();
                for piece in chars.chunks(size) {
                    written += &page.push(&piece.iter().collect::<String>());
                }
                written += &page.finish();
                assert_eq!(seen(&written), whole, "in pieces of {size}");
            }
        }
    }

    #[test]
    fn words_are_shown_before_their_paragraph_ends() {
        let mut page = Page::new(40, Paint(true));
        assert_eq!(page.push("We ship on"), "We ship");
        assert_eq!(page.push(" Friday, **not"), " on Friday,");
        assert_eq!(
            page.push(" before** it"),
            " \x1b[1mnot\x1b[0m \x1b[1mbefore\x1b[0m"
        );
        assert_eq!(page.finish(), " it");
    }

    #[test]
    fn a_long_text_costs_in_proportion() {
        // Twice the text causes about twice the output; a renderer that starts again with each
        // delta would never finish here.
        let mut page = Page::new(80, Paint(false));
        let mut written = 0;
        for n in 0..3_000 {
            written += page
                .push(&format!("- item {n} of a list without an end\n"))
                .len();
        }
        written += page.finish().len();
        assert!(written < 400_000, "{written}");
    }
}
