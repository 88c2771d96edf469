//! Accepts a turn: it waits until its branch is free, then its input is appended.

use std::sync::Arc;

use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::{Digest, MessageId, TurnId, tree};

use crate::agent::Definition;
use crate::event::{AcceptedTurn, Fact, RequestKey, Work};
use crate::ids;
use crate::input::{NewTurn, PrecedingMessages};
use crate::refusal::Refusal;
use crate::state::{KeyTarget, MAIN, State};
use crate::tool::ToolRules;

use super::{Recorder, append, revert};

/// Idempotent: a repeated turn, or a repeated key with the same request, changes nothing.
pub(super) fn handle(
    recorder: &mut Recorder<'_>,
    key: Option<RequestKey>,
    new: NewTurn,
) -> Result<(), Refusal> {
    if let Some(key) = &key
        && is_repeated(recorder.state, key)?
    {
        return Ok(());
    }
    if is_known(recorder, new.id) {
        return Ok(());
    }
    check(recorder, &new, None)?;
    let lead = define(recorder, &new.team.lead)?;
    let mut delegates = Vec::with_capacity(new.team.delegates.len());
    let input = new.work.input_text();
    for delegate in &new.team.delegates {
        let task = own_task(delegate.task.as_ref(), input.as_deref());
        delegates.push((define(recorder, &delegate.agent)?, task));
    }
    let available = new.team.available.iter();
    let available = available.map(|agent| define(recorder, agent));
    let available = available.collect::<Result<_, _>>()?;
    record_settings(recorder, &new)?;
    let turn = AcceptedTurn {
        id: new.id,
        branch: new.branch,
        work: new.work,
        policy: new.policy,
        safety: new.safety,
        lead,
        delegates,
        available,
        tools: new.tools,
        calibrations: new.calibrations,
        delegation: new.delegation,
        caps: new.caps,
        key,
        short_calls: true,
        prepare: new.prepare,
        shared_headroom: true,
    };
    Ok(recorder.record(Fact::TurnAccepted {
        turn: Box::new(turn),
    })?)
}

/// Records what the turn changes of the session's settings.
fn record_settings(recorder: &mut Recorder<'_>, new: &NewTurn) -> Result<(), Refusal> {
    if *recorder.state.instructions != *new.instructions {
        let text = new.instructions.clone();
        recorder.record(Fact::InstructionsSet { text })?;
    }
    if new.policy.tiers().is_some() && *recorder.state.phrases != *new.phrases {
        let phrases = new.phrases.clone();
        recorder.record(Fact::PhrasesSet { phrases })?;
    }
    if recorder.state.call_cap != new.call_cap {
        let calls = new.call_cap.0;
        recorder.record(Fact::CallCapSet { calls })?;
    }
    if changes_rules(&recorder.state.tool_rules, &new.rules) {
        let rules = new.rules.clone();
        recorder.record(Fact::ToolRulesSet { rules })?;
    }
    Ok(())
}

/// The task of a delegate; none if it is the turn's input: the branch then has the input once, and
/// not again in each call.
fn own_task(task: Option<&Arc<str>>, input: Option<&str>) -> Option<Arc<str>> {
    let is_own = |task: &&Arc<str>| input.is_none_or(|input| input.trim() != task.trim());
    task.filter(is_own).cloned()
}

/// Whether a turn has other rules than the turns before it. A turn without any call that a rule may
/// hold has no approval timeout, and changes only the hooks.
fn changes_rules(known: &ToolRules, new: &ToolRules) -> bool {
    let has_calls = !new.contracts.is_empty() || new.approval_timeout_ms.is_some();
    (has_calls || known.hooks != new.hooks) && known != new
}

/// Accepts a turn after messages. Everything that could refuse either is checked before anything is
/// recorded.
pub(super) fn handle_after(
    recorder: &mut Recorder<'_>,
    preceding: PrecedingMessages,
    key: Option<RequestKey>,
    new: NewTurn,
) -> Result<(), Refusal> {
    let repeated = key
        .as_ref()
        .map(|key| is_repeated(recorder.state, key))
        .transpose()?;
    if repeated == Some(true) || is_known(recorder, new.id) {
        return Ok(());
    }
    let input = match &new.work {
        Work::Answer { input, .. } => Some(input.id),
        _ => None,
    };
    let (done, open) = append::check_preceding(recorder.state, &new.branch, &preceding, input)?;
    check(recorder, &new, Some(open))?;
    for message in preceding.messages.into_iter().skip(done) {
        recorder.record(Fact::Posted {
            branch: new.branch.clone(),
            message,
            key: None,
        })?;
    }
    handle(recorder, key, new)
}

/// Whether a turn was accepted under the key before, for the same request.
fn is_repeated(state: &State, key: &RequestKey) -> Result<bool, Refusal> {
    match state.key_target(&key.name) {
        Some((request, KeyTarget::Turn(_))) if request == key.request => Ok(true),
        Some(_) => Err(Refusal::KeyReused(key.name.clone())),
        None => Ok(false),
    }
}

fn is_known(recorder: &Recorder<'_>, turn: TurnId) -> bool {
    recorder.state.turns.contains_key(&turn) || recorder.state.ended_turn(turn).is_some()
}

/// Refuses everything that could prevent the turn from starting later. `open` are the calls at the
/// end of its branch before the turn; none: the calls at its end now.
fn check(
    recorder: &Recorder<'_>,
    new: &NewTurn,
    open: Option<Vec<Arc<str>>>,
) -> Result<(), Refusal> {
    let exists = recorder.state.tree.head(&new.branch).is_some();
    let first_of_session = recorder.state.tree.is_empty() && &*new.branch == MAIN;
    match &new.work {
        Work::Edit { text, .. } if text.trim().is_empty() => return Err(Refusal::EmptySummary),
        Work::Answer { input, .. } => {
            check_input(input)?;
            check_ids(recorder, new.id, input.id)?;
            if input.parts.iter().any(is_tool_result) {
                let open = match open {
                    Some(open) => open,
                    None if first_of_session => Vec::new(),
                    None => open_calls(recorder, new)?,
                };
                return check_results(open, new, input);
            }
            if exists || first_of_session {
                return Ok(());
            }
        }
        work if exists => {
            return work.checkpoint().map_or(Ok(()), |checkpoint| {
                revert::check(recorder, new, checkpoint)
            });
        }
        _ => {}
    }
    Err(Refusal::UnknownBranch(new.branch.clone()))
}

fn is_tool_result(part: &Part) -> bool {
    matches!(part, Part::ToolResult { .. })
}

/// The input is a text of a user, tool results, or tool results followed by a text.
fn check_input(input: &NewMessage) -> Result<(), Refusal> {
    let results = input
        .parts
        .iter()
        .take_while(|part| is_tool_result(part))
        .count();
    let others = &input.parts[results..];
    match input.role {
        Role::User if others.iter().all(is_user_part) && (results == 0 || !others.is_empty()) => {}
        // A tool result may be empty.
        Role::Tool if results > 0 && others.is_empty() => return Ok(()),
        _ => return Err(Refusal::NotAnInput(input.id)),
    }
    let blank = |part: &Part| part.countable_text().trim().is_empty();
    if others.iter().all(blank) {
        return Err(Refusal::EmptyTask);
    }
    Ok(())
}

fn is_user_part(part: &Part) -> bool {
    matches!(part, Part::Text(_) | Part::Attachment { .. })
}

/// The calls at the end of the turn's branch. Their results do not wait behind another turn,
/// because nothing may come in between.
fn open_calls(recorder: &Recorder<'_>, new: &NewTurn) -> Result<Vec<Arc<str>>, Refusal> {
    let Some(head) = recorder.state.tree.head(&new.branch) else {
        return Err(Refusal::UnknownBranch(new.branch.clone()));
    };
    if recorder.state.queues.contains_key(&new.branch) {
        return Err(Refusal::BranchBusy(new.branch.clone()));
    }
    Ok(recorder
        .state
        .tree
        .unanswered(head)
        .into_iter()
        .cloned()
        .collect())
}

/// Each result answers a waiting call, at most once.
fn check_results(
    mut waiting: Vec<Arc<str>>,
    new: &NewTurn,
    input: &NewMessage,
) -> Result<(), Refusal> {
    for part in &input.parts {
        let Part::ToolResult { call_id, .. } = part else {
            continue;
        };
        let at = waiting.iter().position(|id| id == call_id);
        let at = at.ok_or_else(|| Refusal::NotCalled {
            call_id: call_id.clone(),
            branch: new.branch.clone(),
        })?;
        waiting.swap_remove(at);
    }
    Ok(())
}

/// Neither the id of the input nor the ids of the messages that the turn will append may be in use,
/// in the tree or by a waiting input.
fn check_ids(recorder: &Recorder<'_>, turn: TurnId, input: MessageId) -> Result<(), Refusal> {
    let in_tree = |id| recorder.state.tree.get(id).is_some();
    let own = ids::message(turn, 0);
    let in_use = |id| in_tree(id) || recorder.state.waiting_message(id).is_some();
    let taken = [input, own].into_iter().find(|id| in_use(*id));
    let waits = recorder
        .state
        .turns
        .values()
        .any(|turn| match &turn.accepted.work {
            Work::Answer { input: other, .. } => other.id == input,
            _ => false,
        });
    match taken.or(waits.then_some(input)) {
        Some(id) => Err(tree::Error::DuplicateId(id).into()),
        None => Ok(()),
    }
}

fn define(recorder: &mut Recorder<'_>, definition: &Arc<Definition>) -> Result<Digest, Refusal> {
    let digest = definition.digest();
    if !recorder.state.definitions.contains_key(&digest) {
        recorder.record(Fact::Defined {
            definition: definition.clone(),
        })?;
    }
    Ok(digest)
}
