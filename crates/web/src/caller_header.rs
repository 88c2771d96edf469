//! The name of the logged-in caller and the logout button, in the header of every page.
//!
//! Pages are rendered without the caller's name. This replaces a placeholder in the finished page.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::html;

/// The placeholder in a page. Text of conversations is escaped and cannot have it.
pub(crate) const PLACEHOLDER: &str = "<!--who-->";

/// Puts the caller's name into a page.
pub(crate) async fn with_caller(caller: Option<Arc<str>>, response: Response) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_page = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    let Some(caller) = caller.filter(|_| is_page) else {
        return response;
    };
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let Ok(page) = std::str::from_utf8(&bytes) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    let header_form = html! {
        form class="who" method="post" action="/logout" {
            span { (caller) } " " button type="submit" { "Log out" }
        }
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    let page = page.replacen(PLACEHOLDER, &header_form.into_string(), 1);
    Response::from_parts(parts, Body::from(page))
}
