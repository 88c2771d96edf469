//! Messages of other agents of a team, which the program writes as a message of the user:
//! `<teammate-message teammate_id="scout">…</teammate-message>`.

use unisono_context::Role;
use unisono_context::message::Part;

use crate::transcript::anthropic;
use crate::transcript::draft::{Draft, DraftMessage};
use crate::transcript::fields;
use crate::transcript::json::Value;

/// The words before such messages.
const INTRODUCTION: &str = "Another Claude session sent a message:";
/// The notices that agents send by themselves.
const NOTICES: [&str; 2] = ["idle_notification", "teammate_terminated"];

/// The messages of a user's parts. A text that another agent sent has that agent as its author; notices of
/// agents are counted.
pub(super) fn messages(parts: Vec<Part>, draft: &mut Draft<'_, '_, '_>) -> Vec<DraftMessage> {
    let sent = match parts.as_slice() {
        [Part::Text(text)] => sent(text),
        _ => None,
    };
    let Some(sent) = sent else {
        return anthropic::runs(Role::User, parts);
    };
    let mut messages = Vec::with_capacity(sent.len());
    for (name, said) in sent {
        if is_notice(&said) {
            draft.omit("program note");
            continue;
        }
        messages.push(DraftMessage {
            author: fields::named(&name),
            ..DraftMessage::new(Role::User, vec![Part::text(said)])
        });
    }
    messages
}

/// The names of agents and what they sent; `None` for a text with other words.
fn sent(text: &str) -> Option<Vec<(String, String)>> {
    let text = text.trim_start();
    let mut rest = text.strip_prefix(INTRODUCTION).unwrap_or(text).trim_start();
    let mut sent = Vec::new();
    while let Some(tagged) = rest.strip_prefix("<teammate-message") {
        let (attributes, body) = tagged.split_once("\">")?;
        let (_, name) = attributes.split_once("teammate_id=\"")?;
        let (said, behind) = body.split_once("</teammate-message>")?;
        let (name, said) = (name.split('"').next()?, said.trim());
        sent.push((name.to_owned(), said.to_owned()));
        rest = behind.trim_start();
    }
    (!sent.is_empty() && rest.is_empty()).then_some(sent)
}

fn is_notice(said: &str) -> bool {
    let note = Value::parse(said).and_then(Value::object).ok();
    let kind = note.and_then(|note| note.get("type")?.text().ok());
    said.is_empty() || kind.is_some_and(|kind| NOTICES.contains(&&*kind))
}
