//! The viewer's name, logout button and permissions, in every page.
//!
//! Pages are rendered without the viewer. This changes the finished page.

use axum::body::{Body, to_bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::html;
use unisono_api::token::Scope;

use crate::permissions::Viewer;

/// The placeholder in a page. Text of conversations is escaped and cannot have it.
pub(crate) const PLACEHOLDER: &str = "<!--who-->";

/// Puts the viewer's name and permissions into a page.
pub(crate) async fn with_viewer(viewer: &Viewer, response: Response) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_page = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    if !is_page || (viewer.name.is_none() && viewer.scope == Scope::Admin) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let Ok(page) = std::str::from_utf8(&bytes) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    let header_form = html! {
        @if let Some(name) = &viewer.name {
            form class="who" method="post" action="/logout" {
                span { (name) } " " button type="submit" { "Log out" }
            }
        }
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    let page = viewer.allow(page);
    let page = page.replacen(PLACEHOLDER, &header_form.into_string(), 1);
    Response::from_parts(parts, Body::from(page))
}
