//! The viewer's name, logout button and permissions, in every page.
//!
//! Pages are rendered without the viewer. This changes the finished page.

use axum::http::header;
use axum::response::Response;
use maud::html;
use unisono_api::token::Scope;

use crate::finished_page::{changed, is_page};
use crate::permissions::Viewer;

/// The placeholder in a page. Text of conversations is escaped and cannot have it.
pub(crate) const PLACEHOLDER: &str = "<!--who-->";

/// Puts the viewer's name and permissions into a page. A page that has them already stays the same.
pub async fn with_viewer(viewer: &Viewer, response: Response) -> Response {
    // A compressed page has them already.
    let is_done = response.headers().contains_key(header::CONTENT_ENCODING);
    let sees_all = viewer.name.is_none() && viewer.scope == Scope::Admin;
    if !is_page(&response) || is_done || sees_all {
        return response;
    }
    let header_form = html! {
        @if let Some(name) = &viewer.name {
            form class="who" method="post" action="/logout" {
                span { (name) } " " button type="submit" { "Log out" }
            }
        }
    };
    let header_form = header_form.into_string();
    changed(response, |page| {
        let page = viewer.allow(page);
        page.replacen(PLACEHOLDER, &header_form, 1)
    })
    .await
}
