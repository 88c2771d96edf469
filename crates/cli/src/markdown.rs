//! Renders Markdown on a terminal, wrapped at words.
//!
//! Without colours the marks of the text stay (`**bold**`), and lines are only wrapped. Line breaks
//! of the text stay, because people and models write them to mean one.

mod lines;
pub(crate) mod page;

use comfy_table::{ContentArrangement, Table};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::terminal::{Paint, terminal_safe};
use lines::{Lines, Style};

/// Longest line of prose, however wide the terminal is.
const MEASURE: usize = 100;

/// The text width for a terminal with this number of columns.
pub(crate) fn measure(columns: usize) -> usize {
    columns.clamp(20, MEASURE)
}

/// Renders a text for a number of columns, without a final newline.
pub(crate) fn render(text: &str, width: usize, paint: Paint) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer {
        lines: Lines::new(width, paint),
        paint,
        lists: Vec::new(),
        links: Vec::new(),
        code: None,
        table: None,
    };
    for event in Parser::new_ext(text, options) {
        writer.take(event);
    }
    // Entities such as `&#27;` have been decoded to characters.
    terminal_safe(&writer.lines.finish())
}

/// Consumes the parts of a text in order.
struct Writer {
    lines: Lines,
    paint: Paint,
    /// The next number of each open list; none for bullets.
    lists: Vec<Option<u64>>,
    links: Vec<String>,
    /// The text of an open code block.
    code: Option<String>,
    table: Option<Rows>,
}

#[derive(Default)]
struct Rows {
    rows: Vec<Vec<String>>,
}

impl Writer {
    fn take(&mut self, event: Event<'_>) {
        if self.in_table(&event) {
            return;
        }
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.lines.text(&text),
            },
            Event::Code(text) => {
                self.styled(Style::Code, "`");
                self.lines.text(&text);
                self.unstyled("`");
            }
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::InlineHtml(text) => {
                self.lines.text(&text);
            }
            Event::Html(text) => {
                for line in text.lines() {
                    self.lines.text(line);
                    self.lines.line_break();
                }
            }
            Event::FootnoteReference(name) => self.lines.text(&format!("[^{name}]")),
            Event::SoftBreak | Event::HardBreak => self.lines.line_break(),
            Event::Rule => {
                self.lines.block();
                self.lines.text("───");
            }
            Event::TaskListMarker(done) => self.lines.text(if done { "[x] " } else { "[ ] " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.lines.block();
                let marks = "#".repeat(depth(level));
                match self.paint.0 {
                    true => self.lines.style(Style::Bold),
                    false => self.lines.text(&format!("{marks} ")),
                }
            }
            Tag::BlockQuote(_) => {
                self.lines.block();
                self.lines.indent("│ ", "│ ");
            }
            Tag::CodeBlock(_) => {
                self.code = Some(String::new());
            }
            Tag::List(first) => {
                match self.lists.is_empty() {
                    true => self.lines.block(),
                    false => self.lines.end_line(),
                }
                self.lists.push(first);
            }
            Tag::Item => {
                self.lines.end_line();
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let mark = format!("{number}. ");
                        *number += 1;
                        mark
                    }
                    _ if self.paint.0 => "• ".to_owned(),
                    _ => "- ".to_owned(),
                };
                let rest = " ".repeat(mark.chars().count());
                self.lines.indent(&mark, &rest);
            }
            Tag::Table(_) => self.table = Some(Rows::default()),
            Tag::Emphasis => self.styled(Style::Italic, "*"),
            Tag::Strong => self.styled(Style::Bold, "**"),
            Tag::Strikethrough => self.styled(Style::Dim, "~~"),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push(dest_url.to_string());
                self.lines.mark();
            }
            // The items of a list have no empty lines between them, even if the source has.
            Tag::Paragraph if !self.lists.is_empty() => self.lines.end_line(),
            Tag::Paragraph | Tag::HtmlBlock | Tag::FootnoteDefinition(_) => self.lines.block(),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) if self.paint.0 => self.lines.unstyle(),
            TagEnd::BlockQuote(_) => self.lines.outdent(),
            TagEnd::CodeBlock => {
                if let Some(code) = self.code.take() {
                    self.code_block(&code);
                }
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Item => self.lines.outdent(),
            TagEnd::Emphasis => self.unstyled("*"),
            TagEnd::Strong => self.unstyled("**"),
            TagEnd::Strikethrough => self.unstyled("~~"),
            TagEnd::Link | TagEnd::Image => {
                let said = self.lines.since_mark();
                if let Some(url) = self
                    .links
                    .pop()
                    .filter(|url| *url != said && !url.is_empty())
                {
                    self.lines.style(Style::Dim);
                    self.lines.text(&format!(" ({url})"));
                    self.lines.unstyle();
                }
            }
            _ => {}
        }
    }

    fn styled(&mut self, style: Style, mark: &str) {
        match self.paint.0 {
            true => self.lines.style(style),
            false => self.lines.text(mark),
        }
    }

    fn unstyled(&mut self, mark: &str) {
        match self.paint.0 {
            true => self.lines.unstyle(),
            false => self.lines.text(mark),
        }
    }

    /// Lines of code are not wrapped.
    fn code_block(&mut self, code: &str) {
        self.lines.block();
        for line in code.lines() {
            self.lines.verbatim(&format!("  {line}"));
        }
    }

    /// Handles the content of a table, whose columns share the available width.
    fn in_table(&mut self, event: &Event<'_>) -> bool {
        let Some(table) = &mut self.table else {
            return false;
        };
        match event {
            Event::Start(Tag::TableHead | Tag::TableRow) => table.rows.push(Vec::new()),
            Event::Start(Tag::TableCell) => {
                if let Some(row) = table.rows.last_mut() {
                    row.push(String::new());
                }
            }
            Event::Text(text) | Event::Code(text) | Event::InlineHtml(text) => {
                if let Some(cell) = table.rows.last_mut().and_then(|row| row.last_mut()) {
                    cell.push_str(text);
                }
            }
            Event::End(TagEnd::Table) => {
                let rows = self.table.take().unwrap_or_default().rows;
                self.table_of(rows);
            }
            _ => {}
        }
        true
    }

    fn table_of(&mut self, rows: Vec<Vec<String>>) {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(self.lines.width()).unwrap_or(80));
        let mut rows = rows.into_iter();
        if let Some(head) = rows.next() {
            table.set_header(head);
        }
        rows.for_each(|row| {
            table.add_row(row);
        });
        self.lines.block();
        for line in table.to_string().lines() {
            self.lines.verbatim(line.trim_end());
        }
    }
}

const fn depth(level: HeadingLevel) -> usize {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# What is left\n\nThe **ten migrations** wait for a second *approval* until \
        Friday, and `billing.rs` is not reviewed.\n\n- #27 the first of them, which is long enough to \
        be wrapped\n- #28 the second\n  1. below it\n\n> quoted\n> twice\n\n```rust\nfn  spaces(stay: \
        u8) -> u8 { stay } // and long lines of code are never wrapped at all\n```\n\n| who | what |\n\
        |---|---|\n| Ann | the **plan** |\n\nSee [the guide](https://example.org/guide).";

    #[test]
    fn structure_is_shown_and_lines_end_at_words() {
        insta::assert_snapshot!("plain", render(TEXT, 40, Paint(false)));
        let painted = render(TEXT, 40, Paint(true)).replace('\x1b', "␛");
        insta::assert_snapshot!("painted", painted);
    }

    #[test]
    fn no_line_of_prose_is_too_long_and_no_word_is_lost() {
        let text = "Émile says: 漢字は広い。 ".repeat(30) + &"word ".repeat(50);
        for width in [20, 33, 80, 100] {
            let shown = render(&text, width, Paint(false));
            for line in shown.lines() {
                let columns = lines::columns(line);
                assert!(columns <= width, "{columns} at {width}: {line}");
            }
            let words = |text: &str| -> Vec<String> {
                text.split_whitespace().map(str::to_owned).collect()
            };
            assert_eq!(words(&shown), words(&text));
        }
    }

    #[test]
    fn any_text_is_shown_without_a_fault() {
        for text in rows! {
            "", "\n\n", "- ", "> ", "```", "|a|\n|-|", "[a](", "* * *", "<b>x</b>", "1)\n   2)",
        } {
            for paint in [Paint(true), Paint(false)] {
                render(text, 20, paint);
            }
        }
    }
}
