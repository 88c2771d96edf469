//! How runs ended, and what came from those that were cancelled.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unisono_session::{event, run};

use super::Invalid;
use super::run::{Cause, Reply, Sent, ToolCall, Usage};

/// How a run ended. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Ending {
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
    // With calls that whoever asked makes.
    HandedOver {
        text: Arc<str>,
        calls: Vec<ToolCall>,
        partial: Option<Arc<str>>,
        usage: Usage,
        duration_ms: u64,
    },
}

/// What came from a run that was cancelled. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Late {
    Reply(Reply),
    Answer {
        text: Arc<str>,
        partial: Option<Arc<str>>,
        usage: Usage,
    },
    Spent {
        usage: Usage,
        stand_in: Option<Arc<str>>,
    },
    StoodIn(Reply, Sent),
}

impl From<&event::Late> for Late {
    fn from(late: &event::Late) -> Self {
        match late {
            event::Late::Reply(reply) => match Sent::of(reply) {
                None => Self::Reply(reply.into()),
                Some(sent) => Self::StoodIn(reply.into(), sent),
            },
            event::Late::Answer {
                text,
                partial,
                usage,
            } => Self::Answer {
                text: text.clone(),
                partial: partial.clone(),
                usage: (*usage).into(),
            },
            event::Late::Spent(run::Spent { usage, stand_in }) => Self::Spent {
                usage: (*usage).into(),
                stand_in: stand_in.clone(),
            },
        }
    }
}

impl TryFrom<Late> for event::Late {
    type Error = Invalid;

    fn try_from(late: Late) -> Result<Self, Invalid> {
        Ok(match late {
            Late::Reply(reply) => Self::Reply(reply.into()),
            Late::StoodIn(reply, sent) => Self::Reply(sent.with(reply)?),
            Late::Answer {
                text,
                partial,
                usage,
            } => Self::Answer {
                text,
                partial,
                usage: usage.into(),
            },
            Late::Spent { usage, stand_in } => Self::Spent(run::Spent {
                usage: usage.into(),
                stand_in,
            }),
        })
    }
}

impl From<&run::Ending> for Ending {
    fn from(ending: &run::Ending) -> Self {
        match ending {
            run::Ending::Finished {
                text,
                calls,
                partial,
                usage,
                duration_ms,
            } => {
                let (text, partial) = (text.clone(), partial.clone());
                let (usage, duration_ms) = ((*usage).into(), *duration_ms);
                match &calls[..] {
                    [] => Self::Finished {
                        text,
                        partial,
                        usage,
                        duration_ms,
                    },
                    calls => Self::HandedOver {
                        text,
                        calls: calls.iter().map(ToolCall::from).collect(),
                        partial,
                        usage,
                        duration_ms,
                    },
                }
            }
            run::Ending::Failed {
                cause,
                reason,
                duration_ms,
            } => Self::Failed {
                cause: (*cause).into(),
                reason: reason.clone(),
                duration_ms: *duration_ms,
            },
            run::Ending::Cancelled => Self::Cancelled,
        }
    }
}

impl TryFrom<Ending> for run::Ending {
    type Error = Invalid;

    fn try_from(ending: Ending) -> Result<Self, Invalid> {
        Ok(match ending {
            Ending::HandedOver { calls, .. } if calls.is_empty() => return Err(Invalid::Alone),
            Ending::HandedOver {
                text,
                calls,
                partial,
                usage,
                duration_ms,
            } => Self::Finished {
                text,
                calls: calls.into_iter().map(Into::into).collect(),
                partial,
                usage: usage.into(),
                duration_ms,
            },
            Ending::Finished {
                text,
                partial,
                usage,
                duration_ms,
            } => Self::Finished {
                text,
                calls: Vec::new(),
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
        })
    }
}
