//! The hooks of a turn, as rules: when each is asked, and what its failure stands for.

use std::sync::Arc;

use super::matches;

/// When hooks are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookEvent {
    /// A task was accepted and its branch is free. It may be denied.
    TurnAccepted,
    /// A checkpoint is about to be made.
    BeforeCompaction,
    /// A checkpoint was made.
    AfterCompaction,
    /// A tool is about to be called. It may be denied.
    BeforeToolCall,
    /// A turn has ended, whatever it was for.
    TurnEnded,
}

impl HookEvent {
    /// All of them.
    pub const ALL: [HookEvent; 5] = [
        HookEvent::TurnAccepted,
        HookEvent::BeforeCompaction,
        HookEvent::AfterCompaction,
        HookEvent::BeforeToolCall,
        HookEvent::TurnEnded,
    ];

    /// As the configuration writes it.
    pub const fn name(self) -> &'static str {
        match self {
            HookEvent::TurnAccepted => "turn_accepted",
            HookEvent::BeforeCompaction => "before_compaction",
            HookEvent::AfterCompaction => "after_compaction",
            HookEvent::BeforeToolCall => "before_tool_call",
            HookEvent::TurnEnded => "turn_ended",
        }
    }

    /// Whether what happens then can be denied.
    pub const fn may_deny(self) -> bool {
        matches!(self, HookEvent::TurnAccepted | HookEvent::BeforeToolCall)
    }
}

/// A hook as the session knows it: what it is asked about, and what its failure means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRule {
    /// Its name.
    pub name: Arc<str>,
    /// When it is asked.
    pub events: Vec<HookEvent>,
    /// Before calls of which tools: patterns. None: all.
    pub tools: Vec<Arc<str>>,
    /// What a hook that gives no answer stands for.
    pub on_failure: HookFailurePolicy,
}

impl HookRule {
    /// Whether it is asked before calls of that tool.
    pub fn applies_to(&self, tool: &str) -> bool {
        self.events.contains(&HookEvent::BeforeToolCall)
            && (self.tools.is_empty() || self.tools.iter().any(|pattern| matches(pattern, tool)))
    }
}

/// What a hook that gives no answer stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HookFailurePolicy {
    /// The session goes on as if there were no hook.
    #[default]
    Ignore,
    /// What can be denied is denied.
    Deny,
}
