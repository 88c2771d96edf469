//! Tool calls that wait for a person, and decisions about them, in the types of the API.

use std::sync::Arc;

use unisono_api::Code;
use unisono_api::approval::{Approval, Decide, Verdict};
use unisono_context::SessionId;
use unisono_session::run::calls::{CallDecision, CallStatus, WaitingCall};

use crate::error::Error;
use crate::values;

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

/// A waiting call, in the types of the API.
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
        expires_at: approval
            .and_then(|approval| approval.until)
            .map(values::instant),
    }
}
