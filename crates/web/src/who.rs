//! Who is logged in, in the header of every page: the name, and the way out.
//!
//! Pages are rendered without knowing who sees them. The name is put into the place that the frame
//! leaves for it when the page is whole.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::html;

/// Where the name stands in a page. Text of conversations is escaped, so that it stands nowhere else.
pub(crate) const PLACE: &str = "<!--who-->";

/// Puts the name of who is logged in into a page.
pub(crate) async fn named(who: Option<Arc<str>>, response: Response) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_page = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    let Some(who) = who.filter(|_| is_page) else {
        return response;
    };
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let Ok(page) = std::str::from_utf8(&bytes) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    let shown = html! {
        form class="who" method="post" action="/logout" {
            span { (who) } " " button type="submit" { "Log out" }
        }
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    let page = page.replacen(PLACE, &shown.into_string(), 1);
    Response::from_parts(parts, Body::from(page))
}
