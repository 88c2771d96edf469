//! The outcome of an import: each file or conversation with its session, or with the reason why not.

use maud::{Markup, html};
use unisono_api::session::{ConversationImport, FileConversation, ImportLosses};

use crate::conversation_list::{LISTED, title};
use crate::parts::counted;

/// A file, with its conversations or the reason for its refusal.
pub(crate) struct FileResult {
    pub(crate) name: String,
    pub(crate) outcome: Result<Vec<ConversationImport>, String>,
}

/// All files, in their order.
pub(crate) fn of_files(all: &[FileResult]) -> Markup {
    let conversations = |file: &FileResult| file.outcome.iter().flatten().any(is_new);
    let imported = all.iter().filter(|file| conversations(file)).count();
    html! {
        section class="card" {
            h1 { "Imported " (imported) " of " (counted(all.len() as u64, "file")) }
            ul {
                @for FileResult { name, outcome } in all {
                    li {
                        strong { (name) } ": "
                        @match outcome {
                            Ok(done) if done.len() == 1 => { (outcome_of(&done[0])) },
                            Ok(done) => { (list(done)) },
                            Err(why) => (refused(why)),
                        }
                    }
                }
            }
        }
    }
}

pub(crate) fn of_conversations(all: &[ConversationImport]) -> Markup {
    let imported = all.iter().filter(|one| is_new(one)).count();
    html! {
        section class="card" {
            h1 { "Imported " (imported) " of " (counted(all.len() as u64, "conversation")) }
            (list(all))
            @if let [ConversationImport { conversation: FileConversation { session: Some(session), .. }, .. }] = all {
                p { a class="button" href={ "/sessions/" (session) } { "Open the conversation" } }
            }
        }
    }
}

fn list(all: &[ConversationImport]) -> Markup {
    let more = all.len().saturating_sub(LISTED);
    html! {
        ul { @for one in all.iter().take(LISTED) { li { (outcome_of(one)) } } }
        @if more > 0 { p class="quiet" { "and " (counted(more as u64, "more conversation")) } }
    }
}

fn outcome_of(one: &ConversationImport) -> Markup {
    let title = title(&one.conversation);
    html! {
        @if let Some(session) = &one.conversation.session {
            a href={ "/sessions/" (session) } { (title) }
        } @else {
            (title) ": "
        }
        @if one.known { ", imported before" }
        @if let Some(why) = &one.error { (refused(why)) }
        @if has_report(&one.losses) { (report(&one.losses)) }
    }
}

fn refused(why: &str) -> Markup {
    html! { span class="trouble" role="alert" { "not imported. " (lines(why)) } }
}

/// A text with its line breaks.
pub(crate) fn lines(text: &str) -> Markup {
    html! {
        @for (at, line) in text.lines().enumerate() {
            @if at > 0 { br; }
            (line)
        }
    }
}

fn is_new(one: &ConversationImport) -> bool {
    one.conversation.session.is_some() && !one.known
}

/// Whether something of a conversation was not imported, or may have been misread.
pub(crate) fn has_report(of: &ImportLosses) -> bool {
    let is_lossy = of.skipped_messages > 0 || of.skipped_parts > 0;
    is_lossy || !of.dropped_content.is_empty() || !of.warnings.is_empty()
}

fn report(of: &ImportLosses) -> Markup {
    let skipped = of.skipped_messages.saturating_add(of.skipped_parts);
    let unlisted = skipped.saturating_sub(of.skipped.len() as u64);
    html! {
        ul {
            @match of.skipped_messages {
                0 => {}
                1 => li { "1 invalid message or line skipped" },
                more => li { (more) " invalid messages or lines skipped" },
            }
            @if of.skipped_parts > 0 { li { (counted(of.skipped_parts, "invalid message part")) " skipped" } }
            @for line in &of.skipped { li { "skipped line " (line) } }
            @if unlisted > 0 && !of.skipped.is_empty() { li { "and " (unlisted) " more skipped" } }
            @for line in &of.warnings { li { "check line " (line) } }
            @for (what, count) in &of.dropped_content { li { (counted(*count, what)) " not supported by sessions" } }
        }
    }
}
