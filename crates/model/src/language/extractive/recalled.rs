//! The offline model's search of messages that left its context: the call of the tool `recall`, and
//! the messages of its result.

use std::borrow::Cow;

use serde_json::json;
use unisono_context::call::ToolCall;
use unisono_context::{Ordinal, Role};

use crate::date::{Date, midnight};
use crate::extractive::{self, Passage, PassageKind};
use crate::language::{Exchange, Request};

const RECALL: &str = "recall";
/// The number of characters of a task in the query.
const QUERY_CHARS: usize = 400;

/// The search call for the request's task, with the question that it follows. `None` if the task is
/// not a question, no message left the context, or the search was made.
pub(super) fn search_call(request: &Request, task: &str) -> Option<ToolCall> {
    let checkpoints = request.snapshot.as_ref()?.blocks();
    let may_recall = request.allowed.iter().any(|tool| **tool == *RECALL);
    let first = request.exchange.is_empty() && request.summary.is_none();
    if checkpoints.is_empty() || !may_recall || !first || request.wrap_up.is_some() {
        return None;
    }
    let query: String = task.chars().take(QUERY_CHARS).collect();
    extractive::is_question(&query)
        .then(|| ToolCall::new(RECALL, RECALL, json!({ "query": query }).to_string()))
}

/// The messages that the search found, oldest first.
pub(super) fn passages(exchange: &[Exchange]) -> Vec<Passage<'_>> {
    let results = exchange.iter().filter_map(|step| match step {
        Exchange::Results(results) => Some(results),
        Exchange::Reply(_) => None,
    });
    let found = results.flatten().filter(|result| !result.is_error);
    let mut passages: Vec<Passage<'_>> = found
        .flat_map(|result| found_passages(&result.content))
        .collect();
    passages.sort_by_key(|passage| passage.ordinal);
    passages
}

/// Parses the messages of one result: each is a line such as `#12 user (Ana), 2026-05-07:` after an
/// empty one, and its text on the next. Results from other sessions have a line with their place
/// before the heading.
fn found_passages(content: &str) -> Vec<Passage<'_>> {
    let lines: Vec<&str> = content.lines().collect();
    let found = lines.windows(3).filter_map(|lines| match lines {
        ["", first, text] => {
            let found = heading(first)?;
            let kind = match found.role {
                Role::Tool => PassageKind::ToolResult,
                Role::Assistant if extractive::is_call(text.trim_start_matches('…')) => {
                    PassageKind::ToolCall
                }
                _ => PassageKind::Text,
            };
            let text = Cow::Borrowed(*text);
            Some(Passage {
                kind,
                text,
                ..found
            })
        }
        _ => None,
    });
    found.collect()
}

fn heading(line: &str) -> Option<Passage<'_>> {
    let (number, rest) = line.strip_prefix('#')?.strip_suffix(':')?.split_once(' ')?;
    let dated = rest.rsplit_once(", ").and_then(|(who, day)| {
        let day: Date = day.parse().ok()?;
        Some((who, day))
    });
    let who = dated.map_or(rest, |(who, _)| who);
    let at = dated.and_then(|(_, day)| midnight(day));
    let (role, author) = match who.split_once(" (") {
        Some((role, author)) => (role, Some(author.strip_suffix(')')?)),
        None => (who, None),
    };
    Some(Passage {
        ordinal: Ordinal(number.parse().ok()?),
        role: Role::from_name(role)?,
        author: author.map(extractive::one_word),
        at: at.unwrap_or_default(),
        kind: PassageKind::Text,
        call_id: None,
        is_failure: false,
        text: Cow::Borrowed(""),
    })
}

#[cfg(test)]
mod tests {
    //! Tests of reading the results of `recall`, and of when it is called.

    use unisono_context::call::ToolResult;

    use super::*;
    use crate::fixture::{Chat, request};

    #[test]
    fn each_found_message_is_a_passage() {
        let content = "[found, the best first; nowhere: unicorn]\n\n\
            #12 user (Ana, of Sales), 2026-05-07:\n[x] It is late.\n(before: #11 assistant: so)\n\n\
            #3 assistant:\nWe ship on Friday.\n\n\
            [in session \"Other\"; recall {\"n\":1} reads it whole]\n#1 user:\nElsewhere.\n\n\
            [recall {\"n\":12} reads #12 whole]";
        let results = |content: &str, is_error| {
            Exchange::Results(vec![ToolResult::new("recall", content, is_error)])
        };
        let exchange = [results(content, false), results("#4 user:\nno", true)];
        let found = passages(&exchange).into_iter().map(|passage| {
            let (speaker, text) = (passage.speaker(), &passage.text);
            format!("{} {:?} {speaker}: {text}", passage.ordinal, passage.role)
        });
        let expected = [
            "#3 Assistant assistant: We ship on Friday.",
            "#12 User Ana,\u{a0}of\u{a0}Sales: [x] It is late.",
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_search_is_made_once_if_messages_left_and_the_task_is_a_question() {
        let whole = Chat::new(1).say(Role::User, "The key is under the mat.");
        let checkpoints = || {
            Chat::new(1)
                .say(Role::User, "The key is under the mat.")
                .say(Role::Assistant, "Good.")
                .summarise(1, "[summary of #1]\n## Key points\n- #1 A key.")
        };
        let asks = |chat: Chat, task: &str, tool: &str| {
            let request = Request {
                snapshot: Some(std::sync::Arc::new(chat.freeze())),
                task: task.into(),
                allowed: std::iter::once(tool.into()).collect(),
                ..request()
            };
            search_call(&request, task).map(|call| call.arguments.to_string())
        };
        let task = "Where is the key?";
        let query = r#"{"query":"Where is the key?"}"#.to_owned();
        assert_eq!(asks(checkpoints(), task, "recall"), Some(query));
        assert_eq!(asks(checkpoints(), task, "read_message"), None);
        let task_of_focus = "Sum up decisions and risks.";
        assert_eq!(asks(checkpoints(), task_of_focus, "recall"), None);
        assert_eq!(asks(whole, task, "recall"), None);
    }
}
