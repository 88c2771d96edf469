//! Rules about tools, and calls of them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unisono_context::{AgentId, RunId, Timestamp};
use unisono_session::run::calls;
use unisono_session::tool;

use super::codes::codes;

codes!(
    /// What a repeated call does.
    Contract = tool::Contract {
        Pure,
        Idempotent,
        AtMostOnce,
    }
);

/// Which calls wait for a person.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ApprovalRule {
    agent: Option<Arc<str>>,
    tool: Arc<str>,
    arguments: Vec<(Arc<str>, Arc<str>)>,
}

/// The rules of turns.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Rules {
    contracts: Vec<(Arc<str>, Contract)>,
    approvals: Vec<ApprovalRule>,
    approval_timeout_ms: Option<u64>,
}

/// Where a call is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CallPlace {
    run: u128,
    round: u32,
    index: u32,
}

/// Why a call waits, and until when.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Approval {
    rule: Arc<str>,
    until: Option<i64>,
}

/// A call that is to be made.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PlannedCall {
    call_id: Arc<str>,
    tool: Arc<str>,
    arguments: Arc<str>,
    contract: Contract,
    approval: Option<Approval>,
}

/// What a call came back with.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Output {
    content: Arc<str>,
    is_error: bool,
}

/// What was decided about a call. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Decision {
    Approved,
    Denied { reason: Option<Arc<str>> },
    Expired,
    Done { text: Arc<str> },
    Repeat,
    Failed { text: Arc<str> },
}

impl From<&tool::Rules> for Rules {
    fn from(rules: &tool::Rules) -> Self {
        let contracts = rules.contracts.iter();
        let approvals = rules.approvals.iter().map(|rule| ApprovalRule {
            agent: rule.agent.as_ref().map(|agent| agent.as_str().into()),
            tool: rule.tool.clone(),
            arguments: rule.arguments.clone(),
        });
        Self {
            contracts: contracts
                .map(|(name, contract)| (name.clone(), (*contract).into()))
                .collect(),
            approvals: approvals.collect(),
            approval_timeout_ms: rules.approval_timeout_ms,
        }
    }
}

impl From<Rules> for tool::Rules {
    fn from(rules: Rules) -> Self {
        let contracts = rules.contracts.into_iter();
        let approvals = rules.approvals.into_iter().map(|rule| tool::ApprovalRule {
            agent: rule.agent.map(AgentId::new),
            tool: rule.tool,
            arguments: rule.arguments,
        });
        Self {
            contracts: contracts
                .map(|(name, contract)| (name, contract.into()))
                .collect(),
            approvals: approvals.collect(),
            approval_timeout_ms: rules.approval_timeout_ms,
        }
    }
}

impl From<calls::CallPlace> for CallPlace {
    fn from(place: calls::CallPlace) -> Self {
        Self {
            run: place.run.as_u128(),
            round: place.round,
            index: place.index,
        }
    }
}

impl From<CallPlace> for calls::CallPlace {
    fn from(place: CallPlace) -> Self {
        Self {
            run: RunId::from_u128(place.run),
            round: place.round,
            index: place.index,
        }
    }
}

impl From<&calls::PlannedCall> for PlannedCall {
    fn from(call: &calls::PlannedCall) -> Self {
        Self {
            call_id: call.call_id.clone(),
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
            contract: call.contract.into(),
            approval: call.approval.as_ref().map(|approval| Approval {
                rule: approval.rule.clone(),
                until: approval.until.map(|at| at.0),
            }),
        }
    }
}

impl From<PlannedCall> for calls::PlannedCall {
    fn from(call: PlannedCall) -> Self {
        Self {
            call_id: call.call_id,
            tool: call.tool,
            arguments: call.arguments,
            contract: call.contract.into(),
            approval: call.approval.map(|approval| calls::Approval {
                rule: approval.rule,
                until: approval.until.map(Timestamp),
            }),
        }
    }
}

impl From<&calls::Output> for Output {
    fn from(output: &calls::Output) -> Self {
        Self {
            content: output.content.clone(),
            is_error: output.is_error,
        }
    }
}

impl From<Output> for calls::Output {
    fn from(output: Output) -> Self {
        Self {
            content: output.content,
            is_error: output.is_error,
        }
    }
}

impl From<&calls::Decision> for Decision {
    fn from(decision: &calls::Decision) -> Self {
        use calls::Decision as Decided;
        match decision {
            Decided::Approved => Self::Approved,
            Decided::Denied { reason } => Self::Denied {
                reason: reason.clone(),
            },
            Decided::Expired => Self::Expired,
            Decided::Done { text } => Self::Done { text: text.clone() },
            Decided::Repeat => Self::Repeat,
            Decided::Failed { text } => Self::Failed { text: text.clone() },
        }
    }
}

impl From<Decision> for calls::Decision {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Approved => Self::Approved,
            Decision::Denied { reason } => Self::Denied { reason },
            Decision::Expired => Self::Expired,
            Decision::Done { text } => Self::Done { text },
            Decision::Repeat => Self::Repeat,
            Decision::Failed { text } => Self::Failed { text },
        }
    }
}
