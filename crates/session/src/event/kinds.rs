//! What each fact is called, and what it says. The book's page of events is made of this list.

use super::Fact;

impl Fact {
    /// Its name: stable, in lower case with underscores.
    pub const fn name(&self) -> &'static str {
        self.kind().0
    }

    /// Its name, and what happened.
    pub const fn kind(&self) -> (&'static str, &'static str) {
        match self {
            Fact::Created { .. } => ("created", "the session was made"),
            Fact::Appended { .. } => ("appended", "a message was added to a branch"),
            Fact::BranchSet { .. } => ("branch_set", "a branch was started, or set to a message"),
            Fact::Counted { .. } => ("counted", "the tokens of messages were counted"),
            Fact::PreambleCounted { .. } => (
                "preamble_counted",
                "the tokens of the system text and the tools were counted",
            ),
            Fact::Defined { .. } => ("defined", "an agent was recorded as it was defined then"),
            Fact::TurnAccepted { .. } => (
                "turn_accepted",
                "something was asked; from here on it is not lost",
            ),
            Fact::TurnStarted { .. } => ("turn_started", "work on the turn began"),
            Fact::CompactionPlanned { .. } => {
                ("compaction_planned", "a step of a compaction was decided")
            }
            Fact::Altered { .. } => ("altered", "messages were masked or cut in the context"),
            Fact::Compacted { .. } => ("compacted", "a summary was stored as a checkpoint"),
            Fact::CompactionFailed { .. } => (
                "compaction_failed",
                "a step of a compaction could not be carried out",
            ),
            Fact::SummariserUsed { .. } => {
                ("summariser_used", "a summariser's calls were paid for")
            }
            Fact::Frozen { .. } => (
                "frozen",
                "the context was frozen; all agents of the turn get this snapshot",
            ),
            Fact::RunOpened { .. } => ("run_opened", "an agent was given its task"),
            Fact::RunStepped { .. } => (
                "run_stepped",
                "an agent finished a step: a reply, results of tools, a summary of its oldest rounds",
            ),
            Fact::Delegated { .. } => ("delegated", "an agent gave tasks to others"),
            Fact::RunRetried { .. } => {
                ("run_retried", "an attempt failed, and another one follows")
            }
            Fact::RunEnded { .. } => (
                "run_ended",
                "an agent came to an end: an answer, a part of one, a failure",
            ),
            Fact::TurnEnded { .. } => ("turn_ended", "the turn came to an end"),
            Fact::CameLate { .. } => (
                "came_late",
                "something came back of a run that had been cancelled",
            ),
            Fact::Pinned { .. } => ("pinned", "messages were pinned"),
            Fact::Unpinned { .. } => ("unpinned", "messages were unpinned"),
            Fact::Restored { .. } => ("restored", "a checkpoint was taken back"),
            Fact::PhrasesSet { .. } => {
                ("phrases_set", "the phrases that end a topic were recorded")
            }
            Fact::InstructionsSet { .. } => (
                "instructions_set",
                "what the project tells every agent was recorded",
            ),
            Fact::TopicsDecided { .. } => ("topics_decided", "it was decided where topics end"),
            Fact::TopicSealed { .. } => ("topic_sealed", "a person ended a topic"),
            Fact::TopicsImported { .. } => (
                "topics_imported",
                "topics came with an imported conversation",
            ),
            Fact::Measured { .. } => ("measured", "a provider counted the context"),
            Fact::ToolRulesSet { .. } => (
                "tool_rules_set",
                "the contracts of tools and the rules of approval were recorded",
            ),
            Fact::ToolsCalled { .. } => (
                "tools_called",
                "an agent called tools; nothing was made yet",
            ),
            Fact::ToolStarted { .. } => ("tool_started", "a call is being made"),
            Fact::ToolEnded { .. } => ("tool_ended", "a call came back"),
            Fact::ToolsAnswered { .. } => (
                "tools_answered",
                "an agent has the results of all calls of a reply",
            ),
            Fact::ToolInDoubt { .. } => (
                "tool_in_doubt",
                "a call may have been made before a crash; a person has to settle it",
            ),
            Fact::ToolDecided { .. } => ("tool_decided", "a person decided about a call"),
            Fact::Reserved { .. } => ("reserved", "a part of a budget was reserved for a call"),
            Fact::CallSettled { .. } => (
                "call_settled",
                "what a call used took the place of what was reserved",
            ),
            Fact::Posted { .. } => ("posted", "a message was added without a turn"),
            Fact::CallCapSet { .. } => (
                "call_cap_set",
                "how many calls of tools one reply may make was recorded",
            ),
            Fact::SettingsSet { .. } => ("settings_set", "the session's own settings were changed"),
        }
    }
}
