//! A message with its actions.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::blob::Extent;
use unisono_api::message::{Message, Part};
use unisono_api::service::Service;
use unisono_api::session::main_branch;
use unisono_api::{Code, Problem};

use crate::blob;
use crate::branch_view::BranchView;
use crate::error::PageError;
use crate::extract::{Path, Query};
use crate::layout::layout;
use crate::lists;
use crate::markdown;
use crate::parts::{counted, name, number, when_known};
use crate::text_limit::TextLimit;
use crate::text_parts;

/// Bytes of the messages of a page that are shown as a whole, the newest first.
pub(crate) const ROOM: usize = 28 * 1024;
/// Maximum shown parts of a message.
const PARTS: usize = 12;
/// Maximum shown attachments of a message on its own page.
const FILES: usize = 48;
/// A text with more characters or lines than these is folded.
const LONG: usize = 1_200;
const LINES: usize = 24;

/// Messages, the oldest first. Long ones after message `folded` are unfolded. The newest ones have the
/// room first.
pub(crate) fn list(
    messages: &[Message],
    place: &BranchView,
    folded: u32,
    room: &TextLimit,
) -> Markup {
    let newest = messages.iter().rev();
    let shown = newest.map(|one| show(one, place, one.ordinal > folded, room));
    let shown: Vec<Markup> = shown.collect();
    html! { @for one in shown.iter().rev() { (one) } }
}

/// A message. `open` shows a long one unfolded.
fn show(message: &Message, place: &BranchView, open: bool, room: &TextLimit) -> Markup {
    let gone = matches!(message.form.as_str(), "summarised" | "dropped");
    let who = message.author.as_deref().unwrap_or(&message.role);
    let ordinal = message.ordinal;
    let fits = |part: &&Part| !matches!(part, Part::Attachment { .. }) || room.take_file();
    let parts: Vec<&Part> = message.parts.iter().take(PARTS).filter(fits).collect();
    let more = message.parts.len() - parts.len();
    html! {
        article class={ "message " (message.role) @if gone { " gone" } } id={ "m" (ordinal) } {
            header class="quiet" {
                a href={ "#m" (ordinal) } { "#" (ordinal) }
                " " strong { (name(who)) } (when_known(" ", message.at.as_deref()))
                @if let Some(run) = &message.run {
                    " · " a href={ "/sessions/" (place.about.session) "/runs/" (run) } { "its run" }
                }
                @if let Some(tokens) = message.tokens { " · " (counted(tokens, "token")) }
                @if let Some(used) = message.usage {
                    " · " (number(used.input_tokens)) " in, " (number(used.output_tokens)) " out"
                }
                " "
                @if message.form != "verbatim" {
                    span class="tag" { @if gone { (message.form) ", not in the context" } @else { (message.form) } }
                }
                @if message.pinned { span class="badge" { "pinned" } }
            }
            @for part in parts { (content(part, message, place, open, room)) }
            @if more > 0 {
                p class="warn" { "… " (counted(more as u64, "more part")) ": "
                    a href=(whole(message, place)) { "the whole message" } }
            }
            (actions(message, place))
        }
    }
}

fn actions(message: &Message, place: &BranchView) -> Markup {
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

/// The path of a message's own page, which shows all of it.
fn whole(message: &Message, place: &BranchView) -> String {
    place.path(&format!("/messages/{}", message.ordinal))
}

fn content(
    part: &Part,
    message: &Message,
    place: &BranchView,
    open: bool,
    room: &TextLimit,
) -> Markup {
    let whole = whole(message, place);
    html! {
        @match part {
            Part::Text { text } => (self::text(text, place, open, Some(&whole), room)),
            Part::ToolCall { name: tool, arguments, .. } => {
                @let (shown, left) = room.cut(arguments);
                pre class="tool" { (name(tool)) "(" (shown) @if left == 0 { ")" } }
                (continuation(left, Some(&whole)))
            },
            Part::ToolResult { content, is_error, .. } => {
                @let (shown, left) = room.cut(content);
                details class="result" { summary { @if *is_error { "Failed: " } @else { "Result: " } (markdown::line(content, 80)) }
                    pre class="tool" { (shown) }
                    (continuation(left, Some(&whole))) }
            },
            Part::Attachment { .. } => (attached(part)),
        }
    }
}

fn attached(part: &Part) -> Markup {
    html! {
        @match part {
            Part::Attachment { filename, mime, size_bytes, digest: Some(digest), extent, .. } => {
                (attachment(filename, mime, &format!("{} bytes{extent}", number(*size_bytes)), digest, *extent))
            },
            Part::Attachment { filename, mime, size_bytes, .. } => {
                p class="tool" { (name(filename)) ", " (name(mime)) ", " (number(*size_bytes)) " bytes" }
            },
            _ => {},
        }
    }
}

/// A stored attachment: an image is shown, any other file is a link. The place of an image is there
/// before it is loaded: in its own form if its width and height are known.
pub(crate) fn attachment(
    filename: &str,
    mime: &str,
    size: &str,
    digest: &str,
    extent: Extent,
) -> Markup {
    let (address, filename) = (format!("/blobs/{digest}"), name(filename));
    let (width, height) = extent.width.zip(extent.height).unzip();
    let is_shown = blob::SHOWN.contains(&mime);
    html! {
        figure class="attachment" {
            @if is_shown {
                a href=(address) {
                    img src=(address) alt=(filename) width=[width] height=[height] loading="lazy";
                }
            }
            figcaption class="tool" {
                a href=(address) download=[(!is_shown).then(|| saved_name(&filename))] { (filename) }
                ", " (mime) ", " (size)
            }
        }
    }
}

/// The name of the file that a browser saves: a document is a PDF, and a long name has lost its ending.
fn saved_name(filename: &str) -> String {
    match filename.to_lowercase().ends_with(".pdf") {
        true => filename.to_owned(),
        false => format!("{filename}.pdf"),
    }
}

/// A text of a person or a model. A long one is folded, one without room is cut; `whole` is the
/// address of the complete text.
pub(crate) fn text(
    text: &str,
    place: &BranchView,
    open: bool,
    whole: Option<&str>,
    room: &TextLimit,
) -> Markup {
    let (shown, left) = room.cut(text);
    let length = text.chars().count();
    let long = shown.chars().count() > LONG || shown.lines().count() > LINES;
    let rendered = html! {
        (markdown::render(shown, &|number| place.message(number)))
        (continuation(left, whole))
    };
    html! {
        @if long && !open {
            details class="fold" {
                summary { span class="preview" { (markdown::line(text, 240)) " " }
                    span class="quiet" { (counted(length as u64, "character")) } }
                (rendered)
            }
        } @else { (rendered) }
    }
}

/// The number of omitted bytes, with a link to the complete text.
pub(crate) fn continuation(left: usize, whole: Option<&str>) -> Markup {
    html! {
        @if left > 0 {
            p class="warn" { "… " (counted(left as u64, "more byte"))
                @if let Some(whole) = whole { ": " a href=(whole) { "the whole text" } } }
        }
    }
}

/// The query of the page of a message.
#[derive(Debug, Deserialize)]
pub(crate) struct WholeQuery {
    #[serde(default = "main_branch")]
    branch: String,
    /// The byte at which the shown part of the text begins.
    #[serde(default)]
    from: usize,
    /// The number of attachments before the first shown one.
    #[serde(default)]
    files: usize,
}

/// The page of a message, with its original text, a part at a time, and its attachments.
pub(crate) async fn page(
    State(service): State<Arc<dyn Service>>,
    Path((id, ordinal)): Path<(String, u32)>,
    Query(on): Query<WholeQuery>,
) -> Result<Response, PageError> {
    let place = BranchView::load(&*service, &id, &on.branch).await?;
    let found = lists::messages(&*service, &place, ordinal, 1).await?;
    let Some(message) = found.first().filter(|found| found.ordinal == ordinal) else {
        let detail = format!("there is no message #{ordinal} on branch {:?}", on.branch);
        return Err(Problem::new(Code::NotFound, detail).into());
    };
    let body = place.page(&html! {
        section {
            h2 { "Message #" (ordinal) }
            p class="quiet" { (name(message.author.as_deref().unwrap_or(&message.role))) (when_known(", ", message.at.as_deref())) ", as it was written" }
            (text_parts::part(&message.text(), on.from, |from| format!("{}&from={from}", whole(message, &place))))
            @let files = message.parts.iter().filter(|part| matches!(part, Part::Attachment { .. }));
            @let next = on.files.saturating_add(FILES);
            @let more = files.clone().count().saturating_sub(next);
            @for part in files.skip(on.files).take(FILES) { (attached(part)) }
            @if more > 0 { p class="warn" { "… " a href=(format!("{}&files={next}", whole(message, &place))) {
                (counted(more as u64, "more attachment")) } } }
            p { a href=(place.message(ordinal).unwrap_or_default()) { "Among the messages around it" } }
        }
    });
    Ok(layout(&format!("message #{ordinal}"), &body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_its_size_if_it_is_known() {
        let shown = |mime: &str, extent: Extent| {
            attachment("plan <1>.png", mime, "9 bytes", "d1", extent).into_string()
        };
        let known = Extent {
            width: Some(640),
            height: Some(480),
            pages: None,
        };
        let image = shown("image/png", known);
        assert!(image.contains("width=\"640\" height=\"480\""), "{image}");
        assert!(image.contains("alt=\"plan &lt;1&gt;.png\""), "{image}");
        let half = Extent {
            height: None,
            ..known
        };
        for unknown in [half, Extent::default()] {
            let image = shown("image/png", unknown);
            assert!(
                image.contains("<img") && !image.contains("width="),
                "{image}"
            );
        }
        assert!(!shown("application/pdf", known).contains("<img"));
        assert!(!image.contains("download"), "{image}");
    }

    #[test]
    fn a_document_is_saved_under_its_name_with_its_ending() {
        let long = "x".repeat(200);
        for (filename, saved) in [
            ("plan.pdf", "plan.pdf".to_owned()),
            ("Plan.PDF", "Plan.PDF".to_owned()),
            ("scan", "scan.pdf".to_owned()),
            (long.as_str(), format!("{}.pdf", name(&long))),
        ] {
            let shown = attachment(
                filename,
                "application/pdf",
                "9 bytes",
                "d1",
                Extent::default(),
            );
            let shown = shown.into_string();
            let link = format!("href=\"/blobs/d1\" download=\"{saved}\"");
            assert!(shown.contains(&link), "{shown}");
        }
    }
}
