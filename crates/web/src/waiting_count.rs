//! The number of calls that wait for a person, in the head of every page.
//!
//! Pages are rendered without it. This changes the finished page.

use std::num::NonZeroUsize;

use axum::http::header;
use axum::response::{Html, Response};
use maud::{Markup, html};
use unisono_api::service::Service;

use crate::finished_page::{changed, is_page};

/// The placeholder in a page. Text of conversations is escaped and cannot have it.
pub(crate) const PLACEHOLDER: &str = "<!--waits-->";

/// The count ends here: more calls are shown as `99+`.
const MOST: NonZeroUsize = NonZeroUsize::MIN.saturating_add(99);

/// The number alone: an open page asks for it.
pub(crate) async fn show() -> Html<&'static str> {
    Html(PLACEHOLDER)
}

/// Puts the number of calls into a page that is not compressed.
pub(crate) async fn with_count(service: &dyn Service, response: Response) -> Response {
    if !is_page(&response) || response.headers().contains_key(header::CONTENT_ENCODING) {
        return response;
    }
    let count = service.count_approvals(MOST).await.ok();
    let shown = number(count).into_string();
    changed(response, |page| page.replacen(PLACEHOLDER, &shown, 1)).await
}

/// The number, with words for those who cannot see its place. An unknown one does not replace the one
/// that an open page has.
fn number(count: Option<usize>) -> Markup {
    let calls = count.unwrap_or(0);
    html! {
        span id="waits" class="waits" data-unknown[count.is_none()] {
            @if calls > 0 {
                span class="you" { @if calls >= MOST.get() { "99+" } @else { (calls) } }
                span class="hidden" { " waiting" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_no_number_and_many_are_a_short_one() {
        let inside = |count| {
            let shown = number(count).into_string();
            let (_, rest) = shown.split_once('>').unwrap();
            rest.strip_suffix("</span>").unwrap().to_owned()
        };
        assert_eq!(inside(Some(0)), "");
        assert_eq!(inside(None), "");
        for (count, shown) in [(1, ">1<"), (99, ">99<"), (100, ">99+<")] {
            assert!(inside(Some(count)).contains(shown), "{count}");
        }
        assert!(number(None).into_string().contains("data-unknown"));
        assert!(!number(Some(0)).into_string().contains("data-unknown"));
    }
}
