//! Steps of runs, and how they ended.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::record::ending as v2_ending;
use crate::record::run as v2;
use crate::record::run::{Stop, ToolCall, ToolResult};

/// Why an attempt failed. The order of the variants is the format.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Cause {
    Panic,
    Timeout,
    Spawn,
    Exit,
    BadOutput,
    Model,
    Busy,
    BadInput,
    SnapshotMismatch,
}

/// What a run's agent was given.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OpenedRun {
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
pub(super) enum RunRole {
    Delegate { index: u32 },
    Lead,
}

/// A finished step. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Step {
    Model(Reply),
    Tools(Vec<ToolResult>),
    Named { name: Arc<str>, result: Arc<str> },
}

/// What a model replied.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Reply {
    pub(super) text: Arc<str>,
    pub(super) calls: Vec<ToolCall>,
    pub(super) usage: Usage,
}

/// What was used, in tokens.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Usage {
    pub(super) input: u64,
    pub(super) output: u64,
}

/// How a run ended. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ending {
    Finished {
        text: Arc<str>,
        partial: Option<Arc<str>>,
        usage: Usage,
        duration_ms: u64,
    },
    Failed {
        cause: Cause,
        reason: Arc<str>,
        duration_ms: u64,
    },
    Cancelled,
}

impl From<Cause> for v2::Cause {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Panic => Self::Panic,
            Cause::Timeout => Self::Timeout,
            Cause::Spawn => Self::Spawn,
            Cause::Exit => Self::Exit,
            Cause::BadOutput => Self::BadOutput,
            Cause::Model => Self::Model,
            Cause::Busy => Self::Busy,
            Cause::BadInput => Self::BadInput,
            Cause::SnapshotMismatch => Self::SnapshotMismatch,
        }
    }
}

impl From<OpenedRun> for v2::OpenedRun {
    fn from(run: OpenedRun) -> Self {
        Self {
            id: run.id,
            turn: run.turn,
            role: match run.role {
                RunRole::Delegate { index } => v2::RunRole::Delegate { index },
                RunRole::Lead => v2::RunRole::Lead,
            },
            agent: run.agent,
            definition: run.definition,
            snapshot: run.snapshot,
            prefix: run.prefix,
        }
    }
}

impl From<Step> for v2::Step {
    fn from(step: Step) -> Self {
        match step {
            Step::Model(reply) => Self::Model(reply.into()),
            Step::Tools(results) => Self::Tools(results),
            Step::Named { name, result } => Self::Named { name, result },
        }
    }
}

/// Only replies that were not cut off or refused were kept as steps.
impl From<Reply> for v2::Reply {
    fn from(reply: Reply) -> Self {
        Self {
            text: reply.text,
            calls: reply.calls,
            verbatim: None,
            usage: reply.usage.into(),
            stop: Stop::Complete,
            stand_in: None,
            request_id: None,
        }
    }
}

/// What it cost was not recorded: unknown, but where no model was asked.
impl From<Usage> for v2::Usage {
    fn from(Usage { input, output }: Usage) -> Self {
        Self {
            input,
            output,
            cache_expected: 0,
            cache_read: 0,
            cache_write: 0,
            cost: (input == 0 && output == 0).then_some(0),
        }
    }
}

impl From<Ending> for v2_ending::Ending {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Finished {
                text,
                partial,
                usage,
                duration_ms,
            } => Self::Finished {
                text,
                partial,
                usage: usage.into(),
                duration_ms,
            },
            Ending::Failed {
                cause,
                reason,
                duration_ms,
            } => Self::Failed {
                cause: cause.into(),
                reason,
                duration_ms,
            },
            Ending::Cancelled => Self::Cancelled,
        }
    }
}
