//! A message on a page, and what can be done with it.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use unisono_api::message::{Message, Part};
use unisono_api::service::Service;
use unisono_api::{Code, Problem};

use crate::blob;
use crate::extract::{Path, Query};
use crate::layout::layout;
use crate::lists;
use crate::markdown;
use crate::parts::{bounded, many, number, when_known};
use crate::place::{On, Place};
use crate::trouble::Trouble;

/// Bytes of a text that are shown among other messages; its own page has all of it.
const MOST: usize = 32 * 1024;
/// Bytes of the arguments of a call that are shown there.
const ARGUMENTS: usize = 4 * 1024;
/// A text with more characters or lines than these is folded.
const LONG: usize = 1_200;
const LINES: usize = 24;

/// A message. `open`: it is shown whole also where it is long.
pub(crate) fn show(message: &Message, place: &Place, open: bool) -> Markup {
    let gone = matches!(message.form.as_str(), "summarised" | "dropped");
    let who = message.author.as_deref().unwrap_or(&message.role);
    let ordinal = message.ordinal;
    html! {
        article class={ "message " (message.role) @if gone { " gone" } } id={ "m" (ordinal) } {
            header class="quiet" {
                a href={ "#m" (ordinal) } { "#" (ordinal) }
                " " strong { (who) } (when_known(" ", message.at.as_deref()))
                @if let Some(tokens) = message.tokens { " · " (number(tokens)) " tokens" }
                @if let Some(used) = message.usage {
                    " · " (number(used.input_tokens)) " in, " (number(used.output_tokens)) " out"
                }
                " "
                @if message.form != "verbatim" {
                    span class="tag" { @if gone { (message.form) ", not in the context" } @else { (message.form) } }
                }
                @if message.pinned { span class="badge" { "pinned" } }
            }
            @for part in &message.parts { (content(part, message, place, open)) }
            (actions(message, place))
        }
    }
}

fn actions(message: &Message, place: &Place) -> Markup {
    let (ordinal, pinned) = (message.ordinal, message.pinned);
    html! {
        details class="fork" id={ "more" (ordinal) } {
            summary aria-label={ "More for message " (ordinal) } { "Fork, pin" }
            form method="post" action={ "/sessions/" (place.about.session) "/fork" } {
                input type="hidden" name="at" value=(message.id);
                label for={ "fork" (ordinal) } { "Name of the branch that starts here" }
                input id={ "fork" (ordinal) } name="name" required maxlength="60";
                button class="small" { "Fork" }
            }
            form method="post" action={ "/sessions/" (place.about.session) "/pin" } {
                input type="hidden" name="branch" value=(place.branch);
                input type="hidden" name="message" value=(message.id);
                input type="hidden" name="pinned" value=(!pinned);
                button class="small" { @if pinned { "Unpin" } @else { "Pin: always verbatim" } }
            }
        }
    }
}

fn content(part: &Part, message: &Message, place: &Place, open: bool) -> Markup {
    let whole = place.at(&format!("/messages/{}", message.ordinal));
    html! {
        @match part {
            Part::Text { text } => (self::text(text, place, open, Some(&whole))),
            Part::ToolCall { name, arguments, .. } => {
                @let (shown, left) = bounded(arguments, ARGUMENTS);
                pre class="tool" { (name) "(" (shown) @if left == 0 { ")" } }
                (rest(left, Some(&whole)))
            },
            Part::ToolResult { content, is_error, .. } => {
                @let (shown, left) = bounded(content, MOST);
                details class="result" { summary { @if *is_error { "Failed: " } @else { "Result: " } (markdown::line(content, 80)) }
                    pre class="tool" { (shown) }
                    (rest(left, Some(&whole))) }
            },
            Part::Attachment { filename, mime, size_bytes, digest: Some(digest), extent, .. } => {
                (attached(filename, mime, &format!("{} bytes{extent}", number(*size_bytes)), digest))
            },
            Part::Attachment { filename, mime, size_bytes, .. } => {
                p class="tool" { (filename) ", " (mime) ", " (number(*size_bytes)) " bytes" }
            },
        }
    }
}

/// A file whose content is kept: an image is shown, any other file is a link.
pub(crate) fn attached(filename: &str, mime: &str, size: &str, digest: &str) -> Markup {
    let address = format!("/blobs/{digest}");
    html! {
        figure class="attachment" {
            @if blob::SHOWN.contains(&mime) {
                a href=(address) { img src=(address) alt=(filename) loading="lazy" {} }
            }
            figcaption class="tool" { a href=(address) { (filename) } ", " (mime) ", " (size) }
        }
    }
}

/// A text that a person or a model wrote. A long one is folded, a very long one is cut: `whole` is
/// where all of it is.
pub(crate) fn text(text: &str, place: &Place, open: bool, whole: Option<&str>) -> Markup {
    let (shown, left) = bounded(text, MOST);
    let length = text.chars().count();
    let long = length > LONG || text.lines().count() > LINES;
    let rendered = html! {
        (markdown::render(shown, &|number| place.message(number)))
        (rest(left, whole))
    };
    html! {
        @if long && !open {
            details class="fold" {
                summary { span class="preview" { (markdown::line(text, 240)) " " }
                    span class="quiet" { (many(length as u64, "character")) } }
                (rendered)
            }
        } @else { (rendered) }
    }
}

/// That a text goes on, and where.
pub(crate) fn rest(left: usize, whole: Option<&str>) -> Markup {
    html! {
        @if left > 0 {
            p class="warn" { "… " (many(left as u64, "more byte"))
                @if let Some(whole) = whole { ": " a href=(whole) { "the whole text" } } }
        }
    }
}

/// One message with all that it says, as it was written.
pub(crate) async fn page(
    State(service): State<Arc<dyn Service>>,
    Path((id, ordinal)): Path<(String, u32)>,
    Query(on): Query<On>,
) -> Result<Response, Trouble> {
    let place = Place::of(&*service, &id, &on.branch).await?;
    let found = lists::messages(&*service, &place, ordinal, 1).await?;
    let Some(message) = found.first().filter(|found| found.ordinal == ordinal) else {
        let detail = format!("there is no message #{ordinal} on branch {:?}", on.branch);
        return Err(Problem::new(Code::NotFound, detail).into());
    };
    let body = place.page(&html! {
        section {
            h2 { "Message #" (ordinal) }
            p class="quiet" { (message.author.as_deref().unwrap_or(&message.role)) (when_known(", ", message.at.as_deref())) ", as it was written" }
            pre { (message.text()) }
            p { a href=(place.message(ordinal).unwrap_or_default()) { "Among the messages around it" } }
        }
    });
    Ok(layout(&format!("message #{ordinal}"), &body))
}
