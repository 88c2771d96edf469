//! Wraps words into lines, each with the prefix of its block.

use unicode_width::UnicodeWidthStr;

use crate::terminal::Paint;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Bold,
    Italic,
    Dim,
    Code,
}

/// The beginning of the lines of a block.
struct Indent {
    first: String,
    rest: String,
    /// Whether its first line was begun.
    begun: bool,
}

#[derive(Default)]
pub(super) struct Lines {
    width: usize,
    paint: Paint,
    out: String,
    /// Columns of the current line; none before its first word.
    column: Option<usize>,
    /// The current word, with its style and width.
    word: String,
    word_columns: usize,
    /// Whether a space precedes it.
    spaced: bool,
    indents: Vec<Indent>,
    styles: Vec<Style>,
    /// The text since the last mark.
    said: String,
}

pub(super) fn columns(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

impl Lines {
    pub(super) fn new(width: usize, paint: Paint) -> Lines {
        Lines {
            width,
            paint,
            ..Lines::default()
        }
    }

    /// Columns that remain after the prefix.
    pub(super) fn width(&self) -> usize {
        let taken: usize = self
            .indents
            .iter()
            .map(|indent| columns(&indent.rest))
            .sum();
        self.width.saturating_sub(taken).max(10)
    }

    pub(super) fn style(&mut self, style: Style) {
        self.styles.push(style);
    }

    pub(super) fn unstyle(&mut self) {
        self.styles.pop();
    }

    /// Sets the mark of [`Lines::since_mark`].
    pub(super) fn mark(&mut self) {
        self.said.clear();
    }

    pub(super) fn since_mark(&mut self) -> String {
        std::mem::take(&mut self.said)
    }

    /// Words of the current block.
    pub(super) fn text(&mut self, text: &str) {
        self.said.push_str(text);
        for (at, piece) in text.split(char::is_whitespace).enumerate() {
            if at > 0 {
                self.end_word();
                self.spaced = true;
            }
            if !piece.is_empty() {
                self.word_columns += columns(piece);
                let painted = self.painted(piece);
                self.word.push_str(&painted);
            }
        }
    }

    fn painted(&self, text: &str) -> String {
        match self.styles.last() {
            Some(Style::Bold) => self.paint.bold(text),
            Some(Style::Italic) => self.paint.italic(text),
            Some(Style::Dim) => self.paint.dim(text),
            Some(Style::Code) => self.paint.cyan(text),
            None => text.to_owned(),
        }
    }

    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let wide = std::mem::take(&mut self.word_columns);
        let space = usize::from(self.spaced);
        match self.column {
            Some(column) if self.spaced && column + space + wide > self.width => {
                self.line_break();
                self.begin_line();
            }
            Some(column) if self.spaced && column > 0 => {
                self.out.push(' ');
                self.column = Some(column + 1);
            }
            Some(_) => {}
            None => self.begin_line(),
        }
        self.spaced = false;
        self.out.push_str(&word);
        self.column = self.column.map(|column| column + wide);
    }

    fn begin_line(&mut self) {
        let mut column = 0;
        for indent in &mut self.indents {
            let begins = match indent.begun {
                true => &indent.rest,
                false => &indent.first,
            };
            indent.begun = true;
            column += columns(begins);
            self.out.push_str(begins);
        }
        self.column = Some(column);
    }

    /// Ends the line; the next word begins another.
    pub(super) fn line_break(&mut self) {
        self.end_word();
        if self.column.take().is_some() {
            while self.out.ends_with(' ') {
                self.out.pop();
            }
            self.out.push('\n');
        }
        self.spaced = false;
    }

    /// Ends the line, if one was begun.
    pub(super) fn end_line(&mut self) {
        self.line_break();
    }

    /// Begins a block, after an empty line unless it is the first block of its parent.
    pub(super) fn block(&mut self) {
        self.line_break();
        let is_first = self.indents.last().is_some_and(|indent| !indent.begun);
        if !self.out.is_empty() && !is_first {
            let rest: String = self.indents.iter().map(|indent| &*indent.rest).collect();
            self.out.push_str(rest.trim_end());
            self.out.push('\n');
        }
    }

    /// Adds a line without wrapping it.
    pub(super) fn verbatim(&mut self, line: &str) {
        self.line_break();
        self.begin_line();
        self.out.push_str(line);
        self.column = Some(0);
        self.line_break();
    }

    pub(super) fn indent(&mut self, first: &str, rest: &str) {
        self.indents.push(Indent {
            first: first.to_owned(),
            rest: rest.to_owned(),
            begun: false,
        });
    }

    pub(super) fn outdent(&mut self) {
        self.end_word();
        if self.indents.last().is_some_and(|indent| !indent.begun) {
            self.begin_line();
        }
        self.line_break();
        self.indents.pop();
    }

    pub(super) fn finish(mut self) -> String {
        self.end_word();
        self.out.truncate(self.out.trim_end().len());
        self.out
    }
}
