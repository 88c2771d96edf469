//! What a turn is to do.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::record::policy::Policy;
use crate::record::snapshot::ToolSpec;
use crate::record::turn as v2;
use crate::record::turn::Work;

/// What a turn is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AcceptedTurn {
    pub(super) id: u128,
    pub(super) branch: Arc<str>,
    pub(super) work: Work,
    pub(super) policy: Policy,
    pub(super) safety_ppm: u32,
    pub(super) lead: [u8; 32],
    pub(super) delegates: Vec<([u8; 32], Option<Arc<str>>)>,
    pub(super) tools: Vec<ToolSpec>,
}

/// A lead could not delegate by itself, and every model's tokens were counted exactly.
impl From<AcceptedTurn> for v2::AcceptedTurn {
    fn from(turn: AcceptedTurn) -> Self {
        Self {
            id: turn.id,
            branch: turn.branch,
            work: turn.work,
            policy: turn.policy,
            safety_ppm: turn.safety_ppm,
            lead: turn.lead,
            delegates: turn.delegates,
            tools: turn.tools,
            available: Vec::new(),
            calibrations: Vec::new(),
            delegation: v2::DelegationLimits {
                depth: 1,
                live_runs: 64,
            },
        }
    }
}
