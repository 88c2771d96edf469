//! Runs: what an agent was given, its steps, and how it ended.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unisono_context::cost::Cost;
use unisono_context::{AgentId, Digest, RunId, SnapshotId, Tokens, TurnId};
use unisono_session::{event, run};

use super::Invalid;
use super::codes::codes;

codes!(
    /// Why an attempt failed.
    Cause = run::Cause {
        Panic,
        Timeout,
        Spawn,
        Exit,
        BadOutput,
        Model,
        Busy,
        BadInput,
        SnapshotMismatch,
        Unavailable,
        Rejected,
        Overflow,
        Refused,
        Budget,
        Stuck,
    }
);

codes!(
    /// Why a reply ended.
    Stop = run::Stop {
        Complete,
        CutOff,
        Refused,
    }
);

/// What a run's agent was given.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OpenedRun {
    pub(super) id: u128,
    pub(super) turn: u128,
    pub(super) role: RunRole,
    pub(super) agent: Arc<str>,
    pub(super) definition: [u8; 32],
    pub(super) snapshot: Option<[u8; 32]>,
    pub(super) prefix: [u8; 32],
}

/// A run's place in its turn. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum RunRole {
    Delegate {
        index: u32,
    },
    Lead,
    Child {
        parent: u128,
        round: u32,
        index: u32,
    },
}

/// A task that an agent gave to another one.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DelegatedCall {
    call_id: Arc<str>,
    agent: Arc<str>,
    task: Arc<str>,
    refused: Option<Arc<str>>,
}

/// A finished step. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Step {
    Model(Reply),
    Tools(Vec<ToolResult>),
    Named {
        name: Arc<str>,
        result: Arc<str>,
    },
    // Since version 3.
    Narrowed {
        room_tokens: u64,
    },
    Spent(Usage),
    SpentInstead {
        usage: Usage,
        stand_in: Arc<str>,
    },
    NarrowedReply {
        room_tokens: u64,
        output_tokens: u64,
    },
    StoodIn(Reply, Sent),
}

impl Step {
    /// The version that knew it first.
    pub(super) const fn since(&self) -> u16 {
        match self {
            Self::Model(_) | Self::Tools(_) | Self::Named { .. } => 2,
            Self::Narrowed { .. }
            | Self::Spent(_)
            | Self::SpentInstead { .. }
            | Self::NarrowedReply { .. }
            | Self::StoodIn(..) => 3,
        }
    }
}

/// What a model replied.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Reply {
    pub(super) text: Arc<str>,
    pub(super) calls: Vec<ToolCall>,
    pub(super) verbatim: Option<Arc<str>>,
    pub(super) usage: Usage,
    pub(super) stop: Stop,
    pub(super) stand_in: Option<Arc<str>>,
    pub(super) request_id: Option<Arc<str>>,
}

/// How a model was asked that stood in.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sent {
    prefix: [u8; 32],
    max_output_tokens: u64,
}

/// A call a model made.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ToolCall {
    id: Arc<str>,
    name: Arc<str>,
    arguments: Arc<str>,
}

/// What a tool answered.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ToolResult {
    call_id: Arc<str>,
    content: Arc<str>,
    is_error: bool,
}

/// What was used: tokens, and pico-dollars where the price is known.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_expected: u64,
    pub(super) cache_read: u64,
    pub(super) cache_write: u64,
    pub(super) cost: Option<u128>,
}

impl From<&event::OpenedRun> for OpenedRun {
    fn from(run: &event::OpenedRun) -> Self {
        Self {
            id: run.id.as_u128(),
            turn: run.turn.as_u128(),
            role: run.role.into(),
            agent: run.agent.as_str().into(),
            definition: run.definition.0,
            snapshot: run.snapshot.map(|id| id.0.0),
            prefix: run.prefix.0,
        }
    }
}

impl From<OpenedRun> for event::OpenedRun {
    fn from(run: OpenedRun) -> Self {
        Self {
            id: RunId::from_u128(run.id),
            turn: TurnId::from_u128(run.turn),
            role: run.role.into(),
            agent: AgentId::new(run.agent),
            definition: Digest(run.definition),
            snapshot: run.snapshot.map(|id| SnapshotId(Digest(id))),
            prefix: Digest(run.prefix),
        }
    }
}

impl From<event::RunRole> for RunRole {
    fn from(role: event::RunRole) -> Self {
        match role {
            event::RunRole::Delegate { index } => Self::Delegate { index },
            event::RunRole::Lead => Self::Lead,
            event::RunRole::Child {
                parent,
                round,
                index,
            } => Self::Child {
                parent: parent.as_u128(),
                round,
                index,
            },
        }
    }
}

impl From<RunRole> for event::RunRole {
    fn from(role: RunRole) -> Self {
        match role {
            RunRole::Delegate { index } => Self::Delegate { index },
            RunRole::Lead => Self::Lead,
            RunRole::Child {
                parent,
                round,
                index,
            } => Self::Child {
                parent: RunId::from_u128(parent),
                round,
                index,
            },
        }
    }
}

impl From<&event::DelegatedCall> for DelegatedCall {
    fn from(call: &event::DelegatedCall) -> Self {
        Self {
            call_id: call.call_id.clone(),
            agent: call.agent.as_str().into(),
            task: call.task.clone(),
            refused: call.refused.clone(),
        }
    }
}

impl From<DelegatedCall> for event::DelegatedCall {
    fn from(call: DelegatedCall) -> Self {
        Self {
            call_id: call.call_id,
            agent: AgentId::new(call.agent),
            task: call.task,
            refused: call.refused,
        }
    }
}

impl From<&run::Step> for Step {
    fn from(step: &run::Step) -> Self {
        match step {
            run::Step::Model(reply) => match Sent::of(reply) {
                None => Self::Model(reply.into()),
                Some(sent) => Self::StoodIn(reply.into(), sent),
            },
            run::Step::Tools(results) => {
                Self::Tools(results.iter().map(ToolResult::from).collect())
            }
            run::Step::Named { name, result } => Self::Named {
                name: name.clone(),
                result: result.clone(),
            },
            run::Step::Narrowed { room, output } => match output {
                None => Self::Narrowed {
                    room_tokens: room.0,
                },
                Some(output) => Self::NarrowedReply {
                    room_tokens: room.0,
                    output_tokens: output.0,
                },
            },
            run::Step::Spent(run::Spent { usage, stand_in }) => match stand_in.clone() {
                None => Self::Spent((*usage).into()),
                Some(stand_in) => Self::SpentInstead {
                    usage: (*usage).into(),
                    stand_in,
                },
            },
        }
    }
}

impl TryFrom<Step> for run::Step {
    type Error = Invalid;

    fn try_from(step: Step) -> Result<Self, Invalid> {
        Ok(match step {
            Step::Model(reply) => Self::Model(reply.into()),
            Step::StoodIn(reply, sent) => Self::Model(sent.with(reply)?),
            Step::Tools(results) => Self::Tools(results.into_iter().map(Into::into).collect()),
            Step::Named { name, result } => Self::Named { name, result },
            Step::Narrowed { room_tokens } => Self::Narrowed {
                room: Tokens(room_tokens),
                output: None,
            },
            Step::NarrowedReply {
                room_tokens,
                output_tokens,
            } => Self::Narrowed {
                room: Tokens(room_tokens),
                output: Some(Tokens(output_tokens)),
            },
            Step::Spent(usage) => Self::Spent(run::Spent {
                usage: usage.into(),
                stand_in: None,
            }),
            Step::SpentInstead { usage, stand_in } => Self::Spent(run::Spent {
                usage: usage.into(),
                stand_in: Some(stand_in),
            }),
        })
    }
}

impl Sent {
    /// What is known of how the model was asked whose reply this is.
    pub(super) fn of(reply: &run::Reply) -> Option<Sent> {
        let sent = reply.stand_in.as_ref()?.sent?;
        Some(Sent {
            prefix: sent.prefix.0,
            max_output_tokens: sent.max_output.0,
        })
    }

    /// The reply of a model that was asked so.
    pub(super) fn with(self, reply: Reply) -> Result<run::Reply, Invalid> {
        let mut reply = run::Reply::from(reply);
        let by = reply.stand_in.as_mut().ok_or(Invalid::Own)?;
        by.sent = Some(run::Sent {
            prefix: Digest(self.prefix),
            max_output: Tokens(self.max_output_tokens),
        });
        Ok(reply)
    }
}

impl From<&run::Reply> for Reply {
    fn from(reply: &run::Reply) -> Self {
        Self {
            text: reply.text.clone(),
            calls: reply.calls.iter().map(ToolCall::from).collect(),
            verbatim: reply.verbatim.clone(),
            usage: reply.usage.into(),
            stop: reply.stop.into(),
            stand_in: reply.stand_in.as_ref().map(|by| by.model.clone()),
            request_id: reply.request_id.clone(),
        }
    }
}

impl From<Reply> for run::Reply {
    fn from(reply: Reply) -> Self {
        Self {
            text: reply.text,
            calls: reply.calls.into_iter().map(Into::into).collect(),
            verbatim: reply.verbatim,
            usage: reply.usage.into(),
            stop: reply.stop.into(),
            stand_in: reply.stand_in.map(run::StandIn::named),
            request_id: reply.request_id,
        }
    }
}

impl From<&run::ToolCall> for ToolCall {
    fn from(call: &run::ToolCall) -> Self {
        Self {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        }
    }
}

impl From<ToolCall> for run::ToolCall {
    fn from(call: ToolCall) -> Self {
        Self {
            id: call.id,
            name: call.name,
            arguments: call.arguments,
        }
    }
}

impl From<&run::ToolResult> for ToolResult {
    fn from(result: &run::ToolResult) -> Self {
        Self {
            call_id: result.call_id.clone(),
            content: result.content.clone(),
            is_error: result.is_error,
        }
    }
}

impl From<ToolResult> for run::ToolResult {
    fn from(result: ToolResult) -> Self {
        Self {
            call_id: result.call_id,
            content: result.content,
            is_error: result.is_error,
        }
    }
}

impl From<run::Usage> for Usage {
    fn from(usage: run::Usage) -> Self {
        Self {
            input: usage.input.0,
            output: usage.output.0,
            cache_expected: usage.cache_expected.0,
            cache_read: usage.cache_read.0,
            cache_write: usage.cache_write.0,
            cost: usage.cost.map(|cost| cost.0),
        }
    }
}

impl From<Usage> for run::Usage {
    fn from(usage: Usage) -> Self {
        Self {
            input: Tokens(usage.input),
            output: Tokens(usage.output),
            cache_expected: Tokens(usage.cache_expected),
            cache_read: Tokens(usage.cache_read),
            cache_write: Tokens(usage.cache_write),
            cost: usage.cost.map(Cost),
        }
    }
}
