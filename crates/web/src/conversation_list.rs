//! The conversations of a file, to select from.

use maud::{Markup, html};
use unisono_api::session::FileConversation;

use crate::parts::{number, when};

/// A table with a box for each of several conversations; of a single one where it is already.
pub(crate) fn show(found: &[FileConversation]) -> Markup {
    match found {
        [] => html! {},
        [only] => html! {
            p id="known" role="alert" {
                "This file was imported before: "
                @if let Some(session) = &only.session { a href={ "/sessions/" (session) } { (title(only)) } }
                ". Choose " em { "Import again" } " to import a copy."
            }
        },
        several => table(several),
    }
}

fn table(several: &[FileConversation]) -> Markup {
    html! {
        fieldset id="conversations" {
            legend { "The file has " (several.len()) " conversations" }
            div class="scroll" tabindex="0" role="group" aria-label="Conversations" {
                table {
                    thead { tr { th scope="col" { "Conversation" } th scope="col" { "Began" } th scope="col" class="number" { "Messages" } th scope="col" { "Session" } } }
                    tbody {
                        @for one in several {
                            @let id = format!("pick-{}", one.number);
                            tr {
                                td {
                                    input id=(id) name="pick" type="checkbox" value=(value(one));
                                    label for=(id) { (title(one)) }
                                }
                                td { @if let Some(at) = &one.at { (when(at)) } }
                                td class="number" { (number(one.messages)) }
                                td { @if let Some(session) = &one.session { a href={ "/sessions/" (session) } { "imported" } } }
                            }
                        }
                    }
                }
            }
            input type="hidden" name="listed" value="true";
        }
    }
}

/// What selects it: its id, so that a list of another file selects nothing.
fn value(one: &FileConversation) -> String {
    one.id.clone().unwrap_or_else(|| one.number.to_string())
}

/// Its title, or its number.
pub(crate) fn title(one: &FileConversation) -> String {
    match one.title.trim() {
        "" => format!("conversation {}", one.number),
        title => title.to_owned(),
    }
}
