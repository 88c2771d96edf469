//! The outcome of an import of several files: each file with its session, or with the reason why not.

use maud::{Markup, html};
use unisono_api::session::ImportResult;

use crate::parts::counted;

/// A file, with its session or the reason for its refusal.
pub(crate) struct FileResult {
    pub(crate) name: String,
    pub(crate) outcome: Result<Box<ImportResult>, String>,
}

/// All files, in their order.
pub(crate) fn list(all: &[FileResult]) -> Markup {
    let imported = all.iter().filter(|file| file.outcome.is_ok()).count();
    html! {
        section class="card" {
            h1 { "Imported " (imported) " of " (counted(all.len() as u64, "file")) }
            ul {
                @for FileResult { name, outcome } in all {
                    li {
                        strong { (name) } ": "
                        @match outcome {
                            Ok(made) => {
                                a href={ "/sessions/" (made.session.session) } { (made.session.title) }
                                @if has_losses(made) { (losses(made)) }
                            },
                            Err(why) => span class="trouble" role="alert" { "not imported. " (why) },
                        }
                    }
                }
            }
        }
    }
}

/// Whether something of a file was not imported.
pub(crate) fn has_losses(made: &ImportResult) -> bool {
    made.skipped_messages > 0 || made.skipped_parts > 0 || !made.dropped_content.is_empty()
}

/// What of a file was not imported.
pub(crate) fn losses(made: &ImportResult) -> Markup {
    html! {
        ul {
            @match made.skipped_messages {
                0 => {}
                1 => li { "1 invalid message or line skipped" },
                more => li { (more) " invalid messages or lines skipped" },
            }
            @if made.skipped_parts > 0 { li { (counted(made.skipped_parts, "invalid message part")) " skipped" } }
            @for (what, count) in &made.dropped_content { li { (counted(*count, what)) " not supported by sessions" } }
        }
    }
}
