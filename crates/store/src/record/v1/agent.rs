//! Agent definitions.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::record::agent as v2;
use crate::record::agent::{CacheWarm, ContextMode, Kind, Limits, OnFailure, PrefixMode};

/// An agent as it was loaded.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Definition {
    pub(super) id: Arc<str>,
    pub(super) description: Arc<str>,
    pub(super) instructions: Arc<str>,
    pub(super) kind: Kind,
    pub(super) model: Arc<str>,
    pub(super) limits: Limits,
    pub(super) tools: Vec<Arc<str>>,
    pub(super) max_turns: u32,
    pub(super) timeout_ms: u64,
    pub(super) retries: u32,
    pub(super) max_concurrent: u32,
    pub(super) context: ContextMode,
    pub(super) prefix: PrefixMode,
    pub(super) on_failure: OnFailure,
    pub(super) delegates: Vec<Arc<str>>,
    pub(super) tags: Vec<Arc<str>>,
}

impl From<Definition> for v2::Definition {
    fn from(definition: Definition) -> Self {
        Self {
            id: definition.id,
            description: definition.description,
            instructions: definition.instructions,
            kind: definition.kind,
            model: definition.model,
            limits: definition.limits,
            tools: definition.tools,
            max_turns: definition.max_turns,
            timeout_ms: definition.timeout_ms,
            retries: definition.retries,
            max_concurrent: definition.max_concurrent,
            context: definition.context,
            prefix: definition.prefix,
            on_failure: definition.on_failure,
            delegates: definition.delegates,
            tags: definition.tags,
            output_schema: None,
            temperature_milli: None,
            cache_warm: CacheWarm::Leader,
        }
    }
}
