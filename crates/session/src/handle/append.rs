//! Appends a message of another system, without a turn.

use std::collections::BTreeSet;
use std::sync::Arc;

use unisono_context::MessageId;
use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::tree;

use crate::event::{Fact, Work};
use crate::input::{Append, PrecedingMessages};
use crate::refusal::Refusal;
use crate::state::{KeyTarget, MAIN, State};

use super::Recorder;

/// Records the message once, also if the request is repeated. While turns are open on the branch
/// the message waits: a context that is being prepared or is frozen does not change.
pub(super) fn handle(recorder: &mut Recorder<'_>, new: Append) -> Result<(), Refusal> {
    if let Some(key) = &new.key {
        match recorder.state.key_target(&key.name) {
            Some((request, KeyTarget::Message(_))) if request == key.request => return Ok(()),
            Some(_) => return Err(Refusal::KeyReused(key.name.clone())),
            None => {}
        }
    }
    if is_known(recorder.state, &new.message)? {
        return Ok(());
    }
    check_parts(&new.message)?;
    check_branch(recorder.state, &new.branch)?;
    check_results(recorder.state, &new)?;
    let Append {
        branch,
        message,
        key,
    } = new;
    Ok(recorder.record(Fact::Posted {
        branch,
        message,
        key,
    })?)
}

/// The number of these messages that are already appended, because a crash interrupted the same
/// input; and the calls at the end of the branch after all of them. The branch must have no open
/// turn and end at the expected message. `input` is the id of the following input.
pub(super) fn check_preceding(
    state: &State,
    branch: &Arc<str>,
    preceding: &PrecedingMessages,
    input: Option<MessageId>,
) -> Result<(usize, Vec<Arc<str>>), Refusal> {
    check_branch(state, branch)?;
    if state.queues.contains_key(branch) {
        return Err(Refusal::BranchBusy(branch.clone()));
    }
    let head = state.tree.head(branch);
    let mut messages = preceding.messages.iter();
    let done = messages.position(|message| Some(message.id) == head);
    let done = done.map_or(0, |last| last + 1);
    if done == 0 && head != preceding.head {
        return Err(Refusal::BranchMoved(branch.clone()));
    }
    let (known, new) = preceding.messages.split_at(done);
    for message in known {
        is_known(state, message)?;
    }
    let mut ids: BTreeSet<MessageId> = input.into_iter().collect();
    let mut open: Vec<Arc<str>> = head.map_or_else(Vec::new, |head| {
        state.tree.unanswered(head).into_iter().cloned().collect()
    });
    for message in new {
        if is_known(state, message)? || !ids.insert(message.id) {
            return Err(tree::Error::DuplicateId(message.id).into());
        }
        check_parts(message)?;
        for id in message.parts.iter().filter_map(answered) {
            let call = open.iter().position(|call| &**call == id);
            let call = call.ok_or_else(|| Refusal::NotCalled {
                call_id: id.into(),
                branch: branch.clone(),
            })?;
            open.remove(call);
        }
        let calls: Vec<Arc<str>> = message
            .parts
            .iter()
            .filter_map(called)
            .map(Arc::from)
            .collect();
        // A text of the assistant may come between its calls and their results.
        if matches!(message.role, Role::User | Role::System) || !calls.is_empty() {
            open = calls;
        }
    }
    Ok((done, open))
}

/// Whether the message is already there. An id must not stand for two messages.
fn is_known(state: &State, message: &NewMessage) -> Result<bool, Refusal> {
    let id = message.id;
    let placed = state.tree.get(id).map(|node| node.message.to_new());
    let known = placed.or_else(|| state.waiting_message(id).cloned());
    let mut turns = state.turns.values();
    let is_input = turns.any(|turn| match &turn.accepted.work {
        Work::Answer { input, .. } => input.id == id,
        _ => false,
    });
    match known {
        Some(known) if known.is_same(message) => Ok(true),
        None if !is_input => Ok(false),
        _ => Err(tree::Error::DuplicateId(id).into()),
    }
}

fn check_parts(message: &NewMessage) -> Result<(), Refusal> {
    let role = message.role;
    let fits = |part: &Part| match part {
        Part::Text(_) => role != Role::Tool,
        Part::Attachment { .. } => matches!(role, Role::User | Role::Assistant),
        Part::ToolCall { .. } => role == Role::Assistant,
        Part::ToolResult { .. } => role == Role::Tool,
    };
    if !message.parts.iter().all(fits) {
        return Err(Refusal::WrongParts { role });
    }
    // A tool result may be empty.
    let blank = |part: &Part| matches!(part, Part::Text(text) if text.trim().is_empty());
    if message.parts.iter().all(blank) {
        return Err(Refusal::EmptyMessage);
    }
    Ok(())
}

fn check_branch(state: &State, branch: &Arc<str>) -> Result<(), Refusal> {
    let first_of_session = state.tree.is_empty() && &**branch == MAIN;
    if first_of_session || state.tree.head(branch).is_some() {
        return Ok(());
    }
    Err(Refusal::UnknownBranch(branch.clone()))
}

/// Each result answers a call at the end of the branch, at most once. While a turn is open, only
/// the calls of waiting messages are known to be there when this message is appended.
fn check_results(state: &State, new: &Append) -> Result<(), Refusal> {
    let busy = state.queues.contains_key(&new.branch);
    let head = state.tree.head(&new.branch).filter(|_| !busy);
    let mut open: Vec<&str> = head.map_or_else(Vec::new, |head| {
        let calls = state.tree.unanswered(head);
        calls.into_iter().map(|id| &**id).collect()
    });
    for message in state.waiting_messages(&new.branch) {
        let mut calls = message.parts.iter().filter_map(called).peekable();
        if calls.peek().is_some() {
            open.clear();
            open.extend(calls);
        }
        for id in message.parts.iter().filter_map(answered) {
            answer(&mut open, id);
        }
    }
    let mut answers = new.message.parts.iter().filter_map(answered);
    match answers.find(|id| !answer(&mut open, id)) {
        None => Ok(()),
        Some(call_id) => Err(Refusal::NotCalled {
            call_id: call_id.into(),
            branch: new.branch.clone(),
        }),
    }
}

fn called(part: &Part) -> Option<&str> {
    match part {
        Part::ToolCall { id, .. } => Some(id),
        _ => None,
    }
}

fn answered(part: &Part) -> Option<&str> {
    match part {
        Part::ToolResult { call_id, .. } => Some(call_id),
        _ => None,
    }
}

/// Removes the call that a result answers; false if there is none.
fn answer(open: &mut Vec<&str>, id: &str) -> bool {
    let at = open.iter().position(|call| *call == id);
    at.map(|at| open.remove(at)).is_some()
}
