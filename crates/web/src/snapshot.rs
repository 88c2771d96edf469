//! `/sessions/{session}/snapshots/{snapshot}`: the frozen context of a turn.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::html;
use serde::Deserialize;
use unisono_api::service::Service;
use unisono_api::session::main_branch;

use crate::branch_view::BranchView;
use crate::context::ContextView;
use crate::error::PageError;
use crate::extract::{Path, Query};
use crate::layout::layout;
use crate::parts::{counted, digest};

/// The query of a snapshot page.
#[derive(Debug, Deserialize)]
pub(crate) struct Part {
    /// Its first message; none: the page shows the newest ones.
    from: Option<u32>,
}

pub(crate) async fn show(
    State(service): State<Arc<dyn Service>>,
    Path((id, snapshot)): Path<(String, String)>,
    Query(part): Query<Part>,
) -> Result<Response, PageError> {
    let place = BranchView::load(&*service, &id, &main_branch()).await?;
    let frozen = service.snapshot(&id, &snapshot).await?;
    let at = format!("/sessions/{id}/snapshots/{snapshot}");
    let json = format!("/v1/sessions/{id}/snapshots/{snapshot}");
    let seen = ContextView {
        system: &frozen.system,
        tools: &frozen.tools,
        summaries: &frozen.summaries,
        messages: &frozen.messages,
        from: part.from,
        at: &at,
        whole: &|_| json.clone(),
        json: &json,
    };
    let body = place.page(&html! {
        section {
            h2 { "Snapshot " (digest(&frozen.snapshot)) }
            p { span class="badge" { "identical for " (counted(frozen.agents.into(), "agent")) }
                " Sizes in " (frozen.encoding) "." }
            p class="quiet" { "Given in "
                @for (at, turn) in frozen.turns.iter().enumerate() {
                    @if at > 0 { ", " }
                    a href={ "/sessions/" (id) "/turns/" (turn) } { "turn " (at + 1) }
                }
            }
            (seen.sections())
        }
    });
    Ok(layout("snapshot", &body))
}
