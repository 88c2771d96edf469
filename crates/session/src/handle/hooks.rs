//! Handles the answer of a hook, or its failure to answer.

use std::sync::Arc;

use unisono_context::MessageId;

use crate::event::{self, Fact, HookPlace, HookPoint, HookReply, MessageReference};
use crate::fold;
use crate::refusal::Refusal;
use crate::tool::HookEvent;

use super::{Recorder, calls, pin};

/// The error code of a turn that a hook denied.
const DENIED: &str = "hook_denied";

/// Records the answer and its consequences. An answer to a question that is no longer open changes
/// nothing.
pub(super) fn answered(
    recorder: &mut Recorder<'_>,
    place: HookPlace,
    reply: Result<HookReply, Arc<str>>,
) -> Result<(), fold::Error> {
    let Some(rule) = recorder.state.hook_due(place).cloned() else {
        return Ok(());
    };
    let event = match place.point {
        HookPoint::Turn { event, .. } => event,
        HookPoint::Call(_) => HookEvent::BeforeToolCall,
    };
    let branch = recorder.state.hook_job(place).map(|job| job.branch);
    let (answer, pins) = event::from_reply(&rule, event, reply);
    let denied = answer.denied.clone();
    let hook = rule.name.clone();
    recorder.record(Fact::HookAnswered {
        place,
        hook,
        answer,
    })?;
    if let Some(branch) = branch {
        pin_all(recorder, &branch, &pins)?;
    }
    match (place.point, denied) {
        (HookPoint::Turn { turn, .. }, Some(reason)) => {
            let reason = format!("the hook `{}` denied it: {reason}", rule.name);
            recorder.fail_turn(turn, DENIED, reason)
        }
        (HookPoint::Turn { .. }, None) => Ok(()),
        (HookPoint::Call(call), _) => calls::start_of_run(recorder, call.run),
    }
}

/// Pins the messages that are on the branch; others are ignored.
fn pin_all(
    recorder: &mut Recorder<'_>,
    branch: &Arc<str>,
    pins: &[MessageReference],
) -> Result<(), fold::Error> {
    for named in pins {
        let tree = &recorder.state.tree;
        let message: Option<MessageId> = match named {
            MessageReference::Id(id) => Some(*id),
            MessageReference::Number(number) => {
                let head = tree.head(branch);
                let node = head.and_then(|head| tree.node_at(head, *number));
                node.map(|node| node.message.id)
            }
        };
        let Some(message) = message else { continue };
        // A message on no branch, or on another one, is ignored.
        let pinned = pin::handle(recorder, branch, &[message], true);
        if let Err(Refusal::Fold(error)) = pinned {
            return Err(error);
        }
    }
    Ok(())
}
