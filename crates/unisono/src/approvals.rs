//! Tool calls that wait for a person, and decisions about them, in the types of the API.

use std::future::pending;
use std::sync::Arc;

use unisono_api::Code;
use unisono_api::approval::{Approval, Decide, Verdict};
use unisono_context::{SessionId, TurnId};
use unisono_runtime::{Error as RuntimeError, Handle};
use unisono_session::event::{HookPlace, HookPoint};
use unisono_session::run::calls::{CallDecision, CallStatus, WaitingCall};
use unisono_session::{Fact, State};

use crate::error::Error;
use crate::values;
use crate::view::Inspect;

/// The calls of a turn that wait for a person. If the turn is queued: those of the turn that it waits
/// for.
///
/// # Errors
/// The session cannot be opened.
pub async fn waiting(
    session: &impl Inspect,
    turn: TurnId,
) -> Result<Vec<WaitingCall>, RuntimeError> {
    let look = move |state: &State| waiting_in(state, turn);
    session.inspect(look).await
}

pub(crate) fn waiting_in(state: &State, turn: TurnId) -> Vec<WaitingCall> {
    let own = state.waiting_calls().filter(|call| call.turn == turn);
    own.chain(state.waiting_calls_ahead(turn)).collect()
}

/// The calls that a new turn of a branch would wait for: those of the branch's active turn that wait
/// for a person.
///
/// # Errors
/// The session cannot be opened.
pub async fn waiting_on(session: &Handle, branch: &str) -> Result<Vec<WaitingCall>, RuntimeError> {
    let branch = branch.to_owned();
    let look = move |state: &State| -> Vec<WaitingCall> {
        let waiting = state.waiting_calls_on(&branch);
        waiting.collect()
    };
    session.inspect(look).await
}

/// Waits until calls of a turn wait for a person, or, if it is queued, of the turn that it waits for.
/// It never returns if none does.
pub async fn until_waiting(session: &Handle, turn: TurnId) -> Vec<WaitingCall> {
    match next_waiting(session, turn).await {
        Ok(waiting) => waiting,
        Err(error) => {
            tracing::debug!(%error, "calls that wait cannot be followed");
            pending().await
        }
    }
}

async fn next_waiting(session: &Handle, turn: TurnId) -> Result<Vec<WaitingCall>, RuntimeError> {
    loop {
        let look = move |state: &State| (state.events(), waiting_in(state, turn));
        let (seen, waiting) = session.inspect(look).await?;
        if !waiting.is_empty() {
            return Ok(waiting);
        }
        let mut events = session.events(seen).await?;
        while let Some((_, event)) = events.next().await? {
            if can_wait(&event.fact) {
                break;
            }
        }
    }
}

/// Whether a call may wait for a person after this fact.
fn can_wait(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::ToolsCalled { .. }
            | Fact::ToolInDoubt { .. }
            // The hook let the call through.
            | Fact::HookAnswered {
                place: HookPlace {
                    point: HookPoint::Call(_),
                    ..
                },
                ..
            }
    )
}

/// The decision of a person.
///
/// # Errors
/// A text is missing.
pub(crate) fn decision(asked: &Decide) -> Result<CallDecision, Error> {
    let text = asked.text.as_deref().filter(|text| !text.trim().is_empty());
    let wanted = || {
        let missing =
            "`text` is missing: give the text that the model receives instead of the result";
        text.map(Arc::from)
            .ok_or_else(|| Error::new(Code::InvalidRequest, missing))
    };
    Ok(match asked.decision {
        Verdict::Approve => CallDecision::Approved,
        Verdict::Deny => CallDecision::Denied {
            reason: text.map(Arc::from),
        },
        Verdict::Done => CallDecision::Done { text: wanted()? },
        Verdict::Failed => CallDecision::Failed { text: wanted()? },
        Verdict::Repeat => CallDecision::Repeat,
    })
}

pub(crate) fn to_api(session: SessionId, waiting: &WaitingCall) -> Approval {
    let planned = &waiting.call.planned;
    let approval = planned.approval.as_ref();
    let in_doubt = waiting.call.status == CallStatus::InDoubt;
    Approval {
        call: waiting.id.to_string(),
        kind: if in_doubt { "in_doubt" } else { "approval" }.to_owned(),
        session: session.to_string(),
        turn: waiting.turn.to_string(),
        run: waiting.place.run.to_string(),
        agent: waiting.agent.to_string(),
        tool: planned.tool.to_string(),
        arguments: serde_json::from_str(&planned.arguments).unwrap_or_default(),
        contract: planned.contract.name().to_owned(),
        rule: approval.map(|approval| approval.rule.to_string()),
        requested_at: values::instant(waiting.call.asked_at),
        // A call in doubt waits without limit, whether or not a person had approved it.
        expires_at: approval
            .filter(|_| !in_doubt)
            .and_then(|approval| approval.until)
            .map(values::instant),
    }
}

#[cfg(test)]
mod tests {
    use unisono_context::{CallId, RunId, Timestamp};
    use unisono_session::run::calls::{self, CallPlace, PlannedCall, TrackedCall};
    use unisono_session::tool::Contract;

    use super::*;

    #[test]
    fn only_a_call_that_waits_for_approval_is_denied_by_itself() {
        let waiting = |status: CallStatus| WaitingCall {
            id: CallId::from_u128(1),
            place: CallPlace {
                run: RunId::from_u128(2),
                round: 1,
                index: 0,
            },
            turn: TurnId::from_u128(3),
            agent: "clerk".into(),
            call: TrackedCall {
                planned: PlannedCall {
                    call_id: "c".into(),
                    tool: "files__send".into(),
                    arguments: "{}".into(),
                    contract: Contract::AtMostOnce,
                    approval: Some(calls::Approval {
                        rule: "files__send".into(),
                        until: Some(Timestamp(1_000)),
                    }),
                    hooks: Vec::new(),
                    permitted: None,
                },
                asked_at: Timestamp(0),
                status,
                task: None,
            },
        };
        for (status, kind, expires) in [
            (CallStatus::AwaitingApproval, "approval", true),
            (CallStatus::InDoubt, "in_doubt", false),
        ] {
            let shown = to_api(SessionId::from_u128(4), &waiting(status));
            assert_eq!((&*shown.kind, shown.expires_at.is_some()), (kind, expires));
        }
    }
}
