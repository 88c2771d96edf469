//! What comes out of a text, as a browser's parser reads it.

use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use proptest::prelude::*;
use std::cell::RefCell;

use super::*;
use crate::fixture::HasAll as _;

fn shown(text: &str) -> String {
    let place = |number| (number <= 20).then(|| format!("/sessions/s/history#m{number}"));
    let all = render(text, &place).into_string();
    let all = all.strip_prefix("<div class=\"md\">").unwrap();
    all.strip_suffix("</div>").unwrap().to_owned()
}

#[test]
fn texts_have_the_form_that_they_mean() {
    for (text, html) in rows! {
        ("a **b** `c`", "<p>a <strong>b</strong> <code>c</code></p>"),
        ("one\ntwo", "<p>one<br>two</p>"),
        ("<task>\nOne.\nTwo.\n</task>",
         "<p class=\"lines\">&lt;task&gt;\nOne.\nTwo.\n&lt;/task&gt;</p>"),
        ("## Risks", "<p class=\"heading level2\">Risks</p>"),
        ("3. x\n4. y", "<ol start=\"3\"><li>x</li><li>y</li></ol>"),
        ("- [x] done", "<ul><li>☑ done</li></ul>"),
        ("```rust\nlet a = 1 < 2;\n```",
         "<div class=\"code\"><span class=\"language\">rust</span><pre><code>let a = 1 &lt; 2;\n</code></pre></div>"),
        ("[a](https://example.org/?a=1&b=2)",
         "<p><a href=\"https://example.org/?a=1&amp;b=2\" rel=\"noopener nofollow noreferrer\">a</a></p>"),
        ("![map](https://example.org/x.png)",
         "<p><a href=\"https://example.org/x.png\" rel=\"noopener nofollow noreferrer\">image: map</a></p>"),
        ("[![map](https://example.org/x.png)](https://example.org/)",
         "<p><a href=\"https://example.org/\" rel=\"noopener nofollow noreferrer\">image: map <span class=\"quiet\">(https://example.org/x.png)</span></a></p>"),
        ("see #12, #99, a#3 and (#4)",
         "<p>see <a href=\"/sessions/s/history#m12\">#12</a>, #99, a#3 and (<a href=\"/sessions/s/history#m4\">#4</a>)</p>"),
        ("`#12`", "<p><code>#12</code></p>"),
    } {
        assert_eq!(shown(text), html, "{text}");
    }
    let long = shown(&format!(
        "```\n{}```\n- x",
        "let a = 1;\n".repeat(CODE_LINES + 1)
    ));
    assert!(
        long.starts_with(
            "<details class=\"fold\"><summary>41 lines of code</summary><div class=\"code\">"
        ) && long.ends_with("</code></pre></div></details><ul><li>x</li></ul>"),
        "{long}"
    );
    let table = shown("| a | b |\n|---|---|\n| 1 | 2 |");
    table.has_all(&["<tr><th>a</th><th>b</th></tr><tr><td>1</td>"]);
}

#[test]
fn a_line_has_the_words_of_a_text_without_its_marks() {
    for (text, shown) in [
        ("## Risks\n- #11 **cards**\n- `b`", "Risks #11 cards b"),
        ("a\nb <i>c</i>", "a b <i>c</i>"),
        ("", ""),
        ("0123456789 and more than fits", "0123456789 and more…"),
    ] {
        assert_eq!(line(text, 20), shown);
    }
}

#[test]
fn what_could_harm_is_text() {
    for (text, html) in rows! {
        ("<script>alert(1)</script>",
         "<p class=\"lines\">&lt;script&gt;alert(1)&lt;/script&gt;</p>"),
        ("a <img src=x onerror=alert(1)> b", "<p>a &lt;img src=x onerror=alert(1)&gt; b</p>"),
        ("[x](javascript:alert(1))", "<p>x <span class=\"quiet\">(javascript:alert(1))</span></p>"),
        ("[x](data:text/html,y)", "<p>x <span class=\"quiet\">(data:text/html,y)</span></p>"),
        ("[x](//evil.example)", "<p>x <span class=\"quiet\">(//evil.example)</span></p>"),
        ("<javascript:alert(1)>",
         "<p>javascript:alert(1) <span class=\"quiet\">(javascript:alert(1))</span></p>"),
    } {
        assert_eq!(shown(text).trim_end_matches('\n'), html, "{text}");
    }
}

#[test]
fn what_is_large_or_deep_is_bounded() {
    let deep = format!("{}x", "> ".repeat(5_000));
    assert!(shown(&deep).matches("<blockquote>").count() <= DEEPEST);
    let line = shown(&"a <b> ".repeat(200_000));
    assert!(!line.contains("<b>"));
    let open = shown(&"[".repeat(100_000));
    assert_eq!(open, format!("<p>{}</p>", "[".repeat(100_000)));
}

/// What a browser's parser makes of a text: its tags, with their attributes.
#[derive(Default)]
struct Tags(RefCell<Vec<Tag>>);

impl TokenSink for Tags {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        if let Token::TagToken(tag) = token {
            self.0.borrow_mut().push(tag);
        }
        TokenSinkResult::Continue
    }
}

fn tags(html: &str) -> Vec<Tag> {
    let input = BufferQueue::default();
    input.push_back(html.into());
    let tokenizer = Tokenizer::new(Tags::default(), TokenizerOpts::default());
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.take()
}

const ELEMENTS: [&str; 25] = [
    "p",
    "br",
    "hr",
    "ul",
    "ol",
    "li",
    "em",
    "strong",
    "del",
    "code",
    "pre",
    "a",
    "span",
    "div",
    "table",
    "tr",
    "th",
    "td",
    "blockquote",
    "thead",
    "tbody",
    "h1",
    "h2",
    "h3",
    "h4",
];

fn check_tags(text: &str) {
    let html = shown(text);
    let mut depth: Vec<String> = Vec::new();
    for tag in tags(&html) {
        let name = tag.name.to_string();
        assert!(
            ELEMENTS.contains(&name.as_str()),
            "{name} of {text:?}: {html}"
        );
        for attribute in &tag.attrs {
            let (key, value) = (
                attribute.name.local.to_string(),
                attribute.value.to_string(),
            );
            let fits = match (name.as_str(), key.as_str()) {
                ("a", "href") => is_followed(&value) || value.starts_with("/sessions/s/history#m"),
                ("a", "rel") => value == "noopener nofollow noreferrer",
                ("ol", "start") => value.parse::<u64>().is_ok(),
                ("p" | "div" | "span", "class") => true,
                ("div", "tabindex" | "role" | "aria-label") => true,
                _ => false,
            };
            assert!(fits, "{key}={value:?} of {text:?}");
        }
        match tag.kind {
            _ if matches!(name.as_str(), "br" | "hr") => {}
            TagKind::StartTag => {
                let is_within_a_link = name == "a" && depth.contains(&name);
                assert!(!is_within_a_link, "{text:?}: {html}");
                depth.push(name);
            }
            TagKind::EndTag => assert_eq!(depth.pop(), Some(name), "{text:?}: {html}"),
        }
    }
    assert!(depth.is_empty(), "{text:?} leaves {depth:?} open: {html}");
}

#[test]
fn nothing_of_a_known_attack_becomes_an_element() {
    for text in [
        "<svg/onload=alert(1)>",
        "<a href=\"javascript:x\">y</a>",
        "[a](JaVaScRiPt:alert(1))",
        "[a](java\u{0}script:alert(1))",
        "[a](https://x\" onclick=\"alert(1))",
        "![\"><script>](https://x)",
        "[![a [b](https://c)](https://d)](https://e)",
        "```\"><script>\n</code></pre><script>alert(1)</script>\n```",
        "``` <img>\nx\n```",
        "| <b> |\n|---|\n| <i onclick=x> |",
        "<!-- --><script>",
        "<![CDATA[<script>]]>",
        "&lt;script&gt;&#60;script&#62;",
        "[a]: javascript:x\n[a]",
        "<https://x><mailto:a@b.c><vbscript:x>",
        "</div></article><script>",
        "\u{202e}<scr\u{2028}ipt>",
        "<style>@import 'x'</style><iframe src=//x></iframe>",
    ] {
        check_tags(text);
    }
}

proptest! {
    #[test]
    fn no_text_makes_an_element_that_is_not_of_the_set(
        pieces in prop::collection::vec(
            prop_oneof![
                "[ -~\\n]{0,12}",
                Just("<script>".to_owned()), Just("](javascript:".to_owned()), Just("[".to_owned()),
                Just("](https://a.b)".to_owned()), Just("```".to_owned()), Just("\n\n".to_owned()),
                Just("> ".to_owned()), Just("- ".to_owned()), Just("| a |\n|---|\n".to_owned()),
                Just("&#60;".to_owned()), Just("<".to_owned()), Just("\"".to_owned()),
                Just("<!--".to_owned()), Just("#7".to_owned()), Just("    ".to_owned()),
            ],
            0..24,
        )
    ) {
        check_tags(&pieces.concat());
    }
}
