//! The name and the description of each fact, from which the book's page of events is generated;
//! and the turn or run that it is about.

use unisono_context::message::NewMessage;
use unisono_context::{RunId, TurnId};

use super::{Fact, HookPoint, Work};

impl Fact {
    /// The message that it has, whether it stands in the tree already or not.
    pub const fn message(&self) -> Option<&NewMessage> {
        match self {
            Fact::Appended { message, .. } | Fact::Posted { message, .. } => Some(message),
            Fact::TurnAccepted { turn } => match &turn.work {
                Work::Answer { input, .. } => Some(input),
                _ => None,
            },
            _ => None,
        }
    }

    /// The turn that it is about; none: it is about a run, or about no turn.
    pub const fn turn(&self) -> Option<TurnId> {
        match self {
            Fact::TurnAccepted { turn } => Some(turn.id),
            Fact::TurnStarted { turn }
            | Fact::CompactionPlanned { turn, .. }
            | Fact::CompactionFailed { turn, .. }
            | Fact::SummariserUsed { turn, .. }
            | Fact::SummaryPrepared { turn, .. }
            | Fact::PreparationDropped { turn, .. }
            | Fact::Frozen { turn, .. }
            | Fact::TopicsDecided { turn, .. }
            | Fact::Measured { turn, .. }
            | Fact::TurnEnded { turn, .. } => Some(*turn),
            Fact::Altered { turn, .. }
            | Fact::Compacted { turn, .. }
            | Fact::Reverted { turn, .. } => *turn,
            Fact::PreparationPlanned { preparation } => Some(preparation.turn),
            Fact::RunOpened { run } => Some(run.turn),
            Fact::HookAnswered { place, .. } => match place.point {
                HookPoint::Turn { turn, .. } => Some(turn),
                HookPoint::Call(_) => None,
            },
            _ => None,
        }
    }

    /// The run that it is about.
    pub const fn run(&self) -> Option<RunId> {
        match self {
            Fact::RunOpened { run } => Some(run.id),
            Fact::RunStepped { run, .. }
            | Fact::Delegated { run, .. }
            | Fact::ToolsCalled { run, .. }
            | Fact::ToolsAnswered { run, .. }
            | Fact::RunRetried { run, .. }
            | Fact::Reserved { run, .. }
            | Fact::CallSettled { run, .. }
            | Fact::LateOutputReceived { run, .. }
            | Fact::RunEnded { run, .. } => Some(*run),
            Fact::HookAnswered { place, .. } => match place.point {
                HookPoint::Turn { .. } => None,
                HookPoint::Call(call) => Some(call.run),
            },
            Fact::ToolStarted { call }
            | Fact::ToolTaskStarted { call, .. }
            | Fact::ToolEnded { call, .. }
            | Fact::ToolInDoubt { call }
            | Fact::ToolDecided { call, .. } => Some(call.run),
            _ => None,
        }
    }

    /// Its name: stable, in lower case with underscores.
    pub const fn name(&self) -> &'static str {
        self.kind().0
    }

    /// Its name and its description.
    pub const fn kind(&self) -> (&'static str, &'static str) {
        match self {
            Fact::Created { .. } => ("created", "the session was created"),
            Fact::Appended { .. } => ("appended", "a message was added to a branch"),
            Fact::BranchSet { .. } => ("branch_set", "a branch was created, or moved to a message"),
            Fact::Counted { .. } => ("counted", "the tokens of messages were counted"),
            Fact::PreambleCounted { .. } => (
                "preamble_counted",
                "the tokens of the system text and the tools were counted",
            ),
            Fact::Defined { .. } => ("defined", "the definition of an agent was recorded"),
            Fact::TurnAccepted { .. } => (
                "turn_accepted",
                "a turn was accepted; from here on it is not lost",
            ),
            Fact::TurnStarted { .. } => ("turn_started", "work on the turn began"),
            Fact::CompactionPlanned { .. } => {
                ("compaction_planned", "a step of a compaction was planned")
            }
            Fact::Altered { .. } => ("altered", "messages were masked or cut in the context"),
            Fact::Compacted { .. } => ("compacted", "a summary was stored as a checkpoint"),
            Fact::CompactionFailed { .. } => ("compaction_failed", "a step of a compaction failed"),
            Fact::SummariserUsed { .. } => {
                ("summariser_used", "the calls of a summariser were charged")
            }
            Fact::Frozen { .. } => (
                "frozen",
                "the context was frozen; all agents of the turn get this snapshot",
            ),
            Fact::RunOpened { .. } => ("run_opened", "the run of an agent was opened"),
            Fact::RunStepped { .. } => (
                "run_stepped",
                "an agent finished a step: a reply, results of tools, a summary of its oldest rounds",
            ),
            Fact::Delegated { .. } => ("delegated", "an agent delegated tasks"),
            Fact::RunRetried { .. } => {
                ("run_retried", "an attempt failed, and another one follows")
            }
            Fact::RunEnded { .. } => (
                "run_ended",
                "a run ended: with an answer, a partial answer, or a failure",
            ),
            Fact::TurnEnded { .. } => ("turn_ended", "the turn ended"),
            Fact::LateOutputReceived { .. } => (
                "late_output_received",
                "a late result of a cancelled run arrived",
            ),
            Fact::Pinned { .. } => ("pinned", "messages were pinned"),
            Fact::Unpinned { .. } => ("unpinned", "messages were unpinned"),
            Fact::Reverted { .. } => ("reverted", "a checkpoint was reverted"),
            Fact::PhrasesSet { .. } => {
                ("phrases_set", "the phrases that end a topic were recorded")
            }
            Fact::InstructionsSet { .. } => (
                "instructions_set",
                "the instructions of the project for every agent were recorded",
            ),
            Fact::TopicsDecided { .. } => ("topics_decided", "the ends of topics were decided"),
            Fact::TopicSealed { .. } => ("topic_sealed", "a person sealed a topic"),
            Fact::TopicsImported { .. } => (
                "topics_imported",
                "topics came with an imported conversation",
            ),
            Fact::Measured { .. } => ("measured", "a provider counted the context"),
            Fact::ToolRulesSet { .. } => (
                "tool_rules_set",
                "the contracts of tools and the approval rules were recorded",
            ),
            Fact::ToolsCalled { .. } => (
                "tools_called",
                "an agent called tools; no call has been made yet",
            ),
            Fact::ToolStarted { .. } => ("tool_started", "a tool call was started"),
            Fact::ToolTaskStarted { .. } => ("tool_task_started", "a tool call became a task"),
            Fact::ToolEnded { .. } => ("tool_ended", "a tool call ended"),
            Fact::ToolsAnswered { .. } => (
                "tools_answered",
                "an agent got the results of all tool calls of a reply",
            ),
            Fact::ToolInDoubt { .. } => (
                "tool_in_doubt",
                "a tool call may have been made before a crash; a person must decide it",
            ),
            Fact::ToolDecided { .. } => ("tool_decided", "a tool call was decided, or it expired"),
            Fact::Reserved { .. } => ("reserved", "budget was reserved for a model call"),
            Fact::CallSettled { .. } => ("call_settled", "the actual use replaced a reservation"),
            Fact::Posted { .. } => ("posted", "a message was posted without a turn"),
            Fact::CallCapSet { .. } => (
                "call_cap_set",
                "the maximum number of tool calls in one reply was recorded",
            ),
            Fact::HookAnswered { .. } => ("hook_answered", "a hook answered or failed"),
            Fact::PreparationPlanned { .. } => (
                "preparation_planned",
                "a summary is written ahead, because the next turn will probably need it",
            ),
            Fact::SummaryPrepared { .. } => (
                "summary_prepared",
                "a summary that was written ahead is ready",
            ),
            Fact::PreparationDropped { .. } => (
                "preparation_dropped",
                "a summary that was written ahead will not be used",
            ),
            Fact::SettingsSet { .. } => ("settings_set", "the session's own settings were changed"),
        }
    }
}
