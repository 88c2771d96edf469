//! The frame of all pages.

use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use unisono_api::harmless::for_html;

use crate::assets::href;
use crate::text_limit::written;
use crate::{caller_header, waiting_count};

/// The content policy: only our own style, script and events.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
                      connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// Maximum shown characters of a title, and their bytes.
const TITLE: usize = 200;
const TITLE_BYTES: usize = 320;

/// A whole page.
pub(crate) fn layout(title: &str, body: &Markup) -> Response {
    page(title, body, "column")
}

/// A whole page as wide as the window.
pub(crate) fn wide(title: &str, body: &Markup) -> Response {
    page(title, body, "wide")
}

fn page(title: &str, body: &Markup, class: &str) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (cut_title(title)) " · unisono" }
                link rel="icon" href=(href("icon.svg")) type="image/svg+xml";
                link rel="stylesheet" href=(href("page.css"));
                script type="module" src=(href("live.js")) {}
                script type="module" src=(href("dialog.js")) {}
                script type="module" src=(href("keys.js")) {}
                script type="module" src=(href("files.js")) {}
            }
            body {
                a class="skip" href="#main" { "To the content" }
                header class="top" {
                    a class="brand" href="/" { "unisono" }
                    nav aria-label="Main" {
                        a href="/" { "Sessions" } a href="/agents" { "Agents" }
                        a class="counted" href="/approvals" { "Approvals" (PreEscaped(waiting_count::PLACEHOLDER)) }
                        a href="/schedules" { "Schedules" }
                        a href="/usage" { "Usage" } a href="/settings" { "Settings" }
                        a href="/doctor" { "Doctor" }
                    }
                    p id="link" class="link" role="status" {}
                    (PreEscaped(caller_header::PLACEHOLDER))
                }
                main id="main" class=(class) { (body) }
                p id="said" class="hidden" role="status" {}
            }
        }
    };
    let policy = [(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(POLICY),
    )];
    (policy, Html(for_html(&page.into_string()).into_owned())).into_response()
}

/// A title, cut if it is long.
pub(crate) fn cut_title(title: &str) -> String {
    let mut bytes = 0;
    let fits = |c: &char| {
        bytes += written(*c);
        bytes <= TITLE_BYTES
    };
    let mut cut: String = title.chars().take(TITLE).take_while(fits).collect();
    if cut.len() < title.len() {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_title_is_cut_by_its_characters_and_by_its_bytes() {
        assert_eq!(cut_title("<a> é"), "<a> é");
        for (text, shown) in [("a", TITLE), ("é", 160), ("🦀", 80), ("&", 64)] {
            let whole = text.repeat(shown);
            assert_eq!(cut_title(&whole), whole);
            assert_eq!(cut_title(&text.repeat(shown + 1)), format!("{whole}…"));
        }
    }
}
