//! The hooks of a turn, as rules: their events, and the effect of their failure.

use std::sync::Arc;

use super::matches;

/// The event about which hooks are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookEvent {
    /// A task was accepted and its branch is free. A hook may deny it.
    TurnAccepted,
    /// A checkpoint is about to be made.
    BeforeCompaction,
    /// A checkpoint was made.
    AfterCompaction,
    /// A tool is about to be called. A hook may deny it.
    BeforeToolCall,
    /// A turn has ended, whatever its work.
    TurnEnded,
}

unisono_context::names!(HookEvent {
    TurnAccepted = "turn_accepted",
    BeforeCompaction = "before_compaction",
    AfterCompaction = "after_compaction",
    BeforeToolCall = "before_tool_call",
    TurnEnded = "turn_ended",
});

impl HookEvent {
    /// Whether hooks may deny the event.
    pub const fn may_deny(self) -> bool {
        matches!(self, HookEvent::TurnAccepted | HookEvent::BeforeToolCall)
    }
}

/// A hook as the session knows it: its events, and the effect of its failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRule {
    /// Its name.
    pub name: Arc<str>,
    /// Its events.
    pub events: Vec<HookEvent>,
    /// Patterns of the tools before whose calls it is asked; empty: all.
    pub tools: Vec<Arc<str>>,
    /// The effect of its failure to answer.
    pub on_failure: HookFailurePolicy,
}

impl HookRule {
    /// Whether it is asked before calls of this tool.
    pub fn applies_to(&self, tool: &str) -> bool {
        self.events.contains(&HookEvent::BeforeToolCall)
            && (self.tools.is_empty() || self.tools.iter().any(|pattern| matches(pattern, tool)))
    }
}

/// The effect of a hook that does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HookFailurePolicy {
    /// The session continues without its answer.
    #[default]
    Ignore,
    /// The event is denied if it can be denied.
    Deny,
}
