//! The size of what a prompt contains beside the frozen context.

use std::fmt::Write as _;

use unisono_context::Tokens;
use unisono_context::attachment::Extent;
use unisono_model::language::Request;
use unisono_model::media::Accepts;
use unisono_session::assignment::RunAssignment;
use unisono_session::reserve::{self, Role};
use unisono_session::run::tail::Headroom;

use super::results;

/// The tokens of a file in the result of a tool to a model, at most; a model that does not take it
/// gets a note and the text of a document, which are part of the text.
pub(crate) fn file_tokens(accepts: Accepts, extent: Extent) -> Tokens {
    match accepts.takes(extent) {
        true => extent.at_most(),
        false => Tokens::ZERO,
    }
}

/// The headroom that an assignment of this size leaves; an error if it does not fit.
pub(crate) fn headroom(
    of: &RunAssignment,
    messages: u64,
    assignment: Tokens,
) -> Result<Headroom, String> {
    let (limits, room) = (of.definition.limits, of.headroom);
    let needed = assignment + limits.per_message.times(messages);
    if needed > room {
        let (window, model) = (limits.window, &of.definition.model);
        return Err(format!(
            "its task and what it was handed need {needed} tokens; the \
             context leaves {room} of the {window} of model {model}"
        ));
    }
    let room = room.minus(needed);
    Ok(Headroom {
        is_shared: of.shared_headroom,
        ..Headroom::new(room, limits.max_output, limits.per_message)
    })
}

/// The text beside the context and the exchange, including the schema of the answer, and its number
/// of messages.
pub(crate) fn assignment(request: &Request) -> (String, u64) {
    let persona = &request.persona;
    let allowed: Vec<&str> = request.allowed.iter().map(|name| &**name).collect();
    let colleagues = request.colleagues.iter();
    let colleagues = colleagues.map(|one| (one.agent.as_str(), &*one.description));
    let mut out = reserve::role_text(&Role {
        agent: persona.agent.as_str(),
        description: &persona.description,
        instructions: &persona.instructions,
        allowed: &allowed,
        colleagues: &colleagues.collect::<Vec<_>>(),
        output_schema: request.output_schema.as_deref(),
    });
    if !request.is_task_in_context() {
        let _ = write!(out, "\n{}", request.task);
    }
    for delegated in request.results.iter() {
        let _ = write!(out, "\n{}", results::full_text(delegated));
    }
    if let Some(summary) = &request.summary {
        let _ = write!(out, "\n{summary}");
    }
    (out, reserve::MESSAGES + request.results.len() as u64)
}
