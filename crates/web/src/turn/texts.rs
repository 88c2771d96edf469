//! The long texts of a turn's page.

use maud::{Markup, html};
use unisono_api::turn::{Turn, TurnAttachment};

use super::{CALLS, REASON, TurnView, answer, more, page};
use crate::message;
use crate::parts::number;

/// The sections with long texts, in the order in which they have the room of the page.
pub(super) struct Texts {
    pub(super) task: Markup,
    pub(super) answer: Markup,
    /// The calls that wait for a person, with their arguments.
    pub(super) waiting: Markup,
    pub(super) error: Markup,
}

impl Texts {
    pub(super) fn new(turn: &Turn, view: &TurnView<'_>) -> Texts {
        let here = page(turn);
        let json = format!("/v1{here}");
        Texts {
            task: task(turn, view, &json),
            answer: section_of_answer(turn, view),
            waiting: view.waits.cards(CALLS, &here, view.room),
            error: error(turn, view, &json),
        }
    }
}

fn task(turn: &Turn, view: &TurnView<'_>, json: &str) -> Markup {
    html! {
        @if let Some(task) = &turn.task {
            section {
                h2 { "Task" }
                div class="card" {
                    (message::text(task, view.place, true, Some(json), view.room))
                    @for file in turn.attachments.iter().take(CALLS) { (attached(file)) }
                    (more(turn.attachments.len(), "attachment", json))
                }
            }
        }
    }
}

fn section_of_answer(turn: &Turn, view: &TurnView<'_>) -> Markup {
    let lead = turn.runs.iter().find(|run| run.role == "lead");
    let whole = lead.map(|lead| format!("/sessions/{}/runs/{}", turn.session, lead.run));
    html! {
        @if let Some(answer) = answer(turn) {
            section {
                h2 { "Answer" }
                div class="card" { (message::text(answer, view.place, true, whole.as_deref(), view.room)) }
            }
        }
    }
}

/// The reason of a failure, if the line of the turn has no room for all of it.
fn error(turn: &Turn, view: &TurnView<'_>, json: &str) -> Markup {
    let long = |reason: &&str| reason.chars().nth(REASON).is_some();
    let reason = turn.error.as_ref().map(|error| error.reason.as_str());
    html! {
        @if let Some(reason) = reason.filter(long) {
            @let (shown, left) = view.room.cut(reason);
            section {
                h2 { "Error" }
                pre class="card text" { (shown) }
                (message::continuation(left, Some(json)))
            }
        }
    }
}

fn attached(file: &TurnAttachment) -> Markup {
    let size = format!("{} bytes{}", number(file.size_bytes), file.extent);
    html! {
        @match &file.digest {
            Some(digest) => (message::attachment(&file.filename, &file.mime, &size, digest, file.extent)),
            None => p class="tool" { (file.filename) ", " (file.mime) ", " (size) },
        }
    }
}
