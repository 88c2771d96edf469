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

impl HookEvent {
    /// All events.
    pub const ALL: [HookEvent; 5] = [
        HookEvent::TurnAccepted,
        HookEvent::BeforeCompaction,
        HookEvent::AfterCompaction,
        HookEvent::BeforeToolCall,
        HookEvent::TurnEnded,
    ];

    /// The name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            HookEvent::TurnAccepted => "turn_accepted",
            HookEvent::BeforeCompaction => "before_compaction",
            HookEvent::AfterCompaction => "after_compaction",
            HookEvent::BeforeToolCall => "before_tool_call",
            HookEvent::TurnEnded => "turn_ended",
        }
    }

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
