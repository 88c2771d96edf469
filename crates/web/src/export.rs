//! `/sessions/{session}/export`: asks for the format and the branch of a file; `/export/file` is the file.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use unisono_api::service::Service;
use unisono_api::session::{ExportQuery, main_branch};

use crate::branch_view::{BranchQuery, BranchView};
use crate::error::PageError;
use crate::extract::{Path, Query};
use crate::layout::layout;

/// The formats, with their descriptions and the endings of their files. The first one is the format of a
/// file without a named format.
const FORMATS: [(&str, &str, &str); 4] = [
    (
        "unisono",
        "unisono: everything, also the checkpoints",
        "jsonl",
    ),
    ("openai", "OpenAI messages", "jsonl"),
    ("anthropic", "Anthropic messages", "json"),
    ("sharegpt", "ShareGPT, without attachments", "json"),
];

/// The form for the file of a session.
pub(crate) async fn choose(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(on): Query<BranchQuery>,
) -> Result<Response, PageError> {
    let place = BranchView::load(&*service, &id, &on.branch).await?;
    Ok(layout("Export", &place.page(&form(&place))))
}

fn form(place: &BranchView) -> Markup {
    let id = &place.about.session;
    let listed = place.about.branches.items.iter();
    let listed: Vec<&str> = listed.map(|branch| branch.name.as_str()).collect();
    let is_listed = listed.contains(&place.branch.as_str());
    // The main branch alone is not all of a session, so it is not selected by itself.
    let is_side = place.branch != main_branch();
    html! {
        section class="card dialog" aria-labelledby="export" {
            h2 id="export" { "Export this session" }
            form method="get" action={ "/sessions/" (id) "/export/file" } data-file {
                label for="export-format" { "Format" }
                select id="export-format" name="format" {
                    @for (name, says, _) in FORMATS { option value=(name) { (says) } }
                }
                label for="export-branch" { "Branch" }
                select id="export-branch" name="branch" aria-describedby="export-says" {
                    option value="" { "all branches" }
                    @for name in &listed {
                        option value=(name) selected[is_side && *name == place.branch] { (name) }
                    }
                    @if is_side && !is_listed { option value=(place.branch) selected { (place.branch) } }
                }
                p class="quiet" id="export-says" {
                    "Only the format unisono has all branches: a file in another format has the main branch, "
                    "unless you choose another one."
                    @if place.about.branches.has_more { " A branch that is not listed can be exported from its own page." }
                }
                button { "Export" }
            }
            p { a data-close href=(place.path("")) { "Back to the conversation" } }
        }
    }
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct FileQuery {
    /// The format; empty: `unisono`.
    #[serde(default)]
    format: String,
    /// The branch; empty: `main`, or all branches if the format supports them.
    #[serde(default)]
    branch: String,
}

/// A session as a file.
pub(crate) async fn file(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
    Query(chosen): Query<FileQuery>,
) -> Result<Response, PageError> {
    let name = file_name(&id, &chosen.format);
    let named = |text: String| (!text.is_empty()).then_some(text);
    let query = ExportQuery {
        format: named(chosen.format),
        branch: named(chosen.branch),
    };
    let parts = service.export(&id, &query).await?;
    let disposition = HeaderValue::from_str(&format!("attachment; filename=\"{name}\""));
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        ),
        (
            header::CONTENT_DISPOSITION,
            disposition.unwrap_or(HeaderValue::from_static("attachment")),
        ),
    ];
    Ok((headers, Body::from_stream(parts)).into_response())
}

/// The name of the file, with the ending of its format.
fn file_name(id: &str, format: &str) -> String {
    let plain = id.chars().filter(char::is_ascii_alphanumeric).take(32);
    let plain: String = plain.collect();
    let known = FORMATS.iter().find(|(name, ..)| *name == format);
    let (.., ending) = known.unwrap_or(&FORMATS[0]);
    format!("session-{plain}.{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_has_the_ending_of_its_format() {
        for (format, name) in [
            ("", "session-01a2.jsonl"),
            ("unisono", "session-01a2.jsonl"),
            ("openai", "session-01a2.jsonl"),
            ("anthropic", "session-01a2.json"),
            ("sharegpt", "session-01a2.json"),
        ] {
            assert_eq!(file_name("01a2", format), name, "{format}");
        }
        assert_eq!(file_name("\"../é\r\n7", "openai"), "session-7.jsonl");
    }
}
