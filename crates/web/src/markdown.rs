//! Renders Markdown of people and models.
//!
//! The output has a fixed set of elements and two attributes from its input: the address of a link,
//! if its scheme is one of [`SCHEMES`], and the number of a list's first item. HTML in a text is
//! shown as text. Images become links: the page loads nothing from other hosts.

use std::fmt::Write as _;

use maud::{Escaper, Markup, PreEscaped, html};
use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd};
use unisono_api::fmt;

use crate::parts::truncate;

/// Schemes of addresses that become links.
const SCHEMES: [&str; 3] = ["http", "https", "mailto"];

/// Code with more lines than these is folded.
const CODE_LINES: usize = 40;

/// Maximum nesting of elements; deeper ones are flattened.
const DEEPEST: usize = 24;

/// The path of a message that a text names (`#12`); none if there is no such message.
pub(crate) type MessageLink<'p> = &'p dyn Fn(u32) -> Option<String>;

/// A text as parts of a page.
pub(crate) fn render(text: &str, message_link: MessageLink<'_>) -> Markup {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer {
        out: String::with_capacity(text.len() + text.len() / 4),
        open: Vec::new(),
        head: false,
        code: None,
        within: 0,
        message_link,
    };
    for event in Parser::new_ext(text, options) {
        writer.take(event);
    }
    html! { div class="md" { (PreEscaped(writer.out)) } }
}

/// The first words of a text on one line, without its marks.
pub(crate) fn line(text: &str, most: usize) -> String {
    // A line needs only the beginning of a long text.
    let (text, _) = truncate(text, most * 8);
    let mut words = String::new();
    for event in Parser::new_ext(text, Options::ENABLE_STRIKETHROUGH) {
        match event {
            Event::Text(text) | Event::Code(text) | Event::Html(text) | Event::InlineHtml(text) => {
                words.push_str(&text);
            }
            Event::SoftBreak | Event::HardBreak | Event::Rule => words.push(' '),
            Event::End(TagEnd::Item | TagEnd::Paragraph | TagEnd::Heading(_)) => words.push(' '),
            _ => {}
        }
    }
    fmt::line(&words, most)
}

struct Writer<'p> {
    out: String,
    /// The end tags of the open elements.
    open: Vec<String>,
    /// Whether the current cells belong to a table's head.
    head: bool,
    /// Where the current code block begins, and its line ends so far.
    code: Option<(usize, usize)>,
    /// The number of open links and code blocks: `#12` is no link inside them.
    within: usize,
    message_link: MessageLink<'p>,
}

impl Writer<'_> {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.within == 0 => self.linked_text(&text),
            Event::Text(text) => {
                if let Some((_, lines)) = &mut self.code {
                    *lines += text.matches('\n').count();
                }
                self.escaped(&text);
            }
            Event::Html(text) | Event::InlineHtml(text) => self.escaped(&text),
            Event::Code(text) => {
                self.out.push_str("<code>");
                self.escaped(&text);
                self.out.push_str("</code>");
            }
            // People write a line break to mean one.
            Event::SoftBreak | Event::HardBreak => self.out.push_str("<br>"),
            Event::Rule => self.out.push_str("<hr>"),
            Event::TaskListMarker(done) => {
                self.out.push_str(if done { "☑ " } else { "☐ " });
            }
            Event::InlineMath(text) | Event::DisplayMath(text) => self.escaped(&text),
            Event::FootnoteReference(text) => self.escaped(&text),
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        if matches!(
            tag,
            Tag::Link { .. } | Tag::Image { .. } | Tag::CodeBlock(_)
        ) {
            self.within += 1;
        }
        if let Tag::TableHead = tag {
            self.head = true;
        }
        if let Tag::CodeBlock(_) = tag {
            self.code = Some((self.out.len(), 0));
        }
        let (start, end) = match self.open.len() >= DEEPEST {
            true => (String::new(), String::new()),
            false => self.element(tag),
        };
        self.out.push_str(&start);
        self.open.push(end);
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Link | TagEnd::Image | TagEnd::CodeBlock => {
                self.within = self.within.saturating_sub(1);
            }
            TagEnd::TableHead => self.head = false,
            _ => {}
        }
        let end = self.open.pop().unwrap_or_default();
        self.out.push_str(&end);
        if tag == TagEnd::CodeBlock
            && !end.is_empty()
            && let Some((at, lines)) = self.code.take()
            && lines > CODE_LINES
        {
            let start = html! { summary { (lines) " lines of code" } }.into_string();
            self.out
                .insert_str(at, &format!("<details class=\"fold\">{start}"));
            self.out.push_str("</details>");
        }
    }

    /// The start and end tag of an element.
    fn element(&self, tag: &Tag<'_>) -> (String, String) {
        let plain = |name: &str| (format!("<{name}>"), format!("</{name}>"));
        match tag {
            Tag::Paragraph => plain("p"),
            // The headings of a message are none of the page's.
            Tag::Heading { level, .. } => (
                format!("<p class=\"heading level{}\">", *level as usize),
                "</p>".to_owned(),
            ),
            // HTML is text, and so are its line breaks.
            Tag::HtmlBlock => ("<p class=\"lines\">".to_owned(), "</p>".to_owned()),
            Tag::BlockQuote(_) => plain("blockquote"),
            Tag::CodeBlock(kind) => code_block(kind),
            Tag::List(None) => plain("ul"),
            Tag::List(Some(first)) => (format!("<ol start=\"{first}\">"), "</ol>".to_owned()),
            Tag::Item => plain("li"),
            Tag::Table(_) => (
                "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table>"
                    .to_owned(),
                "</table></div>".to_owned(),
            ),
            Tag::TableHead | Tag::TableRow => plain("tr"),
            Tag::TableCell if self.head => plain("th"),
            Tag::TableCell => plain("td"),
            Tag::Emphasis => plain("em"),
            Tag::Strong => plain("strong"),
            Tag::Strikethrough => plain("del"),
            Tag::Link { dest_url, .. } => self.link(dest_url, ""),
            Tag::Image { dest_url, .. } => self.link(dest_url, "image: "),
            _ => (String::new(), String::new()),
        }
    }

    /// A link if the scheme of its address is allowed; otherwise, and within another link, its text with
    /// the address after it.
    fn link(&self, address: &CowStr<'_>, before: &str) -> (String, String) {
        if self.within == 1 && is_followed(address) {
            let start = format!(
                "<a href=\"{}\" rel=\"noopener nofollow noreferrer\">{before}",
                escape(address)
            );
            return (start, "</a>".to_owned());
        }
        let end = html! { " " span class="quiet" { "(" (&**address) ")" } }.into_string();
        (before.to_owned(), end)
    }

    fn escaped(&mut self, text: &str) {
        self.out.push_str(&escape(text));
    }

    /// Writes a text in which message numbers are links.
    fn linked_text(&mut self, text: &str) {
        let mut rest = text;
        let mut before = ' ';
        while let Some(at) = rest.find('#') {
            let digits = rest[at + 1..].bytes().take_while(u8::is_ascii_digit);
            let end = at + 1 + digits.count();
            let previous = rest[..at].chars().next_back().unwrap_or(before);
            let number = rest[at + 1..end].parse().ok();
            let number = number.filter(|_| !previous.is_alphanumeric() && previous != '&');
            let message_link = number.and_then(|number| (self.message_link)(number));
            let start = if message_link.is_some() { at } else { end };
            self.escaped(&rest[..start]);
            if let Some(message_link) = message_link {
                let named = &rest[at..end];
                self.out
                    .push_str(&html! { a href=(message_link) { (named) } }.into_string());
            }
            before = rest[..end].chars().next_back().unwrap_or('#');
            rest = &rest[end..];
        }
        self.escaped(rest);
    }
}

fn code_block(kind: &CodeBlockKind<'_>) -> (String, String) {
    let language = match kind {
        CodeBlockKind::Fenced(info) => info.split_whitespace().next().unwrap_or_default(),
        CodeBlockKind::Indented => "",
    };
    let start = html! { span class="language" { (language) } }.into_string();
    let start = if language.is_empty() {
        String::new()
    } else {
        start
    };
    (
        format!("<div class=\"code\">{start}<pre><code>"),
        "</code></pre></div>".to_owned(),
    )
}

/// Whether an address has one of the schemes and no characters that browsers remove.
fn is_followed(address: &str) -> bool {
    let scheme = address.split_once(':').map(|(scheme, _)| scheme);
    let known = scheme.is_some_and(|scheme| {
        SCHEMES
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known))
    });
    known && !address.contains(char::is_control)
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // Writing to a string does not fail.
    let _ = Escaper::new(&mut out).write_str(text);
    out
}

#[cfg(test)]
mod tests;
