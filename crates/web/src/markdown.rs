//! Markdown that people and models write, as parts of a page.
//!
//! What comes out has a fixed set of elements and two attributes of its author's: the address of a
//! link, if its scheme is one of [`SCHEMES`], and the number of a list's first item. HTML in a text
//! is text. Images are links: the page loads nothing from elsewhere.

use std::fmt::Write as _;

use maud::{Escaper, Markup, PreEscaped, html};
use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd};
use unisono_api::short;

use crate::parts::bounded;

/// Schemes of addresses that are links.
const SCHEMES: [&str; 3] = ["http", "https", "mailto"];

/// Elements within each other; what is deeper stands at that depth.
const DEEPEST: usize = 24;

/// Where a message that a text names (`#12`) is shown; none: it names none.
pub(crate) type Place<'p> = &'p dyn Fn(u32) -> Option<String>;

/// A text as parts of a page.
pub(crate) fn render(text: &str, place: Place<'_>) -> Markup {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer {
        out: String::with_capacity(text.len() + text.len() / 4),
        open: Vec::new(),
        head: false,
        within: 0,
        place,
    };
    for event in Parser::new_ext(text, options) {
        writer.take(event);
    }
    html! { div class="md" { (PreEscaped(writer.out)) } }
}

/// The first words of a text on one line, without its marks.
pub(crate) fn line(text: &str, most: usize) -> String {
    // A line needs no more than this of a long text.
    let (text, _) = bounded(text, most * 8);
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
    short::line(&words, most)
}

struct Writer<'p> {
    out: String,
    /// What ends each tag that is open.
    open: Vec<String>,
    /// Whether the cells are those of a table's head.
    head: bool,
    /// Links and code blocks that are open: a number of a message is no link there.
    within: usize,
    place: Place<'p>,
}

impl Writer<'_> {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.within == 0 => self.prose(&text),
            Event::Text(text) => self.escaped(&text),
            Event::Html(text) | Event::InlineHtml(text) => self.escaped(&text),
            Event::Code(text) => {
                self.out.push_str("<code>");
                self.escaped(&text);
                self.out.push_str("</code>");
            }
            // Whoever writes for people means a line break.
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
    }

    /// What begins and what ends an element.
    fn element(&self, tag: &Tag<'_>) -> (String, String) {
        let plain = |name: &str| (format!("<{name}>"), format!("</{name}>"));
        match tag {
            Tag::Paragraph => plain("p"),
            // The headings of a message are none of the page's.
            Tag::Heading { level, .. } => (
                format!("<p class=\"heading level{}\">", *level as usize),
                "</p>".to_owned(),
            ),
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
            Tag::Link { dest_url, .. } => link(dest_url, ""),
            Tag::Image { dest_url, .. } => link(dest_url, "image: "),
            _ => (String::new(), String::new()),
        }
    }

    fn escaped(&mut self, text: &str) {
        self.out.push_str(&escape(text));
    }

    /// A text in which numbers of messages are links.
    fn prose(&mut self, text: &str) {
        let mut rest = text;
        let mut before = ' ';
        while let Some(at) = rest.find('#') {
            let digits = rest[at + 1..].bytes().take_while(u8::is_ascii_digit);
            let end = at + 1 + digits.count();
            let previous = rest[..at].chars().next_back().unwrap_or(before);
            let number = rest[at + 1..end].parse().ok();
            let number = number.filter(|_| !previous.is_alphanumeric() && previous != '&');
            let place = number.and_then(|number| (self.place)(number));
            let start = if place.is_some() { at } else { end };
            self.escaped(&rest[..start]);
            if let Some(place) = place {
                let named = &rest[at..end];
                self.out
                    .push_str(&html! { a href=(place) { (named) } }.into_string());
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

/// A link, if its address is of a kind that one may follow; else its text with the address beside it.
fn link(address: &CowStr<'_>, before: &str) -> (String, String) {
    if is_followed(address) {
        let start = format!(
            "<a href=\"{}\" rel=\"noopener nofollow noreferrer\">{before}",
            escape(address)
        );
        return (start, "</a>".to_owned());
    }
    let end = html! { " " span class="quiet" { "(" (&**address) ")" } }.into_string();
    (before.to_owned(), end)
}

/// Whether an address names one of the schemes, and nothing that browsers leave out before they look.
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
