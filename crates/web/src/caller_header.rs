//! The viewer's name, logout button and permissions, in every page.
//!
//! Pages are rendered without the viewer. This changes the finished page.

use axum::http::header;
use axum::response::Response;
use maud::{Markup, html};
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
    let header = name_of(viewer).into_string();
    changed(response, |page| {
        let page = viewer.allow(page);
        page.replacen(PLACEHOLDER, &header, 1)
    })
    .await
}

/// The name, with a button for those whose login is in this browser.
fn name_of(viewer: &Viewer) -> Markup {
    html! {
        @match &viewer.name {
            Some(name) if viewer.logs_out => form class="who" method="post" action="/logout" {
                span { (name) } " " button type="submit" { "Log out" }
            },
            Some(name) => p class="who" { span { (name) } },
            None => {},
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_whom_a_proxy_names_has_no_button_that_would_do_nothing() {
        let shown = |logs_out| {
            let viewer = Viewer {
                name: Some("ada <b>".into()),
                scope: Scope::Ask,
                logs_out,
                needed: |_, _| None,
            };
            name_of(&viewer).into_string()
        };
        for logs_out in [true, false] {
            let shown = shown(logs_out);
            assert!(shown.contains("ada &lt;b&gt;"), "{shown}");
            assert_eq!(shown.contains("/logout"), logs_out, "{shown}");
        }
    }
}
