//! `/sessions/{session}/delete`: says what a deletion takes away, and carries it out.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{Redirect, Response};
use maud::html;
use unisono_api::service::Service;
use unisono_api::session::main_branch;

use crate::branch_view::{BranchView, back_path};
use crate::error::PageError;
use crate::extract::Path;
use crate::layout::{cut_title, layout};
use crate::parts::{counted, number};

/// Asks whether a session is to be deleted.
pub(crate) async fn confirm(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    let place = BranchView::load(&*service, &id, &main_branch()).await?;
    let about = &place.about;
    let open = about.open_turns.count;
    let body = place.page(&html! {
        section class="card dialog" aria-labelledby="delete" {
            h2 id="delete" { "Delete this session" }
            p { "“" (cut_title(&about.title)) "” is gone for good, with:" }
            ul {
                li { (counted(about.messages, "message")) " on " @match about.branches.count { 1 => "1 branch", n => { (number(n)) " branches" } } }
                li { (counted(about.checkpoints, "checkpoint")) }
                li { (counted(about.ended_turns.count, "turn")) ", their runs and requests" }
                li { "the attachments that no other session names" }
            }
            p { "What it cost stays in " a href="/usage" { "Usage" } ". "
                a href={ "/sessions/" (id) "/export" } { "Export it first" } " to keep a copy." }
            @if open > 0 {
                p class="warn" { (counted(open, "turn")) " of it has not ended: cancel that first." }
            } @else {
                form method="post" action={ "/sessions/" (id) "/delete" } {
                    button { "Delete this session" }
                }
            }
            p { a data-close href=(back_path(&id, &main_branch())) { "Keep it" } }
        }
    });
    Ok(layout("Delete", &body))
}

pub(crate) async fn delete(
    State(service): State<Arc<dyn Service>>,
    Path(id): Path<String>,
) -> Result<Redirect, PageError> {
    service.delete_session(&id, false).await?;
    Ok(Redirect::to("/"))
}
