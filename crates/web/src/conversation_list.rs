//! The conversations of a file, to select from.

use maud::{Markup, html};
use unisono_api::session::FileConversation;

use crate::layout::cut_title;
use crate::parts::{number, when};

/// Maximum listed conversations.
pub(crate) const LISTED: usize = 200;

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
                        @for one in several.iter().take(LISTED) {
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
            @if several.len() > LISTED {
                p class="quiet" { "The list has the first " (LISTED) ". " code { "unisono import --pick" }
                    " imports others, and “Import all” all of them." }
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
        title => cut_title(title),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_many_conversations_with_long_titles_is_bounded() {
        let one = |number: u64| -> FileConversation {
            serde_json::from_value(serde_json::json!({
                "number": number, "id": null, "title": "x".repeat(5_000), "at": null,
                "messages": 2, "session": null,
            }))
            .unwrap()
        };
        let all: Vec<FileConversation> = (1..=1_000).map(one).collect();
        let shown = show(&all).into_string();
        assert_eq!(shown.matches("type=\"checkbox\"").count(), LISTED);
        assert!(shown.contains("has 1000 conversations") && shown.contains("the first 200"));
        assert!(shown.len() < 100_000, "{}", shown.len());
        assert!(!show(&all[..LISTED]).into_string().contains("the first 200"));
    }
}
