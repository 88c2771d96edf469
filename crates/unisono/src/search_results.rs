//! Results of a search, with their state in the context.

use unisono_api::search::{Hit, Neighbour};
use unisono_context::alteration::Form;
use unisono_context::view::MessageStatus;
use unisono_context::{Message, Ordinal};
use unisono_search::{FoundMessage, excerpt};
use unisono_session::State;

use crate::values::known_instant;

/// Characters of an excerpt of the message before or after.
const NEIGHBOUR_CHARS: usize = 120;

/// A message that was found in this session, with an excerpt of about `chars` characters; none if it
/// does not exist any more. `stems` are the query's.
pub(crate) fn hit(
    found: &FoundMessage,
    state: &State,
    branch: &str,
    stems: &[String],
    chars: usize,
) -> Option<Hit> {
    let tree = state.tree();
    let message = &tree.get(found.message)?.message;
    let on = |head| {
        let node = tree.node_at(head, message.ordinal);
        node.is_some_and(|node| node.message.id == message.id)
    };
    let branches = tree.branches().filter(|(_, head)| on(*head));
    let branches: Vec<String> = branches.map(|(name, _)| name.to_owned()).collect();
    let head = tree.head(branch).filter(|head| on(*head));
    let view = head.and_then(|head| state.view(head, false));
    let status = view.and_then(|view| view.status(message.ordinal));
    let path = head.or_else(|| tree.head(branches.first()?));
    let ordinal = message.ordinal.0;
    let [before, after] = [ordinal - 1, ordinal + 1].map(|ordinal| {
        let message = &tree.node_at(path?, Ordinal(ordinal))?.message;
        Some(Neighbour {
            ordinal: message.ordinal.0,
            role: message.role.name().to_owned(),
            author: author(message),
            excerpt: excerpt(&message.countable_text(), stems, NEIGHBOUR_CHARS).text,
        })
    });
    let part = excerpt(&message.countable_text(), stems, chars);
    let marks = part.marks.iter();
    Some(Hit {
        session: found.session.to_string(),
        title: state.title().to_owned(),
        message: message.id.to_string(),
        ordinal,
        role: message.role.name().to_owned(),
        author: author(message),
        at: known_instant(message.at),
        score: found.score,
        active: is_active(status.as_ref()),
        status: status_name(status.as_ref()).to_owned(),
        checkpoint: checkpoint(status.as_ref()),
        branches,
        marks: marks.map(|at| [at.start as u64, at.end as u64]).collect(),
        excerpt: part.text,
        before,
        after,
    })
}

fn author(message: &Message) -> Option<String> {
    message.author.as_ref().map(ToString::to_string)
}

/// Whether the model sees the message, at least in part.
fn is_active(status: Option<&MessageStatus>) -> bool {
    matches!(
        status,
        Some(MessageStatus::Verbatim | MessageStatus::Shortened(_))
    )
}

fn status_name(status: Option<&MessageStatus>) -> &'static str {
    match status {
        None => "elsewhere",
        Some(MessageStatus::Verbatim) => "verbatim",
        Some(MessageStatus::Shortened(Form::Masked { .. })) => "masked",
        Some(MessageStatus::Shortened(Form::Cut { .. } | Form::Truncated { .. })) => "cut",
        Some(MessageStatus::Covered(_)) => "summarised",
    }
}

/// The number of the checkpoint that covers the message.
fn checkpoint(status: Option<&MessageStatus>) -> Option<u32> {
    match status {
        Some(MessageStatus::Covered(checkpoint)) => Some(checkpoint.number),
        _ => None,
    }
}
